//! Runs the fault simulation and tests with a mutation switched on.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// Maximum processor time of a seed, in seconds: a mutation may cause an endless loop. Without one,
/// a seed takes a few seconds.
const MOST_CPU: u32 = 40;
/// Maximum processor time of the tests of a crate, in seconds.
const MOST_CPU_OF_TESTS: u32 = 600;
/// The number of the signal that ends a process which has used its processor time.
const SIGXCPU: i32 = 24;
/// The variable that switches mutations on: their numbers, with commas between.
const SWITCH: &str = "LOADMASTER_MUTANTS";
/// Maximum memory of a run, in KiB of addresses: a mutation may fill the memory in an endless loop.
const MOST_MEMORY: u64 = 6 << 20;

/// What a run with a mutation showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// All rules were kept, and something happened that does not happen without the mutations.
    Survived,
    /// Everything happened as without the mutations.
    Unchanged,
    /// A rule was violated or a panic happened.
    Found { seed: u64, rule: String },
    /// The process was killed by a signal: its stack or its memory was used up.
    Crashed,
    /// The run did not end.
    Hung,
}

/// A seed without a mutation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// The seed.
    pub(crate) seed: u64,
    /// The mutations that the program reached. The other mutations change nothing.
    pub(crate) hits: BTreeSet<usize>,
    /// The number that the program printed for what happened.
    pub(crate) fingerprint: String,
}

/// The fault simulation of the copy.
pub(crate) struct Simulation {
    /// The executable.
    pub(crate) program: PathBuf,
    /// Whether only the parts of the scheduler run.
    pub(crate) is_parts: bool,
}

impl Simulation {
    /// Runs a seed without a mutation.
    ///
    /// # Errors
    /// A rule is violated.
    pub(crate) async fn reach(&self, seed: u64) -> anyhow::Result<Reach> {
        let file = self.program.with_extension(format!("reached-{seed}"));
        let output = self.command(seed).env("LOADMASTER_REACHED", &file).output().await?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let rule = text.lines().rev().find(|line| line.starts_with("seed "));
            bail!("seed {seed} fails without a mutation: {}", rule.unwrap_or(&text));
        }
        let hits = hits(&file).context("no mutation was reached")?;
        Ok(Reach { seed, hits, fingerprint: fingerprint(&output) })
    }

    /// Runs a seed with some mutations. `fingerprint` is that of the seed without them.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) async fn run(
        &self,
        mutations: &[usize],
        seed: u64,
        fingerprint: &str,
    ) -> anyhow::Result<Outcome> {
        let mut command = self.command(seed);
        command.env(SWITCH, list(mutations)).kill_on_drop(true);
        let output = command.output().await.context("cannot run the simulation")?;
        Ok(match outcome(&output) {
            Outcome::Survived if self::fingerprint(&output) == fingerprint => Outcome::Unchanged,
            outcome => outcome,
        })
    }

    fn command(&self, seed: u64) -> Command {
        let mut command = limited(&self.program, MOST_CPU);
        command.args(["--seeds", &format!("{seed}..{}", seed + 1)]).env("RAYON_NUM_THREADS", "1");
        if self.is_parts {
            command.args(["--steps", "0"]);
        }
        command
    }
}

/// The tests of a crate of the copy.
pub(crate) struct Tests {
    /// The name of its folder.
    pub(crate) owner: String,
    programs: Vec<PathBuf>,
    /// The folder of the crate.
    folder: PathBuf,
    /// The mutations that the tests reach.
    reached: BTreeSet<usize>,
}

impl Tests {
    /// Runs the tests of the crate in this folder without a mutation.
    ///
    /// # Errors
    /// A test fails.
    pub(crate) async fn begin(folder: PathBuf, programs: Vec<PathBuf>) -> anyhow::Result<Self> {
        let owner = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = programs.first().context("a crate has tests")?.with_extension("reached");
        let mut tests = Self { owner, programs, folder, reached: BTreeSet::new() };
        for program in &tests.programs {
            let output = tests.command(program).env("LOADMASTER_REACHED", &file).output().await?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stdout);
                bail!("tests of {} fail without a mutation:\n{text}", tests.owner);
            }
        }
        tests.reached = hits(&file).context("no mutation was reached")?;
        Ok(tests)
    }

    /// Returns a test that fails with this mutation.
    ///
    /// # Errors
    /// A test cannot be started.
    pub(crate) async fn find(&self, mutation: usize) -> anyhow::Result<Option<String>> {
        if !self.reached.contains(&mutation) {
            return Ok(None);
        }
        for program in &self.programs {
            let mut command = self.command(program);
            command.env(SWITCH, list(&[mutation])).kill_on_drop(true);
            let output = command.output().await.context("cannot run tests")?;
            if !output.status.success() {
                return Ok(Some(failed_test(&output)));
            }
        }
        Ok(None)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = limited(program, MOST_CPU_OF_TESTS);
        command
            .current_dir(&self.folder)
            .env("RUST_TEST_THREADS", "1")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("PROPTEST_RNG_SEED", "1");
        command
    }
}

/// Returns a command with limited memory, and with so many seconds of processor time.
fn limited(program: &Path, cpu: u32) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {MOST_MEMORY} && ulimit -t {cpu} && exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(program);
    command
}

fn list(mutations: &[usize]) -> String {
    mutations.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Takes the file in which a program has noted the mutations that it reached.
fn hits(file: &Path) -> anyhow::Result<BTreeSet<usize>> {
    let text = std::fs::read_to_string(file)?;
    std::fs::remove_file(file)?;
    text.lines().map(|number| Ok(number.parse()?)).collect()
}

/// Returns the number that the simulation prints for what happened.
fn fingerprint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.rsplit_once("fingerprint ").map(|(_, number)| number.trim().to_owned());
    number.unwrap_or_default()
}

/// Returns the name of the first test that failed, or that was running when the program ended.
fn failed_test(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut tests = text.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let failed =
        tests.find(|(_, result)| !result.starts_with("ok") && !result.starts_with("ignored"));
    failed.map_or_else(|| "a test that did not end".to_owned(), |(name, _)| name.to_owned())
}

fn outcome(output: &Output) -> Outcome {
    if output.status.success() {
        return Outcome::Survived;
    }
    if output.status.signal() == Some(SIGXCPU) {
        return Outcome::Hung;
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let violations = text.lines().filter_map(|line| line.strip_prefix("seed ")?.split_once(": "));
    let parsed = violations.filter_map(|(seed, rule)| Some((seed.parse().ok()?, rule.to_owned())));
    match parsed.min() {
        Some((seed, rule)) => Outcome::Found { seed, rule },
        None => Outcome::Crashed,
    }
}
