//! Choices by seed.

use fastrand::Rng;

/// One of these.
pub(super) fn one_of<T: Copy, const N: usize>(rng: &mut Rng, choices: [T; N]) -> T {
    choices[rng.usize(..N)]
}

/// What comes once in so many times.
pub(super) fn once_in(rng: &mut Rng, times: u32) -> bool {
    rng.u32(..times) == 0
}
