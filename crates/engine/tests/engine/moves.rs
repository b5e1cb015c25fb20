//! Pods that are moved one by one, so that a pod fits that fits nowhere.

use std::collections::BTreeMap;

use engine::counters::{MOVE_PLANS, POD_MOVES};
use engine::{EffectKind, MovesWanted};
use framework::{Answer, Holder, PluginArgs, PodKey, Purpose, Uid};
use proptest::prelude::*;
use serde_json::json;
use testkit::{PodBuilder, node, pod};

use crate::harness::*;

/// What the API server answers to an Eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// It evicts the pod if the budget of its labels allows it.
    Evicts,
    /// The pod ends only later: it has a grace period.
    EndsLater,
    /// It evicts the pod, and its answer is lost.
    LosesAnswer,
    /// It does not get the request, and no answer comes.
    LosesRequest,
    Refuses,
}

/// A cluster with controllers, which make ended pods again.
struct Fleet {
    world: World,
    server: Server,
    /// Pods that end.
    ending: Vec<String>,
    /// The pods as their controllers make them, by the name of the controller.
    templates: BTreeMap<String, PodBuilder>,
    made: usize,
    /// Whether controllers make pods again.
    controls: bool,
    /// Names of the pods whose eviction was requested.
    evicted: Vec<String>,
}

fn setup() -> Setup {
    let args = json!({
        "afterSeconds": 60, "maxMovesPerPlan": 3, "paceSeconds": 5, "moveTimeoutSeconds": 30,
    });
    Setup::new([fit()]).plugin(reservation::make_room(&PluginArgs::new(args)).unwrap())
}

fn nodes(world: &mut World, names: &[&str]) {
    for name in names {
        world.node(node(name).allocatable("cpu", "8").allocatable("pods", "20"));
    }
}

fn owned_by(owner: &str, pod: PodBuilder) -> PodBuilder {
    let owners = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner,
        "controller": true,
    }]);
    pod.with(|pod| pod.metadata.owner_references = serde_json::from_value(owners).unwrap())
}

impl Fleet {
    fn new(names: &[&str]) -> Self {
        let mut world = setup().build();
        nodes(&mut world, names);
        Self {
            world,
            server: Server::Evicts,
            ending: Vec::new(),
            templates: BTreeMap::new(),
            made: 0,
            controls: true,
            evicted: Vec::new(),
        }
    }

    /// Three nodes of 8 CPUs, and a pod for 6 that waits. It fits on `a` when both pods of `web`
    /// have left it.
    fn with_waiting() -> Self {
        let mut fleet = Self::new(&["a", "b", "c"]);
        for (owner, cpu, node) in
            [("web", 2, "a"), ("web", 2, "a"), ("old", 3, "a"), ("db", 4, "b"), ("log", 5, "c")]
        {
            fleet.replica(owner, cpu, node);
        }
        // Only these may move.
        for name in ["old-3", "db-4", "log-5"] {
            fleet.world.update(name, |pod| pod.metadata.owner_references.clear());
        }
        fleet.world.pod(pod("large").cpu("5"));
        fleet
    }

    /// A pod of a controller on a node.
    fn replica(&mut self, owner: &str, cpu: u32, node: &str) {
        let template = owned_by(owner, pod("template").label("app", owner).cpu(&cpu.to_string()));
        self.templates.insert(owner.to_owned(), template);
        self.make(owner, Some(node));
    }

    fn make(&mut self, owner: &str, node: Option<&str>) {
        let pod = self.successor(owner);
        self.world.pod(match node {
            Some(node) => pod.on(node),
            None => pod,
        });
    }

    fn successor(&mut self, owner: &str) -> PodBuilder {
        self.made += 1;
        let name = format!("{owner}-{}", self.made);
        self.templates[owner].clone().with(|pod| {
            pod.metadata.uid = format!("uid-{name}");
            pod.metadata.name = name;
        })
    }

    /// The pod is gone, and its controller makes another one.
    fn end(&mut self, name: &str) {
        self.world.delete(name);
        let owner = name.rsplit_once('-').map(|(owner, _)| owner.to_owned());
        if let Some(owner) = owner.filter(|own| self.controls && self.templates.contains_key(own)) {
            self.make(&owner, None);
        }
    }

    fn evict(&mut self, pod: &PodKey, uid: &Uid) -> Option<Answer> {
        self.evicted.push(pod.name.to_string());
        let known = self.world.server.get(pod);
        if known.is_none_or(|known| Uid::from(&*known.metadata.uid) != *uid) {
            return Some(Answer::Gone(format!("pods {:?} not found", &*pod.name)));
        }
        match self.server {
            Server::LosesRequest => None,
            Server::Refuses => {
                let text = "Cannot evict pod as it would violate the pod's disruption budget.";
                Some(Answer::Throttled(text.to_owned()))
            }
            Server::EndsLater => {
                self.ending.push(pod.name.to_string());
                self.world.terminate(&pod.name);
                Some(Answer::ok())
            }
            Server::Evicts => {
                self.end(&pod.name);
                Some(Answer::ok())
            }
            Server::LosesAnswer => {
                self.end(&pod.name);
                Some(Answer::Unknown("timeout".to_owned()))
            }
        }
    }

    fn run(&mut self) {
        for _ in 0..10_000 {
            if self.world.try_attempt().is_some() {
                continue;
            }
            let Some(effect) = self.world.open.pop_front() else { return };
            match &effect.kind {
                EffectKind::PlanMoves(wanted) => {
                    let answer = self.plan(wanted);
                    self.world.answer(effect.id, &answer);
                }
                EffectKind::RequestEviction { pod, uid } => {
                    let answer = self.evict(pod, uid);
                    answer.iter().for_each(|answer| self.world.answer(effect.id, answer));
                }
                _ => self.world.carry_out(effect),
            }
        }
        panic!("the engine does not come to rest");
    }

    fn plan(&mut self, wanted: &MovesWanted) -> Answer {
        make_room::find_moves(&mut self.world.engine, wanted, self.world.now)
    }

    fn wait(&mut self, seconds: u64) {
        self.run();
        for _ in 0..seconds {
            self.world.pass(1);
            self.run();
        }
    }

    /// Waits until this number of evictions were requested.
    fn wait_for_eviction(&mut self, number: usize) {
        for _ in 0..300 {
            if self.evicted.len() >= number {
                return;
            }
            self.wait(1);
        }
        panic!("{} evictions were requested: {:?}", self.evicted.len(), self.world.events());
    }

    fn node_of(&self, name: &str) -> String {
        self.world.node_of(name).unwrap_or_default()
    }

    fn holds(&self) -> Vec<String> {
        let holds = self.world.engine.cluster().holds().iter();
        holds.map(|hold| format!("{}: {}", hold.holder, hold.nodes.count())).collect()
    }

    fn plans(&self) -> Vec<&str> {
        self.world.probe.counted(&MOVE_PLANS)
    }

    fn events(&self, reason: &str) -> Vec<String> {
        let events = self.world.events();
        events.into_iter().filter(|event| event.contains(reason)).collect()
    }

    #[track_caller]
    fn assert_nothing_is_left(&self) {
        assert_eq!(self.holds(), [""; 0]);
        assert_eq!(self.world.engine.nominator().len(), 0);
    }
}

#[test]
fn pods_move_one_by_one_until_the_waiting_pod_fits() {
    let mut fleet = Fleet::with_waiting();
    fleet.wait(60);
    assert!(fleet.evicted.is_empty(), "it has not waited long enough");
    fleet.wait_for_eviction(1);
    fleet.wait(4);
    assert_eq!(fleet.evicted.len(), 1, "the next move waits for its turn");
    assert_eq!(fleet.holds(), ["pod default/large: 1"]);
    fleet.wait(10);
    assert_eq!(fleet.evicted.len(), 2);
    assert_eq!(fleet.node_of("large"), "a");
    assert_eq!(fleet.plans(), ["completed"]);
    assert_eq!(
        fleet.world.probe.counted(&POD_MOVES),
        ["requested", "placed", "requested", "placed"]
    );
    fleet.assert_nothing_is_left();
    let steps = fleet.events("MakingRoom");
    let first = "move 1 of 2 for room on node a: pod default/web-";
    assert!(steps.len() == 2 && steps[0].contains(first), "{steps:?}");
    fleet.wait(600);
    assert_eq!(fleet.evicted.len(), 2, "no further pod moves");
}

#[test]
fn other_pods_stay_off_the_room_of_the_waiting_pod_and_of_the_successor() {
    let mut fleet = Fleet::with_waiting();
    fleet.controls = false;
    fleet.wait_for_eviction(1);
    fleet.run();
    assert_eq!(fleet.holds().len(), 2, "{:?}", fleet.holds());
    // It would fit on the nodes that are held only.
    fleet.world.pod(pod("small").cpu("3"));
    fleet.world.pod(pod("urgent").cpu("3").priority(1));
    fleet.wait(1);
    assert_eq!(fleet.node_of("small"), "c", "{:?}", fleet.world.condition("small"));
    assert_eq!(fleet.node_of("urgent"), "a", "a pod of higher priority may start anywhere");
}

/// A surprise after the first eviction was requested.
type Surprise = (&'static str, fn(&mut Fleet), &'static str);

#[test]
fn surprises_stop_a_plan_and_release_everything() {
    let rows: [Surprise; 10] = [
        ("refused", |_| {}, "was refused: Cannot evict pod"),
        ("timed_out", |_| {}, "has not ended within 30 s"),
        ("timed_out", |_| {}, "no pod has taken the place"),
        ("successor", |fleet| fleet.make_other(), "differs from pod default/web-"),
        ("successor", |fleet| fleet.place_elsewhere(), "was placed on node c, not b"),
        ("successor", |fleet| fleet.delete_successor(), "is gone"),
        ("outdated", |fleet| fleet.world.delete_node("b"), "node b is gone"),
        ("outdated", |fleet| fleet.fill("b"), "does not fit on node b now"),
        ("unneeded", |fleet| fleet.world.delete("large"), ""),
        ("unneeded", |fleet| fleet.bind_large(), "placed on node c"),
    ];
    for (number, (outcome, surprise, text)) in rows.into_iter().enumerate() {
        let mut fleet = Fleet::with_waiting();
        fleet.controls = !matches!(number, 2..=6);
        fleet.server = match number {
            0 => Server::Refuses,
            1 => Server::LosesRequest,
            _ => Server::Evicts,
        };
        fleet.wait_for_eviction(1);
        surprise(&mut fleet);
        fleet.wait(40);
        assert_eq!(fleet.plans().first(), Some(&outcome), "{number}: {:?}", fleet.world.events());
        let stops = fleet.events("MakeRoomStopped");
        let is_told = stops.iter().any(|event| event.contains(text));
        assert!(is_told || outcome == "unneeded", "{number}: {stops:?}");
        fleet.assert_nothing_is_left();
        let evicted = fleet.evicted.len();
        fleet.wait(200);
        assert_eq!(fleet.evicted.len(), evicted, "{number}: the next plan waits");
    }
}

impl Fleet {
    /// The controller makes a larger pod.
    fn make_other(&mut self) {
        let other = self.successor("web").cpu("3");
        self.world.pod(other);
    }

    /// Another scheduler binds the successor.
    fn place_elsewhere(&mut self) {
        let other = self.successor("web");
        let key = self.world.store(other.api());
        self.world.see(&key.name);
        self.world.update(&key.name, |pod| pod.spec.node_name = "c".to_owned());
    }

    fn delete_successor(&mut self) {
        let other = self.successor("web");
        let key = self.world.store(other.api());
        self.world.see(&key.name);
        self.world.delete(&key.name);
    }

    /// A pod takes the rest of a node before the next move.
    fn fill(&mut self, node: &str) {
        self.run();
        self.world.pod(pod("filler").cpu("2").priority(5).on(node));
    }

    fn bind_large(&mut self) {
        self.world.update("large", |pod| pod.spec.node_name = "c".to_owned());
    }
}

#[test]
fn lost_answer_of_an_eviction_is_found_out_by_the_watch() {
    let mut fleet = Fleet::with_waiting();
    fleet.server = Server::LosesAnswer;
    fleet.wait(120);
    assert_eq!(fleet.plans(), ["completed"]);
    assert_eq!(fleet.node_of("large"), "a");
}

#[test]
fn move_waits_for_the_end_of_a_pod_with_a_grace_period() {
    let mut fleet = Fleet::with_waiting();
    fleet.server = Server::EndsLater;
    fleet.wait_for_eviction(1);
    fleet.wait(20);
    assert_eq!(fleet.evicted.len(), 1, "it still ends");
    for _ in 0..2 {
        let ending = std::mem::take(&mut fleet.ending);
        ending.iter().for_each(|name| fleet.end(name));
        fleet.wait(10);
    }
    assert_eq!(fleet.plans(), ["completed"], "{:?}", fleet.world.events());
}

#[test]
fn failures_of_plans_are_tried_again_after_growing_pauses() {
    let mut fleet = Fleet::with_waiting();
    fleet.server = Server::Refuses;
    let mut times = Vec::new();
    for number in 1..=3 {
        fleet.wait_for_eviction_within(number, 2_000);
        times.push(fleet.world.now);
    }
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert!((300..=310).contains(&pauses[0]) && (600..=610).contains(&pauses[1]), "{pauses:?}");
    let pod = fleet.world.engine.pending_pod(&key("large")).unwrap().clone();
    let told = fleet.world.engine.moves_for(&pod).unwrap_or_default();
    assert!(told.contains("was refused") && told.contains("tried again after"), "{told}");
}

impl Fleet {
    fn wait_for_eviction_within(&mut self, number: usize, seconds: u64) {
        for _ in 0..seconds {
            if self.evicted.len() >= number {
                return;
            }
            self.wait(1);
        }
        panic!("only {} evictions", self.evicted.len());
    }
}

#[test]
fn pods_that_must_stay_are_not_moved() {
    let rows: [fn(&mut framework::api::Pod); 4] = [
        |pod| pod.metadata.owner_references.clear(),
        |pod| pod.spec.priority = Some(1),
        |pod| pod.spec.scheduler_name = "other".to_owned(),
        |pod| {
            let key = "cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned();
            pod.metadata.annotations.insert(key, "false".to_owned());
        },
    ];
    for change in rows {
        let mut fleet = Fleet::with_waiting();
        fleet.world.update("web-1", change);
        fleet.wait(200);
        assert!(fleet.evicted.is_empty() && fleet.plans()[0] == "not_found");
        assert!(fleet.events("MakeRoomStopped").is_empty(), "no pod was moved");
        fleet.assert_nothing_is_left();
    }
}

#[test]
fn killed_scheduler_leaves_only_pods_that_their_controllers_make_again() {
    for seconds in 0..8 {
        let mut fleet = Fleet::with_waiting();
        fleet.wait_for_eviction(1);
        fleet.wait(seconds);
        let mut world = setup().build();
        nodes(&mut world, &["a", "b", "c"]);
        world.now = fleet.world.now;
        world.catch_up_with(&fleet.world);
        fleet.world = world;
        fleet.assert_nothing_is_left();
        fleet.wait(200);
        assert_eq!(fleet.node_of("large"), "a", "the next one makes its own plan");
        assert_eq!(fleet.world.server.len(), 6);
        fleet.assert_nothing_is_left();
    }
}

/// A namespace with many pods for which nothing helps holds up no other.
#[test]
fn searches_in_vain_for_one_namespace_hold_up_no_other() {
    let mut fleet = Fleet::new(&["a", "b"]);
    fleet.replica("web", 4, "a");
    fleet.replica("db", 4, "b");
    for number in 0..100 {
        let huge = pod(&format!("huge-{number}")).namespace("other");
        fleet.world.pod(huge.cpu(&(20 + number).to_string()));
    }
    fleet.wait(1);
    fleet.world.pod(pod("large").cpu("5"));
    fleet.wait(70);
    assert_eq!(fleet.evicted.len(), 1, "{:?}", fleet.plans());
}

#[test]
fn pods_alike_wait_with_the_one_for_which_no_moves_were_found() {
    let mut fleet = Fleet::with_waiting();
    for name in ["huge-1", "huge-2", "huge-3"] {
        fleet.world.pod(pod(name).cpu("9").priority(5));
    }
    fleet.wait(120);
    let wanted = fleet.world.history.iter().filter_map(|effect| match &effect.kind {
        EffectKind::PlanMoves(wanted) => Some(&*wanted.pod.name),
        _ => None,
    });
    assert_eq!(wanted.collect::<Vec<_>>(), ["huge-1", "large"]);
    assert_eq!(fleet.node_of("large"), "a");
}

/// What happens in a cluster of which nothing is known.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64),
    Server(Server),
    /// The controllers work, or stop to.
    Control(bool),
    /// Pods that end are gone.
    End,
    Delete(usize),
    Pod {
        cpu: u32,
        priority: i32,
    },
    Replica {
        owner: usize,
        cpu: u32,
    },
    /// A node takes no more pods.
    Cordon(usize, bool),
    Kill,
}

fn event() -> impl Strategy<Value = Event> {
    let server = prop_oneof![
        4 => Just(Server::Evicts),
        2 => Just(Server::EndsLater),
        1 => Just(Server::LosesAnswer),
        1 => Just(Server::LosesRequest),
        1 => Just(Server::Refuses),
    ];
    prop_oneof![
        12 => (1_u64..60).prop_map(Event::Wait),
        2 => server.prop_map(Event::Server),
        1 => prop::bool::weighted(0.8).prop_map(Event::Control),
        2 => Just(Event::End),
        1 => (0_usize..50).prop_map(Event::Delete),
        2 => (1_u32..8, -1_i32..2).prop_map(|(cpu, priority)| Event::Pod { cpu, priority }),
        2 => (0_usize..4, 1_u32..4).prop_map(|(owner, cpu)| Event::Replica { owner, cpu }),
        1 => (0_usize..4, any::<bool>()).prop_map(|(node, off)| Event::Cordon(node, off)),
        1 => Just(Event::Kill),
    ]
}

const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// Replicas for each node, by their CPUs.
fn replicas() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(1_u32..4, 2..4), NODES.len())
}

impl Fleet {
    /// Nodes with these replicas, as far as they fit, and a pod that waits for the rest of several.
    fn fragmented(replicas: &[Vec<u32>], large: u32) -> Self {
        let mut fleet = Self::new(&NODES);
        for (node, own) in NODES.iter().zip(replicas) {
            let mut free = 8;
            for cpu in own.iter().copied() {
                if cpu <= free {
                    fleet.replica(&format!("owner{node}x{cpu}"), cpu, node);
                    free -= cpu;
                }
            }
        }
        fleet.world.pod(pod("large").cpu(&large.to_string()));
        fleet
    }

    fn handle(&mut self, event: &Event, number: usize) {
        match *event {
            Event::Wait(seconds) => self.wait(seconds),
            Event::Server(server) => self.server = server,
            Event::Control(controls) => self.controls = controls,
            Event::End => {
                let ending = std::mem::take(&mut self.ending);
                ending.iter().for_each(|name| {
                    if self.world.server.contains_key(&key(name)) {
                        self.end(name);
                    }
                });
            }
            Event::Delete(place) => {
                let known = self.world.server.keys().nth(place).cloned();
                known.iter().for_each(|pod| self.end(&pod.name));
            }
            Event::Pod { cpu, priority } => {
                let pod = pod(&format!("single{number}")).cpu(&cpu.to_string());
                self.world.pod(pod.priority(priority));
            }
            Event::Replica { owner, cpu } => {
                let owner = format!("owner{owner}x{cpu}");
                let template = pod("template").label("app", &owner).cpu(&cpu.to_string());
                self.templates.insert(owner.clone(), owned_by(&owner, template));
                self.make(&owner, None);
            }
            Event::Cordon(place, off) => {
                let cpu = if off { "0" } else { "8" };
                let node = node(NODES[place]).allocatable("cpu", cpu);
                self.world.node(node.allocatable("pods", "20"));
            }
            Event::Kill => {
                let mut world = setup().build();
                nodes(&mut world, &NODES);
                world.now = self.world.now;
                world.catch_up_with(&self.world);
                self.world = world;
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let mut used: BTreeMap<&str, i64> = BTreeMap::new();
        for pod in self.world.server.values().filter(|pod| !pod.spec.node_name.is_empty()) {
            let cpu = &pod.spec.containers[0].resources.requests["cpu"].0;
            *used.entry(&pod.spec.node_name).or_default() += cpu.parse::<i64>().unwrap();
        }
        for (node, cpu) in &used {
            prop_assert!(*cpu <= 8, "{} has {}", node, cpu);
        }
        let holds = || self.world.engine.cluster().holds().iter();
        prop_assert!(holds().all(|hold| hold.purpose == Purpose::Move));
        let moving = holds().filter(|hold| matches!(hold.holder, Holder::Successor(..)));
        prop_assert!(moving.count() <= 1 && holds().count() <= 2, "{:?}", self.holds());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_node_is_overcommitted_and_nothing_stays_held(
        replicas in replicas(),
        large in 4_u32..8,
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut fleet = Fleet::fragmented(&replicas, large);
        for (number, event) in events.iter().enumerate() {
            fleet.handle(event, number);
            fleet.check()?;
        }
        // All pods without a node go, so that no plan is needed.
        fleet.controls = false;
        fleet.wait(1);
        let waits = |pod: &&framework::api::Pod| pod.spec.node_name.is_empty();
        let waiting = fleet.world.server.values().filter(waits);
        let waiting: Vec<String> = waiting.map(|pod| pod.metadata.name.clone()).collect();
        waiting.iter().for_each(|name| fleet.world.delete(name));
        fleet.wait(60);
        prop_assert_eq!(fleet.holds(), [""; 0]);
        prop_assert_eq!(fleet.world.engine.nominator().len(), 0);
    }
}
