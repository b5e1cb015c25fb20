//! The golden runner: compares the engine and its plugins with decisions recorded from
//! kube-scheduler 1.36.2.
//!
//! A case describes a cluster and the decision of kube-scheduler (see FORMAT.md of the corpus).
//! Every case runs with every form of the plugins, each compared with the recording, and by
//! rankings, which are held to the set form. Entries of plugins that are not built are deferred by
//! name and not invented: those plugins are removed from the profile, so that the others decide in
//! full, and recorded entries that depend on them are neither compared nor emitted.
//!
//! Each case then runs once more at level 1.37, in the set form; see [`levels`].

mod areas;
mod compare;
mod config;
pub(crate) mod corpus;
mod decision;
mod differences;
mod fixes;
mod hints;
mod histories;
mod levels;
mod queue_order;
mod ranked;
mod report;
mod sampling;
mod scheduling;
mod setting;
mod small;
mod world;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use engine::cycle::Form;
use framework::Level;
use rayon::prelude::*;
use serde_json::{Value, json};

use compare::Outcome;
use corpus::Area;
use levels::Derived;

pub(crate) use corpus::CorpusError;
pub(crate) use report::Report;

/// The level of the recorded decisions.
pub(crate) const LEVEL: Level = Level::V1_36;

/// The field of a case with the level at which it runs; without it, that of the recording.
const LEVEL_FIELD: &str = "level";

/// The field of a case that runs at another level than it was recorded at. Only the set form
/// decides it.
const DERIVED_FIELD: &str = "derived";

/// Returns the level at which a case runs.
pub(crate) fn level_of(case: &Value) -> Level {
    let minor = case[LEVEL_FIELD].as_u64().and_then(|minor| u32::try_from(minor).ok());
    minor.and_then(Level::of_minor).unwrap_or(LEVEL)
}

/// Returns the forms that decide a case, with their names in deviations.
pub(crate) fn forms(case: &Value) -> &'static [(Form, &'static str)] {
    if case[DERIVED_FIELD].is_null() { &world::FORMS } else { &world::FORMS[..1] }
}

/// Options of a run.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Areas to run; all areas if empty.
    pub(crate) areas: Vec<String>,
    /// The only case to run.
    pub(crate) case: Option<String>,
    /// Output file for computed values, one `{"id","actual"}` per line.
    pub(crate) emit: Option<PathBuf>,
}

/// Whether `folder` is the corpus of the repository, whose cases docs/differences.toml lists.
fn is_listed(folder: &Path) -> bool {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/corpus");
    let [own, given] = [&own, folder].map(|path| path.canonicalize().ok());
    own.is_some() && own == given
}

/// Runs the cases in `folder`. `advance` is called with the number of cases and after each case.
pub(crate) fn run(
    folder: &Path,
    options: &Options,
    advance: &(dyn Fn(usize) + Sync),
) -> Result<Report, CorpusError> {
    let areas = select(corpus::read(folder, &options.areas)?, options.case.as_deref())?;
    let total = areas.iter().map(|area| area.cases.len()).sum();
    let mut emit = options.emit.as_deref().map(Emit::create).transpose()?;
    let mut report = Report::default();
    let listed = is_listed(folder);
    for area in &areas {
        let Some(decide) = areas::runner(&area.name) else {
            report.skip(&area.name, area.cases.len());
            continue;
        };
        let run = |case| {
            let mut outcome = fixes::run(decide, case);
            let Derived { rules, differences } = levels::run(decide, case, &outcome, listed);
            outcome.differences.extend(differences);
            outcome.at_level = rules;
            advance(total);
            outcome
        };
        let outcomes: Vec<Outcome> = area.cases.par_iter().map(run).collect();
        for (case, outcome) in area.cases.iter().zip(outcomes) {
            if let Some(emit) = &mut emit {
                emit.write(case, &outcome)?;
            }
            report.add(&area.name, case, outcome);
        }
    }
    if let Some(emit) = emit {
        emit.finish()?;
    }
    Ok(report)
}

/// Returns the areas that have the wanted case, with that case alone.
fn select(areas: Vec<Area>, case: Option<&str>) -> Result<Vec<Area>, CorpusError> {
    let Some(wanted) = case else { return Ok(areas) };
    let mut selected = Vec::new();
    for mut area in areas {
        area.cases.retain(|case| case["id"] == wanted);
        if !area.cases.is_empty() {
            selected.push(area);
        }
    }
    if selected.is_empty() { Err(CorpusError::NoCase(wanted.to_owned())) } else { Ok(selected) }
}

/// Writes computed values.
struct Emit {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Emit {
    fn create(path: &Path) -> Result<Self, CorpusError> {
        let file = File::create(path);
        let file = file.map_err(|source| CorpusError::Write { path: path.into(), source })?;
        Ok(Self { path: path.into(), file: BufWriter::new(file) })
    }

    /// Writes a case, unless it has no computed values.
    fn write(&mut self, case: &Value, outcome: &Outcome) -> Result<(), CorpusError> {
        if outcome.actual.is_null() {
            return Ok(());
        }
        let line = json!({"id": case["id"], "actual": outcome.actual});
        let written = writeln!(self.file, "{line}");
        written.map_err(|source| CorpusError::Write { path: self.path.clone(), source })
    }

    fn finish(mut self) -> Result<(), CorpusError> {
        let written = self.file.flush();
        written.map_err(|source| CorpusError::Write { path: self.path, source })
    }
}
