//! Metrics, with the names, labels and buckets of kube-scheduler 1.36.
//!
//! [`Metrics`] is shared between threads: counters are atomics, and [`Metrics::render`] reads them.
//! The engine reports through its [`EngineProbe`]; sizes are set about once a second.

mod buckets;
mod leader_election;
mod plugin_metrics;
mod probe;
mod process;
mod resources;
mod rest_client;
mod scheduler;
mod slis;
mod table;
mod text;

use framework::Metric;
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Registry};

pub use plugin_metrics::ExportError;
pub use probe::EngineProbe;
pub use resources::PodResources;
pub use rest_client::RestClient;
pub use slis::Slis;
pub use text::CONTENT_TYPE;

use crate::config::Gates;
use crate::config::gates::{self, Stage};
use leader_election::LeaderElection;
use plugin_metrics::PluginMetrics;
use scheduler::{Attempts, Plugins, Queues};
use table::Stability::{Alpha, Beta};
use table::{Resettable, Table};

/// The emulated version of Kubernetes: major and minor.
pub(crate) const KUBERNETES: (&str, &str) = ("1", "36");

/// The oldest Kubernetes version with which the emulated scheduler is compatible.
const MIN_COMPATIBILITY: &str = "1.35";

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
    /// Names of all metrics in the registry.
    names: Vec<String>,
    attempts: Attempts,
    queues: Queues,
    plugins: Plugins,
    rest_client: RestClient,
    leader_election: LeaderElection,
    features: IntGaugeVec,
    undecodable_objects: IntCounterVec,
    events_dropped: IntCounter,
    plugin_metrics: PluginMetrics,
    resettable: Vec<Resettable>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates all metrics with the value 0.
    pub fn new() -> Self {
        let mut table = Table::default();
        table.collector(process::Process::new());
        register_versions(&mut table);
        let attempts = Attempts::register(&mut table);
        let queues = Queues::register(&mut table);
        let plugins = Plugins::register(&mut table);
        let rest_client = RestClient::register(&mut table);
        let leader_election = LeaderElection::register(&mut table);
        let features = table.gauges(
            Beta,
            "kubernetes_feature_enabled",
            "Feature gates, 1 for those that are on.",
            &["name", "stage"],
        );
        let undecodable_objects = table.counters(
            Alpha,
            "loadmaster_undecodable_objects_total",
            "Objects that were skipped because they could not be decoded.",
            &["resource"],
        );
        let events_dropped = table.counter(
            Alpha,
            "loadmaster_events_dropped_total",
            "Events about pods that were not written because too many were waiting.",
        );
        let resettable = table.take_resettable();
        let (registry, names) = table.finish();
        let plugin_metrics = PluginMetrics::default();
        let metrics = Self {
            registry,
            names,
            attempts,
            queues,
            plugins,
            rest_client,
            leader_election,
            features,
            undecodable_objects,
            events_dropped,
            plugin_metrics,
            resettable,
        };
        metrics.set_pending(Pending::default());
        metrics
    }

    /// Renders all metrics in the text format of Prometheus, sorted by name.
    pub fn render(&self) -> String {
        let mut families = self.registry.gather();
        families.extend(self.plugin_metrics.collect());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        text::render(&families)
    }

    /// Removes the series of all counters and histograms with labels. Gauges keep their values, which
    /// describe the present, and so do plugins' own metrics.
    pub fn reset(&self) {
        self.resettable.iter().for_each(Resettable::reset);
    }

    /// Returns the metrics of requests to the API server.
    pub fn rest_client(&self) -> RestClient {
        self.rest_client.clone()
    }

    /// Sets `pending_pods`.
    pub fn set_pending(&self, pending: Pending) {
        let Pending { active, backoff, unschedulable, gated } = pending;
        let sizes = [
            ("active", active),
            ("backoff", backoff),
            ("unschedulable", unschedulable),
            ("gated", gated),
        ];
        set_sizes(&self.queues.pending, sizes);
    }

    /// Sets `cache_size`.
    pub fn set_cache_size(&self, size: CacheSize) {
        let CacheSize { nodes, pods, assumed_pods } = size;
        let sizes = [("nodes", nodes), ("pods", pods), ("assumed_pods", assumed_pods)];
        set_sizes(&self.queues.cache_size, sizes);
    }

    /// Sets `goroutines` of operation `binding`: the number of binding cycles in progress.
    pub fn set_bindings(&self, running: usize) {
        set_sizes(&self.queues.goroutines, [("binding", running)]);
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

    /// Sets `kubernetes_feature_enabled`.
    pub fn set_features(&self, gates: &Gates) {
        for gate in gates::all() {
            let stage = match gate.stage {
                Stage::Alpha => "ALPHA",
                Stage::Beta => "BETA",
                Stage::Ga => "",
                Stage::Deprecated => "DEPRECATED",
            };
            let on = i64::from(gates.is_on(gate.name));
            self.features.with_label_values(&[gate.name, stage]).set(on);
        }
    }

    /// Exports the metrics that plugins declare, each with the scheduler name of its profile.
    /// Returns the metrics that cannot be exported.
    pub fn set_plugin_metrics(
        &self,
        metrics: impl IntoIterator<Item = (String, Metric)>,
    ) -> Vec<ExportError> {
        self.plugin_metrics.set(metrics, &self.names)
    }

    /// Counts an object of this resource (`pods`) that was skipped because it could not be decoded.
    pub fn undecodable(&self, resource: &str) {
        self.undecodable_objects.with_label_values(&[resource]).inc();
    }

    /// Counts a dropped event about a pod.
    pub fn event_dropped(&self) {
        self.events_dropped.inc();
    }
}

fn set_sizes<'a>(family: &IntGaugeVec, sizes: impl IntoIterator<Item = (&'a str, usize)>) {
    for (label, size) in sizes {
        family.with_label_values(&[label]).set(gauge(size));
    }
}

fn gauge(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// Registers the version metrics. The version of Kubernetes comes first, because alerts compare it
/// between the components of a cluster.
fn register_versions(table: &mut Table) {
    let (major, minor) = KUBERNETES;
    let kubernetes = format!("{major}.{minor}");
    let git_version = format!("v{kubernetes}.0+loadmaster-{}", env!("CARGO_PKG_VERSION"));
    let platform = format!("{}/{}", std::env::consts::OS, go_architecture());
    let build = table.gauges(
        Beta,
        "kubernetes_build_info",
        "Constant 1; the labels describe the build.",
        &[
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
    );
    let labels = [major, minor, &git_version, "", "", "", "", "rustc", &platform];
    build.with_label_values(&labels).set(1);
    let version = table.gauges(
        Alpha,
        "version_info",
        "Constant 1; the labels name the emulated version of Kubernetes.",
        &["component", "binary", "emulation", "min_compat"],
    );
    version.with_label_values(&["kube", &kubernetes, &kubernetes, MIN_COMPATIBILITY]).set(1);
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
