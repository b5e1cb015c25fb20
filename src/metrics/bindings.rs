//! Metrics of binding cycles and of the API calls of the scheduler.

use prometheus::Histogram;

use super::buckets;
use super::family::{HistogramVec, IntCounterVec, IntGaugeVec};
use super::table::{ALPHA, Declaration, Table};

/// Metrics of binding cycles.
#[derive(Debug)]
pub(super) struct Bindings {
    pub(super) cycles: IntGaugeVec,
    pub(super) errors: IntCounterVec,
    pub(super) decision_age: Histogram,
}

impl Bindings {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            cycles: table.gauges(Declaration {
                name: "loadmaster_binding_cycles",
                labels: &["phase"],
                help: "Pods in the binding cycle, by phase. `unknown`: the answer to a request to \
                       bind was lost, and the pod may be bound or not.",
                page: "Pods in the binding cycle",
                ..ALPHA
            }),
            errors: table.counters(Declaration {
                name: "loadmaster_binding_errors_total",
                labels: &["pod_namespace"],
                help: "Binding cycles that ended with an error of PreBind or Bind, by namespace of \
                       the pod. After a hundred namespaces, further ones count as `(other)`.",
                page: "Binding cycles that ended with an error of PreBind or Bind. Rejections and \
                       preempted pods do not count. After a hundred namespaces, further ones count \
                       as `(other)`",
                ..ALPHA
            }),
            decision_age: table.histogram(Declaration {
                name: "loadmaster_decision_age_seconds",
                help: "Time from the start of an attempt, whose state the decision is based on, to \
                       the first request to bind the pod.",
                page: "Time from the start of an attempt, whose state the decision is based on, to \
                       the first request to bind the pod: the search, the waits in Permit and \
                       PreBind, and the wait for the limits of requests. Reported when the bind \
                       has ended",
                ..ALPHA
            }, buckets::attempt()),
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
            executions: table.counters(Declaration {
                name: "scheduler_async_api_call_execution_total",
                labels: &["call_type", "result"],
                help: "API calls that ended, by kind and result.",
                page: "exported without gate SchedulerAsyncAPICalls; more [kinds of \
                       calls](#labels)",
                ..ALPHA
            }),
            duration: table.histograms(Declaration {
                name: "scheduler_async_api_call_execution_duration_seconds",
                labels: &["call_type", "result"],
                help: "Time from the first request of an API call to its end, retries included.",
                page: "exported without gate SchedulerAsyncAPICalls; more [kinds of \
                       calls](#labels)",
                ..ALPHA
            }, buckets::attempt()),
            pending: table.gauges(Declaration {
                name: "scheduler_pending_async_api_calls",
                labels: &["call_type"],
                help: "API calls that are not in flight: waiting or backing off.",
                page: "exported without gate SchedulerAsyncAPICalls; more [kinds of \
                       calls](#labels)",
                ..ALPHA
            }),
            unfinished: table.gauges(Declaration {
                name: "loadmaster_api_calls",
                labels: &["call_type", "state"],
                help: "API calls that have not ended, by kind and state.",
                page: "API calls that have not ended",
                ..ALPHA
            }),
        }
    }
}
