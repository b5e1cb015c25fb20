//! Drawing a workload of a chosen size from a trace, with the method of the FGD paper (USENIX
//! ATC'23).
//!
//! The published method is `TunePodsByNodeTotalResource` of
//! hkust-adsl/kubernetes-scheduler-simulator, run with `shufflePod: true` and a ratio of 1.3. It
//! sorts the pods by name, shuffles them, and brings their GPU demand to the target. If the demand
//! is too high, it removes random pods. If the demand is too low, it draws pods with replacement
//! from the whole list, including pods without GPU, and appends copies until the next copy would
//! exceed the target. Pods never leave.
//!
//! This implementation differs in three points:
//!
//! * The generator is not Go's, so a seed gives another drawing with the same distribution.
//! * Pods are removed from the end of the shuffled list instead of at random. The order is already
//!   random, so the distribution is the same.
//! * The published check of the next copy adds its share of *one* device, so a pod with eight
//!   devices may exceed the target by up to seven. Here the whole demand counts and the target is
//!   never exceeded. The drawing ends below it by less than the demand of one pod.

use std::collections::HashSet;

use fastrand::Rng;
use thiserror::Error;

use super::{Trace, TracePod};

/// Maximum number of pods of a drawing, to limit memory.
const MAX_PODS: u128 = 5_000_000;

/// The reason no workload can be drawn.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InflateError {
    /// The target is 0.
    #[error("a target of 0 % of the GPU capacity leaves nothing to draw: expected 1 or more")]
    ZeroTarget,
    /// The cluster has no GPU, so there is no GPU capacity to relate to.
    #[error("no node has a GPU: the target is a percentage of the GPU capacity")]
    NoCapacity,
    /// No pod requests a GPU, so drawing would never reach the target.
    #[error("no pod asks for a GPU: drawing pods would never reach the target")]
    NoDemand,
    /// The target is too large compared with the demand of a pod.
    #[error(
        "{percent} % of the GPU capacity takes about {pods} pods: expected {MAX_PODS} or fewer"
    )]
    TooMany {
        /// The target in percent.
        percent: u32,
        /// The number of pods needed.
        pods: u128,
    },
}

/// Draws pods from the trace until their GPU demand is `percent` of the GPU capacity of its nodes.
///
/// The pods of the trace come first in shuffled order, then copies of random pods. A copy is named
/// after the original with `-copy-` and a number. The module documentation lists the differences
/// from the published method. The pods have no times: they arrive in the returned order and never
/// leave. Equal trace, percentage and seed give an equal drawing, in any order of the trace.
///
/// # Errors
/// The target is 0, cannot be reached, or would need millions of pods.
pub fn inflate(trace: &Trace, percent: u32, seed: u64) -> Result<Vec<TracePod>, InflateError> {
    let target = target_milli(trace, percent)?;
    let mut rng = Rng::with_seed(seed);
    let originals = by_name(trace);
    let mut drawing = Drawing { target, ..Drawing::default() };

    let mut order: Vec<usize> = (0..originals.len()).collect();
    rng.shuffle(&mut order);
    for original in order.into_iter().map(|ix| originals[ix]) {
        if !drawing.add(original, &original.name) {
            return Ok(drawing.pods);
        }
    }
    if drawing.demand == drawing.target {
        return Ok(drawing.pods);
    }
    let mut names = Names::of(&originals);
    while let Some(original) = rng.choice(originals.iter().copied()) {
        if !drawing.add(original, &names.copy_of(original)) {
            break;
        }
    }
    Ok(drawing.pods)
}

/// Returns the GPU demand to reach, in thousandths of a device, if it can be reached.
fn target_milli(trace: &Trace, percent: u32) -> Result<u128, InflateError> {
    let capacity = u128::from(trace.capacity().gpu_milli);
    let demand = u128::from(trace.demand().gpu_milli);
    if percent == 0 {
        return Err(InflateError::ZeroTarget);
    }
    if capacity == 0 {
        return Err(InflateError::NoCapacity);
    }
    if demand == 0 {
        return Err(InflateError::NoDemand);
    }
    let target = capacity * u128::from(percent) / 100;
    let pods = (target / demand).saturating_mul(trace.pods.len() as u128);
    if pods > MAX_PODS {
        return Err(InflateError::TooMany { percent, pods });
    }
    Ok(target)
}

fn by_name(trace: &Trace) -> Vec<&TracePod> {
    let mut pods: Vec<&TracePod> = trace.pods.iter().collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    pods
}

/// The pods drawn and their demand; both numbers are thousandths of a GPU.
#[derive(Default)]
struct Drawing {
    target: u128,
    demand: u128,
    pods: Vec<TracePod>,
}

impl Drawing {
    /// Adds the pod under a name, unless that would exceed the target; returns whether it was
    /// added.
    fn add(&mut self, pod: &TracePod, name: &str) -> bool {
        let demand = self.demand + u128::from(pod.demand().gpu_milli);
        if demand > self.target {
            return false;
        }
        self.demand = demand;
        self.pods.push(TracePod {
            name: name.to_owned(),
            created: None,
            deleted: None,
            scheduled: None,
            ..pod.clone()
        });
        true
    }
}

/// Generates names for copies that no pod of the trace has.
struct Names<'a> {
    taken: HashSet<&'a str>,
    next: u64,
}

impl<'a> Names<'a> {
    fn of(pods: &[&'a TracePod]) -> Self {
        Self { taken: pods.iter().map(|pod| pod.name.as_str()).collect(), next: 0 }
    }

    fn copy_of(&mut self, pod: &TracePod) -> String {
        loop {
            let name = format!("{}-copy-{}", pod.name, self.next);
            self.next += 1;
            if !self.taken.contains(name.as_str()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceNode;

    fn pod(name: &str, gpus: u64, gpu_milli: u64) -> TracePod {
        TracePod {
            name: name.to_owned(),
            gpus,
            gpu_milli,
            created: Some(1),
            deleted: Some(2),
            scheduled: Some(1),
            ..Default::default()
        }
    }

    /// Returns ten devices, ten pods that request 0.5 devices each, and five pods that request
    /// none.
    fn trace() -> Trace {
        let node = TraceNode { name: "n".to_owned(), gpus: 10, ..Default::default() };
        let gpu = (0..10).map(|ix| pod(&format!("gpu-{ix}"), 1, 500));
        let cpu = (0..5).map(|ix| pod(&format!("cpu-{ix}"), 0, 0));
        Trace { nodes: vec![node], pods: gpu.chain(cpu).collect() }
    }

    fn draw(trace: &Trace, percent: u32, seed: u64) -> Vec<TracePod> {
        inflate(trace, percent, seed).expect("the target is within reach")
    }

    fn demand(pods: &[TracePod]) -> u64 {
        pods.iter().map(|pod| pod.demand().gpu_milli).sum()
    }

    fn names(pods: &[TracePod]) -> Vec<&str> {
        pods.iter().map(|pod| pod.name.as_str()).collect()
    }

    #[test]
    fn shuffled_originals_come_before_copies() {
        let trace = trace();
        let drawn = draw(&trace, 130, 42);
        assert_eq!(demand(&drawn), 13_000);
        let (first, copies) = drawn.split_at(trace.pods.len());
        let mut sorted = names(first);
        assert!(!sorted.is_sorted(), "a shuffle leaves its mark");
        sorted.sort_unstable();
        assert_eq!(sorted, names(&by_name(&trace).into_iter().cloned().collect::<Vec<_>>()));
        assert!(copies.iter().all(|pod| pod.name.contains("-copy-")));
        assert!(copies.iter().any(|pod| pod.gpus == 0), "pods without GPU are drawn as well");
    }

    #[test]
    fn drawing_depends_on_the_seed_but_not_on_the_order_of_the_trace() {
        let trace = trace();
        let mut reversed = trace.clone();
        reversed.pods.reverse();
        assert_eq!(draw(&trace, 130, 7), draw(&trace, 130, 7));
        assert_eq!(draw(&trace, 130, 7), draw(&reversed, 130, 7));
        assert_ne!(draw(&trace, 130, 7), draw(&trace, 130, 8));
    }

    #[test]
    fn drawing_stops_at_a_target_below_the_demand_of_the_trace() {
        let trace = trace();
        for seed in 0..20 {
            let drawn = draw(&trace, 30, seed);
            assert_eq!(demand(&drawn), 3_000, "seed {seed}");
            assert!(drawn.iter().all(|pod| !pod.name.contains("-copy-")));
        }
    }

    #[test]
    fn no_pod_is_copied_at_exactly_the_demand_of_the_trace() {
        assert_eq!(draw(&trace(), 50, 1).len(), 15);
    }

    #[test]
    fn target_is_approached_and_never_exceeded() {
        let mut trace = trace();
        trace.pods.push(pod("big", 4, 1000));
        for seed in 0..50 {
            let demand = demand(&draw(&trace, 125, seed));
            assert!((8_501..=12_500).contains(&demand), "seed {seed}: {demand}");
        }
    }

    #[test]
    fn names_are_unique_even_if_the_trace_has_copies() {
        let mut trace = trace();
        trace.pods.extend((0..40).map(|ix| pod(&format!("gpu-0-copy-{ix}"), 1, 10)));
        let drawn = draw(&trace, 900, 3);
        let distinct: HashSet<&str> = drawn.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(distinct.len(), drawn.len());
    }

    #[test]
    fn drawn_pods_have_no_times() {
        for pod in draw(&trace(), 130, 5) {
            assert_eq!((pod.created, pod.deleted, pod.scheduled), (None, None, None));
        }
    }

    #[test]
    fn unreachable_target_is_an_error() {
        let no_gpu = Trace { nodes: vec![TraceNode::default()], ..trace() };
        let no_pods = Trace { pods: Vec::new(), ..trace() };
        let only_cpu = Trace { pods: vec![pod("cpu", 0, 0)], ..trace() };
        assert_eq!(inflate(&trace(), 0, 1), Err(InflateError::ZeroTarget));
        assert_eq!(inflate(&no_gpu, 100, 1), Err(InflateError::NoCapacity));
        assert_eq!(inflate(&no_pods, 100, 1), Err(InflateError::NoDemand));
        assert_eq!(inflate(&only_cpu, 100, 1), Err(InflateError::NoDemand));
        let too_many = InflateError::TooMany { percent: u32::MAX, pods: 1_288_490_175 };
        assert_eq!(inflate(&trace(), u32::MAX, 1), Err(too_many));
    }
}
