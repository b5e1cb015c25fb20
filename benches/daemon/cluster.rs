//! Clusters to schedule in, as manifests.

use serde_json::{Value, json};

/// Namespace of the pods by which a part sees that the scheduler is at work.
pub(crate) const WAITING: &str = "waiting";

const CORES: [u32; 5] = [8, 16, 32, 64, 96];
const IMAGES: usize = 20;

/// Pods of one ReplicaSet.
const REPLICAS: usize = 100;

/// Requests of a template: milli-CPU, memory in MiB.
const TEMPLATES: [(u32, u32); 4] = [(100, 128), (250, 256), (200, 512), (50, 64)];

pub(crate) fn nodes(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(node)
}

/// ReplicaSets that make so many pods, all in the namespace `apps`.
pub(crate) fn replica_sets(pods: usize) -> impl Iterator<Item = Value> {
    (0..pods / REPLICAS).map(|number| {
        let name = format!("app-{number:04}");
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": { "name": name, "namespace": "apps" },
            "spec": {
                "replicas": REPLICAS,
                "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": { "app": name } }, "spec": spec(number) },
            },
        })
    })
}

/// Pods without a node and without an owner.
pub(crate) fn pods(namespace: &str, count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(move |number| pod(namespace, number))
}

/// Pods that run, spread over `nodes` nodes.
pub(crate) fn running_pods(count: usize, nodes: usize) -> impl Iterator<Item = Value> {
    (0..count).map(move |number| {
        let mut pod = pod("apps", number);
        pod["spec"]["nodeName"] = node_name(number % nodes).into();
        pod["status"] = json!({
            "phase": "Running",
            "podIP": format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255),
            "conditions": [{ "type": "Ready", "status": "True" }],
        });
        pod
    })
}

pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:06}")
}

pub(crate) fn pod_name(number: usize) -> String {
    format!("pod-{number:06}")
}

fn pod(namespace: &str, number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(number),
            "namespace": namespace,
            "labels": { "app": format!("app-{:04}", number / REPLICAS) },
        },
        "spec": spec(number / REPLICAS),
    })
}

fn spec(template: usize) -> Value {
    let (cpu, memory) = TEMPLATES[template % TEMPLATES.len()];
    json!({ "containers": [{
        "name": "main",
        "image": format!("registry.example.com/app-{}:v1", template % 200),
        "resources": { "requests": { "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi") } },
    }] })
}

fn node(number: usize) -> Value {
    let name = node_name(number);
    let cores = CORES[number % CORES.len()];
    let resources = json!({
        "cpu": cores.to_string(),
        "memory": format!("{}Gi", cores * 4),
        "ephemeral-storage": "200Gi",
        "pods": "110",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": format!("std-{cores}"),
            "topology.kubernetes.io/region": "eu-1",
            "topology.kubernetes.io/zone": format!("eu-1{}", ["a", "b", "c"][number % 3]),
            "example.com/rack": format!("rack-{}", number / 40),
        } },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{ "type": "Ready", "status": "True" }],
            "images": (0..IMAGES).map(|image| image_of(number * 3 + image * 7)).collect::<Vec<_>>(),
        },
    })
}

fn image_of(number: usize) -> Value {
    let number = number % 200;
    json!({
        "names": [
            format!("registry.example.com/app-{number}@sha256:{:064x}", number * 7919),
            format!("registry.example.com/app-{number}:v1"),
        ],
        "sizeBytes": 20_000_000 + number * 3_000_000,
    })
}
