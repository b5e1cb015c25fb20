//! The measured load of nodes, from `metrics.k8s.io`, a load-watcher or Prometheus.
//!
//! The measurements are read at intervals. One that is older than a limit counts as none, so that a
//! source that has ended decides nothing.
//!
//! | Module | Content |
//! |---|---|
//! | `source` | the sources, and their answers |
//! | `measured` | what was measured on a node |
//! | `pods` | what pods ask for, and which of them a measurement contains |
//! | `frame` | what is common to the Score plugins, and what they keep of each node |
//! | `beta` | the beta distribution |

mod beta;
mod frame;
pub mod load_aware_scheduling;
pub mod load_variation_risk_balancing;
pub mod low_risk_over_commitment;
mod measured;
mod pods;
mod source;
pub mod target_load_packing;

use std::sync::Arc;
use std::time::Duration;

use framework::{
    AttemptMut, Dependence, Handle, HttpServer, NodeView, PluginArgs, PluginBuilder, ScoreScope,
    Time, api,
};
use serde::{Deserialize, Serialize};

use measured::NodeMetrics;
use pods::Amounts;
use source::Source;

/// The capacity of nodes, to which the metrics relate.
const CAPACITY: &str = "/status/capacity";

/// The age of measurements is looked at in steps.
const AGE_STEP: i64 = 10_000_000_000;

const METRICS_SERVER: &str = "KubernetesMetricsServer";
const PROMETHEUS: &str = "Prometheus";

/// Where a load-watcher expects Prometheus.
const PROMETHEUS_ADDRESS: &str = "http://prometheus-k8s:9090";

/// The arguments that all plugins which read the load have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadArgs {
    /// The address of a load-watcher, which goes before `metricProvider`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watcher_address: Option<String>,
    /// Where the load is measured.
    pub metric_provider: MetricProvider,
    /// The age in seconds at which a measurement counts as none. Of Loadmaster.
    pub maximum_age_seconds: u64,
}

impl Default for LoadArgs {
    fn default() -> Self {
        Self {
            watcher_address: None,
            metric_provider: MetricProvider::default(),
            maximum_age_seconds: 180,
        }
    }
}

/// Where the load is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MetricProvider {
    /// `KubernetesMetricsServer` or `Prometheus`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The address of Prometheus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The bearer token for Prometheus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether the certificate of Prometheus is not verified; by default it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,
}

/// The fields of [`LoadArgs`].
const FIELDS: [&str; 3] = ["watcherAddress", "metricProvider", "maximumAgeSeconds"];

impl LoadArgs {
    /// Fills in the provider, and returns the source.
    ///
    /// # Errors
    /// The provider is not known, an address is invalid, or measurements have no time to count.
    fn complete(&mut self) -> Result<Source, String> {
        if self.maximum_age_seconds == 0 {
            return Err("maximumAgeSeconds: must be at least 1, got 0".to_owned());
        }
        let checked = |path: &str, server: HttpServer| {
            server.check().map(|()| server).map_err(|error| format!("{path}: {error}"))
        };
        let watcher = self.watcher_address.as_ref().filter(|address| !address.is_empty());
        if let Some(address) = watcher {
            let address = address.clone();
            let server = HttpServer { address, token: None, accepts_any_certificate: false };
            return checked("watcherAddress", server).map(Source::LoadWatcher);
        }
        let provider = &mut self.metric_provider;
        if provider.kind.is_empty() {
            METRICS_SERVER.clone_into(&mut provider.kind);
        }
        match &*provider.kind {
            METRICS_SERVER => Ok(Source::MetricsServer),
            PROMETHEUS => {
                let address = provider.address.get_or_insert_default();
                if address.is_empty() {
                    PROMETHEUS_ADDRESS.clone_into(address);
                }
                let server = HttpServer {
                    address: address.clone(),
                    token: provider.token.clone().filter(|token| !token.is_empty()),
                    accepts_any_certificate: *provider.insecure_skip_verify.get_or_insert(true),
                };
                checked("metricProvider.address", server).map(Source::Prometheus)
            }
            "SignalFx" => {
                Err("metricProvider.type: SignalFx is not read; set watcherAddress to a \
                               load-watcher that reads it"
                    .to_owned())
            }
            kind => {
                let known = "KubernetesMetricsServer or Prometheus";
                Err(format!("metricProvider.type: must be {known}, got {kind:?}"))
            }
        }
    }
}

/// Refuses fields that the arguments do not have: a flattened type accepts every field.
fn refuse_unknown(args: &PluginArgs, known: &[&str]) -> Result<(), String> {
    let given = args.decode::<serde_json::Map<String, serde_json::Value>>()?;
    let is_known = |field: &str| FIELDS.contains(&field) || known.contains(&field);
    match given.keys().find(|field| !is_known(field)) {
        Some(field) => Err(format!("unknown field `{field}`")),
        None => Ok(()),
    }
}

/// Reads the measured load.
#[derive(Debug, Clone)]
struct Reader {
    source: Source,
    kind: Arc<str>,
    maximum_age: Duration,
}

/// The time by which the age of measurements is judged, for one template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AgeStep(i64);

impl AgeStep {
    fn of(handle: &Handle<'_>) -> Self {
        Self(handle.wall_time().as_nanos().div_euclid(AGE_STEP))
    }

    const fn start(self) -> Time {
        Time::from_nanos(self.0.saturating_mul(AGE_STEP))
    }
}

impl Reader {
    /// Makes the reader, and fills in the arguments.
    ///
    /// # Errors
    /// The arguments are invalid.
    fn new(args: &mut LoadArgs) -> Result<Self, String> {
        let source = args.complete()?;
        let maximum_age = Duration::from_secs(args.maximum_age_seconds);
        Ok(Self { kind: source.kind(), source, maximum_age })
    }

    /// Adds what the reader needs to a plugin.
    fn register<P: Send + Sync + 'static>(&self, plugin: PluginBuilder<P>) -> PluginBuilder<P> {
        plugin
            .feed(self.source.feed())
            .describes_nodes(&self.kind)
            .watch_as::<NodeMetrics>(&self.kind)
            .keep_node_field(CAPACITY)
            .no_events()
    }

    /// Whether the source has deviations.
    const fn has_deviations(&self) -> bool {
        !matches!(self.source, Source::MetricsServer)
    }

    /// Returns the last measurement of the node, however old it is.
    fn last<'a>(&self, node: &NodeView<'a>) -> Option<&'a NodeMetrics> {
        node.cluster().decoded::<NodeMetrics>(&self.kind, "", node.name())
    }

    /// Returns since when measurements count.
    fn fresh_since(&self, handle: &Handle<'_>) -> Time {
        let now = AgeStep::of(handle).start();
        let age = i64::try_from(self.maximum_age.as_nanos()).unwrap_or(i64::MAX);
        Time::from_nanos(now.as_nanos().saturating_sub(age))
    }

    /// Returns the dependence of scores on the node, its metrics and their age. A measurement
    /// becomes too old without a change of its node, so the keys of all nodes are asked for again
    /// with each step of the age.
    fn dependence(attempt: AttemptMut<'_>) -> Dependence<ScoreScope> {
        let AttemptMut { state, handle, .. } = attempt;
        if state.read::<AgeStep>().is_none() {
            let step = AgeStep::of(handle);
            if state.take_kept::<AgeStep>().is_none_or(|(kept, _)| kept != step) {
                state.rekey();
            }
            if state.keeps() {
                state.keep(step, 1);
            }
            state.write_for_search(step);
        }
        Dependence::on(ScoreScope::Tier)
    }
}

/// Rounds a number from 0 on to the nearest whole number, without a call of the library for
/// mathematics.
#[inline]
fn rounded(number: f64) -> i64 {
    let whole = number as i64;
    whole + i64::from(number - whole as f64 >= 0.5)
}

/// Returns the capacity of a node; what it can give to pods if the capacity is not known.
fn capacity(node: &NodeView<'_>) -> Amounts {
    let list = node.extra(CAPACITY).and_then(|list| api::ResourceList::deserialize(list).ok());
    let capacity = list.map(|list| Amounts::of_list(&list)).unwrap_or_default();
    let allocatable = allocatable(node);
    let or = |own: i64, other: i64| if own > 0 { own } else { other };
    Amounts {
        milli_cpu: or(capacity.milli_cpu, allocatable.milli_cpu),
        memory: or(capacity.memory, allocatable.memory),
    }
}

/// Returns what the node can give to pods.
fn allocatable(node: &NodeView<'_>) -> Amounts {
    let own = node.allocatable();
    Amounts { milli_cpu: own.milli_cpu, memory: own.memory }
}

#[cfg(test)]
mod tests;
