//! The pods that run, and which of them may be moved.

use std::sync::Arc;
use std::time::Duration;

use framework::{Cluster, ControllerKind, Pod, PodKey};

use crate::{Cost, Movable};

/// The pods that run.
#[derive(Debug, Clone, Default)]
pub struct RunningPods {
    /// The pods that may be moved.
    pub movable: Vec<Movable>,
    /// The others.
    pub kept: Vec<KeptPod>,
}

/// A running pod that is not moved.
#[derive(Debug, Clone)]
pub struct KeptPod {
    /// Its name.
    pub key: PodKey,
    /// Its node.
    pub node: Arc<str>,
    /// Why it is not moved.
    pub why: Kept,
}

/// Why a running pod is not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The reason, as what is said of the pod.
    pub reason: &'static str,
    /// Whether the pod goes with its node, so that it does not keep the node.
    pub goes_with_node: bool,
}

impl RunningPods {
    /// Sorts the pods of a cluster; those of a priority above `highest_priority` are kept. The age
    /// of a pod counts up to the start of the newest one.
    pub fn of(cluster: &Cluster, highest_priority: i32) -> Self {
        let starts = cluster.pods().filter_map(|placed| placed.pod.start_time.get());
        let newest = starts.max();
        let mut running = Self::default();
        for node in cluster.nodes().iter() {
            for pod in cluster.node(node).pods() {
                match Kept::of(pod, highest_priority) {
                    Some(why) => running.kept.push(KeptPod {
                        key: pod.key.clone(),
                        node: cluster.node_name(node).clone(),
                        why,
                    }),
                    None => {
                        let age = pod.start_time.get().zip(newest);
                        let age = age.map_or(Duration::ZERO, |(start, newest)| newest.since(start));
                        let cost = Cost::of_move(pod, age);
                        running.movable.push(Movable { pod: pod.clone(), cost });
                    }
                }
            }
        }
        running
    }
}

impl Kept {
    /// Returns why a running pod is not moved; `None` if it may be.
    pub fn of(pod: &Pod, highest_priority: i32) -> Option<Self> {
        let hints = pod.spec.eviction;
        let kind = pod.controller.as_ref().map(|own| own.kind);
        let goes_with_node = [
            (kind == Some(ControllerKind::DaemonSet), "belongs to a DaemonSet"),
            (kind == Some(ControllerKind::Node), "is a static pod"),
            (pod.terminating, "ends"),
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
