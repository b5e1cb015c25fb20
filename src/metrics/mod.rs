//! Metrics, with the names, labels and buckets of kube-scheduler.
//!
//! [`Metrics`] is shared between threads: counters are atomics, and [`Metrics::render`] reads them.
//! The engine reports through its [`EngineProbe`]; sizes are set about once a second.

mod bindings;
mod buckets;
mod cache_mismatches;
mod clusters;
mod delegated_auth;
mod engine_counters;
mod family;
mod leader_election;
mod placements;
mod plugin_metrics;
mod probe;
mod process;
mod quotas;
mod resources;
mod rest_client;
mod scheduler;
mod selection;
mod slis;
mod table;
mod text;
mod watches;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use control::api_dispatcher::{CallCounts, CallState, CallType};
use control::event_recorder::DropCause;
use control::scheduler::Hold;
use engine::BindingPhases;
use engine::profile::Profiles;
use engine::queue::QueuedGroupCounts;
use framework::{ExtensionPoint, Level, Metric};
use prometheus::{IntCounter, IntGauge, Registry};

pub use clusters::{ClusterMetrics, MemberMetrics};
pub use delegated_auth::{Authentication, Authorization, DelegatedAuth};
pub use plugin_metrics::ExportError;
pub use probe::EngineProbe;
pub use resources::PodResources;
pub use rest_client::RestClient;
pub use selection::Selection;
pub use slis::Slis;
pub use text::CONTENT_TYPE;
pub use watches::{InformerQueue, QueuedItems, WatchMetrics};

use crate::config::Gates;
use crate::config::gates::Stage;
use crate::wire::WatchedKind;
use bindings::{ApiCalls, Bindings};
use engine_counters::EngineCounters;
use family::{IntCounterVec, IntGaugeVec};
use leader_election::LeaderElection;
use placements::Placements;
use plugin_metrics::PluginMetrics;
use scheduler::{Attempts, Plugins, Queues};
use table::{ALPHA, BETA, Declaration, Registered, Resettable, Table};
use watches::Watches;

/// The extension points at which calls of plugins are counted.
const EVALUATED: [ExtensionPoint; 4] = [
    ExtensionPoint::PreFilter,
    ExtensionPoint::Filter,
    ExtensionPoint::PreScore,
    ExtensionPoint::Score,
];

/// The types of an entity in a queue.
const POD: &str = "pod";
const POD_GROUP: &str = "podgroup";

/// The number of pods without a node, by queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// Pods in the active queue.
    pub active: usize,
    /// Pods in backoff.
    pub backoff: usize,
    /// Pods that wait for a cluster event, without gated pods.
    pub unschedulable: usize,
    /// Pods that a PreEnqueue plugin gates.
    pub gated: usize,
    /// The groups among them.
    pub groups: QueuedGroupCounts,
}

/// The size of the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheSize {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of pods on nodes, including assumed pods.
    pub pods: usize,
    /// Number of pods whose bind is not confirmed.
    pub assumed_pods: usize,
}

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    selection: Selection,
    /// All metrics in the registry.
    registered: Vec<Registered>,
    versions: Versions,
    attempts: Attempts,
    queues: Queues,
    quotas: quotas::Quotas,
    placements: Placements,
    plugins: Plugins,
    bindings: Bindings,
    engine: EngineCounters,
    api_calls: ApiCalls,
    watches: Watches,
    clusters: ClusterMetrics,
    rest_client: RestClient,
    delegated_auth: DelegatedAuth,
    leader_election: LeaderElection,
    features: IntGaugeVec,
    undecodable_objects: IntCounterVec,
    events_dropped: IntCounterVec,
    cache_mismatches: IntGaugeVec,
    waiting_updates: IntGauge,
    holds: IntGaugeVec,
    extenders: IntGaugeVec,
    recorded_bytes: IntCounter,
    recordings_ended: IntCounterVec,
    trace_spans: IntCounterVec,
    plugin_metrics: PluginMetrics,
    resettable: Vec<Resettable>,
    resets: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates all metrics with the value 0.
    pub fn new() -> Self {
        Self::at(Level::default(), Selection::default())
    }

    /// Creates the metrics of a selection with the value 0, as kube-scheduler has them at a level.
    pub fn at(level: Level, selection: Selection) -> Self {
        let mut table = Table::new(level, selection.clone());
        table.process(process::Process::new());
        let versions = Versions::register(&mut table);
        let attempts = Attempts::register(&mut table);
        let queues = Queues::register(&mut table);
        let quotas = quotas::Quotas::register(&mut table);
        let placements = Placements::register(&mut table);
        let plugins = Plugins::register(&mut table);
        let bindings = Bindings::register(&mut table);
        let engine = EngineCounters::register(&mut table);
        let api_calls = ApiCalls::register(&mut table);
        let watches = Watches::register(&mut table);
        let clusters = ClusterMetrics::register(&mut table);
        let rest_client = RestClient::register(&mut table);
        let delegated_auth = DelegatedAuth::register(&mut table);
        let leader_election = LeaderElection::register(&mut table);
        let features = table.gauges(Declaration {
            name: "kubernetes_feature_enabled",
            labels: &["name", "stage"],
            help: "Feature gates, 1 for those that are on.",
            ..BETA
        });
        let undecodable_objects = table.counters(Declaration {
            name: "loadmaster_undecodable_objects_total",
            labels: &["resource"],
            help: "Objects that were skipped because they could not be decoded.",
            page: "Versions of objects that cannot be decoded; the last readable version stays",
            ..ALPHA
        });
        let events_dropped = table.counters(Declaration {
            name: "loadmaster_events_dropped_total",
            labels: &["reason", "cause"],
            help: "Events that were not written, by their reason and by the cause.",
            page: "Events that were not written: by their own reason (`Scheduled`), and because \
                   too many were waiting (`backlog`), the API server rejected them (`rejected`) or \
                   every try failed (`retries`)",
            ..ALPHA
        });
        // An alert does not see an increase from an absent series.
        for reason in ["FailedScheduling", "Preempted", "Scheduled"] {
            for cause in DropCause::ALL {
                events_dropped.with_label_values(&[reason, cause.name()]);
            }
        }
        let cache_mismatches = cache_mismatches::register(&mut table);
        let waiting_updates = table.gauge(Declaration {
            name: "loadmaster_waiting_updates",
            help: "Changes of objects that were received and that the scheduling loop has not \
                   taken in.",
            page: "Changes that were received and that the scheduling loop has not taken in. At \
                   16,384 the watches wait",
            ..ALPHA
        });
        let holds = table.gauges(Declaration {
            name: "loadmaster_scheduling_held",
            labels: &["reason"],
            help: "1 if no pod is scheduled for this reason.",
            page: "1 if no pod is scheduled for this reason, otherwise 0",
            ..ALPHA
        });
        let extenders = table.gauges(Declaration {
            name: "loadmaster_extender_up",
            labels: &["extender"],
            help: "0 if the extender does not answer and is not called until it does, otherwise 1.",
            page: "0 if the extender does not answer and is not called until it does \
                   ([extenders](operations.md#extenders)), otherwise 1",
            ..ALPHA
        });
        let recorded_bytes = table.counter(Declaration {
            name: "loadmaster_recorded_bytes_total",
            help: "Bytes that --record has written.",
            page: "Bytes that [`--record`](recording.md) has written",
            ..ALPHA
        });
        let recordings_ended = table.counters(Declaration {
            name: "loadmaster_recordings_ended_total",
            labels: &["cause"],
            help: "Recordings that ended although the scheduler goes on, by cause: disk or \
                   backlog.",
            page: "Recordings that ended although the scheduler goes on: `disk` if they could not \
                   be written, `backlog` if the disk was too slow",
            ..ALPHA
        });
        for cause in ["disk", "backlog"] {
            recordings_ended.with_label_values(&[cause]);
        }
        let trace_spans = table.counters(Declaration {
            name: "loadmaster_trace_spans_total",
            labels: &["result"],
            help: "Spans of traced pods, by what became of them: exported, failed or queue_full.",
            page: "Spans of [traced pods](tracing.md): `exported`, `failed` if the collector did \
                   not take them, `queue_full` if too many were waiting",
            ..ALPHA
        });
        for result in ["exported", "failed", "queue_full"] {
            trace_spans.with_label_values(&[result]);
        }
        let resettable = table.take_resettable();
        let (registry, registered) = table.finish();
        let plugin_metrics = PluginMetrics::default();
        let metrics = Self {
            registry,
            selection,
            registered,
            versions,
            attempts,
            queues,
            quotas,
            placements,
            plugins,
            bindings,
            engine,
            api_calls,
            watches,
            clusters,
            rest_client,
            delegated_auth,
            leader_election,
            features,
            undecodable_objects,
            events_dropped,
            cache_mismatches,
            waiting_updates,
            holds,
            extenders,
            recorded_bytes,
            recordings_ended,
            trace_spans,
            plugin_metrics,
            resettable,
            resets: AtomicU64::new(0),
        };
        metrics.versions.set(&Gates::default());
        metrics.set_pending(Pending::default());
        metrics
    }

    /// Renders all metrics in the text format of Prometheus, sorted by name.
    pub fn render(&self) -> String {
        let mut families = self.registry.gather();
        families.extend(self.plugin_metrics.collect());
        families.retain(|family| !self.selection.disables(family.name()));
        families.sort_by(|a, b| a.name().cmp(b.name()));
        text::render(&families)
    }

    /// Removes the series of all counters and histograms with labels. Gauges keep their values,
    /// which describe the present, and so do plugins' own metrics.
    pub fn reset(&self) {
        self.resettable.iter().for_each(Resettable::reset);
        self.resets.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of resets. A reset detaches the series that were resolved before.
    fn resets(&self) -> u64 {
        self.resets.load(Ordering::Relaxed)
    }

    /// Returns the metrics of the scheduler over many clusters.
    pub fn clusters(&self) -> ClusterMetrics {
        self.clusters.clone()
    }

    /// Returns the metrics of requests to the API server.
    pub fn rest_client(&self) -> RestClient {
        self.rest_client.clone()
    }

    /// Returns the metrics of callers of the endpoints.
    pub fn delegated_auth(&self) -> DelegatedAuth {
        self.delegated_auth.clone()
    }

    /// Counts spans of traced pods: `exported`, `failed` or `queue_full`.
    pub fn count_spans(&self, result: &str, number: usize) {
        self.trace_spans.with_label_values(&[result]).inc_by(number as u64);
    }

    /// Sets `pending_pods`.
    pub fn set_pending(&self, pending: Pending) {
        let Pending { active, backoff, unschedulable, gated, groups } = pending;
        let sizes = [
            ("active", active, groups.active),
            ("backoff", backoff, groups.backoff),
            ("unschedulable", unschedulable, groups.unschedulable),
            ("gated", gated, groups.gated),
        ];
        set_sizes(&self.queues.pending, sizes.map(|(queue, size, _)| (queue, size)));
        for (queue, size, own) in sizes {
            let set = |kind: &str, size: usize| {
                self.queues.entities.with_label_values(&[queue, kind]).set(gauge(size));
            };
            set(POD, size - own.pods);
            if groups != QueuedGroupCounts::default()
                || self.queues.has_groups.load(Ordering::Relaxed)
            {
                self.queues.has_groups.store(true, Ordering::Relaxed);
                set(POD_GROUP, own.groups);
            }
        }
    }

    /// Sets `cache_size`.
    pub fn set_cache_size(&self, size: CacheSize) {
        let CacheSize { nodes, pods, assumed_pods } = size;
        let sizes = [("nodes", nodes), ("pods", pods), ("assumed_pods", assumed_pods)];
        set_sizes(&self.queues.cache_size, sizes);
    }

    /// Returns the metrics of the watch of a kind, which starts now.
    pub fn watch(&self, kind: &WatchedKind) -> WatchMetrics {
        self.watches.watch(kind)
    }

    /// Records that the objects of a feed were read (`nodes.metrics.k8s.io`).
    pub fn feed_read(&self, resource: &str) {
        self.watches.feed_read(resource);
    }

    /// Counts a round of a feed that failed.
    pub fn feed_failed(&self, resource: &str) {
        self.watches.feed_failed(resource);
    }

    /// Sets whether a kind is read without which pods are scheduled.
    pub fn set_read(&self, resource: &str, is_read: bool) {
        self.watches.set_read(resource, is_read);
    }

    /// Sets `binding_cycles`, and `goroutines` of operations `binding` and `PreBind`.
    pub fn set_binding_phases(&self, phases: BindingPhases) {
        let BindingPhases { permit, pre_bind, bind, unknown, pre_bind_plugins } = phases;
        let cycles =
            [("permit", permit), ("pre_bind", pre_bind), ("bind", bind), ("unknown", unknown)];
        set_sizes(&self.bindings.cycles, cycles);
        let running = permit + pre_bind + bind + unknown;
        set_sizes(&self.queues.goroutines, [("binding", running), ("PreBind", pre_bind_plugins)]);
    }

    /// Sets `api_calls` and `pending_async_api_calls`.
    pub fn set_api_calls(&self, counts: &CallCounts) {
        for call_type in CallType::ALL {
            let count = |state| counts.get(&(call_type, state)).copied().unwrap_or(0);
            for state in CallState::ALL {
                let labels = &[call_type.name(), state.name()];
                self.api_calls.unfinished.with_label_values(labels).set(gauge(count(state)));
            }
            let pending = count(CallState::Waiting) + count(CallState::BackingOff);
            set_sizes(&self.api_calls.pending, [(call_type.name(), pending)]);
        }
    }

    /// Sets `waiting_updates`.
    pub fn set_waiting_updates(&self, updates: usize) {
        self.waiting_updates.set(gauge(updates));
    }

    /// Sets `scheduling_held`.
    pub fn set_hold(&self, hold: Option<Hold>) {
        for reason in Hold::ALL {
            let holds = i64::from(hold == Some(reason));
            self.holds.with_label_values(&[reason.name()]).set(holds);
        }
    }

    /// Sets `extender_up`, by the address of the extender.
    pub fn set_extenders<'a>(&self, extenders: impl IntoIterator<Item = (&'a str, bool)>) {
        for (extender, is_up) in extenders {
            self.extenders.with_label_values(&[extender]).set(is_up.into());
        }
    }

    /// Sets `oldest_pod_timestamp_seconds`: for each queue that is not empty, the longest time that
    /// a pod has been in it.
    pub fn set_oldest_pods<'a>(&self, waits: impl IntoIterator<Item = (&'a str, Duration)>) {
        let now = unix_time();
        self.queues.oldest.reset();
        for (queue, wait) in waits {
            self.queues.oldest.with_label_values(&[queue]).set(now - wait.as_secs_f64());
        }
    }

    /// Sets `goroutines` of operation `prioritizing_extender`: the number of Prioritize calls in
    /// progress.
    pub fn set_prioritizing(&self, asked: usize) {
        set_sizes(&self.queues.goroutines, [("prioritizing_extender", asked)]);
    }

    /// Sets `inflight_events`, by event label. Labels that are absent from `events` are set to 0.
    pub fn set_inflight_events<'a>(&self, events: impl IntoIterator<Item = (&'a str, usize)>) {
        self.queues.in_flight.reset();
        set_sizes(&self.queues.in_flight, events);
    }

    /// Sets `unschedulable_pods`: plugin, scheduler name of the pods, and number of rejected pods.
    pub fn set_unschedulable<'a>(
        &self,
        rejected: impl IntoIterator<Item = (&'a str, &'a str, usize)>,
    ) {
        self.queues.unschedulable.reset();
        for (plugin, profile, pods) in rejected {
            self.queues.unschedulable.with_label_values(&[plugin, profile]).set(gauge(pods));
        }
    }

    /// Sets the number of nodes that groups lack, by what such a node has.
    pub fn set_missing_nodes<'a>(&self, nodes: impl IntoIterator<Item = (&'a str, usize)>) {
        self.queues.missing_nodes.reset();
        set_sizes(&self.queues.missing_nodes, nodes);
    }

    /// Sets the metrics of quotas.
    pub fn set_quotas(&self, books: &framework::quota::Books) {
        self.quotas.set(books);
    }

    /// Sets `kubernetes_build_info`, `version_info` and `kubernetes_feature_enabled`.
    pub fn set_features(&self, gates: &Gates) {
        self.versions.set(gates);
        for (gate, state) in gates.existing() {
            let stage = match state.stage {
                Stage::Alpha => "ALPHA",
                Stage::Beta => "BETA",
                Stage::Ga => "",
                Stage::Deprecated => "DEPRECATED",
            };
            let on = i64::from(gates.is_on(gate.name));
            self.features.with_label_values(&[gate.name, stage]).set(on);
        }
    }

    /// Starts `plugin_evaluation_total` at 0 for each plugin of the profiles, at the extension
    /// points at which kube-scheduler counts.
    pub fn set_profiles(&self, profiles: &Profiles) {
        for profile in profiles.iter() {
            for point in EVALUATED {
                for plugin in profile.plugins_at(point) {
                    let labels = [plugin, point.name(), &profile.scheduler_name];
                    self.plugins.evaluations.with_label_values(&labels);
                }
            }
        }
    }

    /// Exports the metrics that plugins declare, each with the scheduler name of its profile.
    /// Returns the metrics that cannot be exported.
    pub fn set_plugin_metrics(
        &self,
        metrics: impl IntoIterator<Item = (String, Metric)>,
    ) -> Vec<ExportError> {
        self.plugin_metrics.set(metrics, &self.registered)
    }

    /// Counts an object of this resource (`pods`) that was skipped because it could not be decoded.
    pub fn undecodable(&self, resource: &str) {
        self.undecodable_objects.with_label_values(&[resource]).inc();
    }

    /// Counts bytes of a recording.
    pub fn recorded(&self, bytes: usize) {
        self.recorded_bytes.inc_by(bytes as u64);
    }

    /// Counts a recording that ended early for this cause.
    pub fn recording_ended(&self, cause: &str) {
        self.recordings_ended.with_label_values(&[cause]).inc();
    }

    /// Counts events with this reason that were not written.
    pub fn events_dropped(&self, reason: &str, cause: DropCause, number: u64) {
        self.events_dropped.with_label_values(&[reason, cause.name()]).inc_by(number);
    }
}

/// Returns the label of a response: its status, or `<error>` if there was none.
fn status_code(status: Option<u16>) -> String {
    status.map_or_else(|| "<error>".to_owned(), |status| status.to_string())
}

fn set_sizes<'a>(family: &IntGaugeVec, sizes: impl IntoIterator<Item = (&'a str, usize)>) {
    for (label, size) in sizes {
        family.with_label_values(&[label]).set(gauge(size));
    }
}

/// Returns the wall time in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "times that Prometheus compares with its own")]
fn unix_time() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

fn gauge(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The version metrics.
#[derive(Debug)]
struct Versions {
    build: IntGaugeVec,
    version: IntGaugeVec,
}

impl Versions {
    /// Registers the metrics.
    fn register(table: &mut Table) -> Self {
        let build = table.gauges(Declaration {
            name: "kubernetes_build_info",
            labels: &[
                "major",
                "minor",
                "git_version",
                "git_commit",
                "git_tree_state",
                "build_date",
                "go_version",
                "compiler",
                "platform",
            ],
            help: "Constant 1; the labels describe the build.",
            page: "`git_version` is `v1.37.0+loadmaster-VERSION`, with the version of Kubernetes that is \
                   followed, so alerts that compare the versions of components do not fire; no Go version",
            ..BETA
        });
        let version = table.gauges(Declaration {
            name: "version_info",
            labels: &["component", "binary", "emulation", "min_compat"],
            help: "Constant 1; the labels name the emulated version of Kubernetes.",
            ..ALPHA
        });
        Self { build, version }
    }

    /// Sets the versions of a level. The version of Kubernetes comes first, because alerts compare
    /// it between the components of a cluster.
    fn set(&self, gates: &Gates) {
        let followed = gates.level().to_string();
        let git_version = format!("v{followed}.0+loadmaster-{}", env!("CARGO_PKG_VERSION"));
        let platform = format!("{}/{}", std::env::consts::OS, go_architecture());
        let minor = gates.level().minor().to_string();
        let labels = ["1", &minor, &git_version, "", "", "", "", "rustc", &platform];
        self.build.reset();
        self.build.with_label_values(&labels).set(1);
        let oldest = format!("1.{}", gates.min_compatibility());
        let newest = Level::default().to_string();
        self.version.reset();
        self.version.with_label_values(&["kube", &newest, &followed, &oldest]).set(1);
    }
}

/// Returns the name of the architecture in Kubernetes.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests;
