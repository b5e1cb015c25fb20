//! The two ways out of a cycle: asking an extender, and telling how long things took.

use std::time::Duration;

use framework::{ClusterEvent, Code, ExtensionPoint, PluginName, Pod, Time};

/// A synchronous question to a scheduler extender.
#[derive(Debug)]
pub struct ExtenderCall<'a> {
    /// Which of the configured extenders is asked, by its place in the configuration.
    pub extender: usize,
    /// The pod to schedule.
    pub pod: &'a Pod,
    /// Names of the nodes in question.
    pub nodes: Vec<&'a str>,
    /// What is asked.
    pub verb: ExtenderVerb,
}

/// What an extender can be asked inside a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtenderVerb {
    /// Which nodes can take the pod.
    Filter,
    /// How good the nodes are, 0 to 10 each.
    Prioritize,
}

/// The answer of an extender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtenderAnswer {
    /// To [`ExtenderVerb::Filter`].
    Filtered {
        /// Nodes that can take the pod.
        nodes: Vec<String>,
        /// Nodes that cannot, with the reason.
        failed: Vec<(String, String)>,
        /// Nodes that cannot, and evicting pods would not help.
        failed_and_unresolvable: Vec<(String, String)>,
    },
    /// To [`ExtenderVerb::Prioritize`]: scores of 0 to 10.
    Prioritized(Vec<(String, i64)>),
}

/// The one synchronous way out of a cycle. The daemon asks over HTTP and blocks, a simulation answers
/// from a model. Returns the answer and the time at which it came.
pub trait Outside {
    /// Asks an extender.
    fn extend(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<ExtenderAnswer, String>, Time);
}

/// No extender answers.
impl Outside for () {
    fn extend(
        &mut self,
        call: &ExtenderCall<'_>,
        now: Time,
    ) -> (Result<ExtenderAnswer, String>, Time) {
        (Err(format!("no extender {} is connected", call.extender)), now)
    }
}

/// A stretch of work whose duration is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span<'a> {
    /// A whole scheduling attempt for a pod of this profile.
    Attempt(&'a str),
    /// Filtering and scoring within an attempt.
    Algorithm,
    /// All plugins of one extension point, for a pod of this profile.
    Point(ExtensionPoint, &'a str),
    /// One plugin at one extension point.
    Plugin(ExtensionPoint, &'a PluginName),
    /// A queueing hint of a plugin, asked about an event.
    Hint(&'a PluginName, &'a ClusterEvent),
    /// Putting an event to the pods that it may help.
    Event(&'a ClusterEvent),
}

/// Something that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count<'a> {
    /// A pod enters a queue (`queue_incoming_pods_total`).
    Incoming {
        /// `active`, `backoff` or `unschedulable`.
        queue: &'static str,
        /// What brought it there.
        event: &'a str,
    },
    /// An attempt ended (`schedule_attempts_total`).
    Attempt {
        /// `scheduled`, `unschedulable` or `error`.
        result: &'static str,
        /// Scheduler name of the profile.
        profile: &'a str,
    },
    /// A pod was bound.
    Scheduled {
        /// Scheduler name of the profile.
        profile: &'a str,
        /// Attempts it took.
        attempts: u32,
        /// Time since the last of them began, waits in Permit and PreBind included.
        took: Duration,
        /// Time since the pod first entered the active queue.
        since_first_active: Duration,
        /// No event had helped it before that attempt; it was tried because it had waited for too long.
        after_flush: bool,
    },
    /// A request to bind was answered.
    Bind {
        /// Scheduler name of the profile.
        profile: &'a str,
        /// How it ended.
        code: Code,
        /// How long it took.
        took: Duration,
    },
    /// A pod waited in Permit.
    PermitWait {
        /// What came of it.
        code: Code,
        /// For how long.
        waited: Duration,
    },
    /// A plugin panicked; the attempt failed, the engine lives.
    Panic {
        /// The plugin.
        plugin: &'a PluginName,
    },
}

/// A write-only port for metrics: decisions cannot read it. Every method does nothing by default.
pub trait Probe {
    /// Work starts.
    fn start(&mut self, span: Span<'_>) {
        let _ = span;
    }

    /// The work that started last under this span ends.
    fn stop(&mut self, span: Span<'_>, code: Code) {
        let _ = (span, code);
    }

    /// Something happened.
    fn count(&mut self, count: Count<'_>) {
        let _ = count;
    }
}

/// Measures nothing.
impl Probe for () {}

/// Both ports, for the duration of one call into the engine.
pub struct Ports<'a> {
    /// Extenders.
    pub outside: &'a mut dyn Outside,
    /// Measurements.
    pub probe: &'a mut dyn Probe,
}
