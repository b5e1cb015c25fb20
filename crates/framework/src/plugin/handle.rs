//! What plugins may look at and ask for beyond the node at hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::preemption::{Pause, Preemption};
use crate::{Cluster, NodeIx, PluginName, Pod, PodKey, Time, Uid};

/// A pod that waits in Permit.
#[derive(Debug, Clone)]
pub struct WaitingPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The node it is assumed on.
    pub node: NodeIx,
    /// When it began to wait.
    pub since: Time,
    /// Plugins that have not yet allowed it, with the end of their patience.
    pub pending: BTreeMap<PluginName, Time>,
}

/// The pods that wait in Permit, by UID.
pub type WaitingPods = BTreeMap<Uid, WaitingPod>;

/// The pods that some profile is responsible for and that have no node yet, as last seen. Pods that
/// wait in Permit or are being bound are among them until the API server shows them bound.
pub type PendingPods = BTreeMap<PodKey, Arc<Pod>>;

/// Looks up pods that are nominated to a node.
pub trait NominatedPods {
    /// Pods nominated to `node`, in the order of their nomination.
    fn nominated_to(&self, node: &str) -> Vec<Arc<Pod>>;
}

/// Nothing is nominated; for tests.
impl NominatedPods for () {
    fn nominated_to(&self, _node: &str) -> Vec<Arc<Pod>> {
        Vec::new()
    }
}

/// Something a plugin asks for; applied after its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Allow a waiting pod on behalf of `plugin`.
    Allow {
        /// The waiting pod.
        pod: Uid,
        /// The plugin whose wait ends.
        plugin: PluginName,
    },
    /// Reject a waiting pod on behalf of `plugin`.
    Reject {
        /// The waiting pod.
        pod: Uid,
        /// The plugin that rejects.
        plugin: PluginName,
        /// Text for people.
        message: String,
    },
    /// Move pods to the active queue, whatever keeps them elsewhere but a gate.
    Activate(Vec<PodKey>),
    /// Evict pods to make room.
    Preempt(Preemption),
    /// Tell that a pod may not have others evicted now, and try it again when the pause is over.
    PutOffPreemption {
        /// The pod.
        preemptor: PodKey,
        /// Its UID.
        uid: Uid,
        /// Why not, and until when.
        pause: Pause,
    },
}

/// Views of the scheduler and a place for commands, for the duration of one call.
pub struct Handle<'a> {
    /// Nodes and the pods placed on them.
    pub cluster: &'a Cluster,
    /// Pods that wait in Permit.
    pub waiting: &'a WaitingPods,
    /// Pods without a node.
    pub pending: &'a PendingPods,
    /// Nominations.
    pub nominated: &'a dyn NominatedPods,
    /// The time of the call.
    pub now: Time,
    commands: &'a mut Vec<Command>,
}

impl<'a> Handle<'a> {
    /// A handle that collects into `commands`.
    pub fn new(
        cluster: &'a Cluster,
        waiting: &'a WaitingPods,
        pending: &'a PendingPods,
        nominated: &'a dyn NominatedPods,
        now: Time,
        commands: &'a mut Vec<Command>,
    ) -> Self {
        Self { cluster, waiting, pending, nominated, now, commands }
    }

    /// The pending pods of one namespace, by name.
    pub fn pending_in(&self, namespace: &str) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let namespace: Arc<str> = namespace.into();
        let first = PodKey { namespace: namespace.clone(), name: "".into() };
        let own =
            self.pending.range(first..).take_while(move |(key, _)| key.namespace == namespace);
        own.map(|(_, pod)| pod)
    }

    /// Queues a command; it takes effect when the call is over.
    pub fn command(&mut self, command: Command) {
        self.commands.push(command);
    }
}
