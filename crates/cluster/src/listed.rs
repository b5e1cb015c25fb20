//! Entries by node, looked up for a list of nodes in ascending order.

use super::NodeIx;

/// Returns about how many of `len` entries, of which the last is for the node `last`, are for nodes
/// between the first and the last one of a list.
pub(super) fn entries_between(len: usize, last: Option<NodeIx>, nodes: &[NodeIx]) -> usize {
    let (Some(last), Some(first), Some(end)) = (last, nodes.first(), nodes.last()) else {
        return 0;
    };
    let share = (end.index() + 1).saturating_sub(first.index());
    len.saturating_mul(share) / (last.index() + 1)
}

/// Visits the entries, which are in the order of their nodes, for nodes of a list, with the places
/// in the list.
pub(super) fn visit<T>(
    entries: impl Iterator<Item = (NodeIx, T)>,
    nodes: &[NodeIx],
    mut visit: impl FnMut(usize, T),
) {
    let mut passed = 0;
    for (node, value) in entries {
        let left = &nodes[passed..];
        let Some(next) = left.first() else { return };
        // Ids ascend by at least one, so the node is not further away than its id. In a list of all
        // nodes it is there.
        let gap = node.index().saturating_sub(next.index());
        passed += match left.get(gap) == Some(&node) {
            true => gap,
            false => left[..left.len().min(gap + 1)].partition_point(|own| *own < node),
        };
        if nodes.get(passed) == Some(&node) {
            visit(passed, value);
        }
    }
}
