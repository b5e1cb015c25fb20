//! Groups of nodes with equal keys.

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
    pub(super) numbers: Vec<usize>,
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
            if keys.iter().any(|key| *key != keys[0]) {
                grouping.divide(keys);
            }
            if grouping.firsts.len() > MAX_GROUPS {
                return Err(Overflow);
            }
        }
        Ok(grouping)
    }

    fn divide(&mut self, keys: &[i64]) {
        let firsts = &mut self.firsts;
        firsts.clear();
        let mut known = FxHashMap::default();
        let mut last = None;
        for (place, (number, key)) in self.numbers.iter_mut().zip(keys).enumerate() {
            let alike = (*number, *key);
            *number = match last {
                Some((other, number)) if other == alike => number,
                _ => *known.entry(alike).or_insert_with(|| {
                    firsts.push(place);
                    firsts.len() - 1
                }),
            };
            last = Some((alike, *number));
        }
    }
}
