//! Plants bugs in a copy of the workspace, and counts how many of them the fault simulation finds.
//!
//! ```text
//! cargo run --example mutants -- --sample 100 --seeds 300
//! ```
//!
//! All mutations are compiled into one program and are switched on one at a time by an environment
//! variable. Mutations that do not compile are taken out. A mutation is tried with more and more seeds
//! until a rule of the simulation is violated. Seeds that do not reach it are skipped.

mod build;
mod mutation;
mod planter;
mod record;
mod report;
mod source;
mod trial;

use std::fs;
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};

use self::record::Record;
use self::report::Report;
use self::source::Source;
use self::trial::{Outcome, Simulation};

/// Plants bugs in queue, cache, world, binding, preemption, volume binding, API dispatcher, reflector and
/// leader election, and prints how many of them the fault simulation finds. An interrupted run goes on
/// where it was, unless the source has changed.
#[derive(Parser)]
#[command(name = "mutants")]
struct Args {
    /// Seeds for each mutation
    #[arg(long, value_name = "N", default_value_t = 60)]
    seeds: u64,
    /// Number of mutations, chosen at random; all by default
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed for the choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    choice: u64,
    /// Only mutations in this file or folder
    #[arg(long, value_name = "PATH")]
    only: Option<PathBuf>,
    /// Time after which no further run begins, in seconds
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    /// Processes side by side
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Only print the mutations
    #[arg(long)]
    list: bool,
    /// Folder for the copy, the program and the results
    #[arg(long, value_name = "DIR", default_value = "target/mutants")]
    folder: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = Source::read(root)?;
    if args.list {
        list(&source);
        return Ok(());
    }
    let folder = root.join(&args.folder);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut record = Record::open(&folder.join("results.jsonl"), source.fingerprint())?;
    let program = folder.join("faults");
    if record.rejected.is_none() {
        let mut rejected = Vec::new();
        let target = root.join("target");
        let built = build::build(&source, &folder.join("source"), &target, &mut rejected)?;
        fs::copy(built, &program).context("cannot keep the simulation")?;
        record.reject(rejected)?;
    }
    let simulation = Simulation { program, reached: folder.join("reached") };
    let chosen = choose(&source, &record, &args);
    try_all(&args, &simulation, &chosen, &mut record).await?;
    print!("{}", Report { source: &source, record: &record, chosen: &chosen });
    Ok(())
}

fn list(source: &Source) {
    for file in &source.planted {
        for mutation in &file.mutations {
            let (path, line) = (file.path.display(), mutation.lines.start());
            println!("{} {path}:{line}: {}", mutation.number, mutation.change);
        }
    }
}

/// Returns the mutations to try.
fn choose(source: &Source, record: &Record, args: &Args) -> Vec<usize> {
    let rejected = record.rejected.as_deref().unwrap_or_default();
    let files = source.planted.iter();
    let files = files.filter(|file| args.only.as_ref().is_none_or(|it| file.path.starts_with(it)));
    let numbers = files.flat_map(|file| file.mutations.iter().map(|it| it.number));
    let mut numbers: Vec<usize> = numbers.filter(|it| !rejected.contains(it)).collect();
    if let Some(sample) = args.sample {
        fastrand::Rng::with_seed(args.choice).shuffle(&mut numbers);
        numbers.truncate(sample);
    }
    numbers
}

/// Tries the mutations with batches of seeds, each batch with those that have survived the ones before.
/// So most mutations cost one seed or two.
async fn try_all(
    args: &Args,
    simulation: &Simulation,
    chosen: &[usize],
    record: &mut Record,
) -> anyhow::Result<()> {
    let end = args.limit.map(|limit| now() + Duration::from_secs(limit));
    let is_over = || end.is_some_and(|end| now() >= end);
    for seeds in batches(args.seeds) {
        if is_over() {
            break;
        }
        if record.baselines.get(&seeds.start).is_none_or(|it| it.seeds != seeds) {
            record.begin(simulation.baseline(seeds.clone()).await?)?;
        }
        let baseline = record.baselines[&seeds.start].clone();
        let is_open = |number: &&usize| {
            let known = record.tried.get(number);
            known.is_none_or(|(end, it)| *it == Outcome::Survived && *end < seeds.end)
                && baseline.reached.contains(number)
        };
        let open: Vec<usize> = chosen.iter().filter(is_open).copied().collect();
        let bar = ProgressBar::new(open.len() as u64).with_style(
            ProgressStyle::with_template("{msg} {pos}/{len} {wide_bar} {elapsed}")
                .expect("the template is fixed"),
        );
        bar.set_message(format!("seeds {seeds:?}"));
        let runs = stream::iter(open).take_while(|_| std::future::ready(!is_over()));
        let runs = runs.map(async |number| {
            simulation.run(number, &baseline).await.map(|outcome| (number, outcome))
        });
        let mut outcomes = runs.buffer_unordered(args.jobs);
        while let Some((number, outcome)) = outcomes.try_next().await? {
            record.tried(number, seeds.end, outcome)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
    }
    Ok(())
}

/// Returns ranges of seeds below `count`, each twice as long as the one before.
fn batches(count: u64) -> impl Iterator<Item = Range<u64>> {
    let ends = iter::successors(Some(1), |end| Some(end * 2 + 1));
    let mut start = 0;
    ends.map_while(move |end| {
        let seeds = start..count.min(end);
        start = seeds.end;
        (!seeds.is_empty()).then_some(seeds)
    })
}

#[expect(clippy::disallowed_methods, reason = "limits the time of the tool")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::batches;

    #[test]
    fn batches_cover_all_seeds_once() {
        assert_eq!(batches(10).collect::<Vec<_>>(), [0..1, 1..3, 3..7, 7..10]);
        assert_eq!(batches(3).collect::<Vec<_>>(), [0..1, 1..3]);
    }
}
