//! Nodes with equal keys.

use rustc_hash::FxHashMap;

/// Maximum length of a table of codes, for few nodes.
const SHORT_TABLE: usize = 256;

/// A code for each of some nodes: equal for nodes with equal keys, and different for others.
///
/// The keys come plugin by plugin. Most plugins give all nodes one key, which adds nothing to the
/// codes, and the keys of others differ in few bits. These bits are appended to the codes, which
/// the processor does for several nodes at once. Codes that would get too long for a table are
/// numbered instead.
#[derive(Debug)]
pub(super) struct KeyCodes {
    /// The code of each node.
    codes: Vec<u32>,
    /// Number of bits of the codes.
    bits: u32,
}

impl KeyCodes {
    /// Codes of `len` nodes, at least one. `keys` has a key of each node, plugin by plugin.
    pub(super) fn of(len: usize, keys: &[i64]) -> Self {
        let mut own = Self { codes: vec![0; len], bits: 0 };
        for keys in keys.chunks(len) {
            let differing = keys.iter().fold(0, |bits, key| bits | (key ^ keys[0]));
            own.divide(keys, differing.cast_unsigned());
        }
        own
    }

    /// The code of each node.
    pub(super) fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// One more than the highest possible code.
    pub(super) const fn table_len(&self) -> usize {
        1 << self.bits
    }

    /// Divides the nodes by keys that differ in these bits.
    fn divide(&mut self, keys: &[i64], differing: u64) {
        let wanted = differing.count_ones();
        if !self.has_room(wanted) {
            self.number();
        }
        if !self.has_room(wanted) {
            return self.number_pairs(keys);
        }
        let mut left = differing;
        while left != 0 {
            let lowest = left.trailing_zeros();
            let width = (left >> lowest).trailing_ones();
            let mask = (1_u32 << width) - 1;
            for (code, key) in self.codes.iter_mut().zip(keys) {
                *code = *code << width | ((key >> lowest) as u32 & mask);
            }
            left &= !(u64::from(mask) << lowest);
        }
        self.bits += wanted;
    }

    /// Whether a table of codes with so many bits more is short enough.
    fn has_room(&self, bits: u32) -> bool {
        let most = SHORT_TABLE.max(2 * self.codes.len());
        1_usize.checked_shl(self.bits + bits).is_some_and(|len| len <= most)
    }

    /// Replaces the codes by numbers from 0 on.
    fn number(&mut self) {
        let mut numbers = vec![0; self.table_len()];
        let mut last = 0;
        for code in &mut self.codes {
            let number = &mut numbers[*code as usize];
            if *number == 0 {
                last += 1;
                *number = last;
            }
            *code = *number - 1;
        }
        self.bits = bits_of(last);
    }

    /// Replaces the codes by numbers of the pairs of code and key.
    fn number_pairs(&mut self, keys: &[i64]) {
        let (mut numbers, mut next) = (FxHashMap::default(), 0);
        for (code, key) in self.codes.iter_mut().zip(keys) {
            *code = *numbers.entry((*code, *key)).or_insert_with(|| {
                next += 1;
                next - 1
            });
        }
        self.bits = bits_of(next);
    }
}

/// Returns the number of bits of the numbers below `end`.
const fn bits_of(end: u32) -> u32 {
    u32::BITS - end.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn codes_are_equal_for_nodes_with_equal_keys(
            nodes in prop::collection::vec([0_i64..5, 0..40, -2..3, 0..300], 1..600),
            factors in prop::collection::vec(prop::sample::select(vec![0_i64, 1, -1, 1 << 31, 1 << 60]), 4),
        ) {
            let key = |node: &[i64; 4], place: usize| node[place].wrapping_mul(factors[place]);
            let keys: Vec<i64> =
                (0..4).flat_map(|place| nodes.iter().map(move |node| key(node, place))).collect();
            let key_codes = KeyCodes::of(nodes.len(), &keys);
            prop_assert!(key_codes.codes().iter().all(|code| (*code as usize) < key_codes.table_len()));
            prop_assert!(key_codes.table_len() <= SHORT_TABLE.max(2 * nodes.len()));
            let pairs: BTreeSet<_> = nodes
                .iter()
                .zip(key_codes.codes())
                .map(|(node, code)| ([0, 1, 2, 3].map(|place| key(node, place)), *code))
                .collect();
            let (keys, codes): (BTreeSet<_>, BTreeSet<_>) = pairs.iter().copied().unzip();
            prop_assert_eq!((keys.len(), codes.len()), (pairs.len(), pairs.len()));
        }
    }
}
