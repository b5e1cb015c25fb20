//! Help that plugins propose for the nodes that they reject.

use framework::Remedy;

use super::{Proposal, labels, taints};
use crate::lab::Lab;
use crate::now::Findings;

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let cluster = lab.cluster();
    let mut proposals = Vec::new();
    for (plugin, detail) in &findings.evaluation.details {
        if detail.remedies.is_empty() {
            continue;
        }
        let mut nodes = findings.rejected_only_by(&[plugin.as_ref()], cluster);
        nodes.intersect(&detail.nodes);
        // Nodes with one detail are alike.
        let Some(node) = nodes.iter().next() else { continue };
        proposals.extend(detail.remedies.iter().filter_map(|remedy| match remedy {
            Remedy::Label { key, value } => {
                let change = (key.clone(), value.as_ref().map(ToString::to_string));
                let node = cluster.to_node(node);
                (!labels::is_fact(key)).then(|| labels::of_node(lab, &node, &[change]))
            }
            Remedy::NoTaint(key) => Some(taints::without_key(lab, node, key)),
        }));
    }
    proposals
}
