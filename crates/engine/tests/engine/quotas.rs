//! Quotas with CapacityScheduling: what is admitted, what is taken back, and who is woken.

use std::collections::BTreeMap;

use engine::{Change, EffectKind};
use framework::quota::QuotaView;
use framework::{
    ELASTIC_QUOTAS, EventResource, Extra, ObjectKey, PluginArgs, PluginGates,
    QUOTA_IS_PARENT_LABEL, QUOTA_LENDS_LABEL, QUOTA_MINIMUM_RUN_ANNOTATION, QUOTA_NAME_LABEL,
    QUOTA_PARENT_LABEL,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{PodBuilder, node, pod};

use crate::harness::*;
use crate::pod_groups::{conditions, gang_plugin, member, pod_group};

fn setup(args: Value) -> Setup {
    setup_with(fit(), args)
}

fn setup_with(fit: Fake, args: Value) -> Setup {
    let gates = PluginGates { workload_aware_preemption: true, ..PluginGates::default() };
    let plugin =
        scheduler_plugins::capacity_scheduling::plugin(&PluginArgs::new(args).with_gates(gates))
            .unwrap();
    Setup::new([fit]).plugin(plugin).plugin(gang_plugin()).pod_groups()
}

/// A world with nodes `n0`, `n1` … of so many CPUs.
fn nodes_of(cpu: u32, count: usize) -> World {
    let mut world = setup(json!({})).build();
    for number in 0..count {
        world.node(node(&format!("n{number}")).allocatable("cpu", &cpu.to_string()));
    }
    world
}

fn quota_object(name: &str, spec: Value) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"),
            "labels": {QUOTA_PARENT_LABEL: "koordinator-root-quota"}},
        "spec": spec,
    })
}

/// A quota that pods choose by their label.
fn quota(world: &mut World, name: &str, min: u32, max: u32) {
    let limit = |cpu: u32| json!({"cpu": cpu.to_string()});
    put(world, quota_object(name, json!({"min": limit(min), "max": limit(max)})));
}

fn put(world: &mut World, object: Value) {
    let kind = EventResource::Custom(ELASTIC_QUOTAS.into());
    world.apply(Change::Object(Box::new(testkit::object(kind, object))));
}

fn of(team: &str, name: &str) -> PodBuilder {
    pod(name).cpu("1").label(QUOTA_NAME_LABEL, team)
}

fn used(world: &World, team: &str) -> i128 {
    let books = world.engine.world().cluster().quotas();
    let cpu = books.resource("cpu").unwrap();
    books.quotas().find(|own| *own.key().name == *team).map_or(0, |own| own.used(cpu))
}

#[test]
fn pod_beyond_max_waits_with_the_text_of_capacity_scheduling_until_room_is_free() {
    let mut world = nodes_of(8, 1);
    quota(&mut world, "a", 2, 2);
    quota(&mut world, "b", 2, 8);
    for name in ["p", "q"] {
        world.pod(of("a", name));
    }
    world.run();
    world.pod(of("a", "r"));
    world.pod(of("b", "other"));
    world.run();
    assert!(world_condition(&world, "r").contains(
        "Pod default/r is rejected in PreFilter because ElasticQuota default is more than Max"
    ));
    world.delete("other");
    world.run_for(60);
    assert_eq!(world.place("r"), "unschedulable", "the pod of another quota does not help");
    world.delete("p");
    world.run_for(60);
    assert_eq!(world.place("r"), "placed");
}

fn world_condition(world: &World, name: &str) -> String {
    world.condition(name).unwrap_or_default()
}

#[test]
fn quotas_lend_up_to_the_sum_of_min() {
    let mut world = nodes_of(8, 1);
    quota(&mut world, "a", 2, 8);
    quota(&mut world, "b", 2, 8);
    for number in 0..5 {
        world.pod(of("b", &format!("b{number}")));
        world.run();
    }
    assert_eq!(used(&world, "b"), 4000);
    let condition = world_condition(&world, "b4");
    let text =
        "Pod default/b4 is rejected in PreFilter because total ElasticQuota used is more than min";
    assert!(condition.contains(text), "{condition}");
    quota(&mut world, "a", 3, 8);
    world.run_for(60);
    assert_eq!(used(&world, "b"), 5000, "a larger guarantee is lent");
}

#[test]
fn guarantee_is_taken_back_from_the_newest_borrowed_pods() {
    let mut world = nodes_of(4, 1);
    quota(&mut world, "a", 2, 4);
    quota(&mut world, "b", 2, 4);
    for number in 0..4 {
        world.pod(of("b", &format!("b{number}")).priority(100).started(number).on("n0"));
    }
    world.pod(of("a", "a0"));
    world.run_for(60);
    assert_eq!(world.place("a0"), "placed");
    assert_eq!(world.evictions(), ["b3"]);
    world.pod(of("a", "a1"));
    world.run_for(60);
    assert_eq!(world.evictions(), ["b3", "b2"]);
    world.pod(of("a", "a2"));
    world.pod(of("b", "b4").priority(100));
    world.run_for(600);
    assert_eq!(world.evictions().len(), 2, "both quotas have their guarantee");
}

#[test]
fn pods_that_are_evicted_for_others_are_not_evicted_for_nothing() {
    let mut world = nodes_of(8, 2);
    quota(&mut world, "a", 8, 16);
    quota(&mut world, "b", 8, 16);
    for number in 0..12 {
        let node = format!("n{}", number % 2);
        world.pod(of("b", &format!("b{number}")).started(number).on(&node));
    }
    for number in 0..8 {
        world.pod(of("a", &format!("a{number}")));
    }
    // All attempts come before the first eviction ends.
    world.run_for(60);
    let mut evicted = world.evictions();
    evicted.sort_unstable();
    assert_eq!(evicted, ["b10", "b11", "b8", "b9"]);
    assert_eq!((used(&world, "a"), used(&world, "b")), (8000, 8000));
}

#[test]
fn reclaim_takes_pods_of_several_nodes_if_only_together_they_make_room_in_the_quota() {
    let mut world = nodes_of(2, 3);
    quota(&mut world, "a", 2, 4);
    quota(&mut world, "b", 2, 4);
    // The quotas have 4 CPUs together, the nodes 6.
    for (number, node) in [(0, "n0"), (1, "n1"), (2, "n0"), (3, "n1")] {
        world.pod(of("b", &format!("b{number}")).started(number).on(node));
    }
    world.pod(of("a", "large").cpu("2"));
    world.run_for(60);
    assert_eq!(world.node_of("large").as_deref(), Some("n2"));
    let mut evicted = world.evictions();
    evicted.sort_unstable();
    assert_eq!(evicted, ["b2", "b3"]);
}

#[test]
fn pods_with_and_without_a_quota_never_evict_each_other() {
    let mut world = nodes_of(2, 1);
    let mut elsewhere = quota_object("a", json!({"min": {"cpu": "2"}}));
    elsewhere["metadata"]["namespace"] = json!("team");
    put(&mut world, elsewhere);
    for number in 0..2 {
        world.pod(pod(&format!("free{number}")).cpu("1").on("n0"));
    }
    world.pod(of("a", "a0").priority(1000));
    world.run_for(60);
    assert_eq!(world.evictions(), [""; 0]);
    world.delete("free0");
    world.run_for(60);
    assert_eq!(world.place("a0"), "placed");
    world.pod(pod("urgent").cpu("1").priority(10));
    world.run_for(60);
    assert_eq!(world.evictions(), ["free1"]);
}

fn gang_of(world: &mut World, team: &str, group: &str, count: usize) {
    (0..count).for_each(|number| {
        world.pod(member(group, number).cpu("1").label(QUOTA_NAME_LABEL, team));
    });
}

#[test]
fn group_is_counted_as_a_whole() {
    let mut world = nodes_of(8, 2);
    quota(&mut world, "a", 4, 4);
    pod_group(&mut world, "g", 5);
    gang_of(&mut world, "a", "g", 5);
    world.run_for(60);
    assert_eq!((used(&world, "a"), world.place("g0")), (0, "unschedulable"));
    pod_group(&mut world, "h", 4);
    gang_of(&mut world, "a", "h", 4);
    world.run_for(60);
    assert_eq!(used(&world, "a"), 4000);
    quota(&mut world, "a", 9, 9);
    world.run_for(60);
    assert_eq!(used(&world, "a"), 9000);
}

#[test]
fn group_takes_its_guarantee_back_with_the_least_victims_and_none_if_it_does_not_fit() {
    let mut world = nodes_of(4, 2);
    quota(&mut world, "a", 4, 8);
    quota(&mut world, "b", 4, 8);
    for number in 0..8 {
        let node = format!("n{}", number % 2);
        world.pod(of("b", &format!("b{number}")).started(number).on(&node));
    }
    pod_group(&mut world, "large", 5);
    gang_of(&mut world, "a", "large", 5);
    world.run_for(60);
    assert_eq!(world.evictions(), [""; 0], "the group is larger than its guarantee");
    pod_group(&mut world, "g", 3);
    gang_of(&mut world, "a", "g", 3);
    world.run_for(60);
    let mut evicted = world.evictions();
    evicted.sort_unstable();
    assert_eq!(evicted, ["b5", "b6", "b7"]);
    assert_eq!(used(&world, "a"), 3000);
}

#[test]
fn members_beyond_the_minimum_go_before_whole_groups() {
    let mut world = nodes_of(8, 1);
    quota(&mut world, "a", 4, 8);
    quota(&mut world, "b", 4, 8);
    pod_group(&mut world, "g", 2);
    for number in 0..4 {
        let started = i64::try_from(number).unwrap();
        world.pod(
            member("g", number).cpu("1").label(QUOTA_NAME_LABEL, "b").started(started).on("n0"),
        );
    }
    for number in 4..8 {
        world.pod(of("b", &format!("b{number}")).started(number).on("n0"));
    }
    for number in 0..3 {
        world.pod(of("a", &format!("a{number}")));
        world.run_for(60);
    }
    assert_eq!(world.evictions(), ["g3", "g2", "b7"]);
}

#[test]
fn pod_that_fits_on_no_node_is_tried_when_another_quota_guarantees_less() {
    let mut world = nodes_of(4, 1);
    quota(&mut world, "a", 2, 4);
    quota(&mut world, "b", 4, 4);
    for number in 0..4 {
        world.pod(of("b", &format!("b{number}")).started(number).on("n0"));
    }
    world.pod(of("a", "a0"));
    world.run_for(30);
    assert_eq!((world.place("a0"), world.evictions().len()), ("unschedulable", 0));
    quota(&mut world, "b", 3, 4);
    world.run_for(5);
    assert_eq!((world.place("a0"), world.evictions()), ("placed", vec!["b3"]));
}

#[test]
fn pod_is_spared_until_its_minimum_running_time_ends() {
    let mut world = nodes_of(2, 1);
    quota(&mut world, "a", 1, 2);
    let mut lender = quota_object("b", json!({"min": {"cpu": "1"}}));
    lender["metadata"]["annotations"] = json!({QUOTA_MINIMUM_RUN_ANNOTATION: "300"});
    put(&mut world, lender);
    let now = world.now.as_nanos() / 1_000_000_000;
    for number in 0..2 {
        world.pod(of("b", &format!("b{number}")).started(now - number).on("n0"));
    }
    world.pod(of("a", "a0"));
    world.run_for(250);
    assert_eq!(world.evictions(), [""; 0]);
    world.run_for(60);
    assert_eq!(world.evictions().len(), 1);
    assert_eq!(world.place("a0"), "placed");
}

#[test]
fn preemptor_is_woken_when_the_toleration_of_a_priority_class_ends() {
    const CLASSES: &str = scheduler_plugins::capacity_scheduling::PRIORITY_CLASSES;
    let mut world = nodes_of(2, 1);
    quota(&mut world, "a", 1, 2);
    quota(&mut world, "b", 1, 2);
    let annotation = |name: &str| format!("preemption-toleration.scheduling.x-k8s.io/{name}");
    let class = json!({"metadata": {"name": "batch", "annotations": {
        annotation("minimum-preemptable-priority"): "100",
        annotation("toleration-seconds"): "120",
    }}});
    let kind = EventResource::Custom(CLASSES.into());
    world.apply(Change::Object(Box::new(testkit::object(kind, class))));
    let now = world.now.as_nanos() / 1_000_000_000;
    for number in 0..2 {
        let mut pod = of("b", &format!("b{number}")).started(now).on("n0").build();
        let of_class = json!({"spec": {"priorityClassName": "batch"}});
        pod.extra = Extra::of(&of_class, &["/spec/priorityClassName".into()].into());
        world.store(of("b", &format!("b{number}")).started(now).on("n0").api());
        world.apply(Change::Pod(Box::new(pod)));
    }
    world.pod(of("a", "a0").priority(99));
    world.run_for(115);
    assert_eq!(world.evictions(), [""; 0]);
    world.run_for(10);
    assert_eq!((world.evictions().len(), world.place("a0")), (1, "placed"));
}

/// The names of the pods that were bound, in order.
fn bound(world: &World) -> Vec<&str> {
    let binds = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Bind { binding, .. } => Some(&*binding.pod.name),
        _ => None,
    });
    binds.collect()
}

#[test]
fn quotas_below_their_guarantee_go_first_unless_the_order_is_by_priority() {
    let order_of = |args: Value| {
        let mut world = setup(args).build();
        world.node(node("n0").allocatable("cpu", "16"));
        quota(&mut world, "a", 2, 16);
        quota(&mut world, "b", 2, 16);
        for number in 0..3 {
            world.pod(of("a", &format!("a{number}")).priority(10));
        }
        for number in 0..3 {
            world.pod(of("b", &format!("b{number}")));
        }
        quota(&mut world, "c", 4, 4);
        world.run();
        bound(&world).join(" ")
    };
    assert_eq!(order_of(json!({})), "a0 b0 a1 b1 a2 b2");
    assert_eq!(order_of(json!({"queueOrder": "Priority"})), "a0 a1 a2 b0 b1 b2");
}

/// Whether an autoscaler would add nodes for a pod: cluster-autoscaler and Karpenter look at the
/// reason.
fn asks_for_nodes(world: &World, name: &str) -> bool {
    world_condition(world, name).starts_with("Unschedulable: ")
}

#[test]
fn pods_over_quota_do_not_ask_for_nodes() {
    let mut world = nodes_of(1, 1);
    quota(&mut world, "a", 2, 2);
    world.pod(of("a", "large").cpu("3"));
    world.pod(of("a", "fits"));
    world.run();
    world.pod(of("a", "homeless"));
    world.run();
    assert!(asks_for_nodes(&world, "homeless"));
    let condition = world_condition(&world, "large");
    assert!(condition.starts_with("QuotaExceeded: 0/1 nodes are available: Pod"), "{condition}");
}

#[test]
fn group_asks_for_nodes_only_if_its_quota_has_room_for_it() {
    let mut world = setup_with(fit_as("NodeResourcesFit"), json!({})).build();
    world.node(node("n0").allocatable("cpu", "3"));
    quota(&mut world, "a", 4, 4);
    pod_group(&mut world, "h", 5);
    gang_of(&mut world, "a", "h", 5);
    world.run();
    let text = "5 pods ask for more cpu than ElasticQuota default/a may use";
    for number in 0..5 {
        let condition = world_condition(&world, &format!("h{number}"));
        assert!(condition.starts_with("QuotaExceeded: pod group is unschedulable"), "{condition}");
        assert!(condition.ends_with(text), "{condition}");
    }
    let told = conditions(&world).pop().unwrap();
    assert!(told.contains(text) && !told.contains("lacks"), "{told}");
    pod_group(&mut world, "g", 4);
    gang_of(&mut world, "a", "g", 4);
    world.run();
    (0..4).for_each(|number| assert!(asks_for_nodes(&world, &format!("g{number}"))));
    let told = conditions(&world).pop().unwrap();
    assert!(told.ends_with(", lacks 1 node like n0 (cpu 3)"), "{told}");
    world.node(node("n1").allocatable("cpu", "3"));
    world.run_for(60);
    assert_eq!(used(&world, "a"), 4000);
}

#[test]
fn tree_keeps_what_is_not_lent_and_reclaims_between_siblings() {
    let mut world = nodes_of(8, 1);
    let inner = |name: &str, parent: &str, labels: Value, spec: Value| {
        let mut object = quota_object(name, spec);
        object["metadata"]["labels"] = labels;
        object["metadata"]["labels"][QUOTA_PARENT_LABEL] = json!(parent);
        object
    };
    let is_parent = json!({QUOTA_IS_PARENT_LABEL: "true"});
    let closed = json!({QUOTA_LENDS_LABEL: "false"});
    put(&mut world, inner("lab", "", is_parent, json!({"min": {"cpu": "6"}, "max": {"cpu": "6"}})));
    put(&mut world, inner("a", "lab", json!({}), json!({"min": {"cpu": "2"}})));
    put(&mut world, inner("b", "lab", json!({}), json!({"min": {"cpu": "2"}})));
    put(&mut world, inner("c", "lab", closed, json!({"min": {"cpu": "2"}})));
    for number in 0..6 {
        world.pod(of("a", &format!("a{number}")));
        world.run();
    }
    assert_eq!(used(&world, "a"), 4000, "c keeps its guarantee for itself");
    world.pod(of("b", "b0"));
    world.run_for(60);
    assert_eq!((used(&world, "a"), used(&world, "b")), (3000, 1000));
    world.pod(of("c", "c0"));
    world.run_for(60);
    assert_eq!((world.evictions().len(), used(&world, "c")), (1, 1000));
}

#[test]
fn status_of_a_quota_wakes_no_pod_and_a_deleted_quota_frees_its_pods() {
    let mut world = nodes_of(8, 1);
    quota(&mut world, "a", 1, 1);
    world.pod(of("a", "a0"));
    world.run();
    world.schedule(of("a", "a1"));
    let attempts = world.history.len();
    let mut shown = quota_object("a", json!({"min": {"cpu": "1"}, "max": {"cpu": "1"}}));
    shown["status"] = json!({"used": {"cpu": "1"}});
    put(&mut world, shown);
    world.run_for(60);
    assert_eq!((world.place("a1"), world.history.len() >= attempts), ("unschedulable", true));
    let kind = EventResource::Custom(ELASTIC_QUOTAS.into());
    let key = ObjectKey::namespaced(kind, "default".into(), "a".into());
    world.apply(Change::ObjectDeleted(key));
    world.run_for(60);
    assert_eq!(world.place("a1"), "placed");
}

/// The statuses that were written, as `name used`.
fn statuses(world: &World) -> Vec<String> {
    let writes = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Write(write) if *write.resource == *"elasticquotas" => Some(write),
        _ => None,
    });
    writes.map(|write| format!("{} {}", write.name, write.body()["status"]["used"])).collect()
}

#[test]
fn status_is_written_once_for_each_change_and_not_contradicted() {
    let mut world = nodes_of(8, 1);
    quota(&mut world, "a", 4, 4);
    world.run_for(3);
    assert_eq!(statuses(&world), [r#"a {"cpu":"0"}"#]);
    let show = |world: &mut World, cpu: &str| {
        let limit = json!({"cpu": "4"});
        let mut shown = quota_object("a", json!({"min": limit, "max": limit}));
        shown["status"] = json!({"used": {"cpu": cpu}});
        put(world, shown);
        world.run_for(3);
    };
    show(&mut world, "0");
    for number in 0..3 {
        world.pod(of("a", &format!("a{number}")).cpu("500m"));
    }
    world.run_for(3);
    assert_eq!(statuses(&world)[1..], [r#"a {"cpu":"1500m"}"#]);
    show(&mut world, "1500m");
    show(&mut world, "3");
    assert_eq!(statuses(&world).len(), 2, "another writer is not contradicted");
    world.delete("a0");
    world.run_for(3);
    assert_eq!(statuses(&world)[2..], [r#"a {"cpu":"1"}"#]);
    world.run_for(130);
    assert_eq!(statuses(&world).len(), 4, "a write without an effect is repeated");
}

#[test]
fn strict_reading_takes_what_is_not_mentioned_as_zero() {
    let mut world = setup(json!({"strict": true})).build();
    world.node(node("n0").allocatable("cpu", "8").allocatable("memory", "8Gi"));
    put(
        &mut world,
        json!({"metadata": {"namespace": "default", "name": "q", "uid": "u"},
            "spec": {"min": {"cpu": "4"}, "max": {"cpu": "4"}}}),
    );
    world.pod(pod("light").cpu("1"));
    world.pod(pod("heavy").cpu("1").memory("1Gi"));
    world.run();
    assert_eq!(world.place("light"), "placed");
    let condition = world_condition(&world, "heavy");
    assert!(condition.contains("ElasticQuota default is more than Max"), "{condition}");
}

/// A step of random load of three teams.
#[derive(Debug, Clone)]
enum Load {
    Create { team: usize, cpu: u32, priority: i32 },
    Gang { team: usize, count: usize },
    Delete(usize),
    Wait,
}

fn load() -> impl Strategy<Value = Load> {
    prop_oneof![
        6 => (0..3_usize, 1..3_u32, 0..3_i32)
            .prop_map(|(team, cpu, priority)| Load::Create { team, cpu, priority }),
        1 => (0..3_usize, 2..4_usize).prop_map(|(team, count)| Load::Gang { team, count }),
        2 => any::<usize>().prop_map(Load::Delete),
        2 => Just(Load::Wait),
    ]
}

const TEAMS: [&str; 3] = ["a", "b", "c"];

/// Creates the pods again that were evicted since the last call, as their controllers do. Returns
/// how many they are.
fn recreate(world: &mut World, specs: &BTreeMap<String, PodBuilder>, seen: &mut usize) -> usize {
    let evicted: Vec<String> = world.evictions()[*seen..].iter().map(ToString::to_string).collect();
    *seen += evicted.len();
    for (number, name) in evicted.iter().enumerate() {
        let base = name.split('.').next().unwrap();
        let again = format!("{base}.{}", *seen + number);
        let uid = format!("uid-{again}");
        let spec = specs[base].clone().with(|pod| pod.metadata.name = again).uid(&uid);
        world.pod(spec);
    }
    evicted.len()
}

/// Compares the books with a count of the pods that the API server knows on nodes.
fn recount(world: &World) -> Result<(), TestCaseError> {
    let cluster = world.engine.world().cluster();
    let books = cluster.quotas();
    let Some(cpu) = books.resource("cpu") else { return Ok(()) };
    let mut by_team: BTreeMap<String, i128> = BTreeMap::new();
    for placed in cluster.pods() {
        let team = placed.pod.quota_name().unwrap_or_default().to_owned();
        *by_team.entry(team).or_default() += i128::from(placed.pod.requests.placed.milli_cpu);
    }
    let own = |view: QuotaView<'_>| view.used(cpu);
    for view in books.quotas() {
        let counted = by_team.get(&*view.key().name).copied().unwrap_or_default();
        prop_assert_eq!(own(view), counted, "{}", view.key());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Under any load the books are right, quotas keep their limits, pods are only taken from
    /// quotas above their guarantee, and once the load is constant, evictions end.
    #[test]
    fn quotas_never_reclaim_in_turn(
        mins in prop::array::uniform3(0..5_u32),
        steps in prop::collection::vec(load(), 1..40),
    ) {
        let mut world = nodes_of(4, 3);
        for (team, min) in TEAMS.iter().zip(mins) {
            quota(&mut world, team, min, 9);
        }
        let (mut specs, mut seen) = (BTreeMap::new(), 0);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Load::Create { team, cpu, priority } => {
                    let name = format!("p{number}");
                    let pod = of(TEAMS[team], &name).cpu(&cpu.to_string()).priority(priority);
                    specs.insert(name, pod.clone());
                    world.pod(pod);
                }
                Load::Gang { team, count } => {
                    let group = format!("g{number}-");
                    pod_group(&mut world, &group, u32::try_from(count).unwrap());
                    for member_number in 0..count {
                        let pod = member(&group, member_number)
                            .cpu("1")
                            .label(QUOTA_NAME_LABEL, TEAMS[team]);
                        specs.insert(format!("{group}{member_number}"), pod.clone());
                        world.pod(pod);
                    }
                }
                Load::Delete(pick) => {
                    let names: Vec<String> =
                        world.server.keys().map(|key| key.name.to_string()).collect();
                    if !names.is_empty() {
                        world.delete(&names[pick % names.len()]);
                    }
                }
                Load::Wait => world.run_for(20),
            }
            world.run();
            recount(&world)?;
            recreate(&mut world, &specs, &mut seen);
            let books = world.engine.world().cluster().quotas();
            let cpu = books.resource("cpu").unwrap();
            prop_assert!(books.total_used(cpu) <= books.total_min(cpu).unwrap_or(0));
        }
        let mut quiet = 0;
        // A pod that could evict others since they came is tried after five minutes.
        for _ in 0..150 {
            world.run_for(10);
            recount(&world)?;
            match recreate(&mut world, &specs, &mut seen) {
                0 => quiet += 1,
                _ => quiet = 0,
            }
        }
        prop_assert!(quiet > 40, "evictions go on: {:?}", world.evictions());
    }
}
