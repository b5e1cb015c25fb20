//! A set of nodes that is a list while it has few nodes.

use smallvec::SmallVec;

use super::NodeIx;
use super::chunked_map::ChunkedMap;
use super::listed::{self, entries_between};
use crate::NodeBits;

/// The nodes that share a label value, a taint, a port or an image.
///
/// The set is a list while a list takes less memory than bits. A label that is unique per node
/// therefore costs only a few bytes per node.
#[derive(Debug, Clone)]
pub struct Posting(Form);

#[derive(Debug, Clone)]
enum Form {
    /// Ascending ids, at most [`LIST_MAX`]. The inline capacity holds the node of a hostname
    /// without an allocation.
    List(SmallVec<[NodeIx; 4]>),
    /// Ascending ids, more than [`LIST_MAX`].
    Sparse(Box<ChunkedMap<NodeIx, ()>>),
    /// Bits, and the number of nodes.
    Dense(NodeBits, usize),
}

/// Maximum length of a plain list.
const LIST_MAX: usize = 64;
/// Minimum number of nodes for bits.
const DENSE: usize = 16;
/// Number of look-ups in bits that take as long as a search in a list of nodes.
const LOOK_UPS_IN_BITS: usize = 8;
/// A listed id takes as much memory as this many bits.
const BITS_PER_LISTED: usize = 32;

impl Default for Posting {
    fn default() -> Self {
        Self(Form::List(SmallVec::new()))
    }
}

impl Posting {
    /// Adds `node`; returns whether it is new.
    pub fn insert(&mut self, node: NodeIx) -> bool {
        match &mut self.0 {
            Form::List(list) => {
                let Err(place) = list.binary_search(&node) else { return false };
                list.insert(place, node);
                if list.len() > DENSE {
                    self.fit();
                }
                true
            }
            Form::Sparse(map) => {
                let new = map.insert(node, ());
                if new {
                    self.fit();
                }
                new
            }
            Form::Dense(bits, count) => {
                let new = bits.insert(node);
                *count += usize::from(new);
                new
            }
        }
    }

    /// Removes `node`; returns whether it was in the set.
    pub fn remove(&mut self, node: NodeIx) -> bool {
        match &mut self.0 {
            Form::List(list) => {
                let Ok(place) = list.binary_search(&node) else { return false };
                list.remove(place);
                true
            }
            Form::Sparse(map) => {
                let there = map.remove(&node);
                if map.len() < LIST_MAX / 2 {
                    self.0 = Form::List(self.iter().collect());
                }
                there
            }
            Form::Dense(bits, count) => {
                let there = bits.remove(node);
                *count -= usize::from(there);
                if *count <= DENSE / 2 {
                    self.0 = Form::List(self.iter().collect());
                }
                there
            }
        }
    }

    /// Switches a list that has grown to the form that suits its length.
    fn fit(&mut self) {
        if matches!(self.0, Form::Dense(..)) {
            return;
        }
        let highest = self.last();
        let len = self.len();
        if len * BITS_PER_LISTED > highest.map_or(0, NodeIx::index) {
            self.0 = Form::Dense(self.iter().collect(), len);
        } else if let Form::List(list) = &self.0
            && list.len() > LIST_MAX
        {
            self.0 = Form::Sparse(Box::new(list.iter().map(|node| (*node, ())).collect()));
        }
    }

    /// Returns whether `node` is in the set.
    pub fn contains(&self, node: NodeIx) -> bool {
        match &self.0 {
            Form::List(list) => list.binary_search(&node).is_ok(),
            Form::Sparse(map) => map.get(&node).is_some(),
            Form::Dense(bits, _) => bits.contains(node),
        }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::List(list) => list.len(),
            Form::Sparse(map) => map.len(),
            Form::Dense(_, count) => *count,
        }
    }

    /// Returns whether no node is in the set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds these nodes to `bits`.
    pub fn union_into(&self, bits: &mut NodeBits) {
        match &self.0 {
            Form::Dense(own, _) => bits.union(own),
            Form::List(_) | Form::Sparse(_) => self.iter().for_each(|node| {
                bits.insert(node);
            }),
        }
    }

    /// Removes these nodes from `bits`.
    pub fn subtract_from(&self, bits: &mut NodeBits) {
        match &self.0 {
            Form::Dense(own, _) => bits.subtract(own),
            Form::List(_) | Form::Sparse(_) => self.iter().for_each(|node| {
                bits.remove(node);
            }),
        }
    }

    /// Visits the nodes of `nodes`, which are in ascending order, that are in the set, by their
    /// places in the list.
    pub fn for_each_of(&self, nodes: &[NodeIx], mut visit: impl FnMut(usize)) {
        let Some(first) = nodes.first() else { return };
        let between = entries_between(self.len(), self.last(), nodes);
        let looked_up = match &self.0 {
            Form::Dense(..) => nodes.len() / LOOK_UPS_IN_BITS,
            Form::List(_) | Form::Sparse(_) => nodes.len(),
        };
        if between < looked_up {
            let entries = self.iter_from(*first).map(|node| (node, ()));
            return listed::visit(entries, nodes, |place, ()| visit(place));
        }
        for (place, node) in nodes.iter().enumerate() {
            if self.contains(*node) {
                visit(place);
            }
        }
    }

    /// Returns the last node for which the set has room.
    fn last(&self) -> Option<NodeIx> {
        match &self.0 {
            Form::List(list) => list.last().copied(),
            Form::Sparse(map) => map.last().map(|(node, ())| *node),
            Form::Dense(bits, _) => bits.last_with_room(),
        }
    }

    /// Returns the nodes from `first` on, in ascending order of id.
    pub fn iter_from(&self, first: NodeIx) -> impl Iterator<Item = NodeIx> + '_ {
        let (list, map, bits) = match &self.0 {
            Form::List(list) => {
                let start = list.partition_point(|node| *node < first);
                (&list[start..], None, None)
            }
            Form::Sparse(map) => {
                (&[][..], Some(map.iter_from(first).map(|(node, ())| *node)), None)
            }
            Form::Dense(bits, _) => (&[][..], None, Some(bits.iter_from(first))),
        };
        let listed = list.iter().copied().chain(map.into_iter().flatten());
        listed.chain(bits.into_iter().flatten())
    }

    /// Returns the nodes in ascending order of id.
    pub fn iter(&self) -> impl Iterator<Item = NodeIx> + '_ {
        let (list, map, bits) = match &self.0 {
            Form::List(list) => (list.as_slice(), None, None),
            Form::Sparse(map) => (&[][..], Some(map.iter().map(|(node, ())| *node)), None),
            Form::Dense(bits, _) => (&[][..], None, Some(bits.iter())),
        };
        let listed = list.iter().copied().chain(map.into_iter().flatten());
        listed.chain(bits.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn equals_a_btree_set(
            spread in 1_usize..100,
            changes in prop::collection::vec((0_usize..400, prop::bool::weighted(0.7)), 0..600),
        ) {
            let mut posting = Posting::default();
            let mut oracle = BTreeSet::new();
            for (id, add) in changes {
                let node = NodeIx::new(id * spread);
                if add {
                    prop_assert_eq!(posting.insert(node), oracle.insert(node));
                } else {
                    prop_assert_eq!(posting.remove(node), oracle.remove(&node));
                }
                prop_assert_eq!(posting.len(), oracle.len());
            }
            prop_assert!(posting.iter().eq(oracle.iter().copied()));
            for step in [1, 3, 1000] {
                let nodes: Vec<_> = (0..400 * spread).step_by(step).map(NodeIx::new).collect();
                let mut visited = Vec::new();
                posting.for_each_of(&nodes, |place| visited.push(nodes[place]));
                let expected: Vec<_> =
                    nodes.iter().copied().filter(|node| oracle.contains(node)).collect();
                prop_assert_eq!(visited, expected);
            }
            for first in (0..400 * spread).step_by(37).map(NodeIx::new) {
                prop_assert!(posting.iter_from(first).eq(oracle.range(first..).copied()));
            }
            let mut bits: NodeBits = (0..400).map(|id| NodeIx::new(id * spread)).collect();
            posting.subtract_from(&mut bits);
            prop_assert_eq!(bits.count(), 400 - oracle.len());
            posting.union_into(&mut bits);
            prop_assert_eq!(bits.count(), 400);
            let agree = |node| posting.contains(node) == oracle.contains(&node);
            prop_assert!((0..400 * spread).all(|id| agree(NodeIx::new(id))));
        }
    }
}
