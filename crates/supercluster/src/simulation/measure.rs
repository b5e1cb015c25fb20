//! Measurements of a simulation.

use std::collections::HashMap;
use std::time::Duration;

use framework::{Time, Uid};
use serde::Serialize;

/// Sums of what was measured.
#[derive(Debug, Default)]
pub struct Measurement {
    /// Number of binds up to now.
    pub(super) committed: u64,
    /// Number of binds when a pod was last sampled, and the time.
    pub(super) sampled: HashMap<Uid, (u64, Time)>,
    /// The best mean score of each cluster when it was last sampled for a pod, in thousandths.
    pub(super) best: HashMap<Uid, Vec<(usize, i64)>>,
    /// Commits of first candidates, the sum of the other commits since the sample, and of the time.
    pub(super) windows: u64,
    pub(super) others: u64,
    pub(super) window: Duration,
    pub(super) sample_regret: Mean,
    pub(super) commit_regret: Mean,
    pub(super) first_arrival: Option<Time>,
    pub(super) last_bind: Time,
}

/// A mean of whole numbers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Mean {
    sum: i64,
    count: u64,
}

impl Mean {
    pub(super) const fn add(&mut self, value: i64) {
        self.sum += value;
        self.count += 1;
    }

    /// Returns the mean, in the unit of the values divided by 1,000.
    pub(super) fn of_milli(self) -> f64 {
        self.sum as f64 / 1_000.0 / self.count.max(1) as f64
    }
}

/// Real time by kind of work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Costs {
    /// Schedulers and mirrors.
    pub schedulers: Duration,
    /// Agents.
    pub agents: Duration,
    /// API servers, and the reading of their answers and watches.
    pub servers: Duration,
}

/// The result of a simulation.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Number of pods that were bound.
    pub bound: usize,
    /// Bound pods per second of virtual time, from the first arrival to the last bind.
    pub pods_per_s: f64,
    /// Number of commit requests.
    pub commits: u64,
    /// Number of them that met a conflict.
    pub conflicts: u64,
    /// Share of the decisions of which every commit candidate failed.
    pub conflict_share: f64,
    /// Mean difference between the best score in any cluster when its sample was taken and the
    /// score of the first candidate, in points from 0 to 100.
    pub regret_mean: f64,
    /// Number of binds that left a node with less than nothing.
    pub overcommitted: u64,
    /// Number of pods that were bound more than once.
    pub bound_twice: u64,
    /// Number of binds for pods whose original was deleted and gone.
    pub bound_in_vain: u64,
    /// Number of writes that API servers carried out or refused.
    pub writes: u64,
    /// Seconds that the process took.
    pub wall_s: f64,
    /// Share of the decisions whose first candidate met a conflict.
    pub first_conflict_share: f64,
    /// Mean number of other commits between the sample and the commit of a first candidate.
    pub others_in_window: f64,
    /// Mean time from the sample to the commit of a first candidate, in milliseconds.
    pub window_ms: f64,
    /// Mean difference between the best score in any cluster at the commit and the score of the
    /// chosen node.
    pub commit_regret_mean: f64,
    /// Number of decisions.
    pub decisions: u64,
    /// Seconds of virtual time.
    pub virtual_s: f64,
}
