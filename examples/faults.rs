//! Runs the fault simulation, one seed after the other.
//!
//! ```text
//! cargo run --release --example faults -- --seeds 0..300
//! cargo run --release --example faults -- --fresh 1000
//! ```

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use std::ops::Range;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

/// Checks, under a virtual clock and with faults from a seed, that no pod is bound twice, lost or
/// overcommits a node, and that scheduler and server agree at rest. Exits with 1 and the seed if a
/// rule is violated; the seed replays the violation.
#[derive(Parser)]
#[command(name = "faults")]
struct Args {
    /// Seeds, the last one excluded
    #[arg(long, value_name = "A..B", default_value = "0..300", value_parser = range)]
    seeds: Range<u64>,
    /// Instead of these, as many seeds from a start drawn by lot, which is printed
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = clap::value_parser!(u64).range(1..))]
    fresh: Option<u64>,
    /// Actions in each run of the scheduler; with 0, only the parts of the scheduler run
    #[arg(long, value_name = "N", default_value_t = 300)]
    steps: u32,
    /// Print every event
    #[arg(long)]
    trace: bool,
}

/// Number of seeds from which each fault must have fired and each state must have been entered.
const WHOLE_RUN: u64 = 300;

fn range(text: &str) -> Result<Range<u64>, String> {
    let (start, end) = text.split_once("..").ok_or("give two numbers, like 0..300")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let range = number(start)?..number(end)?;
    if range.is_empty() { Err("the range is empty".to_owned()) } else { Ok(range) }
}

/// Fresh seeds are drawn below this number, so that they can be read and typed.
const FRESH_SEEDS: u64 = 1_000_000_000_000;

fn fresh(count: u64) -> Range<u64> {
    let start = fastrand::u64(..FRESH_SEEDS);
    start..start.saturating_add(count)
}

fn main() -> ExitCode {
    let Args { seeds, fresh: drawn, steps, trace } = Args::parse();
    let seeds = drawn.map_or(seeds, fresh);
    let count = seeds.end - seeds.start;
    println!("seeds {}..{}", seeds.start, seeds.end);
    let bar = ProgressBar::new(count).with_style(
        ProgressStyle::with_template("{pos}/{len} seeds {wide_bar} {elapsed}")
            .expect("the template is fixed"),
    );
    let outcomes: Vec<_> = seeds
        .into_par_iter()
        .map(|seed| simulation::run(seed, steps, trace))
        .inspect(|(_, violation)| {
            bar.inc(1);
            if let Some(violation) = violation {
                bar.suspend(|| eprintln!("seed {}: {}", violation.seed, violation.text));
            }
        })
        .collect();
    bar.finish_and_clear();
    let mut total = simulation::Summary::default();
    let mut broken = Vec::new();
    for (summary, violation) in outcomes {
        total += summary;
        if let Some(violation) = violation {
            if broken.is_empty() {
                eprintln!("{violation}");
            }
            broken.push(violation.seed);
        }
    }
    let coverage = std::mem::take(&mut total.coverage);
    println!("{coverage}");
    println!(
        "{count} seeds: {} pods bound, {} volumes given, {} evicted, {} crashes, {} terms of leaders, {} faults on the \
         way, {} late binds of killed processes carried out and {} refused, {} pods pending for good reason, {} woken by changes, {} of them in vain; {} changes \
         recorded in {} bytes and replayed; {} seeds broke a rule; fingerprint {:016x}",
        total.bound,
        total.given,
        total.evicted,
        total.crashes,
        total.terms,
        total.faults,
        total.late_binds,
        total.fenced_binds,
        total.pending,
        total.wake_ups.all,
        total.wake_ups.idle,
        total.changes,
        total.recorded,
        broken.len(),
        total.fingerprint
    );
    let missing: Vec<&str> = coverage.missing().collect();
    let is_blind = !missing.is_empty() && count >= WHOLE_RUN;
    if is_blind {
        eprintln!("never seen: {}", missing.join(", "));
    }
    for seed in &broken {
        let end = seed + 1;
        eprintln!(
            "to replay: cargo run --example faults -- --seeds {seed}..{end} --steps {steps} --trace"
        );
    }
    if broken.is_empty() && !is_blind { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
