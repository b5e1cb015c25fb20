//! A set of nodes, stored as bits.

use std::ops::Range;

use super::NodeIx;

const WORD: usize = 64;

/// A set of node ids, one bit each.
#[derive(Debug, Clone, Default)]
pub struct NodeBits {
    words: Vec<u64>,
}

impl PartialEq for NodeBits {
    /// Compares the members. Equal sets may have capacity for different ids.
    fn eq(&self, other: &Self) -> bool {
        let common = self.words.len().min(other.words.len());
        let rest = self.words[common..].iter().chain(&other.words[common..]);
        self.words[..common] == other.words[..common] && rest.copied().all(|bits| bits == 0)
    }
}

impl Eq for NodeBits {}

impl NodeBits {
    /// Returns an empty set with room for ids below `len`.
    pub fn with_len(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(WORD)] }
    }

    /// Returns whether `node` is in the set.
    #[inline]
    pub fn contains(&self, node: NodeIx) -> bool {
        let (word, bit) = place(node);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Adds `node`, growing as needed; returns whether it is new.
    pub fn insert(&mut self, node: NodeIx) -> bool {
        let (word, bit) = place(node);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Removes `node`; returns whether it was there.
    pub fn remove(&mut self, node: NodeIx) -> bool {
        let (word, bit) = place(node);
        match self.words.get_mut(word) {
            Some(bits) => {
                let there = *bits & bit != 0;
                *bits &= !bit;
                there
            }
            None => false,
        }
    }

    /// Empties the set and makes it equal to `other`, keeping the allocation.
    pub fn copy_from(&mut self, other: &Self) {
        self.words.clear();
        self.words.extend_from_slice(&other.words);
    }

    /// Empties the set and adds the nodes of `other` in a range of whole blocks of 64 ids, keeping
    /// the allocation.
    pub fn copy_blocks(&mut self, other: &Self, ids: Range<usize>) {
        let end = ids.end.div_ceil(WORD).min(other.words.len());
        let first = (ids.start / WORD).min(end);
        self.words.clear();
        self.words.resize(first, 0);
        self.words.extend_from_slice(&other.words[first..end]);
    }

    /// Keeps the nodes that are also in `other`.
    pub fn intersect(&mut self, other: &Self) {
        let common = self.words.len().min(other.words.len());
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= theirs;
        }
        self.words[common..].fill(0);
    }

    /// Adds the nodes of `other`.
    pub fn union(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Removes the nodes of `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
    }

    /// Returns the highest id that the set has room for.
    pub(super) fn last_with_room(&self) -> Option<NodeIx> {
        (self.words.len() * WORD).checked_sub(1).map(NodeIx::new)
    }

    /// Removes every node.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the number of nodes in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Returns the node with so many others before it.
    pub fn nth(&self, place: usize) -> Option<NodeIx> {
        let mut left = place;
        for (word, bits) in self.words.iter().enumerate() {
            let count = bits.count_ones() as usize;
            if left < count {
                return Ones { base: word * WORD, bits: *bits }.nth(left);
            }
            left -= count;
        }
        None
    }

    /// Returns whether no node is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|bits| *bits == 0)
    }

    /// Returns the nodes in ascending order of id.
    pub fn iter(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.words
            .iter()
            .enumerate()
            .flat_map(|(word, bits)| Ones { base: word * WORD, bits: *bits })
    }

    /// Returns the nodes from `first` on, in ascending order of id.
    pub fn iter_from(&self, first: NodeIx) -> impl Iterator<Item = NodeIx> + '_ {
        let start = first.index() / WORD;
        let words = self.words.iter().enumerate().skip(start);
        words.flat_map(move |(word, bits)| {
            let below = if word == start { (1 << (first.index() % WORD)) - 1 } else { 0 };
            Ones { base: word * WORD, bits: bits & !below }
        })
    }

    /// Appends the nodes to `list`, in ascending order of id. In a set of most nodes it is faster
    /// than [`iter`](Self::iter), because no branch depends on a node.
    pub fn append_to(&self, list: &mut Vec<NodeIx>) {
        let mut block = [NodeIx(0); WORD];
        for (word, bits) in self.words.iter().enumerate() {
            let first = NodeIx::new(word * WORD).0;
            let mut len = 0;
            if *bits == u64::MAX {
                list.extend((0..WORD as u32).map(|bit| NodeIx(first + bit)));
                continue;
            }
            if bits.count_ones() < WORD as u32 / 4 {
                list.extend(Ones { base: word * WORD, bits: *bits });
                continue;
            }
            for bit in 0..WORD as u32 {
                block[len] = NodeIx(first + bit);
                len += (bits >> bit & 1) as usize;
            }
            list.extend_from_slice(&block[..len]);
        }
    }

    /// Keeps the nodes for which `keep` returns true. It handles 64 ids at a time, so a column
    /// kernel in `keep` has no branches between the nodes of a block.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(NodeIx) -> bool) {
        for (word, bits) in self.words.iter_mut().enumerate() {
            let mut left = *bits;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                if !keep(NodeIx::new(word * WORD + bit)) {
                    *bits &= !(1 << bit);
                }
            }
        }
    }

    /// Visits the non-empty blocks of 64 ids. `visit` gets the first id of the block and its bits,
    /// which it may change.
    #[inline]
    pub fn for_each_block(&mut self, mut visit: impl FnMut(usize, &mut u64)) {
        for (word, bits) in self.words.iter_mut().enumerate() {
            if *bits != 0 {
                visit(word * WORD, bits);
            }
        }
    }
}

impl FromIterator<NodeIx> for NodeBits {
    fn from_iter<I: IntoIterator<Item = NodeIx>>(nodes: I) -> Self {
        let mut bits = Self::default();
        for node in nodes {
            bits.insert(node);
        }
        bits
    }
}

#[inline]
fn place(node: NodeIx) -> (usize, u64) {
    (node.index() / WORD, 1 << (node.index() % WORD))
}

struct Ones {
    base: usize,
    bits: u64,
}

impl Iterator for Ones {
    type Item = NodeIx;

    #[inline]
    fn next(&mut self) -> Option<NodeIx> {
        if self.bits == 0 {
            return None;
        }
        let bit = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(NodeIx::new(self.base + bit))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bits(ids: &BTreeSet<usize>) -> NodeBits {
        ids.iter().map(|id| NodeIx::new(*id)).collect()
    }

    fn ids(bits: &NodeBits) -> BTreeSet<usize> {
        bits.iter().map(NodeIx::index).collect()
    }

    proptest! {
        #[test]
        fn equals_a_btree_set(
            a in prop::collection::btree_set(0_usize..300, 0..80),
            b in prop::collection::btree_set(0_usize..300, 0..80),
        ) {
            let check = |change: fn(&mut NodeBits, &NodeBits), expected: BTreeSet<usize>| {
                let mut set = bits(&a);
                change(&mut set, &bits(&b));
                prop_assert_eq!(set.count(), expected.len());
                prop_assert_eq!(ids(&set), expected);
                Ok(())
            };
            check(NodeBits::intersect, a.intersection(&b).copied().collect())?;
            check(NodeBits::union, a.union(&b).copied().collect())?;
            check(NodeBits::subtract, a.difference(&b).copied().collect())?;
            check(NodeBits::copy_from, b.clone())?;
            check(|set, b| set.copy_blocks(b, 64..192), b.range(64..192).copied().collect())?;
            check(|set, b| set.copy_blocks(b, 192..512), b.range(192..).copied().collect())?;
            let mut odd = bits(&a);
            odd.retain(|node| node.index() % 2 == 1);
            prop_assert_eq!(ids(&odd), a.iter().copied().filter(|id| id % 2 == 1).collect());
            let first = b.first().copied().unwrap_or_default();
            let mut list = Vec::new();
            bits(&a).append_to(&mut list);
            let mut others = bits(&(0..300).collect());
            others.subtract(&bits(&a));
            others.append_to(&mut list);
            prop_assert_eq!(list[..a.len()].iter().copied().collect::<NodeBits>(), bits(&a));
            prop_assert!(list[..a.len()].is_sorted() && list[a.len()..].iter().copied().eq(others.iter()));
            let from: Vec<_> = bits(&a).iter_from(NodeIx::new(first)).map(NodeIx::index).collect();
            prop_assert_eq!(from, a.range(first..).copied().collect::<Vec<_>>());
            for place in 0..=a.len() {
                let nth = bits(&a).nth(place).map(NodeIx::index);
                prop_assert_eq!(nth, a.iter().nth(place).copied());
            }
        }
    }

    #[test]
    fn insert_and_remove_report_changes() {
        let mut set = NodeBits::default();
        assert!(set.insert(NodeIx::new(70)));
        assert!(!set.insert(NodeIx::new(70)));
        assert!(set.contains(NodeIx::new(70)) && !set.contains(NodeIx::new(700)));
        assert!(set.remove(NodeIx::new(70)) && !set.remove(NodeIx::new(70)));
        assert!(set.is_empty());
        assert_eq!(set, NodeBits::default());
    }
}
