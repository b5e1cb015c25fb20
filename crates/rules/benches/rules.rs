//! Measures rules beside a plugin in Rust that does the same: `cargo bench -p loadmaster-rules
//! --bench rules [-- NODES "PART OF A LABEL"]`.
//!
//! `set form` is a pass over all nodes, of which the plugin keeps nothing, and `one-node` the same
//! node by node, as a ranking asks about a node that has changed. `ranked` is the mean of whole
//! decisions with rankings, of the default profile with the plugin.

use std::time::Duration;

use framework::{
    Attempt, AttemptMut, Dependence, Filter, FilterScope, NodeView, Plugin, PluginArgs, Registry,
    Score, ScoreScope, Status, Time,
};
use plugin_trial::bench::{Case, Cluster, Point, text};
use serde_json::{Value, json};

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

    fn dependence(&self, _: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node).without_pods().of_requests())
    }
}

fn in_rust(_: &PluginArgs) -> Result<Plugin, String> {
    Ok(Plugin::new("InRust", InRust).filter().score().no_events().decides_by_template().build())
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
    let registry = registry();
    let cluster = Cluster {
        registry: &registry,
        nodes,
        pods_per_node: PODS_PER_NODE,
        now: Time::from_secs(NOW + 10),
        node: &node,
        objects: &|_| Vec::new(),
        running: &running,
    };
    println!("{:<32} {:>32}", "without", text(ranked(&cluster, None)));
    let label = std::env::args().skip(1).find(|arg| arg.contains(' ')).unwrap_or_default();
    for case in cases().into_iter().filter(|case| case.label.contains(&*label)) {
        let decision = ranked(&cluster, Some(&case));
        for (place, Row { point, set_form, one_node }) in rows(&cluster, &case).iter().enumerate() {
            let label = if place == 0 { case.label } else { "" };
            let ranked = if place == 0 { text(decision) } else { String::new() };
            let [set_form, one_node] = [set_form, one_node].map(|ns| format!("{ns:.1} ns"));
            println!("{label:<25} {point:<6} {set_form:>10} {one_node:>10} {ranked:>10}");
        }
    }
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
fn running(place: usize, number: usize) -> Value {
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

fn rows(cluster: &Cluster<'_>, case: &Case) -> Vec<Row> {
    let harness = cluster.harness(case);
    let kept = case.plugin(cluster.registry);
    let incoming = harness.pod_from_json(&pod("incoming", None, 1000));
    let harness = harness.counting_for(&incoming);
    let handle = harness.handle();
    let shortest = |point: Point, is_set_form: bool, runs: usize| {
        let times = (0..runs).map(|_| point.time(&kept, &handle, &incoming, is_set_form));
        times.min().unwrap_or_default().as_nanos() as f64 / cluster.nodes as f64
    };
    let has_scores = case.args.get("scores").is_some() || case.name == "InRust";
    let points = [("Filter", Point::Filter), ("Score", Point::Score)];
    let points = points.into_iter().filter(|(_, point)| has_scores || *point == Point::Filter);
    let row = |(name, point)| Row {
        point: name,
        set_form: shortest(point, true, 100),
        one_node: shortest(point, false, 20),
    };
    points.map(row).collect()
}

/// Returns the mean of decisions with rankings, without the first ones.
fn ranked(cluster: &Cluster<'_>, case: Option<&Case>) -> Duration {
    const WARM_UP: usize = 10;
    const DECISIONS: u32 = 400;
    let count = WARM_UP + DECISIONS as usize;
    let times = cluster.decisions(case, count, &|name| pod(name, None, 1000));
    times[WARM_UP..].iter().sum::<Duration>() / DECISIONS
}
