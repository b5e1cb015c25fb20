//! The measured load of nodes, from `metrics.k8s.io`.
//!
//! The NodeMetrics are listed at intervals. A measurement that is older than a limit counts as none,
//! so that a source that has ended decides nothing.

pub mod load_variation_risk_balancing;
pub mod target_load_packing;

use std::time::Duration;

use framework::{
    AttemptMut, Dependence, Feed, Handle, NodeView, PluginArgs, PluginBuilder, ScoreScope, Time,
    api, parse_resource_list,
};
use serde::{Deserialize, Serialize};

/// The kind, as `<plural>.<version>.<group>`.
const KIND: &str = "nodes.v1beta1.metrics.k8s.io";

/// The capacity of nodes, to which the metrics relate.
const CAPACITY: &str = "/status/capacity";

/// The time between two lists of the metrics.
const INTERVAL: Duration = Duration::from_secs(30);

/// The age of measurements is looked at in steps.
const AGE_STEP: i64 = 10_000_000_000;

const METRICS_SERVER: &str = "KubernetesMetricsServer";

/// The arguments that all plugins which read the load have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadArgs {
    /// The address of a load-watcher; not built.
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
    /// `KubernetesMetricsServer`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Address; of other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Token; of other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether certificates are not verified; of other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,
}

impl LoadArgs {
    /// Fills in the provider, and checks that it is built.
    fn checked(mut self) -> Result<Self, String> {
        let instead = "set metricProvider.type to KubernetesMetricsServer, which reads \
                       metrics.k8s.io, for example of prometheus-adapter";
        if self.watcher_address.as_ref().is_some_and(|address| !address.is_empty()) {
            return Err(format!("watcherAddress: load-watcher is not read; {instead}"));
        }
        let provider = &mut self.metric_provider;
        if provider.kind.is_empty() {
            METRICS_SERVER.clone_into(&mut provider.kind);
        }
        match &*provider.kind {
            METRICS_SERVER => {}
            kind @ ("Prometheus" | "SignalFx") => {
                return Err(format!("metricProvider.type: {kind} is not read; {instead}"));
            }
            kind => {
                let known = "KubernetesMetricsServer, Prometheus or SignalFx";
                return Err(format!("metricProvider.type: must be {known}, got {kind:?}"));
            }
        }
        if self.maximum_age_seconds == 0 {
            return Err("maximumAgeSeconds: must be at least 1, got 0".to_owned());
        }
        Ok(self)
    }
}

/// Refuses fields that the arguments do not have: a flattened type accepts every field.
fn refuse_unknown(args: &PluginArgs, known: &[&str]) -> Result<(), String> {
    let given = args.decode::<serde_json::Map<String, serde_json::Value>>()?;
    match given.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => Err(format!("unknown field `{field}`")),
        None => Ok(()),
    }
}

/// What was measured on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Raw")]
struct NodeMetrics {
    /// When the measurement ended.
    taken: Time,
    usage: Amounts,
}

/// CPU in thousandths, and bytes of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amounts {
    milli_cpu: i64,
    memory: i64,
}

#[derive(Debug, Deserialize)]
struct Raw {
    timestamp: String,
    usage: api::ResourceList,
}

impl TryFrom<Raw> for NodeMetrics {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let taken = Time::parse_rfc3339(&raw.timestamp)
            .map_err(|problem| format!("timestamp: {problem}"))?;
        let mut problems = Vec::new();
        let usage = parse_resource_list(&raw.usage, "usage", &mut problems);
        if let Some(problem) = problems.first() {
            return Err(problem.to_string());
        }
        Ok(Self { taken, usage: Amounts { milli_cpu: usage.milli_cpu, memory: usage.memory } })
    }
}

/// Reads the measured load.
#[derive(Debug, Clone, Copy)]
struct Reader {
    maximum_age: Duration,
}

/// The time by which the age of measurements is judged, for one template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AgeStep(i64);

impl AgeStep {
    fn of(handle: &Handle<'_>) -> Self {
        Self(handle.wall_time().as_nanos().div_euclid(AGE_STEP))
    }
}

impl Reader {
    fn new(args: &LoadArgs) -> Self {
        Self { maximum_age: Duration::from_secs(args.maximum_age_seconds) }
    }

    /// Adds what the reader needs to a plugin.
    fn register<P: Send + Sync + 'static>(plugin: PluginBuilder<P>) -> PluginBuilder<P> {
        plugin
            .feed(Feed::Poll { kind: KIND.into(), interval: INTERVAL })
            .describes_nodes(KIND)
            .watch_as::<NodeMetrics>(KIND)
            .keep_node_field(CAPACITY)
            .no_events()
    }

    /// Returns the last measurement of the node, unless it is too old.
    fn measured<'a>(&self, node: &NodeView<'_>, handle: &Handle<'a>) -> Option<&'a NodeMetrics> {
        let metrics = handle.cluster.decoded::<NodeMetrics>(KIND, "", node.name())?;
        let AgeStep(step) = AgeStep::of(handle);
        let now = Time::from_nanos(step.saturating_mul(AGE_STEP));
        (now.since(metrics.taken) <= self.maximum_age).then_some(metrics)
    }

    /// Returns the dependence of scores on the node, its metrics and their age. A measurement
    /// becomes too old without a change of its node, so the keys of all nodes are asked for again
    /// with each step of the age.
    fn dependence(&self, attempt: AttemptMut<'_>) -> Dependence<ScoreScope> {
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

/// Returns the capacity of a node; what it can give to pods if the capacity is not known.
fn capacity(node: &NodeView<'_>) -> Amounts {
    let list = node.extra(CAPACITY).and_then(|list| api::ResourceList::deserialize(list).ok());
    let of = |list| {
        let own = parse_resource_list(list, "", &mut Vec::new());
        Amounts { milli_cpu: own.milli_cpu, memory: own.memory }
    };
    let capacity = list.as_ref().map(of).unwrap_or_default();
    let allocatable = node.allocatable();
    let or = |own: i64, other: i64| if own > 0 { own } else { other };
    Amounts {
        milli_cpu: or(capacity.milli_cpu, allocatable.milli_cpu),
        memory: or(capacity.memory, allocatable.memory),
    }
}

#[cfg(test)]
mod tests;
