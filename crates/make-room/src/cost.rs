//! What a move costs.

use std::iter::Sum;
use std::ops::Add;
use std::sync::Arc;
use std::time::Duration;

use framework::{ControllerKind, Pod};
use serde::{Deserialize, Serialize};

/// The cost of moves, in thousandths of the move of a new pod of a ReplicaSet with priority 0.
///
/// The cost of several moves is the sum of their costs.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Cost(pub u64);

/// A pod that may be moved.
#[derive(Debug, Clone)]
pub struct Movable {
    /// The pod, on its node.
    pub pod: Arc<Pod>,
    /// The cost of its move.
    pub cost: Cost,
}

/// A move of a pod of a ReplicaSet.
const STATELESS: u64 = 1000;
/// A pod of a StatefulSet, or of a controller that Kubernetes does not know: its successor has to
/// take over a state, and no second pod serves meanwhile.
const STATEFUL: u64 = 3000;
/// A pod of a Job: what it has done so far may be lost.
const JOB: u64 = 2000;
/// The highest priority of users, 1,000,000,000, costs as much as a pod more.
const PRIORITY_UNIT: i32 = 1_000_000;
/// The longest age that counts. A pod that old costs half a pod more than a new one.
const OLD: Duration = Duration::from_hours(1000);

impl Cost {
    /// Returns the cost of moving a pod that has run for `age`.
    pub fn of_move(pod: &Pod, age: Duration) -> Self {
        let base = match pod.controller.as_ref().map(|own| own.kind) {
            Some(ControllerKind::ReplicaSet | ControllerKind::ReplicationController) => STATELESS,
            Some(ControllerKind::Job) => JOB,
            _ => STATEFUL,
        };
        let priority = (pod.priority() / PRIORITY_UNIT).clamp(0, 1000).unsigned_abs();
        let hours = age.min(OLD).as_secs() / 3600;
        Self(base + u64::from(priority) + hours / 2)
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_stateful_old_and_important_pods_cost_more() {
        let cost = |kind: &str, priority, hours| {
            let owner = serde_json::json!([{
                "apiVersion": if kind == "Job" { "batch/v1" } else { "apps/v1" },
                "kind": kind, "name": "owner", "uid": "1", "controller": true,
            }]);
            let pod = testkit::pod("a").priority(priority).with(|pod| {
                pod.metadata.owner_references = serde_json::from_value(owner).expect("an owner");
            });
            Cost::of_move(&pod.build(), Duration::from_hours(hours)).0
        };
        assert_eq!(cost("ReplicaSet", 0, 0), 1000);
        assert_eq!(cost("ReplicaSet", -5, 0), 1000);
        assert_eq!(cost("ReplicaSet", 1_000_000_000, 0), 2000);
        assert_eq!(cost("ReplicaSet", 0, 100), 1050);
        assert_eq!(cost("ReplicaSet", 0, 1_000_000), 1500);
        assert_eq!(cost("Job", 0, 0), 2000);
        assert_eq!(cost("StatefulSet", 0, 0), 3000);
    }
}
