//! Queueing hints of PodTopologySpread for pods that a hard constraint rejected.

use framework::{
    ActionType, Cluster, ClusterEvent, ControllerKind, ControllerSelector, EventForPod,
    EventResource, HintResult, Node, Object, PluginBuilder, Pod, Service,
};

use super::PodTopologySpread;
use super::constraint::{Constraint, has_all_keys};
use crate::hint::queue_if;

/// Registers the events of the plugin.
pub(super) fn register(
    plugin: PluginBuilder<PodTopologySpread>,
    hard_defaults: bool,
) -> PluginBuilder<PodTopologySpread> {
    let any_change = |kind| ClusterEvent::new(kind, ActionType::ALL);
    let nodes = ActionType::ADD
        | ActionType::DELETE
        | ActionType::UPDATE_NODE_LABEL
        | ActionType::UPDATE_NODE_TAINT;
    // Rule pod-topology-spread-terminating-hint of docs/differences.toml: registers every update of
    // a pod.
    let plugin = plugin
        .on_with_hint(any_change(EventResource::Pod), PodTopologySpread::after_pod_change)
        .on_with_hint(
            ClusterEvent::new(EventResource::Node, nodes),
            PodTopologySpread::after_node_change,
        );
    if !hard_defaults {
        return plugin;
    }
    // Rule pod-topology-spread-default-selector-hint of docs/differences.toml: 1.36 does not
    // register these.
    plugin
        .on_with_hint(any_change(EventResource::Service), |_, event| after_service_change(event))
        .on_with_hint(any_change(EventResource::ReplicationController), |_, event| {
            after_controller_change(ControllerKind::ReplicationController, event)
        })
        .on_with_hint(any_change(EventResource::ReplicaSet), |_, event| {
            after_controller_change(ControllerKind::ReplicaSet, event)
        })
        .on_with_hint(any_change(EventResource::StatefulSet), |_, event| {
            after_controller_change(ControllerKind::StatefulSet, event)
        })
}

impl PodTopologySpread {
    fn constraints_of(&self, pod: &Pod, cluster: &Cluster) -> Result<Vec<Constraint>, String> {
        self.hard_constraints(pod, cluster).map_err(|error| error.to_string())
    }

    /// Requeues if a pod starts or stops to count.
    fn after_pod_change(&self, event: EventForPod<'_>) -> HintResult {
        let some_constraint = |holds: &dyn Fn(&Constraint) -> bool| {
            Ok::<_, String>(self.constraints_of(event.pod, event.handle.cluster)?.iter().any(holds))
        };
        let helps = match event.objects.pods()? {
            (Some(old), Some(new)) if new.uid == event.pod.uid => {
                self.is_freed(old, new, event.handle.cluster)?
            }
            (Some(old), Some(new))
                if is_placed_or_nominated(new) && may_count_otherwise(old, new) =>
            {
                some_constraint(&|own| counts_otherwise(own, old, new))?
            }
            (Some(other), None) | (None, Some(other))
                if is_placed_or_nominated(other) || other.uid == event.pod.uid =>
            {
                some_constraint(&|own| own.selects(other))?
            }
            _ => false,
        };
        Ok(queue_if(helps))
    }

    /// Whether an update of the waiting pod itself may help it.
    ///
    /// Rule pod-topology-spread-own-update-hint of docs/differences.toml: 1.36 does not notice
    /// changed constraints.
    fn is_freed(&self, old: &Pod, new: &Pod, cluster: &Cluster) -> Result<bool, String> {
        let before = self.constraints_of(old, cluster)?;
        let after = self.constraints_of(new, cluster)?;
        let tolerates_others = old.spec.tolerations != new.spec.tolerations;
        let wants_others = old.spec.required_node_affinity != new.spec.required_node_affinity;
        let is_affected = |constraint: &Constraint| {
            let inclusion = constraint.inclusion;
            constraint.selects(old) != constraint.selects(new)
                || inclusion.honors_node_taints && tolerates_others
                || inclusion.honors_node_affinity && wants_others
        };
        Ok(before != after || after.iter().any(is_affected))
    }

    /// Requeues if a node starts or stops to count, changes its domain, or newly allows the pod.
    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let nodes = event.objects.nodes()?;
        let constraints = self.constraints_of(event.pod, event.handle.cluster)?;
        let is_complete = |node: &Node| has_all_keys(&constraints, node);
        let helps = match nodes {
            (Some(old), Some(new)) => match (is_complete(old), is_complete(new)) {
                (true, true) => {
                    let moves = |own: &Constraint| changes_place(own, event.pod, old, new);
                    old.taints != new.taints || constraints.iter().any(moves)
                }
                (was_complete, is_complete) => was_complete != is_complete,
            },
            (Some(node), None) | (None, Some(node)) => is_complete(node),
            (None, None) => false,
        };
        Ok(queue_if(helps))
    }
}

/// Whether the pod is placed or nominated.
fn is_placed_or_nominated(pod: &Pod) -> bool {
    pod.node_name.is_some() || pod.nominated_node_name().is_some()
}

/// Whether fields changed that affect counting. Most updates change only the status.
fn may_count_otherwise(old: &Pod, new: &Pod) -> bool {
    old.labels != new.labels || old.terminating != new.terminating
}

/// Whether the constraint counts the pod either before or after a change, but not both.
fn counts_otherwise(constraint: &Constraint, old: &Pod, new: &Pod) -> bool {
    let (before, after) = (constraint.selects(old), constraint.selects(new));
    before != after || after && old.terminating != new.terminating
}

/// Whether a node that has the label before and after a change is in another domain, or starts or
/// stops to count.
///
/// Rule pod-topology-spread-inclusion-hint of docs/differences.toml: 1.36 ignores node affinity.
fn changes_place(constraint: &Constraint, pod: &Pod, old: &Node, new: &Node) -> bool {
    let key = &constraint.topology_key;
    let included = |node: &Node| constraint.inclusion.affinity_includes(pod, node);
    old.labels.get(key) != new.labels.get(key) || included(old) != included(new)
}

/// Requeues if a Service starts or stops to select the pod, or changes its selector.
fn after_service_change(event: EventForPod<'_>) -> HintResult {
    let EventForPod { pod, objects, .. } = event;
    let (old, new) = objects.others()?;
    let selector = |service: Option<&Object>| {
        let service = service.filter(|service| *service.namespace() == pod.key.namespace)?;
        let selector = service.get::<Service>()?.selector.as_ref()?;
        selector.matches(&pod.labels).then(|| selector.clone())
    };
    Ok(queue_if(uses_defaults(pod) && selector(old) != selector(new)))
}

/// Requeues if the selector of the pod's controller changes.
fn after_controller_change(kind: ControllerKind, event: EventForPod<'_>) -> HintResult {
    let EventForPod { pod, objects, .. } = event;
    let (old, new) = objects.others()?;
    let is_its_own = |object: &Object| {
        let own = pod.controller.as_ref().filter(|controller| controller.kind == kind);
        *object.namespace() == pod.key.namespace
            && own.is_some_and(|own| *object.name() == own.name)
    };
    let is_about_it = new.or(old).is_some_and(is_its_own);
    let (old, new) = objects.typed::<ControllerSelector>()?;
    Ok(queue_if(uses_defaults(pod) && is_about_it && old != new))
}

/// Whether default constraints, if there are any, apply to the pod.
fn uses_defaults(pod: &Pod) -> bool {
    pod.spec.topology_spread_constraints.is_empty()
}
