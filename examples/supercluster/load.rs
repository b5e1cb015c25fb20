//! One run.

use std::time::{Duration, Instant};

use supercluster::simulation::{Latencies, Load, Report, Shape};

use crate::Args;

/// Runs one simulation.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn run(args: &Args) -> Report {
    let begun = Instant::now();
    let mut world = load(args).world();
    // Pods that fit nowhere end the run.
    let arrivals = args.load.map_or(0.0, |rate| f64::from(args.pods) / rate);
    world.run(Duration::from_secs_f64(arrivals * 2.0) + Duration::from_mins(10));
    world.report(begun.elapsed())
}

fn load(args: &Args) -> Load {
    let (clusters, nodes) = (args.clusters as usize, args.nodes as usize);
    let shape = Shape::from(args.shape);
    let live = match (args.live, shape) {
        (Some(0), _) | (None, Shape::Mixed) => None,
        (Some(live), _) => Some(live as usize),
        (None, Shape::Exclusive) => Some(clusters * nodes * 3 / 10),
    };
    let network = Duration::from_secs_f64(args.latency_ms / 1e3);
    Load {
        clusters,
        nodes,
        pods: args.pods as usize,
        rate: args.load,
        shape,
        live,
        schedulers: args.schedulers as usize,
        candidates: args.candidates as usize,
        strategy: args.strategy.as_str().into(),
        share_bp: args.share_bp,
        clusters_bp: args.clusters_bp,
        in_flight: args.in_flight as usize,
        tolerance_milli: (args.tolerance * 1_000.0) as i64,
        latencies: Latencies { network, ..Latencies::default() },
        measure_every: (args.measure_every > 0).then_some(args.measure_every),
        seed: args.seed,
    }
}
