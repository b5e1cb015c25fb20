//! What the members of a group must have in common.

use framework::{PodGroup, PodGroupSource, QueuedPod, Status};

/// What the members of a group must have in common, each besides the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InCommon {
    /// The name of the scheduler: level 1.36.
    SchedulerName,
    /// The priority of the group, and one preemption policy.
    Priority,
    /// The preemption policy of the group (gate PodGroupPreemptionPolicy).
    PreemptionPolicy,
}

/// Checks that one decision can be made about all members.
///
/// # Errors
/// The members differ from each other or from their PodGroup, with the text of kube-scheduler.
pub(crate) fn check_members(
    members: &[QueuedPod],
    group: &PodGroup,
    in_common: InCommon,
) -> Result<(), Status> {
    let Some((first, others)) = members.split_first() else { return Ok(()) };
    for member in others {
        let (own, expected) = (&member.pod.spec, &first.pod.spec);
        if own.scheduler_name != expected.scheduler_name {
            return Err(Status::error(format!(
                "all pods in a single pod group should have the same .spec.schedulerName set, got: \
                 {:?} and {:?}",
                own.scheduler_name, expected.scheduler_name
            )));
        }
        if in_common == InCommon::Priority && own.may_preempt != expected.may_preempt {
            return Err(Status::error(format!(
                "all pods in a single pod group should have the same preemption policy, got {} and {}",
                policy(own.may_preempt),
                policy(expected.may_preempt)
            )));
        }
    }
    if in_common != InCommon::SchedulerName {
        check_priorities(members, group)?;
    }
    if in_common == InCommon::PreemptionPolicy { check_policies(members, group) } else { Ok(()) }
}

/// Checks the preemption policies of the members. A PodGroup without one preempts.
fn check_policies(members: &[QueuedPod], group: &PodGroup) -> Result<(), Status> {
    let expected = group.may_preempt.unwrap_or(true);
    match members.iter().any(|member| member.pod.spec.may_preempt != expected) {
        false => Ok(()),
        true => Err(Status::error(format!(
            "all pods in a single pod group should have the same preemption policy as the pod \
             group's preemption policy, got {} and {}",
            policy(!expected),
            policy(expected)
        ))),
    }
}

/// Checks the priorities of the members. A PodGroup of `scheduling.k8s.io` without one has 0, and
/// one of Coscheduling has none.
fn check_priorities(members: &[QueuedPod], group: &PodGroup) -> Result<(), Status> {
    let is_of_coscheduling = || {
        let key = members.iter().find_map(|member| member.pod.pod_group());
        key.is_some_and(|key| key.source == PodGroupSource::Coscheduling)
    };
    let expected = match group.priority {
        Some(priority) => priority,
        None if is_of_coscheduling() => return Ok(()),
        None => 0,
    };
    let mut priorities = members.iter().map(|member| member.pod.priority());
    priorities.find(|priority| *priority != expected).map_or(Ok(()), |priority| {
        Err(Status::error(format!(
            "all pods in a single pod group should have the same priority as the pod group's \
             priority, got {priority} and {expected}"
        )))
    })
}

const fn policy(may_preempt: bool) -> &'static str {
    if may_preempt { "PreemptLowerPriority" } else { "Never" }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::{SchedulingPolicy, Time};
    use testkit::{PodBuilder, pod};

    use super::*;

    fn checked(pods: [PodBuilder; 2]) -> Result<(), String> {
        checked_with(pods, None, InCommon::Priority)
    }

    fn checked_with(
        pods: [PodBuilder; 2],
        may_preempt: Option<bool>,
        in_common: InCommon,
    ) -> Result<(), String> {
        let group = PodGroup {
            uid: "g".into(),
            generation: 1,
            policy: SchedulingPolicy::Basic,
            priority: Some(0),
            is_disrupted_whole: false,
            is_elastic: false,
            may_preempt,
            topology: Ok(Box::default()),
            claims: Box::default(),
            condition: None,
            coscheduling: None,
        };
        let members = pods.map(|pod| QueuedPod::new(Arc::new(pod.build()), Time::ZERO));
        check_members(&members, &group, in_common).map_err(|status| status.message())
    }

    #[test]
    fn members_that_differ_are_refused_with_the_texts_of_kubernetes() {
        assert_eq!(checked([pod("a"), pod("b")]), Ok(()));
        assert_eq!(
            checked([pod("a"), pod("b").scheduler("other")]).unwrap_err(),
            "all pods in a single pod group should have the same .spec.schedulerName set, got: \
             \"other\" and \"default-scheduler\""
        );
        assert_eq!(
            checked([pod("a"), pod("b").priority(7)]).unwrap_err(),
            "all pods in a single pod group should have the same priority as the pod group's \
             priority, got 7 and 0"
        );
    }

    #[test]
    fn members_may_differ_in_all_but_the_scheduler_at_level_1_36() {
        let never = pod("b").with(|pod| pod.spec.preemption_policy = Some("Never".to_owned()));
        let pods = [pod("a").priority(7), never];
        assert_eq!(checked_with(pods, None, InCommon::SchedulerName), Ok(()));
        let pods = [pod("a"), pod("b").scheduler("other")];
        assert!(checked_with(pods, None, InCommon::SchedulerName).is_err());
    }

    #[test]
    fn preemption_policy_is_that_of_the_group_with_its_gate() {
        let never =
            |name| pod(name).with(|pod| pod.spec.preemption_policy = Some("Never".to_owned()));
        let pods = || [never("a"), never("b")];
        assert_eq!(checked_with(pods(), Some(true), InCommon::Priority), Ok(()));
        assert_eq!(checked_with(pods(), Some(false), InCommon::PreemptionPolicy), Ok(()));
        assert_eq!(
            checked_with(pods(), None, InCommon::PreemptionPolicy).unwrap_err(),
            "all pods in a single pod group should have the same preemption policy as the pod \
             group's preemption policy, got Never and PreemptLowerPriority"
        );
        assert_eq!(
            checked([pod("a"), never("b")]).unwrap_err(),
            "all pods in a single pod group should have the same preemption policy, got Never and \
             PreemptLowerPriority"
        );
    }
}
