//! The rules of `docs/rules.md`.

use framework::{EventResource, Time};
use serde_json::{Value, json};
use testkit::{Harness, StorageObject, pod};

use super::harness;

/// 2026-11-29T12:00:00Z.
const NOON: i64 = 1_795_953_600;

/// Returns the arguments in a block of the page that has a rule of this name.
fn rule(name: &str) -> Value {
    let page = include_str!("../../../../docs/rules.md");
    let (_, rules) = page.split_once("## Twelve rules").unwrap();
    let blocks = rules.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap());
    let mut blocks = blocks.filter(|block| block.contains(&format!("- name: {name}\n")));
    yaml::decode(blocks.next().unwrap()).unwrap()
}

fn cluster(name: &str, nodes: &[(&str, Value)]) -> Harness {
    let mut harness = harness(rule(name)).at(Time::from_secs(NOON));
    for (name, fields) in nodes {
        let mut node = fields.clone();
        node["metadata"]["name"] = json!(name);
        harness = harness.node_from_json(&node);
    }
    harness
}

fn labelled(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

fn incoming(harness: &Harness, fields: Value) -> Vec<String> {
    let mut object = fields;
    object["metadata"]["name"] = json!("p");
    if object["metadata"].get("namespace").is_none() {
        object["metadata"]["namespace"] = json!("default");
    }
    let pod = harness.pod_from_json(&object);
    harness.run(&pod).feasible().into_iter().map(str::to_owned).collect()
}

fn labelled_pod(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

#[test]
fn page_has_twelve_rules() {
    let page = include_str!("../../../../docs/rules.md");
    let (_, rules) = page.split_once("## Twelve rules").unwrap();
    assert_eq!(rules.matches("- name: ").count(), 12);
}

#[test]
fn age_and_price() {
    let created = |at: &str| json!({"metadata": {"creationTimestamp": at}});
    let nodes =
        [("old", created("2026-08-31T12:00:00Z")), ("young", created("2026-08-31T12:00:01Z"))];
    let harness = cluster("young-nodes-only", &nodes);
    assert_eq!(incoming(&harness, json!({"metadata": {"namespace": "team-b"}})), ["young"]);
    assert_eq!(incoming(&harness, json!({})), ["old", "young"]);

    let nodes = [("a", labelled("example.com/price", "30")), ("b", json!({}))];
    let run = cluster("cheap", &nodes).run(&pod("p").build());
    assert_eq!([run.scores["a"], run.scores["b"]], [70, 0]);

    let nodes = [("a", created("2026-11-26T11:00:00Z")), ("b", created("2026-11-29T11:00:00Z"))];
    let run = cluster("established", &nodes).run(&pod("p").build());
    assert_eq!([run.scores["a"], run.scores["b"]], [3, 0]);
}

#[test]
fn counts_of_pods() {
    let rack = |name: &str| labelled("example.com/rack", name);
    let nodes = [("a", rack("1")), ("b", rack("1")), ("c", rack("2"))];
    let mut harness = cluster("three-per-rack", &nodes);
    for (name, node) in [("1", "a"), ("2", "b"), ("3", "b"), ("4", "c")] {
        harness = harness.pod(pod(name).label("app", "web").on(node).build());
    }
    assert_eq!(incoming(&harness, labelled_pod("app", "web")), ["c"]);
    assert_eq!(incoming(&harness, json!({})), ["a", "b", "c"]);

    let harness = cluster("max-per-node", &[("a", json!({})), ("b", json!({}))])
        .pod(pod("1").label("app", "web").on("a").build())
        .pod(pod("2").label("app", "web").on("a").build());
    let asks = |most: &str| {
        json!({"metadata": {"labels": {"app": "web"},
            "annotations": {"example.com/max-per-node": most}}})
    };
    assert_eq!(incoming(&harness, asks("2")), ["b"]);
    assert_eq!(incoming(&harness, asks("3")), ["a", "b"]);
    assert_eq!(incoming(&harness, labelled_pod("app", "web")), ["a", "b"]);
}

#[test]
fn resources() {
    let database = json!({"metadata": {"labels": {"role": "database"}},
        "status": {"allocatable": {"memory": "10Gi"}}});
    let other = json!({"status": {"allocatable": {"memory": "10Gi"}}});
    let harness = cluster("memory-reserve", &[("db", database), ("other", other)]);
    let asks = |memory: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"memory": memory}}}]}});
    assert_eq!(incoming(&harness, asks("9Gi")), ["db", "other"]);
    assert_eq!(incoming(&harness, asks("9217Mi")), ["other"]);

    let gpus = json!({"status": {"allocatable": {"nvidia.com/gpu": "8"}}});
    let harness = cluster("gpus-for-gpu-pods", &[("gpu", gpus), ("plain", json!({}))]);
    assert_eq!(incoming(&harness, json!({})), ["plain"]);
    let gpu = json!({"spec": {"containers": [
        {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}});
    assert_eq!(incoming(&harness, gpu), ["gpu", "plain"]);
}

#[test]
fn tenants_and_the_control_plane() {
    let namespace =
        StorageObject::new(EventResource::Namespace, "default", json!({})).label("tenant", "a");
    let nodes = [("a", labelled("tenant", "a")), ("b", labelled("tenant", "b")), ("c", json!({}))];
    let harness = cluster("own-nodes", &nodes).storage(namespace);
    assert_eq!(incoming(&harness, json!({})), ["a"]);
    assert_eq!(incoming(&harness, json!({"metadata": {"namespace": "free"}})), ["c"]);

    let control = labelled("node-role.kubernetes.io/control-plane", "");
    let harness = cluster("control-plane", &[("control", control), ("other", json!({}))]);
    assert_eq!(incoming(&harness, json!({})), ["other"]);
    let system = json!({"metadata": {"namespace": "kube-system"}});
    assert_eq!(incoming(&harness, system), ["control", "other"]);
}

#[test]
fn states_of_nodes() {
    let kubelet = |version: &str| json!({"status": {"nodeInfo": {"kubeletVersion": version}}});
    let harness = cluster("kubelet", &[("new", kubelet("v1.36.0")), ("old", kubelet("v1.35.9"))]);
    let asks = json!({"metadata": {"annotations": {"example.com/min-kubelet": "1.36.0"}}});
    assert_eq!(incoming(&harness, asks), ["new"]);
    assert_eq!(incoming(&harness, json!({})), ["new", "old"]);

    let at = |time: &str| json!({"metadata": {"annotations": {"example.com/maintenance": time}}});
    let nodes = [
        ("later", at("2026-11-29T13:00:01Z")),
        ("never", json!({})),
        ("soon", at("2026-11-29T13:00:00Z")),
    ];
    assert_eq!(incoming(&cluster("maintenance", &nodes), json!({})), ["later", "never"]);

    let deadlock = |status: &str| json!({"status": {"conditions": [{"type": "KernelDeadlock", "status": status}]}});
    let nodes = [("fine", deadlock("False")), ("hung", deadlock("True")), ("new", json!({}))];
    assert_eq!(incoming(&cluster("no-problems", &nodes), json!({})), ["fine", "new"]);
}
