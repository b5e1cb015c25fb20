//! What came of a run.

use serde::Serialize;

/// The line that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// Number of bound pods.
    pub(super) bound: usize,
    /// Bound pods per second, from the first creation to the last bind.
    pub(super) pods_per_s: f64,
    /// Number of commit requests that were answered.
    pub(super) commits: u64,
    /// Number of them that met a conflict.
    pub(super) conflicts: u64,
    /// Share of the attempts in which every commit candidate failed.
    pub(super) conflict_share: f64,
    /// Not measured: no process sees all nodes at the time of a decision.
    pub(super) regret_mean: Option<f64>,
    /// Number of nodes with more pods than they have room for.
    pub(super) overcommitted: usize,
    /// Number of pods with more than one bound delegate.
    pub(super) bound_twice: usize,
    /// Seconds from the first creation to the last bind.
    pub(super) wall_s: f64,
    /// CPU time in that time and until the last placement was written.
    pub(super) cpu_s: CpuSeconds,
}

/// Seconds of CPU time of all processes of a kind.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CpuSeconds {
    pub(super) schedulers: f64,
    pub(super) agents: f64,
    /// The API servers of all clusters, and the creation of pods.
    pub(super) api_servers: f64,
}

impl CpuSeconds {
    pub(super) fn since(self, before: &Self) -> Self {
        let rounded = |now: f64, before: f64| ((now - before) * 100.0).round() / 100.0;
        Self {
            schedulers: rounded(self.schedulers, before.schedulers),
            agents: rounded(self.agents, before.agents),
            api_servers: rounded(self.api_servers, before.api_servers),
        }
    }
}
