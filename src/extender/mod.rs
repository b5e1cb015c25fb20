//! Scheduler extenders over HTTP.
//!
//! The engine calls extenders through a port, [`ExtenderClient`], which blocks the scheduling loop
//! until the response arrives or the timeout ends. An extender that did not answer is tried again
//! by calls that do not block. Binds are ordinary requests and do not block the loop. The messages
//! are in [`control::extender`].

mod connection;
mod dry_run;
mod objects;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::Reply;
use control::extender::{self as messages, Candidates, Nodes, WholeVictims};
use engine::Change;
use engine::ports::{
    CallError, ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, Outage,
    PreemptionCall, Probing, Victims,
};
use framework::Time;
use futures::FutureExt;
use futures::future::join_all;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::connection::Connection;
use self::objects::Objects;
use crate::clock::Clock;
use crate::config::Configuration;
use crate::config::v1;
use crate::metrics::Metrics;
use crate::scheduling_loop::{EventSender, Heartbeat, LoopEvent};
use crate::wire::Whole;

pub use self::connection::ExtenderError;
pub use self::dry_run::{DryRunError, of_dry_runs};

/// A configured extender and its connection.
#[derive(Debug)]
pub struct HttpExtender {
    config: v1::Extender,
    connection: Connection,
}

impl HttpExtender {
    fn new(config: v1::Extender) -> Result<Self, ExtenderError> {
        let connection = Connection::new(&config)?;
        Ok(Self { config, connection })
    }

    /// Asks the extender to bind a pod. [`messages::binding_args`] makes the body.
    pub async fn bind(&self, body: Vec<u8>) -> Reply {
        self.connection.post(&self.config.bind_verb, Bytes::from(body)).await
    }
}

/// How the scheduling loop waits for extenders.
#[derive(Debug, Clone)]
pub struct LoopWait {
    /// The runtime whose tasks connect to the extenders.
    pub runtime: Handle,
    /// The heartbeat of the loop.
    pub heartbeat: Arc<Heartbeat>,
    /// Cancelled when the daemon has to stop.
    pub stop: CancellationToken,
    /// The channel to the loop, for the outcome of calls for which it does not wait.
    pub events: EventSender,
}

/// The result of a call.
type Called<T> = Result<T, CallError>;

/// The error of a call that the end of the daemon cancelled.
const STOPPED: &str = "context canceled: the scheduler stops";

/// Time between two beats of a loop that waits.
const BEAT: Duration = Duration::from_secs(1);

impl LoopWait {
    /// Blocks the loop until the call has ended. The wait counts as turns of the loop, because
    /// every call has a time limit of its own. A daemon that has to stop does not wait.
    fn block_on<T>(&self, call: impl Future<Output = Called<T>>) -> Called<T> {
        let call = self.stop.run_until_cancelled(self.beating(call));
        self.runtime.block_on(call).unwrap_or_else(|| Err(CallError::Failed(STOPPED.to_owned())))
    }

    async fn beating<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        loop {
            match timeout(BEAT, &mut call).await {
                Ok(result) => return result,
                Err(_) => self.heartbeat.beat(),
            }
        }
    }
}

/// All extenders in the order in which they are called, and the objects sent to them.
pub struct Extenders {
    all: Arc<[HttpExtender]>,
    objects: Objects,
    wait: LoopWait,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Extenders {
    /// Creates the extenders of a configuration. Each one connects with its first call.
    ///
    /// # Errors
    /// The address or the TLS settings of an extender are invalid.
    pub fn new(
        config: &Configuration,
        wait: LoopWait,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ExtenderError> {
        Ok(Self::of(Self::connections(config)?, wait, clock, metrics))
    }

    /// Returns the extenders of a configuration in calling order.
    fn connections(config: &Configuration) -> Result<Arc<[HttpExtender]>, ExtenderError> {
        config.extenders_in_order().cloned().map(HttpExtender::new).collect()
    }

    fn of(all: Arc<[HttpExtender]>, wait: LoopWait, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self { all, objects: Objects::default(), wait, clock, metrics }
    }

    /// Returns the extenders, for binds.
    pub fn all(&self) -> Arc<[HttpExtender]> {
        self.all.clone()
    }

    /// Returns the objects whose JSON the extenders need.
    pub fn needs(&self) -> Whole {
        let mut needs = Whole::default();
        for config in self.all.iter().map(|extender| &extender.config) {
            let preempts = !config.preempt_verb.is_empty();
            let filters_or_prioritizes =
                !config.filter_verb.is_empty() || !config.prioritize_verb.is_empty();
            needs.pending_pods |= filters_or_prioritizes || preempts;
            needs.nodes |= filters_or_prioritizes && !config.node_cache_capable;
            needs.placed_pods |= preempts && !config.node_cache_capable;
        }
        needs
    }

    /// Returns how long the calls of one attempt to schedule a pod take at most: one after the
    /// other to filter, then all at once to score or one after the other to preempt.
    pub fn longest_attempt(&self) -> Duration {
        let timeouts = |verb: fn(&v1::Extender) -> &str| {
            let called = self.all.iter().filter(move |extender| !verb(&extender.config).is_empty());
            called.map(|extender| extender.connection.timeout())
        };
        let filter: Duration = timeouts(|config| &config.filter_verb).sum();
        let prioritize = timeouts(|config| &config.prioritize_verb).max().unwrap_or_default();
        let preempt: Duration = timeouts(|config| &config.preempt_verb).sum();
        filter + prioritize.max(preempt)
    }

    /// Sees a change that goes to the engine, and keeps its object.
    pub fn see(&mut self, change: &Change, object: Option<Box<RawValue>>) {
        self.objects.see(change, object);
    }

    /// Returns the body of a filter or prioritize call.
    fn args(&self, call: &ExtenderCall<'_>) -> Result<Bytes, String> {
        let pod = self.objects.pod(call.pod)?;
        let nodes = match self.all[call.extender].config.node_cache_capable {
            true => Nodes::Names(&call.nodes),
            false => {
                let nodes = call.nodes.iter().map(|name| self.objects.node(name));
                Nodes::Whole(nodes.collect::<Result<_, _>>()?)
            }
        };
        Ok(messages::args(pod, nodes).into())
    }

    /// Returns the body of a preempt call.
    fn preemption_args(&self, call: &PreemptionCall<'_>) -> Result<Bytes, String> {
        let candidates = match self.all[call.extender].config.node_cache_capable {
            true => Candidates::Meta(&call.victims),
            false => {
                let victims = call.victims.iter();
                let victims =
                    victims.map(|(node, victims)| Ok((*node, self.victim_objects(victims)?)));
                Candidates::Whole(victims.collect::<Result<_, String>>()?)
            }
        };
        Ok(messages::preemption_args(self.objects.pod(call.pod)?, candidates).into())
    }

    async fn send_filter(&self, call: &ExtenderCall<'_>) -> Called<Filtered> {
        let HttpExtender { config, connection } = &self.all[call.extender];
        let decode = |body: &[u8]| messages::filter_result(body, config.node_cache_capable);
        connection.call(&config.filter_verb, self.args(call)?, decode).await
    }

    async fn send_prioritize(&self, call: &ExtenderCall<'_>) -> Called<HostPriorities> {
        let HttpExtender { config, connection } = &self.all[call.extender];
        let verb = &config.prioritize_verb;
        let result = connection.call(verb, self.args(call)?, messages::host_priorities).await;
        if let Err(CallError::NoAnswer(err) | CallError::Failed(err)) = &result {
            let (extender, pod) = (connection.address(), &call.pod.key);
            debug!(
                extender,
                err, %pod, "Failed to run extender's priority function. No score given by this extender."
            );
        }
        result
    }

    /// Returns the scores of one extender.
    fn score(&self, call: &ExtenderCall<'_>) -> Called<HostPriorities> {
        self.wait.block_on(self.send_prioritize(call))
    }

    async fn send_preempt(
        &self,
        call: &PreemptionCall<'_>,
    ) -> Called<BTreeMap<String, MetaVictims>> {
        let HttpExtender { config, connection } = &self.all[call.extender];
        let body = self.preemption_args(call)?;
        connection.call(&config.preempt_verb, body, messages::preemption_result).await
    }

    fn victim_objects(&self, victims: &Victims<'_>) -> Result<WholeVictims<'_>, String> {
        let pods = victims.pods.iter().map(|pod| self.objects.pod(pod));
        let pods = pods.collect::<Result<_, _>>()?;
        Ok(WholeVictims { pods, num_pdb_violations: victims.num_pdb_violations })
    }
}

impl ExtenderClient for Extenders {
    fn filter(&mut self, call: &ExtenderCall<'_>, _: Time) -> (Called<Filtered>, Time) {
        let result = self.wait.block_on(self.send_filter(call));
        (result, self.clock.now())
    }

    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        _: Time,
    ) -> (Vec<Called<HostPriorities>>, Time) {
        self.metrics.set_prioritizing(calls.len());
        let pending = calls.iter().map(|call| self.send_prioritize(call));
        let results = self.wait.block_on(join_all(pending).map(Ok));
        self.metrics.set_prioritizing(0);
        let results = results.unwrap_or_else(|error| vec![Err(error); calls.len()]);
        (results, self.clock.now())
    }

    fn process_preemption(
        &mut self,
        call: &PreemptionCall<'_>,
        _: Time,
    ) -> (Called<BTreeMap<String, MetaVictims>>, Time) {
        let result = self.wait.block_on(self.send_preempt(call));
        (result, self.clock.now())
    }

    fn probe(&mut self, call: Probing<'_>) {
        let extender = match call {
            Probing::Filter(call) | Probing::Prioritize(call) => call.extender,
            Probing::Preempt(call) => call.extender,
        };
        let config = &self.all[extender].config;
        let (verb, body) = match call {
            Probing::Filter(call) => (&config.filter_verb, self.args(call)),
            Probing::Prioritize(call) => (&config.prioritize_verb, self.args(call)),
            Probing::Preempt(call) => (&config.preempt_verb, self.preemption_args(call)),
        };
        let (all, verb, events) = (self.all.clone(), verb.clone(), self.wait.events.clone());
        self.wait.runtime.spawn(async move {
            let outcome = match body {
                Ok(body) => all[extender].connection.probe(&verb, body).await,
                Err(error) => Err(error),
            };
            events.send(LoopEvent::ExtenderProbed(extender, outcome));
        });
    }

    fn skipped(&mut self, extender: usize, err: &str) {
        let extender = self.all[extender].connection.address();
        info!(extender, err, "Skipping extender as it returned error and has ignorable flag set");
    }

    fn outage_changed(&mut self, extender: usize, outage: Option<&Outage>) {
        let extender = self.all[extender].connection.address();
        match outage {
            Some(Outage { error: err, .. }) => {
                warn!(extender, err, "Extender does not answer and is not called until it does");
            }
            None => info!(extender, "Extender answers again"),
        }
    }
}

#[cfg(test)]
mod tests;
