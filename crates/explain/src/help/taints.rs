//! Help for pods that cordons and taints keep away.

use std::collections::BTreeSet;

use framework::{Cluster, Node, NodeIx, Pod, PodKey, Taint, Toleration, TolerationOperator};
use serde_json::json;

use super::{Proposal, size, with_node, with_spec};
use crate::lab::Lab;
use crate::now::Findings;

const TAINTS: &str = "TaintToleration";
const CORDON: &str = "NodeUnschedulable";
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let is_short_at_home = findings.is_short_at_home(cluster);
    let mut proposals = Vec::new();
    // Nodes of a pool have the same taints, and one of them is enough.
    let mut known: BTreeSet<(bool, Vec<&Taint>)> = BTreeSet::new();
    for node in findings.rejected_only_by(&[TAINTS, CORDON], cluster).iter() {
        let view = cluster.node(node);
        let tolerations = &findings.pod.spec.tolerations;
        let is_untolerated = |taint: &&Taint| {
            taint.effect.forbids_scheduling() && !tolerations.iter().any(|own| own.tolerates(taint))
        };
        let untolerated: Vec<&Taint> = view.taints().iter().filter(is_untolerated).collect();
        let (of_cordon, others): (Vec<_>, Vec<_>) =
            untolerated.into_iter().partition(|taint| &*taint.key == CORDON_TAINT);
        let is_cordoned = view.is_unschedulable() || !of_cordon.is_empty();
        if !known.insert((is_cordoned, others.clone())) {
            continue;
        }
        match (is_cordoned, others.is_empty()) {
            (true, true) => proposals.push(uncordon(lab, node)),
            (false, false) => proposals.extend(of_taints(lab, findings, node, &others)),
            _ => {}
        }
    }
    if is_short_at_home {
        for proposal in &mut proposals {
            proposal.size = match proposal.size < size::POD {
                true => size::CLOSED_NODE,
                false => size::OTHER_POOL,
            };
        }
    }
    proposals
}

/// Returns a node without its cordon.
pub(super) fn uncordoned(lab: &Lab<'_>, node: NodeIx) -> Node {
    with_node(lab, node, |node| {
        node.unschedulable = false;
        let kept = node.taints.iter().filter(|taint| &*taint.key != CORDON_TAINT);
        node.taints = kept.cloned().collect();
    })
}

fn uncordon(lab: &Lab<'_>, node: NodeIx) -> Proposal {
    let changed = uncordoned(lab, node);
    let name = changed.name.clone();
    let (text, command) = match lab.cluster().node(node).is_unschedulable() {
        true => (format!("lift the cordon of node {name}"), format!("kubectl uncordon {name}")),
        // The taint of an earlier cordon, which no controller has removed.
        false => (
            format!("remove the taint {CORDON_TAINT} of node {name}, which is not cordoned"),
            format!("kubectl taint node {name} {CORDON_TAINT}-"),
        ),
    };
    let mut proposal = Proposal::of_node("cordon", 0.0, text, changed).command(command);
    proposal.size = size::NODE_STATE;
    proposal
}

fn of_taints(lab: &Lab<'_>, findings: &Findings, node: NodeIx, taints: &[&Taint]) -> Vec<Proposal> {
    let without = with_node(lab, node, |node| {
        let kept = node.taints.iter().filter(|taint| !taints.contains(taint));
        node.taints = kept.cloned().collect();
    });
    let (name, extent) = (without.name.clone(), 0.1 * taints.len() as f64);
    let texts: Vec<String> = taints.iter().map(|taint| text_of(taint)).collect();
    let texts = texts.join(", ");
    if taints.iter().any(|taint| is_of_health(taint)) {
        let text = format!("node {name} becomes healthy again, which ends its taint {texts}");
        let mut proposal = Proposal::of_node("health", 0.0, text, without);
        proposal.size = size::NODE_STATE + 0.5;
        return vec![proposal];
    }
    let tolerant = with_spec(&findings.pod, |spec| {
        let own = taints.iter().map(|taint| Toleration {
            key: taint.key.clone(),
            operator: TolerationOperator::Equal,
            value: taint.value.clone(),
            effect: Some(taint.effect.clone()),
        });
        spec.tolerations = spec.tolerations.iter().cloned().chain(own).collect();
    });
    let removals: Vec<String> = taints.iter().map(|taint| format!("{}-", text_of(taint))).collect();
    let toleration =
        Proposal::of_pod("toleration", extent, format!("tolerate {texts} in the pod"), tolerant)
            .command(add_tolerations(&findings.pod, taints));
    if is_reserved(lab.cluster(), node, &findings.pod) {
        return vec![toleration];
    }
    let removal = format!("remove the taint {texts} of node {name}");
    let command = format!("kubectl taint node {name} {}", removals.join(" "));
    vec![toleration, Proposal::of_node("taint", extent, removal, without).command(command)]
}

/// Proposes a node without the taints of a key.
pub(super) fn without_key(lab: &Lab<'_>, node: NodeIx, key: &str) -> Proposal {
    let without = with_node(lab, node, |node| {
        node.taints = node.taints.iter().filter(|taint| &*taint.key != key).cloned().collect();
    });
    let name = without.name.clone();
    let text = format!("remove the taint {key} of node {name}");
    let command = format!("kubectl taint node {name} {key}-");
    Proposal::of_node("taint", 0.1, text, without).command(command)
}

/// Whether the node has devices that the pod does not request, such as GPUs. Its taints keep room
/// for pods that do.
fn is_reserved(cluster: &Cluster, node: NodeIx, pod: &Pod) -> bool {
    let name = cluster.node_name(node);
    let is_device = |resource: &str| resource.contains('/') && !resource.starts_with("attachable-");
    let allocatable = cluster.to_node(node).allocatable.scalars;
    let mut extended = allocatable.iter().filter(|(name, amount)| *amount > 0 && is_device(name));
    let requested = |resource: &str| pod.requests.fit.scalar(resource) > 0;
    let has_extended = extended.clone().next().is_some();
    let has_pool = cluster.device_pools().pools_naming(name).next().is_some();
    let uses_device =
        extended.any(|(name, _)| requested(name)) || !pod.spec.resource_claims.is_empty();
    (has_extended || has_pool) && !uses_device
}

/// Returns the command that adds tolerations to the pod. They are the one field of its constraints
/// that may grow while it exists.
fn add_tolerations(pod: &Pod, taints: &[&Taint]) -> String {
    let mut added = taints.iter().map(|taint| {
        let Taint { key, value, effect } = taint;
        json!({"key": &**key, "operator": "Equal", "value": &**value, "effect": effect.as_str()})
    });
    let patch = match pod.spec.tolerations.is_empty() {
        true => vec![
            json!({"op": "add", "path": "/spec/tolerations", "value": added.collect::<Vec<_>>()}),
        ],
        false => added
            .by_ref()
            .map(|own| json!({"op": "add", "path": "/spec/tolerations/-", "value": own}))
            .collect(),
    };
    let PodKey { namespace, name } = &pod.key;
    format!("kubectl patch pod {name} -n {namespace} --type=json -p '{}'", json!(patch))
}

/// Whether Kubernetes sets the taint while something is wrong with the node.
fn is_of_health(taint: &Taint) -> bool {
    taint.key.starts_with("node.kubernetes.io/")
        || taint.key.starts_with("node.cloudprovider.kubernetes.io/")
}

pub(super) fn text_of(taint: &Taint) -> String {
    let Taint { key, value, effect } = taint;
    match value.is_empty() {
        true => format!("{key}:{}", effect.as_str()),
        false => format!("{key}={value}:{}", effect.as_str()),
    }
}
