//! Measures the plugins that read reports and loads: `cargo bench -p loadmaster-scheduler-plugins
//! --bench plugins [-- NODES]`.
//!
//! Nodes have 16 CPUs, two NUMA nodes and ten pods. All are reported and measured. `first` is a
//! pass after every node has changed. In the other columns no node has changed since the last pass,
//! as is the case for all but a few of them in a scheduler. `ranked` is a whole decision with
//! rankings, of the default profile with the plugin.

use std::time::Duration;

use framework::{Registry, Time};
use loadmaster_scheduler_plugins::{load, node_resource_topology};
use plugin_trial::bench::{self, Cluster, Object, Point, text};
use serde_json::{Value, json};

const NODES: usize = 5_000;
const PODS_PER_NODE: usize = 10;
const NOW: i64 = 1_000_000;

const TOPOLOGIES: &str = "noderesourcetopologies.v1alpha2.topology.node.k8s.io";
const DEVICE: &str = "example.com/nic";
const METRICS: &str = "nodes.v1beta1.metrics.k8s.io";

/// A plugin, and the pod that is placed.
struct Case {
    plugin: bench::Case,
    incoming: fn() -> Value,
}

fn cases() -> Vec<Case> {
    let case = |label, name, args| {
        let plugin = bench::Case { label, name, args };
        Case { plugin, incoming: whole_cpu }
    };
    let numa = node_resource_topology::NAME;
    let load = |name| case(name, name, json!({}));
    vec![
        case(numa, numa, json!({})),
        case("  over-reservation", numa, json!({"cacheResyncPeriodSeconds": 5})),
        Case { incoming: two_containers, ..case("  two containers", numa, json!({})) },
        Case { incoming: burstable, ..case("  Burstable", numa, json!({})) },
        Case { incoming: with_device, ..case("  a device", numa, json!({})) },
        case("  LeastNUMANodes", numa, json!({"scoringStrategy": {"type": "LeastNUMANodes"}})),
        load(load::target_load_packing::NAME),
        load(load::load_variation_risk_balancing::NAME),
        load(load::low_risk_over_commitment::NAME),
        load(load::load_aware_scheduling::NAME),
    ]
}

fn main() {
    let nodes = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(NODES);
    println!(
        "{nodes:>8} nodes             {:>10} {:>10} {:>10} {:>10}",
        "first", "set form", "one-node", "ranked"
    );
    let mut registry = plugins::registry();
    loadmaster_scheduler_plugins::add_to(&mut registry);
    let cluster = cluster(&registry, nodes);
    println!("{:<28}{:>33} {:>10}", "without", "", text(ranked(&cluster, None)));
    for case in cases() {
        let decision = ranked(&cluster, Some(&case.plugin));
        for (place, Row { point, first, set_form, one_node }) in
            rows(&cluster, &case).iter().enumerate()
        {
            let label = if place == 0 { case.plugin.label } else { "" };
            let ranked = if place == 0 { text(decision) } else { String::new() };
            let [first, set_form, one_node] =
                [first, set_form, one_node].map(|ns| format!("{ns:.1} ns"));
            println!("{label:<28} {point:<6} {first:>8} {set_form:>10} {one_node:>10} {ranked:>8}");
        }
    }
}

fn cluster(registry: &Registry, nodes: usize) -> Cluster<'_> {
    Cluster {
        registry,
        nodes,
        pods_per_node: PODS_PER_NODE,
        now: Time::from_secs(NOW + 10),
        node: &node,
        objects: &|number| {
            vec![
                Object { kind: TOPOLOGIES, object: report(number) },
                Object { kind: METRICS, object: measurement(number) },
            ]
        },
        running: &|place, number| pod(&format!("p{place}-{number}"), Some(&name(number)), 500),
    }
}

fn name(number: usize) -> String {
    format!("n{number}")
}

fn node(number: usize) -> Value {
    let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "110", DEVICE: "4"});
    json!({"metadata": {"name": name(number)},
        "status": {"capacity": amounts, "allocatable": amounts}})
}

/// The report of a node: 8 CPUs, 32 GiB and two devices of each NUMA node, of which some are free.
fn report(number: usize) -> Value {
    let zones = [0, 1].map(|zone| {
        let free = 2 + (number + zone * 3) % 7;
        let resource = |name: &str, capacity: String, free: String| {
            json!({"name": name, "capacity": capacity, "allocatable": capacity, "available": free})
        };
        json!({"name": format!("node-{zone}"), "type": "Node",
            "costs": [{"name": "node-0", "value": 10 + zone * 11},
                {"name": "node-1", "value": 21 - zone * 11}],
            "resources": [resource("cpu", "8".to_owned(), free.to_string()),
                resource("memory", "32Gi".to_owned(), format!("{}Gi", free * 4)),
                resource(DEVICE, "2".to_owned(), ((number + zone) % 3).to_string())]})
    });
    json!({"metadata": {"name": name(number)}, "zones": zones,
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "container"}]})
}

fn measurement(number: usize) -> Value {
    json!({"metadata": {"name": name(number)}, "timestamp": Time::from_secs(NOW).to_string(),
        "usage": {"cpu": format!("{}m", 1000 + number % 50 * 100),
            "memory": format!("{}Mi", 2000 + number % 40 * 500)}})
}

fn pod(name: &str, node: Option<&str>, millis: i64) -> Value {
    let amounts = json!({"cpu": format!("{millis}m"), "memory": "1Gi"});
    json!({"metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulerName": "default-scheduler", "nodeName": node, "containers": [
            {"name": "c", "resources": {"requests": amounts, "limits": amounts}}]},
        "status": {"qosClass": "Guaranteed", "startTime": "1970-01-01T00:00:00Z"}})
}

fn whole_cpu() -> Value {
    pod("incoming", None, 1000)
}

fn two_containers() -> Value {
    let mut pod = whole_cpu();
    let own = pod["spec"]["containers"][0].clone();
    pod["spec"]["containers"] = json!([own, own]);
    pod
}

fn burstable() -> Value {
    let mut pod = whole_cpu();
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({});
    pod["status"]["qosClass"] = json!("Burstable");
    pod
}

fn with_device() -> Value {
    let mut pod = whole_cpu();
    for list in ["requests", "limits"] {
        pod["spec"]["containers"][0]["resources"][list][DEVICE] = json!("1");
    }
    pod
}

/// The cost of an extension point in nanoseconds per node.
struct Row {
    point: &'static str,
    first: f64,
    set_form: f64,
    one_node: f64,
}

fn rows(cluster: &Cluster<'_>, case: &Case) -> Vec<Row> {
    let harness = cluster.harness(&case.plugin);
    let incoming = harness.pod_from_json(&(case.incoming)());
    let handle = harness.handle();
    let made = || case.plugin.plugin(cluster.registry);
    let each =
        |time: Option<Duration>| time.unwrap_or_default().as_nanos() as f64 / cluster.nodes as f64;
    let row = |name, point: Point| {
        let kept = made();
        point.time(&kept, &handle, &incoming, true);
        let shortest = |is_set_form: bool, runs: usize| {
            let times = (0..runs).map(|_| point.time(&kept, &handle, &incoming, is_set_form));
            each(times.min())
        };
        let first = (0..5).map(|_| point.time(&made(), &handle, &incoming, true));
        Row {
            point: name,
            first: each(first.min()),
            set_form: shortest(true, 200),
            one_node: shortest(false, 50),
        }
    };
    let plugin = made();
    let filter = plugin.filter.is_some().then(|| row("Filter", Point::Filter));
    let score = plugin.score.is_some().then(|| row("Score", Point::Score));
    filter.into_iter().chain(score).collect()
}

/// Returns the median of decisions with rankings.
fn ranked(cluster: &Cluster<'_>, case: Option<&bench::Case>) -> Duration {
    let mut times = cluster.decisions(case, 400, &|name| pod(name, None, 1000));
    times.sort_unstable();
    times[times.len() / 2]
}
