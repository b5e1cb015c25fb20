//! The events that an update of a pod or a node is split into.
//!
//! Plugins register for parts of an object. Each part that changed is a separate event and moves
//! pods on its own, in the order given here.

use framework::{ActionType, EventResource, Node, Pod, Resources};

/// Returns the resource of the events of `pod`, which depends on whether the pod has a node.
pub fn pod_resource(pod: &Pod) -> EventResource {
    match pod.node_name {
        Some(_) => EventResource::AssignedPod,
        None => EventResource::UnschedulablePod,
    }
}

/// Returns the parts of a pod that an update changed, in the order of the events, or the general
/// [`ActionType::UPDATE`] if none of these parts changed.
pub fn pod_updates(old: &Pod, new: &Pod) -> Vec<ActionType> {
    let gates = |pod: &Pod| !pod.spec.scheduling_gates.is_empty();
    let tests = [
        (ActionType::UPDATE_POD_LABEL, old.labels != new.labels),
        (
            ActionType::UPDATE_POD_SCALE_DOWN,
            scales_down(&old.requests.placed, &new.requests.placed),
        ),
        (ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED, gates(old) && !gates(new)),
        (
            ActionType::UPDATE_POD_TOLERATION,
            old.spec.tolerations.len() != new.spec.tolerations.len(),
        ),
        (
            ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            old.generated_claims() != new.generated_claims(),
        ),
    ];
    let mut updates = those_that_apply(tests);
    if updates.is_empty() {
        updates.push(ActionType::UPDATE);
    }
    updates
}

/// Returns the parts of a node that an update changed, in the order of the events. The list is
/// empty if no pod can depend on the update, for example a heartbeat. Taints may be listed twice,
/// because the end of a cordon counts as a change of taints.
pub fn node_updates(old: &Node, new: &Node) -> Vec<ActionType> {
    let allocatable = |node: &Node| (node.allocatable.clone(), node.allowed_pods);
    those_that_apply([
        (ActionType::UPDATE_NODE_TAINT, old.unschedulable && !new.unschedulable),
        (ActionType::UPDATE_NODE_ALLOCATABLE, allocatable(old) != allocatable(new)),
        (ActionType::UPDATE_NODE_LABEL, old.labels != new.labels),
        (ActionType::UPDATE_NODE_TAINT, old.taints != new.taints),
        (ActionType::UPDATE_NODE_CONDITION, old.conditions != new.conditions),
        (ActionType::UPDATE_NODE_ANNOTATION, old.annotations != new.annotations),
        (ActionType::UPDATE_NODE_DECLARED_FEATURE, old.declared_features != new.declared_features),
        // Kubernetes has no event for fields that only a plugin of this scheduler reads.
        (ActionType::UPDATE, old.extra != new.extra),
    ])
}

fn those_that_apply<const N: usize>(tests: [(ActionType, bool); N]) -> Vec<ActionType> {
    tests.into_iter().filter(|(_, applies)| *applies).map(|(action, _)| action).collect()
}

/// Whether the pod requests less of some resource, or no longer mentions it.
fn scales_down(old: &Resources, new: &Resources) -> bool {
    let mentioned = |name| new.scalars.iter().any(|(own, _)| own == name);
    old.milli_cpu > new.milli_cpu
        || old.memory > new.memory
        || old.ephemeral_storage > new.ephemeral_storage
        || old.scalars.iter().any(|(name, amount)| *amount > new.scalar(name) || !mentioned(name))
}

#[cfg(test)]
mod tests {
    use testkit::{NodeBuilder, PodBuilder, node, pod};

    use super::*;

    #[test]
    fn pod_update_is_split_into_changed_parts() {
        use ActionType as A;
        let old = || {
            let pod = pod("p").cpu("2").memory("2Gi").request("ephemeral-storage", "2Gi");
            pod.request("example.com/gpu", "0").gate("example.com/hold")
        };
        type Change = fn(PodBuilder) -> PodBuilder;
        let rows: [(Change, &[ActionType]); 11] = [
            (|pod| pod, &[A::UPDATE]),
            (|pod| pod.cpu("3"), &[A::UPDATE]),
            (|pod| pod.label("app", "web"), &[A::UPDATE_POD_LABEL]),
            (|pod| pod.cpu("1500m"), &[A::UPDATE_POD_SCALE_DOWN]),
            (|pod| pod.memory("1Gi"), &[A::UPDATE_POD_SCALE_DOWN]),
            (|pod| pod.request("ephemeral-storage", "1Gi"), &[A::UPDATE_POD_SCALE_DOWN]),
            (|pod| pod.with(without_gpu), &[A::UPDATE_POD_SCALE_DOWN]),
            (|pod| pod.with(without_gates), &[A::UPDATE_POD_SCHEDULING_GATES_ELIMINATED]),
            (|pod| pod.gate("example.com/more"), &[A::UPDATE]),
            (|pod| pod.toleration("a", "Exists", "", ""), &[A::UPDATE_POD_TOLERATION]),
            (
                |pod| pod.with(without_gates).cpu("1").label("app", "web").with(with_claim),
                &[
                    A::UPDATE_POD_LABEL,
                    A::UPDATE_POD_SCALE_DOWN,
                    A::UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                    A::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
                ],
            ),
        ];
        for (place, (change, expected)) in rows.into_iter().enumerate() {
            let updates = pod_updates(&old().build(), &change(old()).build());
            assert_eq!(updates, expected, "row {place}");
        }
    }

    fn without_gpu(pod: &mut framework::api::Pod) {
        pod.spec.containers[0].resources.requests.remove("example.com/gpu");
    }

    fn without_gates(pod: &mut framework::api::Pod) {
        pod.spec.scheduling_gates.clear();
    }

    fn with_claim(pod: &mut framework::api::Pod) {
        let status =
            framework::api::PodResourceClaimStatus { name: "t".into(), ..Default::default() };
        pod.status.resource_claim_statuses.push(status);
    }

    #[test]
    fn node_update_is_split_into_changed_parts() {
        use ActionType as A;
        let old = || node("n").unschedulable().label("app", "x");
        type Change = fn(NodeBuilder) -> NodeBuilder;
        let rows: [(Change, &[ActionType]); 8] = [
            (|node| node, &[]),
            (|node| node.image("busybox", 1), &[]),
            (|node| node.allocatable("pods", "111"), &[A::UPDATE_NODE_ALLOCATABLE]),
            (|node| node.allocatable("example.com/gpu", "0"), &[A::UPDATE_NODE_ALLOCATABLE]),
            (|node| node.label("app", "y"), &[A::UPDATE_NODE_LABEL]),
            (|node| node.feature("Resize"), &[A::UPDATE_NODE_DECLARED_FEATURE]),
            (
                |node| {
                    node.with(|node| drop(node.metadata.annotations.insert("a".into(), "b".into())))
                },
                &[A::UPDATE_NODE_ANNOTATION],
            ),
            (
                |node| {
                    node.taint("k", "v", "NoSchedule").with(|node| {
                        node.spec.unschedulable = false;
                        node.status.conditions.push(ready());
                    })
                },
                &[A::UPDATE_NODE_TAINT, A::UPDATE_NODE_TAINT, A::UPDATE_NODE_CONDITION],
            ),
        ];
        for (place, (change, expected)) in rows.into_iter().enumerate() {
            let updates = node_updates(&old().build(), &change(old()).build());
            assert_eq!(updates, expected, "row {place}");
        }
        let kept = |value: i64| {
            let json = serde_json::json!({"metadata": {"name": "n"}, "spec": {"x": value}});
            let mut wanted = framework::ExtraFields::default();
            wanted.node.insert("/spec/x".into());
            Node::from_json(&json, &wanted).unwrap().0
        };
        assert_eq!(node_updates(&kept(1), &kept(2)), [A::UPDATE]);
        let cordoned = node_updates(&node("n").build(), &node("n").unschedulable().build());
        assert_eq!(cordoned, [], "a cordon cannot help any pod");
    }

    fn ready() -> framework::api::NodeCondition {
        framework::api::NodeCondition { type_: "Ready".into(), status: "True".into() }
    }
}
