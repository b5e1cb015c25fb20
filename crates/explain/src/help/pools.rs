//! Another node: like one of the cluster, or large enough for the pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Change;
use framework::{EventResource, Labels, Node, NodeIx, ObjectKey, POOL_LABELS, Resources, Taint};

use super::labels::{LabelChange, applied, missing, missing_for};
use super::{Proposal, size, verified};
use crate::answer::Suggestion;
use crate::lab::Lab;
use crate::now::Findings;
use crate::quantity;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Number of pools whose node is tried.
const POOLS: usize = 16;
/// Maximum number of pods on a node that no pool has.
const PODS: i64 = 110;

/// Returns the smallest node that would take the pod: another of a pool of the cluster, or else one
/// made for the pod.
pub(super) fn search(lab: &mut Lab<'_>, findings: &Findings) -> Option<Suggestion> {
    let pools = pools(lab, findings);
    let may_take = |(_, node): &&(Arc<str>, Node)| may_take(node, findings);
    for (like, node) in pools.iter().filter(may_take).take(POOLS) {
        let text = format!("another node like {like} ({})", capacity(&node.allocatable));
        let proposal = new_node(text, size::NEW_NODE, node.clone());
        if let Some(suggestion) = verified(lab, &findings.pod, proposal) {
            return Some(suggestion);
        }
    }
    let smallest = pools.iter().find(|(_, node)| is_roomy(node, findings));
    let like = smallest.or(pools.last()).map(|(_, node)| node);
    if let Some(suggestion) = made(lab, findings, like, &[]) {
        return Some(suggestion);
    }
    // A node in domains of its own is far enough from every pod.
    let keys = super::affinity::apart(lab.cluster(), &findings.pod);
    let apart: Vec<LabelChange> = keys
        .into_iter()
        .filter(|key| **key != *HOSTNAME)
        .map(|key| (key, Some("another".to_owned())))
        .collect();
    if apart.is_empty() {
        return None;
    }
    made(lab, findings, like, &apart)
}

/// Returns a node that is made for the pod, with these labels.
fn made(
    lab: &mut Lab<'_>,
    findings: &Findings,
    like: Option<&Node>,
    apart: &[LabelChange],
) -> Option<Suggestion> {
    let (mut node, labels) = made_for(lab, findings, like);
    if apart.iter().any(|(key, _)| labels.iter().any(|(needed, _)| needed == key)) {
        return None;
    }
    node.labels = applied(&node.labels, apart);
    let capacity = capacity(&node.allocatable);
    let mut text = match capacity.is_empty() {
        true => "a node".to_owned(),
        false => format!("a node with {capacity}"),
    };
    let required =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_ref()?)));
    let required: Vec<String> = required.collect();
    if !required.is_empty() {
        text = format!("{text} and the labels {}", required.join(", "));
    }
    if !apart.is_empty() {
        let keys: Vec<&str> = apart.iter().map(|(key, _)| &**key).collect();
        text = format!("{text} with another {} than all nodes that have one", keys.join(" and "));
    }
    text = format!("{text}: no node of the cluster is like that");
    verified(lab, &findings.pod, new_node(text, size::NEW_NODE + 1.0, node))
}

/// Whether nothing about the node alone keeps the pod away: its size, its taints or its labels.
/// Without this look the trials with nodes that cannot help would take most of the time.
fn may_take(node: &Node, findings: &Findings) -> bool {
    is_roomy(node, findings)
        && missing(&findings.pod, &node.labels).is_none_or(|changes| changes.is_empty())
}

/// Whether the node is large enough and the pod tolerates its taints.
fn is_roomy(node: &Node, findings: &Findings) -> bool {
    let (requests, spec) = (&findings.pod.requests.fit, &findings.pod.spec);
    let all = &node.allocatable;
    let is_tolerated = |taint: &Taint| {
        !taint.effect.forbids_scheduling()
            || spec.tolerations.iter().any(|own| own.tolerates(taint))
    };
    requests.milli_cpu <= all.milli_cpu
        && requests.memory <= all.memory
        && requests.ephemeral_storage <= all.ephemeral_storage
        && node.taints.iter().all(is_tolerated)
}

fn new_node(text: String, size: f64, node: Node) -> Proposal {
    Proposal::new("node", size, text, vec![Change::Node(node)])
}

/// Returns one new node for each distinct kind of node, the smallest first, with the name of a node
/// like it. Nodes of a kind have the same size, the same taints, and the same zone, pool and other
/// labels that matter to the pod.
fn pools(lab: &Lab<'_>, findings: &Findings) -> Vec<(Arc<str>, Node)> {
    type Kind<'a> = (i64, i64, Vec<Option<&'a str>>, &'a [Taint], Vec<i64>);
    let (cluster, pod) = (lab.cluster(), &findings.pod);
    let needed = missing(pod, &Labels::default()).unwrap_or_default();
    let keys = needed.iter().map(|(key, _)| &**key).chain(POOL_LABELS).chain([ZONE]);
    let keys: Vec<&str> = keys.filter(|key| *key != HOSTNAME).collect();
    let mut kinds: BTreeMap<Kind<'_>, NodeIx> = BTreeMap::new();
    for node in cluster.nodes().iter() {
        let view = cluster.node(node);
        let (all, requested) = (view.allocatable(), pod.requests.fit.scalars.iter());
        let kind = (
            all.milli_cpu,
            all.memory,
            keys.iter().map(|key| view.label(key)).collect(),
            view.taints(),
            requested.map(|(name, _)| view.scalar(name).allocatable).collect(),
        );
        kinds.entry(kind).or_insert(node);
    }
    let nodes = kinds.into_values().map(|node| cluster.to_node(node));
    nodes.map(|node| (node.name.clone(), renamed(node))).collect()
}

/// Returns a new, schedulable node like this one.
fn renamed(node: Node) -> Node {
    let name = format!("{}-new", node.name);
    new_node_like(node, &name, None)
}

/// Returns a new, schedulable node like this one, with another name and another value of a label.
pub(super) fn new_node_like(node: Node, name: &str, label: Option<(&str, &str)>) -> Node {
    let name: Arc<str> = name.into();
    let hostname: LabelChange = (HOSTNAME.into(), Some(name.to_string()));
    let label = label.map(|(key, value)| (key.into(), Some(value.to_owned())));
    let labels: Vec<LabelChange> = [hostname].into_iter().chain(label).collect();
    let labels = applied(&node.labels, &labels);
    let kept = node.taints.iter().filter(|taint| !taint.key.starts_with("node.kubernetes.io/"));
    let taints = kept.cloned().collect();
    Node { labels, name, taints, unschedulable: false, ..node }
}

/// Returns a node that is large enough for the pod, like one of the cluster but without devices
/// that it does not request, and the labels that the pod and its volumes need there.
fn made_for(lab: &Lab<'_>, findings: &Findings, like: Option<&Node>) -> (Node, Vec<LabelChange>) {
    let requests = &findings.pod.requests.fit;
    let mut node = like.cloned().unwrap_or_default();
    node.name = format!("node-for-{}", findings.pod.key.name).into();
    node.taints = Box::default();
    node.allowed_pods = node.allowed_pods.max(PODS);
    let own = &mut node.allocatable;
    own.milli_cpu = own.milli_cpu.max(requests.milli_cpu);
    own.memory = own.memory.max(requests.memory);
    own.ephemeral_storage = own.ephemeral_storage.max(requests.ephemeral_storage);
    let is_requested =
        |(name, _): &&(Arc<str>, i64)| requests.scalars.iter().any(|(own, _)| own == name);
    own.scalars = own.scalars.iter().filter(is_requested).cloned().collect();
    for (name, amount) in &requests.scalars {
        let missing = amount - own.scalar(name);
        super::resources::change(own, name, missing.max(0));
    }
    let hostname: LabelChange = (HOSTNAME.into(), Some(node.name.to_string()));
    let labels = applied(&node.labels, &[hostname]);
    let needed = needed_labels(lab, findings);
    node.labels = applied(&labels, &needed);
    (node, needed)
}

/// Returns the labels that a node needs for the pod and for the volumes of its claims.
fn needed_labels(lab: &Lab<'_>, findings: &Findings) -> Vec<LabelChange> {
    let (cluster, pod) = (lab.cluster(), &findings.pod);
    let mut needed = missing(pod, &Labels::default()).unwrap_or_default();
    for volume in &pod.spec.volumes {
        let claim = volume.claim_name(&pod.key.name);
        let claim = claim.and_then(|name| cluster.claim(&pod.key.namespace, &name));
        let volume = claim.and_then(|claim| cluster.volume(claim.volume_name.as_ref()?));
        let selector = volume.and_then(|volume| volume.node_selector.as_ref());
        let own = selector.and_then(|selector| missing_for(selector, &Labels::default()));
        needed.extend(own.unwrap_or_default());
    }
    for claim in super::storage::unbound_claims(lab, findings) {
        let key = ObjectKey::cluster_scoped(EventResource::StorageClass, claim.class.clone());
        let class = cluster.stored_object(&key).map(|class| class.json());
        let term = class.as_ref().map(|class| &class["allowedTopologies"][0]);
        let expressions = term.and_then(|term| term["matchLabelExpressions"].as_array());
        needed.extend(expressions.into_iter().flatten().filter_map(|own| {
            Some((own["key"].as_str()?.into(), Some(own["values"][0].as_str()?.to_owned())))
        }));
    }
    needed.sort_unstable();
    needed.dedup();
    needed
}

pub(super) fn capacity(resources: &Resources) -> String {
    let Resources { milli_cpu, memory, scalars, .. } = resources;
    let basic = [("cpu", *milli_cpu), ("memory", *memory)].into_iter();
    let amounts = basic.chain(scalars.iter().map(|(name, amount)| (&**name, *amount)));
    let amounts = amounts.filter(|(_, amount)| *amount > 0);
    let texts =
        amounts.map(|(name, amount)| format!("{} {name}", quantity::at_least(name, amount)));
    texts.collect::<Vec<_>>().join(", ")
}
