//! What a plugin derives from each node, kept until the node, its pods or its measurement change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use framework::NodeView;

/// A value of each node, by [`framework::NodeIx::index`].
#[derive(Debug)]
pub(super) struct Rows<T>(Mutex<Vec<Row<T>>>);

#[derive(Debug, Clone, Copy)]
struct Row<T> {
    /// The generation of the node from which the value is; 0 for none.
    generation: u64,
    value: T,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Copy + Default> Rows<T> {
    /// Locks the rows for some nodes. A poisoned lock is usable, because rows are replaced as a
    /// whole.
    pub(super) fn lock(&self) -> Locked<'_, T> {
        Locked(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rows, locked.
pub(super) struct Locked<'a, T>(MutexGuard<'a, Vec<Row<T>>>);

impl<T: Copy + Default> Locked<'_, T> {
    /// Returns the value of the node, which `derive` computes. A node with other pods, of a
    /// what-if, is not kept.
    #[inline]
    pub(super) fn of(&mut self, node: &NodeView<'_>, derive: impl FnOnce() -> T) -> T {
        let Some(generation) = node.generation() else { return derive() };
        let index = node.ix().index();
        match self.0.get(index) {
            Some(row) if row.generation == generation => row.value,
            _ => self.replace(index, Row { generation, value: derive() }),
        }
    }

    #[cold]
    fn replace(&mut self, index: usize, row: Row<T>) -> T {
        if self.0.len() <= index {
            self.0.resize(index + 1, Row { generation: 0, value: T::default() });
        }
        self.0[index] = row;
        row.value
    }
}
