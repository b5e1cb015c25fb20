//! NodeUnschedulable: rejects cordoned nodes unless the pod tolerates the cordon taint.

use framework::{
    ActionType, Attempt, ClusterEvent, Dependence, EventForPod, EventResource, Filter, FilterScope,
    HintResult, NodeBits, NodeView, Plugin, PluginArgs, Pod, Status, Taint, TaintEffect,
};

use crate::hint;

/// Plugin name.
pub const NAME: &str = "NodeUnschedulable";

const REASON: &str = "node(s) were unschedulable";

/// The NodeUnschedulable plugin.
#[derive(Debug)]
pub struct NodeUnschedulable {
    /// The taint that a pod must tolerate to run on a cordoned node, even if the node lacks the
    /// taint.
    cordon: Taint,
}

impl Default for NodeUnschedulable {
    fn default() -> Self {
        let key = "node.kubernetes.io/unschedulable".into();
        Self { cordon: Taint { key, value: "".into(), effect: TaintEffect::NoSchedule } }
    }
}

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_TAINT;
    let pods = ActionType::UPDATE_POD_TOLERATION;
    Ok(Plugin::new(NAME, NodeUnschedulable::default())
        .filter()
        .on_with_hint(
            ClusterEvent::new(EventResource::Node, nodes),
            NodeUnschedulable::after_node_change,
        )
        .on_with_hint(
            ClusterEvent::new(EventResource::Pod, pods),
            NodeUnschedulable::after_own_toleration,
        )
        .build())
}

impl NodeUnschedulable {
    fn is_tolerated_by(&self, pod: &Pod) -> bool {
        pod.spec.tolerations.iter().any(|own| own.tolerates(&self.cordon))
    }

    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.nodes()?;
        let was_closed = old.is_none_or(|old| old.unschedulable);
        Ok(hint::queue_if(was_closed && new.is_some_and(|new| !new.unschedulable)))
    }

    fn after_own_toleration(&self, event: EventForPod<'_>) -> HintResult {
        let updated = hint::own_update(event)?;
        Ok(hint::queue_if(updated.is_some_and(|new| self.is_tolerated_by(new))))
    }
}

impl Filter for NodeUnschedulable {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        if node.is_unschedulable() && !self.is_tolerated_by(attempt.pod) {
            return Status::unresolvable(REASON);
        }
        Status::success()
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        if !self.is_tolerated_by(attempt.pod) {
            nodes.subtract(attempt.handle.cluster.unschedulable());
        }
        Ok(())
    }

    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Node).without_pods())
    }

    fn only_rejection(&self) -> Option<Status> {
        Some(Status::unresolvable(REASON))
    }
}

#[cfg(test)]
mod tests {
    use framework::{CycleState, EventObjects, Node, QueueingHint, api};
    use proptest::prelude::*;
    use testkit::{PodBuilder, cluster, handle, node, pod};

    use super::*;
    use crate::arbitrary::{self, history};
    use crate::forms;

    const KEY: &str = "node.kubernetes.io/unschedulable";

    fn built() -> Plugin {
        plugin(&PluginArgs::default()).unwrap()
    }

    #[test]
    fn cordon_is_tolerated_like_a_taint() {
        let cluster = cluster([node("n").unschedulable().build()], []);
        let pod = || pod("p");
        for (pod, expected) in [
            (pod(), false),
            (pod().toleration(KEY, "Exists", "", "NoSchedule"), true),
            (pod().toleration(KEY, "Exists", "", "NoExecute"), false),
            (pod().toleration(KEY, "Equal", "", ""), true),
            (pod().toleration(KEY, "Equal", "true", ""), false),
            (pod().toleration("", "Exists", "", ""), true),
        ] {
            let pod: PodBuilder = pod;
            let view = cluster.node(cluster.node_named("n").unwrap());
            let status = NodeUnschedulable::default().filter(
                &Attempt::new(&CycleState::new(), &pod.build(), &handle(view.cluster())),
                &view,
            );
            assert_eq!(status.is_success(), expected, "{status:?}");
        }
    }

    #[test]
    fn uncordoned_node_or_new_toleration_requeues() {
        let open = node("n").build();
        let closed = node("n").unschedulable().build();
        let on_node = |old: Option<&Node>, new: &Node| {
            let objects = EventObjects::Node { old, new: Some(new) };
            forms::hint(&built(), &pod("p").build(), EventResource::Node, ActionType::ADD, objects)
        };
        assert_eq!(on_node(None, &open), QueueingHint::Queue);
        assert_eq!(on_node(None, &closed), QueueingHint::Skip);
        assert_eq!(on_node(Some(&closed), &open), QueueingHint::Queue);
        assert_eq!(on_node(Some(&open), &open), QueueingHint::Skip);
        let tolerant = |name| pod(name).toleration(KEY, "Exists", "", "").build();
        for (new, expected) in [
            (tolerant("p"), QueueingHint::Queue),
            (tolerant("q"), QueueingHint::Skip),
            (pod("p").build(), QueueingHint::Skip),
        ] {
            let objects = EventObjects::Pod { old: None, new: Some(&new) };
            let action = ActionType::UPDATE_POD_TOLERATION;
            let waiting = pod("p").build();
            let hint = forms::hint(&built(), &waiting, EventResource::Pod, action, objects);
            assert_eq!(hint, expected);
        }
    }

    fn oracle(pod: &api::Pod, node: &api::Node) -> Status {
        let tolerated = pod.spec.tolerations.iter().any(|own| {
            (own.key.is_empty() || own.key == KEY)
                && (own.effect.is_empty() || own.effect == "NoSchedule")
                && (own.operator == "Exists"
                    || matches!(own.operator.as_str(), "" | "Equal") && own.value.is_empty())
        });
        if node.spec.unschedulable && !tolerated {
            return Status::unresolvable("node(s) were unschedulable");
        }
        Status::success()
    }

    proptest! {
        #![proptest_config(forms::config())]

        #[test]
        fn forms_agree(history in history(), pod in arbitrary::pod(), choice: u64) {
            let world = history.replay();
            forms::check_filter(&built(), &world, &pod, choice, |node| oracle(&pod, node));
        }
    }
}
