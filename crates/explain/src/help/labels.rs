//! Help for pods whose node selector or node affinity matches no node with room.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Labels, Node, NodeSelector, Operator, Pod, Requirement};

use super::{Proposal, TRIES, size, with_node};
use crate::lab::Lab;
use crate::now::Findings;

const AFFINITY: &str = "NodeAffinity";

/// Labels that say what a node is. To change them would be a lie; another node helps.
const FACTS: [&str; 9] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
];

/// The change of one label: a value, or `None` if the label has to go.
pub(super) type LabelChange = (Arc<str>, Option<String>);

/// Whether a label says what a node is.
pub(super) fn is_fact(key: &str) -> bool {
    FACTS.contains(&key)
}

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let mut changed = Vec::new();
    for node in findings.rejected_only_by(&[AFFINITY], cluster).iter() {
        let Some(changes) = missing(&findings.pod, &cluster.node(node).labels()) else { continue };
        if !changes.is_empty() && !changes.iter().any(|(key, _)| is_fact(key)) {
            changed.push((node, changes));
        }
    }
    changed.sort_by_key(|(_, changes)| changes.len());
    changed.truncate(TRIES);
    let mut proposals: Vec<Proposal> = changed
        .iter()
        .map(|(node, changes)| of_node(lab, &cluster.to_node(*node), changes))
        .collect();
    if findings.is_short_at_home(cluster) {
        proposals.iter_mut().for_each(|own| own.size = size::RULE);
    }
    proposals
}

/// Proposes other labels of a node.
pub(super) fn of_node(lab: &Lab<'_>, node: &Node, changes: &[LabelChange]) -> Proposal {
    let name = &node.name;
    let ix = lab.cluster().node_named(name).expect("the node is in the cluster");
    let changed = with_node(lab, ix, |node| node.labels = applied(&node.labels, changes));
    let texts: Vec<String> = changes
        .iter()
        .map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => format!("{key}-"),
        })
        .collect();
    let text = format!("label node {name} {}", texts.join(" "));
    let command = format!("kubectl label node {name} {} --overwrite", texts.join(" "));
    Proposal::of_node("label", 0.1 * changes.len() as f64, text, changed).command(command)
}

/// Returns labels with these changes.
pub(super) fn applied(labels: &Labels, changes: &[LabelChange]) -> Labels {
    let mut map: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    for (key, value) in changes {
        match value {
            Some(value) => drop(map.insert(key.to_string(), value.clone())),
            None => drop(map.remove(&**key)),
        }
    }
    Labels::from(&map)
}

/// Returns the smallest change of labels after which the node matches the pod; `None` if labels
/// cannot achieve it.
pub(super) fn missing(pod: &Pod, labels: &Labels) -> Option<Vec<LabelChange>> {
    let required = &pod.spec.required_node_affinity;
    let own = required.labels().and_then(|own| own.requirements()).unwrap_or_default();
    let own = unmet(own, labels)?;
    let Some(selector) = required.selector() else { return Some(own) };
    Some([own, missing_for(selector, labels)?].concat())
}

/// Returns the smallest change of labels after which a node matches the selector; `None` if labels
/// cannot achieve it.
pub(super) fn missing_for(selector: &NodeSelector, labels: &Labels) -> Option<Vec<LabelChange>> {
    let terms = selector.terms().iter().flatten().filter(|term| term.fields.is_empty());
    let changes = terms.filter_map(|term| unmet(&term.expressions, labels));
    changes.min_by_key(Vec::len)
}

fn unmet(requirements: &[Requirement], labels: &Labels) -> Option<Vec<LabelChange>> {
    let unmet = requirements.iter().filter(|own| !own.matches(labels.get(own.key())));
    unmet.map(change_for).collect()
}

/// Returns the change of a label that meets a requirement.
pub(super) fn change_for(requirement: &Requirement) -> Option<LabelChange> {
    let value = match requirement.operator() {
        Operator::Equals | Operator::In => Some(requirement.values().first()?.to_string()),
        Operator::Exists => Some("true".to_owned()),
        Operator::NotIn | Operator::DoesNotExist => None,
        Operator::Gt(bound) => Some(bound.checked_add(1)?.to_string()),
        Operator::Lt(bound) => Some(bound.checked_sub(1)?.to_string()),
    };
    Some((requirement.key().clone(), value))
}
