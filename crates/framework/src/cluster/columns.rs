//! Hot numbers of nodes, one array per number.

use std::sync::Arc;

use super::NodeIx;
use crate::{CpuMemory, Resources};

/// Amounts per node, indexed by [`NodeIx::index`].
#[derive(Debug, Clone, Default)]
pub struct ResourceColumns {
    /// CPU in milli-CPU.
    pub milli_cpu: Vec<i64>,
    /// Memory in bytes.
    pub memory: Vec<i64>,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: Vec<i64>,
}

impl ResourceColumns {
    pub(super) fn grow(&mut self, len: usize) {
        self.milli_cpu.resize(len, 0);
        self.memory.resize(len, 0);
        self.ephemeral_storage.resize(len, 0);
    }

    pub(super) fn set(&mut self, node: NodeIx, amounts: &Resources) {
        self.milli_cpu[node.index()] = amounts.milli_cpu;
        self.memory[node.index()] = amounts.memory;
        self.ephemeral_storage[node.index()] = amounts.ephemeral_storage;
    }

    pub(super) fn add(&mut self, node: NodeIx, amounts: &Resources, sign: i64) {
        add(&mut self.milli_cpu[node.index()], amounts.milli_cpu, sign);
        add(&mut self.memory[node.index()], amounts.memory, sign);
        add(&mut self.ephemeral_storage[node.index()], amounts.ephemeral_storage, sign);
    }

    /// The amounts of one node, without scalars.
    pub fn get(&self, node: NodeIx) -> Resources {
        Resources {
            milli_cpu: self.milli_cpu[node.index()],
            memory: self.memory[node.index()],
            ephemeral_storage: self.ephemeral_storage[node.index()],
            ..Resources::default()
        }
    }
}

/// CPU and memory per node, indexed by [`NodeIx::index`].
#[derive(Debug, Clone, Default)]
pub struct CpuMemoryColumns {
    /// CPU in milli-CPU.
    pub milli_cpu: Vec<i64>,
    /// Memory in bytes.
    pub memory: Vec<i64>,
}

impl CpuMemoryColumns {
    pub(super) fn grow(&mut self, len: usize) {
        self.milli_cpu.resize(len, 0);
        self.memory.resize(len, 0);
    }

    pub(super) fn set(&mut self, node: NodeIx, amounts: CpuMemory) {
        self.milli_cpu[node.index()] = amounts.milli_cpu;
        self.memory[node.index()] = amounts.memory;
    }

    pub(super) fn add(&mut self, node: NodeIx, amounts: CpuMemory, sign: i64) {
        add(&mut self.milli_cpu[node.index()], amounts.milli_cpu, sign);
        add(&mut self.memory[node.index()], amounts.memory, sign);
    }

    /// The amounts of one node.
    pub fn get(&self, node: NodeIx) -> CpuMemory {
        CpuMemory { milli_cpu: self.milli_cpu[node.index()], memory: self.memory[node.index()] }
    }
}

/// Absurd sums stay at the limit of 64 bits; [`Cluster`](super::Cluster) recounts such a node when a
/// pod leaves it.
pub(super) fn add(sum: &mut i64, amount: i64, sign: i64) {
    *sum = sum.saturating_add(amount.saturating_mul(sign));
}

/// What one node has and has given away of a scalar resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScalarAmount {
    /// Allocatable, in units.
    pub allocatable: i64,
    /// Requested by the pods on the node, in units.
    pub requested: i64,
}

/// A value per node where many nodes have the default: a list where few have another, an array where
/// many do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeColumn<T> {
    /// Entries other than the default, in ascending order of node id.
    Few(Vec<(NodeIx, T)>),
    /// Indexed by [`NodeIx::index`].
    Many(Vec<T>),
}

/// A scalar resource over all nodes.
pub type ScalarColumn = NodeColumn<ScalarAmount>;

impl<T> Default for NodeColumn<T> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<T: Copy + Default + PartialEq> NodeColumn<T> {
    /// The value of `node`, the default if it has none.
    #[inline]
    pub fn get(&self, node: NodeIx) -> T {
        match self {
            Self::Few(list) => list
                .binary_search_by_key(&node, |(id, _)| *id)
                .map_or_else(|_| T::default(), |place| list[place].1),
            Self::Many(column) => column.get(node.index()).copied().unwrap_or_default(),
        }
    }

    /// The nodes with another value than the default, in ascending order of id.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIx, T)> + '_ {
        let (list, column) = match self {
            Self::Few(list) => (list.as_slice(), &[][..]),
            Self::Many(column) => (&[][..], column.as_slice()),
        };
        let dense = column.iter().enumerate().filter(|(_, value)| **value != T::default());
        let dense = dense.map(|(index, value)| (NodeIx::new(index), *value));
        list.iter().copied().chain(dense)
    }

    pub(super) fn change(&mut self, node: NodeIx, change: impl FnOnce(&mut T)) {
        match self {
            Self::Few(list) => match list.binary_search_by_key(&node, |(id, _)| *id) {
                Ok(place) => {
                    change(&mut list[place].1);
                    if list[place].1 == T::default() {
                        list.remove(place);
                    }
                }
                Err(place) => {
                    let mut value = T::default();
                    change(&mut value);
                    if value != T::default() {
                        list.insert(place, (node, value));
                        self.widen();
                    }
                }
            },
            Self::Many(column) => {
                if column.len() <= node.index() {
                    column.resize(node.index() + 1, T::default());
                }
                change(&mut column[node.index()]);
            }
        }
    }

    /// Turns a list into an array where the array is not much larger.
    fn widen(&mut self) {
        let Self::Few(list) = self else { return };
        let highest = list.last().map_or(0, |(node, _)| node.index());
        if list.len() < 64 || list.len() * 4 < highest {
            return;
        }
        let mut column = vec![T::default(); highest + 1];
        for (node, value) in list.drain(..) {
            column[node.index()] = value;
        }
        *self = Self::Many(column);
    }

    pub(super) fn is_unused(&self) -> bool {
        matches!(self, Self::Few(list) if list.is_empty())
    }
}

/// Scalar resources by name.
pub(super) type Scalars = std::collections::BTreeMap<Arc<str>, ScalarColumn>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_column_widens_without_losing_amounts() {
        let mut column = ScalarColumn::default();
        for id in 0..100 {
            let units = i64::try_from(id).unwrap();
            column.change(NodeIx::new(id), |amount| amount.allocatable = units);
        }
        assert!(matches!(column, ScalarColumn::Many(_)));
        assert!((0..100).all(|id| column.get(NodeIx::new(id)).allocatable == id as i64));
        assert_eq!(column.get(NodeIx::new(5000)), ScalarAmount::default());
    }

    #[test]
    fn resources_unique_per_node_stay_small() {
        let mut column = ScalarColumn::default();
        column.change(NodeIx::new(1_000_000), |amount| amount.requested = 1);
        assert!(matches!(&column, ScalarColumn::Few(list) if list.len() == 1));
        column.change(NodeIx::new(1_000_000), |amount| amount.requested = 0);
        assert!(column.is_unused());
    }
}
