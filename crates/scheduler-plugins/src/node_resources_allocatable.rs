//! NodeResourcesAllocatable: prefers small or large machines.
//!
//! The score of a node is the weighted mean of its allocatable resources, negated in the mode
//! `Least`. The pods on the node play no part.

use framework::{
    Attempt, AttemptMut, Cluster, Dependence, NodeColumn, NodeIx, NodeView, NormalizeScore,
    PerNode, Plugin, PluginArgs, ScalarAmount, Score, ScoreScope, Status, is_scalar_resource_name,
};
use serde::{Deserialize, Serialize};

use crate::args::{Faults, ResourceSpec};
use crate::min_max;

/// Name of the plugin.
pub const NAME: &str = "NodeResourcesAllocatable";

const LEAST: &str = "Least";
const MOST: &str = "Most";

/// `NodeResourcesAllocatableArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeResourcesAllocatableArgs {
    /// `Least` for small machines first, `Most` for large ones.
    pub mode: String,
    /// The resources with their weights. By default a thousandth of a CPU counts as much as a
    /// mebibyte of memory.
    pub resources: Vec<ResourceSpec>,
}

impl Default for NodeResourcesAllocatableArgs {
    fn default() -> Self {
        Self { mode: LEAST.to_owned(), resources: default_resources() }
    }
}

fn default_resources() -> Vec<ResourceSpec> {
    vec![ResourceSpec::new("cpu", 1 << 20), ResourceSpec::new("memory", 1)]
}

impl NodeResourcesAllocatableArgs {
    /// Fills in defaults and checks the arguments.
    fn checked(mut self) -> Result<Self, String> {
        if self.mode.is_empty() {
            LEAST.clone_into(&mut self.mode);
        }
        if self.resources.is_empty() {
            self.resources = default_resources();
        }
        let mut faults = Faults::default();
        for (place, ResourceSpec { name, weight }) in self.resources.iter().enumerate() {
            if *weight <= 0 {
                let detail =
                    format!("resource weight of {name} should be a positive value, got :{weight}");
                faults.invalid(format_args!("resources[{place}].weight"), weight, &detail);
            }
        }
        if ![LEAST, MOST].contains(&&*self.mode) {
            faults.invalid("mode", format_args!("{:?}", self.mode), "invalid support ModeType");
        }
        faults.none_or(self)
    }
}

/// The plugin.
#[derive(Debug)]
struct NodeResourcesAllocatable {
    /// Each resource once, with its weight.
    resources: Vec<(Resource, i64)>,
    /// 1 or -1.
    sign: i128,
}

/// A resource whose allocatable amount counts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(String),
    /// Not counted by Kubernetes; 0 everywhere.
    Uncounted,
}

/// Makes the plugin from [`NodeResourcesAllocatableArgs`].
///
/// # Errors
/// The arguments do not decode, a weight is not positive, or the mode is unknown.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args = args.decode::<NodeResourcesAllocatableArgs>()?.checked()?;
    let named = |spec: &ResourceSpec| (Resource::named(&spec.name), spec.weight);
    // The last weight of a resource counts.
    let last = |place: usize, spec: &ResourceSpec| {
        args.resources[place + 1..].iter().all(|later| later.name != spec.name)
    };
    let specs = args.resources.iter().enumerate();
    let resources = specs.filter(|(place, spec)| last(*place, spec)).map(|(_, spec)| named(spec));
    let plugin = NodeResourcesAllocatable {
        resources: resources.collect(),
        sign: if args.mode == LEAST { -1 } else { 1 },
    };
    Ok(Plugin::new(NAME, plugin)
        .score()
        .normalize_score()
        .no_events()
        .decides_by_template()
        .args(&args)
        .build())
}

impl Resource {
    fn named(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            name if is_scalar_resource_name(name) => Self::Scalar(name.to_owned()),
            _ => Self::Uncounted,
        }
    }

    fn allocatable(&self, node: &NodeView<'_>) -> i64 {
        match self {
            Self::Cpu => node.allocatable().milli_cpu,
            Self::Memory => node.allocatable().memory,
            Self::EphemeralStorage => node.allocatable().ephemeral_storage,
            Self::Scalar(name) => node.scalar(name).allocatable,
            Self::Uncounted => 0,
        }
    }

    fn column<'a>(&self, cluster: &'a Cluster) -> Column<'a> {
        let columns = cluster.allocatable();
        match self {
            Self::Cpu => Column::Amounts(&columns.milli_cpu),
            Self::Memory => Column::Amounts(&columns.memory),
            Self::EphemeralStorage => Column::Amounts(&columns.ephemeral_storage),
            Self::Scalar(name) => cluster.scalar(name).map_or(Column::Zero, Column::Scalar),
            Self::Uncounted => Column::Zero,
        }
    }
}

/// The allocatable amounts of a resource on all nodes.
enum Column<'a> {
    Amounts(&'a [i64]),
    Scalar(&'a NodeColumn<ScalarAmount>),
    Zero,
}

impl Column<'_> {
    fn get(&self, node: NodeIx) -> i64 {
        match self {
            Self::Amounts(amounts) => amounts[node.index()],
            Self::Scalar(column) => column.get(node).allocatable,
            Self::Zero => 0,
        }
    }
}

impl NodeResourcesAllocatable {
    /// Returns the score of amounts that were multiplied with their weights and added up.
    fn score_of(&self, weighted: i128) -> i64 {
        let weights: i128 = self.resources.iter().map(|(_, weight)| i128::from(*weight)).sum();
        let score = self.sign * weighted / weights;
        i64::try_from(score).unwrap_or(i64::MAX)
    }
}

impl Score for NodeResourcesAllocatable {
    fn score(&self, _attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let amounts = self
            .resources
            .iter()
            .map(|(resource, weight)| i128::from(resource.allocatable(node)) * i128::from(*weight));
        Ok(self.score_of(amounts.sum()))
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let cluster = attempt.handle.cluster;
        let columns = self.resources.iter();
        let columns: Vec<_> =
            columns.map(|(resource, weight)| (resource.column(cluster), *weight)).collect();
        for (node, score) in scores.nodes.iter().zip(scores.values) {
            let amounts = columns.iter();
            let amounts =
                amounts.map(|(column, weight)| i128::from(column.get(*node)) * i128::from(*weight));
            *score = self.score_of(amounts.sum());
        }
        Ok(())
    }

    /// All pods have the same scores.
    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node).without_pods().of_requests())
    }
}

impl NormalizeScore for NodeResourcesAllocatable {
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        min_max::normalize(scores.values, 0, |_| true);
        Status::success()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use testkit::{Harness, node, pod};

    use super::*;

    fn harness(args: Value) -> Harness {
        Harness::new(plugin(&PluginArgs::new(args)).unwrap())
    }

    fn machine(name: &str, cpu: &str, memory: &str) -> framework::Node {
        node(name).allocatable("cpu", cpu).allocatable("memory", memory).build()
    }

    /// 8 CPUs and 16 GiB count as 8000 and 16384, and so on; raw scores are divided by 2^20 + 1.
    #[test]
    fn smallest_or_largest_machine_is_preferred_whatever_runs_there() {
        let rows = [(json!({}), [0, 66, 100]), (json!({"mode": "Most"}), [100, 33, 0])];
        for (args, expected) in rows {
            let harness = harness(args)
                .node(machine("a", "8", "16Gi"))
                .node(machine("b", "4", "8Gi"))
                .node(machine("c", "2", "4Gi"))
                .pod(pod("there").cpu("2").on("c").build());
            let run = harness.run(&pod("p").build());
            assert_eq!(["a", "b", "c"].map(|name| run.scores[name]), expected);
            assert_eq!(harness.ranking_problem(&pod("p").build()), None);
        }
    }

    #[test]
    fn worked_example() {
        let raw = |args| {
            let harness = harness(args).node(
                node("a")
                    .allocatable("cpu", "4")
                    .allocatable("memory", "8Gi")
                    .allocatable("example.com/gpu", "3")
                    .build(),
            );
            harness.run(&pod("p").build()).raw_scores["a"]
        };
        // (4000 × 2^20 + 2^33) / (2^20 + 1), rounded down.
        assert_eq!(raw(json!({"mode": "Most"})), 12_191);
        assert_eq!(raw(json!({"mode": "Least"})), -12_191);
        let gpus = json!([{"name": "example.com/gpu", "weight": 2}, {"name": "cpu", "weight": 1}]);
        assert_eq!(raw(json!({"mode": "Most", "resources": gpus})), 4006 / 3);
        let twice = json!([{"name": "cpu", "weight": 7}, {"name": "memory", "weight": 1},
            {"name": "cpu", "weight": 1}]);
        assert_eq!(raw(json!({"mode": "Most", "resources": twice})), ((8 << 30) + 4000) / 2);
        let unknown = json!([{"name": "cpu", "weight": 1}, {"name": "pods", "weight": 1}]);
        assert_eq!(raw(json!({"mode": "Most", "resources": unknown})), 2000);
    }

    #[test]
    fn equal_machines_score_zero() {
        let harness =
            harness(json!({})).node(machine("a", "4", "8Gi")).node(machine("b", "4", "8Gi"));
        assert!(harness.run(&pod("p").build()).scores.values().all(|score| *score == 0));
    }

    #[test]
    fn wrong_arguments_are_reported() {
        let error = |args| plugin(&PluginArgs::new(args)).map(|_| ()).unwrap_err();
        assert_eq!(
            error(json!({"mode": "Medium"})),
            "mode: Invalid value: \"Medium\": invalid support ModeType"
        );
        assert_eq!(
            error(json!({"resources": [{"name": "cpu"}]})),
            "resources[0].weight: Invalid value: 0: resource weight of cpu should be a positive \
             value, got :0"
        );
        let both = error(json!({"mode": "least", "resources": [{"name": "cpu", "weight": -1}]}));
        assert!(
            both.starts_with("[resources[0].weight: ") && both.ends_with("ModeType]"),
            "{both}"
        );
        assert!(error(json!({"modus": "Least"})).starts_with("unknown field `modus`"));
    }

    #[test]
    fn arguments_in_effect_have_their_defaults() {
        let shown = plugin(&PluginArgs::new(json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeResourcesAllocatableArgs",
            "resources": [],
        })));
        let resources =
            json!([{"name": "cpu", "weight": 1_048_576}, {"name": "memory", "weight": 1}]);
        let expected = json!({"mode": "Least", "resources": resources});
        assert_eq!(shown.unwrap().args, Some(expected));
    }

    proptest! {
        /// The scores follow the order of the sums, and the forms agree.
        #[test]
        fn scores_agree_with_the_naive_sum(
            machines in prop::collection::vec((0i64..200, 0i64..500, 0i64..9), 1..8),
            weights in (1i64..5, 1i64..5, 1i64..5),
            most: bool,
        ) {
            let (cpu, memory, gpu) = weights;
            let mode = if most { MOST } else { LEAST };
            let resources = json!([{"name": "cpu", "weight": cpu},
                {"name": "memory", "weight": memory}, {"name": "example.com/gpu", "weight": gpu}]);
            let mut harness = harness(json!({"mode": mode, "resources": resources}));
            let mut expected = Vec::new();
            for (place, (cores, mebibytes, gpus)) in machines.iter().enumerate() {
                let mut own = node(&format!("n{place}"))
                    .allocatable("cpu", &cores.to_string())
                    .allocatable("memory", &format!("{mebibytes}Mi"));
                if *gpus > 0 {
                    own = own.allocatable("example.com/gpu", &gpus.to_string());
                }
                harness = harness.node(own.build());
                let sum = cores * 1000 * cpu + (mebibytes << 20) * memory + gpus * gpu;
                expected.push(if most { sum } else { -sum } / (cpu + memory + gpu));
            }
            let run = harness.run(&pod("p").build());
            let (low, high) = (*expected.iter().min().unwrap(), *expected.iter().max().unwrap());
            for (place, raw) in expected.iter().enumerate() {
                let name = format!("n{place}");
                prop_assert_eq!(run.raw_scores[&name], *raw);
                let score = if low == high { 0 } else { (raw - low) * 100 / (high - low) };
                prop_assert_eq!(run.scores[&name], score);
            }
        }
    }
}
