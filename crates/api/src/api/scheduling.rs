//! `scheduling.k8s.io` and `scheduling.x-k8s.io`: groups of pods that are decided together.

use serde::{Deserialize, Serialize};

use super::{ObjectMeta, or_default};

api! {
    /// A `scheduling.k8s.io` PodGroup. The versions v1alpha2 and v1beta1 have these fields in
    /// common.
    struct PodGroup {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: PodGroupSpec,
        /// Observed state.
        status: PodGroupStatus,
    }

    /// `spec` of a PodGroup.
    struct PodGroupSpec {
        /// How its pods are scheduled.
        scheduling_policy: PodGroupSchedulingPolicy,
        /// Its priority, which admission fills in.
        priority: Option<i32>,
    }

    /// The policy of a PodGroup: one of its fields is set.
    struct PodGroupSchedulingPolicy {
        /// All or nothing, down to a number of pods.
        gang: Option<GangSchedulingPolicy>,
    }

    /// The policy of a gang.
    struct GangSchedulingPolicy {
        /// Number of pods that are scheduled together, or none of them.
        min_count: i32,
    }

    /// `status` of a PodGroup.
    struct PodGroupStatus {
        /// Conditions, by type.
        conditions: Vec<PodGroupStatusCondition>,
    }

    /// A condition of a PodGroup.
    struct PodGroupStatusCondition {
        /// Its type.
        #[serde(rename = "type")]
        type_: String,
        /// `True`, `False` or `Unknown`.
        status: String,
        /// A reason in CamelCase.
        reason: String,
        /// Text for people.
        message: String,
    }

    /// A `scheduling.x-k8s.io/v1alpha1` PodGroup, of Coscheduling.
    struct CoschedulingPodGroup {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: CoschedulingPodGroupSpec,
    }

    /// `spec` of a PodGroup of Coscheduling.
    struct CoschedulingPodGroupSpec {
        /// Number of pods that are scheduled together, or none of them.
        min_member: i32,
    }
}
