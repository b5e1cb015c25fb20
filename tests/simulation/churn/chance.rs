//! Random choices.

use fastrand::Rng;

/// Returns one of these.
pub(super) fn one_of<T: Copy, const N: usize>(rng: &mut Rng, choices: [T; N]) -> T {
    choices[rng.usize(..N)]
}

/// Returns true once in this many calls, on average.
pub(super) fn once_in(rng: &mut Rng, times: u32) -> bool {
    rng.u32(..times) == 0
}
