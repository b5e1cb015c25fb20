//! The figures of a run.

use std::time::Duration;

use serde::Serialize;

/// The line that is printed. Times of decisions are those from the queue to the emitted request.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) nodes: u32,
    pub(crate) pods: u32,
    pub(crate) templates: u32,
    pub(crate) shape: String,
    pub(crate) seed: u64,
    /// Pods that have a node at the end.
    pub(crate) bound: usize,
    pub(crate) decisions: usize,
    pub(crate) decisions_per_s: f64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// Share of the decisions that were made by rankings.
    pub(crate) ranked_share: f64,
    pub(crate) evictions: usize,
    /// Time of the whole run, with the creation of nodes and pods.
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) peak_rss_mib: f64,
    /// Changes that were recorded, and the size of the file.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) recorded_changes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) recorded_bytes: u64,
    /// Placements that break a rule.
    pub(crate) rules_broken: u64,
}

impl Report {
    /// Adds the times of decisions.
    pub(crate) fn decided(&mut self, mut times: Vec<Duration>) {
        times.sort_unstable();
        let micros = |time: Duration| round(time.as_secs_f64() * 1e6);
        let at = |share: f64| {
            let place = (times.len() as f64 * share) as usize;
            times.get(place.min(times.len().saturating_sub(1))).copied().map_or(0.0, micros)
        };
        let all: Duration = times.iter().sum();
        self.decisions = times.len();
        self.decisions_per_s = round(times.len() as f64 / all.as_secs_f64().max(f64::EPSILON));
        self.mean_us = round(all.as_secs_f64() * 1e6 / times.len().max(1) as f64);
        (self.p50_us, self.p99_us, self.max_us) = (at(0.5), at(0.99), at(1.0));
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Rounds to hundredths.
pub(crate) fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
