//! The views of the scheduler that every plugin call receives, and the commands it may give.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::preemption::{Pause, PodGroupPreemption, Preemption, PreemptionProgress};
use crate::{
    Cluster, NodeIx, ObjectUpdate, PluginName, Pod, PodEvent, PodKey, Time, Uid, WallOffset, Write,
};

/// A pod waiting in Permit.
#[derive(Debug, Clone)]
pub struct WaitingPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The node it is assumed on.
    pub node: NodeIx,
    /// When the wait began.
    pub since: Time,
    /// Plugins that have not yet allowed the pod, each with the time at which its wait times out.
    pub pending: BTreeMap<PluginName, Time>,
}

/// The pods waiting in Permit, by UID.
pub type WaitingPods = BTreeMap<Uid, WaitingPod>;

/// The pods without a node that belong to a profile of this scheduler, as last seen. A pod that
/// waits in Permit or is being bound stays in this map until the API server reports it as bound.
pub type PendingPods = BTreeMap<PodKey, Arc<Pod>>;

/// The nominated pods of each node (`PodNominator` in Kubernetes).
pub trait NominatedPods {
    /// Returns the pods nominated to `node`, in the order of their nomination.
    fn nominated_to(&self, node: &str) -> Vec<Arc<Pod>>;

    /// Returns the nodes with nominated pods, by name.
    fn nodes(&self) -> Vec<Arc<str>>;
}

/// No nominated pods, for tests.
impl NominatedPods for () {
    fn nominated_to(&self, _node: &str) -> Vec<Arc<Pod>> {
        Vec::new()
    }

    fn nodes(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

/// Nominated pods by node, for tests.
impl NominatedPods for BTreeMap<Arc<str>, Vec<Arc<Pod>>> {
    fn nodes(&self) -> Vec<Arc<str>> {
        self.keys().cloned().collect()
    }

    fn nominated_to(&self, node: &str) -> Vec<Arc<Pod>> {
        self.get(node).cloned().unwrap_or_default()
    }
}

/// A request of a plugin. The engine applies it after the call that made it has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Allows a waiting pod on behalf of `plugin`.
    Allow {
        /// The waiting pod.
        pod: Uid,
        /// The plugin that no longer waits.
        plugin: PluginName,
    },
    /// Rejects a waiting pod on behalf of `plugin`.
    Reject {
        /// The waiting pod.
        pod: Uid,
        /// The plugin that rejects it.
        plugin: PluginName,
        /// The reason, shown to people.
        message: String,
    },
    /// Moves pods to the active queue at once, even out of backoff. Gated pods stay gated.
    Activate(Vec<PodKey>),
    /// Evicts pods to make room for another.
    Preempt(Preemption),
    /// Evicts pods to make room for a pod group.
    PreemptForGroup(PodGroupPreemption),
    /// Reports that a pod may not preempt others for now, and retries the pod when the pause is
    /// over.
    PausePreemption {
        /// The pod.
        preemptor: PodKey,
        /// Its UID.
        uid: Uid,
        /// The reason and the end of the pause.
        pause: Pause,
    },
    /// Calls [`Timer::fire`](crate::Timer::fire) of `plugin` with `token` at `at`, or right away if
    /// `at` is past. A plugin has one timer per token: a later command replaces the earlier one.
    SetTimer {
        /// The plugin whose timer it is.
        plugin: PluginName,
        /// When the timer fires.
        at: Time,
        /// A number that tells the timers of one plugin apart.
        token: u64,
    },
    /// Records an event about a pod.
    Event(PodEvent),
    /// Carries out a write outside PreBind, for example from PostFilter or Unreserve. A write whose
    /// answer is lost is repeated. If it fails, the pod is retried after an error backoff.
    Write {
        /// The pod that the write is for.
        pod: PodKey,
        /// Its UID.
        uid: Uid,
        /// The write.
        write: Write,
    },
    /// Reports a change of an object that the plugin knows of before the watch shows it, for
    /// example the answer to its own write, or the end of what it had assumed. Unschedulable pods
    /// that the change may help are requeued. The cluster keeps the object as the watch shows it.
    ObjectChanged(Box<ObjectUpdate>),
}

/// The commands given during one call, in order.
#[derive(Debug, Default)]
pub struct Commands(RefCell<Vec<Command>>);

impl Commands {
    /// Adds a command behind the others.
    pub fn push(&self, command: Command) {
        self.0.borrow_mut().push(command);
    }

    /// Adds other commands behind these.
    pub fn append(&self, others: Self) {
        self.0.borrow_mut().extend(others.0.into_inner());
    }

    /// Removes and returns all commands, the first given first.
    pub fn take(&self) -> Vec<Command> {
        self.0.take()
    }

    /// Number of commands.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Removes and returns the commands behind the first `len`.
    ///
    /// # Panics
    /// Panics if there are fewer.
    pub fn split_off(&self, len: usize) -> Vec<Command> {
        self.0.borrow_mut().split_off(len)
    }

    /// Returns what `of` returns first for one of the commands.
    pub fn find_map<T>(&self, of: impl FnMut(&Command) -> Option<T>) -> Option<T> {
        self.0.borrow().iter().find_map(of)
    }

    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// Read-only views of the scheduler for the duration of one call, and a place for commands.
///
/// Every extension point and every hint receives one. The views do not change during the call:
/// commands take effect after it.
#[derive(Clone, Copy)]
pub struct Handle<'a> {
    /// Nodes, the pods placed on them, and the objects of the kinds a plugin watches.
    pub cluster: &'a Cluster,
    /// Pods waiting in Permit.
    pub waiting: &'a WaitingPods,
    /// Pods without a node.
    pub pending: &'a PendingPods,
    /// Pods nominated to a node by an earlier preemption.
    pub nominated: &'a dyn NominatedPods,
    /// Preemptions in progress, and preemptions that led to no binding.
    pub preemptions: &'a PreemptionProgress,
    /// The time of the call. It passes evenly, for durations and deadlines;
    /// [`wall_time`](Self::wall_time) is the time to compare with time stamps of objects.
    pub now: Time,
    /// How far the wall clock is ahead of `now`.
    pub wall_offset: WallOffset,
    /// The commands of the call; see [`command`](Self::command).
    pub commands: &'a Commands,
}

impl<'a> Handle<'a> {
    /// Returns the pending pods of one namespace, in the order of their names.
    pub fn pending_in(&self, namespace: &str) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let namespace: Arc<str> = namespace.into();
        let first = PodKey { namespace: namespace.clone(), name: "".into() };
        let of_namespace =
            self.pending.range(first..).take_while(move |(key, _)| key.namespace == namespace);
        of_namespace.map(|(_, pod)| pod)
    }

    /// Whether victims of this pod are still to be evicted. Until they are, another attempt fails.
    pub fn is_preempting(&self, preemptor: &Uid) -> bool {
        self.preemptions.is_running(preemptor)
    }

    /// Returns the wall time of the call, by which the cluster stamps objects. A correction of the
    /// clock makes it jump, also backwards.
    pub const fn wall_time(&self) -> Time {
        self.wall_offset.wall_time(self.now)
    }

    /// Gives a command. It takes effect after the call.
    pub fn command(&self, command: Command) {
        self.commands.push(command);
    }
}
