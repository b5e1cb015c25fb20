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
        "waiting for group scheduling: the pod belongs to the PodGroup {group:?}, and this version of Loadmaster \
         schedules no groups; with the flag --schedule-group-members-alone it schedules each pod by itself"
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

/// Returns the gate, with the event that may open it.
pub(super) fn gate() -> Plugin {
    let label = ClusterEvent::new(EventResource::UnschedulablePod, ActionType::UPDATE_POD_LABEL);
    Plugin::new(GROUP_GATE, GroupGate).pre_enqueue().on(label).build()
}
