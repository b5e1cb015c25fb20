//! What is known of the mutations of a source, in a file of JSON lines that outlives an interrupted run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::trial::{Baseline, Outcome};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// The first line: the source that the others are about.
    Source { fingerprint: u64 },
    /// Mutations that do not compile.
    Rejected { numbers: Vec<usize> },
    /// Seeds without a mutation.
    Baseline(Baseline),
    /// All seeds below `end` with a mutation.
    Tried { number: usize, end: u64, outcome: Outcome },
}

/// The results, in memory and in a file.
pub(crate) struct Record {
    file: File,
    /// The mutations that do not compile; `None` if the source was not compiled.
    pub(crate) rejected: Option<Vec<usize>>,
    /// The runs without a mutation, by their first seed.
    pub(crate) baselines: BTreeMap<u64, Baseline>,
    /// For each mutation the end of its seeds, and the last outcome.
    pub(crate) tried: BTreeMap<usize, (u64, Outcome)>,
}

impl Record {
    /// Opens the results of this source. Drops the results of another source.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(path: &Path, fingerprint: u64) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines().map_while(|line| serde_json::from_str(line).ok());
        let known =
            matches!(lines.next(), Some(Line::Source { fingerprint: it }) if it == fingerprint);
        let mut file = File::options().create(true).append(true).open(path)?;
        if !known {
            file.set_len(0)?;
            writeln!(file, "{}", serde_json::to_string(&Line::Source { fingerprint })?)?;
        }
        let (baselines, tried) = Default::default();
        let mut record = Self { file, rejected: None, baselines, tried };
        if known {
            lines.for_each(|line| record.take(line));
        }
        Ok(record)
    }

    /// Keeps the mutations that do not compile.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn reject(&mut self, numbers: Vec<usize>) -> anyhow::Result<()> {
        self.add(Line::Rejected { numbers })
    }

    /// Keeps a run without a mutation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn begin(&mut self, baseline: Baseline) -> anyhow::Result<()> {
        self.add(Line::Baseline(baseline))
    }

    /// Keeps what the seeds up to `end` showed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn tried(
        &mut self,
        number: usize,
        end: u64,
        outcome: Outcome,
    ) -> anyhow::Result<()> {
        self.add(Line::Tried { number, end, outcome })
    }

    fn add(&mut self, line: Line) -> anyhow::Result<()> {
        writeln!(self.file, "{}", serde_json::to_string(&line)?).context("cannot write results")?;
        self.take(line);
        Ok(())
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Source { .. } => {}
            Line::Rejected { numbers } => self.rejected = Some(numbers),
            Line::Baseline(baseline) => {
                self.baselines.insert(baseline.seeds.start, baseline);
            }
            Line::Tried { number, end, outcome } => {
                self.tried.insert(number, (end, outcome));
            }
        }
    }
}
