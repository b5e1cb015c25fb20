//! Plans for single situations, and plans of random clusters against an exhaustive search.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::ports::Ports;
use engine::profile::{PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use framework::{EventResource, Time};
use loadmaster_make_room::{
    Answer, Cost, Drains, EmptyNodes, Limits, Movable, Plan, Question, Stays, empty_nodes,
    make_room,
};
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

    fn empty_nodes(&mut self, held: &[&str]) -> EmptyNodes {
        let held: BTreeSet<Arc<str>> = held.iter().map(|name| (*name).into()).collect();
        let drains = Drains { movable: &self.movable, held: &held, decisions: 10_000 };
        empty_nodes(&mut self.engine, &drains, Time::ZERO)
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
    for seed in 0..400 {
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
    assert!(plans > 25 && chains > 2, "{plans} plans, {chains} of them with other moves");
}

/// The names of the nodes, each with its moves: the pod and where it goes.
fn emptied(found: &EmptyNodes) -> Vec<(&str, Vec<(&str, &str)>)> {
    let nodes = found.nodes.iter().map(|own| {
        let moves = own.moves.iter().map(|step| (&*step.pod.name, &*step.to));
        (&*own.node, moves.collect())
    });
    nodes.collect()
}

#[test]
fn nodes_are_emptied_as_long_as_others_take_their_pods() {
    let mut cluster = Cluster::new([cpus("a", 4), cpus("b", 4), cpus("c", 4), cpus("d", 4)]);
    cluster.movable(pod("a-1").cpu("1").on("a"), 1000);
    cluster.movable(pod("b-1").cpu("3").on("b"), 1500);
    cluster.movable(pod("c-1").cpu("3").on("c"), 2000);
    let found = cluster.empty_nodes(&[]);
    // `d` has no pod. The pod of `a` fits beside a large one, which then fits nowhere else.
    let [(first, none), (second, moves)] = &emptied(&found)[..] else { panic!("{found:?}") };
    assert_eq!((*first, none.is_empty(), *second), ("d", true, "a"));
    let [(_, to)] = moves[..] else { panic!("{found:?}") };
    let (to, other) = if to == "b" { ("b", "c") } else { (to, "b") };
    assert!(matches!(found.staying[to], Stays::Takes(_)), "{found:?}");
    assert!(matches!(found.staying[other], Stays::Keeps(_)), "{found:?}");
    assert_eq!((found.staying.len(), found.is_complete), (2, true));
}

#[test]
fn held_nodes_stay_and_take_pods() {
    let mut cluster = Cluster::new([cpus("a", 4), cpus("b", 4)]);
    cluster.fixed(pod("single").cpu("1").on("a"));
    cluster.movable(pod("web").cpu("2").on("b"), 1000);
    assert_eq!(emptied(&cluster.empty_nodes(&["a"])), [("b", vec![("web", "a")])]);
}

#[test]
fn budget_counts_for_the_pods_of_one_node() {
    let mut cluster = Cluster::new([cpus("a", 1), cpus("b", 1), cpus("c", 1), cpus("d", 4)]);
    for (name, node) in [("db-0", "a"), ("db-1", "b"), ("db-2", "c"), ("db-3", "c")] {
        cluster.movable(pod(name).label("app", "db").cpu("500m").on(node), 1000);
    }
    cluster.budget("db", 1);
    let found = cluster.empty_nodes(&["d"]);
    assert_eq!(emptied(&found), [("a", vec![("db-0", "d")]), ("b", vec![("db-1", "d")])]);
    assert!(matches!(found.staying["c"], Stays::Keeps(_)), "{found:?}");
}

#[test]
fn search_for_empty_nodes_says_when_it_ended_early() {
    let mut cluster = Cluster::new([cpus("a", 1), cpus("b", 4)]);
    cluster.movable(pod("web").cpu("1").on("a"), 1000);
    let held = BTreeSet::from(["b".into()]);
    let drains = Drains { movable: &cluster.movable, held: &held, decisions: 0 };
    let found = empty_nodes(&mut cluster.engine, &drains, Time::ZERO);
    assert_eq!(found, EmptyNodes { is_complete: false, ..EmptyNodes::default() });
}

#[test]
fn emptied_nodes_of_random_clusters_leave_every_pod_with_room() {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut most = 0;
    for history in 0..200 {
        let free: BTreeMap<String, u32> =
            (0..rng.usize(2..6)).map(|number| (format!("n-{number}"), rng.u32(2..9))).collect();
        let mut cluster = Cluster::new(free.iter().map(|(name, size)| cpus(name, *size)));
        let (mut left, mut requests) = (free.clone(), BTreeMap::new());
        for number in 0..rng.u32(1..9) {
            let node = format!("n-{}", rng.usize(..free.len()));
            let cpu = rng.u32(1..4);
            let Some(rest) = left[&node].checked_sub(cpu) else { continue };
            left.insert(node.clone(), rest);
            let name = format!("p-{number}");
            requests.insert(name.clone(), cpu);
            cluster.movable(pod(&name).cpu(&cpu.to_string()).on(&node), rng.u64(1000..3000));
        }
        let found = cluster.empty_nodes(&[]);
        let mut gone = BTreeSet::new();
        for own in &found.nodes {
            gone.insert(own.node.to_string());
            for step in &own.moves {
                let (cpu, to) = (requests[&*step.pod.name], step.to.to_string());
                assert!(!gone.contains(&to), "history {history}: {to} is emptied, {found:?}");
                let rest = left[&to].checked_sub(cpu);
                left.insert(to, rest.unwrap_or_else(|| panic!("history {history}: {found:?}")));
            }
            let moved: u32 = own.moves.iter().map(|step| requests[&*step.pod.name]).sum();
            let whole = free[&*own.node] == left[&*own.node] + moved;
            assert!(whole, "history {history}: a pod stays on {}, {found:?}", own.node);
        }
        most = most.max(gone.len());
        assert!(found.is_complete && found.nodes.len() + found.staying.len() == free.len());
    }
    assert!(most > 1, "no cluster has two nodes that can be emptied");
}
