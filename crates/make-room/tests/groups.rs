//! Plans for PodGroups, and plans of random clusters, replayed move by move.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::collections::BTreeMap;

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use framework::{EventResource, PluginGates, PodGroupKey, Time};
use loadmaster_make_room::{
    GroupAnswer, GroupPlan, GroupQuestion, Limits, RunningPods, make_room_for_group,
};
use serde_json::{Value, json};
use testkit::{PodBuilder, node, pod};

/// Nodes in racks, running pods of a ReplicaSet, and groups.
struct Cluster(Engine);

impl Cluster {
    /// Makes nodes of these racks with so many CPUs.
    fn new<'n>(nodes: impl IntoIterator<Item = (&'n str, &'n str, u32)>) -> Self {
        let gates = PluginGates { generic_workload: true, ..PluginGates::default() };
        let registry = plugins::registry().with_gates(gates);
        let defaults = plugins::catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight));
        let groups = ["GangScheduling", "TopologyPlacementGenerator"];
        let defaults: Vec<PluginRef> =
            defaults.chain(groups.map(|name| PluginRef::new(name, 0))).collect();
        let scheduler_name = "default-scheduler".to_owned();
        let profile = SchedulerProfile { scheduler_name, ..SchedulerProfile::default() };
        let profiles = Profiles::build(&[profile], &defaults, &registry, false).unwrap();
        let mut cluster = Self(Engine::new(EngineConfig::new(profiles)));
        for (name, rack, cpus) in nodes {
            let own = node(name).label("rack", rack).allocatable("cpu", &cpus.to_string());
            cluster.apply(Change::Node(own.allocatable("pods", "110").build()));
        }
        cluster
    }

    fn apply(&mut self, change: Change) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.0.step(Input::Change(change), Time::ZERO, ports);
        self.0.take_effects();
    }

    fn pod(&mut self, pod: PodBuilder) {
        self.apply(Change::Pod(Box::new(pod.build())));
    }

    /// Adds a pod that may be moved.
    fn running(&mut self, name: &str, cpus: u32, node: &str) {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": "web", "controller": true}]);
        self.pod(pod(name).cpu(&cpus.to_string()).on(node).with(|pod| {
            pod.metadata.owner_references = serde_json::from_value(owner).unwrap();
        }));
    }

    fn budget(&mut self, allowed: i64) {
        let object = json!({
            "metadata": {"name": "budget", "namespace": "default"},
            "spec": {"selector": {}}, "status": {"disruptionsAllowed": allowed},
        });
        let kind = EventResource::PodDisruptionBudget;
        self.apply(Change::Object(Box::new(testkit::object(kind, object))));
    }

    /// Adds a gang that needs so many of its pods, within one rack if the topology says so.
    fn gang(&mut self, least: usize, pods: usize, cpus: u32, topology: &Value) {
        let group = json!({
            "metadata": {"namespace": "default", "name": "gang", "uid": "gang"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": least}},
                "schedulingConstraints": {"topology": topology},
            },
        });
        self.apply(Change::Object(Box::new(testkit::object(EventResource::PodGroup, group))));
        for number in 0..pods {
            let own = pod(&format!("gang-{number}")).cpu(&cpus.to_string());
            self.pod(own.scheduling_group("gang"));
        }
    }

    fn ask(&mut self, moves: usize) -> GroupAnswer {
        let running = RunningPods::of(self.0.cluster(), 0);
        let limits = Limits { moves, ..Limits::default() };
        let group = PodGroupKey::new("default", "gang");
        let question = GroupQuestion { group: &group, movable: &running.movable, limits };
        make_room_for_group(&mut self.0, &question, Time::ZERO, &|| false)
    }

    fn plan(&mut self) -> GroupPlan {
        match self.ask(10) {
            GroupAnswer::Plan(plan) => plan,
            other => panic!("{other:?}"),
        }
    }
}

fn one_rack() -> Value {
    json!([{"key": "rack"}])
}

fn moves(plan: &GroupPlan) -> Vec<(&str, &str, &str)> {
    plan.moves.iter().map(|own| (&*own.pod.name, &*own.from, &*own.to)).collect()
}

#[test]
fn group_that_fits_needs_no_move() {
    let mut cluster = Cluster::new([("a", "r", 4), ("b", "r", 4)]);
    cluster.gang(2, 2, 4, &json!([]));
    let GroupAnswer::Fits(members) = cluster.ask(10) else { panic!("it fits") };
    assert_eq!(members.len(), 2);
}

#[test]
fn pods_move_for_each_member_that_fits_nowhere() {
    let mut cluster = Cluster::new([("a", "r", 4), ("b", "r", 4), ("c", "r", 2)]);
    cluster.running("one", 1, "a");
    cluster.running("two", 1, "b");
    cluster.gang(2, 2, 4, &json!([]));
    let plan = cluster.plan();
    let mut pods = moves(&plan);
    pods.sort_unstable();
    assert_eq!(pods, [("one", "a", "c"), ("two", "b", "c")]);
    assert_eq!((plan.members.len(), plan.cost.0), (2, 2000));
    assert_eq!(cluster.ask(1), GroupAnswer::NoPlan, "one move is too few");
}

#[test]
fn only_as_many_members_get_room_as_the_group_needs() {
    let mut cluster = Cluster::new([("a", "r", 4), ("b", "r", 4), ("c", "r", 2)]);
    cluster.running("one", 1, "a");
    cluster.running("two", 1, "b");
    cluster.gang(1, 2, 4, &json!([]));
    assert_eq!(cluster.plan().moves.len(), 1);
}

#[test]
fn members_of_a_rack_get_room_in_the_cheapest_rack() {
    let racks = [("a", "r", 4), ("b", "r", 4), ("c", "s", 4), ("d", "s", 4), ("e", "t", 3)];
    let mut cluster = Cluster::new(racks);
    for (name, node) in [("one", "a"), ("two", "b"), ("three", "c")] {
        cluster.running(name, 1, node);
    }
    cluster.gang(2, 2, 4, &one_rack());
    let plan = cluster.plan();
    assert_eq!(moves(&plan).len(), 1, "{plan:?}");
    assert_eq!(plan.moves[0].pod.name.as_ref(), "three");
    let mut nodes: Vec<&str> = plan.members.iter().map(|own| &*own.node).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["c", "d"]);
}

#[test]
fn budget_counts_over_all_moves_for_the_group() {
    let mut cluster = Cluster::new([("a", "r", 4), ("b", "r", 4), ("c", "r", 2)]);
    cluster.running("one", 1, "a");
    cluster.running("two", 1, "b");
    cluster.budget(1);
    cluster.gang(2, 2, 4, &json!([]));
    assert_eq!(cluster.ask(10), GroupAnswer::NoPlan);
    cluster.budget(2);
    assert_eq!(cluster.plan().moves.len(), 2);
}

/// Nodes with their racks and free CPUs, and running pods.
#[derive(Debug, Clone)]
struct Naive {
    racks: Vec<usize>,
    free: Vec<u32>,
    /// The CPUs of each pod, and its node.
    pods: Vec<(u32, usize)>,
    members: usize,
    cpus: u32,
    in_one_rack: bool,
}

impl Naive {
    fn random(rng: &mut fastrand::Rng) -> Self {
        let nodes = rng.usize(3..=7);
        let racks = (0..nodes).map(|_| rng.usize(..3)).collect();
        let mut free: Vec<u32> = (0..nodes).map(|_| rng.u32(3..=6)).collect();
        let mut pods = Vec::new();
        for _ in 0..rng.usize(2..=10) {
            let (node, cpu) = (rng.usize(..nodes), rng.u32(1..=2));
            if free[node] >= cpu {
                free[node] -= cpu;
                pods.push((cpu, node));
            }
        }
        let (members, cpus, in_one_rack) = (rng.usize(2..=4), rng.u32(2..=5), rng.bool());
        Self { racks, free, pods, members, cpus, in_one_rack }
    }

    /// Whether the members fit together, within one rack if they have to.
    fn fits(&self) -> bool {
        let mut rooms: BTreeMap<usize, usize> = BTreeMap::new();
        for (rack, free) in self.racks.iter().zip(&self.free) {
            let rack = if self.in_one_rack { *rack } else { 0 };
            *rooms.entry(rack).or_default() += usize::try_from(free / self.cpus).unwrap();
        }
        rooms.values().any(|room| *room >= self.members)
    }

    fn cluster(&self) -> Cluster {
        let names: Vec<(String, String)> = (0..self.free.len())
            .map(|node| (format!("n{node}"), format!("r{}", self.racks[node])))
            .collect();
        let size = |node: usize| {
            let own = self.pods.iter().filter(|(_, of)| *of == node);
            self.free[node] + own.map(|(cpu, _)| cpu).sum::<u32>()
        };
        let nodes =
            names.iter().zip(0..).map(|((name, rack), node)| (&**name, &**rack, size(node)));
        let mut cluster = Cluster::new(nodes);
        for (place, (cpu, node)) in self.pods.iter().enumerate() {
            cluster.running(&format!("p{place}"), *cpu, &names[*node].0);
        }
        let topology = if self.in_one_rack { one_rack() } else { json!([]) };
        cluster.gang(self.members, self.members, self.cpus, &topology);
        cluster
    }

    /// Makes the moves one after the other, and then places the members.
    fn replay(mut self, plan: &GroupPlan) {
        let number = |name: &str| name[1..].parse::<usize>().unwrap();
        for step in &plan.moves {
            let (cpu, node) = self.pods[number(&step.pod.name)];
            let to = number(&step.to);
            assert_eq!(number(&step.from), node, "each pod moves once: {plan:?}");
            self.free[node] += cpu;
            assert!(to != node && self.free[to] >= cpu, "{step:?} of {plan:?}");
            self.free[to] -= cpu;
            self.pods[number(&step.pod.name)].1 = to;
        }
        assert_eq!(plan.members.len(), self.members, "all of them or none");
        let mut racks = Vec::new();
        for own in &plan.members {
            let node = number(&own.node);
            assert!(self.free[node] >= self.cpus, "{plan:?}");
            self.free[node] -= self.cpus;
            racks.push(self.racks[node]);
        }
        racks.sort_unstable();
        racks.dedup();
        assert!(!self.in_one_rack || racks.len() == 1, "{plan:?}");
    }
}

#[test]
fn plans_for_groups_of_random_clusters_can_be_replayed() {
    let (mut fits, mut plans) = (0, 0);
    for seed in 0..200 {
        let naive = Naive::random(&mut fastrand::Rng::with_seed(seed));
        let answer = naive.cluster().ask(10);
        assert_eq!(matches!(answer, GroupAnswer::Fits(_)), naive.fits(), "{seed}: {answer:?}");
        match answer {
            GroupAnswer::Plan(plan) => {
                plans += 1;
                naive.replay(&plan);
            }
            GroupAnswer::Fits(_) => fits += 1,
            GroupAnswer::NoPlan => {}
            GroupAnswer::Undecided(reason) => panic!("seed {seed}: {reason}"),
        }
    }
    assert!(fits > 12 && plans > 12, "{fits} fit, {plans} plans");
}
