//! Metrics of the placements of pod groups.

use super::buckets;
use super::family::{HistogramVec, IntCounterVec};
use super::table::{ALPHA, Declaration, Table};

/// Metrics of the placements that a pod group may have, such as racks.
#[derive(Debug)]
pub(super) struct Placements {
    pub(super) generated: IntCounterVec,
    pub(super) evaluations: IntCounterVec,
    pub(super) duration: HistogramVec,
}

impl Placements {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            generated: table.counters(Declaration {
                name: "scheduler_generated_placements_total",
                labels: &["profile"],
                help: "Placements that pod groups might have had, such as racks.",
                ..ALPHA
            }),
            evaluations: table.counters(Declaration {
                name: "scheduler_placement_evaluations_total",
                labels: &["result", "profile"],
                help: "Placements that were tried for pod groups. `feasible`: the group fits; \
                       `infeasible`: it does not.",
                page: "without the placements that cannot hold the group by their free resources, \
                       or that cannot be the best; kube-scheduler tries all",
                ..ALPHA
            }),
            duration: table.histograms(
                Declaration {
                    name: "scheduler_placement_evaluation_duration_seconds",
                    labels: &["result", "profile"],
                    help: "Time to try a placement for a pod group.",
                    ..ALPHA
                },
                buckets::attempt(),
            ),
        }
    }
}
