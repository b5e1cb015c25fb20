//! NodeDeclaredFeatures: rejects nodes that do not declare a kubelet feature the pod requires.

use framework::{
    ActionType, Attempt, AttemptMut, Behaviours, ClusterEvent, CycleState, Dependence, EventForPod,
    EventResource, Filter, FilterScope, HintResult, NodeBits, NodeView, Plugin, PluginArgs, Pod,
    PreFilter, PreFilterResult, Status,
};

use crate::hint;
use crate::node_sets::retain_union;

/// Plugin name.
pub const NAME: &str = "NodeDeclaredFeatures";

const REASON: &str = "node(s) didn't match Pod's required features";

const RESTART_ALL_CONTAINERS: &str = "RestartAllContainersOnContainerExits";
const USER_NAMESPACES_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";
const BIND_MOUNT_OPTIONS: &str = "VolumeBindMountOptions";

/// The NodeDeclaredFeatures plugin.
#[derive(Debug)]
pub struct NodeDeclaredFeatures {
    behaviours: Behaviours,
}

/// The cycle state of PreFilter. Filter fails without it.
#[derive(Debug, Clone, Copy)]
struct PreFiltered;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let behaviours = args.gates().behaviours();
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_DECLARED_FEATURE;
    Ok(Plugin::new(NAME, NodeDeclaredFeatures { behaviours })
        .pre_filter()
        .filter()
        .on_with_hint(
            ClusterEvent::new(EventResource::Node, nodes),
            NodeDeclaredFeatures::after_node_change,
        )
        .on_with_hint(
            ClusterEvent::new(EventResource::Pod, ActionType::UPDATE),
            NodeDeclaredFeatures::after_own_change,
        )
        .build())
}

impl NodeDeclaredFeatures {
    /// Returns the features that a pod requires according to its spec.
    fn required(&self, pod: &Pod) -> impl Iterator<Item = &'static str> + use<> {
        let spec = &pod.spec;
        let restarts = spec.restarts_all_containers.then_some(RESTART_ALL_CONTAINERS);
        let shares = spec.host_network_in_user_namespace.then_some(USER_NAMESPACES_HOST_NETWORK);
        let mounts = self.behaviours.bind_mount_options_are_required && spec.has_bind_mount_options;
        let mounts = mounts.then_some(BIND_MOUNT_OPTIONS);
        restarts.into_iter().chain(shares).chain(mounts)
    }

    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.nodes()?;
        let unchanged =
            old.zip(new).is_some_and(|(old, new)| old.declared_features == new.declared_features);
        Ok(hint::queue_if(!unchanged))
    }

    fn after_own_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.pods()?;
        let changed = match (old, hint::own_update(event)?) {
            (Some(old), Some(new)) => !self.required(old).eq(self.required(new)),
            (_, new) => new.is_some(),
        };
        Ok(hint::queue_if(changed))
    }

    fn require_pre_filter(state: &CycleState) -> Result<(), Status> {
        match state.read::<PreFiltered>() {
            Some(PreFiltered) => Ok(()),
            None => Err(Status::error("PreFilter of NodeDeclaredFeatures did not run")),
        }
    }
}

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        if self.required(attempt.pod).next().is_none() {
            return Err(Status::skip());
        }
        attempt.state.write(PreFiltered);
        Ok(PreFilterResult::default())
    }
}

impl Filter for NodeDeclaredFeatures {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        if let Err(status) = Self::require_pre_filter(attempt.state) {
            return status;
        }
        let declared = |wanted: &str| node.declared_features().iter().any(|own| **own == *wanted);
        if self.required(attempt.pod).all(declared) {
            Status::success()
        } else {
            Status::unresolvable(REASON)
        }
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let Attempt { state, pod, handle, .. } = *attempt;
        Self::require_pre_filter(state)?;
        for feature in self.required(pod) {
            retain_union(handle.cluster.declaring(feature), handle.cluster, nodes);
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
    use framework::{EventObjects, Level, Node, PluginGates, QueueingHint, api};
    use proptest::prelude::*;
    use testkit::{PodBuilder, cluster, handle, node, pod};

    use super::*;
    use crate::arbitrary::{self, history};
    use crate::forms;

    fn built() -> Plugin {
        plugin(&PluginArgs::default()).unwrap()
    }

    const PLUGIN: NodeDeclaredFeatures =
        NodeDeclaredFeatures { behaviours: Behaviours::of(Level::V1_37) };

    fn mounting(pod: PodBuilder) -> PodBuilder {
        let mount = api::VolumeMount { bind_mount_options: vec!["noexec".to_owned()] };
        pod.with(|api| api.spec.containers[0].volume_mounts.push(mount))
    }

    fn restarting(name: &str) -> PodBuilder {
        let rule = api::ContainerRestartRule { action: "RestartAllContainers".to_owned() };
        pod(name).with(|api| api.spec.containers[0].restart_policy_rules.push(rule))
    }

    fn sharing(pod: PodBuilder, host_users: Option<bool>) -> PodBuilder {
        pod.with(|api| (api.spec.host_network, api.spec.host_users) = (true, host_users))
    }

    #[test]
    fn required_features_follow_from_the_spec() {
        let features = |pod: PodBuilder| PLUGIN.required(&pod.build()).collect::<Vec<_>>();
        assert!(features(pod("p")).is_empty());
        assert!(features(sharing(pod("p"), None)).is_empty());
        assert_eq!(features(restarting("p")), [RESTART_ALL_CONTAINERS]);
        let both = [RESTART_ALL_CONTAINERS, USER_NAMESPACES_HOST_NETWORK];
        assert_eq!(features(sharing(restarting("p"), Some(false))), both);
    }

    #[test]
    fn bind_mount_options_need_a_feature_from_1_37_on() {
        let wanting = mounting(pod("p")).build();
        for (level, expected) in [(Level::V1_36, vec![]), (Level::V1_37, vec![BIND_MOUNT_OPTIONS])]
        {
            let plugin = NodeDeclaredFeatures { behaviours: Behaviours::of(level) };
            assert_eq!(plugin.required(&wanting).collect::<Vec<_>>(), expected, "{level}");
            let args = PluginArgs::default().with_gates(PluginGates::at(level));
            let pre_filter = super::plugin(&args).unwrap().pre_filter.unwrap();
            let (cluster, mut state) = (cluster([node("n").build()], []), CycleState::new());
            let handle = handle(&cluster);
            let attempt = AttemptMut::new(&mut state, &wanting, &handle);
            assert_eq!(pre_filter.pre_filter(attempt).is_ok(), !expected.is_empty(), "{level}");
        }
    }

    #[test]
    fn node_must_declare_all_required_features() {
        let nodes = [
            node("none").build(),
            node("one").feature(RESTART_ALL_CONTAINERS).build(),
            node("both")
                .feature(USER_NAMESPACES_HOST_NETWORK)
                .feature(RESTART_ALL_CONTAINERS)
                .build(),
        ];
        let cluster = cluster(nodes, []);
        let wanting = sharing(restarting("p"), Some(false)).build();
        let mut state = CycleState::new();
        PLUGIN.pre_filter(AttemptMut::new(&mut state, &wanting, &handle(&cluster))).unwrap();
        for (name, expected) in [("none", false), ("one", false), ("both", true)] {
            let view = cluster.node(cluster.node_named(name).unwrap());
            let status =
                PLUGIN.filter(&Attempt::new(&state, &wanting, &handle(view.cluster())), &view);
            assert_eq!(status.is_success(), expected, "{name}");
        }
        let view = cluster.node(cluster.node_named("both").unwrap());
        let status = PLUGIN
            .filter(&Attempt::new(&CycleState::new(), &wanting, &handle(view.cluster())), &view);
        assert_eq!(status.code(), framework::Code::Error);
    }

    #[test]
    fn changed_features_of_pod_or_node_requeue() {
        let (plain, rich) = (node("n").build(), node("n").feature("X").build());
        let on_node = |old: Option<&Node>, new: &Node| {
            let objects = EventObjects::Node { old, new: Some(new) };
            let action = ActionType::UPDATE_NODE_DECLARED_FEATURE;
            let waiting = restarting("p").build();
            forms::hint(&built(), &waiting, EventResource::Node, action, objects)
        };
        assert_eq!(on_node(None, &plain), QueueingHint::Queue);
        assert_eq!(on_node(Some(&plain), &rich), QueueingHint::Queue);
        assert_eq!(on_node(Some(&rich), &rich), QueueingHint::Skip);
        for (old, new, expected) in [
            (restarting("p"), pod("p"), QueueingHint::Queue),
            (restarting("p"), restarting("p"), QueueingHint::Skip),
            (restarting("q"), pod("q"), QueueingHint::Skip),
        ] {
            let (old, new) = (old.build(), new.build());
            let objects = EventObjects::Pod { old: Some(&old), new: Some(&new) };
            let waiting = restarting("p").build();
            let (resource, action) = (EventResource::UnschedulablePod, ActionType::UPDATE);
            assert_eq!(forms::hint(&built(), &waiting, resource, action, objects), expected);
        }
    }

    fn oracle(pod: &api::Pod, node: &api::Node) -> Status {
        let spec = &pod.spec;
        let declares = |name: &str| node.status.declared_features.iter().any(|own| own == name);
        let restarts = spec
            .containers
            .iter()
            .chain(&spec.init_containers)
            .any(|c| c.restart_policy_rules.iter().any(|r| r.action == "RestartAllContainers"));
        let shares = spec.host_network && spec.host_users == Some(false);
        if restarts && !declares("RestartAllContainersOnContainerExits")
            || shares && !declares("UserNamespacesHostNetworkSupport")
        {
            return Status::unresolvable("node(s) didn't match Pod's required features");
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
