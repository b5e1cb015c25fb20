//! LoadVariationRiskBalancing: prefers nodes whose measured load is low and steady.

use framework::{
    Attempt, AttemptMut, Dependence, NodeView, Plugin, PluginArgs, Score, ScoreScope, Status,
};
use serde::{Deserialize, Serialize};

use super::{LoadArgs, Reader, capacity};

/// Name of the plugin.
pub const NAME: &str = "LoadVariationRiskBalancing";

/// `LoadVariationRiskBalancingArgs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadVariationRiskBalancingArgs {
    /// Where the load is measured.
    #[serde(flatten)]
    pub load: LoadArgs,
    /// Weight of the deviation.
    pub safe_variance_margin: f64,
    /// The deviation counts with this root.
    pub safe_variance_sensitivity: f64,
}

impl Default for LoadVariationRiskBalancingArgs {
    fn default() -> Self {
        Self {
            load: LoadArgs::default(),
            safe_variance_margin: 1.0,
            safe_variance_sensitivity: 1.0,
        }
    }
}

const FIELDS: [&str; 5] = [
    "watcherAddress",
    "metricProvider",
    "maximumAgeSeconds",
    "safeVarianceMargin",
    "safeVarianceSensitivity",
];

/// The plugin.
#[derive(Debug)]
struct LoadVariationRiskBalancing {
    reader: Reader,
}

/// Makes the plugin from [`LoadVariationRiskBalancingArgs`].
///
/// # Errors
/// The arguments do not decode, or the source is not built.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    super::refuse_unknown(args, &FIELDS)?;
    let mut args = args.decode::<LoadVariationRiskBalancingArgs>()?;
    args.load = args.load.checked()?;
    let mut notes = Vec::new();
    for (field, value) in [
        ("safeVarianceMargin", &mut args.safe_variance_margin),
        ("safeVarianceSensitivity", &mut args.safe_variance_sensitivity),
    ] {
        if *value < 0.0 {
            *value = 1.0;
        }
        if *value != 1.0 {
            notes.push(format!(
                "{field} has no effect: metrics.k8s.io has no deviation of the load, which \
                 counts as 0"
            ));
        }
    }
    let plugin = LoadVariationRiskBalancing { reader: Reader::new(&args.load) };
    let plugin = Reader::register(Plugin::new(NAME, plugin).score());
    let plugin = notes.into_iter().fold(plugin, |plugin, note| plugin.note(note));
    Ok(plugin.decides_by_template().args(&args).build())
}

/// Returns 100 minus the risk, in percent: half the expected utilization.
fn score(utilization: f64) -> f64 {
    (1.0 - utilization.clamp(0.0, 1.0) / 2.0) * 100.0
}

impl Score for LoadVariationRiskBalancing {
    fn score(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        let Some(metrics) = self.reader.measured(node, attempt.handle) else { return Ok(0) };
        let (capacity, allocatable) = (capacity(node), node.allocatable());
        let request = &attempt.pod.requests.placed;
        // The measured share of the capacity, and the requested share of what pods can have.
        let part = |usage: i64, capacity: i64, request: i64, allocatable: i64| {
            let share = |part: i64, whole: i64| part as f64 / whole as f64;
            (capacity > 0 && allocatable > 0)
                .then(|| score(share(usage, capacity).min(1.0) + share(request, allocatable)))
        };
        let usage = metrics.usage;
        let cpu =
            part(usage.milli_cpu, capacity.milli_cpu, request.milli_cpu, allocatable.milli_cpu);
        let memory = part(usage.memory, capacity.memory, request.memory, allocatable.memory);
        Ok(match (cpu, memory) {
            (Some(cpu), Some(memory)) => cpu.min(memory),
            (own, other) => own.or(other).unwrap_or(0.0),
        }
        .round() as i64)
    }

    /// The pods on the node count by what is measured.
    fn dependence(&self, attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(self.reader.dependence(attempt).without_pods())
    }
}
