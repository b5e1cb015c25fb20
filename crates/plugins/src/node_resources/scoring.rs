//! The scoring strategies of NodeResourcesFit: how full a node gets with the pod.

use framework::NodeIx;

use super::args::{self, ScoringStrategy, ShapePoint};
use super::kernels::{Block, WIDTH, floor, integer};
use super::{Lane, Share};

/// How the resources of a node make a score from 0 to 100.
#[derive(Debug)]
pub(super) enum Strategy {
    /// The emptier the better: the weighted mean of what is left, in percent.
    LeastAllocated,
    /// The fuller the better: the weighted mean of what is requested, in percent.
    MostAllocated,
    /// What is requested, in percent, rated by a broken line; resources rated 0 do not count.
    RequestedToCapacityRatio(Ratings),
}

/// Ratings from 0 to 100 by utilization in percent.
#[derive(Debug)]
pub(super) struct Ratings(Box<[i64; 101]>);

impl Ratings {
    fn of(shape: &[ShapePoint]) -> Self {
        let point =
            |point: &ShapePoint| (i64::from(point.utilization), 10 * i64::from(point.score));
        let line: Vec<_> = shape.iter().map(point).collect();
        let mut utilization = 0..;
        Self(Box::new([(); 101].map(|()| broken_line(&line, utilization.next().unwrap_or(100)))))
    }

    /// The rating of a utilization from 0 to 100.
    fn get(&self, utilization: i64) -> i64 {
        usize::try_from(utilization).ok().and_then(|place| self.0.get(place)).copied().unwrap_or(0)
    }
}

/// The value at `x` of the line through `points`, level before the first and behind the last.
fn broken_line(points: &[(i64, i64)], x: i64) -> i64 {
    match points.iter().position(|(end, _)| x <= *end) {
        Some(0) => points[0].1,
        Some(next) => {
            let ((x0, y0), (x1, y1)) = (points[next - 1], points[next]);
            y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        }
        None => points.last().map_or(0, |(_, y)| *y),
    }
}

impl Strategy {
    /// The strategy of arguments that were checked.
    pub(super) fn new(args: &ScoringStrategy) -> Self {
        match (args.kind.as_str(), &args.requested_to_capacity_ratio) {
            (args::MOST_ALLOCATED, _) => Self::MostAllocated,
            (args::REQUESTED_TO_CAPACITY_RATIO, Some(parameter)) => {
                Self::RequestedToCapacityRatio(Ratings::of(&parameter.shape))
            }
            _ => Self::LeastAllocated,
        }
    }

    /// The score of one node from what counts on it.
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

    /// The same for a block of nodes; answers whether it could, see [`Block::load`].
    pub(super) fn score_block(
        &self,
        lanes: &[Lane<'_>],
        block: &mut Block,
        nodes: &[NodeIx],
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
/// Sums are integers far below 2^53, so the floor of a mean is exact for the reason given at
/// [`Block::percent`].
fn weighted_means(
    lanes: &[Lane<'_>],
    block: &mut Block,
    nodes: &[NodeIx],
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
    let weights = if lanes.is_empty() { 1.0 } else { weights };
    for (score, sum) in scores.iter_mut().zip(&sums) {
        *score = integer(floor(sum / weights));
    }
    true
}

/// Scores a block with the weighted mean of ratings above 0.
fn weighted_ratings(
    ratings: &Ratings,
    lanes: &[Lane<'_>],
    block: &mut Block,
    nodes: &[NodeIx],
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

/// `100 part / whole`, rounded down.
fn percent(part: i64, whole: i64) -> i64 {
    match part.checked_mul(100) {
        Some(hundredfold) => hundredfold / whole,
        None => i64::try_from(i128::from(part) * 100 / i128::from(whole)).unwrap_or(i64::MAX),
    }
}

/// The quotient, halves rounded away from zero.
fn rounded(sum: i64, weights: i64) -> i64 {
    (sum as f64 / weights as f64).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_is_cut_off_between_points_and_level_outside() {
        let line = [(10, 1), (90, 9)];
        for (x, y) in [(-5, 1), (0, 1), (10, 1), (15, 1), (20, 2), (89, 8), (90, 9), (99, 9)] {
            assert_eq!(broken_line(&line, x), y, "{x}");
        }
        let falling = [(0, 100), (100, 0)];
        assert_eq!([0, 1, 50, 100].map(|x| broken_line(&falling, x)), [100, 99, 50, 0]);
    }

    #[test]
    fn percentages_of_absurd_amounts_are_right() {
        assert_eq!(percent(i64::MAX, i64::MAX), 100);
        assert_eq!(percent(i64::MAX / 2, i64::MAX), 49);
        assert_eq!(percent(1, i64::MAX), 0);
    }
}
