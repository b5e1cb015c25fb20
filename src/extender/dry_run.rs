//! Extenders that a dry run calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::dry_run::ExtenderSettings;
use engine::ports::{
    CallError, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, PreemptionCall,
};
use framework::{PodKey, Time};
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::connection::ExtenderError;
use super::{Called, Extenders, HttpExtender, LoopWait};
use crate::clock::Clock;
use crate::config::Configuration;
use crate::metrics::Metrics;
use crate::scheduling_loop::channel;
use crate::wire::Whole;

/// A reason why a dry run cannot call extenders.
#[derive(Debug, thiserror::Error)]
pub enum DryRunError {
    /// An extender of the configuration cannot be called.
    #[error("couldn't build extenders: {0}")]
    Extender(#[from] ExtenderError),
    /// No thread can be started.
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
}

/// Returns the extenders of a configuration for dry runs, and the objects that are sent to them.
///
/// # Errors
/// The address or the TLS settings of an extender are invalid.
pub fn of_dry_runs(config: &Configuration) -> Result<(ExtenderSettings, Whole), DryRunError> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = Arc::new(runtime.map_err(DryRunError::Runtime)?);
    let all = Extenders::connections(config)?;
    let needs = client(&runtime, &all).extenders.needs();
    let connect = move || -> Box<dyn ::dry_run::Extenders> { Box::new(client(&runtime, &all)) };
    let extenders = config.engine_extenders();
    Ok((ExtenderSettings { extenders, connect: Arc::new(connect) }, needs))
}

fn client(runtime: &Arc<Runtime>, all: &Arc<[HttpExtender]>) -> DryRunClient {
    let wait = LoopWait {
        runtime: runtime.handle().clone(),
        heartbeat: Arc::default(),
        stop: CancellationToken::new(),
        events: channel().0,
    };
    DryRunClient {
        extenders: Extenders::of(all.clone(), wait, Clock::start(), Arc::new(Metrics::default())),
        calls: BTreeMap::new(),
        _runtime: runtime.clone(),
    }
}

/// The client of one dry run. Calls take no virtual time. An extender that did not answer within
/// its time limit is not called again.
struct DryRunClient {
    extenders: Extenders,
    /// The calls of each extender, by its index.
    calls: BTreeMap<usize, Calls>,
    /// Runs the connections.
    _runtime: Arc<Runtime>,
}

/// The calls of one extender.
#[derive(Debug, Default)]
struct Calls {
    made: usize,
    failed: usize,
    first_error: String,
    is_silent: bool,
}

impl Calls {
    /// Counts a call and its outcome.
    fn note<T>(&mut self, outcome: &Called<T>) {
        self.made += 1;
        let Err(CallError::NoAnswer(error) | CallError::Failed(error)) = outcome else { return };
        self.is_silent |= matches!(outcome, Err(CallError::NoAnswer(_)));
        if self.failed == 0 {
            self.first_error.clone_from(error);
        }
        self.failed += 1;
    }
}

impl DryRunClient {
    /// Returns the outcome of a call to an extender, which is made unless an earlier one had no
    /// answer.
    fn call<T>(
        &mut self,
        extender: usize,
        call: impl FnOnce(&mut Extenders) -> Called<T>,
    ) -> Called<T> {
        if let Some(error) = self.silence(extender) {
            return Err(error);
        }
        let outcome = call(&mut self.extenders);
        self.calls.entry(extender).or_default().note(&outcome);
        // The engine would try the extender again after a pause, which virtual time does not have.
        outcome.map_err(|error| CallError::Failed(error.into_text()))
    }

    /// Returns the error of a call that is not made.
    fn silence(&self, extender: usize) -> Option<CallError> {
        let calls = self.calls.get(&extender).filter(|calls| calls.is_silent)?;
        Some(CallError::Failed(format!("an earlier call had no answer: {}", calls.first_error)))
    }

    fn warning(&self, extender: usize, calls: &Calls) -> String {
        let Calls { made, failed, first_error, is_silent } = calls;
        let address = self.extenders.all[extender].connection.address();
        let rest = if *is_silent { "; it was not called again" } else { "" };
        format!(
            "extender {address}: {failed} of {made} calls failed, the first with: {first_error}{rest}"
        )
    }
}

impl ExtenderClient for DryRunClient {
    fn filter(&mut self, call: &ExtenderCall<'_>, now: Time) -> (Called<Filtered>, Time) {
        (self.call(call.extender, |extenders| extenders.filter(call, now).0), now)
    }

    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        now: Time,
    ) -> (Vec<Called<HostPriorities>>, Time) {
        let score =
            |call: &ExtenderCall<'_>| self.call(call.extender, |extenders| extenders.score(call));
        (calls.iter().map(score).collect(), now)
    }

    fn process_preemption(
        &mut self,
        call: &PreemptionCall<'_>,
        now: Time,
    ) -> (Called<BTreeMap<String, MetaVictims>>, Time) {
        let process = |extenders: &mut Extenders| extenders.process_preemption(call, now).0;
        (self.call(call.extender, process), now)
    }
}

impl ::dry_run::Extenders for DryRunClient {
    fn keep_node(&mut self, name: Arc<str>, object: Box<RawValue>) {
        self.extenders.objects.keep_node(name, object);
    }

    fn keep_pod(&mut self, pod: PodKey, object: Box<RawValue>) {
        self.extenders.objects.keep_pod(pod, object);
    }

    fn warnings(&self) -> Vec<String> {
        let failed = self.calls.iter().filter(|(_, calls)| calls.failed > 0);
        failed.map(|(extender, calls)| self.warning(*extender, calls)).collect()
    }
}
