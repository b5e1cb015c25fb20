//! Preemption for groups, and of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Change, EffectKind, Event, GroupSearch};
use framework::{
    Answer, Attempt, EventResource, Filter, NodeView, Plugin, PodGroupPostFilter,
    PodGroupPostFilterResult, PodGroupTrial, Status,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{PodBuilder, node, pod};

use crate::harness::*;
use crate::pod_groups::{conditions, gang_plugin, member, places};

fn empty() -> World {
    setup().build()
}

fn setup() -> Setup {
    Setup::new([fit(), gates()]).plugin(preempting()).plugin(gang_plugin()).pod_groups()
}

/// A world with nodes `n0`, `n1` … of so many CPUs.
fn nodes_of(cpu: u32, count: usize) -> World {
    let mut world = empty();
    for number in 0..count {
        world.node(node(&format!("n{number}")).allocatable("cpu", &cpu.to_string()));
    }
    world
}

/// A gang of the priority 100.
fn gang(world: &mut World, name: &str, min_count: usize) {
    group(
        world,
        name,
        json!({"schedulingPolicy": {"gang": {"minCount": min_count}}, "priority": 100}),
    );
}

/// A group whose pods are evicted together.
fn whole(world: &mut World, name: &str, priority: i32) {
    group(
        world,
        name,
        json!({
            "schedulingPolicy": {"basic": {}}, "priority": priority, "disruptionMode": {"all": {}},
        }),
    );
}

fn group(world: &mut World, name: &str, spec: Value) {
    let object = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": spec,
    });
    world.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, object))));
}

/// Creates members of a gang that want one CPU each.
fn members(world: &mut World, group: &str, count: usize) {
    (0..count).for_each(|number| world.pod(wanting(group, number)));
}

fn wanting(group: &str, number: usize) -> PodBuilder {
    member(group, number).cpu("1").priority(100)
}

/// A pod of one CPU on a node.
fn running(name: &str, node: &str) -> PodBuilder {
    pod(name).cpu("1").on(node)
}

fn nominations(world: &World, group: &str, count: usize) -> Vec<String> {
    let node = |number| {
        let pod = &world.server[&key(&format!("{group}{number}"))];
        pod.status.nominated_node_name.clone()
    };
    (0..count).map(node).collect()
}

fn preempted_notes(world: &World) -> Vec<String> {
    let events = world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Event(Event { reason, note, .. }) if *reason == "Preempted" => Some(note),
        _ => None,
    });
    events.map(ToString::to_string).collect()
}

fn evicted(world: &World) -> BTreeSet<&str> {
    world.evictions().into_iter().collect()
}

/// Two nodes of two CPUs with four pods of growing priority.
fn four_pods() -> World {
    let mut world = nodes_of(2, 2);
    for number in 0..4 {
        let node = format!("n{}", number % 2);
        world.pod(running(&format!("v{number}"), &node).priority(number));
    }
    world
}

#[test]
fn gang_evicts_the_least_important_pods_that_make_room_for_it() {
    let mut world = four_pods();
    gang(&mut world, "g", 2);
    members(&mut world, "g", 2);
    world.attempt();
    let found = "found a placement for podgroup, preempting 2 victims";
    let of_group = format!("pod group is unschedulable, 0 of 2 fit, {found}");
    let missing = "pod g0 does not fit: 0/2 nodes are available: 2 Insufficient cpu";
    assert_eq!(conditions(&world), [format!("g False Unschedulable: {of_group}, {missing}")]);
    assert_eq!(
        world.condition("g0").as_deref(),
        Some("Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.")
    );
    let message = "default-scheduler: preempting to accommodate a higher priority podgroup";
    let (effect, eviction) = world.take_eviction("v1");
    assert_eq!(eviction.condition_message.as_deref(), Some(message));
    assert_eq!(world.open_evictions(), [""; 0], "the last victim waits for the others");
    world.answer(effect, &Answer::ok());
    assert_eq!(world.open_evictions(), ["v0"]);
    assert_eq!(preempted_notes(&world), ["Preempted by podgroup uid-g on node cluster"]);
    world.delete("v1");
    assert_eq!(places(&world, "g", 2), ["gated"; 2], "a victim is there");
    world.run_for(3);
    assert_eq!(evicted(&world), BTreeSet::from(["v0", "v1"]));
    assert_eq!(places(&world, "g", 2), ["placed"; 2]);
}

#[test]
fn trials_of_a_gang_that_cannot_fit_pause_and_the_gang_is_decided_meanwhile() {
    let mut world = four_pods();
    gang(&mut world, "g", 20);
    members(&mut world, "g", 20);
    for number in 2..7 {
        world.run_for(15);
        world.node(node(&format!("n{number}")).allocatable("cpu", "1"));
    }
    world.run_for(1);
    let texts = conditions(&world);
    let is_pause = |text: &String| text.contains("5 trials have found no victims, paused until");
    assert!(texts.iter().any(is_pause), "{texts:?}");
    world.node(node("large").allocatable("cpu", "16"));
    world.run_for(15);
    assert_eq!(places(&world, "g", 20), ["placed"; 20]);
    assert_eq!(world.evictions(), [""; 0]);
}

#[test]
fn member_whose_bind_is_refused_evicts_pods_only_in_an_attempt_of_its_own() {
    let mut world = nodes_of(1, 3);
    world.pod(running("low", "n2").priority(1));
    gang(&mut world, "g", 2);
    members(&mut world, "g", 2);
    world.attempt();
    let (bind, binding) = world.take_bind("g1");
    world.node(node(&binding.node).allocatable("cpu", "0"));
    world.answer(bind, &Answer::Error("webhook".to_owned()));
    assert_eq!(world.evictions(), [""; 0]);
    world.run_for(20);
    assert_eq!(evicted(&world), BTreeSet::from(["low"]));
    assert_eq!(places(&world, "g", 2), ["placed"; 2]);
}

/// Rejects all nodes until the first preemption for a group.
#[derive(Default)]
struct Reluctant {
    is_over: AtomicBool,
}

impl Filter for Reluctant {
    fn filter(&self, _: &Attempt<'_>, _: &NodeView<'_>) -> Status {
        match self.is_over.load(Ordering::Relaxed) {
            true => Status::success(),
            false => Status::unschedulable("not yet"),
        }
    }
}

impl PodGroupPostFilter for Reluctant {
    fn pod_group_post_filter(&self, _: &mut dyn PodGroupTrial) -> PodGroupPostFilterResult {
        self.is_over.store(true, Ordering::Relaxed);
        Status::unresolvable("now").into()
    }
}

#[test]
fn gang_that_fits_without_evictions_after_all_holds_no_room() {
    let reluctant = Plugin::new("Reluctant", Reluctant::default());
    let reluctant = reluctant.filter().pod_group_post_filter().build();
    let plugins = Setup::new([fit(), gates()]).plugin(reluctant).plugin(preempting());
    let mut world = plugins.plugin(gang_plugin()).pod_groups().build();
    for number in 0..2 {
        world.node(node(&format!("n{number}")).allocatable("cpu", "2"));
        world.pod(running(&format!("low{number}"), &format!("n{number}")));
    }
    gang(&mut world, "g", 2);
    members(&mut world, "g", 2);
    world.attempt();
    assert_eq!(evicted(&world), BTreeSet::new());
    assert_eq!(nominations(&world, "g", 2), ["", ""]);
    assert!(world.engine.nominator().is_empty());
}

#[test]
fn gang_that_would_not_fit_evicts_no_pod() {
    let mut world = four_pods();
    gang(&mut world, "g", 5);
    members(&mut world, "g", 5);
    world.run_for(30);
    assert_eq!(world.evictions(), [""; 0]);
    assert_eq!(nominations(&world, "g", 5), [""; 5]);
    let texts = conditions(&world);
    let text = "g False Unschedulable: pod group is unschedulable, 0 of 5 fit, pod group is \
                unschedulable, 4 of 5 fit, pod g0 does not fit: 0/2 nodes are available: 2 \
                Insufficient cpu";
    assert_eq!(texts, [text]);
}

#[test]
fn pods_of_equal_priority_and_groups_with_the_policy_never_evict_none() {
    for (priority, may_preempt, expected) in [
        (100, true, "No preemption victims found for incoming preemptor"),
        (0, false, "not eligible due to preemptionPolicy=Never."),
    ] {
        let mut world = nodes_of(1, 1);
        world.pod(running("v", "n0").priority(priority));
        gang(&mut world, "g", 1);
        let own = wanting("g", 0);
        let never = |pod: &mut framework::api::Pod| {
            pod.spec.preemption_policy = Some("Never".to_owned());
        };
        world.pod(if may_preempt { own } else { own.with(never) });
        world.run_for(5);
        assert_eq!(world.evictions(), [""; 0]);
        assert!(conditions(&world)[0].contains(expected), "{:?}", conditions(&world));
    }
}

/// Eight nodes of four CPUs with four jobs of seven pods each, whose pods are evicted together or
/// one by one.
fn four_jobs(is_whole: bool) -> World {
    let mut world = nodes_of(4, 8);
    for job in 0..4 {
        if is_whole {
            whole(&mut world, &format!("j{job}-"), job);
        }
        for number in 0..7 {
            let own = wanting(&format!("j{job}-"), number).priority(job);
            world.pod(own.on(&format!("n{number}")));
        }
    }
    world
}

#[test]
fn job_of_sixteen_evicts_only_the_pods_that_it_needs() {
    let mut world = four_jobs(false);
    gang(&mut world, "g", 16);
    members(&mut world, "g", 16);
    world.run_for(5);
    assert_eq!(evicted(&world).len(), 12, "four CPUs are free");
    assert_eq!(places(&world, "g", 16), ["placed"; 16]);
}

#[test]
fn job_of_sixteen_evicts_two_of_four_jobs_that_are_evicted_whole() {
    let mut world = four_jobs(true);
    gang(&mut world, "g", 16);
    members(&mut world, "g", 16);
    world.run_for(5);
    assert_eq!(places(&world, "g", 16), ["placed"; 16]);
    let jobs: Vec<_> = (0..4).map(|job| places(&world, &format!("j{job}-"), 7)).collect();
    assert_eq!(
        jobs,
        [vec!["nowhere"; 7], vec!["nowhere"; 7], vec!["placed"; 7], vec!["placed"; 7]]
    );
}

#[test]
fn job_that_can_never_fit_evicts_no_pod() {
    let mut world = nodes_of(4, 4);
    for number in 0..16 {
        world.pod(running(&format!("v{number}"), &format!("n{}", number % 4)));
    }
    gang(&mut world, "g", 20);
    members(&mut world, "g", 20);
    world.run_for(60);
    assert_eq!(world.evictions(), [""; 0]);
}

/// The trials of so large a gang would cost too much if its members could move in all of them.
#[test]
fn large_gang_spares_the_pods_of_nodes_that_it_does_not_take() {
    let mut world = nodes_of(2, 100);
    for number in 0..200 {
        world.pod(running(&format!("v{number}"), &format!("n{}", number % 100)));
    }
    gang(&mut world, "g", 60);
    for number in 0..60 {
        world.pod(member("g", number).cpu("2").priority(100));
    }
    world.run_for(3);
    assert_eq!(evicted(&world).len(), 120);
    assert_eq!(places(&world, "g", 60), ["placed"; 60]);
}

#[test]
fn unit_that_violates_a_budget_is_spared_if_others_do() {
    let mut world = nodes_of(1, 3);
    world.budget(0);
    for number in 0..3 {
        // The least important pods are protected.
        let own = running(&format!("v{number}"), &format!("n{number}")).priority(number);
        world.pod(if number < 2 { own.label("app", "web") } else { own });
    }
    gang(&mut world, "g", 1);
    members(&mut world, "g", 1);
    world.run_for(3);
    assert_eq!(world.evictions(), ["v2"]);
}

#[test]
fn members_hold_their_room_until_the_group_is_rejected_again() {
    let mut world = four_pods();
    gang(&mut world, "g", 2);
    members(&mut world, "g", 2);
    world.attempt();
    for victim in ["v1", "v0"] {
        let (effect, _) = world.take_eviction(victim);
        world.answer(effect, &Answer::ok());
        world.update(victim, |pod| {
            pod.metadata.deletion_timestamp = Some("2025-06-01T12:00:00Z".to_owned());
            pod.status.conditions.push(framework::api::PodCondition {
                type_: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
                reason: "PreemptionByScheduler".to_owned(),
                message: String::new(),
            });
        });
    }
    world.run_for(30);
    assert_eq!(nominations(&world, "g", 2), ["n0", "n1"]);
    // Another event wakes the group while its victims end.
    world.update("v2", |pod| drop(pod.metadata.labels.insert("a".to_owned(), "b".to_owned())));
    world.node(node("other").allocatable("cpu", "0"));
    world.run_for(30);
    assert_eq!(nominations(&world, "g", 2), ["n0", "n1"]);
    assert_eq!(evicted(&world).len(), 2);

    world.delete("v0");
    world.pod(running("small", "n0").priority(1000));
    world.delete("v1");
    world.pod(running("large", "n1").priority(1000));
    for spared in ["v2", "v3"] {
        world.update(spared, |pod| pod.spec.priority = Some(1000));
    }
    world.run_for(30);
    assert_eq!(places(&world, "g", 2), ["unschedulable"; 2]);
    assert_eq!(nominations(&world, "g", 2), [""; 2]);
}

/// The group has evicted a pod, and one of its own is deleted before the victim has ended.
#[test]
fn group_that_cannot_run_any_more_leaves_its_room_to_others() {
    for is_gated in [false, true] {
        let mut world = nodes_of(1, 2);
        for number in 0..2 {
            world.pod(running(&format!("v{number}"), &format!("n{number}")).priority(1));
        }
        gang(&mut world, "g", 2);
        members(&mut world, "g", 2);
        world.attempt();
        for _ in 0..2 {
            let victim = world.open_evictions()[0].to_owned();
            let (effect, _) = world.take_eviction(&victim);
            world.answer(effect, &Answer::ok());
            world.update(&victim, |pod| {
                pod.metadata.deletion_timestamp = Some("2025-06-01T12:00:00Z".to_owned());
            });
        }
        world.run_for(5);
        assert_eq!(nominations(&world, "g", 2), ["n0", "n1"]);
        match is_gated {
            true => world.pod(wanting("g", 2).gate("example.com/quota")),
            false => world.delete("g1"),
        }
        world.run_for(1);
        assert_eq!(nominations(&world, "g", 1), [""]);
        world.pod(pod("other").cpu("1"));
        ["v0", "v1"].into_iter().for_each(|victim| world.delete(victim));
        world.run_for(15);
        assert_eq!(world.place("other"), "placed", "gated: {is_gated}");
    }
}

#[test]
fn failed_eviction_leads_to_another_attempt_of_the_group() {
    let mut world = four_pods();
    gang(&mut world, "g", 1);
    members(&mut world, "g", 1);
    world.attempt();
    let (effect, _) = world.take_eviction("v0");
    world.answer(effect, &Answer::Error("webhook".to_owned()));
    world.run_for(5);
    assert_eq!(places(&world, "g", 1), ["placed"]);
    assert_eq!(world.evictions(), ["v0", "v0"]);
}

#[test]
fn gang_whose_room_is_taken_again_and_again_pauses() {
    let mut world = nodes_of(1, 1);
    world.pod(running("v0", "n0"));
    gang(&mut world, "g", 1);
    members(&mut world, "g", 1);
    for round in 1..=4 {
        while world.open_evictions().is_empty() {
            world.pass(1);
            let _ = world.try_attempt();
        }
        let victim = format!("v{}", round - 1);
        let (effect, _) = world.take_eviction(&victim);
        world.pod(running(&format!("v{round}"), "n0"));
        world.answer(effect, &Answer::ok());
        world.delete(&victim);
    }
    world.run_for(5);
    assert_eq!(world.open_evictions(), [""; 0]);
    let paused = "not eligible because 4 preemptions for the pod led to no binding, paused until";
    let texts = conditions(&world);
    assert!(texts.last().unwrap().contains(paused), "{texts:?}");
    world.run_for(20);
    assert_eq!(places(&world, "g", 1), ["placed"], "the pause ends");
}

#[test]
fn plain_pod_evicts_a_group_whole_on_all_its_nodes() {
    let mut world = nodes_of(1, 3);
    whole(&mut world, "w", 1);
    world.pod(wanting("w", 0).priority(1).on("n0"));
    world.pod(wanting("w", 1).priority(1).on("n1"));
    world.pod(running("v", "n2").priority(2));
    world.pod(pod("p").cpu("1").priority(100));
    world.run_for(5);
    assert_eq!(evicted(&world), BTreeSet::from(["w0", "w1"]), "the lowest priority");
    assert_eq!(world.place("p"), "placed");
    assert_eq!(world.place("v"), "placed");
}

#[test]
fn pods_of_a_group_on_other_nodes_make_no_room() {
    let mut world = nodes_of(2, 2);
    whole(&mut world, "v", 0);
    for node in ["n0", "n1"] {
        world.pod(running(&format!("v-{node}"), node).scheduling_group("v"));
        world.pod(running(&format!("stays-{node}"), node).priority(100));
    }
    world.pod(pod("p").cpu("2").priority(50));
    world.attempt();
    assert_eq!(evicted(&world), BTreeSet::new());
}

#[test]
fn plain_pod_does_not_evict_pods_of_a_group_of_higher_priority() {
    let mut world = nodes_of(1, 1);
    whole(&mut world, "w", 200);
    world.pod(wanting("w", 0).priority(1).on("n0"));
    world.pod(pod("p").cpu("1").priority(100));
    world.run_for(5);
    assert_eq!(world.evictions(), [""; 0]);
}

/// A pod or a member of a group on a node.
#[derive(Debug, Clone)]
struct Running {
    node: usize,
    cpu: u32,
    priority: i32,
    /// The group that it is evicted with.
    whole: Option<usize>,
}

#[derive(Debug, Clone)]
struct Case {
    capacity: Vec<u32>,
    running: Vec<Running>,
    members: Vec<u32>,
    min_count: usize,
}

/// The priorities of the groups that are evicted whole.
const WHOLE: [i32; 3] = [1, 50, 100];

fn cases() -> impl Strategy<Value = Case> {
    let running =
        (0..4_usize, 1..4_u32, prop::sample::select(vec![0, 1, 50, 100, 200]), 0..6_usize);
    let running = running.prop_map(|(node, cpu, priority, group)| {
        let whole = (group < WHOLE.len()).then_some(group);
        let priority = whole.map_or(priority, |group| WHOLE[group]);
        Running { node, cpu, priority, whole }
    });
    let parts = (
        prop::collection::vec(2..8_u32, 4),
        prop::collection::vec(running, 0..16),
        prop::collection::vec(1..4_u32, 1..6),
        1..6_usize,
    );
    parts.prop_map(|(capacity, mut running, members, min_count)| {
        let mut left = capacity.clone();
        running.retain(|own| {
            let fits = left[own.node] >= own.cpu;
            left[own.node] -= if fits { own.cpu } else { 0 };
            fits
        });
        let min_count = min_count.min(members.len());
        Case { capacity, running, members, min_count }
    })
}

impl Case {
    /// Whether enough members fit without these pods: each member takes the first node with room.
    fn fits_without(&self, gone: &BTreeSet<usize>) -> bool {
        let mut left = self.capacity.clone();
        for (place, own) in self.running.iter().enumerate() {
            left[own.node] -= if gone.contains(&place) { 0 } else { own.cpu };
        }
        let mut placed = 0;
        for cpu in &self.members {
            if let Some(room) = left.iter_mut().find(|room| **room >= *cpu) {
                *room -= cpu;
                placed += 1;
            }
        }
        placed >= self.min_count
    }

    /// The pods that are evicted together with this one.
    fn unit_of(&self, place: usize) -> BTreeSet<usize> {
        match self.running[place].whole {
            None => BTreeSet::from([place]),
            Some(group) => {
                let all = self.running.iter().enumerate();
                let own = all.filter(|(_, own)| own.whole == Some(group));
                own.map(|(place, _)| place).collect()
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn victims_are_needed_whole_and_less_important_and_make_the_group_fit(case in cases()) {
        let of_queue = GroupSearch { steps_per_attempt: 0, ..GroupSearch::default() };
        let mut world = setup().group_search(of_queue).build();
        for (number, cpu) in case.capacity.iter().enumerate() {
            let (name, cpu) = (format!("n{number}"), cpu.to_string());
            world.node(node(&name).allocatable("cpu", &cpu));
        }
        for (number, priority) in WHOLE.into_iter().enumerate() {
            whole(&mut world, &format!("w{number}-"), priority);
        }
        for (place, own) in case.running.iter().enumerate() {
            let pod = match own.whole {
                Some(group) => member(&format!("w{group}-"), place),
                None => pod(&format!("v{place}")),
            };
            let (cpu, node) = (own.cpu.to_string(), format!("n{}", own.node));
            world.pod(pod.cpu(&cpu).priority(own.priority).on(&node));
        }
        gang(&mut world, "g", case.min_count);
        for (number, cpu) in case.members.iter().enumerate() {
            world.pod(member("g", number).cpu(&cpu.to_string()).priority(100));
        }
        let places_by_name: BTreeMap<String, usize> = case.running.iter().enumerate()
            .map(|(place, own)| match own.whole {
                Some(group) => (format!("w{group}-{place}"), place),
                None => (format!("v{place}"), place),
            })
            .collect();

        // Members beyond the count that fit after the first attempt may preempt on their own.
        world.attempt();
        let mut victims = BTreeSet::new();
        while let Some(victim) = world.open_evictions().first().map(|name| (*name).to_owned()) {
            victims.insert(places_by_name[&victim]);
            let (effect, _) = world.take_eviction(&victim);
            world.answer(effect, &Answer::ok());
        }
        let lower = |place: &usize| case.running[*place].priority < 100;
        let all: BTreeSet<usize> = (0..case.running.len()).filter(lower).collect();
        if victims.is_empty() {
            let fits_at_once = case.fits_without(&BTreeSet::new());
            prop_assert!(fits_at_once || !case.fits_without(&all));
            return Ok(());
        }
        prop_assert!(!case.fits_without(&BTreeSet::new()));
        prop_assert!(victims.iter().all(lower));
        prop_assert!(case.fits_without(&victims));
        for victim in &victims {
            let unit = case.unit_of(*victim);
            prop_assert!(unit.is_subset(&victims), "the unit of {victim} is evicted whole");
            let others = victims.difference(&unit).copied().collect();
            prop_assert!(!case.fits_without(&others), "{victim} could be spared");
        }
        let gone = victims.iter().filter_map(|place| {
            places_by_name.iter().find(|(_, own)| *own == place).map(|(name, _)| name.clone())
        });
        gone.collect::<Vec<_>>().iter().for_each(|name| world.delete(name));
        world.run_for(2);
        let placed = places(&world, "g", case.members.len());
        let placed = placed.iter().filter(|place| **place == "placed").count();
        prop_assert!(placed >= case.min_count, "{placed} members are placed");
    }
}
