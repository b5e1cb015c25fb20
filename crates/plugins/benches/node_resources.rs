//! Measures nanoseconds per node of the resource plugins, in set form and in one-node form: `cargo
//! bench -p loadmaster-plugins --bench node_resources`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use framework::{
    Attempt, AttemptMut, Cluster, CycleState, NodeBits, NodeIx, PerNode, Plugin, PluginArgs, Pod,
};
use loadmaster_plugins::{image_locality, node_resources};
use serde_json::json;
use testkit::{handle, node, pod};

const DISK: &str = "ephemeral-storage";

fn main() {
    for size in [5_000, 100_000] {
        println!("{size} nodes                            set form   one-node form");
        let cluster = cluster(size);
        measure_fit(&cluster);
        for (name, plugin) in scorers() {
            measure_score(name, &plugin, &cluster);
        }
    }
}

/// Builds a cluster with ten kinds of nodes, each about 60 % full. Every second node has the image
/// of the pod.
fn cluster(size: usize) -> Cluster {
    let mut cluster = Cluster::default();
    let placed: Vec<Arc<Pod>> = (1..=7)
        .map(|kind| pod("placed").cpu(&format!("{kind}")).memory(&format!("{}Gi", 9 - kind)))
        .map(|pod| Arc::new(pod.build()))
        .collect();
    for number in 0..size {
        let cpus = 4 * (1 + number * 7 % 10);
        let name = format!("n{number}");
        let node = node(&name)
            .allocatable("cpu", &format!("{cpus}"))
            .allocatable("memory", &format!("{}Gi", 4 * cpus))
            .allocatable(DISK, "100Gi")
            .image(if number % 2 == 0 { "app:v1" } else { "other:v1" }, 400 << 20);
        cluster.set_node(&node.build());
        let mut used = 0;
        for place in 0.. {
            let kind = (number + place * 3) % placed.len();
            used += kind + 1;
            if used * 10 > cpus * 7 {
                break;
            }
            cluster.place_pod(placed[kind].clone(), &name);
        }
    }
    cluster
}

fn incoming() -> Pod {
    pod("incoming").cpu("1500m").memory("3Gi").image("app:v1").build()
}

fn scorers() -> Vec<(&'static str, Plugin)> {
    let fit = |kind: &str, shape: serde_json::Value| {
        let strategy = json!({"type": kind, "requestedToCapacityRatio": shape});
        node_resources::fit::plugin(&PluginArgs::new(json!({"scoringStrategy": strategy})))
    };
    let shape =
        json!({"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]});
    let three = json!({"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": DISK}]});
    let balanced = |args| node_resources::balanced_allocation::plugin(&args);
    [
        ("Fit LeastAllocated", fit("LeastAllocated", json!(null))),
        ("Fit MostAllocated", fit("MostAllocated", json!(null))),
        ("Fit RequestedToCapacityRatio", fit("RequestedToCapacityRatio", shape)),
        ("BalancedAllocation", balanced(PluginArgs::default())),
        ("BalancedAllocation, three", balanced(PluginArgs::new(three))),
        ("ImageLocality", image_locality::plugin(&PluginArgs::default())),
    ]
    .into_iter()
    .map(|(name, plugin)| (name, plugin.expect("valid arguments")))
    .collect()
}

fn measure_fit(cluster: &Cluster) {
    let plugin = node_resources::fit::plugin(&PluginArgs::default()).expect("valid arguments");
    let pod = incoming();
    let mut state = CycleState::new();
    let pre_filter = plugin.pre_filter.as_ref().expect("a PreFilter plugin");
    let handle = handle(cluster);
    pre_filter
        .pre_filter(AttemptMut::new(&mut state, &pod, &handle))
        .expect("a pod that may be filtered");
    let filter = plugin.filter.as_ref().expect("a Filter plugin");
    let mut nodes = NodeBits::default();
    let set_form = time(|| {
        nodes.copy_from(cluster.nodes());
        filter
            .filter_set(&Attempt::new(&state, &pod, &handle), black_box(&mut nodes))
            .expect("an answer");
    });
    let all: Vec<NodeIx> = cluster.nodes().iter().collect();
    let one_node_form = time(|| {
        for node in &all {
            black_box(filter.filter(&Attempt::new(&state, &pod, &handle), &cluster.node(*node)));
        }
    });
    report("Fit filter", cluster.node_count(), set_form, one_node_form);
}

fn measure_score(name: &str, plugin: &Plugin, cluster: &Cluster) {
    let score = plugin.score.as_ref().expect("a Score plugin");
    let (state, pod, handle) = (CycleState::new(), incoming(), handle(cluster));
    let nodes: Vec<NodeIx> = cluster.nodes().iter().filter(|node| node.index() % 5 < 3).collect();
    let mut scores = vec![0; nodes.len()];
    let set_form = time(|| {
        score
            .score_set(
                &Attempt::new(&state, &pod, &handle),
                PerNode::new(&nodes, black_box(&mut scores)),
            )
            .expect("an answer");
    });
    let one_node_form = time(|| {
        for node in &nodes {
            let _ =
                black_box(score.score(&Attempt::new(&state, &pod, &handle), &cluster.node(*node)));
        }
    });
    report(name, nodes.len(), set_form, one_node_form);
}

/// Returns the shortest of several runs.
fn time(mut run: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let start = now();
        run();
        best = best.min(start.elapsed());
    }
    best
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn now() -> Instant {
    Instant::now()
}

fn report(name: &str, nodes: usize, set_form: Duration, one_node_form: Duration) {
    let each = |time: Duration| time.as_nanos() as f64 / nodes as f64;
    println!("  {name:<32} {:>8.2} ns {:>12.2} ns", each(set_form), each(one_node_form));
}
