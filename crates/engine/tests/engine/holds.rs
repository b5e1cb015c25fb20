//! Room that is held for the pod or group that has waited longest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::cycle::Form;
use framework::{
    ActionType, Attempt, Dependence, Filter, FilterScope, NodeBits, NodeView, Plugin, PluginArgs,
    RUN_TIME_ANNOTATION, Status, Time, run_time,
};
use proptest::prelude::*;
use serde_json::json;
use testkit::{PodBuilder, node, pod};

use crate::harness::*;
use crate::pod_group_placements::{
    pod_group as rack_group, rack_node, racks, setup as placements_setup,
};
use crate::pod_groups::{conditions, gang_plugin, member, pod_group};

/// A cluster whose pods end after their run time.
struct Batch {
    world: World,
    run_times: BTreeMap<String, Duration>,
    ends: BTreeSet<(Time, String)>,
    /// When each pod has started.
    started: BTreeMap<String, Time>,
}

fn with_reservations(percent: usize) -> Setup {
    let args = json!({"afterSeconds": 60, "maxPercentOfNodes": percent});
    setup().plugin(reservation::plugin(&PluginArgs::new(args)).unwrap())
}

/// NodeResourcesFit in a few lines, which rankings know.
struct Cpu;

impl Filter for Cpu {
    fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        let free = node.allocatable().milli_cpu - node.requested().milli_cpu;
        if attempt.pod.requests.fit.milli_cpu > free { no("Insufficient cpu") } else { yes() }
    }

    fn dependence(&self, _: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Node))
    }
}

fn setup() -> Setup {
    let cpu = Plugin::new("Cpu", Cpu).filter().on(pod_event(ActionType::DELETE)).build();
    let mut setup = Setup::new([]).plugin(cpu).plugin(gang_plugin()).pod_groups();
    setup.form = Form::Ranked;
    setup
}

/// A pod that takes so many CPUs.
fn job(name: &str, cpu: u32) -> PodBuilder {
    pod(name).cpu(&cpu.to_string())
}

fn declaring(pod: PodBuilder, seconds: u64) -> PodBuilder {
    pod.with(|pod| {
        pod.metadata.annotations.insert(RUN_TIME_ANNOTATION.to_owned(), seconds.to_string());
    })
}

impl Batch {
    /// Nodes of 8 CPUs.
    fn new(setup: Setup, nodes: usize) -> Self {
        let mut world = setup.build();
        for number in 0..nodes {
            let own = node(&format!("n{number:02}"));
            world.node(own.allocatable("cpu", "8").allocatable("pods", "20"));
        }
        let (run_times, ends, started) = Default::default();
        Self { world, run_times, ends, started }
    }

    /// Adds a pod that ends so many seconds after its start.
    fn submit(&mut self, pod: PodBuilder, seconds: u64) {
        let pod = pod.api();
        self.run_times.insert(pod.metadata.name.clone(), Duration::from_secs(seconds));
        let key = self.world.store(pod);
        self.world.see(&key.name);
    }

    /// Binds what can be bound, and starts what is bound.
    fn settle(&mut self) {
        self.world.run();
        let now = self.world.now;
        let bound = self.world.server.values().filter(|pod| !pod.spec.node_name.is_empty());
        let new = bound.filter(|pod| pod.status.start_time.is_none());
        for name in new.map(|pod| pod.metadata.name.clone()).collect::<Vec<_>>() {
            self.world.update(&name, |pod| pod.status.start_time = Some(now.to_string()));
            self.ends.insert((now + self.run_times[&name], name.clone()));
            self.started.insert(name, now);
        }
    }

    /// Lets so many seconds pass.
    fn wait(&mut self, seconds: u64) {
        self.settle();
        (0..seconds).for_each(|_| self.second());
    }

    /// Lets a second pass.
    fn second(&mut self) {
        self.world.pass(1);
        while self.ends.first().is_some_and(|(end, _)| *end <= self.world.now) {
            let (_, name) = self.ends.pop_first().expect("there is one");
            self.world.delete(&name);
        }
        self.settle();
    }

    fn holds(&self) -> Vec<framework::Hold> {
        self.world.engine.cluster().holds().iter().cloned().collect()
    }
}

/// How long a pod of 8 CPUs waits while 32 pods of one CPU always do, and how many of these start
/// meanwhile; up to 2,000 seconds.
fn wait_beside_small_pods(setup: Setup) -> (u64, usize) {
    let mut batch = Batch::new(setup, 16);
    let mut submitted = 0;
    let mut fill = |batch: &mut Batch| {
        while batch.world.engine.pending().count() < 32 {
            let seconds = 100 + 37 * submitted % 211;
            batch.submit(job(&format!("small{submitted:04}"), 1), seconds);
            submitted += 1;
            batch.settle();
        }
    };
    fill(&mut batch);
    let before = batch.started.len();
    batch.submit(job("large", 8), 100);
    for second in 0..2000 {
        if batch.started.contains_key("large") {
            return (second, batch.started.len() - before - 1);
        }
        batch.second();
        fill(&mut batch);
    }
    (2000, batch.started.len() - before)
}

#[test]
fn large_pod_starts_although_small_pods_always_wait() {
    let (waited, _) = wait_beside_small_pods(setup());
    assert_eq!(waited, 2000, "without a reservation it does not start");
    let (waited, others) = wait_beside_small_pods(with_reservations(10));
    assert!(waited < 400, "{waited} s");
    assert!(others > 100, "the other nodes are used meanwhile, by {others} pods");
}

#[test]
fn condition_names_the_room_and_short_pods_use_it_meanwhile() {
    let mut batch = Batch::new(with_reservations(10), 2);
    for number in 0..16 {
        let (name, seconds) = (format!("small{number:02}"), 600 + 20 * number);
        batch.submit(declaring(job(&name, 1), seconds), seconds);
        batch.settle();
    }
    batch.submit(job("large", 8), 100);
    batch.wait(80);
    assert_eq!(
        batch.world.condition("large").unwrap(),
        "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. room is reserved on node n00 \
         since 1970-01-01T00:17:40Z, start expected by 1970-01-01T00:29:00Z"
    );
    batch.submit(job("other", 1), 100);
    batch.submit(declaring(job("long", 1), 200), 200);
    batch.submit(declaring(job("short", 1), 100), 100);
    batch.wait(560);
    for name in ["other", "long"] {
        let condition = batch.world.condition(name).unwrap();
        assert!(condition.contains("1 node(s) held for a pod or group"), "{condition}");
    }
    assert!(batch.started.contains_key("short"), "it ends in time");
    batch.wait(120);
    assert_eq!(batch.started["large"], Time::from_secs(29 * 60));
    assert!(batch.holds().is_empty());
}

/// Two racks of two nodes, full of pods that declare their run times. The pods of rack `b` end
/// before those of rack `a`, and the pods of node `b0` end first.
fn racks_of_small_pods() -> Batch {
    let args = PluginArgs::new(json!({"afterSeconds": 60, "maxPercentOfNodes": 50}));
    let mut batch =
        Batch::new(placements_setup(None).plugin(reservation::plugin(&args).unwrap()), 0);
    for (rack, seconds) in [("a", 900), ("b", 600)] {
        for number in 0..2 {
            let name = format!("{rack}{number}");
            rack_node(&mut batch.world, &name, rack, 4);
            for place in 0..4 {
                let seconds = seconds + 40 * number + place;
                let small = declaring(job(&format!("{name}-{place}"), 1), seconds);
                batch.submit(small.on(&name), seconds);
            }
        }
    }
    batch.settle();
    batch
}

#[test]
fn rack_that_is_free_first_is_held_for_a_gang() {
    let mut batch = racks_of_small_pods();
    rack_group(&mut batch.world, "g", 4);
    (0..4).for_each(|number| batch.submit(member("g", number).cpu("2"), 100));
    batch.wait(80);
    let [hold] = &batch.holds()[..] else { panic!("one hold: {:?}", batch.holds()) };
    assert_eq!(hold.nodes.count(), 2);
    assert_eq!(hold.start, Some(Time::from_secs(1643)));
    let reports = conditions(&batch.world);
    let text = "room is reserved on 2 nodes since 1970-01-01T00:17:40Z, start expected by";
    assert!(reports.last().unwrap().contains(text), "{reports:?}");
    for number in 0..8 {
        batch.submit(job(&format!("other{number}"), 1), 100);
    }
    batch.wait(600);
    assert_eq!(racks(&batch.world, "g", 4), ["b"; 4]);
    assert_eq!(batch.started["g0"], Time::from_secs(1643));
    assert!(batch.holds().iter().all(|hold| hold.holder.to_string() != "PodGroup default/g"));
}

#[test]
fn room_is_released_when_its_holder_is_deleted_and_the_pods_that_were_kept_off_start() {
    let mut batch = racks_of_small_pods();
    batch.submit(job("large", 4), 100);
    batch.wait(80);
    batch.submit(job("other", 1), 100);
    batch.wait(521);
    assert_eq!(batch.world.place("other"), "unschedulable");
    batch.world.delete("large");
    assert!(batch.holds().is_empty());
    batch.settle();
    assert_eq!(batch.world.place("other"), "placed");
}

#[test]
fn held_node_that_goes_is_replaced() {
    let mut batch = racks_of_small_pods();
    batch.submit(job("large", 4), 100);
    batch.wait(80);
    let node = |batch: &Batch| {
        let node = batch.holds()[0].nodes.iter().next().unwrap();
        batch.world.engine.cluster().node_name(node).to_string()
    };
    assert_eq!(node(&batch), "b0");
    batch.world.delete_node("b0");
    batch.wait(10);
    assert_eq!(node(&batch), "b1");
    batch.wait(600);
    assert_eq!(batch.world.node_of("large").as_deref(), Some("b1"));
}

#[test]
fn no_more_nodes_are_held_than_the_share_allows() {
    let mut batch = racks_of_small_pods();
    pod_group(&mut batch.world, "g", 3);
    (0..3).for_each(|number| batch.submit(member("g", number).cpu("4"), 100));
    batch.wait(80);
    assert!(batch.holds().is_empty());
    let event = "Warning RoomNotReserved Scheduling: no room is reserved: 3 nodes would be, and at \
                 most 2 may be";
    assert!(batch.world.events().iter().any(|own| own == event), "{:?}", batch.world.events());
}

#[test]
fn room_expires_and_another_pod_gets_it() {
    let args = json!({"afterSeconds": 60, "maxPercentOfNodes": 10, "expiresAfterSeconds": 120});
    let mut batch =
        Batch::new(setup().plugin(reservation::plugin(&PluginArgs::new(args)).unwrap()), 1);
    batch.submit(job("service", 8), 10_000);
    batch.settle();
    batch.submit(job("first", 8), 100);
    batch.wait(1);
    batch.submit(job("second", 8), 100);
    let holder = |batch: &Batch| batch.holds()[0].holder.to_string();
    batch.wait(80);
    assert_eq!(holder(&batch), "pod default/first");
    batch.wait(120);
    assert_eq!(holder(&batch), "pod default/second");
}

#[test]
fn pods_of_higher_priority_ignore_the_room_and_lower_ones_only_if_they_can_be_evicted() {
    for (priority, expected) in [(1, "placed"), (0, "unschedulable"), (-1, "unschedulable")] {
        let mut batch = racks_of_small_pods();
        batch.submit(job("large", 4), 100);
        batch.wait(80);
        batch.wait(521);
        batch.submit(job("other", 1).priority(priority), 100);
        batch.settle();
        assert_eq!(batch.world.place("other"), expected, "priority {priority}");
    }
}

/// A gang of three pods that fills three nodes, of which one is lost, and a pod that waits.
fn gang_that_loses_a_pod() -> Batch {
    let mut batch = Batch::new(with_reservations(50), 3);
    pod_group(&mut batch.world, "g", 2);
    (0..3).for_each(|number| batch.submit(member("g", number).cpu("8"), 10_000));
    batch.settle();
    batch.submit(job("other", 8), 100);
    batch.wait(1);
    batch
}

#[test]
fn room_of_a_lost_pod_of_a_gang_is_held_for_its_replacement() {
    let mut batch = gang_that_loses_a_pod();
    let node = batch.world.node_of("g2");
    batch.world.delete("g2");
    batch.wait(20);
    assert_eq!(batch.world.place("other"), "unschedulable");
    batch.submit(member("g", 3).cpu("8"), 10_000);
    batch.settle();
    assert_eq!(batch.world.node_of("g3"), node);
    assert!(batch.holds().is_empty());
}

#[test]
fn room_of_a_lost_pod_goes_to_others_after_a_minute_or_if_the_pod_has_succeeded() {
    let mut batch = gang_that_loses_a_pod();
    batch.world.delete("g2");
    batch.wait(59);
    assert_eq!(batch.world.place("other"), "unschedulable");
    batch.wait(11);
    assert_eq!(batch.world.place("other"), "placed");
    let mut batch = gang_that_loses_a_pod();
    batch.world.update("g2", |pod| pod.status.phase = "Succeeded".to_owned());
    batch.settle();
    assert_eq!(batch.world.place("other"), "placed");
    let mut batch = gang_that_loses_a_pod();
    batch.world.update("g2", |pod| pod.status.phase = "Failed".to_owned());
    batch.settle();
    assert_eq!(batch.world.place("other"), "unschedulable");
    (0..2).for_each(|number| batch.world.delete(&format!("g{number}")));
    batch.settle();
    assert!(batch.holds().is_empty(), "the gang is gone");
}

/// A pod or a gang of a history.
#[derive(Debug, Clone)]
struct Job {
    after: u64,
    cpu: u32,
    members: usize,
    seconds: u64,
    /// What its pods declare beyond their run time; `None` if they declare nothing.
    declared_beyond: Option<u64>,
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let job =
        (0..40_u64, 1..9_u32, 1..5_usize, 20..300_u64, prop::option::weighted(0.8, 0..60_u64));
    let job = job.prop_map(|(after, cpu, members, seconds, declared_beyond)| Job {
        after,
        cpu,
        members: if cpu > 4 { members } else { 1 },
        seconds,
        declared_beyond,
    });
    prop::collection::vec(job, 20..80)
}

/// A hold as it began, with the time at which the last pod ends that was on its nodes then.
struct Seen {
    hold: framework::Hold,
    last_end: Time,
}

fn submit(batch: &mut Batch, number: usize, own: &Job) {
    let with_run_time = |pod: PodBuilder| match own.declared_beyond {
        Some(beyond) => declaring(pod, own.seconds + beyond),
        None => pod,
    };
    let cpu = own.cpu.to_string();
    if own.members == 1 {
        batch.submit(with_run_time(job(&format!("p{number}"), own.cpu)), own.seconds);
        return;
    }
    let group = format!("g{number}-");
    pod_group(&mut batch.world, &group, u32::try_from(own.members).unwrap());
    for place in 0..own.members {
        batch.submit(with_run_time(member(&group, place).cpu(&cpu)), own.seconds);
    }
}

fn check_holds(batch: &Batch, seen: &mut Vec<Seen>, before: &BTreeSet<String>) {
    let cluster = batch.world.engine.cluster();
    for hold in batch.holds() {
        let on_held = |nodes: &NodeBits| {
            let pods = cluster.pods().filter(|placed| nodes.contains(placed.node));
            pods.map(|placed| placed.pod.clone()).collect::<Vec<_>>()
        };
        let pods = on_held(&hold.nodes);
        let is_known = |own: &&Seen| own.hold.holder == hold.holder && own.hold.since == hold.since;
        if seen.iter().any(|own| is_known(&own)) {
            for pod in pods.iter().filter(|pod| !before.contains(&*pod.key.name)) {
                let ends = run_time(pod).map(|own| batch.world.now + own);
                assert!(hold.holder.includes(pod) || ends <= hold.start, "{} in {hold:?}", pod.key);
                assert!(hold.holder.includes(pod) || ends.is_some(), "{} in {hold:?}", pod.key);
            }
            continue;
        }
        let end = |pod: &framework::Pod| {
            let actual = batch.run_times[&*pod.key.name];
            Some(pod.start_time.get()? + run_time(pod).unwrap_or(actual))
        };
        let ends = pods.iter().filter_map(|pod| end(pod));
        let last_end = ends.max().unwrap_or(batch.world.now);
        if let Some(start) = hold.start {
            let declared = |pod: &framework::Pod| Some(pod.start_time.get()? + run_time(pod)?);
            let naive = pods.iter().filter_map(|pod| declared(pod)).max();
            assert!(start <= naive.unwrap_or(start), "{start} {naive:?}");
        }
        seen.push(Seen { hold, last_end });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// The naive oracle: no pod that was not there when the hold began runs on its nodes beyond the
    /// expected start, so the holder has started when the last of those that were there ends.
    #[test]
    fn holder_starts_within_the_run_times_of_the_pods_on_its_nodes(jobs in jobs()) {
        let mut batch = Batch::new(with_reservations(50), 6);
        let mut seen = Vec::new();
        for (number, own) in jobs.iter().enumerate() {
            for _ in 0..own.after {
                step(&mut batch, &mut seen);
            }
            submit(&mut batch, number, own);
        }
        for _ in 0..20_000 {
            if batch.world.engine.pending().next().is_none() {
                break;
            }
            step(&mut batch, &mut seen);
        }
        prop_assert_eq!(batch.world.engine.pending().count(), 0, "every pod starts");
    }
}

fn step(batch: &mut Batch, seen: &mut Vec<Seen>) {
    let before: BTreeSet<String> = batch.started.keys().cloned().collect();
    batch.second();
    check_holds(batch, seen, &before);
    let now = batch.world.now;
    let holds = batch.holds();
    seen.retain(|own| {
        let is_same =
            |hold: &framework::Hold| hold.holder == own.hold.holder && hold.since == own.hold.since;
        let lasts = holds.iter().any(is_same);
        if lasts {
            let end = own.last_end;
            assert!(now <= end, "{:?} waits at {now}, the last pod ended at {end}", own.hold);
        }
        lasts
    });
}
