//! The in-tree plugins of the decision pipeline.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{CycleState, LabelSelector, MAX_NODE_SCORE, PluginArgs, Status, api};
use serde::Deserialize;

use super::clusters::Cluster;
use super::decision::{DecisionNode, DecisionPlugin, DecisionPod, WeightedPlugin};
use crate::registry::no_args;

/// Annotation with a label selector on clusters, as JSON (`{"matchLabels": ..}`).
pub const CLUSTER_SELECTOR: &str = "supercluster.loadmaster.io/cluster-selector";

/// Returns the plugins that run unless others are configured: ClusterAffinity, which has no score.
pub fn defaults() -> Vec<WeightedPlugin> {
    vec![WeightedPlugin { plugin: Arc::new(ClusterAffinity), weight: 0 }]
}

/// Makes a plugin of the tree.
type MakePlugin = fn(&PluginArgs) -> Result<Arc<dyn DecisionPlugin>, String>;

/// The plugins in the tree.
pub(crate) const IN_TREE: [(&str, MakePlugin); 5] = [
    ("ClusterAffinity", |args| no_args(args).map(|()| Arc::new(ClusterAffinity) as _)),
    ("ClusterSpread", |args| {
        let SpreadArgs { topology_key: topology } = args.decode()?;
        Ok(Arc::new(ClusterSpread { topology }))
    }),
    ("ClusterCost", |args| {
        let PropertyArgs { property } = args.decode()?;
        Ok(Arc::new(ClusterCost { property: property.ok_or("property: is missing")? }))
    }),
    ("ClusterLoad", |args| no_args(args).map(|()| Arc::new(ClusterLoad) as _)),
    ("DataLocality", |args| {
        let PropertyArgs { property } = args.decode()?;
        Ok(Arc::new(DataLocality { property: property.unwrap_or_else(|| "data-sets".into()) }))
    }),
];

/// Arguments of ClusterSpread.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct SpreadArgs {
    /// The label whose values are the domains; the cluster itself without it.
    topology_key: Option<Arc<str>>,
}

/// Arguments of ClusterCost and DataLocality.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct PropertyArgs {
    /// The property of clusters with the cost, or with the data sets.
    property: Option<Arc<str>>,
}

/// Asks only clusters whose labels and properties match the selector in the annotation
/// [`CLUSTER_SELECTOR`] of the pod.
#[derive(Debug, Default)]
pub struct ClusterAffinity;

impl DecisionPlugin for ClusterAffinity {
    fn name(&self) -> &'static str {
        "ClusterAffinity"
    }

    fn tells_nodes_apart(&self) -> bool {
        false
    }

    fn has_score(&self) -> bool {
        false
    }

    fn pre_filter(&self, state: &mut CycleState, pod: &DecisionPod<'_>) -> Status {
        let Some(text) = pod.object.annotation(CLUSTER_SELECTOR) else { return Status::success() };
        let refused = |error: String| {
            Status::unresolvable(format!(
                "annotation {CLUSTER_SELECTOR} is no label selector: {error}"
            ))
        };
        match serde_json::from_str::<api::LabelSelector>(text) {
            Err(error) => refused(error.to_string()),
            Ok(selector) => match LabelSelector::compile(Some(&selector)) {
                Err(error) => refused(error.messages().join(", ")),
                Ok(selector) => {
                    state.write(selector);
                    Status::success()
                }
            },
        }
    }

    fn filter_cluster(&self, state: &CycleState, _: &DecisionPod<'_>, cluster: &Cluster) -> Status {
        match state.read::<LabelSelector>() {
            Some(selector) if !selector.matches(&cluster.attributes()) => {
                Status::unresolvable("it does not match the cluster selector of the pod")
            }
            _ => Status::success(),
        }
    }
}

/// Prefers clusters with fewer pods of the same workload, or clusters of domains with fewer, for
/// example regions.
#[derive(Debug, Default)]
pub struct ClusterSpread {
    /// Key of the label whose value names the domain of a cluster; `None` for the cluster itself.
    pub topology: Option<Arc<str>>,
}

/// The number of pods by domain, and the highest number.
#[derive(Clone)]
struct Counts(BTreeMap<Arc<str>, u64>, u64);

impl ClusterSpread {
    fn domain(&self, cluster: &Cluster) -> Arc<str> {
        match &self.topology {
            None => cluster.name.clone(),
            Some(key) => cluster.labels.get(key).unwrap_or_default().into(),
        }
    }
}

impl DecisionPlugin for ClusterSpread {
    fn name(&self) -> &'static str {
        "ClusterSpread"
    }

    fn tells_nodes_apart(&self) -> bool {
        false
    }

    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &DecisionPod<'_>,
        nodes: &[DecisionNode<'_>],
    ) -> Status {
        let by_cluster = pod.placed.of_workload(&pod.object.pod);
        let mut counts = BTreeMap::new();
        let mut last: Option<&Arc<str>> = None;
        for cluster in nodes.iter().map(|node| node.cluster) {
            // Nodes of one cluster follow each other.
            if last.replace(&cluster.name).is_some_and(|name| *name == cluster.name) {
                continue;
            }
            let count = by_cluster.and_then(|counts| counts.get(&cluster.name)).copied();
            *counts.entry(self.domain(cluster)).or_default() += count.unwrap_or(0);
        }
        let highest = counts.values().copied().max().unwrap_or(0);
        state.write(Counts(counts, highest));
        Status::success()
    }

    fn score(&self, state: &CycleState, _: &DecisionPod<'_>, node: &DecisionNode<'_>) -> i64 {
        let Some(Counts(counts, highest)) = state.read::<Counts>() else { return 0 };
        let own = counts.get(&self.domain(node.cluster)).copied().unwrap_or(0);
        let share = (highest - own) * MAX_NODE_SCORE.unsigned_abs();
        share.checked_div(*highest).map_or(MAX_NODE_SCORE, |score| score.cast_signed())
    }
}

/// Prefers clusters in which a property is a low number, for example the cost of a node.
#[derive(Debug)]
pub struct ClusterCost {
    /// Name of the property. A cluster without it, or with a text that is not a number, scores 0.
    pub property: Arc<str>,
}

/// The lowest and the highest cost.
#[derive(Clone)]
struct CostRange(f64, f64);

impl ClusterCost {
    fn cost(&self, cluster: &Cluster) -> Option<f64> {
        let cost: f64 = cluster.properties.get(&self.property)?.parse().ok()?;
        cost.is_finite().then_some(cost)
    }
}

impl DecisionPlugin for ClusterCost {
    fn name(&self) -> &'static str {
        "ClusterCost"
    }

    fn tells_nodes_apart(&self) -> bool {
        false
    }

    fn pre_score(
        &self,
        state: &mut CycleState,
        _: &DecisionPod<'_>,
        nodes: &[DecisionNode<'_>],
    ) -> Status {
        let costs = nodes.iter().filter_map(|node| self.cost(node.cluster));
        let range = costs.fold(None, |range: Option<(f64, f64)>, cost| {
            let (low, high) = range.unwrap_or((cost, cost));
            Some((low.min(cost), high.max(cost)))
        });
        range.into_iter().for_each(|(low, high)| state.write(CostRange(low, high)));
        Status::success()
    }

    fn score(&self, state: &CycleState, _: &DecisionPod<'_>, node: &DecisionNode<'_>) -> i64 {
        let Some(CostRange(low, high)) = state.read::<CostRange>() else { return 0 };
        match self.cost(node.cluster) {
            None => 0,
            Some(_) if high <= low => MAX_NODE_SCORE,
            Some(cost) => ((high - cost) / (high - low) * MAX_NODE_SCORE as f64) as i64,
        }
    }
}

/// Prefers clusters whose sampled nodes have more free CPU and memory.
#[derive(Debug, Default)]
pub struct ClusterLoad;

/// The mean of the free CPU and memory of the sampled nodes of each cluster, and the highest of
/// them.
#[derive(Clone)]
struct FreeRoom(BTreeMap<Arc<str>, (f64, f64)>, (f64, f64));

impl DecisionPlugin for ClusterLoad {
    fn name(&self) -> &'static str {
        "ClusterLoad"
    }

    fn pre_score(
        &self,
        state: &mut CycleState,
        _: &DecisionPod<'_>,
        nodes: &[DecisionNode<'_>],
    ) -> Status {
        let mut sums: BTreeMap<Arc<str>, (f64, f64, f64)> = BTreeMap::new();
        for node in nodes {
            let free = &node.node.free;
            let (cpu, memory) = (free.milli_cpu.max(0) as f64, free.memory_bytes.max(0) as f64);
            let sum = sums.entry(node.cluster.name.clone()).or_default();
            *sum = (sum.0 + cpu, sum.1 + memory, sum.2 + 1.0);
        }
        let means = sums
            .into_iter()
            .map(|(name, (cpu, memory, nodes))| (name, (cpu / nodes, memory / nodes)));
        let means: BTreeMap<_, _> = means.collect();
        let highest = means.values().fold((0.0, 0.0), |highest: (f64, f64), mean| {
            (highest.0.max(mean.0), highest.1.max(mean.1))
        });
        state.write(FreeRoom(means, highest));
        Status::success()
    }

    fn score(&self, state: &CycleState, _: &DecisionPod<'_>, node: &DecisionNode<'_>) -> i64 {
        let Some(FreeRoom(means, highest)) = state.read::<FreeRoom>() else { return 0 };
        let Some(mean) = means.get(&node.cluster.name) else { return 0 };
        let share = |own: f64, highest: f64| if highest > 0.0 { own / highest } else { 1.0 };
        let share = f64::midpoint(share(mean.0, highest.0), share(mean.1, highest.1));
        (share * MAX_NODE_SCORE as f64) as i64
    }
}

/// Annotation with the names of the data sets that a pod reads, separated by commas.
pub const DATA_SETS: &str = "supercluster.loadmaster.io/data-sets";

/// Prefers clusters that have the data sets in the annotation [`DATA_SETS`] of the pod.
#[derive(Debug)]
pub struct DataLocality {
    /// Name of the property that lists the data sets of a cluster, separated by commas.
    pub property: Arc<str>,
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

impl DecisionPlugin for DataLocality {
    fn name(&self) -> &'static str {
        "DataLocality"
    }

    fn tells_nodes_apart(&self) -> bool {
        false
    }

    fn score(&self, _: &CycleState, pod: &DecisionPod<'_>, node: &DecisionNode<'_>) -> i64 {
        let Some(wanted) = pod.object.annotation(DATA_SETS) else { return 0 };
        let there = node.cluster.properties.get(&self.property).map_or("", |text| text);
        let (mut sets, mut found) = (0, 0);
        for set in names(wanted) {
            sets += 1;
            found += i64::from(names(there).any(|own| own == set));
        }
        (found * MAX_NODE_SCORE).checked_div(sets).unwrap_or(0)
    }
}
