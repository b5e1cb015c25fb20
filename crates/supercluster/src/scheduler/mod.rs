//! The scheduler over many clusters.
//!
//! - `clusters`: the members, and which of them answer.
//! - `decision`: the decision pipeline over the merged samples; `plugins`: its in-tree plugins.
//! - `explain`: what was done about a pod, for people.
//! - `flight`: the way of one pod: sample, decide, claim, commit, record.
//! - `leases`: the leases of the members, and the pods of clusters that are lost.
//! - `pipeline`: calls of its plugins.
//! - `placement`: what is written on the original pod.
//!
//! The queue belongs to an [`Engine`] without nodes: priorities, backoff, gates and hints work as
//! in the scheduler of a single cluster. Inputs are methods that get the time. What the scheduler
//! asks for is taken with [`Scheduler::take_outputs`].

mod clusters;
mod decision;
mod explain;
mod flight;
mod leases;
mod pipeline;
mod placed;
mod placement;
pub mod plugins;
#[cfg(all(test, feature = "simulation"))]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use engine::{Change, Effect, EffectId, Engine, Input};
use framework::{Answer, PodKey, Time, Uid};

pub use self::clusters::{Cluster, ClusterIx};
pub use self::decision::{Candidate, DecisionNode, DecisionPlugin, DecisionPod, WeightedPlugin};
pub use self::explain::{
    CandidateExplanation, ClusterDiagnosis, ClusterExplanation, PodExplanation, RoundExplanation,
};
pub use self::leases::{LeaseAnswer, LeaseOperation, LeaseRecord};
pub use self::placed::PlacedPods;
pub use self::placement::{INTENT, Intent, OriginalPod, PLACEMENT, Placement, REPLACE_AFTER};

use self::clusters::Members;
use self::explain::Rounds;
use self::flight::{Flight, OpenCall};
use self::leases::Leases;
use crate::message::{Committed, PodObject, Request, Response};

/// A call of an agent, under the number that its answer names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// A write of an original pod, under the number that its answer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(u64);

/// The configuration of a scheduler.
#[derive(Clone)]
pub struct SchedulerConfig {
    /// Identifies this scheduler among several.
    pub name: Arc<str>,
    /// Identifies the management cluster: the UID of its namespace `kube-system`. It is written on
    /// delegates.
    pub origin: Option<Arc<str>>,
    /// The members.
    pub clusters: Vec<Cluster>,
    /// The sampling strategy.
    pub strategy: Arc<str>,
    /// Number of nodes wanted of each cluster, in basis points of its nodes.
    pub nodes_to_sample_bp: u32,
    /// Share of the clusters that are asked for samples, in basis points; rounded up.
    pub clusters_to_sample_bp: u32,
    /// Maximum number of commit candidates of a decision.
    pub commit_candidates: usize,
    /// Whether agents choose their best node again at the commit; set for the strategy `best`.
    pub agents_choose: bool,
    /// Points, in thousandths, by which that node may be worse than the next commit candidate.
    pub tolerance_milli: i64,
    /// Plugins of the decision pipeline.
    pub plugins: Vec<WeightedPlugin>,
    /// Labels of nodes that the plugins read.
    pub node_labels: Vec<Arc<str>>,
    /// Time after which a decision is made with the samples that have come.
    pub sample_timeout: Duration,
    /// Time for which a decision waits for the rest once half of the samples have come.
    pub straggler_wait: Duration,
    /// Time after which the answer to a commit counts as lost.
    pub commit_timeout: Duration,
    /// Time after which another scheduler's attempt is taken over.
    pub takeover_wait: Duration,
    /// The turn of this scheduler among several, and their number. A pod that is another one's turn
    /// is left alone for `takeover_wait`, so that they do not all sample for it at once.
    pub turn: (u64, u64),
    /// Time after which a pod without an annotation is placed anew if its cluster is lost; `None`
    /// if it stays.
    pub replace_after: Option<Duration>,
    /// Number of rounds, each with fresh samples, before a pod backs off.
    pub rounds: u32,
    /// Maximum number of pods that are sampled, decided or committed at the same time.
    pub max_in_flight: usize,
    /// Seed of the random choices.
    pub seed: u64,
}

impl SchedulerConfig {
    /// The defaults for these members.
    pub fn new(name: &str, clusters: Vec<Cluster>) -> Self {
        Self {
            name: name.into(),
            origin: None,
            clusters,
            strategy: "random".into(),
            nodes_to_sample_bp: 200,
            clusters_to_sample_bp: 3_300,
            commit_candidates: 3,
            agents_choose: false,
            tolerance_milli: 0,
            plugins: plugins::defaults(),
            node_labels: Vec::new(),
            sample_timeout: Duration::from_secs(1),
            straggler_wait: Duration::from_millis(100),
            commit_timeout: Duration::from_secs(5),
            takeover_wait: Duration::from_secs(30),
            turn: (0, 1),
            replace_after: None,
            rounds: 11,
            max_in_flight: 400,
            seed: 0,
        }
    }

    /// Sets the strategy; with `best`, agents choose their best node again at the commit.
    #[must_use]
    pub fn with_strategy(self, strategy: &str) -> Self {
        Self { agents_choose: strategy == "best", strategy: strategy.into(), ..self }
    }
}

/// A decision, for explanations and measurements.
#[derive(Debug, Clone)]
pub struct Decision {
    /// UID of the pod.
    pub pod: Uid,
    /// Number of failed attempts before.
    pub scheduling_retry_count: u32,
    /// The commit candidates in order.
    pub candidates: Vec<Candidate>,
}

/// A request of a scheduler to its caller.
#[derive(Debug)]
pub enum SchedulerOutput {
    /// Call an agent; the answer is passed to [`Scheduler::called`].
    Call {
        /// Number of the call.
        id: CallId,
        /// The cluster.
        cluster: ClusterIx,
        /// The request.
        request: Request,
    },
    /// Write the intent on the pod, and remove the placement. The resourceVersion is a
    /// precondition. The answer is passed to [`Scheduler::written`].
    WriteIntent {
        /// Number of the write.
        id: WriteId,
        /// Namespace and name.
        pod: PodKey,
        /// UID, a precondition.
        uid: Uid,
        /// `metadata.resourceVersion`.
        resource_version: u64,
        /// The intent.
        intent: Intent,
    },
    /// Write the placement on the pod; answered likewise.
    WritePlacement {
        /// Number of the write.
        id: WriteId,
        /// Namespace and name.
        pod: PodKey,
        /// UID, a precondition.
        uid: Uid,
        /// The placement.
        placement: Placement,
    },
    /// Read or write the Lease of a cluster; the answer is passed to [`Scheduler::lease_answered`].
    Lease {
        /// Number of the read or write.
        id: WriteId,
        /// Name of the cluster.
        cluster: Arc<str>,
        /// The read or write.
        operation: LeaseOperation,
    },
    /// The delegate of a deleted pod in this cluster, which is lost, is gone. See
    /// [`Scheduler::await_end`].
    Released {
        /// Name of the cluster.
        cluster: Arc<str>,
        /// UID of the pod.
        pod: Uid,
    },
    /// Carry out an effect of the engine; the answer is passed to [`Scheduler::effect_answered`].
    Effect(Effect),
    /// A decision was made. Nothing is to be done.
    Decided(Decision),
    /// A delegate was bound for a pod that is gone by now. It is to be deleted.
    Abandoned {
        /// The cluster.
        cluster: ClusterIx,
        /// The delegate.
        committed: Committed,
    },
}

/// The answer to a write of an original pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteAnswer {
    /// The write was carried out. The pod has this resourceVersion now.
    Done(u64),
    /// The pod does not exist any more.
    Gone,
    /// The pod has changed.
    Conflict,
    /// The write was refused, or its answer was lost.
    Failed(String),
}

/// Numbers of what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Decisions with at least one commit candidate.
    pub rounds: u64,
    /// Decisions of which every candidate met a conflict.
    pub failed_rounds: u64,
    /// Decisions whose first candidate met a conflict.
    pub first_conflicts: u64,
    /// Commit requests.
    pub commits: u64,
    /// Commit requests that met a conflict.
    pub conflicts: u64,
    /// Decisions without a commit candidate.
    pub empty_rounds: u64,
    /// Commits whose answer was lost.
    pub lost_answers: u64,
    /// Pods that were placed.
    pub placed: u64,
    /// Pods that were taken out of a cluster to be placed anew.
    pub replaced: u64,
}

/// The scheduler over many clusters.
pub struct Scheduler {
    config: SchedulerConfig,
    engine: Engine,
    members: Members,
    pods: HashMap<Uid, OriginalPod>,
    placed: PlacedPods,
    leases: Leases,
    /// The failed attempts of each pod that is not placed.
    retries: HashMap<Uid, u32>,
    flights: HashMap<Uid, Flight>,
    /// The latest rounds, for explanations.
    rounds: Rounds,
    /// Number of flights that count against the maximum.
    active: usize,
    timers: BTreeSet<(Time, Uid)>,
    /// Which pod and cluster each call is for.
    calls: BTreeMap<CallId, (Uid, ClusterIx)>,
    writes: BTreeMap<WriteId, Uid>,
    next_id: u64,
    rng: fastrand::Rng,
    stats: Stats,
    outputs: Vec<SchedulerOutput>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("name", &self.config.name).finish_non_exhaustive()
    }
}

/// Looking in.
impl Scheduler {
    /// Makes a scheduler that knows no pod. The engine gives it the queue.
    pub fn new(config: SchedulerConfig, engine: Engine) -> Self {
        Self {
            members: Members::new(config.clusters.clone()),
            rng: fastrand::Rng::with_seed(config.seed),
            config,
            engine,
            pods: HashMap::new(),
            placed: PlacedPods::default(),
            leases: Leases::default(),
            retries: HashMap::new(),
            flights: HashMap::new(),
            rounds: Rounds::default(),
            active: 0,
            timers: BTreeSet::new(),
            calls: BTreeMap::new(),
            writes: BTreeMap::new(),
            next_id: 0,
            stats: Stats::default(),
            outputs: Vec::new(),
        }
    }

    /// Numbers of what happened.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The engine that has the queue.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The member of this index.
    pub fn cluster(&self, ix: ClusterIx) -> &Cluster {
        self.members.get(ix)
    }

    /// Returns what the scheduler does about a pod at the moment, for people; `None` if it is not
    /// in flight.
    pub fn explain(&self, pod: &Uid) -> Option<String> {
        Some(self.flights.get(pod)?.explain(&self.members))
    }

    /// Returns what the scheduler asks for since the last call, in order.
    pub fn take_outputs(&mut self) -> Vec<SchedulerOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// Returns the time at which [`tick`](Self::tick) has work to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let timer = self.timers.first().map(|(time, _)| *time);
        let lease = self.leases.next_deadline();
        [self.engine.next_deadline(), timer, lease].into_iter().flatten().min()
    }
}

/// Inputs.
impl Scheduler {
    /// Applies an original pod as the watch shows it.
    pub fn pod(&mut self, object: PodObject, now: Time, ports: &mut Ports<'_>) {
        self.original(OriginalPod::new(object), now, ports);
    }

    /// Applies an original pod whose annotations have been read.
    pub fn original(&mut self, mut original: OriginalPod, now: Time, ports: &mut Ports<'_>) {
        let pod = original.object.pod.clone();
        let known = self.pods.get(&pod.uid);
        if let Some(known) = known.filter(|known| known.version > original.version) {
            // The watch does not show yet what this scheduler has written.
            original.version = known.version;
            (original.intent, original.placement) = (known.intent.clone(), known.placement.clone());
        }
        let was_placed = known.is_some_and(|known| known.placement.is_some());
        let placed = original.placement.as_ref().map(|placement| placement.cluster.clone());
        if pod.terminal {
            return self.pod_deleted(&pod.key, &pod.uid, now, ports);
        }
        self.lease_wanted(&original, now);
        self.pods.insert(pod.uid.clone(), original);
        if was_placed && placed.is_none() && !self.flights.contains_key(&pod.uid) {
            self.placed.remove(&pod.uid);
        }
        match placed {
            Some(cluster) => {
                // The queue has the pods that wait for a placement.
                self.placed.insert(&pod, &cluster);
                self.leases.forget(&pod.uid);
                self.retries.remove(&pod.uid);
                let change = Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() };
                self.engine.step(Input::Change(change), now, ports);
                self.placement_seen(&pod.uid, now, ports);
            }
            None => {
                self.engine.step(Input::Change(Change::Pod(Box::new((*pod).clone()))), now, ports);
                self.intent_seen(&pod.uid, now);
            }
        }
        self.advance(now, ports);
    }

    /// Notes that an original pod is gone.
    pub fn pod_deleted(&mut self, key: &PodKey, uid: &Uid, now: Time, ports: &mut Ports<'_>) {
        self.pods.remove(uid);
        self.leases.forget(uid);
        self.retries.remove(uid);
        if !self.flights.contains_key(uid) {
            self.placed.remove(uid);
        }
        let change = Change::PodDeleted { key: key.clone(), uid: uid.clone() };
        self.engine.step(Input::Change(change), now, ports);
        self.advance(now, ports);
    }

    /// Handles a member, or what has changed of it. Members are numbered in the order in which
    /// they come, members of the configuration first; a member that comes back has its number.
    pub fn set_cluster(&mut self, ix: ClusterIx, cluster: Cluster, now: Time) {
        if !self.leases.is_unused() {
            self.leases.add(&cluster.name, now);
        }
        self.members.set(ix, cluster);
    }

    /// Notes that a cluster is not a member any more. Its pods stay as they are, unless they may be
    /// replaced.
    pub fn remove_cluster(&mut self, ix: ClusterIx) {
        self.members.remove(ix);
    }

    /// Applies the new state of another object.
    pub fn apply(&mut self, change: Change, now: Time, ports: &mut Ports<'_>) {
        self.engine.step(Input::Change(change), now, ports);
        self.advance(now, ports);
    }

    /// Handles the answer of an agent, or an error if there is none.
    pub fn called(
        &mut self,
        id: CallId,
        answer: Result<Response, String>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        if self.lease_called(id, &answer, now) {
        } else if let Some((uid, cluster)) = self.calls.remove(&id) {
            self.answered(&OpenCall { uid, cluster, id }, answer, now, ports);
        }
        self.advance(now, ports);
    }

    /// Handles the answer to a write of an original pod.
    pub fn written(&mut self, id: WriteId, answer: WriteAnswer, now: Time, ports: &mut Ports<'_>) {
        if self.replacement_written(id, &answer, now, ports) {
        } else if let Some(uid) = self.writes.remove(&id) {
            self.write_answered(&uid, id, answer, now, ports);
        }
        self.advance(now, ports);
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
        self.advance(now, ports);
    }

    /// Handles the passage of time.
    pub fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        self.engine.step(Input::Tick, now, ports);
        while let Some((_, uid)) = self.timers.first().filter(|(time, _)| *time <= now).cloned() {
            self.timer_fired(&uid, now, ports);
        }
        self.renew_leases(now);
        self.advance(now, ports);
    }

    /// Starts pods while there is room, and takes the effects of the engine.
    fn advance(&mut self, now: Time, ports: &mut Ports<'_>) {
        while self.active < self.config.max_in_flight {
            let Some(queued) = self.engine.pop(now, ports) else { break };
            self.start(queued, now, ports);
        }
        self.outputs.extend(self.engine.take_effects().into_iter().map(SchedulerOutput::Effect));
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
