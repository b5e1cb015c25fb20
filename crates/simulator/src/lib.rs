//! Scheduling of recorded clusters, and reports.
//!
//! - [`trace`]: recorded clusters; [`replay`] and [`inflation`] schedule them, as recorded or drawn
//!   to a chosen size; [`moves`] make room for pods that fit nowhere.
//! - [`report`]: the results of traces and of [`dry_run`] as text, JSON and plots.
//!
//! This crate reads only the CSV files of traces.

pub mod inflation;
pub mod moves;
pub mod replay;
pub mod report;
pub mod trace;

use dry_run::PodHistory;
use serde::Serialize;

use report::allocation::Sample;
use report::waiting::{Moment, Wait};

/// The number of pods of a trace, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Pods that arrived.
    pub arrived: usize,
    /// Pods placed at the first attempt.
    pub at_once: usize,
    /// Pods placed at a later attempt.
    pub after_waiting: usize,
    /// Pods that were never placed.
    pub never: usize,
    /// Moves of placed pods that made room for others.
    pub moves: usize,
}

impl Tally {
    /// Counts a pod that was placed.
    fn place(&mut self, history: &PodHistory) {
        match history.attempts {
            0 | 1 => self.at_once += 1,
            _ => self.after_waiting += 1,
        }
        self.count_never();
    }

    /// Counts a pod that was placed after moves of others.
    const fn place_after_moves(&mut self) {
        self.after_waiting += 1;
        self.count_never();
    }

    const fn count_never(&mut self) {
        self.never = self.arrived - self.at_once - self.after_waiting;
    }

    /// Counts a pod that arrived.
    fn arrive(&mut self) {
        self.arrived += 1;
        self.never += 1;
    }
}

/// One run of a trace.
#[derive(Debug, Clone)]
pub struct Course {
    /// The seed of the run.
    pub seed: u64,
    /// The number of pods by outcome.
    pub tally: Tally,
    /// The state of the cluster after each arrival.
    pub samples: Vec<Sample>,
    /// The state of a replay after each arrival and departure; empty without times.
    pub moments: Vec<Moment>,
    /// The wait of each placed pod of a replay.
    pub waits: Vec<Wait>,
    /// Seconds from the first to the last arrival of a replay.
    pub last_arrival: u64,
    /// A warning for each plugin that panicked or was slow.
    pub warnings: Vec<String>,
}

/// An observer of how far a run has come.
pub trait Progress: Sync {
    /// Announces this many further arrivals.
    fn expect(&self, arrivals: usize);
    /// Reports that one arrival was handled.
    fn arrived(&self);
}

/// Ignores progress.
impl Progress for () {
    fn expect(&self, _arrivals: usize) {}
    fn arrived(&self) {}
}
