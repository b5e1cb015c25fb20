//! Help for pods that pod affinity or anti-affinity keeps from every node.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{
    AffinityTermKind, Cluster, LabelSelector, Labels, NodeIx, OptionalTime, Pod, PodAffinity,
    PodAffinityTerm, PodKey, PodRequests, PodSpec, Uid,
};

use super::labels::{self, change_for};
use super::{Proposal, size};
use engine::Change;

use crate::lab::Lab;
use crate::now::Findings;

const PLUGIN: &str = "InterPodAffinity";
/// Number of nodes that are looked at.
const NODES: usize = 64;

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let mut proposals = Vec::new();
    for node in findings.rejected_only_by(&[PLUGIN], cluster).iter().take(NODES) {
        let blocking = blocking(cluster, &findings.pod, node);
        match blocking.as_slice() {
            [] => proposals.extend(companion(lab, findings, node)),
            [one] => {
                let text =
                    format!("one pod fewer: anti-affinity keeps the pod away from {}", one.key);
                let mut proposal = Proposal::without("antiAffinity", text, one);
                proposal.size += f64::from(one.priority().clamp(0, 1_000_000)) / 1e7;
                proposals.push(proposal);
            }
            _ => {}
        }
    }
    proposals
}

/// Returns the placed pods that anti-affinity keeps apart from the pod on this node, each once.
fn blocking(cluster: &Cluster, pod: &Pod, node: NodeIx) -> Vec<Arc<Pod>> {
    let mut blocking: BTreeMap<PodKey, Arc<Pod>> = BTreeMap::new();
    for term in required(pod.spec.pod_anti_affinity.as_ref()) {
        for other in domain(cluster, &term.topology_key, node) {
            for placed in cluster.node(other).pods() {
                let labels = cluster.namespace_labels(&placed.key.namespace);
                if term.matches(placed, labels) {
                    blocking.insert(placed.key.clone(), placed.clone());
                }
            }
        }
    }
    let carried = cluster.terms_matching(pod).into_iter();
    for carried in carried.filter(|own| own.kind == AffinityTermKind::RequiredAntiAffinity) {
        for other in domain(cluster, &carried.term.topology_key, node) {
            for placed in cluster.node(other).pods() {
                let mut own = required(placed.spec.pod_anti_affinity.as_ref());
                if own.any(|term| *term == *carried.term) {
                    blocking.insert(placed.key.clone(), placed.clone());
                }
            }
        }
    }
    blocking.into_values().collect()
}

fn required(affinity: Option<&PodAffinity>) -> impl Iterator<Item = &PodAffinityTerm> {
    affinity.into_iter().flat_map(|own| own.required.as_deref().unwrap_or_default())
}

/// Returns the nodes of the domain of a node; none if the node has no such label.
fn domain(cluster: &Cluster, key: &str, node: NodeIx) -> Vec<NodeIx> {
    let value = cluster.node(node).label(key);
    let posting = value.and_then(|value| cluster.with_label(key, value));
    posting.map(|posting| posting.iter().collect()).unwrap_or_default()
}

/// Proposes what required affinity misses on a node: the label of the domain, or a pod to be near to.
fn companion(lab: &Lab<'_>, findings: &Findings, node: NodeIx) -> Option<Proposal> {
    let cluster = lab.cluster();
    let pod = &findings.pod;
    let unmet = |term: &&PodAffinityTerm| {
        !domain(cluster, &term.topology_key, node).into_iter().any(|other| {
            cluster
                .node(other)
                .pods()
                .any(|placed| term.matches(placed, cluster.namespace_labels(&placed.key.namespace)))
        })
    };
    let mut terms = required(pod.spec.pod_affinity.as_ref()).filter(unmet);
    let (term, None) = (terms.next()?, terms.next()) else { return None };
    let view = cluster.node(node);
    if view.label(&term.topology_key).is_none() {
        let value = some_value(cluster, &term.topology_key)?;
        let object = cluster.to_node(node);
        return Some(labels::of_node(lab, &object, &[(term.topology_key.clone(), Some(value))]));
    }
    let wanted = labels_for(&term.selector)?;
    let namespace = term.namespaces.first().unwrap_or(&pod.key.namespace);
    let companion = stand_in(namespace, wanted.clone(), view.name(), &pod.spec.scheduler_name);
    let pairs: Vec<String> = wanted.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let place = view.label(&term.topology_key).unwrap_or_default();
    let text = format!(
        "a running pod labelled {} in namespace {namespace} where {}={place}: the pod must be near one, \
         and none runs there",
        pairs.join(","),
        term.topology_key,
    );
    let changes = vec![Change::Pod(Box::new(companion))];
    Some(Proposal::new("affinity", size::OTHER_POD, text, changes))
}

/// Returns a value of the label that some node has.
fn some_value(cluster: &Cluster, key: &str) -> Option<String> {
    let node = cluster.with_label_key(key)?.iter().next()?;
    cluster.node(node).label(key).map(str::to_owned)
}

/// Returns labels that a selector selects.
fn labels_for(selector: &LabelSelector) -> Option<Labels> {
    let changes: Option<Vec<_>> = selector.requirements()?.iter().map(change_for).collect();
    let labels = labels::applied(&Labels::default(), &changes?);
    selector.matches(&labels).then_some(labels)
}

/// A pod without requests that stands for a running one.
fn stand_in(namespace: &str, labels: Labels, node: &Arc<str>, scheduler_name: &Arc<str>) -> Pod {
    Pod {
        key: PodKey::new(namespace, "companion"),
        uid: Uid::from("companion"),
        resource_version: 0,
        generation: 0,
        labels: Arc::new(labels),
        spec: Arc::new(PodSpec { scheduler_name: scheduler_name.clone(), ..PodSpec::default() }),
        requests: Arc::new(PodRequests::default()),
        controller: None,
        node_name: Some(node.clone()),
        start_time: OptionalTime::NONE,
        terminating: false,
        preempted: false,
        terminal: false,
        scheduled_condition: None,
        uncommon: None,
        extra: framework::Extra::default(),
    }
}
