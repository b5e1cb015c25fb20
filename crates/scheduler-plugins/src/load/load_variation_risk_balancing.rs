//! LoadVariationRiskBalancing: prefers nodes whose measured load is low and steady.

use framework::{NodeView, Plugin, PluginArgs, Pod, Time};
use serde::{Deserialize, Serialize};

use super::frame::{LoadPlugin, Rating};
use super::measured::Measured;
use super::pods::{self, Amounts};
use super::{LoadArgs, Reader, allocatable, capacity, rounded};

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

/// The fields that the arguments may have beside those of the load.
const FIELDS: [&str; 2] = ["safeVarianceMargin", "safeVarianceSensitivity"];

#[derive(Debug)]
struct LoadVariationRiskBalancing {
    margin: f64,
    sensitivity: f64,
}

/// The load of a node without the pod.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    taken: Time,
    cpu: Option<Part>,
    memory: Option<Part>,
}

/// The load of a resource as shares.
#[derive(Debug, Clone, Copy)]
struct Part {
    average: f64,
    /// The deviation with margin and sensitivity.
    deviation: f64,
    /// What the node can give to pods.
    allocatable: i64,
}

/// Makes the plugin from [`LoadVariationRiskBalancingArgs`].
///
/// # Errors
/// The arguments do not decode, or the source is invalid.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    super::refuse_unknown(args, &FIELDS)?;
    let mut args = args.decode::<LoadVariationRiskBalancingArgs>()?;
    let reader = Reader::new(&mut args.load)?;
    let mut notes = Vec::new();
    for (field, value) in [
        ("safeVarianceMargin", &mut args.safe_variance_margin),
        ("safeVarianceSensitivity", &mut args.safe_variance_sensitivity),
    ] {
        if *value < 0.0 {
            *value = 1.0;
        }
        if *value != 1.0 && !reader.has_deviations() {
            notes.push(format!(
                "{field} has no effect: metrics.k8s.io has no deviation of the load, which \
                 counts as 0"
            ));
        }
    }
    let rating = LoadVariationRiskBalancing {
        margin: args.safe_variance_margin,
        sensitivity: args.safe_variance_sensitivity,
    };
    let plugin = LoadPlugin::new(rating, &reader);
    let plugin = reader.register(Plugin::new(NAME, plugin).score());
    let plugin = notes.into_iter().fold(plugin, |plugin, note| plugin.note(note));
    Ok(plugin.decides_by_template().args(&args).build())
}

/// Returns 100 minus the risk in percent, for a load and its deviation.
fn score(load: f64, deviation: f64) -> f64 {
    (1.0 - f64::midpoint(load.clamp(0.0, 1.0), deviation)) * 100.0
}

impl Part {
    #[inline]
    fn score(&self, request: i64) -> f64 {
        match self.allocatable {
            none if none <= 0 => 0.0,
            some => score(self.average + request.max(0) as f64 / some as f64, self.deviation),
        }
    }
}

impl Rating for LoadVariationRiskBalancing {
    type Row = Row;
    type Asked = Amounts;
    /// The pods on the node count by what is measured.
    const COUNTS_PODS: bool = false;

    fn row(&self, node: &NodeView<'_>, reader: &Reader) -> Row {
        let Some(metrics) = reader.last(node) else { return Row::default() };
        let (capacity, allocatable) = (capacity(node), allocatable(node));
        let part = |own: Measured, capacity: i64, allocatable: i64| {
            let deviation = own.deviation.clamp(0.0, 1.0).powf(1.0 / self.sensitivity);
            Part {
                average: own.average.share_of(capacity).min(1.0),
                deviation: (deviation * self.margin).clamp(0.0, 1.0),
                allocatable,
            }
        };
        Row {
            taken: metrics.taken,
            cpu: metrics.cpu.map(|own| part(own, capacity.milli_cpu, allocatable.milli_cpu)),
            memory: metrics.memory.map(|own| part(own, capacity.memory, allocatable.memory)),
        }
    }

    fn asked(&self, pod: &Pod) -> Amounts {
        pods::requests(pod)
    }

    #[inline]
    fn score(&self, row: &Row, asked: &Amounts, fresh_since: Time) -> i64 {
        if row.taken < fresh_since {
            return 0;
        }
        let cpu = row.cpu.map(|own| own.score(asked.milli_cpu));
        let memory = row.memory.map(|own| own.score(asked.memory));
        rounded(match (cpu, memory) {
            (Some(cpu), Some(memory)) => cpu.min(memory),
            (own, other) => own.or(other).unwrap_or(0.0),
        })
    }
}
