//! LowRiskOverCommitment: prefers nodes on which pods can use their limits, by the limits of the
//! pods on the node and by its measured load.

use std::collections::BTreeMap;

use framework::{NodeView, Plugin, PluginArgs, Pod, Time};
use serde::{Deserialize, Serialize};

use super::beta::Beta;
use super::frame::{LoadPlugin, Rating};
use super::measured::Measured;
use super::pods::{self, Amounts, OVERHEAD};
use super::{LoadArgs, Reader, allocatable, capacity, rounded};

/// Name of the plugin.
pub const NAME: &str = "LowRiskOverCommitment";

const DEFAULT_WINDOW: i64 = 5;
const DEFAULT_WEIGHT: f64 = 0.5;

/// The share of the highest variance that a measured deviation may have.
const VARIANCE_ALLOWANCE: f64 = 0.99;

/// `LowRiskOverCommitmentArgs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LowRiskOverCommitmentArgs {
    /// Where the load is measured.
    #[serde(flatten)]
    pub load: LoadArgs,
    /// Number of windows over which measurements are smoothed.
    pub smoothing_window_size: i64,
    /// Weight of the risk by limits against that by load, for `cpu` and `memory`.
    pub risk_limit_weights: BTreeMap<String, f64>,
}

impl Default for LowRiskOverCommitmentArgs {
    fn default() -> Self {
        Self {
            load: LoadArgs::default(),
            smoothing_window_size: DEFAULT_WINDOW,
            risk_limit_weights: BTreeMap::new(),
        }
    }
}

/// The fields that the arguments may have beside those of the load.
const FIELDS: [&str; 2] = ["smoothingWindowSize", "riskLimitWeights"];

#[derive(Debug, Clone, Copy)]
struct LowRiskOverCommitment {
    window: i64,
    cpu_weight: f64,
    memory_weight: f64,
}

/// A node without the pod.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    taken: Time,
    is_measured: bool,
    cpu: Part,
    memory: Part,
}

/// A resource of a node without the pod.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    capacity: i64,
    requests: i64,
    limits: i64,
    load_risk: f64,
}

/// Makes the plugin from [`LowRiskOverCommitmentArgs`].
///
/// # Errors
/// The arguments do not decode, or the source is invalid.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    super::refuse_unknown(args, &FIELDS)?;
    let mut args = args.decode::<LowRiskOverCommitmentArgs>()?;
    let reader = Reader::new(&mut args.load)?;
    if args.smoothing_window_size <= 0 {
        args.smoothing_window_size = DEFAULT_WINDOW;
    }
    for name in ["cpu", "memory"] {
        args.risk_limit_weights.entry(name.to_owned()).or_insert(DEFAULT_WEIGHT);
    }
    for weight in args.risk_limit_weights.values_mut() {
        if !(0.0..=1.0).contains(weight) {
            *weight = DEFAULT_WEIGHT;
        }
    }
    let rating = LowRiskOverCommitment {
        window: args.smoothing_window_size,
        cpu_weight: args.risk_limit_weights["cpu"],
        memory_weight: args.risk_limit_weights["memory"],
    };
    let plugin = LoadPlugin::new(rating, &reader);
    let plugin = Plugin::new(NAME, plugin).score().keep_containers().keep_pod_field(OVERHEAD);
    Ok(reader.register(plugin).decides_by_template().args(&args).build())
}

/// What a pod, or all pods of a node, request and are limited to.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    requests: Amounts,
    limits: Amounts,
}

impl Asked {
    /// Returns what the pod asks for. It may always use what it requests.
    fn of(pod: &Pod) -> Self {
        let requests = pods::requests(pod);
        Self { requests, limits: pods::limits(pod).or_more(requests) }
    }

    fn is_nothing(self) -> bool {
        self.limits == Amounts::default()
    }
}

/// Returns the probability that a load exceeds the requests, given that it does not exceed the
/// limits if these are below the capacity.
fn load_risk(measured: Measured, share: f64, part: Part, window: i64) -> f64 {
    if part.capacity <= 0 {
        return 0.0;
    }
    let of_capacity = |amount: i64| (amount as f64 / part.capacity as f64).clamp(0.0, 1.0);
    let mean = share.clamp(0.0, 1.0);
    let most = (mean * (1.0 - mean) * VARIANCE_ALLOWANCE).sqrt();
    let deviation = (measured.deviation.clamp(0.0, 1.0) * (window as f64).sqrt()).min(most);
    let requested = of_capacity(part.requests);
    let distribution = Beta::with_moments(mean, deviation);
    let mut within = match distribution {
        _ if mean == 0.0 => 1.0,
        _ if deviation == 0.0 => f64::from(mean <= requested),
        Some(own) => own.up_to(requested),
        None => 0.0,
    };
    if part.limits < part.capacity && part.requests <= part.limits {
        let limited = of_capacity(part.limits);
        if limited == 0.0 {
            within = 1.0;
        } else if let Some(own) = distribution {
            let possible = own.up_to(limited);
            if possible > 0.0 {
                within = (within / possible).clamp(0.0, 1.0);
            }
        }
    }
    1.0 - within
}

impl Part {
    /// Returns the risk with a pod that asks for this.
    #[inline]
    fn risk(&self, request: i64, limit: i64, weight: f64) -> f64 {
        let limits = self.limits.saturating_add(limit);
        let over = limits.saturating_sub(self.capacity);
        let limit_risk = if over > 0 {
            let requests = self.requests.saturating_add(request).min(self.capacity);
            over as f64 / limits.saturating_sub(requests) as f64
        } else {
            0.0
        };
        (weight * limit_risk + (1.0 - weight) * self.load_risk).clamp(0.0, 1.0)
    }
}

impl Rating for LowRiskOverCommitment {
    type Row = Row;
    type Asked = Asked;
    const COUNTS_PODS: bool = true;

    fn row(&self, node: &NodeView<'_>, reader: &Reader) -> Row {
        let Some(metrics) = reader.last(node) else { return Row::default() };
        let (capacity, allocatable) = (capacity(node), allocatable(node));
        let all = node.pods().map(|pod| Asked::of(pod)).fold(Asked::default(), |sum, own| Asked {
            requests: sum.requests.plus(own.requests),
            limits: sum.limits.plus(own.limits),
        });
        let requests = all.requests.at_most(allocatable);
        let with_load = |part: Part, measured: Option<Measured>, measured_of: i64| {
            let window = self.window;
            let load_risk = measured
                .map_or(0.0, |own| load_risk(own, own.average.share_of(measured_of), part, window));
            Part { load_risk, ..part }
        };
        let cpu = Part {
            capacity: allocatable.milli_cpu,
            requests: requests.milli_cpu,
            limits: all.limits.milli_cpu,
            load_risk: 0.0,
        };
        let memory = Part {
            capacity: allocatable.memory,
            requests: requests.memory,
            limits: all.limits.memory,
            load_risk: 0.0,
        };
        Row {
            taken: metrics.taken,
            is_measured: true,
            cpu: with_load(cpu, metrics.cpu, capacity.milli_cpu),
            memory: with_load(memory, metrics.memory, capacity.memory),
        }
    }

    fn asked(&self, pod: &Pod) -> Asked {
        Asked::of(pod)
    }

    #[inline]
    fn score(&self, row: &Row, asked: &Asked, fresh_since: Time) -> i64 {
        if asked.is_nothing() || !row.is_measured || row.taken < fresh_since {
            return 0;
        }
        let Asked { requests, limits } = asked;
        let cpu = row.cpu.risk(requests.milli_cpu, limits.milli_cpu, self.cpu_weight);
        let memory = row.memory.risk(requests.memory, limits.memory, self.memory_weight);
        rounded((1.0 - cpu.max(memory)) * 100.0)
    }
}
