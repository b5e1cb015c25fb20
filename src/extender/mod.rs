//! Scheduler extenders over HTTP.
//!
//! The engine asks through its port [`ExtenderClient`], on the scheduling loop's own thread, which blocks until
//! the answer is there or late; binds are requests like any other and block nobody. What is said
//! stands in [`client::extender`].

mod connection;
mod objects;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use client::Reply;
use client::extender::{self as wire, Candidates, Nodes, WholeVictims};
use engine::Change;
use engine::ports::{
    ExtenderCall, ExtenderClient, Filtered, HostPriorities, MetaVictims, PreemptionCall, Victims,
};
use framework::Time;
use futures::future::join_all;
use tokio::runtime::Handle;
use tracing::{debug, info};

use self::connection::Connection;
use self::objects::Objects;
use crate::config::Configuration;
use crate::config::v1;
use crate::drive::Clock;
use crate::metrics::Metrics;
use crate::wire::{Update, Whole};

pub use self::connection::ExtenderError;

/// A configured extender, with the way to it.
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

    /// Sends a question, and reads the answer with `read`.
    async fn ask<T>(
        &self,
        verb: &str,
        body: Vec<u8>,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, String> {
        match self.connection.post(verb, body.into()).await {
            Reply::Answered(response) => read(&response.body),
            Reply::Refused(text) | Reply::NotSent(text) | Reply::Lost(text) => Err(text),
        }
    }

    /// Orders it to bind a pod, with the body of [`wire::binding_args`].
    pub async fn bind(&self, body: Vec<u8>) -> Reply {
        self.connection.post(&self.config.bind_verb, Bytes::from(body)).await
    }
}

/// The extenders in the order in which they are asked, and what they have to be told.
pub struct Extenders {
    all: Arc<[HttpExtender]>,
    objects: Objects,
    runtime: Handle,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Extenders {
    /// The extenders of a configuration; connections are made when first used. Questions are sent by
    /// `runtime`.
    ///
    /// # Errors
    /// An address or the TLS settings of one of them cannot be used.
    pub fn new(
        config: &Configuration,
        runtime: Handle,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ExtenderError> {
        let all = config.extenders_in_order().cloned().map(HttpExtender::new);
        let all = all.collect::<Result<_, _>>()?;
        Ok(Self { all, objects: Objects::default(), runtime, clock, metrics })
    }

    /// The extenders, for whoever orders them to bind.
    pub fn all(&self) -> Arc<[HttpExtender]> {
        self.all.clone()
    }

    /// The objects that have to be kept whole for them.
    pub fn needs(&self) -> Whole {
        let mut needs = Whole::default();
        for config in self.all.iter().map(|extender| &extender.config) {
            let preempts = !config.preempt_verb.is_empty();
            let rates = !config.filter_verb.is_empty() || !config.prioritize_verb.is_empty();
            needs.pending_pods |= rates || preempts;
            needs.nodes |= rates && !config.node_cache_capable;
            needs.placed_pods |= preempts && !config.node_cache_capable;
        }
        needs
    }

    /// Takes in what an update says for the extenders, and gives what it says for the engine.
    pub fn take(&mut self, update: Update) -> Change {
        self.objects.take(update)
    }

    /// The body of a question about nodes.
    fn args(&self, call: &ExtenderCall<'_>) -> Result<Vec<u8>, String> {
        let pod = self.objects.pod(call.pod)?;
        let nodes = match self.all[call.extender].config.node_cache_capable {
            true => Nodes::Names(&call.nodes),
            false => {
                let nodes = call.nodes.iter().map(|name| self.objects.node(name));
                Nodes::Whole(nodes.collect::<Result<_, _>>()?)
            }
        };
        Ok(wire::args(pod, nodes))
    }

    async fn filter_by(&self, call: &ExtenderCall<'_>) -> Result<Filtered, String> {
        let extender = &self.all[call.extender];
        let capable = extender.config.node_cache_capable;
        let read = |body: &[u8]| wire::filter_result(body, capable);
        extender.ask(&extender.config.filter_verb, self.args(call)?, read).await
    }

    async fn prioritize_by(&self, call: &ExtenderCall<'_>) -> Result<HostPriorities, String> {
        let extender = &self.all[call.extender];
        let verb = &extender.config.prioritize_verb;
        let answer = extender.ask(verb, self.args(call)?, wire::host_priorities).await;
        if let Err(err) = &answer {
            let (extender, pod) = (extender.connection.address(), &call.pod.key);
            debug!(
                extender,
                err, %pod, "Failed to run extender's priority function. No score given by this extender."
            );
        }
        answer
    }

    async fn preempt_by(
        &self,
        call: &PreemptionCall<'_>,
    ) -> Result<BTreeMap<String, MetaVictims>, String> {
        let extender = &self.all[call.extender];
        let candidates = match extender.config.node_cache_capable {
            true => Candidates::Meta(&call.victims),
            false => {
                let victims = call.victims.iter();
                let victims = victims.map(|(node, victims)| Ok((*node, self.whole(victims)?)));
                Candidates::Whole(victims.collect::<Result<_, String>>()?)
            }
        };
        let body = wire::preemption_args(self.objects.pod(call.pod)?, candidates);
        extender.ask(&extender.config.preempt_verb, body, wire::preemption_result).await
    }

    fn whole(&self, victims: &Victims<'_>) -> Result<WholeVictims<'_>, String> {
        let pods = victims.pods.iter().map(|pod| self.objects.pod(pod));
        let pods = pods.collect::<Result<_, _>>()?;
        Ok(WholeVictims { pods, num_pdb_violations: victims.num_pdb_violations })
    }
}

impl ExtenderClient for Extenders {
    fn filter(&mut self, call: &ExtenderCall<'_>, _: Time) -> (Result<Filtered, String>, Time) {
        let answer = self.runtime.block_on(self.filter_by(call));
        (answer, self.clock.now())
    }

    fn prioritize(
        &mut self,
        calls: &[ExtenderCall<'_>],
        _: Time,
    ) -> (Vec<Result<HostPriorities, String>>, Time) {
        self.metrics.set_prioritizing(calls.len());
        let asked = calls.iter().map(|call| self.prioritize_by(call));
        let answers = self.runtime.block_on(join_all(asked));
        self.metrics.set_prioritizing(0);
        (answers, self.clock.now())
    }

    fn process_preemption(
        &mut self,
        call: &PreemptionCall<'_>,
        _: Time,
    ) -> (Result<BTreeMap<String, MetaVictims>, String>, Time) {
        let answer = self.runtime.block_on(self.preempt_by(call));
        (answer, self.clock.now())
    }

    fn skipped(&mut self, extender: usize, err: &str) {
        let extender = self.all[extender].connection.address();
        info!(extender, err, "Skipping extender as it returned error and has ignorable flag set");
    }
}

#[cfg(test)]
mod tests;
