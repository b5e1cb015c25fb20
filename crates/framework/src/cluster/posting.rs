//! A set of nodes that shrinks to a short list where few nodes are in it.

use smallvec::SmallVec;

use super::NodeIx;
use crate::NodeBits;

/// Nodes that share something: a label value, a taint, a port, an image.
///
/// A list while it is short, bits once the list would be longer than the bits, so that a label that is
/// unique per node costs a few bytes a node.
#[derive(Debug, Clone)]
pub struct Posting(Form);

#[derive(Debug, Clone)]
enum Form {
    /// Ascending ids; the node of a hostname takes no more room than an empty list.
    Few(SmallVec<[NodeIx; 4]>),
    Many(NodeBits, usize),
}

const FEW: usize = 16;
/// A listed id takes as much room as this many bits.
const BITS_PER_LISTED: usize = 32;

impl Default for Posting {
    fn default() -> Self {
        Self(Form::Few(SmallVec::new()))
    }
}

impl Posting {
    /// Adds `node`; returns whether it is new.
    pub fn insert(&mut self, node: NodeIx) -> bool {
        match &mut self.0 {
            Form::Few(list) => {
                let Err(place) = list.binary_search(&node) else { return false };
                list.insert(place, node);
                let highest = list.last().map_or(0, |last| last.index());
                if list.len() > FEW && list.len() * BITS_PER_LISTED > highest {
                    self.0 = Form::Many(list.iter().copied().collect(), list.len());
                }
                true
            }
            Form::Many(bits, count) => {
                let new = bits.insert(node);
                *count += usize::from(new);
                new
            }
        }
    }

    /// Removes `node`; returns whether it was there.
    pub fn remove(&mut self, node: NodeIx) -> bool {
        match &mut self.0 {
            Form::Few(list) => {
                let Ok(place) = list.binary_search(&node) else { return false };
                list.remove(place);
                true
            }
            Form::Many(bits, count) => {
                let there = bits.remove(node);
                *count -= usize::from(there);
                if *count <= FEW / 2 {
                    self.0 = Form::Few(bits.iter().collect());
                }
                there
            }
        }
    }

    /// Whether `node` is in the set.
    pub fn contains(&self, node: NodeIx) -> bool {
        match &self.0 {
            Form::Few(list) => list.binary_search(&node).is_ok(),
            Form::Many(bits, _) => bits.contains(node),
        }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Few(list) => list.len(),
            Form::Many(_, count) => *count,
        }
    }

    /// Whether no node is in the set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds these nodes to `bits`.
    pub fn union_into(&self, bits: &mut NodeBits) {
        match &self.0 {
            Form::Few(list) => list.iter().for_each(|node| {
                bits.insert(*node);
            }),
            Form::Many(mine, _) => bits.union(mine),
        }
    }

    /// Removes these nodes from `bits`.
    pub fn subtract_from(&self, bits: &mut NodeBits) {
        match &self.0 {
            Form::Few(list) => list.iter().for_each(|node| {
                bits.remove(*node);
            }),
            Form::Many(mine, _) => bits.subtract(mine),
        }
    }

    /// The nodes in ascending order of id.
    pub fn iter(&self) -> impl Iterator<Item = NodeIx> + '_ {
        let (list, bits) = match &self.0 {
            Form::Few(list) => (Some(list.iter().copied()), None),
            Form::Many(bits, _) => (None, Some(bits.iter())),
        };
        list.into_iter().flatten().chain(bits.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set(changes in prop::collection::vec((0_usize..400, prop::bool::weighted(0.7)), 0..300)) {
            let mut posting = Posting::default();
            let mut oracle = BTreeSet::new();
            for (id, add) in changes {
                let node = NodeIx::new(id);
                if add {
                    prop_assert_eq!(posting.insert(node), oracle.insert(node));
                } else {
                    prop_assert_eq!(posting.remove(node), oracle.remove(&node));
                }
                prop_assert_eq!(posting.len(), oracle.len());
            }
            prop_assert!(posting.iter().eq(oracle.iter().copied()));
            let mut bits: NodeBits = (0..400).map(NodeIx::new).collect();
            posting.subtract_from(&mut bits);
            prop_assert_eq!(bits.count(), 400 - oracle.len());
            posting.union_into(&mut bits);
            prop_assert_eq!(bits.count(), 400);
            prop_assert!((0..400).all(|id| posting.contains(NodeIx::new(id)) == oracle.contains(&NodeIx::new(id))));
        }
    }
}
