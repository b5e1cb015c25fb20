//! TopologyPlacementGenerator: places all pods of a PodGroup on nodes with one value of a label.
//!
//! `spec.schedulingConstraints` of the PodGroup names the label, for example that of racks. Members
//! that have a node pin its value.

use framework::{
    ActionType, ClusterEvent, DomainIx, DomainLabel, EventForPod, EventResource, GroupPlacements,
    Handle, HintResult, Node, PlacementGenerate, Plugin, PluginArgs, PodGroupKey, PodGroupState,
    QueueingHint, Status, Topology,
};

use crate::hint::queue_if;

/// Plugin name.
pub const NAME: &str = "TopologyPlacementGenerator";

/// The TopologyPlacementGenerator plugin.
#[derive(Debug)]
pub struct TopologyPlacement;

/// Makes the plugin; it takes no arguments.
///
/// # Errors
/// This function does not fail.
pub fn plugin(_args: &PluginArgs) -> Result<Plugin, String> {
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
    let placed = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
    Ok(Plugin::new(NAME, TopologyPlacement)
        .placement_generate()
        .on_with_hint(
            ClusterEvent::new(EventResource::Node, nodes),
            TopologyPlacement::after_node_change,
        )
        .on_with_hint(placed, TopologyPlacement::after_pod_deletion)
        .build())
}

impl PlacementGenerate for TopologyPlacement {
    fn placement_generate(
        &self,
        group: &PodGroupKey,
        handle: &Handle<'_>,
    ) -> Result<GroupPlacements, Status> {
        let cluster = handle.cluster;
        let known = cluster.pod_group(group);
        let Some(key) = known.and_then(|known| known.topology_key.as_deref()) else {
            return Ok(GroupPlacements::Anywhere);
        };
        let topology = cluster.topology(key);
        let pinned = match cluster.pod_group_state(group) {
            Some(state) => pinned(state, topology, handle).map_err(|text| {
                let about = "cannot determine domain for already scheduled pods";
                Status::error(format!("{about}: {text}"))
            })?,
            None => None,
        };
        let Some(topology) = topology.filter(|topology| topology.domain_count() > 0) else {
            return Err(Status::unschedulable(format!(
                "no feasible placements found: no node has the label {key:?}"
            )));
        };
        let value = pinned.map(|pinned| topology.value(pinned).clone());
        Ok(GroupPlacements::Domains(vec![DomainLabel { key: topology.key().clone(), value }]))
    }
}

/// Returns the domain of the members with a node; `None` if there is no such member.
fn pinned(
    state: &PodGroupState,
    topology: Option<Topology<'_>>,
    handle: &Handle<'_>,
) -> Result<Option<DomainIx>, String> {
    let cluster = handle.cluster;
    let mut pinned: Option<DomainIx> = None;
    for member in state.scheduled().map(|member| cluster.pod(member)) {
        let (name, node) = (&member.pod.key, member.node);
        if !cluster.nodes().contains(node) {
            return Err(format!(
                "getting node for pod {name}: nodeinfo not found for node name {:?}",
                cluster.node_name(node)
            ));
        }
        let own = topology.and_then(|topology| Some((topology, topology.domain_of(node)?)));
        let Some((topology, domain)) = own else {
            return Err(format!("no topology domain found for pod {name}"));
        };
        if let Some(other) = pinned.replace(domain).filter(|other| *other != domain) {
            let mut values = [topology.value(other), topology.value(domain)];
            values.sort_unstable();
            return Err(format!(
                "more than 1 domain found for pod group: {}, {}",
                values[0], values[1]
            ));
        }
    }
    Ok(pinned)
}

/// Queueing hints.
impl TopologyPlacement {
    /// Requeues the pods of a group when a node joins one of its domains.
    fn after_node_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, Some(new)) = event.objects.nodes()? else {
            return Err("expected an added or updated node".to_owned());
        };
        let known = event.pod.pod_group().and_then(|group| event.handle.cluster.pod_group(&group));
        let Some(key) = known.and_then(|known| known.topology_key.as_deref()) else {
            return Ok(QueueingHint::Skip);
        };
        let value = |node: &Node| node.labels.get(key).map(ToString::to_string);
        let joined = value(new).filter(|new| old.and_then(value).as_ref() != Some(new));
        Ok(queue_if(joined.is_some()))
    }

    /// Requeues the pods of a group when a member that may pin their domain is gone.
    fn after_pod_deletion(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.pods()?;
        let group = event.pod.pod_group();
        Ok(queue_if(old.is_some_and(|old| group.is_some() && old.pod_group() == group)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use framework::{Cluster, Code, EventObjects, Object, ObjectKey, Pod};
    use serde_json::json;
    use testkit::{NodeBuilder, handle, node, pod};

    use super::*;

    fn cluster(nodes: &[(&str, Option<&str>)]) -> Cluster {
        let mut cluster = Cluster::default();
        cluster.count_pod_groups();
        for (name, rack) in nodes {
            let node = node(name);
            let node = rack.map_or(node.clone(), |rack| node.label("rack", rack));
            cluster.set_node(&node.build());
        }
        cluster.set_object(pod_group(json!({"topology": [{"key": "rack"}]})));
        cluster
    }

    fn pod_group(constraints: serde_json::Value) -> Object {
        let key = ObjectKey::namespaced(EventResource::PodGroup, "default".into(), "g".into());
        let spec = json!({"schedulingConstraints": constraints});
        Object::decode(key, json!({"metadata": {"name": "g"}, "spec": spec})).unwrap()
    }

    /// The labels whose values are the domains, as `key` or `key=value`.
    fn placements(cluster: &Cluster) -> Result<Option<Vec<String>>, Status> {
        let group = PodGroupKey::new("default", "g");
        let label = |own: DomainLabel| match own.value {
            Some(value) => format!("{}={value}", own.key),
            None => own.key.to_string(),
        };
        Ok(match TopologyPlacement.placement_generate(&group, &handle(cluster))? {
            GroupPlacements::Domains(labels) => Some(labels.into_iter().map(label).collect()),
            _ => None,
        })
    }

    fn place(cluster: &mut Cluster, name: &str, node: &str) {
        cluster.place_pod(Arc::new(pod(name).scheduling_group("g").build()), node);
    }

    const RACKS: [(&str, Option<&str>); 4] =
        [("a", Some("r1")), ("b", Some("r2")), ("c", Some("r1")), ("d", None)];

    #[test]
    fn nodes_with_one_value_are_a_placement() {
        let mut cluster = cluster(&RACKS);
        assert_eq!(placements(&cluster), Ok(Some(vec!["rack".to_owned()])));
        cluster.set_object(pod_group(json!({})));
        assert_eq!(placements(&cluster), Ok(None));
    }

    #[test]
    fn members_with_a_node_pin_the_placement() {
        let mut cluster = cluster(&RACKS);
        place(&mut cluster, "p", "b");
        assert_eq!(placements(&cluster), Ok(Some(vec!["rack=r2".to_owned()])));
    }

    #[test]
    fn members_outside_of_one_domain_are_an_error_with_the_text_of_kubernetes() {
        let failure = |pods: &[(&str, &str)]| {
            let mut cluster = cluster(&RACKS);
            pods.iter().for_each(|(pod, node)| place(&mut cluster, pod, node));
            let status = placements(&cluster).unwrap_err();
            assert_eq!(status.code(), Code::Error);
            let about = "cannot determine domain for already scheduled pods: ";
            status.message().strip_prefix(about).unwrap().to_owned()
        };
        assert_eq!(
            failure(&[("p", "b"), ("q", "a")]),
            "more than 1 domain found for pod group: r1, r2"
        );
        assert_eq!(failure(&[("p", "d")]), "no topology domain found for pod default/p");
        let gone = "getting node for pod default/p: nodeinfo not found for node name \"gone\"";
        assert_eq!(failure(&[("p", "gone")]), gone);
    }

    #[test]
    fn label_that_no_node_has_is_a_rejection() {
        let status = placements(&cluster(&[("d", None)])).unwrap_err();
        assert_eq!(status.code(), Code::Unschedulable);
        let expected = "no feasible placements found: no node has the label \"rack\"";
        assert_eq!(status.message(), expected);
    }

    #[test]
    fn node_that_joins_a_domain_requeues_the_group() {
        let cluster = cluster(&RACKS);
        let member = pod("p").scheduling_group("g").build();
        let alone = pod("p").build();
        let hint = |pod: &Pod, old: Option<NodeBuilder>, new: NodeBuilder| {
            let (old, new) = (old.map(NodeBuilder::build), new.build());
            let objects = EventObjects::Node { old: old.as_ref(), new: Some(&new) };
            TopologyPlacement.after_node_change(EventForPod::new(pod, objects, &handle(&cluster)))
        };
        let (bare, racked) = (|| node("n"), |rack| node("n").label("rack", rack));
        assert_eq!(hint(&member, None, racked("r1")), Ok(QueueingHint::Queue));
        assert_eq!(hint(&member, Some(bare()), racked("r1")), Ok(QueueingHint::Queue));
        assert_eq!(hint(&member, Some(racked("r2")), racked("r1")), Ok(QueueingHint::Queue));
        assert_eq!(hint(&member, Some(racked("r1")), racked("r1")), Ok(QueueingHint::Skip));
        assert_eq!(hint(&member, None, bare()), Ok(QueueingHint::Skip));
        assert_eq!(hint(&alone, None, racked("r1")), Ok(QueueingHint::Skip));
    }

    #[test]
    fn deleted_member_requeues_the_group() {
        let member = pod("p").scheduling_group("g").build();
        let hint = |gone: Pod| {
            let objects = EventObjects::Pod { old: Some(&gone), new: None };
            let cluster = Cluster::default();
            TopologyPlacement.after_pod_deletion(EventForPod::new(
                &member,
                objects,
                &handle(&cluster),
            ))
        };
        let other = pod("q").scheduling_group("g").on("a").build();
        assert_eq!(hint(other), Ok(QueueingHint::Queue));
        assert_eq!(hint(pod("q").on("a").build()), Ok(QueueingHint::Skip));
    }
}
