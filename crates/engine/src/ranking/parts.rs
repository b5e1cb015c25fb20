//! Parts of the table of nodes, which threads fill at the same time.

use framework::NodeIx;

/// Number of nodes in a block. A cell takes two bytes for each block.
pub(super) const BLOCK: usize = 4096;
/// Minimum number of nodes in a part, on average. A thread takes longer to start than to rank fewer.
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

    pub(super) const fn entries_mut(&mut self) -> &mut [T] {
        self.entries
    }

    /// The number of the first block.
    pub(super) const fn first_block(&self) -> usize {
        self.first / BLOCK
    }

    /// Returns the number of the block of a node, counted from the first one of the part.
    pub(super) const fn block_of(&self, node: NodeIx) -> usize {
        (node.index() - self.first) / BLOCK
    }

    /// Number of blocks.
    pub(super) const fn blocks(&self) -> usize {
        self.entries.len().div_ceil(BLOCK)
    }
}

/// Divides nodes in ascending order in lists of about equal length, so that no block is in two of them. The number of
/// lists is a power of two and depends on the number of nodes only, and with it the order of all that is put together
/// from the parts.
pub(crate) fn divide(nodes: &[NodeIx]) -> Vec<&[NodeIx]> {
    let most = (nodes.len() / NODES_PER_PART).clamp(1, MAX_PARTS);
    divide_in(nodes, 1 << most.ilog2())
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

/// Divides nodes in ascending order by blocks.
pub(super) fn in_blocks(nodes: &[NodeIx]) -> impl Iterator<Item = &[NodeIx]> {
    let mut left = nodes;
    std::iter::from_fn(move || {
        let block = left.first()?.index() / BLOCK;
        let (own, rest) = left.split_at(left.partition_point(|node| node.index() / BLOCK == block));
        left = rest;
        Some(own)
    })
}
