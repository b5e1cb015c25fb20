//! The candidates of a preemption, and the choice among them.

use std::sync::Arc;

use crate::{NodeIx, Pod, Time};

/// The pods to evict on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Victims {
    /// The pods, the most important first, or in the order of the extender that chose them.
    pub pods: Vec<Arc<Pod>>,
    /// Number of victims whose eviction violates a PodDisruptionBudget.
    pub pdb_violations: usize,
}

/// A node on which evictions make room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeIx,
    /// The pods to evict there. Empty only for a node that extenders have not been asked about yet.
    pub victims: Victims,
}

/// A criterion: the score of a candidate at a point in time. Higher is better.
pub type ScoreFunction = fn(&Candidate, Time) -> i64;

/// The criteria of DefaultPreemption, the most important first: fewest budget violations, lowest
/// priority of the most important victim, smallest sum of priorities, fewest victims, latest start
/// of the longest-running of the most important victims.
pub const ORDERED_SCORE_FUNCTIONS: [ScoreFunction; 5] = [
    fewest_pdb_violations,
    lowest_highest_priority,
    lowest_sum_of_priorities,
    fewest_victims,
    latest_start_time,
];

/// Returns the best candidate, the first of several equally good ones.
pub(super) fn best<'a>(
    candidates: &'a [Candidate],
    order: &[ScoreFunction],
    now: Time,
) -> Option<&'a Candidate> {
    let mut left: Vec<&Candidate> = candidates.iter().collect();
    for score in order {
        let most = left.iter().map(|candidate| score(candidate, now)).max()?;
        left.retain(|candidate| score(candidate, now) == most);
    }
    left.first().copied()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn fewest_pdb_violations(candidate: &Candidate, _now: Time) -> i64 {
    -count(candidate.victims.pdb_violations)
}

fn lowest_highest_priority(candidate: &Candidate, _now: Time) -> i64 {
    candidate.victims.pods.first().map_or(0, |pod| -i64::from(pod.priority()))
}

/// Sums priorities above the lowest possible priority, so that more victims of negative priority do
/// not score higher than fewer.
fn lowest_sum_of_priorities(candidate: &Candidate, _now: Time) -> i64 {
    let above_lowest = |pod: &Arc<Pod>| i64::from(pod.priority()) - i64::from(i32::MIN);
    -candidate.victims.pods.iter().map(above_lowest).sum::<i64>()
}

fn fewest_victims(candidate: &Candidate, _now: Time) -> i64 {
    -count(candidate.victims.pods.len())
}

fn latest_start_time(candidate: &Candidate, now: Time) -> i64 {
    let pods = &candidate.victims.pods;
    let highest = pods.iter().map(|pod| pod.priority()).max();
    let most_important = pods.iter().filter(|pod| Some(pod.priority()) == highest);
    let starts = most_important.map(|pod| pod.start_time.get().unwrap_or(now));
    starts.min().map_or(i64::MIN, Time::as_nanos)
}
