//! Groups that are placed in one rack.

use std::sync::Arc;

use engine::{Change, GroupSearch};
use framework::{
    ActionType, Answer, Attempt, DomainLabel, EventForPod, EventObjects, EventResource, Filter,
    GroupPlacement, GroupPlacements, Handle, HintResult, NodeIx, NodeView, PerNode, PlacedGroup,
    PlacementGenerate, PlacementScore, Plugin, Pod, PodGroupKey, PodRoom, Prospect,
    ProspectiveGroup, QueueingHint, Status, default_normalize_score,
};
use proptest::prelude::*;
use serde_json::json;
use testkit::{PodBuilder, node, pod};

use crate::harness::*;
use crate::pod_groups::{binds, conditions, gang_plugin, member, places};

/// TopologyPlacementGenerator in a few lines: members with a node pin the rack.
struct Racks {
    /// The only rack that is proposed, if any.
    only: Option<String>,
    /// Whether it lists the nodes of each rack, so that the engine keeps nothing about racks.
    lists_nodes: bool,
}

impl PlacementGenerate for Racks {
    fn placement_generate(
        &self,
        group: &PodGroupKey,
        handle: &Handle<'_>,
    ) -> Result<GroupPlacements, Status> {
        let cluster = handle.cluster;
        let levels = cluster.topology_of_group(group).unwrap_or_default();
        let Some(key) = levels.first().map(|level| &level.key) else {
            return Ok(GroupPlacements::Anywhere);
        };
        let Some(topology) = cluster.topology(key) else {
            return Err(no("no node has the label"));
        };
        let placed = cluster.pod_group_state(group).and_then(|state| state.scheduled().next());
        let pinned = placed.and_then(|member| topology.domain_of(cluster.pod(member).node));
        if !self.lists_nodes {
            let value = pinned.map(|rack| topology.value(rack).clone());
            return Ok(GroupPlacements::Domains(vec![DomainLabel { key: "rack".into(), value }]));
        }
        let racks = topology.domains().filter(|rack| pinned.is_none_or(|own| own == *rack));
        let racks = racks.map(|rack| GroupPlacement {
            name: topology.value(rack).clone(),
            nodes: topology.nodes(rack).iter().collect(),
        });
        let is_meant =
            |rack: &GroupPlacement| self.only.as_ref().is_none_or(|only| **only == *rack.name);
        Ok(GroupPlacements::OneOf(racks.filter(is_meant).map(Arc::new).collect()))
    }
}

impl Racks {
    fn after_node(&self, event: EventForPod<'_>) -> HintResult {
        let EventObjects::Node { new: Some(new), .. } = event.objects else {
            return Err("no node".into());
        };
        Ok(QueueingHint::queue_if(new.labels.get("rack").is_some()))
    }
}

/// NodeResourcesFit in a few lines, for cpu.
struct Cpu;

impl Filter for Cpu {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let free = node.allocatable().milli_cpu - node.requested().milli_cpu;
        if attempt.pod.requests.fit.milli_cpu > free { no("Insufficient cpu") } else { yes() }
    }
}

fn requested_share(nodes: &[NodeIx], more: i64, handle: &Handle<'_>) -> i64 {
    let (all, requested) = (handle.cluster.allocatable(), handle.cluster.requested());
    let sum = |column: &[i64]| nodes.iter().map(|node| column[node.index()]).sum::<i64>();
    100 * (sum(&requested.milli_cpu) + more).min(sum(&all.milli_cpu)) / sum(&all.milli_cpu).max(1)
}

impl PlacementScore for Cpu {
    fn placement_score(&self, placed: PlacedGroup<'_>, handle: &Handle<'_>) -> Result<i64, Status> {
        Ok(requested_share(&placed.placement.nodes, 0, handle))
    }

    fn placement_score_limits(
        &self,
        group: ProspectiveGroup<'_>,
        handle: &Handle<'_>,
    ) -> Option<Vec<i64>> {
        let all = group.members.iter().map(|pod| pod.requests.placed.milli_cpu).sum();
        let limit = |own: &Prospect| requested_share(&own.placement.nodes, all, handle);
        Some(group.prospects.iter().map(limit).collect())
    }

    fn limits_are_local(&self) -> bool {
        true
    }
}

impl PodRoom for Cpu {
    fn pod_room(&self, pod: &Pod, handle: &Handle<'_>, room: PerNode<'_>) {
        let (all, requested) = (handle.cluster.allocatable(), handle.cluster.requested());
        for (node, room) in room.nodes.iter().zip(room.values) {
            let free = all.milli_cpu[node.index()] - requested.milli_cpu[node.index()];
            *room = (*room).min(free / pod.requests.placed.milli_cpu.max(1));
        }
    }
}

/// Prefers racks that take more members.
struct Count;

impl PlacementScore for Count {
    fn placement_score(&self, placed: PlacedGroup<'_>, handle: &Handle<'_>) -> Result<i64, Status> {
        let state = handle.cluster.pod_group_state(placed.group);
        Ok(state.map_or(0, |state| state.scheduled_count().into()))
    }

    fn placement_score_limits(
        &self,
        group: ProspectiveGroup<'_>,
        _: &Handle<'_>,
    ) -> Option<Vec<i64>> {
        Some(group.prospects.iter().map(|own| own.most.into()).collect())
    }

    fn normalize_placement_scores(&self, scores: &mut [i64]) -> Result<(), Status> {
        if scores.iter().all(|score| *score == 0) {
            return Err(Status::error("no pods"));
        }
        default_normalize_score(scores, false);
        Ok(())
    }
}

/// Rejects nodes with a pod of the same label `apart`, which no bound knows of.
fn apart() -> Fake {
    fake("Apart").on(pod_event(ActionType::DELETE)).filter(|pod, node| {
        let own = pod.labels.get("apart");
        let is_alike = |other: &Pod| own.is_some() && other.labels.get("apart") == own;
        if node.pods().any(|other| is_alike(other)) { no("a member is there") } else { yes() }
    })
}

pub(crate) fn cpu_plugin() -> Plugin {
    let cpu = Plugin::new("Cpu", Cpu).filter().pod_room().placement_score();
    cpu.on(pod_event(ActionType::DELETE)).on(node_event(ActionType::ADD)).build()
}

pub(crate) fn setup(only: Option<String>) -> Setup {
    let lists_nodes = only.is_some();
    setup_with(Racks { only, lists_nodes })
}

fn setup_with(racks: Racks) -> Setup {
    let nodes = node_event(ActionType::ADD | ActionType::UPDATE_NODE_LABEL);
    let racks = Plugin::new("Racks", racks).placement_generate();
    Setup::new([apart()])
        .plugin(gang_plugin())
        .plugin(racks.on_with_hint(nodes, Racks::after_node).build())
        .plugin(cpu_plugin())
        .plugin(Plugin::new("Count", Count).placement_score().no_events().build())
        .pod_groups()
}

/// A node of a rack with room for so many members.
pub(crate) fn rack_node(world: &mut World, name: &str, rack: &str, cpu: u32) {
    let own = node(name).allocatable("cpu", &cpu.to_string()).allocatable("pods", "10");
    world.node(if rack.is_empty() { own } else { own.label("rack", rack) });
}

pub(crate) fn pod_group(world: &mut World, name: &str, min_count: u32) {
    let object = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": min_count}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        },
    });
    world.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, object))));
}

/// A member that needs one cpu.
fn small(group: &str, number: usize) -> PodBuilder {
    member(group, number).cpu("1")
}

fn small_members(world: &mut World, group: &str, count: usize) {
    (0..count).for_each(|number| world.pod(small(group, number)));
}

/// The racks of the members that have a node.
pub(crate) fn racks(world: &World, group: &str, count: usize) -> Vec<String> {
    let cluster = world.engine.cluster();
    let rack = |number| {
        let node = cluster.node_named(&world.node_of(&format!("{group}{number}"))?)?;
        let topology = cluster.topology("rack")?;
        Some(topology.value(topology.domain_of(node)?).to_string())
    };
    (0..count).filter_map(rack).collect()
}

/// Three racks of two nodes with room for two members each.
fn three_racks(setup: Setup) -> World {
    let mut world = setup.build();
    for rack in ["a", "b", "c"] {
        (0..2).for_each(|number| rack_node(&mut world, &format!("{rack}{number}"), rack, 2));
    }
    world
}

#[test]
fn gang_is_placed_in_the_fullest_rack_that_holds_it() {
    let mut world = three_racks(setup(None));
    world.pod(pod("first").cpu("1").on("a0"));
    world.pod(pod("second").cpu("2").on("c0"));
    pod_group(&mut world, "g", 3);
    small_members(&mut world, "g", 3);
    world.run();
    assert_eq!(racks(&world, "g", 3), ["a"; 3]);
    assert_eq!(conditions(&world), ["g True Scheduled: "]);
}

#[test]
fn more_members_count_more_than_a_full_rack() {
    let mut world = three_racks(setup(None));
    world.pod(pod("first").cpu("1").on("a0"));
    pod_group(&mut world, "g", 3);
    small_members(&mut world, "g", 4);
    world.attempt();
    assert_eq!(racks(&world, "g", 4), ["b"; 4]);
}

#[test]
fn rejected_gang_names_the_closest_rack_and_is_bound_when_a_node_of_it_becomes_free() {
    let mut world = three_racks(setup(None));
    for (name, node) in [("x", "a0"), ("y", "b0"), ("z", "c0"), ("w", "c1")] {
        world.pod(pod(name).cpu(if name == "y" { "1" } else { "2" }).on(node));
    }
    pod_group(&mut world, "g", 4);
    small_members(&mut world, "g", 4);
    world.run();
    let text = "pod group is unschedulable, 0/3 placements are available, the closest is \"b\", \
                where 3 of 4 pods fit: 0/2 nodes are available: 2 Insufficient cpu";
    assert_eq!(conditions(&world), [format!("g False Unschedulable: {text}")]);
    assert_eq!(world.condition("g0"), Some(format!("Unschedulable: {text}")));
    let own = "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.";
    assert_eq!(world.condition("g3").as_deref(), Some(own));
    world.run_for(60);
    assert_eq!(places(&world, "g", 4), ["unschedulable"; 4], "no event, no attempt");
    assert!(world.node_of("g0").is_none(), "no room is held");

    world.delete("x");
    world.run_for(3);
    assert_eq!(racks(&world, "g", 4), ["a"; 4]);
    assert_eq!(places(&world, "g", 4), ["placed"; 4]);
}

#[test]
fn placement_that_no_bound_excludes_is_tried_and_given_up() {
    let mut world = three_racks(setup(None));
    let apart = |number| small("g", number).label("apart", "yes");
    pod_group(&mut world, "g", 3);
    (0..3).for_each(|number| world.pod(apart(number)));
    world.run();
    let text = "g False Unschedulable: pod group is unschedulable, 0/3 placements are available, \
                the closest is \"a\", where 2 of 3 pods fit: 0/2 nodes are available: 2 a member \
                is there";
    assert_eq!(conditions(&world), [text]);
    rack_node(&mut world, "b2", "b", 1);
    world.run_for(3);
    assert_eq!(racks(&world, "g", 3), ["b"; 3]);
}

#[test]
fn members_with_a_node_pin_the_rack() {
    let mut world = three_racks(setup(None));
    pod_group(&mut world, "g", 2);
    small_members(&mut world, "g", 2);
    world.run();
    assert_eq!(racks(&world, "g", 2), ["a"; 2]);
    world.pod(pod("x").cpu("2").on("a1"));
    (2..4).for_each(|number| world.pod(small("g", number)));
    world.run();
    assert_eq!(places(&world, "g", 4), ["placed", "placed", "unschedulable", "unschedulable"]);
    world.delete("x");
    world.run_for(3);
    assert_eq!(racks(&world, "g", 4), ["a"; 4]);
}

#[test]
fn label_that_no_node_has_is_explained_and_a_node_with_it_ends_the_wait() {
    let mut world = setup(None).build();
    rack_node(&mut world, "bare", "", 4);
    pod_group(&mut world, "g", 2);
    small_members(&mut world, "g", 2);
    world.run();
    let text = "g False Unschedulable: pod group is unschedulable, no node has the label";
    assert_eq!(conditions(&world), [text]);
    world.run_for(60);
    assert_eq!(places(&world, "g", 2), ["unschedulable"; 2], "no event, no attempt");
    rack_node(&mut world, "n", "r", 4);
    world.run_for(3);
    assert_eq!(racks(&world, "g", 2), ["r"; 2]);
}

#[test]
fn group_without_constraint_is_placed_anywhere() {
    let mut world = three_racks(setup(None));
    let policy = json!({"gang": {"minCount": 6}});
    let object = json!({
        "metadata": {"namespace": "default", "name": "g", "uid": "uid-g"},
        "spec": {"schedulingPolicy": policy},
    });
    world.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, object))));
    small_members(&mut world, "g", 6);
    world.run();
    assert_eq!(places(&world, "g", 6), ["placed"; 6]);
}

/// A gang of two in rack a, which is full with it, and the open bind of its second member.
fn bind_in_full_rack() -> (World, engine::EffectId) {
    let mut world = setup(None).build();
    rack_node(&mut world, "a0", "a", 1);
    rack_node(&mut world, "a1", "a", 1);
    rack_node(&mut world, "b0", "b", 1);
    pod_group(&mut world, "g", 2);
    small_members(&mut world, "g", 2);
    world.attempt();
    let (bind, _) = world.take_bind("g1");
    (world, bind)
}

#[test]
fn member_whose_bind_is_refused_keeps_its_room_and_its_rack() {
    let (mut world, bind) = bind_in_full_rack();
    world.pod(pod("rival").cpu("1").priority(9));
    world.pod(pod("other").cpu("1").priority(9));
    world.answer(bind, &Answer::Error("webhook".to_owned()));
    assert_eq!(world.place("g1"), "assumed", "it is placed again in the same step");
    world.run();
    assert_eq!(places(&world, "g", 2), ["placed"; 2]);
    assert_eq!(racks(&world, "g", 2), ["a"; 2]);
    assert_eq!((world.place("rival"), world.place("other")), ("placed", "unschedulable"));
    assert_eq!(binds(&world), 4, "one of g0, two of g1, one of the rival");
}

#[test]
fn room_of_a_member_that_is_refused_again_and_again_is_given_back() {
    let (mut world, mut bind) = bind_in_full_rack();
    for tries in 1..=3 {
        world.answer(bind, &Answer::Error("webhook".to_owned()));
        let expected = if tries < 3 { "assumed" } else { "error backoff" };
        assert_eq!(world.place("g1"), expected, "try {tries}");
        if tries < 3 {
            bind = world.take_bind("g1").0;
        }
    }
    let text = "g True Scheduled: 1 of 2 pods have a node: the room of pod default/g1 was given \
                back: running Bind plugin \"DefaultBinder\": webhook";
    assert_eq!(conditions(&world), ["g True Scheduled: ", text]);
    assert!(matches!(world.schedule(pod("rival").cpu("1")), engine::Outcome::Assumed(_)));
    world.run_for(20);
    assert_eq!(places(&world, "g", 2), ["placed", "unschedulable"], "the rival has its room");
    world.delete("rival");
    world.run_for(20);
    assert_eq!(places(&world, "g", 2), ["placed"; 2]);
}

#[test]
fn member_without_another_place_gives_its_room_back() {
    let (mut world, bind) = bind_in_full_rack();
    let node = world.node_of("g1").unwrap();
    world.node(node_without_rack(&node));
    world.answer(bind, &Answer::Error("webhook".to_owned()));
    assert_eq!(world.place("g1"), "backoff");
    let text = "g True Scheduled: 1 of 2 pods have a node: the room of pod default/g1 was given \
                back: pod group is unschedulable, 0/1 placements are available, the closest is \
                \"a\", where 0 of 1 pods fit: 0/1 nodes are available: 1 Insufficient cpu";
    assert_eq!(conditions(&world).last().map(String::as_str), Some(text));
}

fn node_without_rack(name: &str) -> testkit::NodeBuilder {
    node(name).allocatable("cpu", "1").allocatable("pods", "10")
}

/// A node: its rack, 0 for none, its cpu, and the cpu of a pod on it.
type Node = (usize, u32, u32);
/// A member: its cpu, and whether it keeps away from its like.
type Wanted = (u32, bool);

fn filled(setup: Setup, nodes: &[Node], wanted: &[Wanted], min_count: u32) -> World {
    let mut world = setup.build();
    for (number, (rack, cpu, used)) in nodes.iter().enumerate() {
        let rack = if *rack == 0 { String::new() } else { format!("r{rack}") };
        rack_node(&mut world, &format!("n{number}"), &rack, *cpu);
        let pod = pod(&format!("x{number}")).cpu(&used.min(cpu).to_string());
        world.pod(pod.on(&format!("n{number}")));
    }
    pod_group(&mut world, "g", min_count);
    for (number, (cpu, is_apart)) in wanted.iter().enumerate() {
        let pod = member("g", number).cpu(&cpu.to_string());
        world.pod(if *is_apart { pod.label("apart", "yes") } else { pod });
    }
    world
}

fn nodes_of(world: &World, members: usize) -> Vec<Option<String>> {
    (0..members).map(|number| world.node_of(&format!("g{number}"))).collect()
}

/// The raw scores of a rack in which the group is placed: the share of cpu, and the members.
fn raw(world: &World, rack: &str, members: usize) -> (i64, i64) {
    let cluster = world.engine.cluster();
    let nodes: Vec<NodeIx> = cluster.with_label("rack", rack).unwrap().iter().collect();
    let share = requested_share(&nodes, 0, &world.engine.handle(world.now));
    let placed = nodes_of(world, members).iter().flatten().count();
    (share, i64::try_from(placed).unwrap())
}

proptest! {
    /// The answer is that of trying each rack alone, and taking the best.
    #[test]
    fn placement_equals_the_best_of_all(
        nodes in prop::collection::vec((0_usize..5, 1_u32..5, 0_u32..4), 1..14),
        wanted in prop::collection::vec((1_u32..3, any::<bool>()), 1..6),
        min_count in 1_u32..6,
    ) {
        let count = wanted.len();
        let min_count = min_count.min(u32::try_from(count).unwrap());
        let with = |only: Option<String>| {
            let of_queue = GroupSearch { steps_per_attempt: 0, ..GroupSearch::default() };
            let mut world = filled(setup(only).group_search(of_queue), &nodes, &wanted, min_count);
            world.attempt();
            world
        };
        let alone = (1..5).filter_map(|rack| {
            let world = with(Some(format!("r{rack}")));
            let is_placed = nodes_of(&world, count).iter().any(Option::is_some);
            is_placed.then(|| (format!("r{rack}"), raw(&world, &format!("r{rack}"), count), world))
        });
        let alone: Vec<(String, (i64, i64), World)> = alone.collect();
        let most = alone.iter().map(|(_, (_, placed), _)| *placed).max().unwrap_or(1);
        let total = |(share, placed): (i64, i64)| share + 100 * placed / most;
        let best = alone.iter().map(|(_, raw, _)| total(*raw)).max();

        let world = with(None);
        let chosen = racks(&world, "g", count);
        let Some(rack) = chosen.first() else {
            prop_assert!(alone.is_empty(), "{:?} fits", alone[0].0);
            return Ok(());
        };
        prop_assert!(chosen.iter().all(|other| other == rack));
        let Some((_, own, expected)) = alone.iter().find(|(name, ..)| name == rack) else {
            return Err(TestCaseError::fail(format!("the group does not fit in {rack}")));
        };
        prop_assert_eq!(Some(total(*own)), best, "another rack is better");
        prop_assert_eq!(nodes_of(&world, count), nodes_of(expected, count));
    }
}

/// A change between two groups.
#[derive(Debug, Clone)]
enum Step {
    /// A node with this number gets a rack, 0 for none, and this cpu.
    Node(usize, usize, u32),
    NodeGone(usize),
    /// A pod of this cpu runs on a node.
    Pod(usize, usize, u32),
    PodGone(usize),
    /// A group with these members comes.
    Group(Vec<Wanted>),
    /// The group with this number goes.
    GroupGone(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let group = prop::collection::vec((1_u32..3, prop::bool::weighted(0.2)), 1..5);
    prop_oneof![
        2 => (0_usize..10, 0_usize..5, 1_u32..5).prop_map(|(n, rack, cpu)| Step::Node(n, rack, cpu)),
        1 => (0_usize..10).prop_map(Step::NodeGone),
        1 => (0_usize..9, 0_usize..10, 1_u32..4).prop_map(|(p, n, cpu)| Step::Pod(p, n, cpu)),
        1 => (0_usize..9).prop_map(Step::PodGone),
        4 => group.prop_map(Step::Group),
        2 => (0_usize..6).prop_map(Step::GroupGone),
    ]
}

fn delete(world: &mut World, name: &str) {
    if world.server.contains_key(&key(name)) {
        world.delete(name);
    }
}

/// Carries out a step. `groups` has the number of members of each group that came, and whether it
/// is there.
fn carry_out(world: &mut World, step: &Step, groups: &mut Vec<(usize, bool)>) {
    match step {
        Step::Node(number, rack, cpu) => {
            let rack = if *rack == 0 { String::new() } else { format!("r{rack}") };
            rack_node(world, &format!("n{number}"), &rack, *cpu);
        }
        Step::NodeGone(number) => {
            let name = format!("n{number}");
            if world.engine.cluster().node_named(&name).is_some() {
                world.delete_node(&name);
            }
        }
        Step::Pod(number, node, cpu) => {
            let name = format!("x{number}");
            if world.engine.cluster().node_named(&format!("n{node}")).is_some() {
                delete(world, &name);
                world.pod(pod(&name).cpu(&cpu.to_string()).on(&format!("n{node}")));
            }
        }
        Step::PodGone(number) => delete(world, &format!("x{number}")),
        Step::Group(wanted) => {
            let name = format!("g{}-", groups.len());
            pod_group(world, &name, u32::try_from(wanted.len()).unwrap());
            for (number, (cpu, is_apart)) in wanted.iter().enumerate() {
                let pod = member(&name, number).cpu(&cpu.to_string());
                world.pod(if *is_apart { pod.label("apart", "yes") } else { pod });
            }
            groups.push((wanted.len(), true));
        }
        Step::GroupGone(number) => {
            if let Some((members, is_there)) = groups.get_mut(*number)
                && std::mem::take(is_there)
            {
                (0..*members).for_each(|member| world.delete(&format!("g{number}-{member}")));
            }
        }
    }
    world.run_for(30);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What the engine keeps of racks changes no decision.
    #[test]
    fn groups_are_placed_as_without_what_is_known_of_racks(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut worlds = [false, true].map(|lists_nodes| {
            (setup_with(Racks { only: None, lists_nodes }).build(), Vec::new())
        });
        for (number, step) in steps.iter().enumerate() {
            let places = worlds.each_mut().map(|(world, groups)| {
                carry_out(world, step, groups);
                let groups = groups.iter().enumerate();
                let names = groups.flat_map(|(group, (members, _))| {
                    (0..*members).map(move |member| format!("g{group}-{member}"))
                });
                let places = names.map(|name| world.node_of(&name)).collect::<Vec<_>>();
                (places, conditions(world))
            });
            prop_assert_eq!(&places[0], &places[1], "step {}: {:?}", number, step);
        }
    }
}
