//! Metrics of attempts, queues and plugins: kube-scheduler's, and a few of Loadmaster.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use framework::Level;
use prometheus::{Histogram, IntCounter};

use super::buckets;
use super::family::{GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec};
use super::table::{ALPHA, BETA, Declaration, STABLE, Table};

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
    pub(super) ranking_checks: IntCounterVec,
    pub(super) evictions: IntCounterVec,
    pub(super) eviction_duration: HistogramVec,
    pub(super) last_attempt: GaugeVec,
    pub(super) groups: GroupAttempts,
}

/// Metrics of attempts of groups. Without groups they have no series.
#[derive(Debug)]
pub(super) struct GroupAttempts {
    pub(super) total: IntCounterVec,
    pub(super) duration: HistogramVec,
    pub(super) algorithm: HistogramVec,
    pub(super) preemptions: IntCounterVec,
    pub(super) preemption_victims: HistogramVec,
}

impl GroupAttempts {
    fn register(table: &mut Table) -> Self {
        Self {
            total: table.counters(Declaration {
                name: "scheduler_podgroup_schedule_attempts_total",
                labels: &["result", "profile"],
                help: "Attempts to schedule pod groups. `unschedulable` is a group of which too few \
                       pods fit, `error` a failure inside the scheduler.",
                page: "absent before the first attempt of a group",
                ..ALPHA
            }),
            duration: table.histograms(Declaration {
                name: "scheduler_podgroup_scheduling_attempt_duration_seconds",
                labels: &["result", "profile"],
                help: "Time of an attempt of a pod group, until the binding cycles of its pods \
                       begin or its pods are back in the queue.",
                page: "absent before the first attempt of a group",
                ..ALPHA
            }, buckets::attempt()),
            algorithm: table.histograms(Declaration {
                name: "scheduler_podgroup_scheduling_algorithm_duration_seconds",
                help: "Time to find nodes for the pods of a pod group.",
                page: "absent before the first attempt of a group",
                ..ALPHA
            }, buckets::attempt()),
            preemptions: table.counters(Declaration {
                name: "scheduler_workload_preemption_attempts_total",
                labels: &["result"],
                help: "Searches of DefaultPreemption for victims for a pod group, by their code.",
                page: "absent before the first search for victims for a group",
                ..ALPHA
            }),
            preemption_victims: table.histograms(Declaration {
                name: "scheduler_workload_preemption_victims",
                help: "Number of pods that are evicted for a pod group.",
                page: "absent before the first preemption for a group",
                ..ALPHA
            }, buckets::GROUP_VICTIMS),
        }
    }
}

impl Attempts {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            total: table.counters(Declaration {
                name: "scheduler_schedule_attempts_total",
                labels: &["result", "profile"],
                help: "Attempts to schedule pods. `unschedulable` is a pod that fits nowhere, \
                       `error` a failure inside the scheduler.",
                page: "without rejections that only repeat the condition of the pod \
                       (`loadmaster_repeated_rejections_total`)",
                ..STABLE
            }),
            duration: table.histograms(Declaration {
                name: "scheduler_scheduling_attempt_duration_seconds",
                labels: &["result", "profile"],
                help: "Time of an attempt, from taking the pod to its bind or its failure.",
                page: "failures include the failure handler",
                ..STABLE
            }, buckets::attempt()),
            algorithm: table.histogram(Declaration {
                name: "scheduler_scheduling_algorithm_duration_seconds",
                beta_since: Some(Level::V1_37),
                help: "Time to find a node for a pod.",
                page: "ALPHA at level 1.36",
                ..ALPHA
            }, buckets::attempt()),
            pod_sli: table.histograms(Declaration {
                name: "scheduler_pod_scheduling_sli_duration_seconds",
                labels: &["attempts"],
                help: "Time from a pod's first entry into the active queue to its bind, gates \
                       excluded.",
                ..BETA
            }, buckets::pod()),
            pod_attempts: table.histogram(Declaration {
                name: "scheduler_pod_scheduling_attempts",
                help: "Attempts a pod needed until it was bound.",
                ..STABLE
            }, buckets::POD_ATTEMPTS),
            after_flush: table.counter(Declaration {
                name: "scheduler_pod_scheduled_after_flush_total",
                help: "Pods bound after having been unschedulable for so long that they were tried \
                       again without an event.",
                page: "counts; kube-scheduler never increments it",
                ..ALPHA
            }),
            permit_wait: table.histograms(Declaration {
                name: "scheduler_permit_wait_duration_seconds",
                labels: &["result"],
                help: "Time pods waited for Permit plugins.",
                ..BETA
            }, buckets::attempt()),
            event_handling: table.histograms(Declaration {
                name: "scheduler_event_handling_duration_seconds",
                labels: &["event"],
                help: "Time to process one change of the cluster.",
                page: "always the time that passed; kube-scheduler reports about 0 for most \
                       events. If an update has several events, a later one includes the time of \
                       those before it",
                ..ALPHA
            }, buckets::extension_point()),
            preemption_attempts: table.counter(Declaration {
                name: "scheduler_preemption_attempts_total",
                help: "Preemption attempts, successful or not.",
                ..STABLE
            }),
            preemption_victims: table.histogram(Declaration {
                name: "scheduler_preemption_victims",
                help: "Number of victims of a preemption.",
                ..STABLE
            }, buckets::VICTIMS),
            ranking_checks: table.counters(Declaration {
                name: "loadmaster_ranking_check_total",
                labels: &["result"],
                help: "Number of decisions by a ranking that were made again by a full pass.",
                page: "Decisions by a ranking that a full pass made again, one in 1,024, or one \
                       for each 16 nodes in a large cluster: `agrees`, or `differs`. Each that \
                       differs is a bug, and is logged",
                ..ALPHA
            }),
            evictions: table.counters(Declaration {
                name: "scheduler_preemption_goroutines_execution_total",
                labels: &["result"],
                help: "Preemptions whose evictions have ended. `error`: a victim could not be \
                       evicted.",
                page: "`error` if a victim could not be evicted; kube-scheduler always reports \
                       `success`",
                ..ALPHA
            }),
            eviction_duration: table.histograms(Declaration {
                name: "scheduler_preemption_goroutines_duration_seconds",
                labels: &["result"],
                deprecated: Some("1.37.0"),
                help: "Time from the start of a preemption to the answer to its last eviction.",
                page: "the time until the last eviction is answered; kube-scheduler reports about \
                       0. Deprecated since 1.37",
                ..ALPHA
            }, buckets::pod()),
            last_attempt: table.timestamps(Declaration {
                name: "loadmaster_last_scheduling_attempt_timestamp_seconds",
                help: "Time of the last attempt to schedule a pod, in seconds since 1970. Absent \
                       before the first attempt.",
                page: "When the last attempt to schedule a pod began. Absent before the first \
                       attempt",
                ..ALPHA
            }),
            groups: GroupAttempts::register(table),
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
    pub(super) entities: IntGaugeVec,
    pub(super) incoming_entities: IntCounterVec,
    pub(super) unschedulable: IntGaugeVec,
    pub(super) missing_nodes: IntGaugeVec,
    pub(super) in_flight: IntGaugeVec,
    pub(super) oldest: GaugeVec,
    pub(super) cache_size: IntGaugeVec,
    pub(super) goroutines: IntGaugeVec,
    /// Whether a group was queued.
    pub(super) has_groups: AtomicBool,
}

impl Queues {
    pub(super) fn register(table: &mut Table) -> Self {
        Self {
            pending: table.gauges(Declaration {
                name: "scheduler_pending_pods",
                labels: &["queue"],
                help: "Pods without a node, by queue. `active` are next, `backoff` wait out a \
                       failure, `unschedulable` wait for a change, `gated` may not be tried.",
                ..STABLE
            }),
            incoming: table.counters(Declaration {
                name: "scheduler_queue_incoming_pods_total",
                labels: &["queue", "event"],
                help: "Pods that entered a queue, by queue and event.",
                ..STABLE
            }),
            entities: table.gauges(Declaration {
                name: "scheduler_queued_entities",
                labels: &["queue", "type"],
                help: "Entities that wait, by queue: pods that are scheduled alone, and pod groups.",
                page: "`type` is `pod` or `podgroup`; without groups the same as \
                       `scheduler_pending_pods`. kube-scheduler has the metric since 1.37",
                ..ALPHA
            }),
            incoming_entities: table.counters(Declaration {
                name: "scheduler_queue_incoming_entities_total",
                labels: &["queue", "event", "type"],
                help: "Entities that entered a queue, by queue and event: pods that are scheduled \
                       alone, and pod groups.",
                page: "`type` is `pod` or `podgroup`; a group also enters when a pod joins it. \
                       kube-scheduler has the metric since 1.37",
                ..ALPHA
            }),
            unschedulable: table.gauges(Declaration {
                name: "scheduler_unschedulable_pods",
                labels: &["plugin", "profile"],
                help: "Pods a plugin keeps from being scheduled. A pod counts for every plugin \
                       that rejected it.",
                page: "updated every five seconds; counts the pods that are queued, so it does not \
                       leak. `plugin=\"PodGroups\"` has the [members of \
                       groups](groups.md) that are gated",
                ..BETA
            }),
            missing_nodes: table.gauges(Declaration {
                name: "loadmaster_pod_group_missing_nodes",
                labels: &["shape"],
                help: "Nodes that waiting PodGroups lack, by what such a node has.",
                page: "Nodes that waiting [PodGroups](guides/autoscalers.md#groups) lack, by what \
                       such a node has of the resources that they ask for; updated every five \
                       seconds",
                ..ALPHA
            }),
            in_flight: table.gauges(Declaration {
                name: "scheduler_inflight_events",
                labels: &["event"],
                help: "Events kept for pods that are being tried.",
                page: "updated every five seconds; no `PodPopped`",
                ..ALPHA
            }),
            oldest: table.timestamps(Declaration {
                name: "loadmaster_oldest_pod_timestamp_seconds",
                labels: &["queue"],
                help: "Time at which the longest waiting pod of a queue was added, or failed last, \
                       in seconds since 1970. Absent while the queue is empty.",
                page: "When the longest waiting pod of the queue was created, or failed last. \
                       Absent while the queue is empty. A pod that stays active for minutes means \
                       that the scheduler does not keep up or is held",
                ..ALPHA
            }),
            cache_size: table.gauges(Declaration {
                name: "scheduler_cache_size",
                labels: &["type"],
                help: "Nodes, pods on nodes (assumed ones among them) and assumed pods in the \
                       cache.",
                ..ALPHA
            }),
            goroutines: table.gauges(Declaration {
                name: "scheduler_goroutines",
                labels: &["operation"],
                help: "Tasks at work, by operation.",
                page: "`binding`, `PreBind` and `prioritizing_extender`; the other work is done by \
                       the scheduling loop",
                ..BETA
            }),
            has_groups: AtomicBool::new(false),
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
            point: table.histograms(Declaration {
                name: "scheduler_framework_extension_point_duration_seconds",
                labels: &["extension_point", "status", "profile"],
                help: "Time of all plugins of an extension point.",
                page: "Bind ends with the answer to the request; no series for Sign and the points \
                       of pod groups",
                ..STABLE
            }, buckets::extension_point()),
            execution: table.histograms(Declaration {
                name: "scheduler_plugin_execution_duration_seconds",
                labels: &["plugin", "extension_point", "status"],
                help: "Time of one plugin at an extension point, measured in every tenth attempt.",
                page: "one call covers all nodes; a PreBind plugin that waits is called several \
                       times; for the first pod of a template on more than 32,768 nodes there is \
                       one call for each part of the nodes; calls in dry runs of preemption are \
                       not measured, so there is no `PreFilterExtensionRemovePod`. ALPHA at level \
                       1.36",
                beta_since: Some(Level::V1_37),
                ..ALPHA
            }, buckets::plugin()),
            evaluations: table.counters(Declaration {
                name: "scheduler_plugin_evaluation_total",
                labels: &["plugin", "extension_point", "profile"],
                help: "Calls of a plugin. Filter and Score plugins are called once for all nodes.",
                page: "Filter and Score count once per attempt; one call covers all nodes, or a \
                       part of more than 32,768",
                ..BETA
            }),
            hint: table.histograms(Declaration {
                name: "scheduler_queueing_hint_execution_duration_seconds",
                labels: &["plugin", "event", "hint"],
                help: "Time of a queueing hint.",
                page: "every call is measured",
                ..ALPHA
            }, buckets::plugin()),
            volume_errors: table.counters(Declaration {
                name: "scheduler_volume_scheduling_stage_error_total",
                labels: &["operation"],
                help: "Errors of VolumeBinding.",
                ..ALPHA
            }),
            panics: table.counters(Declaration {
                name: "loadmaster_plugin_panics_total",
                labels: &["plugin"],
                help: "Panics of a plugin. Each failed one attempt.",
                page: "Panics of a plugin. Each failed one attempt",
                ..ALPHA
            }),
        }
    }
}
