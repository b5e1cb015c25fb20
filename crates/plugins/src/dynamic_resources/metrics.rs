//! Metrics of the plugin, under their names in kube-scheduler.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::device::ResourceClaim;
use framework::{Behaviours, CounterVec, HistogramVec, Metric, Time};

/// The metrics of a profile. They are exported with the name of the profile as a label.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    creates: Arc<CounterVec>,
    waits: Arc<HistogramVec>,
    waited: Arc<CounterVec>,
    /// Whether the counter of claims has the owner in its labels.
    names_owners: bool,
}

impl Metrics {
    /// Returns the metrics of a level.
    pub(super) fn of(behaviours: Behaviours) -> Self {
        let labels = ["driver", "status"];
        let mut bound = 0.1;
        let bounds: Vec<f64> = std::iter::repeat_with(|| {
            bound *= 2.0;
            bound / 2.0
        })
        .take(14)
        .collect();
        Self {
            creates: match behaviours.claim_counter_names_owners {
                false => CounterVec::new(
                    "scheduler_resourceclaim_creates_total",
                    "[ALPHA] Number of ResourceClaims creation requests within scheduler",
                    &["status"],
                ),
                true => CounterVec::new(
                    "dynamic_resource_allocation_resourceclaim_creates_total",
                    "[ALPHA] Number of ResourceClaims creation requests, by the owner of the claim",
                    &["status", "owner_api_group", "owner_api_kind"],
                ),
            },
            names_owners: behaviours.claim_counter_names_owners,
            waits: HistogramVec::new(
                "scheduler_dra_bindingconditions_wait_duration_seconds",
                "[ALPHA] Time in seconds spent waiting for the binding conditions of devices.",
                &labels,
                &bounds,
            ),
            waited: CounterVec::new(
                "scheduler_dra_bindingconditions_allocations_total",
                "[ALPHA] Number of allocations that waited for the binding conditions of devices.",
                &labels,
            ),
        }
    }
}

/// The end of a wait for binding conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All conditions are true.
    Success,
    /// A driver reported a failure.
    Failure,
    /// The conditions did not become true in time.
    Timeout,
}

impl Ended {
    const fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Timeout => "timeout",
        }
    }
}

impl Metrics {
    /// Returns the metrics to export.
    pub(super) fn all(&self) -> [Metric; 3] {
        [Metric::from(&self.creates), Metric::from(&self.waits), Metric::from(&self.waited)]
    }

    /// Counts a request that creates a claim.
    pub(super) fn claim_created(&self, successfully: bool) {
        let status = if successfully { "success" } else { "failure" };
        // The owner is the pod, whose group has no name.
        let labels = [status, "", "Pod"];
        let labels = if self.names_owners { &labels[..] } else { &labels[..1] };
        self.creates.with_label_values(labels).inc();
    }

    /// Counts the end of a wait for binding conditions, once for each driver.
    pub(super) fn conditions_ended<'a>(
        &self,
        claims: impl Iterator<Item = &'a ResourceClaim>,
        [since, now]: [Time; 2],
        ended: Ended,
    ) {
        let results = claims.filter_map(|claim| claim.allocation.as_ref());
        let results = results.flat_map(|allocation| &allocation.results);
        let conditional = results.filter(|result| !result.binding_conditions.is_empty());
        let drivers: BTreeSet<&str> = conditional.map(|result| &*result.id.driver).collect();
        for driver in drivers {
            let labels = [driver, ended.label()];
            self.waited.with_label_values(&labels).inc();
            self.waits.with_label_values(&labels).observe(now.since(since).as_secs_f64());
        }
    }
}
