//! GangScheduling: keeps the pods of a gang out of the queue until enough of them exist, and
//! decides whether enough of them fit. The engine binds them together.

use framework::{
    ActionType, AttemptMut, COSCHEDULING_POD_GROUPS, ClusterEvent, EventForPod, EventResource,
    Handle, HintResult, Permit, PermitVerdict, PlacementFeasible, Plugin, PluginArgs, Pod,
    PodGroup, PodGroupKey, PodGroupProgress, PreEnqueue, SchedulingPolicy, Status, pod_group_key,
};

use crate::hint;

/// Plugin name.
pub const NAME: &str = "GangScheduling";

/// The GangScheduling plugin.
#[derive(Debug)]
pub struct GangScheduling;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let changes = ActionType::ADD | ActionType::UPDATE;
    let members = ClusterEvent::new(EventResource::Pod, ActionType::ADD);
    let groups = ClusterEvent::new(EventResource::PodGroup, changes);
    let custom = EventResource::Custom(COSCHEDULING_POD_GROUPS.into());
    Ok(Plugin::new(NAME, GangScheduling)
        .pre_enqueue()
        .placement_feasible()
        .permit()
        .schedules_groups()
        .on_with_hint(members, GangScheduling::after_pod)
        .on_with_hint(groups, GangScheduling::after_pod_group)
        .on_with_hint(ClusterEvent::new(custom, changes), GangScheduling::after_pod_group)
        .build())
}

impl GangScheduling {
    /// Requeues a pod for another member of its group.
    fn after_pod(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.pods()?;
        let group = event.pod.pod_group();
        let is_member = |other: &Pod| group.is_some() && other.pod_group() == group;
        Ok(hint::queue_if(new.is_some_and(is_member)))
    }

    /// Requeues a pod when its PodGroup appears, or asks for fewer pods.
    fn after_pod_group(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.typed::<PodGroup>()?;
        let (_, object) = event.objects.others()?;
        let is_own =
            object.is_some_and(|object| Some(pod_group_key(object.key())) == event.pod.pod_group());
        let helps = match (old, new) {
            (Some(old), Some(new)) => new.min_count() < old.min_count(),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        Ok(hint::queue_if(is_own && helps))
    }
}

impl PreEnqueue for GangScheduling {
    fn pre_enqueue(&self, pod: &Pod, handle: &Handle<'_>) -> Status {
        let Some(key) = pod.pod_group() else { return Status::success() };
        let Some(group) = handle.cluster.pod_group(&key) else {
            return Status::unresolvable(format!(
                "waiting for pods's pod group {:?} to appear in scheduling queue",
                key.name
            ));
        };
        let members = handle.cluster.pod_group_state(&key).map_or(0, |state| state.all_count());
        if members < group.min_count() {
            return Status::unresolvable(
                "waiting for minCount pods from a gang to appear in scheduling queue",
            );
        }
        Status::success()
    }
}

impl PlacementFeasible for GangScheduling {
    fn placement_feasible(
        &self,
        group: &PodGroupKey,
        progress: PodGroupProgress,
        handle: &Handle<'_>,
    ) -> Status {
        let known = handle.cluster.pod_group(group);
        let min = known.map_or(1, |group| group.min_count());
        let PodGroupProgress { remaining, scheduled } = progress;
        let is_basic = known.is_some_and(|group| group.policy == SchedulingPolicy::Basic);
        if is_basic && remaining.saturating_add(scheduled) == 0 {
            return Status::unschedulable("none of its pods fits");
        }
        if remaining.saturating_add(scheduled) < min {
            return Status::unschedulable(format!(
                "minCount ({min}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
            ));
        }
        if scheduled < min {
            return Status::new(
                framework::Code::Wait,
                format!(
                    "minCount ({min}) is not yet satisfied: {scheduled} scheduled, {remaining} \
                     remaining"
                ),
            );
        }
        Status::success()
    }
}

/// The members of a gang are bound together by the engine, after PreBind. The point exists for
/// profiles that configure it.
impl Permit for GangScheduling {
    fn permit(&self, _attempt: AttemptMut<'_>, _node: &str) -> PermitVerdict {
        PermitVerdict::Allow
    }
}

#[cfg(test)]
mod tests {
    use framework::{Cluster, Code, EventObjects, Object, ObjectKey, QueueingHint};
    use serde_json::{Value, json};
    use testkit::{PodBuilder, handle, pod};

    use super::*;

    fn pod_group(kind: EventResource, spec: Value) -> Object {
        let key = ObjectKey::namespaced(kind, "default".into(), "g".into());
        Object::decode(key, json!({"metadata": {"name": "g"}, "spec": spec})).unwrap()
    }

    fn gang(min_count: u32) -> Object {
        let policy = json!({"gang": {"minCount": min_count}});
        pod_group(EventResource::PodGroup, json!({"schedulingPolicy": policy}))
    }

    fn member(name: &str) -> PodBuilder {
        pod(name).scheduling_group("g")
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        cluster.count_pod_groups();
        cluster
    }

    #[test]
    fn pods_wait_for_their_pod_group_and_for_enough_members() {
        let mut cluster = cluster();
        let gate = |cluster: &Cluster, pod: PodBuilder| {
            GangScheduling.pre_enqueue(&pod.build(), &handle(cluster)).message()
        };
        assert_eq!(gate(&cluster, pod("alone")), "");
        assert_eq!(
            gate(&cluster, member("a")),
            "waiting for pods's pod group \"g\" to appear in scheduling queue"
        );
        cluster.set_object(gang(2));
        cluster.set_pending_member(&member("a").build(), true);
        assert_eq!(
            gate(&cluster, member("a")),
            "waiting for minCount pods from a gang to appear in scheduling queue"
        );
        cluster.set_pending_member(&member("b").build(), true);
        assert_eq!(gate(&cluster, member("a")), "");
        let basic = json!({"schedulingPolicy": {"basic": {}}});
        cluster.set_object(pod_group(EventResource::PodGroup, basic));
        cluster.set_pending_member(&member("b").build(), false);
        assert_eq!(gate(&cluster, member("a")), "");
    }

    #[test]
    fn group_of_coscheduling_is_a_gang() {
        let mut cluster = cluster();
        let kind = EventResource::Custom(COSCHEDULING_POD_GROUPS.into());
        cluster.set_object(pod_group(kind, json!({"minMember": 2})));
        let pod = pod("a").label(framework::POD_GROUP_LABEL, "g").build();
        cluster.set_pending_member(&pod, true);
        let status = GangScheduling.pre_enqueue(&pod, &handle(&cluster));
        assert!(status.message().starts_with("waiting for minCount pods"), "{status:?}");
    }

    #[test]
    fn feasibility_is_decided_by_the_members_with_a_node_and_those_that_remain() {
        let mut cluster = cluster();
        cluster.set_object(gang(3));
        let status = |scheduled, remaining| {
            let progress = PodGroupProgress { remaining, scheduled };
            let key = PodGroupKey::new("default", "g");
            GangScheduling.placement_feasible(&key, progress, &handle(&cluster))
        };
        let rejected = status(1, 1);
        assert_eq!(rejected.code(), Code::Unschedulable);
        assert_eq!(
            rejected.message(),
            "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"
        );
        let waits = status(2, 1);
        assert_eq!(waits.code(), Code::Wait);
        assert_eq!(waits.message(), "minCount (3) is not yet satisfied: 2 scheduled, 1 remaining");
        assert!(status(3, 0).is_success() && status(3, 5).is_success());
    }

    #[test]
    fn pod_group_that_appears_or_asks_for_fewer_pods_requeues_its_members() {
        let [own, other] = [member("a"), pod("b").scheduling_group("other")].map(PodBuilder::build);
        let hint = |pod: &Pod, old: Option<&Object>, new: Option<&Object>| {
            let objects = EventObjects::Other { old, new };
            GangScheduling.after_pod_group(EventForPod::new(
                pod,
                objects,
                &handle(&Cluster::default()),
            ))
        };
        let (two, three) = (gang(2), gang(3));
        assert_eq!(hint(&own, None, Some(&two)), Ok(QueueingHint::Queue));
        assert_eq!(hint(&other, None, Some(&two)), Ok(QueueingHint::Skip));
        assert_eq!(hint(&own, Some(&three), Some(&two)), Ok(QueueingHint::Queue));
        assert_eq!(hint(&own, Some(&two), Some(&three)), Ok(QueueingHint::Skip));
    }

    #[test]
    fn member_that_is_bound_by_others_requeues_the_members() {
        let hint = |new: PodBuilder| {
            let new = new.on("n").build();
            let objects = EventObjects::Pod { old: None, new: Some(&new) };
            let cluster = Cluster::default();
            GangScheduling.after_pod(EventForPod::new(
                &member("a").build(),
                objects,
                &handle(&cluster),
            ))
        };
        assert_eq!(hint(member("b")), Ok(QueueingHint::Queue));
        assert_eq!(hint(pod("b")), Ok(QueueingHint::Skip));
    }
}
