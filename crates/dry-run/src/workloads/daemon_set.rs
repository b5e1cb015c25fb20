//! DaemonSets: a pod for each node.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{Node, NodeNameRestriction, NodeSelector, Pod, TaintEffect, api};
use serde_json::{Value, json};

use super::template::{count, hash, name, pod_of, put};
use super::{Controllers, key_of};

const REVISION: &str = "controller-revision-hash";
const GENERATION: &str = "pod-template-generation";

/// Keys and effects of the taints that the pods of every DaemonSet tolerate.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The taint that pods on the network of the host tolerate beside them.
const HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Adds a pod for each node that can run one and has none.
pub(super) fn sync(controllers: &mut Controllers<'_>, set: &Value) {
    let root = key_of("DaemonSet", set);
    let present = controllers.pods_of("DaemonSet", set);
    let Some(pod) = pod_of(set) else {
        let message = "spec.template: is missing; no pods are made from it";
        return controllers.warn("DaemonSet", set, message);
    };
    let pod = tolerating(set, pod);
    let Ok(object) = serde_json::from_value::<api::Pod>(pod.clone()) else { return };
    let example = Pod::from_api(&object);
    let nodes: Vec<&Node> =
        controllers.nodes.iter().filter(|node| runs_on(&example, node)).collect();
    if nodes.is_empty() && !controllers.nodes.is_empty() {
        let message = "no node has what its node selector, affinity and tolerations ask for; no pods are made from it";
        controllers.warn("DaemonSet", set, message);
    }
    controllers.count(root.clone(), nodes.len(), &present);
    let occupied: BTreeSet<Arc<str>> = present.iter().flat_map(|pod| nodes_of(pod)).collect();
    for node in nodes.into_iter().filter(|node| !occupied.contains(&node.name)) {
        controllers.add_pods(&root, set, name(set), 1, &tied(pod.clone(), &node.name));
    }
}

/// Returns the node of the pod, or the nodes to which the controller has tied it.
fn nodes_of(pod: &Pod) -> Vec<Arc<str>> {
    if let Some(node) = &pod.node_name {
        return vec![node.clone()];
    }
    match pod.spec.required_node_affinity.selector().map(NodeSelector::node_names) {
        Some(NodeNameRestriction::Names(names)) => names.to_vec(),
        _ => Vec::new(),
    }
}

/// Whether the controller runs a pod on the node: its selectors match and it tolerates the taints.
/// Room does not count.
fn runs_on(pod: &Pod, node: &Node) -> bool {
    let is_named = pod.node_name.as_ref().is_none_or(|name| *name == node.name);
    let mut taints = node.taints.iter();
    is_named
        && pod.spec.required_node_affinity.matches(node).unwrap_or(false)
        && taints.all(|taint| {
            !matches!(taint.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute)
                || pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
        })
}

/// Adds the tolerations and the labels of every pod of the DaemonSet.
fn tolerating(set: &Value, mut pod: Value) -> Value {
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let host_network = (pod["spec"]["hostNetwork"] == true).then_some(HOST_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(host_network) {
        let own = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&own) {
            tolerations.push(own);
        }
    }
    put(&mut pod, &["spec", "tolerations"], tolerations.into());
    let generation = count(set, "/metadata/generation").unwrap_or(1).to_string();
    put(&mut pod, &["metadata", "labels", GENERATION], generation.into());
    put(&mut pod, &["metadata", "labels", REVISION], hash(&set["spec"]["template"]).into());
    pod
}

/// Ties the pod to the node. The affinity replaces the affinity of the template, which the node has
/// met.
fn tied(mut pod: Value, node: &str) -> Value {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    put(&mut pod, &["spec", "affinity", "nodeAffinity", required], terms);
    pod
}
