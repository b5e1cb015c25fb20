//! Plants bugs in a copy of the workspace, and counts how many of them the fault simulation finds.
//!
//! ```text
//! cargo run --example mutants -- --sample 100 --seeds 60 --tests
//! ```
//!
//! All mutations are compiled into one program, and an environment variable switches them on.
//! Mutations that do not compile are taken out. Each seed runs once without a mutation, and shows
//! which ones it reaches. These are switched on in batches. If a rule of the simulation is violated,
//! the halves of the batch are tried, and so on, until single mutations violate it. The tests of
//! its crate are run with those that remain.

mod bugs;
mod build;
mod mutation;
mod planter;
mod record;
mod report;
mod source;
mod trial;
mod verdicts;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};

use self::build::Program;
use self::mutation::Key;
use self::record::Record;
use self::report::Report;
use self::source::Source;
use self::trial::{Outcome, Simulation, Tests};
use self::verdicts::Verdicts;

/// The decisions about mutations that are not found.
const VERDICTS: &str = "examples/mutants/verdicts.toml";

/// Plants bugs in queue, cache, world, binding, preemption, volume binding, devices, API
/// dispatcher, reflector and leader election, and prints how many of them the fault simulation
/// finds. An interrupted run goes on where it was, unless the source has changed.
#[derive(Parser)]
#[command(name = "mutants")]
struct Args {
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 60)]
    seeds: usize,
    /// Maximum number of seeds for each mutation
    #[arg(long, value_name = "N", default_value_t = usize::MAX)]
    most: usize,
    /// Maximum number of mutations that are switched on together
    #[arg(long, value_name = "N", default_value = "12")]
    together: NonZeroUsize,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    first_seed: u64,
    /// Number of mutations, chosen at random; all by default
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed for the choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    choice: u64,
    /// Only mutations in this file or folder
    #[arg(long, value_name = "PATH")]
    only: Option<PathBuf>,
    /// Only these mutations
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with_all = ["sample", "only"])]
    numbers: Vec<usize>,
    /// The bugs of examples/mutants/bugs.toml instead of random mutations
    #[arg(long, conflicts_with = "sample")]
    by_hand: bool,
    /// Only the parts of the scheduler alone, without the whole simulation
    #[arg(long)]
    parts: bool,
    /// Also run the tests of the crate with the mutations that the simulation does not find
    #[arg(long)]
    tests: bool,
    /// Time after which no further run begins, in seconds
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    /// Processes side by side
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Only print the mutations
    #[arg(long)]
    list: bool,
    /// Only print the mutations that no seed reaches
    #[arg(long)]
    unreached: bool,
    /// Folder for the copy, the programs and the results
    #[arg(long, value_name = "DIR", default_value = "target/mutants")]
    folder: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = Source::read(root, args.by_hand)?;
    let keys = source.keys();
    if args.list {
        list(&source, |_| true);
        return Ok(());
    }
    let folder = root.join(&args.folder);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let record = Record::open(&folder.join("results.jsonl"), source.fingerprint())?;
    let mut run = Run { args, folder, record, end: None };
    if !run.record.is_built {
        run.build(&source, &keys)?;
    }
    run.end = run.args.limit.map(|limit| now() + Duration::from_secs(limit));
    let simulation = Simulation { program: run.folder.join("faults"), is_parts: run.args.parts };
    let chosen = run.choose(&source, &keys);
    if run.args.unreached {
        run.try_all(&simulation, &[]).await?;
        let is_missed = |number| run.record.seeds_for(number) == 0;
        list(&source, |number| !run.record.rejected.contains(&keys[&number]) && is_missed(number));
        return Ok(());
    }
    run.try_all(&simulation, &chosen).await?;
    if run.args.tests {
        run.build_tests()?;
        run.test_all(&chosen, &keys).await?;
    }
    let verdicts = Verdicts::read(&root.join(VERDICTS))?;
    let (source, record) = (&source, &run.record);
    print!("{}", Report { source, keys: &keys, record, verdicts: &verdicts, chosen: &chosen });
    Ok(())
}

fn list(source: &Source, is_wanted: impl Fn(usize) -> bool) {
    for file in &source.planted {
        for mutation in file.all().filter(|it| is_wanted(it.number)) {
            let (path, line) = (file.path.display(), mutation.lines.start());
            let (number, function) = (mutation.number, &mutation.function.name);
            println!("{number} {path}:{line} {function}: {}", mutation.change);
        }
    }
}

/// Runs a seed with mutations that are switched on together. If a rule is violated, searches both
/// halves of them. Returns what each of them showed; where all rules were kept, something may have
/// changed because of another one.
///
/// # Errors
/// The program cannot be started.
async fn search(
    numbers: Vec<usize>,
    simulation: &Simulation,
    seed: u64,
    alone: &str,
) -> anyhow::Result<Vec<(usize, Outcome)>> {
    let mut outcomes = Vec::new();
    let mut open = vec![numbers];
    while let Some(mut numbers) = open.pop() {
        let outcome = simulation.run(&numbers, seed, alone).await?;
        let is_kept = matches!(outcome, Outcome::Survived | Outcome::Unchanged);
        if is_kept || numbers.len() == 1 {
            outcomes.extend(numbers.into_iter().map(|number| (number, outcome.clone())));
        } else {
            open.push(numbers.split_off(numbers.len() / 2));
            open.push(numbers);
        }
    }
    Ok(outcomes)
}

/// A run of this tool.
struct Run {
    args: Args,
    /// Folder for the copy, the programs and the results.
    folder: PathBuf,
    record: Record,
    /// Time after which nothing new begins.
    end: Option<Instant>,
}

impl Run {
    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| now() >= end)
    }

    /// Folder for what is compiled: not that of the workspace, because cargo would take the crates
    /// of the copy for those of the workspace.
    fn target(&self) -> PathBuf {
        self.folder.join("target")
    }

    /// Compiles the copy, and keeps its programs.
    fn build(&mut self, source: &Source, keys: &BTreeMap<usize, Key>) -> anyhow::Result<()> {
        let known = keys.iter().filter(|(_, key)| self.record.rejected.contains(key));
        let mut rejected: Vec<usize> = known.map(|(number, _)| *number).collect();
        let copy = self.folder.join("source");
        let simulation = build::simulation(source, &copy, &self.target(), &mut rejected)?;
        keep(&simulation.path, &self.folder.join("faults"))?;
        let _ = fs::remove_dir_all(self.folder.join("tests"));
        self.record.built(rejected.iter().map(|number| keys[number].clone()).collect())
    }

    /// Compiles the tests of the copy, and keeps its programs.
    fn build_tests(&self) -> anyhow::Result<()> {
        let tests = self.folder.join("tests");
        if tests.exists() {
            return Ok(());
        }
        let programs = build::tests(&self.folder.join("source"), &self.target())?;
        for (number, Program { path, owner }) in (0..).zip(programs) {
            fs::create_dir_all(tests.join(&owner))?;
            keep(&path, &tests.join(owner).join(format!("{number}")))?;
        }
        Ok(())
    }

    /// Returns the mutations to try.
    fn choose(&self, source: &Source, keys: &BTreeMap<usize, Key>) -> Vec<usize> {
        let Args { only, numbers, sample, choice, by_hand, .. } = &self.args;
        let files = source.planted.iter();
        let files = files.filter(|file| only.as_ref().is_none_or(|it| file.path.starts_with(it)));
        let mutations =
            files.flat_map(|file| if *by_hand { &file.by_hand } else { &file.mutations });
        let all = mutations.map(|it| it.number);
        let compiled = all.filter(|number| !self.record.rejected.contains(&keys[number]));
        let mut chosen: Vec<usize> =
            compiled.filter(|it| numbers.is_empty() || numbers.contains(it)).collect();
        if let Some(sample) = sample {
            fastrand::Rng::with_seed(*choice).shuffle(&mut chosen);
            chosen.truncate(*sample);
        }
        chosen
    }

    /// Runs the seeds one after the other: without a mutation, and then with the mutations that the
    /// seed reaches and that no seed before has found.
    async fn try_all(&mut self, simulation: &Simulation, chosen: &[usize]) -> anyhow::Result<()> {
        let seeds = (self.args.first_seed..).take(self.args.seeds);
        let bar = bar(self.args.seeds, "seeds");
        for seed in seeds {
            if self.is_over() {
                break;
            }
            if !self.record.reached.contains_key(&seed) {
                match simulation.reach(seed).await {
                    Ok(reach) => self.record.reached(reach)?,
                    Err(error) => {
                        bar.suspend(|| eprintln!("left out: {error}"));
                        continue;
                    }
                }
            }
            let alone = self.record.reached[&seed].fingerprint.clone();
            let batches = self.batches(seed, chosen);
            let (end, jobs) = (self.end, self.args.jobs);
            let runs = stream::iter(batches).take_while(|_| ready(is_before(end)));
            let runs = runs.map(|batch| search(batch, simulation, seed, &alone));
            let mut runs = runs.buffer_unordered(jobs);
            while let Some(outcomes) = runs.try_next().await? {
                for (number, outcome) in outcomes {
                    self.record.ran(number, seed, outcome)?;
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Returns the open mutations that a seed reaches, in batches that are switched on together.
    fn batches(&self, seed: u64, chosen: &[usize]) -> Vec<Vec<usize>> {
        let is_open = |number: &&usize| {
            let trial = self.record.tried.get(*number);
            self.record.reaches(seed, **number)
                && trial.is_none_or(|trial| {
                    let is_tried = trial.survived.contains(&seed);
                    trial.found.is_none() && !is_tried && trial.survived.len() < self.args.most
                })
        };
        let numbers: Vec<usize> = chosen.iter().filter(is_open).copied().collect();
        let count = numbers.len().div_ceil(self.args.together.get());
        // Neighbours disturb each other most.
        let batch = |first: usize| numbers.iter().skip(first).step_by(count).copied().collect();
        (0..count).map(batch).collect()
    }

    /// Runs the tests of its crate with each mutation that the simulation has not found.
    async fn test_all(
        &mut self,
        chosen: &[usize],
        keys: &BTreeMap<usize, Key>,
    ) -> anyhow::Result<()> {
        let is_found = |it: &usize| self.record.tried.get(it).is_some_and(|it| it.found.is_some());
        let is_open = |it: &&usize| !is_found(it) && !self.record.tested.contains_key(it);
        let open: Vec<usize> = chosen.iter().filter(is_open).copied().collect();
        let bar = bar(open.len(), "tests");
        let crates = self.folder.join("source/crates");
        for owner in fs::read_dir(self.folder.join("tests"))? {
            let owner = owner?;
            let folder = crates.join(owner.file_name());
            let place = Path::new("crates").join(owner.file_name());
            let here = open.iter().filter(|it| keys[it].file.starts_with(&place));
            let here: Vec<usize> = here.copied().collect();
            if here.is_empty() {
                continue;
            }
            let programs = fs::read_dir(owner.path())?;
            let programs = programs.map(|program| Ok(program?.path()));
            let tests = Tests::begin(folder, programs.collect::<anyhow::Result<_>>()?).await?;
            let (end, jobs) = (self.end, self.args.jobs);
            let runs = stream::iter(here).take_while(|_| ready(is_before(end)));
            let runs = runs.map(async |it| anyhow::Ok((it, tests.find(it).await?)));
            let mut runs = runs.buffer_unordered(jobs);
            while let Some((number, found)) = runs.try_next().await? {
                self.record.tested(number, found)?;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// Copies a program. A program that runs cannot be written over, so it is removed first.
fn keep(program: &Path, place: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_file(place);
    fs::copy(program, place).with_context(|| format!("cannot keep {}", program.display()))?;
    Ok(())
}

fn bar(length: usize, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {pos}/{len} {wide_bar} {elapsed}");
    let bar = ProgressBar::new(length as u64).with_style(style.expect("the template is fixed"));
    bar.with_message(what.to_owned())
}

fn is_before(end: Option<Instant>) -> bool {
    end.is_none_or(|end| now() < end)
}

#[expect(clippy::disallowed_methods, reason = "limits the time of the tool")]
fn now() -> Instant {
    Instant::now()
}
