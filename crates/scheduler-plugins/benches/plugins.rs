//! Measures the plugins that read reports and loads: `cargo bench -p loadmaster-scheduler-plugins
//! --bench plugins [-- NODES]`.
//!
//! Nodes have 16 CPUs, two NUMA nodes and ten pods. All are reported and measured. `first` is a
//! pass after every node has changed. In the other columns no node has changed since the last pass,
//! as is the case for all but a few of them in a scheduler. `ranked` is a whole decision with
//! rankings, of the default profile with the plugin.

use std::hint::black_box;
use std::time::{Duration, Instant};

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginConfig, PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use framework::{
    Answer, Attempt, AttemptMut, CycleState, EventResource, Handle, NodeBits, NodeIx, PerNode,
    Plugin, PluginArgs, Pod, Registry, Time,
};
use loadmaster_scheduler_plugins::{load, node_resource_topology};
use serde_json::{Value, json};
use testkit::Harness;

const NODES: usize = 5_000;
const PODS_PER_NODE: usize = 10;
const NOW: i64 = 1_000_000;

const TOPOLOGIES: &str = "noderesourcetopologies.v1alpha2.topology.node.k8s.io";
const DEVICE: &str = "example.com/nic";
const METRICS: &str = "nodes.v1beta1.metrics.k8s.io";

/// A plugin with its arguments.
struct Case {
    label: &'static str,
    name: &'static str,
    args: Value,
    /// The pod that is placed.
    incoming: fn() -> Value,
}

fn cases() -> Vec<Case> {
    let case = |label, name, args| Case { label, name, args, incoming: whole_cpu };
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
    let without = ranked(None, nodes);
    println!("{:<28}{:>33} {:>10}", "without", "", text(without));
    for case in cases() {
        let rows = per_node(&case, nodes);
        let decision = ranked(Some(&case), nodes);
        for (place, Row { point, first, set_form, one_node }) in rows.iter().enumerate() {
            let label = if place == 0 { case.label } else { "" };
            let ranked = if place == 0 { text(decision) } else { String::new() };
            let [first, set_form, one_node] =
                [first, set_form, one_node].map(|ns| format!("{ns:.1} ns"));
            println!("{label:<28} {point:<6} {first:>8} {set_form:>10} {one_node:>10} {ranked:>8}");
        }
    }
}

fn text(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
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

fn placed() -> impl Iterator<Item = (usize, String)> {
    (0..PODS_PER_NODE).map(|place| (place, format!("p{place}")))
}

fn plugin(case: &Case) -> Plugin {
    let mut registry = Registry::new();
    loadmaster_scheduler_plugins::add_to(&mut registry);
    let factory = registry.get(case.name).expect("a plugin");
    factory(&PluginArgs::new(case.args.clone())).expect("valid arguments")
}

/// The cost of an extension point in nanoseconds per node.
struct Row {
    point: &'static str,
    first: f64,
    set_form: f64,
    one_node: f64,
}

fn per_node(case: &Case, nodes: usize) -> Vec<Row> {
    let mut harness = Harness::new(plugin(case)).at(Time::from_secs(NOW + 10));
    for number in 0..nodes {
        harness = harness.node_from_json(&node(number));
        harness = harness.object(TOPOLOGIES, report(number)).object(METRICS, measurement(number));
        for (_, own) in placed() {
            let own = pod(&format!("{own}-{number}"), Some(&name(number)), 500);
            let own = harness.pod_from_json(&own);
            harness = harness.pod(own);
        }
    }
    let incoming = harness.pod_from_json(&(case.incoming)());
    let (handle, mut rows) = (harness.handle(), Vec::new());
    let kept = plugin(case);
    if kept.filter.is_some() {
        let run = |plugin: &Plugin, in_set| filter(plugin, &handle, &incoming, in_set);
        rows.push(row("Filter", nodes, case, |plugin, in_set| run(plugin, in_set)));
    }
    if kept.score.is_some() {
        let run = |plugin: &Plugin, in_set| score(plugin, &handle, &incoming, in_set);
        rows.push(row("Score", nodes, case, |plugin, in_set| run(plugin, in_set)));
    }
    rows
}

fn row(
    point: &'static str,
    nodes: usize,
    case: &Case,
    run: impl Fn(&Plugin, bool) -> Duration,
) -> Row {
    let each = |time: Duration| time.as_nanos() as f64 / nodes as f64;
    let shortest = |runs: usize, run: &dyn Fn() -> Duration| {
        each((0..runs).map(|_| run()).min().unwrap_or_default())
    };
    let first = shortest(5, &|| run(&plugin(case), true));
    let kept = plugin(case);
    run(&kept, true);
    Row {
        point,
        first,
        set_form: shortest(200, &|| run(&kept, true)),
        one_node: shortest(50, &|| run(&kept, false)),
    }
}

/// Returns the state after PreFilter.
fn prepared(plugin: &Plugin, handle: &Handle<'_>, pod: &Pod) -> CycleState {
    let mut state = CycleState::new();
    if let Some(pre_filter) = &plugin.pre_filter {
        pre_filter
            .pre_filter(AttemptMut::new(&mut state, pod, handle))
            .expect("a pod that may be filtered");
    }
    handle.commands.take();
    state
}

fn filter(plugin: &Plugin, handle: &Handle<'_>, pod: &Pod, in_set: bool) -> Duration {
    let state = prepared(plugin, handle, pod);
    let attempt = Attempt::new(&state, pod, handle);
    let filter = plugin.filter.as_ref().expect("a Filter plugin");
    let (cluster, mut nodes) = (handle.cluster, NodeBits::default());
    let start = now();
    if in_set {
        nodes.copy_from(cluster.nodes());
        filter.filter_set(&attempt, black_box(&mut nodes)).expect("an answer");
    } else {
        for node in cluster.nodes().iter() {
            black_box(filter.filter(&attempt, &cluster.node(node)));
        }
    }
    start.elapsed()
}

fn score(plugin: &Plugin, handle: &Handle<'_>, pod: &Pod, in_set: bool) -> Duration {
    let state = prepared(plugin, handle, pod);
    let attempt = Attempt::new(&state, pod, handle);
    let score = plugin.score.as_ref().expect("a Score plugin");
    let cluster = handle.cluster;
    let nodes: Vec<NodeIx> = cluster.nodes().iter().collect();
    let mut scores = vec![0; nodes.len()];
    let start = now();
    if in_set {
        let scores = PerNode::new(&nodes, black_box(&mut scores));
        score.score_set(&attempt, scores).expect("an answer");
    } else {
        for node in &nodes {
            let _ = black_box(score.score(&attempt, &cluster.node(*node)));
        }
    }
    start.elapsed()
}

/// Returns the median of decisions with rankings.
fn ranked(case: Option<&Case>, nodes: usize) -> Duration {
    let mut registry = plugins::registry();
    loadmaster_scheduler_plugins::add_to(&mut registry);
    let defaults: Vec<PluginRef> = plugins::catalogue::defaults()
        .map(|entry| PluginRef::new(entry.name, entry.default_weight))
        .collect();
    let enabled = case.iter().map(|case| PluginRef::new(case.name, 1)).collect();
    let multi_point = PluginSet { enabled, ..PluginSet::default() };
    let args = case
        .iter()
        .map(|case| PluginConfig { name: case.name.to_owned(), args: Some(case.args.clone()) });
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        plugins: PluginSets { multi_point, ..PluginSets::default() },
        plugin_config: args.collect(),
        ..SchedulerProfile::default()
    };
    let profiles = Profiles::build(&[profile], &defaults, &registry, false).expect("a profile");
    let fields = profiles.extra_fields();
    let config = EngineConfig { form: Form::Ranked, ..EngineConfig::new(profiles) };
    let mut engine = Engine::new(config);
    let now_in_engine = Time::from_secs(NOW + 10);
    let step = |engine: &mut Engine, input| {
        let mut ports = Ports { extenders: &mut (), probe: &mut () };
        engine.step(input, now_in_engine, &mut ports)
    };
    let read = |object: &Value| Pod::from_json(object, &fields).expect("a pod");
    for number in 0..nodes {
        let (node, _) = framework::Node::from_json(&node(number), &fields).expect("a node");
        step(&mut engine, Input::Change(Change::Node(node)));
        for (kind, object) in [(TOPOLOGIES, report(number)), (METRICS, measurement(number))] {
            let object = testkit::object(EventResource::Custom(kind.into()), object);
            step(&mut engine, Input::Change(Change::Object(Box::new(object))));
        }
        for (_, own) in placed() {
            let own = read(&pod(&format!("{own}-{number}"), Some(&name(number)), 500));
            step(&mut engine, Input::Change(Change::Pod(Box::new(own))));
        }
    }
    let mut decisions = Vec::new();
    for number in 0..400 {
        let own = read(&pod(&format!("incoming-{number}"), None, 1000));
        let gone = Change::PodDeleted { key: own.key.clone(), uid: own.uid.clone() };
        step(&mut engine, Input::Change(Change::Pod(Box::new(own))));
        let start = now();
        step(&mut engine, Input::Schedule).attempt().expect("a pod is ready");
        decisions.push(start.elapsed());
        for effect in engine.take_effects() {
            step(&mut engine, Input::Answer { effect: effect.id, answer: Answer::ok() });
        }
        step(&mut engine, Input::Change(gone));
        engine.take_effects();
    }
    decisions.sort_unstable();
    decisions[decisions.len() / 2]
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn now() -> Instant {
    Instant::now()
}
