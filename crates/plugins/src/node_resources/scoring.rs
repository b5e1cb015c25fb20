//! The scoring strategies of NodeResourcesFit, which rate the utilization of a node with the pod.

use super::args::{self, ScoringStrategy};
use super::kernels::{Block, BlockNodes, WIDTH, floor, integer};
use super::{Lane, Share};
use crate::shape::{Ratings, rounded};

/// A strategy that computes a score from 0 to 100.
#[derive(Debug)]
pub(super) enum Strategy {
    /// Prefers low utilization: the weighted mean of the free percentages.
    LeastAllocated,
    /// Prefers high utilization: the weighted mean of the requested percentages.
    MostAllocated,
    /// Maps the requested percentage through a piecewise linear function. Resources rated 0 do not
    /// count.
    RequestedToCapacityRatio(Ratings),
}

impl Strategy {
    /// Makes the strategy from validated arguments.
    pub(super) fn new(args: &ScoringStrategy) -> Self {
        match (args.kind.as_str(), &args.requested_to_capacity_ratio) {
            (args::MOST_ALLOCATED, _) => Self::MostAllocated,
            (args::REQUESTED_TO_CAPACITY_RATIO, Some(parameter)) => {
                Self::RequestedToCapacityRatio(Ratings::of(&parameter.shape))
            }
            _ => Self::LeastAllocated,
        }
    }

    /// Returns the score of one node from the amounts of its rated resources.
    pub(super) fn score(&self, shares: impl Iterator<Item = Share>) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for share in shares {
            let rating = self.rating(share);
            if self.counts(rating) {
                sum += rating * share.weight;
                weights += share.weight;
            }
        }
        match self {
            _ if weights == 0 => 0,
            Self::LeastAllocated | Self::MostAllocated => sum / weights,
            Self::RequestedToCapacityRatio(_) => rounded(sum, weights),
        }
    }

    fn rating(&self, share: Share) -> i64 {
        let usage = share.usage.with(share.request);
        let requested = usage.requested.clamp(0, usage.allocatable);
        match self {
            Self::LeastAllocated => percent(usage.allocatable - requested, usage.allocatable),
            Self::MostAllocated => percent(requested, usage.allocatable),
            Self::RequestedToCapacityRatio(ratings) => {
                ratings.get(percent(requested, usage.allocatable))
            }
        }
    }

    const fn counts(&self, rating: i64) -> bool {
        rating > 0 || !matches!(self, Self::RequestedToCapacityRatio(_))
    }

    /// Computes [`score`](Self::score) for a block of nodes. Returns whether the block allows it;
    /// see [`Block::load`].
    pub(super) fn score_block(
        &self,
        lanes: &[Lane<'_>],
        block: &mut Block,
        nodes: &BlockNodes<'_>,
        scores: &mut [i64],
    ) -> bool {
        let left = |allocatable, requested| allocatable - requested;
        let taken = |_, requested| requested;
        match self {
            Self::LeastAllocated => weighted_means(lanes, block, nodes, scores, left),
            Self::MostAllocated => weighted_means(lanes, block, nodes, scores, taken),
            Self::RequestedToCapacityRatio(ratings) => {
                weighted_ratings(ratings, lanes, block, nodes, scores)
            }
        }
    }
}

/// Scores a block with the weighted mean of `part` in percent of allocatable.
///
/// Sums are integers, at most 100 times the weights. A mean of sums that are greater by a half is
/// at least half a weight away from an integer, far more than the rounding error, so that the floor
/// is exact.
fn weighted_means(
    lanes: &[Lane<'_>],
    block: &mut Block,
    nodes: &BlockNodes<'_>,
    scores: &mut [i64],
    part: impl Fn(f64, f64) -> f64,
) -> bool {
    let mut sums = [0.0; WIDTH];
    let mut weights = 0.0;
    for lane in lanes {
        if !block.load(lane, nodes) {
            return false;
        }
        let weight = lane.weight as f64;
        for (sum, percent) in sums.iter_mut().zip(&block.percent(&part)) {
            *sum += percent * weight;
        }
        weights += weight;
    }
    let of_one = if lanes.is_empty() { 0.0 } else { 1.0 / weights };
    for (score, sum) in scores.iter_mut().zip(&sums) {
        *score = integer(floor((sum + 0.5) * of_one));
    }
    true
}

/// Scores a block with the weighted mean of ratings above 0.
fn weighted_ratings(
    ratings: &Ratings,
    lanes: &[Lane<'_>],
    block: &mut Block,
    nodes: &BlockNodes<'_>,
    scores: &mut [i64],
) -> bool {
    let mut sums = [(0, 0); WIDTH];
    for lane in lanes {
        if !block.load(lane, nodes) {
            return false;
        }
        let percent = block.percent(|_, requested| requested);
        for ((sum, weights), percent) in sums.iter_mut().zip(&percent) {
            let rating = ratings.get(integer(*percent));
            *sum += rating * lane.weight;
            *weights += if rating > 0 { lane.weight } else { 0 };
        }
    }
    for (score, (sum, weights)) in scores.iter_mut().zip(&sums) {
        *score = if *weights == 0 { 0 } else { rounded(*sum, *weights) };
    }
    true
}

/// Returns `100 part / whole`, rounded down.
fn percent(part: i64, whole: i64) -> i64 {
    match part.checked_mul(100) {
        Some(hundredfold) => hundredfold / whole,
        None => i64::try_from(i128::from(part) * 100 / i128::from(whole)).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_of_extreme_amounts_do_not_overflow() {
        assert_eq!(percent(i64::MAX, i64::MAX), 100);
        assert_eq!(percent(i64::MAX / 2, i64::MAX), 49);
        assert_eq!(percent(1, i64::MAX), 0);
    }
}
