//! The agent of a member cluster.
//!
//! The agent owns an [`Engine`] that watches the cluster. Samples and conflict checks run the
//! plugins of one profile of that engine, so that they respect taints, spread, affinity, volumes
//! and devices of the cluster.
//!
//! - `strategy`: which nodes a sample looks at.
//! - `sampling`: the sampling pipeline.
//! - `commits`: the binding pipeline: check, hold the room, create the delegate, bind it.
//! - `delegates`: the delegates for schedulers that mirror them.
//! - `diagnosis`: why nodes cannot take a pod.
//! - `journal`: what became of the commits of each pod.
//! - `leases`: which delegates may run without word from the management cluster, and how long.
//!
//! Inputs are methods that get the time. The requests of the agent are taken with
//! [`Agent::take_outputs`].

mod checks;
mod commits;
mod delegates;
mod diagnosis;
mod journal;
mod leases;
mod sampling;
mod strategy;
#[cfg(all(test, feature = "simulation"))]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use engine::{Change, Effect, EffectId, Engine, Input};
use framework::{Answer, Cluster, Pod, PodKey, Time, Uid};

pub use engine::decide::DrawNodes;

pub use self::checks::{CheckConflicts, CommitView, NamedCheck};
pub use self::delegates::{DelegateTable, MAX_EVENTS};
pub use self::strategy::{
    All, Best, Random, RoundRobin, SamplingStrategy, Source, Strategies, sample_size,
};

use self::commits::Undoing;
use self::journal::Journal;
use self::leases::Leases;
use crate::delegate::DelegateMark;
use crate::message::{
    CommitOutcome, CommitRequest, PodObject, Refusal, RefusalCode, Response, SealOutcome,
};

/// A request to an agent, as the caller numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A write or read of a delegate, under the number that its answer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(u64);

/// The configuration of an agent.
#[derive(Clone)]
pub struct AgentConfig {
    /// Identifies the cluster: the UID of its namespace `kube-system`.
    pub cluster: Arc<str>,
    /// A text that no earlier start of the agent had.
    pub incarnation: Arc<str>,
    /// Scheduler name of the profile that samples, checks and binds.
    pub profile: Arc<str>,
    /// The sampling strategies.
    pub strategies: Strategies,
    /// Checks in addition to the Filter plugins of the profile.
    pub checks: Vec<NamedCheck>,
    /// Longest age of a sample that a commit may rest on.
    pub max_sample_age: Duration,
    /// When each lease was renewed last, as an earlier incarnation has stored it.
    pub renewed: BTreeMap<Arc<str>, Time>,
    /// Seed of the random choices.
    pub seed: u64,
}

impl AgentConfig {
    /// The defaults for a cluster.
    pub fn new(cluster: &str, incarnation: &str, profile: &str) -> Self {
        Self {
            cluster: cluster.into(),
            incarnation: incarnation.into(),
            profile: profile.into(),
            strategies: Strategies::default(),
            checks: Vec::new(),
            max_sample_age: Duration::from_mins(1),
            renewed: BTreeMap::new(),
            seed: 0,
        }
    }
}

/// A request of an agent to its caller.
#[derive(Debug)]
pub enum AgentOutput {
    /// Send this answer to a request.
    Reply(CallId, Response),
    /// Carry out an effect of the engine; the answer is passed to [`Agent::effect_answered`].
    Effect(Effect),
    /// Create the delegate of a pod; the answer is passed to [`Agent::write_answered`], as for the
    /// rest.
    Create {
        /// Number of the write.
        id: WriteId,
        /// The original pod.
        pod: PodObject,
        /// The mark of the delegate.
        mark: DelegateMark,
    },
    /// Read a pod.
    Read {
        /// Number of the read.
        id: WriteId,
        /// Namespace and name.
        pod: PodKey,
    },
    /// Create copies of objects that the pod names, owned by its delegate. There is no answer.
    Copy {
        /// UID of the delegate.
        delegate: Uid,
        /// The commit, with the pod, its management cluster and the objects.
        request: Arc<CommitRequest>,
    },
    /// Delete a pod that is not bound. UID and resourceVersion are preconditions.
    Delete {
        /// Number of the write.
        id: WriteId,
        /// Namespace and name.
        pod: PodKey,
        /// UID.
        uid: Uid,
        /// `metadata.resourceVersion`.
        resource_version: u64,
    },
    /// Delete a delegate whose lease has ended, bound or not. The UID is a precondition.
    Fence {
        /// Number of the write.
        id: WriteId,
        /// Namespace and name.
        pod: PodKey,
        /// UID.
        uid: Uid,
    },
    /// Store when each lease was renewed, for the next incarnation.
    KeepLeases {
        /// Number of the write.
        id: WriteId,
        /// The leases by UID.
        renewed: BTreeMap<Arc<str>, Time>,
    },
}

/// The answer to a write or read of a delegate.
#[derive(Debug, Clone)]
pub enum WriteAnswer {
    /// The pod as it was created or read.
    Pod(Arc<Pod>, Option<DelegateMark>),
    /// The write was carried out.
    Done,
    /// No pod has the name, or the UID.
    NotFound,
    /// A pod of the name exists, or a precondition failed.
    Conflict,
    /// The API server refused the write.
    Refused(String),
    /// The answer was lost.
    Unknown(String),
}

/// The agent of a member cluster.
pub struct Agent {
    config: AgentConfig,
    engine: Engine,
    /// Whether the engine knows all objects of the cluster.
    synced: bool,
    journal: Journal,
    /// Delegates that are not bound and are being deleted.
    undoing: BTreeMap<Uid, Undoing>,
    leases: Leases,
    /// Delegates that are being deleted.
    ending: BTreeSet<Uid>,
    /// The purpose of each write or read.
    writes: BTreeMap<WriteId, commits::Purpose>,
    /// Writes to repeat, by time.
    retries: BTreeMap<(Time, WriteId), commits::Purpose>,
    next_write: u64,
    rng: fastrand::Rng,
    outputs: Vec<AgentOutput>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("cluster", &self.config.cluster).finish_non_exhaustive()
    }
}

/// Looking in.
impl Agent {
    /// Makes an agent whose engine knows no object.
    pub fn new(config: AgentConfig, engine: Engine) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(config.seed),
            leases: Leases::new(&config.renewed),
            ending: BTreeSet::new(),
            config,
            engine,
            synced: false,
            journal: Journal::default(),
            undoing: BTreeMap::new(),
            writes: BTreeMap::new(),
            retries: BTreeMap::new(),
            next_write: 0,
            outputs: Vec::new(),
        }
    }

    /// The engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The nodes of the cluster and the pods on them.
    pub const fn cluster(&self) -> &Cluster {
        self.engine.cluster()
    }

    /// The names of the sampling strategies.
    pub fn strategies(&self) -> impl Iterator<Item = &Arc<str>> {
        self.config.strategies.names()
    }

    /// Number of pods whose commits are remembered.
    pub fn remembered(&self) -> usize {
        self.journal.len()
    }

    /// Returns what the agent asks for since the last call, in order.
    pub fn take_outputs(&mut self) -> Vec<AgentOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// Returns the time at which [`tick`](Self::tick) has work to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let retry = self.retries.first_key_value().map(|((time, _), _)| *time);
        let fence = self.leases.next_end().filter(|_| self.synced);
        [self.engine.next_deadline(), retry, fence].into_iter().flatten().min()
    }
}

/// Inputs.
impl Agent {
    /// Applies the new state of an object; `mark` says that it is a delegate.
    pub fn apply(
        &mut self,
        change: Change,
        mark: Option<&DelegateMark>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let seen = match &change {
            Change::Pod(pod) => mark.map(|_| Arc::new((**pod).clone())),
            _ => None,
        };
        let gone = match &change {
            Change::PodDeleted { uid, .. } => Some(uid.clone()),
            Change::Pod(pod) if pod.terminal => Some(pod.uid.clone()),
            _ => None,
        };
        self.engine.step(Input::Change(change), now, ports);
        if let (Some(pod), Some(mark)) = (seen, mark) {
            if let Some(terms) = mark.terms.as_ref().filter(|_| !pod.terminal) {
                self.leases.add(&pod.uid, &pod.key, terms);
            }
            if pod.terminating {
                self.ending.insert(pod.uid.clone());
            }
            self.delegate_seen(&pod, mark, now, ports);
        }
        if let Some(uid) = gone {
            self.leases.remove(&uid);
            self.ending.remove(&uid);
            self.delegate_gone(&uid, now, ports);
        }
        self.collect(now);
    }

    /// Notes that the engine knows all objects of the cluster.
    pub fn set_synced(&mut self) {
        self.synced = true;
    }

    /// Handles a request. A sample is answered at once, a commit when its outcome is known.
    pub fn call(
        &mut self,
        call: CallId,
        request: &crate::message::Request,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        use crate::message::Request;
        let not_ready = || Refusal::new(RefusalCode::NotReady, "the agent reads the cluster");
        match request {
            Request::Sample(_) if !self.synced => {
                self.reply(call, Response::Sample(Err(not_ready())));
            }
            Request::Commit(_) if !self.synced => {
                self.reply(call, Response::Commit(CommitOutcome::Rejected(not_ready())));
            }
            Request::Seal(_) if !self.synced => {
                self.reply(call, Response::Seal(SealOutcome::Rejected(not_ready())));
            }
            Request::Renew(_) if !self.synced => {
                self.reply(call, Response::Renew(Err(not_ready())));
            }
            Request::Diagnose(_) if !self.synced => {
                self.reply(call, Response::Diagnose(Err(not_ready())));
            }
            Request::Diagnose(request) => {
                let diagnosis = self.diagnose(request, now, ports);
                self.reply(call, Response::Diagnose(Ok(diagnosis)));
            }
            Request::Renew(request) => self.renew(call, request, now),
            Request::Sample(request) => {
                let sample = self.sample(request, now, ports).map(Arc::new);
                self.reply(call, Response::Sample(sample));
            }
            Request::Commit(request) => self.commit(call, request, now, ports),
            Request::Seal(request) => self.seal(call, &request.key, now),
        }
        self.collect(now);
    }

    /// Handles the answer to an effect of the engine.
    pub fn effect_answered(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        self.engine.step(Input::Answer { effect, answer: answer.clone() }, now, ports);
        self.collect(now);
    }

    /// Handles the answer to a write or read of a delegate.
    pub fn write_answered(
        &mut self,
        id: WriteId,
        answer: WriteAnswer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        if let Some(purpose) = self.writes.remove(&id) {
            self.resume(purpose, answer, now, ports);
        }
        self.collect(now);
    }

    /// Handles the passage of time.
    pub fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        self.engine.step(Input::Tick, now, ports);
        while let Some(entry) = self.retries.first_entry().filter(|entry| entry.key().0 <= now) {
            let purpose = entry.remove();
            self.repeat(purpose);
        }
        self.fence_ended(now);
        self.journal.forget_closed(now);
        self.collect(now);
    }

    fn reply(&mut self, call: CallId, response: Response) {
        self.outputs.push(AgentOutput::Reply(call, response));
    }

    /// Takes effects of the engine, and ends the commits whose binding cycles have ended.
    fn collect(&mut self, now: Time) {
        for settled in self.engine.take_settled() {
            self.binding_settled(&settled.uid, settled.outcome, now);
        }
        self.outputs.extend(self.engine.take_effects().into_iter().map(AgentOutput::Effect));
    }
}
