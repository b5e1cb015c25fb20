//! Metrics of binding cycles and of the API calls of the scheduler.

use prometheus::{Histogram, IntCounter};

use super::buckets;
use super::family::{HistogramVec, IntCounterVec, IntGaugeVec};
use super::table::Stability::Alpha;
use super::table::Table;

/// Metrics of binding cycles.
#[derive(Debug)]
pub(super) struct Bindings {
    pub(super) cycles: IntGaugeVec,
    pub(super) unknown: IntCounter,
    pub(super) errors: IntCounterVec,
    pub(super) decision_age: Histogram,
}

impl Bindings {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            cycles: table.gauges(
                Alpha,
                "loadmaster_binding_cycles",
                "Pods in the binding cycle, by phase. `unknown`: the answer to a request to bind was \
                 lost, and the pod may be bound or not.",
                &["phase"],
            ),
            unknown: table.counter(
                Alpha,
                "loadmaster_binds_of_unknown_outcome_total",
                "Requests to bind whose answer was lost.",
            ),
            errors: table.counters(
                Alpha,
                "loadmaster_binding_errors_total",
                "Binding cycles that ended with an error of PreBind or Bind, by namespace of the pod. \
                 After a hundred namespaces, further ones count as `(other)`.",
                &["pod_namespace"],
            ),
            decision_age: table.histogram(
                Alpha,
                "loadmaster_decision_age_seconds",
                "Time from the start of an attempt, whose state the decision is based on, to the first \
                 request to bind the pod.",
                buckets::attempt(),
            ),
        }
    }
}

/// Metrics of the API calls of the scheduler.
#[derive(Debug)]
pub(super) struct ApiCalls {
    pub(super) executions: IntCounterVec,
    pub(super) duration: HistogramVec,
    pub(super) pending: IntGaugeVec,
    pub(super) unfinished: IntGaugeVec,
}

impl ApiCalls {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            executions: table.counters(
                Alpha,
                "scheduler_async_api_call_execution_total",
                "API calls that ended, by kind and result.",
                &["call_type", "result"],
            ),
            duration: table.histograms(
                Alpha,
                "scheduler_async_api_call_execution_duration_seconds",
                "Time from the first request of an API call to its end, retries included.",
                &["call_type", "result"],
                buckets::attempt(),
            ),
            pending: table.gauges(
                Alpha,
                "scheduler_pending_async_api_calls",
                "API calls that are not in flight: waiting or backing off.",
                &["call_type"],
            ),
            unfinished: table.gauges(
                Alpha,
                "loadmaster_api_calls",
                "API calls that have not ended, by kind and state.",
                &["call_type", "state"],
            ),
        }
    }
}
