//! The scheduler as one value: changes go in, effects come out.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{
    Answer, Code, Command, EventResource, Node, NodeIx, ObjectKey, Pod, PodKey, Status, Time, Uid,
    WaitingPods,
};
use serde_json::Value;

use crate::binding::Bindings;
use crate::cache::Cache;
use crate::cycle::{Extender, Form, Scratch};
use crate::effect::{Effect, EffectId, EffectKind};
use crate::ports::{Ports, Probe, Span};
use crate::preemption::Preemptions;
use crate::profile::Profiles;
use crate::queue::{Queue, QueueConfig};

/// How one of several best nodes is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TieBreak {
    /// By the seeded generator.
    #[default]
    Random,
    /// The first by name; for tests.
    FirstByName,
}

/// What an engine is made from.
pub struct EngineConfig {
    /// The profiles.
    pub profiles: Profiles,
    /// How many percent of the nodes are looked at; 0 means all.
    pub percentage_of_nodes_to_score: i32,
    /// Lets 0 mean what it means to kube-scheduler: a share that shrinks with the cluster.
    pub adaptive_sampling: bool,
    /// Backoffs.
    pub queue: QueueConfig,
    /// Extenders, the ignorable ones last.
    pub extenders: Vec<Extender>,
    /// Seed of every random choice.
    pub seed: u64,
    /// How one of several best nodes is taken.
    pub tie_break: TieBreak,
    /// Which form of the plugins decides; the decision is the same.
    pub form: Form,
}

impl EngineConfig {
    /// The defaults with these profiles.
    pub fn new(profiles: Profiles) -> Self {
        Self {
            profiles,
            percentage_of_nodes_to_score: 0,
            adaptive_sampling: false,
            queue: QueueConfig::default(),
            extenders: Vec::new(),
            seed: 0,
            tie_break: TieBreak::default(),
            form: Form::default(),
        }
    }
}

/// Something that changed in the world.
#[derive(Debug, Clone)]
pub enum Change {
    /// A node as it is now.
    Node(Node),
    /// A node is gone.
    NodeDeleted(Arc<str>),
    /// A pod as it is now.
    Pod(Box<Pod>),
    /// A pod is gone.
    PodDeleted {
        /// Namespace and name.
        key: PodKey,
        /// Which pod of that name.
        uid: Uid,
    },
    /// An object of another kind as it is now, or `None` if it is gone.
    Object {
        /// Its kind.
        kind: EventResource,
        /// Its namespace; empty for cluster-scoped objects.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// The object.
        object: Option<Arc<Value>>,
    },
}

impl Change {
    /// What changes.
    pub(crate) fn object(&self) -> ObjectKey {
        match self {
            Self::Node(node) => ObjectKey::cluster_scoped(EventResource::Node, node.name.clone()),
            Self::NodeDeleted(name) => ObjectKey::cluster_scoped(EventResource::Node, name.clone()),
            Self::Pod(pod) => ObjectKey::pod(&pod.key),
            Self::PodDeleted { key, .. } => ObjectKey::pod(key),
            Self::Object { kind, namespace, name, .. } => {
                ObjectKey::namespaced(kind.clone(), namespace.clone(), name.clone())
            }
        }
    }
}

/// The deterministic scheduler: cache, queue, cycles and binding cycles.
///
/// It does no I/O and reads no clock. Equal inputs in equal order with an equal seed give equal effects.
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) cache: Cache,
    pub(crate) queue: Queue,
    /// Pods without a node that a profile is responsible for, as last seen.
    pub(crate) pending: BTreeMap<PodKey, Arc<Pod>>,
    pub(crate) bindings: Bindings,
    pub(crate) preemptions: Preemptions,
    pub(crate) commands: Vec<Command>,
    pub(crate) next_start: usize,
    pub(crate) rng: fastrand::Rng,
    pub(crate) scratch: Scratch,
    effects: Vec<Effect>,
    next_effect: u64,
}

/// What the queue needs to know of the rest of the engine, for one call.
macro_rules! cx {
    ($engine:expr, $now:expr, $probe:expr) => {
        $crate::queue::Cx {
            profiles: &$engine.config.profiles,
            cluster: $engine.cache.cluster(),
            now: $now,
            probe: $probe,
        }
    };
}
pub(crate) use cx;

impl Engine {
    /// An engine that knows of nothing yet.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            queue: Queue::new(config.queue),
            rng: fastrand::Rng::with_seed(config.seed),
            config,
            cache: Cache::default(),
            pending: BTreeMap::new(),
            bindings: Bindings::default(),
            preemptions: Preemptions::default(),
            commands: Vec::new(),
            next_start: 0,
            scratch: Scratch::default(),
            effects: Vec::new(),
            next_effect: 0,
        }
    }

    /// Nodes and the pods on them.
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Pods on their way to a node.
    pub const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The profiles.
    pub const fn profiles(&self) -> &Profiles {
        &self.config.profiles
    }

    /// Pods that wait in Permit.
    pub const fn waiting_pods(&self) -> &WaitingPods {
        &self.bindings.waiting
    }

    /// Number of pods in a binding cycle.
    pub fn binding_count(&self) -> usize {
        self.bindings.len()
    }

    /// Whether the pod is in a binding cycle.
    pub fn is_binding(&self, pod: &Uid) -> bool {
        self.bindings.contains(pod)
    }

    /// Pods without a node that a profile is responsible for, as last seen.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pending.values()
    }

    /// The effects since the last call, in the order in which they are meant.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.queue.next_deadline(),
            self.bindings.next_deadline(),
            self.preemptions.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Does what has become due: backoffs that end, pods parked for too long, Permit and PreBind
    /// timeouts, pauses between preemptions.
    pub fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        self.queue.tick(&mut cx!(self, now, ports.probe));
        self.expire_bindings(now, ports);
        self.end_pauses(now, ports);
        self.carry_out_commands(now, ports);
    }

    /// Takes the answer to an effect. Answers to effects nobody waits for are passed over.
    pub fn answer(&mut self, effect: EffectId, answer: &Answer, now: Time, ports: &mut Ports<'_>) {
        self.answer_binding(effect, answer, now, ports);
        self.answer_eviction(effect, answer, now, ports);
        self.carry_out_commands(now, ports);
    }

    pub(crate) fn emit(&mut self, kind: EffectKind) -> EffectId {
        let id = EffectId(self.next_effect);
        self.next_effect += 1;
        self.effects.push(Effect { id, kind });
        id
    }

    /// Carries out what plugins asked for through their handle; that may make other plugins ask.
    pub(crate) fn carry_out_commands(&mut self, now: Time, ports: &mut Ports<'_>) {
        while !self.commands.is_empty() {
            for command in std::mem::take(&mut self.commands) {
                match command {
                    Command::Allow { pod, plugin } => self.allow(&pod, &plugin, now, ports),
                    Command::Reject { pod, plugin, message } => {
                        let status = Status::unschedulable(message).by(&plugin);
                        self.reject_waiting(&pod, status, now, ports);
                    }
                    Command::Activate(pods) => {
                        self.queue.activate(&pods, &mut cx!(self, now, ports.probe));
                    }
                    Command::Preempt(preemption) => self.preempt(preemption, now, ports),
                    Command::PutOffPreemption { preemptor, uid, pause } => {
                        self.put_off_preemption(preemptor, &uid, &pause, ports.probe);
                    }
                }
            }
        }
    }

    /// One of the best nodes of the last cycle.
    pub(crate) fn select_host(&mut self) -> NodeIx {
        let feasible = self.scratch.feasible();
        let best = feasible.totals.iter().max();
        let mut ties = feasible.nodes.iter().enumerate().filter_map(|(place, node)| {
            (best.is_none() || feasible.totals.get(place) == best).then_some(*node)
        });
        match self.config.tie_break {
            TieBreak::FirstByName => {
                let cluster = self.cache.cluster();
                ties.min_by_key(|node| cluster.node_name(*node))
            }
            TieBreak::Random => {
                let count = ties.clone().count();
                ties.nth(self.rng.usize(..count.max(1)))
            }
        }
        .expect("a cycle without error leaves a feasible node")
    }

    /// Whether a profile is responsible for the pod.
    pub(crate) fn is_responsible_for(&self, pod: &Pod) -> bool {
        self.config.profiles.get(&pod.spec.scheduler_name).is_some()
    }

    pub(crate) fn move_all(
        &mut self,
        occurrence: &crate::Occurrence,
        may_move: &dyn Fn(&Pod) -> bool,
        now: Time,
        probe: &mut dyn Probe,
    ) {
        probe.start(Span::Event(&occurrence.event));
        self.queue.move_all(occurrence, may_move, &mut cx!(self, now, probe));
        probe.stop(Span::Event(&occurrence.event), Code::Success);
    }
}
