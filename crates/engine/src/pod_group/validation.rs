//! What the members of a group must have in common.

use framework::{PodGroup, QueuedPod, Status};

/// Checks that one decision can be made about all members. `has_policy` says whether the PodGroup
/// has a preemption policy.
///
/// # Errors
/// The members differ from each other or from their PodGroup, with the text of kube-scheduler.
pub(crate) fn check_members(
    members: &[QueuedPod],
    group: &PodGroup,
    has_policy: bool,
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
        if !has_policy && own.may_preempt != expected.may_preempt {
            return Err(Status::error(format!(
                "all pods in a single pod group should have the same preemption policy, got {} and {}",
                policy(own.may_preempt),
                policy(expected.may_preempt)
            )));
        }
    }
    check_priorities(members, group)?;
    if has_policy { check_policies(members, group) } else { Ok(()) }
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

/// Checks the priorities of the members, if the PodGroup has one.
fn check_priorities(members: &[QueuedPod], group: &PodGroup) -> Result<(), Status> {
    let Some(expected) = group.priority else { return Ok(()) };
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
        checked_with(pods, None, false)
    }

    fn checked_with(
        pods: [PodBuilder; 2],
        may_preempt: Option<bool>,
        has_policy: bool,
    ) -> Result<(), String> {
        let group = PodGroup {
            uid: "g".into(),
            generation: 1,
            policy: SchedulingPolicy::Basic,
            priority: Some(0),
            is_disrupted_whole: false,
            may_preempt,
            topology_key: None,
            condition: None,
        };
        let members = pods.map(|pod| QueuedPod::new(Arc::new(pod.build()), Time::ZERO));
        check_members(&members, &group, has_policy).map_err(|status| status.message())
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
    fn preemption_policy_is_that_of_the_group_with_its_gate() {
        let never =
            |name| pod(name).with(|pod| pod.spec.preemption_policy = Some("Never".to_owned()));
        let pods = || [never("a"), never("b")];
        assert_eq!(checked_with(pods(), Some(true), false), Ok(()));
        assert_eq!(checked_with(pods(), Some(false), true), Ok(()));
        assert_eq!(
            checked_with(pods(), None, true).unwrap_err(),
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
