//! Schedules pods over many clusters in this process, in virtual time, and prints one line of JSON.
//!
//! ```text
//! cargo run --release --example supercluster -- --clusters 10 --nodes 2000 --pods 100000 \
//!     --schedulers 1 --candidates 3 --strategy random
//! ```
//!
//! Schedulers and agents are those of the program, with the default profile; network and API
//! servers are models with modelled latencies. `--curve` runs several loads and prints the
//! conflicts beside the formula. With `--https`, every role is a process of the binary and the API
//! servers are sandboxes: build the binary first, with the same profile.

mod curve;
mod https;
mod load;
mod servers;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde::Serialize;
use supercluster::simulation::Shape;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Schedules pods over many clusters with modelled latencies, and prints what came of it
#[derive(Debug, Clone, Parser)]
#[command(name = "supercluster")]
struct Args {
    /// Number of clusters
    #[arg(long, value_name = "C", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    clusters: u32,
    /// Number of nodes of each cluster
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Number of pods
    #[arg(long, value_name = "P", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// Number of schedulers, each with pods of its own
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    schedulers: u32,
    /// Maximum number of commit candidates of a decision
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    candidates: u32,
    /// Sampling strategy: random, round-robin, all or best
    #[arg(long, value_name = "X", default_value = "random")]
    strategy: String,
    /// Nodes wanted of each cluster, in basis points of its nodes
    #[arg(long, value_name = "B", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    share_bp: u32,
    /// Clusters to ask, in basis points of all clusters
    #[arg(long, value_name = "B", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clusters_bp: u32,
    /// Pods per second that arrive; without it all pods are there from the beginning
    #[arg(long, value_name = "L")]
    load: Option<f64>,
    /// Maximum number of pods that a scheduler has in flight
    #[arg(long, value_name = "F", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,
    /// Which pods and nodes there are
    #[arg(long, value_enum, default_value_t = ShapeName::Mixed)]
    shape: ShapeName,
    /// Maximum number of pods that run at a time; the oldest ends when there are more. 0 for no
    /// limit; 30 % of the nodes for the shape exclusive
    #[arg(long, value_name = "R")]
    live: Option<u32>,
    /// One way between scheduler and agent, in milliseconds on average
    #[arg(long, value_name = "MS", default_value_t = 2.0)]
    latency_ms: f64,
    /// With the strategy best: points by which the node chosen at the commit may be worse than the
    /// next candidate
    #[arg(long, value_name = "POINTS", default_value_t = 0.0)]
    tolerance: f64,
    /// The regret of one pod in so many is measured; 0 for none
    #[arg(long, value_name = "M", default_value_t = 16)]
    measure_every: u64,
    /// Seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Run several loads with 1 and 3 schedulers and 1 to 3 candidates, and print a table beside
    /// the formula. Loads below 1,600 pods/s have more pods, in proportion, so that as many of them
    /// meet a conflict
    #[arg(long)]
    curve: bool,
    /// Run several strategies and shares, and print a table of regrets and conflicts
    #[arg(long)]
    quality: bool,
    /// Run the roles of the binary over HTTPS on loopback, with the API servers of all clusters in
    /// this process, in real time. --shape, --live, --latency-ms, --tolerance and --measure-every
    /// do not apply. regret_mean is null: the best node at the time of a decision is known to no
    /// process, and to ask all agents for it would be the load that is measured
    #[arg(long, conflicts_with_all = ["curve", "quality", "shape", "live", "latency_ms", "tolerance", "measure_every"])]
    https: bool,
    /// What the API servers of a run in this process are
    #[arg(long, value_enum, default_value_t = ServersName::Model, conflicts_with_all = ["https", "curve", "quality"])]
    servers: ServersName,
    /// With --servers sandbox: number of threads, one for the roles and the others for API servers.
    /// It does not change what is decided
    #[arg(long, value_name = "T", default_value_t = 1, conflicts_with_all = ["https", "curve", "quality"], value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// Write the points of --curve or --quality to this file, one line of JSON each
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
}

/// The API servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum ServersName {
    /// Models of pods and their versions
    Model,
    /// The stores of the sandbox: all writes are requests and are validated, and watches are read
    Sandbox,
}

/// The pods and nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShapeName {
    /// Nodes of 8 to 64 CPU, pods of 0.25 to 2 CPU
    Mixed,
    /// Nodes that have room for one pod each, and scores that differ
    Exclusive,
}

impl From<ShapeName> for Shape {
    fn from(name: ShapeName) -> Self {
        match name {
            ShapeName::Mixed => Self::Mixed,
            ShapeName::Exclusive => Self::Exclusive,
        }
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    anyhow::ensure!(args.latency_ms >= 0.0 && args.latency_ms.is_finite(), "--latency-ms: no time");
    anyhow::ensure!(args.load.is_none_or(|load| load > 0.0), "--load: give a rate above 0");
    if args.https {
        return https::run(&args);
    }
    if args.curve {
        return curve::conflicts(&args);
    }
    if args.quality {
        return curve::quality(&args);
    }
    println!("{}", serde_json::to_string(&load::measure(&args))?);
    Ok(())
}
