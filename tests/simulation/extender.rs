//! An extender: pods that request its resource need it, and it can fail or hang.

use std::time::Duration;

use engine::cycle;
use engine::ports::{CallError, ExtenderCall, ExtenderClient, Filtered, Probing};
use framework::Time;

use super::coverage::Fault;

/// The resource that the extender manages. No node has it, and NodeResourcesFit ignores it.
pub(crate) const RESOURCE: &str = "example.com/widget";
/// Time after which a call is given up.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The extender, with what happened in its calls.
#[derive(Debug, Default)]
pub(crate) struct Extender {
    /// The fault of every call, if there is one.
    pub(crate) fault: Option<Fault>,
    /// The time for which calls have blocked the process.
    pub(crate) blocked: Duration,
    /// Number of calls that failed.
    pub(crate) failures: u32,
    /// The extenders that are called without waiting, by index.
    pub(crate) probed: Vec<usize>,
}

impl Extender {
    /// Returns the configuration for the engine.
    pub(crate) fn config() -> cycle::Extender {
        cycle::Extender {
            name: "http://extender.example.com".into(),
            filter: true,
            managed_resources: [RESOURCE.to_owned()].into(),
            ..cycle::Extender::default()
        }
    }
}

impl ExtenderClient for Extender {
    fn filter(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<Filtered, CallError>, Time) {
        let nodes = call.nodes.iter().map(|node| (*node).to_owned()).collect();
        match self.fault {
            None => (Ok(Filtered { nodes, ..Filtered::default() }), now),
            Some(Fault::ExtenderHangs) => {
                self.failures += 1;
                self.blocked += TIMEOUT;
                (Err(CallError::NoAnswer("timeout".to_owned())), now + TIMEOUT)
            }
            Some(_) => {
                self.failures += 1;
                (Err(CallError::Failed("the extender is out of order".to_owned())), now)
            }
        }
    }

    fn probe(&mut self, call: Probing<'_>) {
        self.probed.push(match call {
            Probing::Filter(call) | Probing::Prioritize(call) => call.extender,
            Probing::Preempt(call) => call.extender,
        });
    }
}
