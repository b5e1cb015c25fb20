//! Cells: sets of nodes that are equally good, with the number of their nodes in each block of
//! nodes.

use framework::NodeIx;

use super::blocks::{BLOCK, BlockTable, block_of};
use super::cell_id::CellId;
use super::local::LocalScore;
use super::unusable::Overflow;

/// Number of nodes that a search for the n-th node counts at once.
const STRIDE: usize = 64;

/// The nodes of a tier with one score.
#[derive(Debug, Default)]
pub(super) struct Cell {
    /// The place of the tier in the list of tiers.
    pub(super) tier: usize,
    pub(super) score: LocalScore,
    pub(super) len: usize,
    /// Number of its nodes in each block, up to the last one with a node.
    blocks: Vec<u16>,
}

/// The cell of each node.
#[derive(Debug)]
pub(super) struct Cells {
    of_nodes: BlockTable,
    /// The cells by number. Number 0 stands for no cell.
    cells: Vec<Cell>,
    /// Numbers to be used again.
    unused: Vec<CellId>,
    /// Number of nodes that are not counted yet, by cell: of every second node, and of the others.
    /// The processor can then count two nodes of one cell at once.
    filled: Vec<[u16; 2]>,
    /// Number of counts of all cells and blocks.
    counts: usize,
}

impl Default for Cells {
    fn default() -> Self {
        let cells = vec![Cell::default()];
        Self {
            of_nodes: BlockTable::default(),
            cells,
            unused: Vec::new(),
            filled: vec![[0; 2]],
            counts: 0,
        }
    }
}

impl Cells {
    /// Adds a cell without nodes.
    ///
    /// # Errors
    /// [`Overflow`]: there are 65,535 cells already.
    pub(super) fn add(&mut self, tier: usize, score: LocalScore) -> Result<CellId, Overflow> {
        let id = match self.unused.pop() {
            Some(id) => id,
            None => {
                let id = CellId(u16::try_from(self.cells.len()).map_err(|_| Overflow)?);
                self.cells.push(Cell::default());
                self.filled.push([0; 2]);
                id
            }
        };
        let cell = &mut self.cells[id.index()];
        (cell.tier, cell.score) = (tier, score);
        Ok(id)
    }

    /// Gives up a cell without nodes.
    pub(super) fn discard(&mut self, id: CellId) {
        self.unused.push(id);
    }

    pub(super) fn get(&self, id: CellId) -> &Cell {
        &self.cells[id.index()]
    }

    /// Returns the number of the cell of a node.
    pub(super) fn of(&self, node: NodeIx) -> CellId {
        self.of_nodes.get(node)
    }

    /// Moves a node to a cell, or out of all cells. Returns its cell before.
    pub(super) fn set(&mut self, node: NodeIx, new: CellId) -> CellId {
        let old = self.of_nodes.set(node, new);
        if old == new {
            return old;
        }
        let block = block_of(node);
        if old != CellId::NONE {
            let cell = &mut self.cells[old.index()];
            cell.len -= 1;
            cell.blocks[block] -= 1;
        }
        if new != CellId::NONE {
            self.count(new, block, 1);
        }
        old
    }

    /// Puts each of the nodes of a block into a cell. They are in none. They count when the nodes
    /// of the block [are counted](Self::count_filled), which is due before the next block.
    pub(super) fn fill(&mut self, nodes: &[NodeIx], ids: &[CellId]) {
        self.of_nodes.set_all(nodes, ids);
        for (place, id) in ids.iter().enumerate() {
            self.filled[id.index()][place % 2] += 1;
        }
    }

    /// Counts the nodes of a block that were [filled](Self::fill). Reports the number of nodes that
    /// each cell got.
    pub(super) fn count_filled(&mut self, block: usize, mut report: impl FnMut(&Cell, usize)) {
        let mut filled = std::mem::take(&mut self.filled);
        for (place, counts) in filled.iter_mut().enumerate().filter(|(_, it)| **it != [0; 2]) {
            let id = CellId(place as u16);
            let count = std::mem::take(counts).iter().sum();
            self.count(id, block, count);
            report(self.get(id), usize::from(count));
        }
        self.filled = filled;
    }

    /// Adds `nodes` nodes of a block to a cell.
    fn count(&mut self, id: CellId, block: usize, nodes: u16) {
        let cell = &mut self.cells[id.index()];
        cell.len += usize::from(nodes);
        if cell.blocks.len() <= block {
            self.counts += block + 1 - cell.blocks.len();
            cell.blocks.resize(block + 1, 0);
        }
        cell.blocks[block] += nodes;
    }

    /// The cells that were added, in the order in which they were added first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().skip(1)
    }

    /// Adds the nodes of other cells, in other blocks. `ids` has the new number of each of the
    /// other cells.
    pub(super) fn join(&mut self, other: Self, ids: &[CellId]) {
        for (cell, id) in other.cells.iter().zip(ids) {
            let counts = cell.blocks.iter().enumerate().filter(|(_, count)| **count > 0);
            counts.for_each(|(block, count)| self.count(*id, block, *count));
        }
        self.of_nodes.append(other.of_nodes, ids);
    }

    /// Returns the node at this place in the order of all nodes in these cells.
    pub(super) fn nth(&self, cells: &[CellId], place: usize) -> Option<NodeIx> {
        let mut left = place;
        let (block, ids) = find(self.of_nodes.iter(), &mut left, |block, _| {
            let counts = cells.iter().filter_map(|id| self.get(*id).blocks.get(block));
            counts.map(|count| usize::from(*count)).sum()
        })?;
        let mut is_wanted = vec![false; self.cells.len()];
        cells.iter().for_each(|id| is_wanted[id.index()] = true);
        let (stride, ids) = find(ids.chunks(STRIDE), &mut left, |_, ids| match cells {
            // With a sum as narrow as the numbers, the processor compares and counts several nodes
            // at once.
            [cell] => ids.iter().fold(0_u16, |sum, id| sum + u16::from(id == cell)).into(),
            _ => ids.iter().filter(|id| is_wanted[id.index()]).count(),
        })?;
        let mut wanted = ids.iter().enumerate().filter(|(_, id)| is_wanted[id.index()]);
        let (offset, _) = wanted.nth(left)?;
        Some(NodeIx::new(block * BLOCK + stride * STRIDE + offset))
    }

    /// Number of nodes in all blocks.
    pub(super) const fn room(&self) -> usize {
        self.of_nodes.room()
    }

    /// Number of bytes that the cells take.
    pub(super) fn bytes(&self) -> usize {
        self.of_nodes.bytes() + 2 * self.counts + (size_of::<Cell>() + 4) * self.cells.capacity()
    }
}

/// The cell of each tier and score.
#[derive(Debug, Default)]
pub(super) struct CellTable {
    /// The cells of the first tier by score, then the cells of the next one.
    ids: Vec<CellId>,
    /// Number of scores of a tier that have a place.
    width: usize,
}

impl CellTable {
    /// The width grows by so much, because wider rows are moved.
    const STEP: usize = 32;

    /// Returns the cell of a tier and score, or [`CellId::NONE`].
    #[inline]
    pub(super) fn get(&self, tier: usize, score: LocalScore) -> CellId {
        match score.index() < self.width {
            true => self.ids.get(tier * self.width + score.index()).copied().unwrap_or_default(),
            false => CellId::NONE,
        }
    }

    pub(super) fn set(&mut self, tier: usize, score: LocalScore, id: CellId) {
        if score.index() >= self.width {
            self.widen((score.index() + 1).next_multiple_of(Self::STEP));
        }
        let end = (tier + 1) * self.width;
        if self.ids.len() < end {
            self.ids.resize(end, CellId::NONE);
        }
        self.ids[tier * self.width + score.index()] = id;
    }

    fn widen(&mut self, width: usize) {
        let rows = self.ids.len().checked_div(self.width).unwrap_or(0);
        let mut ids = vec![CellId::NONE; rows * width];
        for (new, old) in ids.chunks_mut(width).zip(self.ids.chunks(self.width.max(1))) {
            new[..old.len()].copy_from_slice(old);
        }
        *self = Self { ids, width };
    }

    /// Returns the cells of a tier by score, with [`CellId::NONE`] where it has none.
    pub(super) fn of_tier(&self, tier: usize) -> &[CellId] {
        self.ids.get(tier * self.width..(tier + 1) * self.width).unwrap_or_default()
    }

    /// Number of bytes that the table takes.
    pub(super) const fn bytes(&self) -> usize {
        size_of::<CellId>() * self.ids.capacity()
    }
}

/// Returns the part with the entry that has `left` others before it, and the number of the part.
/// Takes the entries of the parts before from `left`.
fn find<'a>(
    parts: impl Iterator<Item = &'a [CellId]>,
    left: &mut usize,
    count: impl Fn(usize, &[CellId]) -> usize,
) -> Option<(usize, &'a [CellId])> {
    parts.enumerate().find(|(number, part)| match left.checked_sub(count(*number, part)) {
        Some(rest) => {
            *left = rest;
            false
        }
        None => true,
    })
}
