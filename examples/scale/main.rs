//! Schedules many pods on many nodes in this process, and prints one line of JSON.
//!
//! ```text
//! cargo run --release --example scale -- --nodes 100000 --pods 100000 --templates 200 --shape mixed
//! ```
//!
//! Requests of the engine are answered at once, and the watch shows each bind before the next
//! decision. With `--placements` the run is written to a file, so that another program can check
//! it.

mod cluster;
mod record;
mod recording;
mod report;
mod rules;
mod run;
mod template;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use run::Run;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Schedules pods of many templates on nodes of several sizes, and prints how long that took
#[derive(Debug, Clone, Parser)]
#[command(name = "scale")]
struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Number of pods
    #[arg(long, value_name = "P", default_value_t = 50_000)]
    pods: u32,
    /// Number of templates
    #[arg(long, value_name = "T", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    templates: u32,
    /// Constraints of the pods
    #[arg(long, value_enum, default_value_t = Shape::Basic)]
    shape: Shape,
    /// Seed of templates, runs and decisions
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Share of the pods that are deleted and replaced on the way, from 0 to 1
    #[arg(long, value_name = "R", default_value_t = 0.0, value_parser = share)]
    churn: f64,
    /// Let one pod in a hundred preempt others
    #[arg(long)]
    preempt: bool,
    /// Number of threads that look at all nodes for the first pod of a template, but no more than
    /// there are cores
    #[arg(long, value_name = "N", default_value_t = 16)]
    parallelism: i32,
    /// Look at every node in every attempt
    #[arg(long)]
    no_rankings: bool,
    /// Record what enters and leaves the engine in this file, for `loadmaster replay`
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Write nodes, templates and what happened to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    placements: Option<PathBuf>,
}

/// The constraints of the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// Requests; some pods with selectors, tolerations or host ports
    Basic,
    /// Also topology spread constraints
    Spread,
    /// Also affinity or anti-affinity to pods
    Affinity,
    /// Half basic, the others with one of each constraint
    Mixed,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("give a number from 0 to 1".into()) }
}

fn main() -> anyhow::Result<()> {
    let report = Run::new(Args::parse())?.complete()?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

#[cfg(test)]
mod tests;
