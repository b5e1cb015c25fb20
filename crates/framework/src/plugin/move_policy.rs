//! For which pods room is made by moves of other pods, and which pods may be moved.

use std::time::Duration;

use serde_json::Value;

use crate::{ControllerKind, Pod};

/// Where a pod has the annotation with which its owner allows or forbids its eviction.
pub const SAFE_TO_EVICT_FIELD: &str =
    "/metadata/annotations/cluster-autoscaler.kubernetes.io~1safe-to-evict";
/// Where a pod has the annotation with which its owner forbids its eviction.
pub const DO_NOT_DISRUPT_FIELD: &str = "/metadata/annotations/karpenter.sh~1do-not-disrupt";
/// Where a pod has its volumes on the disk of its node.
pub const LOCAL_VOLUMES_FIELD: &str = "/spec/volumes/*/emptyDir,hostPath";

/// For which waiting pods the scheduler moves other pods, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovePolicy {
    /// How long a pod has waited since its first attempt before pods are moved for it.
    pub after: Duration,
    /// Maximum number of pods that are moved for one pod.
    pub most: usize,
    /// The time between the end of a move and the next one.
    pub pace: Duration,
    /// Pods of a higher priority are not moved.
    pub highest_priority: i32,
    /// How long a move may take: the pod ends, and its successor is placed.
    pub timeout: Duration,
}

impl MovePolicy {
    /// Returns why the pod on a node is not moved; `None` if it may be. The cluster keeps the
    /// fields that this reads only for a plugin that [makes room](crate::PluginBuilder::makes_room).
    pub fn keeps(&self, pod: &Pod) -> Option<&'static str> {
        let kind = pod.controller.as_ref().map(|own| own.kind);
        let text = |field| pod.extra.get(field).and_then(Value::as_str);
        let safe_to_evict = text(SAFE_TO_EVICT_FIELD);
        let is_replaced = matches!(
            kind,
            Some(
                ControllerKind::ReplicaSet
                    | ControllerKind::ReplicationController
                    | ControllerKind::StatefulSet
            )
        );
        let reasons = [
            (pod.terminating || pod.terminal, "ends"),
            (kind.is_none(), "has no controller"),
            (kind == Some(ControllerKind::DaemonSet), "belongs to a DaemonSet"),
            (kind == Some(ControllerKind::Node), "is a static pod"),
            (pod.priority() > self.highest_priority, "has a higher priority than is moved"),
            (pod.group().is_some(), "belongs to a PodGroup"),
            (!pod.spec.resource_claims.is_empty(), "uses ResourceClaims"),
            (safe_to_evict == Some("false"), "has the annotation safe-to-evict: false"),
            (text(DO_NOT_DISRUPT_FIELD) == Some("true"), "has the annotation do-not-disrupt: true"),
            (
                safe_to_evict != Some("true") && has_local_data(pod),
                "has local data: emptyDir or hostPath",
            ),
            // A Job may count the eviction as a failure, and other controllers need not replace
            // the pod.
            (
                safe_to_evict != Some("true") && !is_replaced,
                "belongs to a Job or another controller, and lacks safe-to-evict: true",
            ),
        ];
        reasons.into_iter().find_map(|(keeps, reason)| keeps.then_some(reason))
    }
}

/// Whether a volume of the pod is on the disk of its node. Volumes in memory do not count.
fn has_local_data(pod: &Pod) -> bool {
    let volumes = pod.extra.get(LOCAL_VOLUMES_FIELD).and_then(Value::as_array);
    volumes.into_iter().flatten().any(|volume| {
        let in_memory = volume["emptyDir"]["medium"] == "Memory";
        !volume["hostPath"].is_null() || !volume["emptyDir"].is_null() && !in_memory
    })
}
