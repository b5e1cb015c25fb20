//! The gate of pods that belong to a group, in profiles without a plugin that schedules groups.

use framework::{
    ActionType, ClusterEvent, EventResource, Handle, Plugin, Pod, PreEnqueue, ScheduledCondition,
    Status,
};

/// Name under which the gate is shown as a PreEnqueue plugin.
pub const GROUP_GATE: &str = "PodGroups";

/// Keeps the pods of groups out of the active queue.
struct GroupGate;

impl PreEnqueue for GroupGate {
    fn pre_enqueue(&self, pod: &Pod, _handle: &Handle<'_>) -> Status {
        pod.group().map_or_else(Status::success, |group| Status::unresolvable(message(group)))
    }
}

fn message(group: &str) -> String {
    format!(
        "waiting for group scheduling: the pod belongs to the PodGroup {group:?}, and the gate GenericWorkload is off, \
         by a flag or because the API server served no PodGroups when the scheduler started; with the flag \
         --schedule-group-members-alone each pod is scheduled by itself"
    )
}

/// Returns the condition of a pod that the gate keeps back; `None` for a pod without a group.
pub(crate) fn gated_condition(pod: &Pod) -> Option<ScheduledCondition> {
    pod.group().map(|group| ScheduledCondition {
        status: false,
        reason: "SchedulingGated".into(),
        message: message(group).into(),
    })
}

/// Returns what an event says about a pod that is scheduled by itself although it belongs to a
/// group; `None` for a pod without a group.
pub(crate) fn member_alone(pod: &Pod) -> Option<String> {
    pod.group().map(|group| {
        format!(
            "the pod belongs to the PodGroup {group:?} and is scheduled by itself: the gate GenericWorkload is off"
        )
    })
}

/// Returns the gate, with the event that may open it.
pub(super) fn gate() -> Plugin {
    let label = ClusterEvent::new(EventResource::UnschedulablePod, ActionType::UPDATE_POD_LABEL);
    Plugin::new(GROUP_GATE, GroupGate).pre_enqueue().on(label).build()
}
