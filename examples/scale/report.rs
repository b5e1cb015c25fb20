//! The figures of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use crate::template::Template;

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
    /// Templates of which a pod was decided. The first one looks at every node.
    pub(crate) first_pods: usize,
    /// The times of the first pods, without those with requests that no earlier pod had.
    pub(crate) first_pod_p50_ns_a_node: f64,
    pub(crate) first_pod_p99_ns_a_node: f64,
    /// The times of the first pods with requests that no earlier pod had.
    pub(crate) new_requests: usize,
    pub(crate) new_requests_p50_ns_a_node: f64,
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
        let at = |share: f64| round(percentile(&times, share).as_secs_f64() * 1e6);
        let all: Duration = times.iter().sum();
        self.decisions = times.len();
        self.decisions_per_s = round(times.len() as f64 / all.as_secs_f64().max(f64::EPSILON));
        self.mean_us = round(all.as_secs_f64() * 1e6 / times.len().max(1) as f64);
        (self.p50_us, self.p99_us, self.max_us) = (at(0.5), at(0.99), at(1.0));
    }

    /// Adds the times of the first pods of templates.
    pub(crate) fn first_pods_decided(&mut self, mut first: FirstPods) {
        first.times.sort_unstable();
        first.with_new_requests.sort_unstable();
        let nodes = f64::from(self.nodes);
        let at =
            |times: &[Duration], share| round(percentile(times, share).as_secs_f64() * 1e9 / nodes);
        self.first_pods = first.templates.len();
        self.first_pod_p50_ns_a_node = at(&first.times, 0.5);
        self.first_pod_p99_ns_a_node = at(&first.times, 0.99);
        self.new_requests = first.with_new_requests.len();
        self.new_requests_p50_ns_a_node = at(&first.with_new_requests, 0.5);
    }
}

/// The first decisions about pods of each template.
#[derive(Debug, Default)]
pub(crate) struct FirstPods {
    templates: BTreeSet<usize>,
    /// Milli-CPU and MiB.
    requests: BTreeSet<(i64, i64)>,
    /// Times with requests that an earlier pod had.
    times: Vec<Duration>,
    /// Times with other requests.
    with_new_requests: Vec<Duration>,
}

impl FirstPods {
    /// Handles the time of a decision.
    pub(crate) fn decided(&mut self, number: usize, template: &Template, took: Duration) {
        if !self.templates.insert(number) {
            return;
        }
        match self.requests.insert((template.cpu, template.memory)) {
            true => self.with_new_requests.push(took),
            false => self.times.push(took),
        }
    }
}

/// Returns the time that this share of the sorted times does not exceed.
fn percentile(times: &[Duration], share: f64) -> Duration {
    let place = (times.len() as f64 * share) as usize;
    times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Rounds to hundredths.
pub(crate) fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
