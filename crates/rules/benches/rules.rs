//! Measures rules beside a plugin in Rust that does the same: `cargo bench -p loadmaster-rules
//! --bench rules [-- NODES]`.
//!
//! `set form` is a pass over all nodes, of which the plugin keeps nothing, and `one-node` the same
//! node by node, as a ranking asks about a node that has changed. `ranked` is the mean of whole
//! decisions with rankings, of the default profile with the plugin.

use std::hint::black_box;
use std::time::{Duration, Instant};

use engine::cycle::Form;
use engine::ports::Ports;
use engine::profile::{PluginConfig, PluginRef, PluginSet, PluginSets, Profiles, SchedulerProfile};
use engine::{Change, Engine, EngineConfig, Input};
use framework::{
    Answer, Attempt, AttemptMut, CycleState, Dependence, Filter, FilterScope, Handle, NodeBits,
    NodeIx, NodeView, PerNode, Plugin, PluginArgs, Pod, Registry, Score, ScoreScope, Status, Time,
};
use serde_json::{Value, json};
use testkit::Harness;

const NODES: usize = 5_000;
const PODS_PER_NODE: usize = 10;
const NOW: i64 = 1_790_000_000;

/// A plugin in Rust that does what the rules `label` and `price` do.
struct InRust;

impl Filter for InRust {
    fn filter(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Status {
        match node.label("tier") {
            Some("gold") => Status::success(),
            _ => Status::unresolvable("node is not gold"),
        }
    }

    fn only_rejection(&self) -> Option<Status> {
        Some(Status::unresolvable("node is not gold"))
    }

    fn dependence(&self, _: &Attempt<'_>) -> Option<Dependence<FilterScope>> {
        Some(Dependence::on(FilterScope::Node).without_pods().of_requests())
    }
}

impl Score for InRust {
    fn score(&self, _: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let price = node.label("price").and_then(|text| text.parse::<i64>().ok());
        Ok(price.map_or(0, |price| (100 - price).clamp(0, 100)))
    }

    fn dependence(&self, _: framework::AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node).without_pods().of_requests())
    }
}

fn in_rust(_: &PluginArgs) -> Result<Plugin, String> {
    Ok(Plugin::new("InRust", InRust).filter().score().no_events().decides_by_template().build())
}

/// A plugin with its arguments.
struct Case {
    label: &'static str,
    name: &'static str,
    args: Value,
}

const LABEL: &str = r#"node.metadata.labels["tier"] == "gold""#;
const PRICE: &str = r#"100 - int(node.metadata.labels[?"price"].orValue("100"))"#;
const AGE: &str = r#"now() - node.metadata.creationTimestamp < duration("2160h")"#;
const FREE: &str = r#"usage.free["memory"].sub(requests["memory"]).asInteger() >= usage.allocatable["memory"].asInteger() / 10"#;
const COUNT: &str = r#"podsOnNode("app=" + pod.metadata.labels["app"]) < 3"#;
const DOMAIN: &str = r#"podsInDomain("rack", "app=" + pod.metadata.labels["app"]) < 1000"#;
const TAINT: &str = r#"!node.spec.taints.exists(t, t.key == "old")"#;

fn cases() -> Vec<Case> {
    let rules = |label, args| Case { label, name: "Rules", args };
    let filter = |label, text: &str| {
        rules(label, json!({"filters": [{"name": "rule", "expression": text}]}))
    };
    let filters = [LABEL, AGE, FREE, COUNT, TAINT, LABEL, AGE].iter().enumerate();
    let filters: Vec<_> = filters
        .map(|(place, text)| json!({"name": format!("filter-{place}"), "expression": text}))
        .collect();
    let scores = [PRICE, r#"usage.free["cpu"].asApproximateFloat() * 5.0"#, PRICE].iter();
    let scores: Vec<_> = scores
        .enumerate()
        .map(|(place, text)| json!({"name": format!("score-{place}"), "expression": text}))
        .collect();
    vec![
        Case { label: "in Rust: label, price", name: "InRust", args: json!({}) },
        rules(
            "rules: label, price",
            json!({"filters": [{"name": "label", "expression": LABEL}],
                "scores": [{"name": "price", "expression": PRICE}]}),
        ),
        filter("rule: age", AGE),
        filter("rule: free memory", FREE),
        filter("rule: podsOnNode", COUNT),
        filter("rule: podsInDomain", DOMAIN),
        filter("rule: taints", TAINT),
        rules("ten rules", json!({"filters": filters, "scores": scores})),
    ]
}

fn main() {
    let nodes = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(NODES);
    println!(
        "{:<32} {:>10} {:>10} {:>10}",
        format!("{nodes} nodes"),
        "set form",
        "one-node",
        "ranked"
    );
    println!("{:<32} {:>32}", "without", text(ranked(None, nodes)));
    for case in cases() {
        let rows = per_node(&case, nodes);
        let decision = ranked(Some(&case), nodes);
        for (place, Row { point, set_form, one_node }) in rows.iter().enumerate() {
            let label = if place == 0 { case.label } else { "" };
            let ranked = if place == 0 { text(decision) } else { String::new() };
            let [set_form, one_node] = [set_form, one_node].map(|ns| format!("{ns:.1} ns"));
            println!("{label:<25} {point:<6} {set_form:>10} {one_node:>10} {ranked:>10}");
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
    let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    json!({
        "metadata": {
            "name": name(number),
            "creationTimestamp": Time::from_secs(NOW - 3600 * (number as i64 % 1000)).to_string(),
            "labels": {
                "kubernetes.io/hostname": name(number),
                "tier": "gold",
                "price": (number % 90).to_string(),
                "rack": format!("r{}", number / 50),
                "topology.kubernetes.io/zone": format!("z{}", number % 3),
            }
        },
        "spec": {"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]},
        "status": {"capacity": amounts, "allocatable": amounts}
    })
}

fn pod(name: &str, node: Option<&str>, millis: i64) -> Value {
    let amounts = json!({"cpu": format!("{millis}m"), "memory": "1Gi"});
    json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"schedulerName": "default-scheduler", "nodeName": node, "containers": [
            {"name": "c", "resources": {"requests": amounts, "limits": amounts}}]},
        "status": {"startTime": "1970-01-01T00:00:00Z"}})
}

/// A pod that runs, of another app than the incoming one.
fn running(number: usize, place: usize) -> Value {
    let mut pod = pod(&format!("p{place}-{number}"), Some(&name(number)), 500);
    pod["metadata"]["labels"]["app"] = json!(if place == 0 { "web" } else { "db" });
    pod
}

fn registry() -> Registry {
    let mut registry = plugins::registry();
    loadmaster_rules::add_to(&mut registry);
    registry.register("InRust", in_rust).expect("the name is free");
    registry
}

/// The cost of an extension point in nanoseconds per node.
struct Row {
    point: &'static str,
    set_form: f64,
    one_node: f64,
}

fn per_node(case: &Case, nodes: usize) -> Vec<Row> {
    let factory = registry().get(case.name).expect("a plugin");
    let plugin = factory(&PluginArgs::new(case.args.clone())).expect("valid arguments");
    let kept = factory(&PluginArgs::new(case.args.clone())).expect("valid arguments");
    let mut harness = Harness::new(plugin).at(Time::from_secs(NOW + 10));
    for number in 0..nodes {
        harness = harness.node_from_json(&node(number));
        for place in 0..PODS_PER_NODE {
            let own = harness.pod_from_json(&running(number, place));
            harness = harness.pod(own);
        }
    }
    let incoming = harness.pod_from_json(&pod("incoming", None, 1000));
    let handle = harness.handle();
    let shortest = |runs: usize, run: &dyn Fn() -> Duration| {
        let time = (0..runs).map(|_| run()).min().unwrap_or_default();
        time.as_nanos() as f64 / nodes as f64
    };
    let mut rows = Vec::new();
    let run = |in_set| filter(&kept, &handle, &incoming, in_set);
    let one_node = shortest(20, &|| run(false));
    rows.push(Row { point: "Filter", set_form: shortest(100, &|| run(true)), one_node });
    if case.args.get("scores").is_some() || case.name == "InRust" {
        let run = |in_set| score(&kept, &handle, &incoming, in_set);
        let one_node = shortest(20, &|| run(false));
        rows.push(Row { point: "Score", set_form: shortest(100, &|| run(true)), one_node });
    }
    rows
}

/// Returns the state after PreFilter.
fn prepared(plugin: &Plugin, handle: &Handle<'_>, pod: &Pod) -> CycleState {
    let mut state = CycleState::new();
    if let Some(pre_filter) = &plugin.pre_filter {
        let attempt = AttemptMut::new(&mut state, pod, handle);
        pre_filter.pre_filter(attempt).expect("a pod that may be filtered");
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

/// Returns the mean of decisions with rankings, without the first ones.
fn ranked(case: Option<&Case>, nodes: usize) -> Duration {
    const WARM_UP: u32 = 10;
    const DECISIONS: u32 = 400;
    let registry = registry();
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
        for place in 0..PODS_PER_NODE {
            let own = read(&running(number, place));
            step(&mut engine, Input::Change(Change::Pod(Box::new(own))));
        }
    }
    let mut total = Duration::ZERO;
    for number in 0..WARM_UP + DECISIONS {
        let own = read(&pod(&format!("incoming-{number}"), None, 1000));
        let gone = Change::PodDeleted { key: own.key.clone(), uid: own.uid.clone() };
        step(&mut engine, Input::Change(Change::Pod(Box::new(own))));
        let start = now();
        step(&mut engine, Input::Schedule).attempt().expect("a pod is ready");
        if number >= WARM_UP {
            total += start.elapsed();
        }
        for effect in engine.take_effects() {
            step(&mut engine, Input::Answer { effect: effect.id, answer: Answer::ok() });
        }
        step(&mut engine, Input::Change(gone));
        engine.take_effects();
    }
    total / DECISIONS
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn now() -> Instant {
    Instant::now()
}
