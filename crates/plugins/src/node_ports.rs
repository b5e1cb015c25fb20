//! NodePorts: rejects nodes on which a host port of the pod is in use. A port is in use per
//! protocol and address.

use framework::{
    ActionType, Attempt, AttemptMut, ClusterEvent, CycleState, Dependence, EventForPod,
    EventResource, Filter, FilterScope, HintResult, HostPort, NodeBits, NodeView, Plugin,
    PluginArgs, Pod, PreFilter, PreFilterResult, QueueingHint, Status,
};

use crate::hint;

/// Plugin name.
pub const NAME: &str = "NodePorts";

const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

/// The NodePorts plugin.
#[derive(Debug)]
pub struct NodePorts;

/// The cycle state of PreFilter. Filter fails without it.
#[derive(Debug, Clone, Copy)]
struct PreFiltered;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let pod_deleted = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    Ok(Plugin::new(NAME, NodePorts)
        .pre_filter()
        .filter()
        .on_with_hint(pod_deleted, NodePorts::after_pod_deletion)
        .on(ClusterEvent::new(EventResource::Node, ActionType::ADD))
        .build())
}

impl NodePorts {
    fn after_pod_deletion(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.pods()?;
        let held_room = |old: &&Pod| old.node_name.is_some() || old.nominated_node_name().is_some();
        let Some(old) = old.filter(held_room) else { return Ok(QueueingHint::Skip) };
        let frees =
            |wanted: &HostPort| old.spec.host_ports.iter().any(|p| p.conflicts_with(wanted));
        Ok(hint::queue_if(event.pod.spec.host_ports.iter().any(frees)))
    }

    fn require_pre_filter(state: &CycleState) -> Result<(), Status> {
        match state.read::<PreFiltered>() {
            Some(PreFiltered) => Ok(()),
            None => Err(Status::error("PreFilter of NodePorts did not run")),
        }
    }
}

impl PreFilter for NodePorts {
    fn pre_filter(&self, attempt: AttemptMut<'_>) -> Result<PreFilterResult, Status> {
        if attempt.pod.spec.host_ports.is_empty() {
            return Err(Status::skip());
        }
        attempt.state.write(PreFiltered);
        Ok(PreFilterResult::default())
    }
}

impl Filter for NodePorts {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        if let Err(status) = Self::require_pre_filter(attempt.state) {
            return status;
        }
        if attempt.pod.spec.host_ports.iter().any(|wanted| node.has_port_conflict(wanted)) {
            return Status::unschedulable(REASON);
        }
        Status::success()
    }

    fn filter_set(&self, attempt: &Attempt<'_>, nodes: &mut NodeBits) -> Result<(), Status> {
        let Attempt { state, pod, handle, .. } = *attempt;
        Self::require_pre_filter(state)?;
        for wanted in &pod.spec.host_ports {
            let Some(using) = handle.cluster.using_port(wanted) else { continue };
            if wanted.is_on_all_addresses() {
                using.subtract_from(nodes);
                continue;
            }
            for node in using.iter() {
                if nodes.contains(node) && handle.cluster.node(node).has_port_conflict(wanted) {
                    nodes.remove(node);
                }
            }
        }
        Ok(())
    }

    fn dependence(&self, _attempt: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Node))
    }

    fn only_rejection(&self) -> Option<Status> {
        Some(Status::unschedulable(REASON))
    }
}

#[cfg(test)]
mod tests {
    use framework::{EventObjects, Overlay, api};
    use proptest::prelude::*;
    use testkit::{PodBuilder, cluster, handle, node, pod};

    use super::*;
    use crate::arbitrary::{self, history};
    use crate::forms;

    fn built() -> Plugin {
        plugin(&PluginArgs::default()).unwrap()
    }

    fn with_port(pod: PodBuilder, ip: &str, protocol: &str, port: i32) -> PodBuilder {
        pod.with(|api| {
            api.spec.containers[0].ports.push(api::ContainerPort {
                container_port: 80,
                host_port: port,
                host_ip: ip.to_owned(),
                protocol: protocol.to_owned(),
            });
        })
    }

    #[test]
    fn ports_conflict_per_address_and_protocol() {
        for (wanted, used, fits) in [
            (("127.0.0.1", "TCP"), ("127.0.0.2", "TCP"), true),
            (("127.0.0.1", "TCP"), ("127.0.0.1", "TCP"), false),
            (("127.0.0.1", "TCP"), ("0.0.0.0", "TCP"), false),
            (("127.0.0.1", "TCP"), ("", ""), false),
            (("0.0.0.0", "UDP"), ("127.0.0.1", "UDP"), false),
            (("", "TCP"), ("", "UDP"), true),
            (("::", "TCP"), ("127.0.0.1", "TCP"), true),
        ] {
            let wanting = with_port(pod("p"), wanted.0, wanted.1, 8080).build();
            let using = with_port(pod("q"), used.0, used.1, 8080).on("n").build();
            let cluster = cluster([node("n").build()], [using]);
            let mut state = CycleState::new();
            NodePorts.pre_filter(AttemptMut::new(&mut state, &wanting, &handle(&cluster))).unwrap();
            let status = NodePorts.filter(
                &Attempt::new(&state, &wanting, &handle(&cluster)),
                &cluster.node(cluster.node_named("n").unwrap()),
            );
            let verdict = if fits { Status::success() } else { Status::unschedulable(REASON) };
            assert_eq!(status, verdict, "{wanted:?} beside {used:?}");
        }
    }

    #[test]
    fn nominated_pods_occupy_their_ports() {
        let cluster = cluster([node("n").build()], []);
        let wanting = pod("p").host_port(80).build();
        let mut overlay = Overlay::default();
        overlay.add(std::sync::Arc::new(pod("q").host_port(80).build()));
        let mut state = CycleState::new();
        NodePorts.pre_filter(AttemptMut::new(&mut state, &wanting, &handle(&cluster))).unwrap();
        let view = cluster.node(cluster.node_named("n").unwrap());
        assert!(
            NodePorts
                .filter(&Attempt::new(&state, &wanting, &handle(view.cluster())), &view)
                .is_success()
        );
        assert!(
            NodePorts
                .filter(
                    &Attempt::new(&state, &wanting, &handle(view.cluster())),
                    &view.with(&overlay)
                )
                .is_rejection()
        );
    }

    #[test]
    fn filter_without_pre_filter_is_an_error() {
        let cluster = cluster([node("n").build()], []);
        let view = cluster.node(cluster.node_named("n").unwrap());
        let wanting = pod("p").host_port(80).build();
        let status = NodePorts
            .filter(&Attempt::new(&CycleState::new(), &wanting, &handle(view.cluster())), &view);
        assert_eq!(status.code(), framework::Code::Error);
    }

    #[test]
    fn deleted_pod_with_a_conflicting_port_requeues() {
        let on_deletion = |old: PodBuilder| {
            let old = old.build();
            let objects = EventObjects::Pod { old: Some(&old), new: None };
            let waiting = pod("p").host_port(80).build();
            let (resource, action) = (EventResource::AssignedPod, ActionType::DELETE);
            forms::hint(&built(), &waiting, resource, action, objects)
        };
        assert_eq!(on_deletion(pod("q").host_port(80).on("n")), QueueingHint::Queue);
        assert_eq!(on_deletion(pod("q").host_port(80).nominated("n")), QueueingHint::Queue);
        assert_eq!(on_deletion(pod("q").host_port(80)), QueueingHint::Skip);
        assert_eq!(on_deletion(pod("q").host_port(81).on("n")), QueueingHint::Skip);
        assert_eq!(on_deletion(pod("q").on("n")), QueueingHint::Skip);
    }

    #[derive(Clone, Copy)]
    struct Used<'a> {
        ip: &'a str,
        protocol: &'a str,
        number: i32,
    }

    /// Returns every host port that a running pod uses.
    fn ports(pod: &api::Pod) -> impl Iterator<Item = Used<'_>> {
        let sidecar = |c: &&api::Container| c.restart_policy.as_deref() == Some("Always");
        let sidecars = pod.spec.init_containers.iter().filter(sidecar);
        let ports = sidecars.chain(&pod.spec.containers).flat_map(|container| &container.ports);
        ports.filter(|port| port.host_port > 0).map(|port| {
            let ip = if port.host_ip.is_empty() { "0.0.0.0" } else { &port.host_ip };
            let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
            Used { ip, protocol, number: port.host_port }
        })
    }

    fn conflict(a: Used<'_>, b: Used<'_>) -> bool {
        let overlap = a.ip == b.ip || a.ip == "0.0.0.0" || b.ip == "0.0.0.0";
        a.protocol == b.protocol && a.number == b.number && overlap
    }

    proptest! {
        #![proptest_config(forms::config())]

        #[test]
        fn forms_agree(history in history(), pod in arbitrary::pod(), choice: u64) {
            let world = history.replay();
            forms::check_filter(&built(), &world, &pod, choice, |node| {
                let mut used = world.pods_on(&node.metadata.name).flat_map(ports);
                if used.any(|used| ports(&pod).any(|wanted| conflict(wanted, used))) {
                    return Status::unschedulable(
                        "node(s) didn't have free ports for the requested pod ports",
                    );
                }
                Status::success()
            });
        }
    }
}
