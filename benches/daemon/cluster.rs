//! Clusters as manifests.

use std::ops::Range;

use serde_json::{Value, json};

/// Namespace of pods that show that the scheduler is running.
pub(crate) const WAITING: &str = "waiting";
/// Namespace of the preemptors.
const PREEMPTING: &str = "preempting";
/// Namespace of pods that fit without preemption.
const ORDINARY: &str = "ordinary";

const CORES: [u32; 5] = [8, 16, 32, 64, 96];
const IMAGES: usize = 20;

/// Number of pods per ReplicaSet.
const REPLICAS: usize = 100;

/// Requests: milli-CPU, memory in MiB.
type Size = (u32, u32);

const TEMPLATES: [Size; 4] = [(100, 128), (250, 256), (200, 512), (50, 64)];

/// PriorityClass of the preemptors.
const HIGH: &str = "high";
/// Four of these pods leave too little room for a fifth on a node of four cores.
const LARGE: Size = (900, 500);
const SMALL: Size = (100, 500);
const LARGE_PODS: usize = 4;

pub(crate) fn nodes(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(node)
}

/// ReplicaSets for this number of pods, all in the namespace `apps`.
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

/// Pending pods without an owner.
pub(crate) fn pods(namespace: &str, count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(move |number| pod(namespace, number))
}

/// Pending pods with these numbers, each with a label that no other pod has.
pub(crate) fn unique_pods(numbers: Range<usize>) -> impl Iterator<Item = Value> {
    numbers.map(|number| {
        let mut pod = pod(WAITING, number);
        pod["metadata"]["name"] = unique_name(number).into();
        pod["metadata"]["labels"] = json!({ "app": unique_name(number) });
        pod
    })
}

/// The names of [unique pods](unique_pods).
pub(crate) fn unique_names(numbers: Range<usize>) -> impl Iterator<Item = String> {
    numbers.map(unique_name)
}

fn unique_name(number: usize) -> String {
    format!("unique-{number}")
}

/// Running pods, spread over `nodes` nodes.
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

/// The initial state of scheduler_perf's PreemptionAsync: nodes with four large pods each, which
/// end as soon as they are deleted, and room for four small ones.
pub(crate) fn crowded(count: usize) -> impl Iterator<Item = Value> {
    let namespaces = [PREEMPTING, ORDINARY].map(
        |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
    );
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": HIGH },
        "value": 10,
    });
    let nodes = (0..count).map(|number| node_of_size(number, 4));
    let pods = running_pods(LARGE_PODS * count, count).map(|mut pod| {
        pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
        of_size(pod, LARGE)
    });
    namespaces.into_iter().chain([class]).chain(nodes).chain(pods)
}

/// Pods that each need the room of one large pod.
pub(crate) fn preemptors(count: usize) -> impl Iterator<Item = Value> {
    pods(PREEMPTING, count).map(|mut pod| {
        pod["spec"]["priorityClassName"] = HIGH.into();
        of_size(pod, LARGE)
    })
}

/// Pods that fit without preemption.
pub(crate) fn small_pods(count: usize) -> impl Iterator<Item = Value> {
    pods(ORDINARY, count).map(|pod| of_size(pod, SMALL))
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
    json!({ "containers": [{
        "name": "main",
        "image": format!("registry.example.com/app-{}:v1", template % 200),
        "resources": requests(TEMPLATES[template % TEMPLATES.len()]),
    }] })
}

fn requests(size: Size) -> Value {
    let (cpu, memory) = size;
    json!({ "requests": { "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi") } })
}

fn of_size(mut pod: Value, size: Size) -> Value {
    pod["spec"]["containers"][0]["resources"] = requests(size);
    pod
}

fn node(number: usize) -> Value {
    node_of_size(number, CORES[number % CORES.len()])
}

fn node_of_size(number: usize, cores: u32) -> Value {
    let name = node_name(number);
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
