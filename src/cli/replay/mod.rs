//! `loadmaster replay`: the decisions of a recording, once more.

mod export;
mod find;
mod lives;
mod moment;
mod moments;
mod other;
mod query;
mod replayed;
mod run;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use engine::Input;
use framework::{PodKey, Registry, Time};
use recording::{Agreement, Decided, Operation};

use self::lives::duration_text;
use self::moment::Moment;
pub(super) use self::moments::Moments;
use self::query::Query;
pub(super) use self::replayed::Replayed;
use self::run::Run;
use super::explain::{Dump, pod_text};
use super::print;
use crate::recorder::Runs;
use crate::what_if::Trial;

/// Makes the decisions of a recording again, and says whether they are the same
///
/// A recording is what `loadmaster run --record DIR` writes: a folder for each process. Every
/// decision and every request is compared with what was recorded. A replay that differs is a defect
/// of Loadmaster, unless another version recorded; the first operation that differs is named, and
/// the exit code is 1. If the size limit has removed the first files of a process, its state is
/// rebuilt from the next checkpoint, and its decisions are judged there.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory of a recording, the folder of one process, or one file
    #[arg(value_name = "DIR")]
    path: PathBuf,

    /// Only the process whose folder has this name or beginning, or `last`
    #[arg(long, value_name = "NAME")]
    run: Option<String>,

    /// Stops at this moment: a time in RFC 3339, or the time since the start of the process, for
    /// example `+90s`
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,

    /// Explains this pod as it was at the end of the replay, as NAME or NAMESPACE/NAME
    #[arg(long, value_name = "POD")]
    explain: Option<String>,

    /// Finds pods, for example 'pod web-* pending > 60s', 'pod shop/db-0 preempted', 'pod * failed'
    #[arg(long, value_name = "QUERY", conflicts_with = "explain")]
    find: Option<Query>,

    /// Shows the table of --find in full, which is cut after 50 rows otherwise
    #[arg(long, requires = "find")]
    all: bool,

    /// Schedules the recorded nodes and pods with this KubeSchedulerConfiguration, and compares
    #[arg(long, value_name = "FILE", conflicts_with_all = ["explain", "find"])]
    config: Option<PathBuf>,

    /// Writes the replayed part of one process to this file, or into this folder: a regression test
    /// that `loadmaster replay FILE` runs
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["explain", "find"])]
    to_test: Option<PathBuf>,
}

/// Runs the command with these plugins.
///
/// # Errors
/// The recording cannot be read, or a question cannot be answered.
pub(super) fn run(args: &Args, registry: Registry) -> anyhow::Result<ExitCode> {
    let path = args.path.display();
    let runs = Runs::find(&args.path).with_context(|| format!("cannot read {path}"))?;
    let mut runs: Vec<Run> = runs.0.into_iter().map(Run::open).collect::<Result<_, _>>()?;
    if runs.is_empty() {
        bail!("{path} has no recording: expected what `loadmaster run --record` writes");
    }
    if let Some(name) = &args.run {
        let last = runs.len() - 1;
        let mut number = 0..;
        runs.retain(|run| {
            let is_last = number.next() == Some(last);
            if name == "last" { is_last } else { run.name().starts_with(&**name) }
        });
        if runs.is_empty() {
            bail!("{path} has no run whose name begins with {name:?}");
        }
    }
    if let Some(query) = &args.find {
        return find::find(&runs, query, args);
    }
    if let Some(config) = &args.config {
        let run = the_one(&runs, args.until.as_ref())?;
        return other::compare(run, config, args.until.as_ref(), registry);
    }
    if args.explain.is_some() || args.to_test.is_some() {
        runs = vec![the_one_of(runs, args.until.as_ref())?];
    }
    let mut differs = false;
    for run in &runs {
        let outcome = replay(run, args.until.as_ref(), &registry)?;
        print(&outcome.text(run))?;
        differs |= outcome.difference.is_some();
        if let Some(pod) = &args.explain {
            let answer = dump_of(run, outcome.replayed, &registry)?.pod(&pod_key(pod), None)?;
            print(&pod_text(&answer))?;
        }
        if let Some(target) = &args.to_test {
            let file = export::write(run, args.until.as_ref(), target)?;
            print(&format!("wrote {}\n", file.display()))?;
        }
    }
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the run that covers the moment: the last one that had started.
fn the_one<'a>(runs: &'a [Run], until: Option<&Moment>) -> anyhow::Result<&'a Run> {
    let time = match until {
        Some(Moment::At(time)) => *time,
        _ => Time::from_nanos(i64::MAX),
    };
    let run = runs.iter().rev().find(|run| run.started() <= time);
    run.with_context(|| format!("no process had started at {time}"))
}

fn the_one_of(mut runs: Vec<Run>, until: Option<&Moment>) -> anyhow::Result<Run> {
    let name = the_one(&runs, until)?.name().to_owned();
    let place = runs.iter().position(|run| run.name() == name).unwrap_or_default();
    Ok(runs.swap_remove(place))
}

/// Returns the key of a pod, which is in the namespace `default` unless it has one.
fn pod_key(text: &str) -> PodKey {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    PodKey::new(namespace, name)
}

/// Returns what answers questions at the end of the replay.
fn dump_of(run: &Run, replayed: Replayed, registry: &Registry) -> anyhow::Result<Dump> {
    let config = run.setup.configuration()?;
    let engine = run.setup.engine_config(&config, registry, run.header.seed)?;
    let trial = Trial {
        config,
        registry: Arc::new(registry.clone()),
        gates: run.setup.gates()?,
        adaptive_sampling: run.setup.adaptive_sampling,
        every_scheduler: false,
    };
    Ok(Dump::of_recording(replayed, engine, trial))
}

/// A replay of one run.
struct Outcome {
    replayed: Replayed,
    difference: Option<Box<recording::Difference>>,
    /// What could not be read.
    notes: Vec<String>,
    changes: u64,
    attempts: u64,
    assumed: u64,
    /// The first and the last wall time.
    span: Option<(Time, Time)>,
}

/// Replays a run up to the moment, or to the first difference.
fn replay(run: &Run, until: Option<&Moment>, registry: &Registry) -> anyhow::Result<Outcome> {
    let engine =
        run.setup.engine(registry, run.header.seed).with_context(|| run.name().to_owned())?;
    let mut outcome = Outcome {
        replayed: Replayed::new(engine, run.has_beginning()),
        difference: None,
        notes: Vec::new(),
        changes: 0,
        attempts: 0,
        assumed: 0,
        span: None,
    };
    outcome.notes = run.operations(until, |at, operation| {
        match &operation {
            Operation::Input { input: Input::Change(_), .. } => outcome.changes += 1,
            Operation::Attempt { outcome: decided, .. } => {
                outcome.attempts += 1;
                outcome.assumed += u64::from(matches!(decided, Decided::Assumed(_)));
            }
            _ => {}
        }
        if operation.time().is_some() {
            outcome.span = Some((outcome.span.map_or(at, |(first, _)| first), at));
        }
        outcome.difference = outcome.replayed.step(operation).err();
        outcome.difference.is_none()
    })?;
    if outcome.difference.is_none() {
        outcome.difference = outcome.replayed.finish().err();
    }
    if !outcome.replayed.is_complete() {
        bail!(
            "{}, and {} there is no checkpoint in what is left. --find still searches it",
            run.lacks_beginning(),
            if until.is_some() { "until the moment" } else { "so far" }
        );
    }
    Ok(outcome)
}

impl Outcome {
    fn text(&self, run: &Run) -> String {
        let Self { changes, attempts, assumed, .. } = self;
        let operations = self.replayed.operations();
        let span = match self.span {
            Some((first, last)) => {
                let (first, last) = (first.floor_to_second(), last.floor_to_second());
                format!("{first} to {last} ({})", duration_text(last.since(first)))
            }
            None => "no time passed".to_owned(),
        };
        let mut text = format!(
            "run {}: {span}\n  {operations} operations, {changes} changes, {attempts} attempts, {assumed} of them \
             found a node\n",
            run.name()
        );
        for note in &self.notes {
            text += &format!("  note: {note}\n");
        }
        let own = env!("CARGO_PKG_VERSION");
        if run.header.loadmaster != own {
            text += &format!(
                "  note: recorded by version {}; this is {own}, whose rules may differ\n",
                run.header.loadmaster
            );
        }
        text += &match (&self.difference, self.replayed.agreement()) {
            (None, None) => "  the replay makes the same decisions\n".to_owned(),
            (None, Some(agreement)) => judged(run, agreement),
            (Some(difference), _) => {
                format!("  THE REPLAY DIFFERS at {}: {difference}\n", self.replayed.wall_time())
            }
        };
        text
    }
}

/// Returns what the decisions of a run without its beginning look like in the rebuilt state.
fn judged(run: &Run, agreement: Agreement) -> String {
    let Agreement { same, fitting, different, unjudged } = agreement;
    format!(
        "  note: {}; the state is rebuilt from the first checkpoint, and decisions are judged there\n  \
         {same} decisions are those of the rebuilt state, {fitting} took a node that fits and is not the best there, \
         {different} are others, {unjudged} were not judged\n",
        run.lacks_beginning()
    )
}
