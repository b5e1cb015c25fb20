//! Nodes, pods and claims at one moment.

use std::collections::BTreeMap;

use framework::{ExtraFields, Node, Pod};
use sandbox::resources::{NODES, PODS};
use sandbox::store::Store;

use crate::claims::{self, Bound};

/// Reason of the condition `PodScheduled` of a pod that fits on no node.
const UNSCHEDULABLE: &str = "Unschedulable";

#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) nodes: BTreeMap<String, NodeState>,
    pub(crate) pods: BTreeMap<String, PodState>,
    /// The bound claims.
    pub(crate) claims: BTreeMap<String, Bound>,
}

/// Capacity of a node, and the requests of its pods.
#[derive(Default)]
pub(crate) struct NodeState {
    pub(crate) milli_cpu: i64,
    pub(crate) requested_milli_cpu: i64,
    pub(crate) pods: usize,
    pub(crate) cordoned: bool,
    pub(crate) tainted: bool,
}

/// Phase of a pod.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PodState {
    /// Not scheduled yet.
    New,
    Gated,
    /// Unschedulable.
    Unschedulable,
    /// Bound to a node.
    Bound {
        node: String,
        running: bool,
    },
    /// Its containers have ended.
    Ended,
}

impl Snapshot {
    pub(crate) fn of(store: &Store) -> Self {
        let mut snapshot = Self { claims: claims::bound(store), ..Self::default() };
        for object in store.objects(NODES) {
            // Objects that do not decode are left out; those of the demo decode.
            let Ok((node, _)) = Node::from_json(object, &ExtraFields::default()) else { continue };
            let state = NodeState {
                milli_cpu: node.allocatable.milli_cpu,
                cordoned: node.unschedulable,
                tainted: !node.taints.is_empty(),
                ..NodeState::default()
            };
            snapshot.nodes.insert(node.name.to_string(), state);
        }
        for object in store.objects(PODS) {
            let Ok(pod) = Pod::from_json(object, &ExtraFields::default()) else { continue };
            snapshot.add(&pod, object["status"]["phase"] == "Running");
        }
        snapshot
    }

    fn add(&mut self, pod: &Pod, running: bool) {
        let state = PodState::of(pod, running);
        if let PodState::Bound { node, .. } = &state
            && let Some(node) = self.nodes.get_mut(node)
        {
            node.pods += 1;
            node.requested_milli_cpu += pod.requests.placed.milli_cpu;
        }
        self.pods.insert(pod.key.to_string(), state);
    }

    /// Returns the number of pods in a phase.
    pub(crate) fn count(&self, is: impl Fn(&PodState) -> bool) -> usize {
        self.pods.values().filter(|state| is(state)).count()
    }
}

impl PodState {
    fn of(pod: &Pod, running: bool) -> Self {
        match &pod.node_name {
            _ if pod.terminal => Self::Ended,
            Some(node) => Self::Bound { node: node.to_string(), running },
            None if !pod.spec.scheduling_gates.is_empty() => Self::Gated,
            None => match &pod.scheduled_condition {
                Some(condition) if &*condition.reason == UNSCHEDULABLE => Self::Unschedulable,
                _ => Self::New,
            },
        }
    }
}
