//! Plans for single situations, and plans of random clusters against an exhaustive search.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::sync::Arc;

use engine::ports::Ports;
use engine::profile::{PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use framework::{EventResource, Time};
use loadmaster_make_room::{Answer, Cost, Limits, Movable, Plan, Question, make_room};
use serde_json::json;
use testkit::{NodeBuilder, PodBuilder, StorageObject, node, pod};

/// An engine with the default plugins, and the pods that may be moved.
struct Cluster {
    engine: Engine,
    movable: Vec<Movable>,
}

impl Cluster {
    fn new(nodes: impl IntoIterator<Item = NodeBuilder>) -> Self {
        let enabled = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight));
        let multi_point = PluginSet { enabled: enabled.collect(), ..PluginSet::default() };
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            plugins: PluginSets { multi_point, ..PluginSets::default() },
            ..SchedulerProfile::default()
        };
        let profiles = Profiles::build(&[profile], &[], &plugins::registry(), false).unwrap();
        let engine = Engine::new(EngineConfig::new(profiles));
        let mut cluster = Self { engine, movable: Vec::new() };
        nodes.into_iter().for_each(|node| cluster.apply(Change::Node(node.build())));
        cluster
    }

    fn apply(&mut self, change: Change) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.engine.step(Input::Change(change), Time::ZERO, ports);
    }

    /// Adds a pod that stays where it is.
    fn fixed(&mut self, pod: PodBuilder) {
        self.apply(Change::Pod(Box::new(pod.build())));
    }

    /// Adds a pod that may be moved at this cost.
    fn movable(&mut self, pod: PodBuilder, cost: u64) {
        let pod = pod.build();
        self.movable.push(Movable { pod: Arc::new(pod.clone()), cost: Cost(cost) });
        self.apply(Change::Pod(Box::new(pod)));
    }

    fn budget(&mut self, app: &str, allowed: i64) {
        let budget = json!({
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        });
        let budget = StorageObject::new(EventResource::PodDisruptionBudget, "budget", budget);
        self.apply(Change::Object(Box::new(budget.namespace("default").decoded())));
    }

    fn ask(&mut self, pod: PodBuilder, limits: Limits) -> Answer {
        let pod = Arc::new(pod.build());
        self.apply(Change::Pod(Box::new(Arc::unwrap_or_clone(pod.clone()))));
        let question = Question { pod: &pod, movable: &self.movable, limits };
        make_room(&mut self.engine, &question, Time::ZERO)
    }

    fn plan(&mut self, pod: PodBuilder) -> Plan {
        match self.ask(pod, Limits::default()) {
            Answer::Plan(plan) => plan,
            other => panic!("{other:?}"),
        }
    }
}

fn cpus(name: &str, cpus: u32) -> NodeBuilder {
    node(name).allocatable("cpu", &cpus.to_string()).allocatable("pods", "110")
}

fn moves(plan: &Plan) -> Vec<(&str, &str, &str)> {
    plan.moves.iter().map(|own| (&*own.pod.name, &*own.from, &*own.to)).collect()
}

#[test]
fn pod_that_fits_needs_no_move() {
    let mut cluster = Cluster::new([cpus("a", 4)]);
    let answer = cluster.ask(pod("big").cpu("4"), Limits::default());
    assert_eq!(answer, Answer::Fits("a".into()));
}

#[test]
fn cheapest_pod_moves_to_the_node_with_room() {
    let mut cluster = Cluster::new([cpus("a", 4), cpus("b", 4)]);
    cluster.movable(pod("dear").cpu("2").on("a"), 3000);
    cluster.movable(pod("cheap").cpu("2").on("b"), 1000);
    let plan = cluster.plan(pod("big").cpu("4"));
    assert_eq!(moves(&plan), [("cheap", "b", "a")]);
    assert_eq!((&*plan.node, plan.cost, plan.is_cheapest), ("b", Cost(1000), true));
}

#[test]
fn moves_make_room_for_other_moves() {
    // The pod of `a` fits only on `b`, which has no room until its own pod has gone to `c`.
    let mut cluster = Cluster::new([cpus("a", 4), cpus("b", 3), cpus("c", 1)]);
    cluster.movable(pod("wide").cpu("3").on("a"), 1000);
    cluster.movable(pod("narrow").cpu("1").on("b"), 1000);
    let plan = cluster.plan(pod("big").cpu("4"));
    assert_eq!(moves(&plan), [("narrow", "b", "c"), ("wide", "a", "b")]);
    assert_eq!((&*plan.node, plan.is_cheapest), ("a", true));
}

#[test]
fn constraints_of_moved_pods_count() {
    // `b` has the room, and a pod that `web` avoids.
    let mut cluster = Cluster::new([cpus("a", 4), cpus("b", 4), cpus("c", 2)]);
    cluster.movable(pod("web").cpu("1").host_port(80).on("a"), 1000);
    cluster.fixed(pod("other").cpu("1").host_port(80).on("b"));
    cluster.fixed(pod("small").cpu("1").on("c"));
    let plan = cluster.plan(pod("big").cpu("4"));
    assert_eq!(moves(&plan), [("web", "a", "c")]);
}

#[test]
fn budget_that_allows_nothing_keeps_its_pods() {
    let mut cluster = Cluster::new([cpus("a", 4), cpus("b", 4)]);
    cluster.movable(pod("guarded").label("app", "db").cpu("1").on("a"), 1000);
    cluster.movable(pod("free").cpu("2").on("b"), 5000);
    cluster.budget("db", 0);
    let plan = cluster.plan(pod("big").cpu("4"));
    assert_eq!(moves(&plan), [("free", "b", "a")]);
}

#[test]
fn plan_takes_no_more_of_a_budget_than_it_allows() {
    let mut cluster = Cluster::new([cpus("a", 4), cpus("b", 2)]);
    cluster.movable(pod("db-0").label("app", "db").cpu("1").on("a"), 1000);
    cluster.movable(pod("db-1").label("app", "db").cpu("1").on("a"), 1000);
    cluster.budget("db", 1);
    let answer = cluster.ask(pod("big").cpu("4"), Limits::default());
    assert_eq!(answer, Answer::NoPlan { is_certain: true });
    cluster.budget("db", 2);
    let plan = cluster.plan(pod("big").cpu("4"));
    assert_eq!(plan.moves.len(), 2);
}

#[test]
fn search_that_ends_early_says_so() {
    let mut cluster = Cluster::new([cpus("a", 4), cpus("b", 4)]);
    cluster.movable(pod("one").cpu("2").on("a"), 1000);
    cluster.movable(pod("two").cpu("2").on("b"), 1000);
    let limits = Limits { decisions: 2, ..Limits::default() };
    let answer = cluster.ask(pod("big").cpu("4"), limits);
    assert_eq!(answer, Answer::NoPlan { is_certain: false });
}

#[test]
fn gated_pod_is_not_decided() {
    let mut cluster = Cluster::new([cpus("a", 4)]);
    let answer = cluster.ask(pod("big").cpu("4").gate("example.com/wait"), Limits::default());
    assert!(matches!(answer, Answer::Undecided(_)), "{answer:?}");
}

/// A pod of the naive search.
#[derive(Debug, Clone, Copy)]
struct NaivePod {
    cpu: u32,
    port: bool,
    node: usize,
    cost: u64,
}

/// Random nodes and pods: CPU, and one host port.
#[derive(Debug, Clone)]
struct Naive {
    free: Vec<u32>,
    ports: Vec<u32>,
    pods: Vec<NaivePod>,
    big: u32,
}

impl Naive {
    fn random(rng: &mut fastrand::Rng) -> Self {
        let mut free: Vec<u32> = (0..rng.usize(2..=4)).map(|_| rng.u32(2..=6)).collect();
        let mut ports = vec![0; free.len()];
        let big = *free.iter().max().unwrap();
        let mut pods = Vec::new();
        for _ in 0..rng.usize(2..=6) {
            let node = rng.usize(..free.len());
            let (cpu, port) = (rng.u32(1..=3), rng.u32(..3) == 0);
            if free[node] >= cpu && (!port || ports[node] == 0) {
                free[node] -= cpu;
                ports[node] += u32::from(port);
                pods.push(NaivePod { cpu, port, node, cost: rng.u64(1..=4) * 500 });
            }
        }
        Self { free, ports, pods, big }
    }

    fn fits(&self, pod: NaivePod, node: usize) -> bool {
        self.free[node] >= pod.cpu && (!pod.port || self.ports[node] == 0)
    }

    fn take(&mut self, pod: NaivePod, node: usize) {
        self.free[node] += pod.cpu;
        self.ports[node] -= u32::from(pod.port);
    }

    fn put(&mut self, pod: NaivePod, node: usize) {
        self.free[node] -= pod.cpu;
        self.ports[node] += u32::from(pod.port);
    }

    /// Returns the cost of the cheapest moves of the pods that have not moved, after which the big
    /// pod fits.
    fn cheapest(&mut self, moved: &mut Vec<usize>) -> Option<u64> {
        if self.free.iter().any(|free| *free >= self.big) {
            return Some(0);
        }
        let mut best = None;
        for place in 0..self.pods.len() {
            let pod = self.pods[place];
            if moved.contains(&place) {
                continue;
            }
            for to in 0..self.free.len() {
                if to == pod.node || !self.fits(pod, to) {
                    continue;
                }
                self.take(pod, pod.node);
                self.put(pod, to);
                moved.push(place);
                let rest = self.cheapest(moved).map(|rest| rest + pod.cost);
                best = [best, rest].into_iter().flatten().min();
                moved.pop();
                self.take(pod, to);
                self.put(pod, pod.node);
            }
        }
        best
    }

    fn cluster(&self) -> Cluster {
        let capacity = |node: usize| {
            let own = self.pods.iter().filter(|pod| pod.node == node);
            self.free[node] + own.map(|pod| pod.cpu).sum::<u32>()
        };
        let name = |node: usize| format!("n{node}");
        let nodes = (0..self.free.len()).map(|node| cpus(&name(node), capacity(node)));
        let mut cluster = Cluster::new(nodes);
        for (place, own) in self.pods.iter().enumerate() {
            let pod = pod(&format!("p{place}")).cpu(&own.cpu.to_string()).on(&name(own.node));
            let pod = if own.port { pod.host_port(80) } else { pod };
            cluster.movable(pod, own.cost);
        }
        cluster
    }

    /// Makes the moves of a plan one after the other.
    fn replay(mut self, plan: &Plan) {
        let node = |name: &str| name[1..].parse::<usize>().unwrap();
        for step in &plan.moves {
            let pod = self.pods[step.pod.name[1..].parse::<usize>().unwrap()];
            assert_eq!(node(&step.from), pod.node);
            self.take(pod, pod.node);
            let to = node(&step.to);
            assert!(self.fits(pod, to), "{step:?} of {plan:?}");
            self.put(pod, to);
        }
        assert!(self.free[node(&plan.node)] >= self.big, "{plan:?}");
    }
}

#[test]
fn plans_are_those_of_an_exhaustive_search() {
    let (mut plans, mut chains) = (0, 0);
    for seed in 0..800 {
        let naive = Naive::random(&mut fastrand::Rng::with_seed(seed));
        let best = naive.clone().cheapest(&mut Vec::new());
        let answer = naive.cluster().ask(pod("big").cpu(&naive.big.to_string()), Limits::default());
        match (best, answer) {
            (Some(0), Answer::Fits(_)) => {}
            (Some(best), Answer::Plan(plan)) => {
                assert_eq!((plan.cost, plan.is_cheapest), (Cost(best), true), "seed {seed}");
                plans += 1;
                chains += usize::from(plan.moves.iter().any(|step| step.from != plan.node));
                naive.replay(&plan);
            }
            (None, Answer::NoPlan { is_certain: true }) => {}
            (best, answer) => panic!("seed {seed}: {best:?}, {answer:?}"),
        }
    }
    assert!(plans > 50 && chains > 5, "{plans} plans, {chains} of them with other moves");
}
