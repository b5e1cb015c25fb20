//! TopologyPlacementGenerator: places all pods of a PodGroup on nodes with one value of a label, or
//! by several levels of a topology.
//!
//! `spec.schedulingConstraints` of the PodGroup names the label, for example that of racks; an
//! [annotation](framework::TOPOLOGY_ANNOTATION) names more. If it names none, annotations of Kueue
//! on its pods do. Members that have a node pin the values of levels that are required.

use std::sync::Arc;

use framework::{
    ActionType, ClusterEvent, Division, DomainIx, DomainLabel, EventForPod, EventResource,
    GroupPlacements, Handle, HintResult, LevelDivision, LevelPlacement, LevelWish, Node,
    PlacementGenerate, Plugin, PluginArgs, PodGroupKey, PodGroupState, Status, Topology,
    TopologyLevel,
};

use serde::{Deserialize, Serialize};

use crate::args::{decode_strictly, null_as_default};
use crate::hint::queue_if;

/// Plugin name.
pub const NAME: &str = "TopologyPlacementGenerator";

/// The TopologyPlacementGenerator plugin.
#[derive(Debug, Default)]
pub struct TopologyPlacement {
    levels: Vec<String>,
}

/// The arguments. kube-scheduler has none.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Args {
    /// The keys of the levels of the cluster, the widest first.
    #[serde(deserialize_with = "null_as_default")]
    levels: Vec<String>,
}

/// Makes the plugin from its arguments: `levels`, the keys of the levels of the cluster.
///
/// # Errors
/// The arguments do not decode, or a key occurs twice.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let Args { levels } = decode_strictly(args)?;
    for (place, key) in levels.iter().enumerate() {
        if levels[..place].contains(key) {
            return Err(format!("levels[{place}]: Duplicate value: {key:?}"));
        }
    }
    let nodes = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
    let placed = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
    Ok(Plugin::new(NAME, TopologyPlacement { levels })
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
        let levels = handle.cluster.topology_of_group(group);
        let levels = levels.map_err(|text| Status::error(text.to_string()))?;
        let mut labels = Vec::new();
        for level in self.sorted(levels) {
            labels.extend(Level::of(level, group, handle)?);
        }
        Ok(match labels.is_empty() {
            true => GroupPlacements::Anywhere,
            false => placements(labels),
        })
    }
}

impl TopologyPlacement {
    /// Returns the levels in the order that the arguments give, unless one is not listed there.
    fn sorted<'l>(&self, levels: &'l [TopologyLevel]) -> Vec<&'l TopologyLevel> {
        let place = |level: &&TopologyLevel| self.levels.iter().position(|own| *own == *level.key);
        let mut levels: Vec<&TopologyLevel> = levels.iter().collect();
        if levels.iter().all(|level| place(level).is_some()) {
            levels.sort_by_key(|level| (level.wish.divides(), place(level)));
        }
        levels
    }
}

/// A level that some node has.
struct Level {
    label: DomainLabel,
    wish: LevelWish,
}

impl Level {
    /// Returns a level with the value that the members with a node pin; `None` for a level that is
    /// preferred and that no node has.
    fn of(
        level: &TopologyLevel,
        group: &PodGroupKey,
        handle: &Handle<'_>,
    ) -> Result<Option<Self>, Status> {
        let (key, wish) = (&level.key, level.wish);
        let topology = handle.cluster.topology(key);
        let state = handle.cluster.pod_group_state(group);
        let pinned = match (state, wish) {
            (None, _) | (_, LevelWish::Blocks(_) | LevelWish::Over(_)) => None,
            (Some(state), LevelWish::Preferred) => pinned(state, topology, handle).ok().flatten(),
            (Some(state), LevelWish::Required) => {
                pinned(state, topology, handle).map_err(|text| {
                    let about = "cannot determine domain for already scheduled pods";
                    Status::error(format!("{about}: {text}"))
                })?
            }
        };
        match topology.filter(|topology| topology.domain_count() > 0) {
            Some(topology) => {
                let value = pinned.map(|pinned| topology.value(pinned).clone());
                let label = DomainLabel { key: topology.key().clone(), value };
                Ok(Some(Self { label, wish }))
            }
            None if wish == LevelWish::Preferred => Ok(None),
            None => Err(Status::unschedulable(format!(
                "no feasible placements found: no node has the label {key:?}"
            ))),
        }
    }
}

/// Returns the rules by which a group with these levels is placed, the strictest first: with all
/// levels that it prefers, and then without the narrowest of them, and so on.
fn placements(levels: Vec<Level>) -> GroupPlacements {
    let is_preferred = |level: &&Level| level.wish == LevelWish::Preferred;
    let preferred = levels.iter().filter(is_preferred).count();
    let division = levels.last().and_then(|last| {
        let division = match last.wish {
            LevelWish::Blocks(size) => Division::Blocks(size),
            LevelWish::Over(domains) => Division::Over(domains),
            LevelWish::Required | LevelWish::Preferred => return None,
        };
        Some(LevelDivision { key: last.label.key.clone(), division })
    });
    if preferred == 0 && division.is_none() {
        return GroupPlacements::Domains(levels.into_iter().map(|level| level.label).collect());
    }
    let with = |kept: usize| {
        let (mut seen, mut left_out) = (0, None);
        let is_kept = |level: &&Level| {
            if level.wish != LevelWish::Preferred {
                return level.wish == LevelWish::Required;
            }
            seen += 1;
            if seen == kept + 1 {
                left_out = Some(level.label.key.clone());
            }
            seen <= kept
        };
        let within = levels.iter().filter(is_kept).map(|level| level.label.clone()).collect();
        let few = left_out.map(|key| LevelDivision { key, division: Division::Few });
        LevelPlacement { within, division: division.clone().or(few) }
    };
    GroupPlacements::Levels((0..=preferred).rev().map(with).collect())
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
        let group = event.pod.pod_group();
        let levels = group.map(|group| event.handle.cluster.topology_of_group(&group));
        let joins = |key: &Arc<str>| {
            let value = |node: &Node| node.labels.get(key).map(ToString::to_string);
            let joined = value(new).filter(|new| old.and_then(value).as_ref() != Some(new));
            joined.is_some()
        };
        let mut levels = levels.and_then(Result::ok).into_iter().flatten();
        Ok(queue_if(levels.any(|level| joins(&level.key))))
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

    use framework::{Cluster, Code, EventObjects, Object, ObjectKey, Pod, QueueingHint};
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
        let line = |own: LevelPlacement| {
            let within = own.within.into_iter().map(label).collect::<Vec<_>>().join(" ");
            let division = own.division.map(|own| format!("{} {:?}", own.key, own.division));
            [Some(within), division].into_iter().flatten().collect::<Vec<_>>().join(" | ")
        };
        Ok(match TopologyPlacement::default().placement_generate(&group, &handle(cluster))? {
            GroupPlacements::Domains(labels) => Some(labels.into_iter().map(label).collect()),
            GroupPlacements::Levels(levels) => Some(levels.into_iter().map(line).collect()),
            _ => None,
        })
    }

    /// Three zones of two racks with a node each.
    fn zones() -> Cluster {
        let mut cluster = Cluster::default();
        cluster.count_pod_groups();
        for number in 0..6 {
            let (zone, rack) = (format!("z{}", number / 2), format!("r{number}"));
            let node = node(&format!("n{number}")).label("zone", &zone).label("rack", &rack);
            cluster.set_node(&node.build());
        }
        cluster
    }

    fn ask(cluster: &mut Cluster, levels: &str) {
        let key = ObjectKey::namespaced(EventResource::PodGroup, "default".into(), "g".into());
        let annotations = json!({framework::TOPOLOGY_ANNOTATION: levels});
        let metadata = json!({"name": "g", "annotations": annotations});
        cluster.set_object(Object::decode(key, json!({ "metadata": metadata })).unwrap());
    }

    #[test]
    fn preferred_levels_are_left_out_one_by_one() {
        let mut cluster = zones();
        let rules = |cluster: &mut Cluster, levels: &str| {
            ask(cluster, levels);
            placements(cluster).unwrap().unwrap()
        };
        assert_eq!(rules(&mut cluster, "zone required, rack required"), ["zone", "rack"]);
        assert_eq!(
            rules(&mut cluster, "zone required, rack preferred"),
            ["zone rack", "zone | rack Few"]
        );
        assert_eq!(
            rules(&mut cluster, "zone preferred, rack preferred"),
            ["zone rack", "zone | rack Few", " | zone Few"]
        );
        assert_eq!(
            rules(&mut cluster, "zone preferred, rack blocks of 4"),
            ["zone | rack Blocks(4)", " | rack Blocks(4)"]
        );
        assert_eq!(rules(&mut cluster, "zone over 2"), [" | zone Over(2)"]);
        assert_eq!(rules(&mut cluster, "block preferred, zone required"), ["zone"]);
    }

    #[test]
    fn members_with_a_node_pin_the_levels_that_they_share() {
        let mut cluster = zones();
        ask(&mut cluster, "zone required, rack preferred");
        place(&mut cluster, "p", "n2");
        let expected = ["zone=z1 rack=r2", "zone=z1 | rack Few"].map(str::to_owned).to_vec();
        assert_eq!(placements(&cluster), Ok(Some(expected)));
        place(&mut cluster, "q", "n3");
        let expected = ["zone=z1 rack", "zone=z1 | rack Few"].map(str::to_owned).to_vec();
        assert_eq!(placements(&cluster), Ok(Some(expected)));
    }

    #[test]
    fn annotation_that_cannot_be_read_fails_the_group() {
        let mut cluster = zones();
        ask(&mut cluster, "zone narrow");
        let status = placements(&cluster).unwrap_err();
        assert_eq!(status.code(), Code::Error);
        assert!(status.message().starts_with("annotation loadmaster.io/topology: \"zone narrow\""));
    }

    #[test]
    fn levels_of_the_profile_order_those_of_a_group() {
        let levels = ["zone", "block", "rack"].map(str::to_owned).to_vec();
        let plugin = TopologyPlacement { levels };
        let sorted = |keys: &[&str]| {
            let levels: Vec<_> = keys.iter().map(|key| TopologyLevel::required(key)).collect();
            let sorted = plugin.sorted(&levels).into_iter().map(|level| level.key.to_string());
            sorted.collect::<Vec<_>>()
        };
        assert_eq!(sorted(&["rack", "zone"]), ["zone", "rack"]);
        assert_eq!(sorted(&["rack", "other", "zone"]), ["rack", "other", "zone"]);
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
            TopologyPlacement::default().after_node_change(EventForPod::new(
                pod,
                objects,
                &handle(&cluster),
            ))
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
    fn levels_of_pods_count_if_the_pod_group_has_none() {
        let member = |name: &str, annotation: &str| {
            let annotation = format!("kueue.x-k8s.io/podset-{annotation}-topology");
            let with = |pod: &mut framework::api::Pod| {
                pod.metadata.annotations.insert(annotation, "rack".to_owned());
            };
            pod(name).scheduling_group("g").with(with).build()
        };
        let mut cluster = zones();
        cluster.set_object(pod_group(json!({})));
        cluster.set_pending_member(&member("a", "required"), true);
        assert_eq!(placements(&cluster), Ok(Some(vec!["rack".to_owned()])));
        let event =
            EventObjects::Node { old: None, new: Some(&node("n").label("rack", "r9").build()) };
        let own = member("a", "required");
        let hint = TopologyPlacement::default().after_node_change(EventForPod::new(
            &own,
            event,
            &handle(&cluster),
        ));
        assert_eq!(hint, Ok(QueueingHint::Queue));
        cluster.set_pending_member(&member("b", "preferred"), true);
        let failed = placements(&cluster).unwrap_err();
        let text = "the pods of the group disagree about the topology: 1 ask for \"rack \
                    preferred\", 1 ask for \"rack required\"";
        assert_eq!((failed.code(), &*failed.message()), (Code::Error, text));
        cluster.set_object(pod_group(json!({"topology": [{"key": "zone"}]})));
        assert_eq!(placements(&cluster), Ok(Some(vec!["zone".to_owned()])));
    }

    #[test]
    fn deleted_member_requeues_the_group() {
        let member = pod("p").scheduling_group("g").build();
        let hint = |gone: Pod| {
            let objects = EventObjects::Pod { old: Some(&gone), new: None };
            let cluster = Cluster::default();
            TopologyPlacement::default().after_pod_deletion(EventForPod::new(
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
