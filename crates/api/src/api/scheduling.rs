//! `scheduling.k8s.io` and `scheduling.x-k8s.io`: groups of pods that are decided together, and
//! quotas.

use serde::{Deserialize, Serialize};

use super::{ObjectMeta, PodResourceClaim, ResourceList, or_default};

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
        /// How its pods are evicted. A union since v1beta1, a string in v1alpha2.
        disruption_mode: Option<DisruptionMode>,
        /// Its priority, which admission fills in.
        priority: Option<i32>,
        /// Whether its pods may preempt others, which admission fills in.
        preemption_policy: Option<String>,
        /// Where its pods are placed together.
        scheduling_constraints: PodGroupSchedulingConstraints,
        /// The ResourceClaims that its pods share, in the form of those of a pod.
        resource_claims: Vec<PodResourceClaim>,
    }

    /// `spec.schedulingConstraints` of a PodGroup.
    struct PodGroupSchedulingConstraints {
        /// The domains of a topology; an API server allows one constraint.
        topology: Vec<PodGroupTopologyConstraint>,
    }

    /// All pods of a PodGroup are placed in one domain.
    struct PodGroupTopologyConstraint {
        /// The key of a node label; the nodes with one value are a domain.
        key: String,
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

    /// The disruption mode of v1beta1: one of its fields is set.
    struct DisruptionModeUnion {
        /// All pods together.
        all: Option<EmptyMode>,
    }

    /// A disruption mode has no fields.
    struct EmptyMode {}

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
        /// What is known about its pods.
        status: CoschedulingPodGroupStatus,
    }

    /// `status` of a PodGroup of Coscheduling.
    struct CoschedulingPodGroupStatus {
        /// `Pending`, `Scheduling`, `Running`, `Unknown`, `Finished` or `Failed`.
        phase: String,
        /// Namespace and names of the owners of the pods.
        occupied_by: String,
        /// Number of pods that run.
        running: i32,
    }

    /// `spec` of a PodGroup of Coscheduling.
    struct CoschedulingPodGroupSpec {
        /// Number of pods that are scheduled together, or none of them.
        min_member: i32,
    }

    /// A `scheduling.x-k8s.io/v1alpha1` ElasticQuota, of CapacityScheduling.
    struct ElasticQuota {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: ElasticQuotaSpec,
        /// Observed state.
        status: ElasticQuotaStatus,
    }

    /// `spec` of an ElasticQuota.
    struct ElasticQuotaSpec {
        /// The guaranteed amounts.
        min: Option<ResourceList>,
        /// The largest amounts.
        max: Option<ResourceList>,
    }

    /// `status` of an ElasticQuota.
    struct ElasticQuotaStatus {
        /// The amounts in use.
        used: Option<ResourceList>,
    }
}

/// How the pods of a PodGroup are evicted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DisruptionMode {
    /// `Pod` or `PodGroup`, of v1alpha2.
    Name(String),
    /// `single` or `all`, of v1beta1.
    Union(DisruptionModeUnion),
}

impl DisruptionMode {
    /// Whether the pods are evicted together or not at all.
    pub fn is_of_all(&self) -> bool {
        match self {
            Self::Name(name) => name == "PodGroup",
            Self::Union(mode) => mode.all.is_some(),
        }
    }
}
