//! Help for pods that topology spread constraints keep from every node with room.

use framework::{NodeIx, WhenUnsatisfiable};

use super::{Proposal, labels, with_spec};
use crate::lab::Lab;
use crate::now::Findings;

const PLUGIN: &str = "PodTopologySpread";
/// Largest increase of a skew that is proposed.
const SKEW: i32 = 3;
/// Number of nodes that are looked at.
const NODES: usize = 64;

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let rejected = findings.rejected_only_by(&[PLUGIN], cluster);
    if rejected.is_empty() {
        return Vec::new();
    }
    let spec = &findings.pod.spec;
    let hard = spec.topology_spread_constraints.iter().enumerate();
    let hard: Vec<_> = hard
        .filter(|(_, own)| own.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule)
        .collect();
    let mut proposals = Vec::new();
    for (place, constraint) in &hard {
        let key = &constraint.topology_key;
        let unlabelled =
            rejected.iter().take(NODES).filter(|node| cluster.node(*node).label(key).is_none());
        for node in unlabelled.take(2) {
            let object = cluster.to_node(node);
            let values = cluster.with_label_key(key).into_iter().flat_map(|posting| posting.iter());
            let value = values.filter_map(|other| cluster.node(other).label(key)).next();
            let value = value.unwrap_or("a").to_owned();
            proposals.push(labels::of_node(lab, &object, &[(key.clone(), Some(value))]));
        }
        for more in 1..=SKEW {
            let Some(skew) = constraint.max_skew.checked_add(more) else { continue };
            let changed = with_spec(&findings.pod, |spec| {
                let mut constraints = spec.topology_spread_constraints.to_vec();
                constraints[*place].max_skew = skew;
                spec.topology_spread_constraints = constraints.into();
            });
            let text =
                format!("allow a skew of {skew} over {key} (maxSkew is {})", constraint.max_skew);
            proposals.push(Proposal::of_pod("skew", 0.3 * f64::from(more), text, changed));
        }
        proposals.extend(fewer(
            lab,
            findings,
            &rejected.iter().take(NODES).collect::<Vec<_>>(),
            key,
        ));
    }
    proposals
}

/// One pod fewer in the domain of a node: one with the labels of the pod, and the least important
/// of those.
fn fewer(lab: &Lab<'_>, findings: &Findings, nodes: &[NodeIx], key: &str) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let pod = &findings.pod;
    let pods = nodes.iter().flat_map(|node| cluster.node(*node).pods());
    let alike =
        pods.filter(|other| other.key.namespace == pod.key.namespace && other.labels == pod.labels);
    let least = alike.min_by_key(|other| (other.priority(), other.key.clone()));
    let proposal = least.map(|other| {
        let text = format!("one pod fewer where {key} has too many, for example {}", other.key);
        Proposal::without("spread", text, other)
    });
    proposal.into_iter().collect()
}
