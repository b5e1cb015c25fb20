//! Blocks of nodes.

use framework::NodeIx;

use super::cell_id::CellId;

/// Number of nodes in a block. A cell takes two bytes for each block.
pub(super) const BLOCK: usize = 4096;

/// Returns the number of the block of a node.
pub(super) const fn block_of(node: NodeIx) -> usize {
    node.index() / BLOCK
}

/// Divides nodes in ascending order by blocks.
pub(super) fn in_blocks(nodes: &[NodeIx]) -> impl Iterator<Item = &[NodeIx]> {
    let mut left = nodes;
    std::iter::from_fn(move || {
        let block = block_of(*left.first()?);
        let (own, rest) = left.split_at(left.partition_point(|node| block_of(*node) == block));
        left = rest;
        Some(own)
    })
}

/// The cell of each node. A block is as long as its last node needs. A thread that ranks the nodes
/// of some blocks makes only these.
#[derive(Debug, Default)]
pub(super) struct BlockTable {
    blocks: Vec<Vec<CellId>>,
}

impl BlockTable {
    /// Returns the cell of a node, or [`CellId::NONE`].
    pub(super) fn get(&self, node: NodeIx) -> CellId {
        let block = self.blocks.get(block_of(node));
        block.and_then(|block| block.get(node.index() % BLOCK)).copied().unwrap_or_default()
    }

    /// Sets the cell of a node. Returns the one before.
    pub(super) fn set(&mut self, node: NodeIx, id: CellId) -> CellId {
        let place = node.index() % BLOCK;
        let block = self.block_mut(block_of(node));
        if block.len() <= place {
            block.resize(place + 1, CellId::NONE);
        }
        std::mem::replace(&mut block[place], id)
    }

    /// Sets the cells of nodes of a block, in ascending order.
    pub(super) fn set_all(&mut self, nodes: &[NodeIx], ids: &[CellId]) {
        let Some(last) = nodes.last() else { return };
        let (block, len) = (self.block_mut(block_of(*last)), last.index() % BLOCK + 1);
        if block.len() < len {
            block.reserve_exact(len - block.len());
            block.resize(len, CellId::NONE);
        }
        let block = &mut block[..];
        for (node, id) in nodes.iter().zip(ids) {
            block[node.index() % BLOCK] = *id;
        }
    }

    fn block_mut(&mut self, block: usize) -> &mut Vec<CellId> {
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, Vec::new);
        }
        &mut self.blocks[block]
    }

    /// Adds the blocks of another table; this table must have none of them. `ids` has the new
    /// number of each cell.
    pub(super) fn append(&mut self, other: Self, ids: &[CellId]) {
        let with_nodes =
            other.blocks.into_iter().enumerate().filter(|(_, block)| !block.is_empty());
        for (number, mut block) in with_nodes {
            block.iter_mut().for_each(|id| *id = ids[id.index()]);
            *self.block_mut(number) = block;
        }
    }

    /// The cells of the nodes of each block. Nodes that are missing at its end are in no cell.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[CellId]> {
        self.blocks.iter().map(|block| &block[..])
    }

    /// Number of nodes that have a place, or get one without a further block.
    pub(super) const fn room(&self) -> usize {
        BLOCK * self.blocks.len()
    }

    /// Number of bytes that the table takes.
    pub(super) fn bytes(&self) -> usize {
        let entries: usize = self.blocks.iter().map(Vec::capacity).sum();
        size_of::<CellId>() * entries + size_of::<Vec<CellId>>() * self.blocks.capacity()
    }
}
