//! The result of comparing the cache with the API server.

use super::family::IntGaugeVec;
use super::table::Stability::Alpha;
use super::table::Table;
use super::{Metrics, set_sizes};

pub(super) fn register(table: &mut Table) -> IntGaugeVec {
    table.gauges(
        Alpha,
        "loadmaster_cache_mismatches",
        "Objects in the cache but not in the API server, or the other way round, at the last comparison.",
        &["kind"],
    )
}

impl Metrics {
    /// Sets the numbers of nodes and pods in which cache and API server differ.
    pub fn set_cache_mismatches(&self, nodes: usize, pods: usize) {
        set_sizes(&self.cache_mismatches, [("nodes", nodes), ("pods", pods)]);
    }
}
