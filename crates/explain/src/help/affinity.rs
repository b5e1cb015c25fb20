//! Help for pods that pod affinity or anti-affinity keeps from every node.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{
    AffinityTermKind, CarriedTerm, Cluster, LabelSelector, Labels, NodeIx, OptionalTime, Pod,
    PodAffinity, PodAffinityTerm, PodKey, PodRequests, PodSpec, Uid,
};

use super::labels::{self, change_for};
use super::{Proposal, size, with_spec};
use engine::Change;

use crate::lab::Lab;
use crate::now::Findings;

const PLUGIN: &str = "InterPodAffinity";
/// Number of nodes that are looked at.
const NODES: usize = 64;

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let mut proposals = Vec::new();
    let mut several = false;
    // Nodes of the same domains have the same pods in the way.
    let keys = topology_keys(cluster, &findings.pod);
    let mut domains: BTreeSet<Vec<Option<&str>>> = BTreeSet::new();
    for node in findings.rejected_only_by(&[PLUGIN], cluster).iter() {
        let view = cluster.node(node);
        if domains.len() == NODES {
            break;
        }
        if !domains.insert(keys.iter().map(|key| view.label(key)).collect()) {
            continue;
        }
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
            _ => several = true,
        }
    }
    if several {
        proposals.extend(preferences(findings));
    }
    proposals
}

/// Required anti-affinity of the pod that becomes a preference.
fn preferences(findings: &Findings) -> Vec<Proposal> {
    let affinity = findings.pod.spec.pod_anti_affinity.as_ref();
    let terms = || required(affinity);
    let proposal = |(place, term): (usize, &PodAffinityTerm)| {
        let changed = with_spec(&findings.pod, |spec| {
            let kept = terms().enumerate().filter(|(other, _)| *other != place);
            let kept: Vec<PodAffinityTerm> = kept.map(|(_, own)| own.clone()).collect();
            if let Some(affinity) = &mut spec.pod_anti_affinity {
                affinity.required = Ok(kept.into());
            }
        });
        let text = format!(
            "make the required anti-affinity over {} a preference: several pods keep the pod away from each node",
            term.topology_key
        );
        let mut proposal = Proposal::of_pod("preference", 0.0, text, changed);
        proposal.size = size::RULE;
        proposal
    };
    terms().enumerate().map(proposal).collect()
}

/// Returns the placed pods that anti-affinity keeps apart from the pod on this node, each once; at
/// most two.
fn blocking(cluster: &Cluster, pod: &Pod, node: NodeIx) -> Vec<Arc<Pod>> {
    let pods_near = |key: &str| {
        let nodes = domain(cluster, key, node).into_iter();
        nodes.flat_map(|other| cluster.node(other).pods())
    };
    let own = required(pod.spec.pod_anti_affinity.as_ref()).flat_map(|term| {
        let is_selected = move |placed: &&Arc<Pod>| {
            term.matches(placed, cluster.namespace_labels(&placed.key.namespace))
        };
        pods_near(&term.topology_key).filter(is_selected)
    });
    let carried = carried(cluster, pod);
    let of_others = carried.iter().flat_map(|carried| {
        let carries = move |placed: &&Arc<Pod>| {
            let mut own = required(placed.spec.pod_anti_affinity.as_ref());
            own.any(|term| *term == *carried.term)
        };
        pods_near(&carried.term.topology_key).filter(carries)
    });
    let mut blocking: Vec<Arc<Pod>> = Vec::new();
    for placed in own.chain(of_others) {
        if !blocking.iter().any(|known| known.uid == placed.uid) {
            blocking.push(placed.clone());
        }
        if blocking.len() == 2 {
            break;
        }
    }
    blocking
}

/// Returns the required anti-affinity of placed pods that keeps the pod away from them.
fn carried<'a>(cluster: &'a Cluster, pod: &Pod) -> Vec<&'a CarriedTerm> {
    let carried = cluster.terms_matching(pod).into_iter();
    carried.filter(|own| own.kind == AffinityTermKind::RequiredAntiAffinity).collect()
}

/// Returns the keys of the domains that required affinity and anti-affinity are about.
fn topology_keys(cluster: &Cluster, pod: &Pod) -> BTreeSet<Arc<str>> {
    let near = required(pod.spec.pod_affinity.as_ref()).map(|term| term.topology_key.clone());
    near.chain(apart(cluster, pod)).collect()
}

/// Returns the keys of the domains over which the pod is kept apart from others.
pub(super) fn apart(cluster: &Cluster, pod: &Pod) -> BTreeSet<Arc<str>> {
    let own = required(pod.spec.pod_anti_affinity.as_ref());
    let own = own.map(|term| term.topology_key.clone());
    own.chain(carried(cluster, pod).iter().map(|own| own.term.topology_key.clone())).collect()
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

/// Proposes what required affinity misses on a node: the label of the domain, or a pod to be near
/// to.
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
        removal_follows: false,
        preempted: false,
        terminal: false,
        scheduled_condition: None,
        uncommon: None,
        extra: framework::Extra::default(),
    }
}
