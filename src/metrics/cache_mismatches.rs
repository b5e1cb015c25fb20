//! The result of comparing the cache with the API server.

use super::family::IntGaugeVec;
use super::table::{ALPHA, Declaration, Table};
use super::{Metrics, set_sizes};

pub(super) fn register(table: &mut Table) -> IntGaugeVec {
    table.gauges(Declaration {
        name: "loadmaster_cache_mismatches",
        labels: &["kind"],
        help: "Objects in the cache but not in the API server, or the other way round, at the last \
               comparison.",
        page: "Nodes and pods in which the cache and the API server differed at the last \
               [comparison](operations.md#sigusr2)",
        ..ALPHA
    })
}

impl Metrics {
    /// Sets the numbers of nodes and pods in which cache and API server differ.
    pub fn set_cache_mismatches(&self, nodes: usize, pods: usize) {
        set_sizes(&self.cache_mismatches, [("nodes", nodes), ("pods", pods)]);
    }
}
