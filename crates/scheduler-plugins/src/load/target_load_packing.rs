//! TargetLoadPacking: packs nodes up to a target utilization of their CPUs, and avoids nodes above.

use framework::{
    ContainerKind, ContainerResources, NodeView, Plugin, PluginArgs, Pod, Time, api,
    parse_resource_list,
};
use serde::{Deserialize, Serialize};

use super::frame::{LoadPlugin, Rating};
use super::pods::{self, OVERHEAD};
use super::{LoadArgs, Reader, capacity, rounded};

/// Name of the plugin.
pub const NAME: &str = "TargetLoadPacking";

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

/// The fields that the arguments may have beside those of the load.
const FIELDS: [&str; 3] = ["targetUtilization", "defaultRequests", "defaultRequestsMultiplier"];

#[derive(Debug)]
struct TargetLoadPacking {
    target: i64,
    default_milli_cpu: i64,
    multiplier: f64,
}

/// The load of a node without the pod.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    taken: Time,
    /// In thousandths of a CPU; what pods are expected to use that are not measured is in it.
    usage: f64,
    /// In thousandths of a CPU; 0 if nothing was measured.
    capacity: i64,
}

/// Makes the plugin from [`TargetLoadPackingArgs`].
///
/// # Errors
/// The arguments do not decode, the source is invalid, or the multiplier is no number.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    super::refuse_unknown(args, &FIELDS)?;
    let mut args = args.decode::<TargetLoadPackingArgs>()?;
    let reader = Reader::new(&mut args.load)?;
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
    let rating = TargetLoadPacking {
        target: args.target_utilization,
        default_milli_cpu: match args.default_requests.contains_key("cpu") {
            true => defaults.milli_cpu,
            false => 1000,
        },
        multiplier,
    };
    let plugin = LoadPlugin::new(rating, &reader);
    let plugin = Plugin::new(NAME, plugin).score().keep_containers().keep_pod_field(OVERHEAD);
    Ok(reader.register(plugin).decides_by_template().args(&args).build())
}

impl TargetLoadPacking {
    /// Returns the expected usage of a pod, in thousandths of a CPU.
    fn predicted(&self, pod: &Pod) -> i64 {
        let lasting = pod.containers().iter().filter(|own| own.kind == ContainerKind::App);
        let overhead = pods::overhead(pod).milli_cpu;
        lasting.fold(overhead, |sum, own| sum.saturating_add(self.of_container(own)))
    }

    fn of_container(&self, container: &ContainerResources) -> i64 {
        match (container.limits.milli_cpu, container.requests.milli_cpu) {
            (0, 0) => self.default_milli_cpu,
            (0, request) => (request as f64 * self.multiplier).round() as i64,
            (limit, _) => limit,
        }
    }
}

impl Rating for TargetLoadPacking {
    type Row = Row;
    /// The expected usage of the pod, in thousandths of a CPU.
    type Asked = i64;
    const COUNTS_PODS: bool = true;

    /// Returns the load of the node, with the expected usage of pods that are not measured.
    fn row(&self, node: &NodeView<'_>, reader: &Reader) -> Row {
        let measured = || {
            let metrics = reader.last(node)?;
            Some((metrics.taken, metrics.cpu?.last_listed?))
        };
        let Some((taken, level)) = measured() else { return Row::default() };
        let capacity = capacity(node).milli_cpu;
        let missing = pods::unmeasured(node, taken);
        let missing = missing.fold(0, |sum: i64, pod| sum.saturating_add(self.predicted(pod)));
        Row { taken, usage: level.amount_of(capacity) + missing as f64, capacity }
    }

    fn asked(&self, pod: &Pod) -> i64 {
        self.predicted(pod)
    }

    #[inline]
    fn score(&self, row: &Row, asked: &i64, fresh_since: Time) -> i64 {
        if row.capacity <= 0 || row.taken < fresh_since {
            return 0;
        }
        let usage = row.usage + *asked as f64;
        score(100.0 * usage / row.capacity as f64, self.target as f64)
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
    rounded(score)
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
