//! Applies a change to the content of a dump.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Node, Pod, PodKey};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::changes::{Changes, Objection};
use super::{nodes, quotas, workloads};
use crate::workloads::MOST_PODS;
use crate::{DumpedObject, DumpedPod};

/// The content of a dump that a change concerns, with the manifests of the change.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Nodes as they were read, by name, if extenders get them.
    pub read_nodes: BTreeMap<Arc<str>, Arc<RawValue>>,
    /// Pods that have not ended.
    pub pods: Vec<DumpedPod>,
    /// Objects of kinds that a plugin reads.
    pub objects: Vec<DumpedObject>,
    /// Workloads; later ones replace earlier ones.
    pub workloads: Vec<Box<RawValue>>,
    /// Workloads from this index on are manifests of the change.
    pub first_changed: usize,
}

/// The pods that a change moves or removes before anything is scheduled.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// Pods that their controllers make again.
    pub(super) displaced: BTreeMap<PodKey, Displaced>,
    /// Pods that no controller makes again.
    pub(super) lost: Vec<LostPod>,
    /// Pods that their workloads no longer want.
    pub(super) scaled_down: Vec<RemovedPod>,
    /// Pods of DaemonSets and of kubelets that go with their node, and pods that were being deleted
    /// there.
    pub(super) gone_with_nodes: usize,
    /// Pods that free devices.
    pub(super) leaving: Vec<Pod>,
    /// Nodes to upgrade, in this order.
    pub(super) rollout: Vec<Arc<str>>,
    /// New priorities of existing pods.
    pub(super) priorities: BTreeMap<PodKey, i32>,
    /// Warnings about the change.
    pub(super) warnings: Vec<String>,
}

impl Applied {
    /// Records that a running pod ends.
    pub(super) fn leave(&mut self, pod: &Pod) {
        if !pod.spec.resource_claims.is_empty() && pod.node_name.is_some() {
            self.leaving.push(pod.clone());
        }
    }
}

/// The reason a pod leaves its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The node is drained.
    Drained,
    /// The node is removed.
    NodeRemoved,
    /// The pod does not tolerate a new taint with the effect NoExecute.
    Tainted,
    /// A manifest of the change replaces the pod.
    Replaced,
    /// The node is upgraded.
    Upgraded,
}

impl Cause {
    /// Returns the cause in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::NodeRemoved => "node removed",
            Self::Tainted => "tainted",
            Self::Replaced => "replaced",
            Self::Upgraded => "upgraded",
        }
    }
}

/// A pod that left its node.
#[derive(Debug, Clone)]
pub(super) struct Displaced {
    pub(super) node: Arc<str>,
    pub(super) cause: Cause,
}

/// A pod without a controller whose node is drained, removed or tainted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LostPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// The reason it leaves the node.
    pub cause: Cause,
}

/// A pod that a workload with fewer replicas removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node in the dump.
    pub node: Option<String>,
}

/// Maximum numbers of what a change adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pods, and other objects that controllers make with them.
    pub pods: usize,
    /// Nodes.
    pub nodes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pods: MOST_PODS, nodes: MOST_PODS }
    }
}

/// Applies a change: nodes first, then workloads and quotas. Pods that come back keep their names,
/// and wait for a node.
///
/// # Errors
/// Everything in the documents that cannot be done, or contradicts something else.
pub fn apply(
    inventory: &mut Inventory,
    documents: &[Changes],
    limits: Limits,
) -> Result<Applied, Vec<Objection>> {
    let (mut applied, mut objections) = (Applied::default(), Vec::new());
    nodes::apply(inventory, documents, limits, &mut applied, &mut objections);
    workloads::apply(inventory, documents, limits, &mut applied, &mut objections);
    quotas::apply(inventory, documents, &mut objections);
    if objections.is_empty() { Ok(applied) } else { Err(objections) }
}
