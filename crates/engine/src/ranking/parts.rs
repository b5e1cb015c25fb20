//! Parts of a pass over all nodes, which threads work on at the same time.

use std::ops::Range;

use framework::NodeIx;

use super::blocks::BLOCK;

/// Minimum number of nodes in a part, on average. A thread takes longer to start than to rank
/// fewer.
const NODES_PER_PART: usize = 1 << 14;
/// Maximum number of parts. It bounds what joining them costs.
const MAX_PARTS: usize = 8;

/// The entries of consecutive nodes, of which the first starts a block.
#[derive(Debug)]
pub(crate) struct Part<'n, T> {
    /// Index of the first node.
    first: usize,
    entries: &'n mut [T],
}

impl<T> Part<'_, T> {
    /// Sets the entry of a node of the part.
    #[inline]
    pub(crate) fn set(&mut self, node: NodeIx, entry: T) {
        self.entries[node.index() - self.first] = entry;
    }
}

/// Divides nodes in ascending order in lists of about equal length, so that no block is in two of
/// them. The number of lists is a power of two and depends on the number of nodes only, and with it
/// the order of all that is put together from the parts.
pub(crate) fn divide(nodes: &[NodeIx]) -> Vec<&[NodeIx]> {
    divide_in(nodes, part_count(nodes.len()))
}

/// Divides the indexes below `len` in ranges of whole blocks.
pub(crate) fn ranges(len: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    let (count, blocks) = (part_count(len), len.div_ceil(BLOCK));
    let start = move |part| blocks * part / count * BLOCK;
    (0..count).map(move |part| start(part)..start(part + 1))
}

fn part_count(nodes: usize) -> usize {
    1 << (nodes / NODES_PER_PART).clamp(1, MAX_PARTS).ilog2()
}

/// Divides nodes in up to `count` such lists.
pub(super) fn divide_in(nodes: &[NodeIx], count: usize) -> Vec<&[NodeIx]> {
    let mut lists = Vec::with_capacity(count);
    let mut left = nodes;
    for part in 1..count {
        let end = nodes[nodes.len() * part / count].index() / BLOCK * BLOCK;
        let (own, rest) = left.split_at(left.partition_point(|node| node.index() < end));
        lists.push(own);
        left = rest;
    }
    lists.push(left);
    lists.retain(|own| !own.is_empty());
    lists
}

/// Divides a table with an entry for each node by [lists](divide) of nodes.
pub(super) fn divide_table<'n, T>(table: &'n mut [T], lists: &[&[NodeIx]]) -> Vec<Part<'n, T>> {
    let start = |list: &&[NodeIx]| list.first().map_or(0, |node| node.index() / BLOCK * BLOCK);
    let mut parts = Vec::with_capacity(lists.len());
    let (mut first, mut left) = (0, table);
    for next in lists.iter().skip(1).map(start) {
        let (entries, rest) = left.split_at_mut(next - first);
        parts.push(Part { first, entries });
        (first, left) = (next, rest);
    }
    parts.push(Part { first, entries: left });
    parts
}
