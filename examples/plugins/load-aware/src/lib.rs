//! LoadAware: prefers nodes by the CPU load that the metrics server measures.
//!
//! An example of a Score plugin that reads facts from outside, in the manner of `TargetLoadPacking`
//! of Trimaran (sigs.k8s.io/scheduler-plugins). It packs nodes up to a target utilization and
//! avoids nodes above it:
//!
//! ```yaml
//! pluginConfig:
//! - name: LoadAware
//!   args:
//!     targetUtilization: 40          # percent of the allocatable CPU
//!     maximumAgeSeconds: 300         # older measurements are ignored
//!     pollIntervalSeconds: 30        # how often the metrics are listed
//!     defaultMilliCpu: 1000          # usage predicted for a container without CPU request
//!     defaultRequestsMultiplier: 1.5 # predicted usage in proportion to the request
//! ```
//!
//! - The scheduler lists `nodes.v1beta1.metrics.k8s.io` at each interval ([`Feed::Poll`]), since
//!   the aggregated API cannot be watched. Each version of a NodeMetrics is decoded once.
//! - A measurement says nothing about pods that started during or after its window. Their usage is
//!   predicted from the requests and limits of their containers and added.
//! - A node whose metrics are missing, too old or unreadable gets the lowest score. If there are no
//!   metrics at all, the plugin leaves the choice to the others.

mod args;
mod node_metrics;
mod usage;

use std::sync::{Arc, Mutex, PoisonError};

use framework::{
    Attempt, AttemptMut, CounterVec, Dependence, Feed, Handle, MAX_NODE_SCORE, MIN_NODE_SCORE,
    NodeIx, NodeView, Plugin, PluginArgs, PreScore, Registry, RegistryError, Score, ScoreScope,
    Status, Time,
};

pub use args::LoadAwareArgs;
pub use node_metrics::NodeMetrics;

use args::Settings;

/// Plugin name.
pub const NAME: &str = "LoadAware";

/// The kind that the metrics server serves, as `<plural>.<version>.<group>`.
pub const KIND: &str = "nodes.v1beta1.metrics.k8s.io";

/// The plugin.
#[derive(Debug)]
pub struct LoadAware {
    settings: Settings,
    /// Counts the scored nodes by the state of their metrics.
    scored: Arc<CounterVec>,
    /// The load of each node, by [`NodeIx::index`]. It holds as long as neither the node nor its
    /// metrics change.
    loads: Mutex<Vec<Option<(Generations, Load)>>>,
}

/// The generations of a node and of its metrics.
type Generations = (u64, u64);

/// The expected load of a node.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// When the metrics were taken.
    taken: Time,
    /// The measured usage, and the predicted usage of the pods that it does not cover.
    milli_cpu: i64,
}

/// Why the load of a node is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Missing,
    Expired,
    Unreadable,
}

/// The predicted usage of the pod to be placed, left by PreScore.
#[derive(Debug, Clone, Copy)]
struct Incoming {
    milli_cpu: i64,
}

/// Adds the plugin to `registry`.
///
/// # Errors
/// The name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register(NAME, plugin)
}

/// Makes the plugin from [`LoadAwareArgs`].
///
/// # Errors
/// The arguments do not decode, or a number is out of range.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args: LoadAwareArgs = args.decode()?;
    let settings = args.settings()?;
    let scored = CounterVec::new(
        "load_aware_scored_nodes_total",
        "Nodes scored, by the state of their metrics: fresh, expired, missing or unreadable.",
        &["metrics"],
    );
    let feed = Feed::Poll { kind: KIND.into(), interval: settings.poll_interval };
    let plugin = LoadAware { settings, scored: scored.clone(), loads: Mutex::default() };
    Ok(Plugin::new(NAME, plugin)
        .pre_score()
        .score()
        .feed(feed)
        .watch_as::<NodeMetrics>(KIND)
        .keep_containers()
        .no_events()
        .args(&args)
        .metric(&scored)
        .build())
}

impl PreScore for LoadAware {
    /// Predicts the usage of the pod. Skips Score while there are no metrics of any node.
    fn pre_score(&self, attempt: AttemptMut<'_>, _nodes: &[NodeIx]) -> Status {
        if attempt.handle.cluster.objects(KIND).next().is_none() {
            return Status::skip();
        }
        attempt.state.write_for_search(Incoming {
            milli_cpu: usage::predicted(attempt.pod, &self.settings),
        });
        Status::success()
    }
}

impl Score for LoadAware {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let Attempt { state, handle, .. } = *attempt;
        let incoming =
            state.read::<Incoming>().ok_or_else(|| Status::error("PreScore did not run"))?;
        let load = self.load(node, handle);
        let state = load.as_ref().map_or_else(Unknown::name, |_| "fresh");
        self.scored.with_label_values(&[state]).inc();
        let capacity = node.allocatable().milli_cpu;
        Ok(match load {
            Ok(load) if capacity > 0 => {
                let expected = load.milli_cpu.saturating_add(incoming.milli_cpu);
                score(expected, capacity, self.settings.target_utilization)
            }
            _ => MIN_NODE_SCORE,
        })
    }

    /// Metrics age without a change of the node.
    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Cluster))
    }
}

impl LoadAware {
    /// Returns the expected load of a node, from its metrics and the pods that they do not cover.
    fn load(&self, node: &NodeView<'_>, handle: &Handle<'_>) -> Result<Load, Unknown> {
        let cluster = handle.cluster;
        let metrics = cluster.object_generation(KIND, "", node.name()).ok_or(Unknown::Missing)?;
        let generations = node.generation().map(|generation| (generation, metrics));
        let remembered =
            generations.and_then(|generations| self.remembered(node.ix(), generations));
        let load = match remembered {
            Some(load) => load,
            None => {
                let metrics = cluster.decoded(KIND, "", node.name()).ok_or(Unknown::Unreadable)?;
                let load = self.work_out(node, metrics);
                if let Some(generations) = generations {
                    self.remember(node.ix(), generations, load);
                }
                load
            }
        };
        match handle.wall_time().since(load.taken) > self.settings.maximum_age {
            true => Err(Unknown::Expired),
            false => Ok(load),
        }
    }

    fn work_out(&self, node: &NodeView<'_>, metrics: &NodeMetrics) -> Load {
        let uncovered = node.pods().filter(|pod| !metrics.cover(pod));
        let predicted = uncovered.map(|pod| usage::predicted(pod, &self.settings));
        let milli_cpu = predicted.fold(metrics.milli_cpu, i64::saturating_add);
        Load { taken: metrics.taken, milli_cpu }
    }

    fn remembered(&self, node: NodeIx, generations: Generations) -> Option<Load> {
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, load) = (*loads.get(node.index())?)?;
        (known == generations).then_some(load)
    }

    fn remember(&self, node: NodeIx, generations: Generations, load: Load) {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if loads.len() <= node.index() {
            loads.resize(node.index() + 1, None);
        }
        loads[node.index()] = Some((generations, load));
    }
}

impl Unknown {
    const fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Expired => "expired",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Returns the score for an expected load: it rises from `target` at no load to 100 at the target
/// utilization, falls from there towards `target` at full load and is 0 beyond.
///
/// As in `TargetLoadPacking`, the two sides meet the target differently: below it the score ends at
/// 100, above it begins at `target`, so that a node over its target is worse than an empty one.
fn score(milli_cpu: i64, capacity: i64, target: i64) -> i64 {
    const FULL: i128 = 100;
    // In thousandths of a percent.
    let utilization = i128::from(milli_cpu) * FULL * 1000 / i128::from(capacity);
    let (target, full) = (i128::from(target), FULL * 1000);
    let scaled = match utilization {
        over if over > full => 0,
        above if above > target * 1000 => target * (full - above) / (FULL - target),
        below => (FULL - target) * below / target + target * 1000,
    };
    let rounded = (scaled + 500) / 1000;
    i64::try_from(rounded).unwrap_or(MAX_NODE_SCORE).clamp(MIN_NODE_SCORE, MAX_NODE_SCORE)
}

#[cfg(test)]
mod tests;
