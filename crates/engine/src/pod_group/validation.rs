//! What the members of a group must have in common.

use framework::{PodGroup, QueuedPod, Status};

/// Checks that one decision can be made about all members.
///
/// # Errors
/// The members differ from each other or from their PodGroup, with the text of kube-scheduler.
pub(crate) fn check_members(members: &[QueuedPod], group: &PodGroup) -> Result<(), Status> {
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
        if own.may_preempt != expected.may_preempt {
            return Err(Status::error(format!(
                "all pods in a single pod group should have the same preemption policy, got {} and {}",
                policy(own.may_preempt),
                policy(expected.may_preempt)
            )));
        }
    }
    check_priorities(members, group)
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
        let group = PodGroup {
            uid: "g".into(),
            generation: 1,
            policy: SchedulingPolicy::Basic,
            priority: Some(0),
            condition: None,
        };
        let members = pods.map(|pod| QueuedPod::new(Arc::new(pod.build()), Time::ZERO));
        check_members(&members, &group).map_err(|status| status.message())
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
}
