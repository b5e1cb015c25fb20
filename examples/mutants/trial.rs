//! Runs the fault simulation with a mutation switched on.

use std::ops::Range;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::timeout;

/// Time for a run beside what it takes without a mutation: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the time that a run takes without a mutation it may take with one.
const MOST_SLOWDOWN: u32 = 10;
/// Maximum memory of a run, in KiB of addresses: a mutation may fill the memory in an endless loop.
const MOST_MEMORY: u64 = 6 << 20;

/// What a run with a mutation showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// All seeds kept all rules.
    Survived,
    /// A rule was violated or a panic happened.
    Found { seed: u64, rule: String },
    /// The process was killed by a signal: its stack or its memory was used up.
    Crashed,
    /// The run did not end.
    Hung,
}

/// A run of some seeds without a mutation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// The seeds.
    pub(crate) seeds: Range<u64>,
    /// Its duration.
    pub(crate) took: Duration,
    /// The mutations that the program reached. The others change nothing.
    pub(crate) reached: Vec<usize>,
}

/// The fault simulation of the copy.
pub(crate) struct Simulation {
    /// The executable.
    pub(crate) program: PathBuf,
    /// A file for the numbers of reached mutations.
    pub(crate) reached: PathBuf,
}

impl Simulation {
    /// Runs `seeds` without a mutation.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) async fn baseline(&self, seeds: Range<u64>) -> anyhow::Result<Baseline> {
        let _ = std::fs::remove_file(&self.reached);
        let begun = now();
        let mut command = self.command(&seeds);
        let output = command.env("LOADMASTER_REACHED", &self.reached).output().await?;
        let took = begun.elapsed();
        if !output.status.success() {
            bail!(
                "seeds {seeds:?} fail without a mutation:\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let numbers = std::fs::read_to_string(&self.reached).context("no mutation was reached")?;
        let reached = numbers.lines().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Baseline { seeds, took, reached })
    }

    /// Runs the seeds of `baseline` with a mutation.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) async fn run(
        &self,
        mutation: usize,
        baseline: &Baseline,
    ) -> anyhow::Result<Outcome> {
        let mut command = self.command(&baseline.seeds);
        command.env("LOADMASTER_MUTANT", mutation.to_string()).kill_on_drop(true);
        let patience = PATIENCE + baseline.took * MOST_SLOWDOWN;
        match timeout(patience, command.output()).await {
            Err(_) => Ok(Outcome::Hung),
            Ok(output) => Ok(outcome(&output.context("cannot run the simulation")?)),
        }
    }

    fn command(&self, seeds: &Range<u64>) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -v {MOST_MEMORY} && exec \"$0\" \"$@\"")])
            .arg(&self.program)
            .args(["--seeds", &format!("{}..{}", seeds.start, seeds.end)])
            .env("RAYON_NUM_THREADS", "1");
        command
    }
}

fn outcome(output: &Output) -> Outcome {
    if output.status.success() {
        return Outcome::Survived;
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let violations = text.lines().filter_map(|line| line.strip_prefix("seed ")?.split_once(": "));
    let parsed = violations.filter_map(|(seed, rule)| Some((seed.parse().ok()?, rule.to_owned())));
    match parsed.min() {
        Some((seed, rule)) => Outcome::Found { seed, rule },
        None => Outcome::Crashed,
    }
}

#[expect(clippy::disallowed_methods, reason = "measures a process")]
fn now() -> Instant {
    Instant::now()
}
