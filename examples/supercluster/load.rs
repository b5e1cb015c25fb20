//! One run.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::Serialize;
use supercluster::simulation::{Latencies, Load, Report, Shape, World};

use crate::servers::{self, Threads, cpu_time_of_thread};
use crate::{Args, ServersName};

/// Time after the last bind in which its placement and its events are written.
const REST: Duration = Duration::from_secs(5);

/// A run, for people who want to know what it cost.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    servers: ServersName,
    #[serde(flatten)]
    report: Report,
    /// Number of pods whose placement is written.
    placed: usize,
    /// Seconds of real time without the creation of clusters, and of pods that are there from the
    /// beginning.
    run_s: f64,
    /// Bound pods per second of real time.
    pods_per_real_s: f64,
    /// Seconds of CPU time in the run of the thread of the roles, then of each thread of servers.
    threads_cpu_s: Vec<f64>,
    /// Seconds of real time of the thread of the roles by kind of work.
    cost_s: CostSeconds,
}

#[derive(Debug, Serialize)]
struct CostSeconds {
    schedulers: f64,
    agents: f64,
    /// The API servers, and the reading of their answers and watches; or the wait for the threads
    /// that do it.
    servers: f64,
}

/// Runs one simulation until all pods are bound.
pub(crate) fn run(args: &Args) -> Report {
    let begun = clock();
    let mut world = load(args).world();
    run_until_bound(args, &mut world);
    world.report(clock() - begun)
}

/// Runs one simulation until all is written, and measures the work.
pub(crate) fn measure(args: &Args) -> Run {
    let (begun, load) = (clock(), load(args));
    let threads = match args.servers {
        ServersName::Model => Threads::default(),
        ServersName::Sandbox => Threads::start(args.threads as usize - 1),
    };
    let mut world = match args.servers {
        ServersName::Model => load.world(),
        ServersName::Sandbox => {
            load.world_with(servers::servers(load.clusters, args.seed, &threads))
        }
    };
    // Pods that are there from the beginning.
    world.run_on(Duration::ZERO);
    world.measure_costs(clock);
    let (created, cpu_before) = (clock(), cpu_times(&threads));
    run_until_bound(args, &mut world);
    world.run_on(REST);
    let run = clock() - created;
    let cpu = cpu_times(&threads).into_iter().zip(cpu_before).map(|(end, begin)| end - begin);
    let (report, costs) = (world.report(clock() - begun), world.costs());
    let seconds = |time: Duration| (time.as_secs_f64() * 1e3).round() / 1e3;
    Run {
        servers: args.servers,
        placed: world.placed(),
        run_s: seconds(run),
        pods_per_real_s: (report.bound as f64 / run.as_secs_f64()).round(),
        threads_cpu_s: cpu.map(seconds).collect(),
        cost_s: CostSeconds {
            schedulers: seconds(costs.schedulers),
            agents: seconds(costs.agents),
            servers: seconds(costs.servers),
        },
        report,
    }
}

/// Returns the CPU time of this thread, and of each thread of servers.
fn cpu_times(threads: &Threads) -> Vec<Duration> {
    [vec![cpu_time_of_thread()], threads.cpu_times()].concat()
}

/// Pods that fit nowhere end the run.
fn run_until_bound(args: &Args, world: &mut World) {
    let arrivals = args.load.map_or(0.0, |rate| f64::from(args.pods) / rate);
    world.run(Duration::from_secs_f64(arrivals * 2.0) + Duration::from_mins(10));
}

/// Returns the time since the first call.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn clock() -> Duration {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed()
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
        mirrors: args.servers == ServersName::Sandbox,
        measure_every: (args.measure_every > 0).then_some(args.measure_every),
        seed: args.seed,
    }
}
