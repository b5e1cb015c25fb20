//! The events that an update of a pod or a node is split into, as kube-scheduler has them.

use framework::{ActionType, Node, Pod, Resources};

/// Returns what an update of a pod changed (`podSchedulingPropertiesChange`), or Update if none of
/// these.
pub(super) fn of_pod(old: &Pod, new: &Pod) -> Vec<ActionType> {
    let mut events = Vec::new();
    if old.labels != new.labels {
        events.push(ActionType::UPDATE_POD_LABEL);
    }
    if requests_less(&old.requests.placed, &new.requests.placed) {
        events.push(ActionType::UPDATE_POD_SCALE_DOWN);
    }
    if !old.spec.scheduling_gates.is_empty() && new.spec.scheduling_gates.is_empty() {
        events.push(ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED);
    }
    if old.spec.tolerations.len() != new.spec.tolerations.len() {
        events.push(ActionType::UPDATE_POD_TOLERATION);
    }
    if old.generated_claims() != new.generated_claims() {
        events.push(ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM);
    }
    if events.is_empty() {
        events.push(ActionType::UPDATE);
    }
    events
}

fn requests_less(old: &Resources, new: &Resources) -> bool {
    let scalar =
        |name: &_| new.scalars.iter().find(|(own, _)| own == name).map(|(_, amount)| *amount);
    new.milli_cpu < old.milli_cpu
        || new.memory < old.memory
        || new.ephemeral_storage < old.ephemeral_storage
        || old.scalars.iter().any(|(name, amount)| scalar(name).is_none_or(|now| now < *amount))
}

/// Returns what an update of a node changed (`nodeSchedulingPropertiesChange`), in the order of the
/// events.
pub(super) fn of_node(old: &Node, new: &Node) -> Vec<ActionType> {
    let mut events = Vec::new();
    let mut changed = |is_changed: bool, event| events.extend(is_changed.then_some(event));
    changed(old.unschedulable && !new.unschedulable, ActionType::UPDATE_NODE_TAINT);
    changed(
        old.allocatable != new.allocatable || old.allowed_pods != new.allowed_pods,
        ActionType::UPDATE_NODE_ALLOCATABLE,
    );
    changed(old.labels != new.labels, ActionType::UPDATE_NODE_LABEL);
    changed(old.taints != new.taints, ActionType::UPDATE_NODE_TAINT);
    changed(old.conditions != new.conditions, ActionType::UPDATE_NODE_CONDITION);
    changed(old.annotations != new.annotations, ActionType::UPDATE_NODE_ANNOTATION);
    changed(
        old.declared_features != new.declared_features,
        ActionType::UPDATE_NODE_DECLARED_FEATURE,
    );
    events
}
