//! Metrics of attempts, queues and plugins: those of kube-scheduler, and a few of Loadmaster.

use std::time::Duration;

use prometheus::{Histogram, IntCounter};

use super::buckets;
use super::family::{GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec};
use super::table::Stability::{Alpha, Beta, Stable};
use super::table::Table;

/// Metrics of attempts and their pods.
#[derive(Debug)]
pub(super) struct Attempts {
    pub(super) total: IntCounterVec,
    pub(super) duration: HistogramVec,
    pub(super) algorithm: Histogram,
    pub(super) pod_sli: HistogramVec,
    pub(super) pod_attempts: Histogram,
    pub(super) after_flush: IntCounter,
    pub(super) permit_wait: HistogramVec,
    pub(super) event_handling: HistogramVec,
    pub(super) preemption_attempts: IntCounter,
    pub(super) preemption_victims: Histogram,
    pub(super) preemption_pauses: IntCounterVec,
    pub(super) ranking_checks: IntCounterVec,
    pub(super) evictions: IntCounterVec,
    pub(super) eviction_duration: HistogramVec,
    pub(super) last_attempt: GaugeVec,
}

impl Attempts {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            total: table.counters(
                Stable,
                "scheduler_schedule_attempts_total",
                "Attempts to schedule pods. `unschedulable` is a pod that fits nowhere, `error` a \
                 failure inside the scheduler.",
                &["result", "profile"],
            ),
            duration: table.histograms(
                Stable,
                "scheduler_scheduling_attempt_duration_seconds",
                "Time of an attempt, from taking the pod to its bind or its failure.",
                &["result", "profile"],
                buckets::attempt(),
            ),
            algorithm: table.histogram(
                Alpha,
                "scheduler_scheduling_algorithm_duration_seconds",
                "Time to find a node for a pod.",
                buckets::attempt(),
            ),
            pod_sli: table.histograms(
                Beta,
                "scheduler_pod_scheduling_sli_duration_seconds",
                "Time from a pod's first entry into the active queue to its bind, gates excluded.",
                &["attempts"],
                buckets::pod(),
            ),
            pod_attempts: table.histogram(
                Stable,
                "scheduler_pod_scheduling_attempts",
                "Attempts a pod needed until it was bound.",
                buckets::POD_ATTEMPTS,
            ),
            after_flush: table.counter(
                Alpha,
                "scheduler_pod_scheduled_after_flush_total",
                "Pods bound after having been unschedulable for so long that they were tried \
                 again without an event.",
            ),
            permit_wait: table.histograms(
                Beta,
                "scheduler_permit_wait_duration_seconds",
                "Time pods waited for Permit plugins.",
                &["result"],
                buckets::attempt(),
            ),
            event_handling: table.histograms(
                Alpha,
                "scheduler_event_handling_duration_seconds",
                "Time to process one change of the cluster.",
                &["event"],
                buckets::extension_point(),
            ),
            preemption_attempts: table.counter(
                Stable,
                "scheduler_preemption_attempts_total",
                "Preemption attempts, successful or not.",
            ),
            preemption_victims: table.histogram(
                Stable,
                "scheduler_preemption_victims",
                "Number of victims of a preemption.",
                buckets::VICTIMS,
            ),
            ranking_checks: table.counters(
                Alpha,
                "loadmaster_ranking_check_total",
                "Number of decisions by a ranking that were made again by a full pass.",
                &["result"],
            ),
            preemption_pauses: table.counters(
                Alpha,
                "loadmaster_preemption_pauses_total",
                "Times a pod was kept from preempting because too many preemptions led to no \
                 binding: those for the `pod` itself, or those on a `node`.",
                &["paused"],
            ),
            evictions: table.counters(
                Alpha,
                "scheduler_preemption_goroutines_execution_total",
                "Preemptions whose evictions have ended. `error`: a victim could not be evicted.",
                &["result"],
            ),
            eviction_duration: table.histograms(
                Alpha,
                "scheduler_preemption_goroutines_duration_seconds",
                "Time from the start of a preemption to the answer to its last eviction.",
                &["result"],
                buckets::pod(),
            ),
            last_attempt: table.timestamps(
                Alpha,
                "loadmaster_last_scheduling_attempt_timestamp_seconds",
                "Time of the last attempt to schedule a pod, in seconds since 1970. Absent before \
                 the first attempt.",
                &[],
            ),
        }
    }
}

/// The label value for this and higher numbers of attempts.
const MANY_ATTEMPTS: u32 = 15;

impl Attempts {
    /// Records a bound pod: its number of attempts, and the time since it first entered the active
    /// queue. `after_flush`: the pod was retried because it had been unschedulable for too long.
    pub(super) fn pod_scheduled(
        &self,
        attempts: u32,
        since_first_active: Duration,
        after_flush: bool,
    ) {
        let label = match attempts {
            MANY_ATTEMPTS.. => format!("{MANY_ATTEMPTS}+"),
            few => few.to_string(),
        };
        let sli = self.pod_sli.with_label_values(&[label.as_str()]);
        sli.observe(since_first_active.as_secs_f64());
        self.pod_attempts.observe(attempts.into());
        self.after_flush.inc_by(after_flush.into());
    }
}

/// Metrics of queues, cache and binding cycles.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) pending: IntGaugeVec,
    pub(super) incoming: IntCounterVec,
    pub(super) unschedulable: IntGaugeVec,
    pub(super) in_flight: IntGaugeVec,
    pub(super) oldest: GaugeVec,
    pub(super) cache_size: IntGaugeVec,
    pub(super) goroutines: IntGaugeVec,
}

impl Queues {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            pending: table.gauges(
                Stable,
                "scheduler_pending_pods",
                "Pods without a node, by queue. `active` are next, `backoff` wait out a failure, \
                 `unschedulable` wait for a change, `gated` may not be tried.",
                &["queue"],
            ),
            incoming: table.counters(
                Stable,
                "scheduler_queue_incoming_pods_total",
                "Pods that entered a queue, by queue and event.",
                &["queue", "event"],
            ),
            unschedulable: table.gauges(
                Beta,
                "scheduler_unschedulable_pods",
                "Pods a plugin keeps from being scheduled. A pod counts for every plugin that \
                 rejected it.",
                &["plugin", "profile"],
            ),
            in_flight: table.gauges(
                Alpha,
                "scheduler_inflight_events",
                "Events kept for pods that are being tried.",
                &["event"],
            ),
            oldest: table.timestamps(
                Alpha,
                "loadmaster_oldest_pod_timestamp_seconds",
                "Time at which the longest waiting pod of a queue was added, or failed last, in \
                 seconds since 1970. Absent while the queue is empty.",
                &["queue"],
            ),
            cache_size: table.gauges(
                Alpha,
                "scheduler_cache_size",
                "Nodes, pods on nodes (assumed ones among them) and assumed pods in the cache.",
                &["type"],
            ),
            goroutines: table.gauges(
                Beta,
                "scheduler_goroutines",
                "Tasks at work, by operation.",
                &["operation"],
            ),
        }
    }
}

/// Metrics of extension points and plugins.
#[derive(Debug)]
pub(super) struct Plugins {
    pub(super) point: HistogramVec,
    pub(super) execution: HistogramVec,
    pub(super) evaluations: IntCounterVec,
    pub(super) hint: HistogramVec,
    pub(super) volume_errors: IntCounterVec,
    pub(super) panics: IntCounterVec,
}

impl Plugins {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            point: table.histograms(
                Stable,
                "scheduler_framework_extension_point_duration_seconds",
                "Time of all plugins of an extension point.",
                &["extension_point", "status", "profile"],
                buckets::extension_point(),
            ),
            execution: table.histograms(
                Alpha,
                "scheduler_plugin_execution_duration_seconds",
                "Time of one plugin at an extension point, measured in every tenth attempt.",
                &["plugin", "extension_point", "status"],
                buckets::plugin(),
            ),
            evaluations: table.counters(
                Beta,
                "scheduler_plugin_evaluation_total",
                "Calls of a plugin. Filter and Score plugins are called once for all nodes.",
                &["plugin", "extension_point", "profile"],
            ),
            hint: table.histograms(
                Alpha,
                "scheduler_queueing_hint_execution_duration_seconds",
                "Time of a queueing hint.",
                &["plugin", "event", "hint"],
                buckets::plugin(),
            ),
            volume_errors: table.counters(
                Alpha,
                "scheduler_volume_scheduling_stage_error_total",
                "Errors of VolumeBinding.",
                &["operation"],
            ),
            panics: table.counters(
                Alpha,
                "loadmaster_plugin_panics_total",
                "Panics of a plugin. Each failed one attempt.",
                &["plugin"],
            ),
        }
    }
}
