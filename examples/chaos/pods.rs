//! Pods with every kind of constraint, and the nodes for them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::rules::{ZONE, milli_cpu, node_of};

/// The namespace of all pods.
pub(crate) const NAMESPACE: &str = "default";
pub(crate) const URGENT: &str = "chaos-urgent";
const CLASS: &str = "chaos-volumes";
/// The pool of half of the nodes, whose taint only some pods tolerate.
const POOL: &str = "chaos/pool";
/// CPU of a node.
pub(crate) const NODE_MILLI_CPU: u64 = 4000;

/// What a pod demands beside CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Tolerating,
    Selecting,
    Spread,
    Apart,
    HostPort,
    Urgent,
    Volume,
    Gated,
    Huge,
}

pub(crate) const KINDS: [Kind; 10] = [
    Kind::Plain,
    Kind::Tolerating,
    Kind::Selecting,
    Kind::Spread,
    Kind::Apart,
    Kind::HostPort,
    Kind::Urgent,
    Kind::Volume,
    Kind::Gated,
    Kind::Huge,
];

/// Creates nodes in three zones, half of them tainted, and what the pods refer to.
pub(crate) async fn create_nodes(client: &Client, count: usize) -> anyhow::Result<()> {
    let post = PostParams::default();
    let class = typed::<StorageClass>(json!({
        "metadata": {"name": CLASS}, "provisioner": "chaos.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }))?;
    Api::all(client.clone()).create(&post, &class).await?;
    let urgent = typed::<PriorityClass>(json!({"metadata": {"name": URGENT}, "value": 1000}))?;
    Api::all(client.clone()).create(&post, &urgent).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 0..count {
        let name = format!("node-{number}");
        let pool = if number % 2 == 0 { "open" } else { "closed" };
        let node = typed::<Node>(json!({"metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, POOL: pool, ZONE: format!("zone-{}", number % 3),
        }}}))?;
        nodes.create(&post, &node).await?;
        let taints = match pool {
            "open" => json!([]),
            _ => json!([{"key": POOL, "value": pool, "effect": "NoSchedule"}]),
        };
        // The API server taints new nodes as not ready, and accepts their status only in a request
        // of its own.
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        nodes.patch(&name, &PatchParams::default(), &patch).await?;
        let room = json!({"cpu": format!("{NODE_MILLI_CPU}m"), "memory": "64Gi", "pods": "110"});
        let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady"}]);
        let status =
            json!({"status": {"capacity": room, "allocatable": room, "conditions": ready}});
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(())
}

/// Returns a pod of this kind, which half of the time ends by itself.
pub(crate) fn pod(kind: Kind, number: u64, rng: &mut fastrand::Rng) -> Value {
    let name = format!("{}-{number}", format!("{kind:?}").to_lowercase());
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"kind": format!("{kind:?}")}},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {"requests": {"cpu": format!("{}m", rng.u64(1..=8) * 100)}},
            }],
        },
    });
    if rng.bool() {
        let seconds = rng.u64(2..40).to_string();
        pod["metadata"]["annotations"] = json!({"sandbox.loadmaster.dev/run-seconds": seconds});
    }
    constrain(&mut pod, kind);
    pod
}

/// Creates the claim of a pod of the kind Volume.
pub(crate) async fn create_claim(client: &Client, name: &str) -> anyhow::Result<()> {
    let claim = typed::<PersistentVolumeClaim>(json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }))?;
    let claims = Api::namespaced(client.clone(), NAMESPACE);
    claims.create(&PostParams::default(), &claim).await?;
    Ok(())
}

/// Most CPU that is free on a node without a taint.
pub(crate) fn most_free(nodes: &[Node], pods: &[Pod]) -> u64 {
    let mut free: BTreeMap<&str, u64> = nodes
        .iter()
        .filter(|node| label(node.metadata.labels.as_ref(), POOL) == Some("open"))
        .filter_map(|node| Some((node.metadata.name.as_deref()?, NODE_MILLI_CPU)))
        .collect();
    for pod in pods.iter().filter(|pod| !has_ended(pod)) {
        if let Some(free) = node_of(pod).and_then(|node| free.get_mut(node)) {
            *free = free.saturating_sub(milli_cpu(pod));
        }
    }
    free.into_values().max().unwrap_or(0)
}

/// Returns what is wrong with a pod without a node, if that many millis of CPU are free on one.
pub(crate) fn problem_of_pending(pod: &Pod, most_free: u64) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    match explanation(pod) {
        None => Some(format!("{name} has no explanation")),
        Some(text) if is_plain(pod) && milli_cpu(pod) <= most_free => {
            Some(format!("{name} would fit a node with {most_free}m free, but says {text:?}"))
        }
        Some(_) => None,
    }
}

/// Adds the demands of this kind to a pod.
fn constrain(pod: &mut Value, kind: Kind) {
    let name = pod["metadata"]["name"].clone();
    let same_kind = json!({"matchLabels": {"kind": format!("{kind:?}")}});
    let spec = &mut pod["spec"];
    match kind {
        Kind::Plain => {}
        Kind::Tolerating => spec["tolerations"] = json!([{"key": POOL, "operator": "Exists"}]),
        Kind::Selecting => spec["nodeSelector"] = json!({ZONE: "zone-1"}),
        Kind::Spread => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": same_kind,
            }]);
        }
        Kind::Apart => {
            spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": same_kind}]);
        }
        Kind::HostPort => {
            spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
        }
        Kind::Urgent => spec["priorityClassName"] = URGENT.into(),
        Kind::Volume => {
            spec["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        }
        Kind::Gated => spec["schedulingGates"] = json!([{"name": "example.com/quota"}]),
        Kind::Huge => spec["containers"][0]["resources"]["requests"]["cpu"] = "64".into(),
    }
}

/// Returns why the pod has no node, as `kubectl describe` shows it.
fn explanation(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    let message = scheduled.message.as_deref().filter(|text| !text.is_empty());
    message.filter(|_| scheduled.status == "False")
}

/// Whether the pod demands nothing but CPU on a node without taints.
fn is_plain(pod: &Pod) -> bool {
    label(pod.metadata.labels.as_ref(), "kind") == Some("Plain")
}

/// Whether the pod has succeeded or failed.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn label<'a>(labels: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    labels?.get(key).map(String::as_str)
}

/// Returns a typed object.
pub(crate) fn typed<K: serde::de::DeserializeOwned>(object: Value) -> anyhow::Result<K> {
    Ok(serde_json::from_value(object)?)
}
