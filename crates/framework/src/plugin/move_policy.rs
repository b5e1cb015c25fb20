//! For which pods room is made by moves of other pods, and which pods may be moved.

use std::time::Duration;

use crate::{ControllerKind, Pod};

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

/// Why a running pod is not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmovable {
    /// The reason, as what is said of the pod.
    pub reason: &'static str,
    /// Whether the pod goes with its node, so that it does not keep the node.
    pub goes_with_node: bool,
}

impl Unmovable {
    /// Returns why a pod on a node is not moved; `None` if it may be.
    pub fn of(pod: &Pod, highest_priority: i32) -> Option<Self> {
        let hints = pod.spec.eviction;
        let kind = pod.controller.as_ref().map(|own| own.kind);
        let goes_with_node = [
            (kind == Some(ControllerKind::DaemonSet), "belongs to a DaemonSet"),
            (kind == Some(ControllerKind::Node), "is a static pod"),
            (pod.terminating || pod.terminal, "ends"),
        ];
        let stays = [
            (kind.is_none(), "has no controller"),
            (pod.priority() > highest_priority, "has a higher priority than is moved"),
            (pod.group().is_some(), "belongs to a PodGroup"),
            (!pod.spec.resource_claims.is_empty(), "uses ResourceClaims"),
            (hints.safe_to_evict == Some(false), "has the annotation safe-to-evict: false"),
            (hints.do_not_disrupt, "has the annotation do-not-disrupt: true"),
            (
                hints.has_local_data && hints.safe_to_evict != Some(true),
                "has local data: emptyDir or hostPath",
            ),
        ];
        let first = |reasons: &[(bool, &'static str)], goes_with_node| {
            let (_, reason) = reasons.iter().find(|(holds, _)| *holds)?;
            Some(Self { reason, goes_with_node })
        };
        first(&goes_with_node, true).or_else(|| first(&stays, false))
    }
}

impl MovePolicy {
    /// Returns why the pod on a node is not moved; `None` if it may be.
    ///
    /// A Job may count the eviction as a failure, and other controllers need not replace the pod,
    /// so its owner has to say that it is safe.
    pub fn keeps(&self, pod: &Pod) -> Option<&'static str> {
        if let Some(unmovable) = Unmovable::of(pod, self.highest_priority) {
            return Some(unmovable.reason);
        }
        let is_replaced = pod.controller.as_ref().is_some_and(|own| {
            matches!(
                own.kind,
                ControllerKind::ReplicaSet
                    | ControllerKind::ReplicationController
                    | ControllerKind::StatefulSet
            )
        });
        let is_safe = is_replaced || pod.spec.eviction.safe_to_evict == Some(true);
        (!is_safe)
            .then_some("belongs to a Job or another controller, and lacks safe-to-evict: true")
    }
}
