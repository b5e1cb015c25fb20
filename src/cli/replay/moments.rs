//! A recording that is looked at at any moment.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use framework::{Registry, Time};
use serde_json::{Value, json};

use super::moment::Moment;
use super::run::Run;
use super::{dump_of, replay};
use crate::cli::explain::Dump;
use crate::recorder::Runs;

/// The last process of a recording, at one moment.
pub(in crate::cli) struct Moments {
    run: Run,
    registry: Registry,
    start: Time,
    end: Time,
    at: Time,
    dump: Dump,
}

impl Moments {
    /// Opens a recording at its end.
    ///
    /// # Errors
    /// The recording cannot be read, or its replay differs.
    pub(in crate::cli) fn open(path: &Path, registry: Registry) -> anyhow::Result<Self> {
        let shown = || format!("cannot read {}", path.display());
        let runs = Runs::find(path).with_context(shown)?;
        let Some(files) = runs.0.into_iter().next_back() else {
            bail!("{} has no recording", path.display());
        };
        let run = Run::open(files)?;
        let (dump, last) = at(&run, None, &registry)?;
        let start = run.started();
        let end = last.unwrap_or(start);
        Ok(Self { run, registry, start, end, at: end, dump })
    }

    /// Moves to this many seconds after the start of the process.
    ///
    /// # Errors
    /// The recording can no longer be read.
    pub(in crate::cli) fn move_to(&mut self, seconds: u64) -> anyhow::Result<()> {
        let seconds = seconds.min(self.end.since(self.start).as_secs());
        self.at = self.start + Duration::from_secs(seconds);
        (self.dump, _) = at(&self.run, Some(Moment::At(self.at)), &self.registry)?;
        Ok(())
    }

    /// Returns what answers questions.
    pub(in crate::cli) const fn dump(&mut self) -> &mut Dump {
        &mut self.dump
    }

    /// Returns the moment and the length of the recording.
    pub(in crate::cli) fn place(&self) -> Value {
        json!({
            "run": self.run.name(),
            "seconds": self.end.since(self.start).as_secs(),
            "at": self.at.since(self.start).as_secs(),
            "time": self.at.floor_to_second().to_string(),
        })
    }
}

/// Replays a run up to a moment. Returns what answers questions there, and the time of the last
/// operation.
fn at(
    run: &Run,
    moment: Option<Moment>,
    registry: &Registry,
) -> anyhow::Result<(Dump, Option<Time>)> {
    let outcome = replay(run, moment.as_ref(), registry)?;
    if let Some(difference) = outcome.difference {
        bail!("run {} differs when it is replayed: {difference}", run.name());
    }
    let last = outcome.span.map(|(_, last)| last);
    Ok((dump_of(run, outcome.replayed, registry)?, last))
}
