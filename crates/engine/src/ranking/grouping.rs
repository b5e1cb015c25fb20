//! Groups of nodes with equal keys.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::Overflow;
use super::nodes::MAX_GROUPS;

/// Some nodes, numbered so that those with equal keys have the same number.
///
/// The keys come plugin by plugin. Each plugin divides the nodes that have been alike until then. Most plugins give all
/// nodes one key, and neighbours are often alike, so a node usually costs a comparison for each plugin.
#[derive(Debug)]
pub(super) struct Grouping {
    /// The number of each node.
    pub(super) numbers: Vec<u16>,
    /// For each number the place of its first node.
    pub(super) firsts: Vec<usize>,
}

impl Grouping {
    /// Groups `len` nodes, at least one. `keys` has a key of each node, plugin by plugin.
    ///
    /// # Errors
    /// [`Overflow`]: there are more groups than a ranking has.
    pub(super) fn of(len: usize, keys: &[i64]) -> Result<Self, Overflow> {
        let mut grouping = Self { numbers: vec![0; len], firsts: vec![0] };
        for keys in keys.chunks(len) {
            // Looks at all keys, because the loop compares several at once.
            let differing = keys.iter().fold(0, |bits, key| bits | (key ^ keys[0]));
            if differing != 0 {
                grouping.divide(keys, differing.cast_unsigned())?;
            }
            if grouping.firsts.len() > MAX_GROUPS {
                return Err(Overflow);
            }
        }
        Ok(grouping)
    }

    /// Divides the nodes by keys that differ in these bits.
    fn divide(&mut self, keys: &[i64], differing: u64) -> Result<(), Overflow> {
        let groups = std::mem::take(&mut self.firsts).len();
        // The keys are equal above the highest of the bits.
        let low_bits = u64::MAX >> differing.leading_zeros();
        let range = usize::try_from(low_bits).unwrap_or(usize::MAX).saturating_add(1);
        // Keys are mostly small numbers. An array of their combinations with the numbers is faster than a map of them.
        if range.saturating_mul(groups) <= 2 * keys.len() {
            let mut known = vec![None; range * groups];
            for (place, (number, key)) in self.numbers.iter_mut().zip(keys).enumerate() {
                let low = (key.cast_unsigned() & low_bits) as usize;
                let known = &mut known[usize::from(*number) * range + low];
                *number = match known {
                    Some(number) => *number,
                    None => *known.insert(new_number(&mut self.firsts, place)?),
                };
            }
            return Ok(());
        }
        let mut known = FxHashMap::default();
        let mut last = None;
        for (place, (number, key)) in self.numbers.iter_mut().zip(keys).enumerate() {
            let alike = (*number, *key);
            *number = match last {
                Some((other, number)) if other == alike => number,
                _ => match known.entry(alike) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => *new.insert(new_number(&mut self.firsts, place)?),
                },
            };
            last = Some((alike, *number));
        }
        Ok(())
    }
}

/// Returns the number of nodes of which the first is at this place.
fn new_number(firsts: &mut Vec<usize>, place: usize) -> Result<u16, Overflow> {
    let number = u16::try_from(firsts.len()).map_err(|_| Overflow)?;
    firsts.push(place);
    Ok(number)
}
