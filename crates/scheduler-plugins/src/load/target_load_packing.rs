//! TargetLoadPacking: packs nodes up to a target utilization of their CPUs, and avoids nodes above.

use std::time::Duration;

use framework::{
    Attempt, AttemptMut, ContainerKind, ContainerResources, Dependence, NodeView, PerNode, Plugin,
    PluginArgs, Pod, Score, ScoreScope, Status, api, parse_resource_list,
};
use serde::{Deserialize, Serialize};

use super::{LoadArgs, NodeMetrics, Reader, capacity};

/// Name of the plugin.
pub const NAME: &str = "TargetLoadPacking";

/// The CPU among the overhead of a pod.
const OVERHEAD: &str = "/spec/overhead";

/// A pod that started less than this before a measurement is not in it.
const REPORTING_LAG: Duration = Duration::from_mins(1);

const DEFAULT_TARGET: i64 = 40;

/// `TargetLoadPackingArgs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetLoadPackingArgs {
    /// Where the load is measured.
    #[serde(flatten)]
    pub load: LoadArgs,
    /// Utilization up to which nodes are packed, in percent.
    pub target_utilization: i64,
    /// Usage of a container without a request and a limit.
    pub default_requests: api::ResourceList,
    /// Usage of a container without a limit, in proportion to its request.
    pub default_requests_multiplier: String,
}

impl Default for TargetLoadPackingArgs {
    fn default() -> Self {
        Self {
            load: LoadArgs::default(),
            target_utilization: DEFAULT_TARGET,
            default_requests: api::ResourceList::default(),
            default_requests_multiplier: "1.5".to_owned(),
        }
    }
}

/// The fields that the arguments may have.
const FIELDS: [&str; 6] = [
    "watcherAddress",
    "metricProvider",
    "maximumAgeSeconds",
    "targetUtilization",
    "defaultRequests",
    "defaultRequestsMultiplier",
];

/// The plugin.
#[derive(Debug)]
struct TargetLoadPacking {
    reader: Reader,
    target: i64,
    default_milli_cpu: i64,
    multiplier: f64,
}

/// Makes the plugin from [`TargetLoadPackingArgs`].
///
/// # Errors
/// The arguments do not decode, the source is not built, or the multiplier is no number.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    super::refuse_unknown(args, &FIELDS)?;
    let mut args = args.decode::<TargetLoadPackingArgs>()?;
    args.load = args.load.checked()?;
    if args.target_utilization <= 0 {
        args.target_utilization = DEFAULT_TARGET;
    }
    if args.target_utilization > 100 {
        let got = args.target_utilization;
        return Err(format!("targetUtilization: must be at most 100, got {got}"));
    }
    let multiplier = args.default_requests_multiplier.parse::<f64>().ok();
    let multiplier = multiplier.filter(|multiplier| multiplier.is_finite() && *multiplier >= 0.0);
    let multiplier = multiplier.ok_or_else(|| {
        let got = &args.default_requests_multiplier;
        format!("defaultRequestsMultiplier: must be a number from 0 on, got {got:?}")
    })?;
    let mut problems = Vec::new();
    let defaults = parse_resource_list(&args.default_requests, "defaultRequests", &mut problems);
    if let Some(problem) = problems.first() {
        return Err(problem.to_string());
    }
    let plugin = TargetLoadPacking {
        reader: Reader::new(&args.load),
        target: args.target_utilization,
        default_milli_cpu: match args.default_requests.contains_key("cpu") {
            true => defaults.milli_cpu,
            false => 1000,
        },
        multiplier,
    };
    let plugin = Plugin::new(NAME, plugin).score().keep_containers().keep_pod_field(OVERHEAD);
    Ok(Reader::register(plugin).decides_by_template().args(&args).build())
}

impl TargetLoadPacking {
    /// Returns the expected usage of a pod, in thousandths of a CPU.
    fn predicted(&self, pod: &Pod) -> i64 {
        let lasting = pod.containers().iter().filter(|own| own.kind == ContainerKind::App);
        let overhead = pod.extra.get(OVERHEAD).and_then(|list| {
            let list = api::ResourceList::deserialize(list).ok()?;
            Some(parse_resource_list(&list, "", &mut Vec::new()).milli_cpu)
        });
        lasting.fold(overhead.unwrap_or(0), |sum, own| sum.saturating_add(self.of_container(own)))
    }

    fn of_container(&self, container: &ContainerResources) -> i64 {
        match (container.limits.milli_cpu, container.requests.milli_cpu) {
            (0, 0) => self.default_milli_cpu,
            (0, request) => (request as f64 * self.multiplier).round() as i64,
            (limit, _) => limit,
        }
    }

    /// Returns the expected usage of pods that came after the measurement.
    fn missing(&self, node: &NodeView<'_>, metrics: &NodeMetrics) -> i64 {
        let later = node.pods().filter(|pod| {
            pod.start_time.get().is_none_or(|started| metrics.taken.since(started) < REPORTING_LAG)
        });
        later.fold(0, |sum, pod| sum.saturating_add(self.predicted(pod)))
    }

    fn score_of(&self, incoming: i64, node: &NodeView<'_>, attempt: &Attempt<'_>) -> i64 {
        let Some(metrics) = self.reader.measured(node, attempt.handle) else { return 0 };
        let capacity = capacity(node).milli_cpu;
        if capacity <= 0 {
            return 0;
        }
        let usage =
            metrics.usage.milli_cpu as f64 + incoming as f64 + self.missing(node, metrics) as f64;
        score(100.0 * usage / capacity as f64, self.target as f64)
    }
}

/// Returns the score for an expected utilization: it rises from `target` to 100 at the target,
/// drops to `target` behind it, and falls from there to 0 at full use.
fn score(utilization: f64, target: f64) -> i64 {
    let score = match utilization {
        over if over > 100.0 => 0.0,
        above if above > target => target * (100.0 - above) / (100.0 - target),
        below => (100.0 - target) * below / target + target,
    };
    score.round() as i64
}

impl Score for TargetLoadPacking {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(self.score_of(self.predicted(attempt.pod), node, attempt))
    }

    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let incoming = self.predicted(attempt.pod);
        for (node, score) in scores.nodes.iter().zip(scores.values) {
            *score = self.score_of(incoming, &attempt.handle.cluster.node(*node), attempt);
        }
        Ok(())
    }

    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(self.reader.dependence(attempt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_drops_behind_the_target() {
        for (utilization, expected) in
            [(0.0, 40), (20.0, 70), (40.0, 100), (41.0, 39), (70.0, 20), (100.0, 0), (150.0, 0)]
        {
            assert_eq!(score(utilization, 40.0), expected, "{utilization}");
        }
        assert_eq!(score(100.0, 100.0), 100);
    }
}
