//! PodGroups: pods that are decided together.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{POD_GROUP_LABEL, Pod, PodResourceClaim, TopologyLevel, Uid, api};

/// The PodGroups of Coscheduling, as `<plural>.<version>.<group>`.
pub const COSCHEDULING_POD_GROUPS: &str = "podgroups.v1alpha1.scheduling.x-k8s.io";

/// The API that a PodGroup belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PodGroupSource {
    /// `scheduling.k8s.io`, named by `spec.schedulingGroup` of a pod.
    Kubernetes,
    /// `scheduling.x-k8s.io` of Coscheduling, named by a [label](POD_GROUP_LABEL) of a pod.
    Coscheduling,
}

/// API, namespace and name of a PodGroup; prints as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodGroupKey {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The API.
    pub source: PodGroupSource,
}

impl PodGroupKey {
    /// Returns the key of a PodGroup of `scheduling.k8s.io`.
    pub fn new(namespace: &str, name: &str) -> Self {
        let (namespace, name) = (namespace.into(), name.into());
        Self { namespace, name, source: PodGroupSource::Kubernetes }
    }
}

impl fmt::Display for PodGroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How the pods of a PodGroup are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// As many as possible, together in one decision.
    Basic,
    /// At least so many, or none.
    Gang {
        /// Number of pods that are scheduled together; at least 1.
        min_count: u32,
    },
}

/// The condition of a PodGroup that the scheduler writes: `PodGroupScheduled` of v1alpha2 or
/// `PodGroupInitiallyScheduled` of v1beta1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodGroupCondition {
    /// Whether the group is scheduled.
    pub status: bool,
    /// `Scheduled`, `Unschedulable` or `SchedulerError`.
    pub reason: Arc<str>,
    /// Text for people.
    pub message: Arc<str>,
}

/// The fields of the status of a PodGroup of Coscheduling that the scheduler writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoschedulingStatus {
    /// The phase; empty in a PodGroup without status.
    pub phase: Arc<str>,
    /// Number of members that run.
    pub running: i32,
    /// Namespace and name of the controller of the members, or empty.
    #[serde(skip_serializing_if = "is_empty")]
    pub occupied_by: Arc<str>,
}

fn is_empty(text: &str) -> bool {
    text.is_empty()
}

/// The annotation by which a PodGroup is elastic, if its value is `true`.
pub const ELASTIC_ANNOTATION: &str = "loadmaster.io/elastic";

/// A group of pods that are decided together. The PodGroups of both APIs have this form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroup {
    /// Its UID.
    pub uid: Uid,
    /// `metadata.generation`.
    pub generation: i64,
    /// How its pods are scheduled.
    pub policy: SchedulingPolicy,
    /// Its priority, and that of its pods; `None` for a PodGroup without one, which has that of its
    /// pods: one of Coscheduling, or of an API server of 1.36 without the gate
    /// WorkloadAwarePreemption.
    pub priority: Option<i32>,
    /// Whether its pods are evicted together or not at all (`disruptionMode`).
    pub is_disrupted_whole: bool,
    /// Whether its pods beyond the minimum come after the minima of other groups, and go first
    /// ([annotation](ELASTIC_ANNOTATION)).
    pub is_elastic: bool,
    /// Whether its pods may preempt others (`preemptionPolicy`); `None` leaves it to the pods.
    pub may_preempt: Option<bool>,
    /// The levels of a topology that it asks for, the widest first, or why they cannot be read.
    pub topology: Result<Box<[TopologyLevel]>, Arc<str>>,
    /// The ResourceClaims that are reserved for the group instead of its pods.
    pub claims: Box<[PodResourceClaim]>,
    /// The condition that the scheduler wrote.
    pub condition: Option<PodGroupCondition>,
    /// The status of a PodGroup of Coscheduling.
    pub coscheduling: Option<CoschedulingStatus>,
}

/// The types of the condition, of v1alpha2 and of v1beta1.
const CONDITION_TYPES: [&str; 2] = ["PodGroupScheduled", "PodGroupInitiallyScheduled"];

impl PodGroup {
    /// Converts a PodGroup of `scheduling.k8s.io`.
    pub fn from_api(group: &api::PodGroup) -> Self {
        let api::PodGroup { metadata, spec, status } = group;
        let gang = spec.scheduling_policy.gang.as_ref();
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|own| CONDITION_TYPES.contains(&own.type_.as_str()));
        Self {
            uid: metadata.uid.as_str().into(),
            generation: metadata.generation,
            policy: gang.map_or(SchedulingPolicy::Basic, |gang| Self::gang_of(gang.min_count)),
            priority: spec.priority,
            is_disrupted_whole: spec
                .disruption_mode
                .as_ref()
                .is_some_and(api::DisruptionMode::is_of_all),
            is_elastic: is_elastic(metadata),
            may_preempt: spec.preemption_policy.as_deref().map(|policy| policy != "Never"),
            topology: topology(group),
            claims: spec.resource_claims.iter().map(PodResourceClaim::compile).collect(),
            condition: condition.map(|condition| PodGroupCondition {
                status: condition.status == "True",
                reason: condition.reason.as_str().into(),
                message: condition.message.as_str().into(),
            }),
            coscheduling: None,
        }
    }

    /// Converts a PodGroup of Coscheduling.
    pub fn from_coscheduling(group: &api::CoschedulingPodGroup) -> Self {
        let api::CoschedulingPodGroup { metadata, spec, status } = group;
        Self {
            uid: metadata.uid.as_str().into(),
            generation: metadata.generation,
            policy: Self::gang_of(spec.min_member),
            priority: None,
            is_disrupted_whole: false,
            is_elastic: is_elastic(metadata),
            may_preempt: None,
            topology: TopologyLevel::of_annotations(&metadata.annotations),
            claims: Box::default(),
            condition: None,
            coscheduling: Some(CoschedulingStatus {
                phase: status.phase.as_str().into(),
                running: status.running,
                occupied_by: status.occupied_by.as_str().into(),
            }),
        }
    }

    /// Returns the policy of a gang. An API server refuses a count below 1.
    fn gang_of(min_count: i32) -> SchedulingPolicy {
        SchedulingPolicy::Gang { min_count: u32::try_from(min_count).unwrap_or(0).max(1) }
    }

    /// Returns the number of pods that are scheduled together; 1 without a gang.
    pub const fn min_count(&self) -> u32 {
        match self.policy {
            SchedulingPolicy::Basic => 1,
            SchedulingPolicy::Gang { min_count } => min_count,
        }
    }
}

fn is_elastic(metadata: &api::ObjectMeta) -> bool {
    metadata.annotations.get(ELASTIC_ANNOTATION).is_some_and(|value| value == "true")
}

/// Returns the levels that a PodGroup asks for: those of its annotation, and its constraint as the
/// narrowest of them unless the annotation names its key.
fn topology(group: &api::PodGroup) -> Result<Box<[TopologyLevel]>, Arc<str>> {
    let levels = TopologyLevel::of_annotations(&group.metadata.annotations)?;
    let mut constraints = group.spec.scheduling_constraints.topology.iter();
    let own = constraints.next().map(|constraint| TopologyLevel::required(&constraint.key));
    let own = own.filter(|own| levels.iter().all(|level| level.key != own.key));
    let is_last = levels.last().is_none_or(|last| !last.wish.divides());
    let (wider, last) = levels.split_at(levels.len() - usize::from(!is_last));
    Ok(wider.iter().cloned().chain(own).chain(last.iter().cloned()).collect())
}

impl Pod {
    /// Whether the pod is a member of a PodGroup of Coscheduling by its [label](POD_GROUP_LABEL)
    /// and runs. This is not known of other pods.
    pub fn is_running_member(&self) -> bool {
        self.uncommon.as_ref().is_some_and(|uncommon| uncommon.is_running_member)
    }

    /// Whether all containers of the pod have ended without a failure, for good.
    pub fn has_succeeded(&self) -> bool {
        self.uncommon.as_ref().is_some_and(|uncommon| uncommon.has_succeeded)
    }

    /// Returns the PodGroup that the pod belongs to. `spec.schedulingGroup` goes before the
    /// [label](POD_GROUP_LABEL).
    pub fn pod_group(&self) -> Option<PodGroupKey> {
        let of = |name, source| PodGroupKey { namespace: self.key.namespace.clone(), name, source };
        if let Some(name) = &self.spec.scheduling_group {
            return Some(of(name.clone(), PodGroupSource::Kubernetes));
        }
        let name = self.labels.get(POD_GROUP_LABEL).filter(|name| !name.is_empty())?;
        Some(of(name.into(), PodGroupSource::Coscheduling))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    fn pod_group(object: &Value) -> PodGroup {
        PodGroup::from_api(&api::PodGroup::deserialize(object).unwrap())
    }

    #[test]
    fn policies_of_both_versions_and_of_coscheduling_are_read() {
        let gang = |count| json!({"spec": {"schedulingPolicy": {"gang": {"minCount": count}}}});
        assert_eq!(pod_group(&gang(3)).policy, SchedulingPolicy::Gang { min_count: 3 });
        assert_eq!(pod_group(&gang(-1)).min_count(), 1);
        let basic = pod_group(&json!({"spec": {"schedulingPolicy": {"basic": {}}, "priority": 7}}));
        assert_eq!((basic.policy, basic.priority), (SchedulingPolicy::Basic, Some(7)));
        assert_eq!(basic.topology, Ok(Box::default()));
        let in_rack = json!({"schedulingConstraints": {"topology": [{"key": "rack"}]}});
        let in_rack = pod_group(&json!({ "spec": in_rack }));
        assert_eq!(in_rack.topology, Ok([TopologyLevel::required("rack")].into()));
        let status = json!({"phase": "Running", "running": 4, "occupiedBy": "n/job"});
        let group = json!({"metadata": {"uid": "u"}, "spec": {"minMember": 4}, "status": status});
        let group = api::CoschedulingPodGroup::deserialize(group).unwrap();
        let group = PodGroup::from_coscheduling(&group);
        assert_eq!((group.min_count(), group.priority), (4, None));
        assert_eq!(json!(group.coscheduling), status);
    }

    #[test]
    fn disruption_modes_of_both_versions_are_read() {
        let is_whole =
            |mode: Value| pod_group(&json!({"spec": {"disruptionMode": mode}})).is_disrupted_whole;
        assert!(is_whole(json!("PodGroup")) && is_whole(json!({"all": {}})));
        assert!(!is_whole(json!("Pod")) && !is_whole(json!({"single": {}})));
        assert!(!is_whole(Value::Null));
        let may_preempt =
            |policy: Value| pod_group(&json!({"spec": {"preemptionPolicy": policy}})).may_preempt;
        assert_eq!(may_preempt(json!("Never")), Some(false));
        assert_eq!(may_preempt(json!("PreemptLowerPriority")), Some(true));
        assert_eq!(may_preempt(Value::Null), None);
    }

    #[test]
    fn condition_of_the_scheduler_is_told_from_others() {
        let condition = |name: &str| json!({"type": name, "status": "False", "reason": "R"});
        let of = |names: &[&str]| {
            let conditions: Vec<_> = names.iter().map(|name| condition(name)).collect();
            pod_group(&json!({"status": {"conditions": conditions}})).condition
        };
        assert_eq!(of(&["DisruptionTarget"]), None);
        let own = of(&["DisruptionTarget", "PodGroupInitiallyScheduled"]).unwrap();
        assert_eq!((own.status, &*own.reason), (false, "R"));
        assert!(of(&["PodGroupScheduled"]).is_some());
    }

    #[test]
    fn running_members_are_told_from_other_pods() {
        let pod = |label: &str, phase: &str| {
            let pod = json!({"metadata": {"labels": {label: "g"}}, "status": {"phase": phase}});
            Pod::from_api(&api::Pod::deserialize(pod).unwrap())
        };
        assert!(pod(POD_GROUP_LABEL, "Running").is_running_member());
        assert!(!pod(POD_GROUP_LABEL, "Pending").is_running_member());
        assert_eq!(pod("app", "Running").uncommon, None);
    }

    #[test]
    fn field_of_a_pod_goes_before_its_label() {
        let pod = |spec: Value, labels: Value| {
            let metadata = json!({"namespace": "n", "name": "p", "labels": labels});
            let pod = json!({"metadata": metadata, "spec": spec});
            Pod::from_api(&api::Pod::deserialize(pod).unwrap())
        };
        let field = || json!({"schedulingGroup": {"podGroupName": "a"}});
        let label = || json!({POD_GROUP_LABEL: "b"});
        let rows = [
            (pod(field(), label()), Some(("a", PodGroupSource::Kubernetes))),
            (pod(json!({}), label()), Some(("b", PodGroupSource::Coscheduling))),
            (pod(json!({}), json!({POD_GROUP_LABEL: ""})), None),
        ];
        for (pod, expected) in rows {
            let group = pod.pod_group();
            let found = group.as_ref().map(|group| (&*group.name, group.source));
            assert_eq!(found, expected);
            assert_eq!(pod.group(), expected.map(|(name, _)| name));
        }
    }
}
