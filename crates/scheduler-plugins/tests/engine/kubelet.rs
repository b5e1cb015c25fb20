//! NodeResourceTopologyMatch and kubelets: with over-reservation, a kubelet admits every pod that
//! is bound to it, however late its reports are. Reports and measurements that are wrong or gone
//! hold up no other pod, and leave no trace once they are right.

use std::collections::BTreeMap;

use engine::cycle::Form;
use engine::profile::PluginConfig;
use framework::{EventResource, ObjectKey, PodKey, Time};
use loadmaster_scheduler_plugins::load::{
    load_variation_risk_balancing, low_risk_over_commitment, target_load_packing,
};
use loadmaster_scheduler_plugins::node_resource_topology::NAME;
use plugin_trial::World;
use proptest::prelude::*;
use serde_json::{Value, json};
use twox_hash::XxHash64;

use crate::world::{Setting, world_with};

const KIND: &str = "noderesourcetopologies.v1alpha2.topology.node.k8s.io";
const METRICS: &str = "nodes.v1beta1.metrics.k8s.io";

/// CPUs and GPUs of a NUMA node.
const ZONE: [i64; 2] = [8, 2];
const ZONES: usize = 2;
const NODES: usize = 3;

/// CPUs and GPUs of each container.
type Asked = Vec<[i64; 2]>;

/// A kubelet with the policy single-numa-node: it gives each container, or the pod, a NUMA node.
#[derive(Debug, Clone)]
struct Kubelet {
    by_pod: bool,
    free: [[i64; 2]; ZONES],
    /// The NUMA nodes of the parts of each pod, and what they take there.
    admitted: BTreeMap<String, Vec<(usize, [i64; 2])>>,
}

impl Kubelet {
    /// Gives each container the first NUMA node that has room, as a kubelet does, and a whole pod
    /// one that `choice` selects. Returns whether the pod is admitted, which otherwise fails with
    /// `TopologyAffinityError`.
    fn admit(&mut self, name: &str, asked: &Asked, choice: usize) -> bool {
        let whole = asked.iter().fold([0, 0], |sum, own| [sum[0] + own[0], sum[1] + own[1]]);
        let parts = if self.by_pod { vec![whole] } else { asked.clone() };
        let mut free = self.free;
        let mut places = Vec::new();
        let choice = if self.by_pod { choice } else { 0 };
        for part in &parts {
            let fits = |place: &usize| (0..2).all(|own| free[*place][own] >= part[own]);
            let possible: Vec<usize> = (0..ZONES).filter(fits).collect();
            let Some(last) = possible.len().checked_sub(1) else { return false };
            let place = possible[choice % (last + 1)];
            (0..2).for_each(|own| free[place][own] -= part[own]);
            places.push((place, *part));
        }
        self.free = free;
        self.admitted.insert(name.to_owned(), places);
        true
    }

    fn remove(&mut self, name: &str) {
        for (place, part) in self.admitted.remove(name).into_iter().flatten() {
            (0..2).for_each(|own| self.free[place][own] += part[own]);
        }
    }

    /// The report of what is free, with the fingerprint of the pods.
    fn report(&self, node: &str) -> Value {
        let zones = self.free.iter().enumerate().map(|(id, free)| {
            let resource = |name: &str, capacity: i64, free: i64| {
                json!({"name": name, "capacity": capacity, "allocatable": capacity, "available": free})
            };
            // There is plenty of memory.
            let resources = [
                resource("cpu", ZONE[0], free[0]),
                resource("example.com/gpu", ZONE[1], free[1]),
                resource("memory", 1 << 42, 1 << 42),
            ];
            json!({"name": format!("node-{id}"), "type": "Node", "resources": resources})
        });
        let seed = XxHash64::oneshot(0, b"default");
        let mut hashes: Vec<u64> =
            self.admitted.keys().map(|name| XxHash64::oneshot(seed, name.as_bytes())).collect();
        hashes.sort_unstable();
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        let fingerprint = format!("pfp0v001{:016x}", XxHash64::oneshot(0, &bytes));
        let scope = if self.by_pod { "pod" } else { "container" };
        let attributes = [
            ("topologyManagerPolicy", "single-numa-node"),
            ("topologyManagerScope", scope),
            ("nodeTopologyPodsFingerprint", &fingerprint),
        ];
        json!({"metadata": {"name": node}, "zones": zones.collect::<Vec<_>>(),
            "attributes": attributes.map(|(name, value)| json!({"name": name, "value": value}))})
    }
}

#[derive(Debug, Clone)]
enum Step {
    Pod(Asked),
    Delete(usize),
    /// The agent of a node looks, and its report arrives at once.
    Report(usize),
    /// The agent of a node looks, and its report arrives later.
    Look(usize),
    Arrive(usize),
    Pass,
    /// A pod that no NUMA node matters to.
    Other,
    /// A report that is not true.
    Lie {
        node: usize,
        object: Value,
    },
    /// A measurement, which may be old or absurd.
    Measured {
        node: usize,
        object: Value,
    },
    /// The report and the measurement are gone.
    Gone(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let asked = prop::collection::vec((1i64..6, 0i64..2).prop_map(|(cpu, gpu)| [cpu, gpu]), 1..3);
    prop_oneof![
        8 => asked.prop_map(Step::Pod),
        3 => (0usize..30).prop_map(Step::Delete),
        3 => (0..NODES).prop_map(Step::Report),
        2 => (0..NODES).prop_map(Step::Look),
        2 => (0..NODES).prop_map(Step::Arrive),
        1 => Just(Step::Pass),
    ]
}

/// Steps of sources that are late, wrong and gone.
fn untrue() -> impl Strategy<Value = Step> {
    let zone =
        (0usize..3, -4i64..40, prop::sample::select(vec!["cpu", "example.com/gpu", "memory"]));
    let zones = prop::collection::vec(zone, 0..4).prop_map(|zones| {
        let zones = zones.into_iter().map(|(id, amount, name)| {
            json!({"name": format!("node-{id}"), "type": "Node",
                "resources": [{"name": name, "capacity": amount, "available": amount}]})
        });
        json!({"zones": zones.collect::<Vec<_>>(), "topologyPolicies": ["SingleNUMANodePodLevel"]})
    });
    let lie = prop_oneof![
        3 => zones,
        1 => Just(json!({"zones": 7})),
        1 => Just(json!({"attributes": [{"name": "topologyManagerPolicy"}], "zones": [{}]})),
    ];
    let measured = prop_oneof![
        3 => (0i64..3000, 0i64..300).prop_map(|(cpu, age)| {
            let taken = Time::from_secs(1000 - age).to_string();
            json!({"timestamp": taken, "usage": {"cpu": cpu.to_string(), "memory": "1Pi"}})
        }),
        1 => Just(json!({"timestamp": "yesterday", "usage": {}})),
        1 => Just(json!({"timestamp": "2999-01-01T00:00:00Z", "usage": {"cpu": "0"}})),
    ];
    prop_oneof![
        8 => step(),
        2 => Just(Step::Other),
        3 => (0..NODES, lie).prop_map(|(node, object)| Step::Lie { node, object }),
        3 => (0..NODES, measured).prop_map(|(node, object)| Step::Measured { node, object }),
        1 => (0..NODES).prop_map(Step::Gone),
    ]
}

/// A world of kubelets.
struct Cluster {
    world: World,
    kubelets: Vec<Kubelet>,
    /// Reports that have not arrived.
    late: Vec<Option<Value>>,
    asked: BTreeMap<String, Asked>,
}

fn node(number: usize) -> String {
    format!("n{number}")
}

impl Cluster {
    fn new(by_pod: bool) -> Self {
        let names = [
            target_load_packing::NAME,
            load_variation_risk_balancing::NAME,
            low_risk_over_commitment::NAME,
        ];
        let topology = json!({"cacheResyncPeriodSeconds": 5, "preemptionMode": "Enabled"});
        let mut plugins = vec![PluginConfig { name: NAME.to_owned(), args: Some(topology) }];
        plugins.extend(names.map(|name| PluginConfig { name: name.to_owned(), args: None }));
        let mut world = world_with(Form::Ranked, &plugins);
        let kubelet = Kubelet { by_pod, free: [ZONE; ZONES], admitted: BTreeMap::new() };
        for number in 0..NODES {
            let capacity = json!({"cpu": "16", "memory": "64Gi", "pods": "110",
                "example.com/gpu": "4"});
            world.node_with(&node(number), &capacity);
            world.object(KIND, kubelet.report(&node(number)));
        }
        let asked = BTreeMap::new();
        Self { world, kubelets: vec![kubelet; NODES], late: vec![None; NODES], asked }
    }

    fn create(&mut self, name: &str, asked: &Asked) {
        let containers = asked.iter().enumerate().map(|(number, [cpu, gpu])| {
            let amounts = json!({"cpu": cpu.to_string(), "memory": "1Gi",
                "example.com/gpu": gpu.to_string()});
            json!({"name": format!("c{number}"),
                "resources": {"requests": amounts, "limits": amounts}})
        });
        self.asked.insert(name.to_owned(), asked.clone());
        self.world.pod_of(name, &containers.collect::<Vec<_>>());
    }

    /// Schedules, and lets the kubelets admit what was bound to them, in that order. Returns the
    /// pods that one does not admit.
    fn settle(&mut self, choice: usize) -> Vec<String> {
        self.world.settle();
        let mut refused = Vec::new();
        for name in std::mem::take(&mut self.world.bound) {
            let Some(placed) = self.world.node_of(&name).map(str::to_owned) else { continue };
            let number: usize = placed.trim_start_matches('n').parse().unwrap();
            let kubelet = &mut self.kubelets[number];
            if kubelet.admit(&name, &self.asked[&name], choice) {
                self.world.start(&PodKey::new("default", &name));
            } else {
                refused.push(format!("{name} on {placed}: {kubelet:?}"));
            }
        }
        refused
    }

    /// Carries out a step; `pods` is the number of pods so far.
    fn apply(&mut self, step: Step, pods: &mut usize) {
        let mut next = || {
            *pods += 1;
            format!("p{}", *pods - 1)
        };
        match step {
            Step::Pod(asked) => self.create(&next(), &asked),
            Step::Other => {
                let name = next();
                self.asked.insert(name.clone(), Vec::new());
                self.world.best_effort_pod(&name);
            }
            Step::Delete(pod) => self.delete(&format!("p{pod}")),
            Step::Report(number) => {
                let report = self.kubelets[number].report(&node(number));
                self.world.object(KIND, report);
            }
            Step::Look(number) => {
                self.late[number] = Some(self.kubelets[number].report(&node(number)));
            }
            Step::Arrive(number) => {
                if let Some(report) = self.late[number].take() {
                    self.world.object(KIND, report);
                }
            }
            Step::Pass => self.world.pass(15),
            Step::Lie { node: number, object } => {
                self.world.object(KIND, named(object, &node(number)));
            }
            Step::Measured { node: number, object } => {
                self.world.object(METRICS, named(object, &node(number)));
            }
            Step::Gone(number) => {
                for kind in [KIND, METRICS] {
                    let kind = EventResource::Custom(kind.into());
                    let key = ObjectKey::cluster_scoped(kind, node(number).as_str().into());
                    self.world.apply(engine::Change::ObjectDeleted(key));
                }
            }
        }
    }

    fn delete(&mut self, name: &str) {
        self.kubelets.iter_mut().for_each(|kubelet| kubelet.remove(name));
        self.world.delete(name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn kubelet_admits_every_pod_that_is_bound_to_it(
        steps in prop::collection::vec((step(), 0usize..4), 1..60), by_pod: bool,
    ) {
        let mut cluster = Cluster::new(by_pod);
        let mut pods = 0;
        for (step, choice) in steps {
            cluster.apply(step, &mut pods);
            let refused = cluster.settle(choice);
            prop_assert!(refused.is_empty(), "TopologyAffinityError: {:?}", refused);
        }
    }

    #[test]
    fn untrue_sources_hold_up_no_other_pod_and_leave_no_trace(
        steps in prop::collection::vec((untrue(), 0usize..4), 1..60), by_pod: bool,
    ) {
        let mut cluster = Cluster::new(by_pod);
        let mut pods = 0;
        for (step, choice) in steps {
            cluster.apply(step, &mut pods);
            // A pod that a kubelet refuses has failed, and is gone.
            for refused in cluster.settle(choice) {
                let (name, _) = refused.split_once(' ').unwrap();
                cluster.delete(name);
            }
            for (name, placed) in cluster.world.placements() {
                let is_other = cluster.asked[&name].is_empty();
                prop_assert!(placed.is_some() || !is_other, "{} waits", name);
            }
        }
        for _ in 0..5 {
            for number in 0..NODES {
                let report = cluster.kubelets[number].report(&node(number));
                cluster.world.object(KIND, report);
            }
            cluster.world.pass(15);
            let refused = cluster.settle(0);
            prop_assert!(refused.is_empty(), "TopologyAffinityError: {:?}", refused);
        }
        for (name, placed) in cluster.world.placements() {
            if placed.is_none() {
                let asked = &cluster.asked[&name];
                let fits = cluster.kubelets.iter().any(|own| own.clone().admit(&name, asked, 0));
                prop_assert!(!fits, "{} waits although a kubelet admits it", name);
            }
        }
    }
}

fn named(mut object: Value, name: &str) -> Value {
    object["metadata"] = json!({"name": name});
    object
}

/// Reports that follow the pods let the nodes be filled.
#[test]
fn nodes_fill_up_with_fresh_reports() {
    let mut cluster = Cluster::new(false);
    for pod in 0..20 {
        cluster.create(&format!("p{pod}"), &vec![[4, 0]]);
        assert!(cluster.settle(pod).is_empty());
        for number in 0..NODES {
            let report = cluster.kubelets[number].report(&node(number));
            cluster.world.object(KIND, report);
        }
    }
    cluster.world.pass(15);
    assert!(cluster.settle(0).is_empty());
    let placed = cluster.world.placements().into_values().flatten().count();
    // Four pods of 4 CPUs on each node.
    assert_eq!(placed, 12);
}
