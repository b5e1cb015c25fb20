//! Draws without bias.

use std::collections::BTreeSet;

/// Draws `wanted` distinct numbers below `bound`, which is at least as high (Floyd's algorithm).
pub(super) fn distinct_below(
    bound: usize,
    wanted: usize,
    rng: &mut fastrand::Rng,
) -> BTreeSet<usize> {
    let mut drawn = BTreeSet::new();
    for highest in bound - wanted..bound {
        let number = rng.usize(..=highest);
        if !drawn.insert(number) {
            drawn.insert(highest);
        }
    }
    drawn
}
