//! Columns: per-node numbers that most decisions read, one array per number.

use std::sync::Arc;

use super::NodeIx;
use super::chunked_map::ChunkedMap;
use super::listed::{self, entries_between};
use api::{CpuMemory, Resources};

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

    /// Returns the amounts of one node, without scalars.
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

    /// Returns the amounts of one node.
    pub fn get(&self, node: NodeIx) -> CpuMemory {
        CpuMemory { milli_cpu: self.milli_cpu[node.index()], memory: self.memory[node.index()] }
    }
}

/// Adds to a sum, which saturates at the limits of 64 bits. [`Cluster`](super::Cluster) recounts
/// such a node when a pod leaves it.
pub(super) fn add(sum: &mut i64, amount: i64, sign: i64) {
    *sum = sum.saturating_add(amount.saturating_mul(sign));
}

/// The allocatable and the requested amount of a scalar resource on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScalarAmount {
    /// Allocatable, in units.
    pub allocatable: i64,
    /// Requested by the pods on the node, in units.
    pub requested: i64,
}

/// A value per node where many nodes have the default.
///
/// With few other values it is a list of them; with many it is an array of all values. No change
/// takes time proportional to the number of nodes, except the rare switch from one form to the
/// other.
#[derive(Debug, Clone)]
pub struct NodeColumn<T>(Form<T>);

#[derive(Debug, Clone)]
enum Form<T> {
    /// Values other than the default, in ascending order of node id; at most [`LIST_MAX`].
    List(Vec<(NodeIx, T)>),
    /// The same for more values.
    Sparse(Box<ChunkedMap<NodeIx, T>>),
    /// Indexed by [`NodeIx::index`].
    Dense {
        values: Vec<T>,
        /// Number of values other than the default.
        others: usize,
    },
}

/// Maximum length of a plain list.
const LIST_MAX: usize = 64;
/// A column with more than [`LIST_MAX`] values becomes an array once one node in this many has a
/// value.
const DENSE: usize = 4;
/// An array becomes a list once fewer than one node in this many has a value.
const SPARSE: usize = 16;
/// Number of nodes whose values are read together if each follows on the one before.
const RUN: usize = 64;

/// A scalar resource over all nodes.
pub type ScalarColumn = NodeColumn<ScalarAmount>;

impl<T> Default for NodeColumn<T> {
    fn default() -> Self {
        Self(Form::List(Vec::new()))
    }
}

impl<T: Copy + Default + PartialEq> FromIterator<(NodeIx, T)> for NodeColumn<T> {
    /// Makes a column of values other than the default, given in ascending order of node id.
    fn from_iter<I: IntoIterator<Item = (NodeIx, T)>>(values: I) -> Self {
        let mut column = Self(Form::List(values.into_iter().collect()));
        column.fit();
        column
    }
}

impl<T: Copy + Default + PartialEq> From<Vec<T>> for NodeColumn<T> {
    /// Makes a column of the value of each node by [`NodeIx::index`].
    fn from(values: Vec<T>) -> Self {
        let others = values.iter().filter(|value| **value != T::default()).count();
        let is_sparse = others * SPARSE < values.len();
        let mut column = Self(Form::Dense { values, others });
        if is_sparse {
            column.fit();
        }
        column
    }
}

impl<T: Copy + Default + PartialEq> PartialEq for NodeColumn<T> {
    /// Compares the values. Equal columns may be in different forms.
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Copy + Default + Eq> Eq for NodeColumn<T> {}

impl<T: Copy + Default + PartialEq> NodeColumn<T> {
    /// Returns the value of `node`, or the default.
    #[inline]
    pub fn get(&self, node: NodeIx) -> T {
        match &self.0 {
            Form::Dense { values, .. } => values.get(node.index()).copied().unwrap_or_default(),
            Form::List(list) => list
                .binary_search_by_key(&node, |(id, _)| *id)
                .map_or_else(|_| T::default(), |place| list[place].1),
            Form::Sparse(map) => map.get(&node).copied().unwrap_or_default(),
        }
    }

    /// Number of nodes with a value other than the default.
    pub fn count(&self) -> usize {
        match &self.0 {
            Form::List(list) => list.len(),
            Form::Sparse(map) => map.len(),
            Form::Dense { others, .. } => *others,
        }
    }

    /// Returns the nodes with a value other than the default, in ascending order of id.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIx, T)> + '_ {
        self.iter_from(NodeIx::new(0))
    }

    /// Returns the nodes from `first` on that have a value other than the default, in ascending
    /// order of id.
    fn iter_from(&self, first: NodeIx) -> impl Iterator<Item = (NodeIx, T)> + '_ {
        let (list, map, values) = match &self.0 {
            Form::List(list) => {
                (&list[list.partition_point(|(node, _)| *node < first)..], None, &[][..])
            }
            Form::Sparse(map) => (&[][..], Some(map.iter_from(first)), &[][..]),
            Form::Dense { values, .. } => (&[][..], None, values.as_slice()),
        };
        let dense = values.iter().enumerate().skip(first.index());
        let dense = dense.filter(|(_, value)| **value != T::default());
        let dense = dense.map(|(index, value)| (NodeIx::new(index), *value));
        list.iter().chain(map.into_iter().flatten()).copied().chain(dense)
    }

    /// Visits the nodes of `nodes`, which are in ascending order, that have a value other than the
    /// default, by their places in the list.
    pub fn for_each_of(&self, nodes: &[NodeIx], mut visit: impl FnMut(usize, T)) {
        let Some(first) = nodes.first() else { return };
        let is_list = !matches!(self.0, Form::Dense { .. });
        if is_list && entries_between(self.count(), self.last(), nodes) < nodes.len() {
            return listed::visit(self.iter_from(*first), nodes, visit);
        }
        for (place, node) in nodes.iter().enumerate() {
            let value = self.get(*node);
            if value != T::default() {
                visit(place, value);
            }
        }
    }

    /// Visits the value of each of `nodes`, with what `others` has at the same place.
    pub fn zip_of<U>(&self, nodes: &[NodeIx], others: &mut [U], mut visit: impl FnMut(&mut U, T)) {
        for (nodes, others) in nodes.chunks(RUN).zip(others.chunks_mut(RUN)) {
            let run = self.as_array().and_then(|values| values.get(NodeIx::run(nodes)?));
            match run {
                // The processor reads several values at once.
                Some(values) => {
                    others.iter_mut().zip(values).for_each(|(other, value)| visit(other, *value));
                }
                None => {
                    let places = others.iter_mut().zip(nodes);
                    places.for_each(|(other, node)| visit(other, self.get(*node)));
                }
            }
        }
    }

    /// Returns the last node for which the column has room.
    fn last(&self) -> Option<NodeIx> {
        match &self.0 {
            Form::List(list) => list.last().map(|(node, _)| *node),
            Form::Sparse(map) => map.last().map(|(node, _)| *node),
            Form::Dense { values, .. } => values.len().checked_sub(1).map(NodeIx::new),
        }
    }

    /// Returns the values by [`NodeIx::index`], if the column is an array. Nodes beyond its end
    /// have the default.
    pub fn as_array(&self) -> Option<&[T]> {
        match &self.0 {
            Form::Dense { values, .. } => Some(values),
            Form::List(_) | Form::Sparse(_) => None,
        }
    }

    /// Changes the value of `node`.
    pub fn change(&mut self, node: NodeIx, change: impl FnOnce(&mut T)) {
        let old = self.get(node);
        let mut new = old;
        change(&mut new);
        if new != old {
            self.set(node, new);
        }
    }

    /// Sets a value that differs from the stored one.
    fn set(&mut self, node: NodeIx, value: T) {
        let is_default = value == T::default();
        match &mut self.0 {
            Form::List(list) => match list.binary_search_by_key(&node, |(id, _)| *id) {
                Ok(place) if is_default => {
                    list.remove(place);
                }
                Ok(place) => list[place].1 = value,
                Err(place) => {
                    list.insert(place, (node, value));
                    if list.len() >= LIST_MAX {
                        self.fit();
                    }
                }
            },
            Form::Sparse(map) if is_default => {
                map.remove(&node);
                if map.len() < LIST_MAX / 2 {
                    self.fit();
                }
            }
            Form::Sparse(map) => {
                if map.insert(node, value) && map.len().is_multiple_of(LIST_MAX) {
                    self.fit();
                }
            }
            Form::Dense { values, others } => {
                if values.len() <= node.index() {
                    if *others * SPARSE <= node.index() {
                        self.fit_up_to(node);
                        return self.set(node, value);
                    }
                    values.resize(node.index() + 1, T::default());
                }
                let old = std::mem::replace(&mut values[node.index()], value);
                *others += usize::from(old == T::default());
                *others -= usize::from(is_default);
                if *others * SPARSE < values.len() {
                    self.fit();
                }
            }
        }
    }

    /// Switches to the form that suits the number of values.
    fn fit(&mut self) {
        self.fit_up_to(self.last().unwrap_or(NodeIx::new(0)));
    }

    /// Switches to the form that suits the number of values, for nodes up to `highest`.
    fn fit_up_to(&mut self, highest: NodeIx) {
        let count = self.count();
        self.0 = if count < LIST_MAX {
            Form::List(self.iter().collect())
        } else if count * DENSE < highest.index() {
            match &self.0 {
                Form::Sparse(_) => return,
                _ => Form::Sparse(Box::new(self.iter().collect())),
            }
        } else {
            let mut values = vec![T::default(); highest.index() + 1];
            self.iter().for_each(|(node, value)| values[node.index()] = value);
            Form::Dense { values, others: count }
        };
    }

    pub(super) fn is_unused(&self) -> bool {
        self.count() == 0
    }
}

/// Scalar resources by name.
pub(super) type Scalars = std::collections::BTreeMap<Arc<str>, ScalarColumn>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn equals_a_btree_map(
            phases in prop::collection::vec(
                (0..10_u32, prop::collection::vec(0..3000_usize, 0..300)),
                1..8,
            ),
            listed_from in 0..3000_usize,
        ) {
            let mut column: NodeColumn<u32> = NodeColumn::default();
            let mut oracle = BTreeMap::new();
            for (most, nodes) in phases {
                for node in nodes {
                    let value = u32::try_from(node).unwrap() % (most + 1);
                    let node = NodeIx::new(node);
                    column.change(node, |own| *own = value);
                    oracle.insert(node, value);
                    prop_assert_eq!(column.get(node), value);
                }
                oracle.retain(|_, value| *value != 0);
                let made = oracle.iter().map(|(node, value)| (*node, *value)).collect();
                prop_assert_eq!(&column, &made);
                prop_assert!(column.iter().eq(oracle.iter().map(|(node, value)| (*node, *value))));
                let mut by_index = vec![0; 3000];
                oracle.iter().for_each(|(node, value)| by_index[node.index()] = *value);
                prop_assert_eq!(&column, &by_index.into());
                for step in [1, 7, 100] {
                    let nodes: Vec<_> = (listed_from..3000).step_by(step).map(NodeIx::new).collect();
                    let mut visited = Vec::new();
                    column.for_each_of(&nodes, |place, value| visited.push((nodes[place], value)));
                    let of_nodes = oracle.iter().map(|(node, value)| (*node, *value));
                    let expected: Vec<_> = of_nodes.filter(|(node, _)| nodes.contains(node)).collect();
                    prop_assert_eq!(visited, expected);
                    let mut values = vec![None; nodes.len()];
                    column.zip_of(&nodes, &mut values, |own, value| *own = Some(value));
                    let of_node = |node: &NodeIx| Some(oracle.get(node).copied().unwrap_or_default());
                    prop_assert!(values.into_iter().eq(nodes.iter().map(of_node)));
                }
                prop_assert_eq!(column.count(), oracle.len());
                prop_assert_eq!(column.is_unused(), oracle.is_empty());
            }
        }
    }

    fn fill(column: &mut NodeColumn<u32>, nodes: impl Iterator<Item = usize>, value: u32) {
        nodes.for_each(|node| column.change(NodeIx::new(node), |own| *own = value));
    }

    #[test]
    fn form_follows_the_number_of_values() {
        let mut column = NodeColumn::default();
        fill(&mut column, (0..1000).step_by(8), 7);
        assert!(matches!(column.0, Form::Sparse(_)));
        fill(&mut column, 0..1000, 7);
        assert!(matches!(column.0, Form::Dense { others: 1000, .. }));
        fill(&mut column, 100..1000, 0);
        assert!(matches!(column.0, Form::Dense { others: 100, .. }));
        fill(&mut column, 30..100, 0);
        assert!(matches!(&column.0, Form::List(list) if list.len() < 64));
        assert!(column.iter().map(|(node, _)| node.index()).eq(0..30));
        fill(&mut column, 0..30, 0);
        assert!(column.is_unused());
    }

    #[test]
    fn single_high_node_id_does_not_create_an_array() {
        let mut column = NodeColumn::default();
        fill(&mut column, 0..100, 7);
        assert!(column.as_array().is_some());
        fill(&mut column, 1_000_000..1_000_001, 8);
        assert!(matches!(column.0, Form::Sparse(_)));
        assert_eq!((column.get(NodeIx::new(99)), column.get(NodeIx::new(1_000_000))), (7, 8));
    }

    #[test]
    fn columns_of_resources_unique_per_node_stay_small() {
        let mut column = ScalarColumn::default();
        column.change(NodeIx::new(1_000_000), |amount| amount.requested = 1);
        assert!(matches!(&column.0, Form::List(list) if list.len() == 1));
        column.change(NodeIx::new(1_000_000), |amount| amount.requested = 0);
        assert!(column.is_unused());
    }
}
