//! SchedulingGates: keeps a pod out of the queue while `spec.schedulingGates` is not empty.

use framework::{
    ActionType, ClusterEvent, EventForPod, EventResource, Handle, HintResult, Plugin, PluginArgs,
    Pod, PreEnqueue, Status,
};

use crate::hint;

/// Plugin name.
pub const NAME: &str = "SchedulingGates";

/// The SchedulingGates plugin.
#[derive(Debug)]
pub struct SchedulingGates;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let ungated =
        ClusterEvent::new(EventResource::Pod, ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED);
    Ok(Plugin::new(NAME, SchedulingGates)
        .pre_enqueue()
        .on_with_hint(ungated, SchedulingGates::after_ungating)
        .build())
}

impl SchedulingGates {
    fn after_ungating(&self, event: EventForPod<'_>) -> HintResult {
        Ok(hint::queue_if(hint::own_update(event)?.is_some()))
    }
}

impl PreEnqueue for SchedulingGates {
    fn pre_enqueue(&self, pod: &Pod, _handle: &Handle<'_>) -> Status {
        let gates = &pod.spec.scheduling_gates;
        if gates.is_empty() {
            return Status::success();
        }
        Status::unresolvable(format!("waiting for scheduling gates: [{}]", gates.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use framework::{Cluster, EventObjects, QueueingHint};
    use testkit::{handle, pod};

    use super::*;

    #[test]
    fn rejection_lists_gates_in_order() {
        let status = |pod| SchedulingGates.pre_enqueue(&pod, &handle(&Cluster::default()));
        assert!(status(pod("a").build()).is_success());
        let expected = Status::unresolvable("waiting for scheduling gates: [b a]");
        assert_eq!(status(pod("a").gate("b").gate("a").build()), expected);
    }

    #[test]
    fn removal_of_its_own_last_gate_requeues_the_pod() {
        let (mine, other) = (pod("a").build(), pod("b").build());
        for (new, expected) in [(&mine, QueueingHint::Queue), (&other, QueueingHint::Skip)] {
            let objects = EventObjects::Pod { old: Some(new), new: Some(new) };
            let cluster = Cluster::default();
            let hint =
                SchedulingGates.after_ungating(EventForPod::new(&mine, objects, &handle(&cluster)));
            assert_eq!(hint, Ok(expected));
        }
    }
}
