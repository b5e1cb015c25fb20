//! The numbers of cells.

/// The number of a cell. A node takes two bytes for the number of its cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CellId(pub(super) u16);

impl CellId {
    /// The number of no cell.
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}
