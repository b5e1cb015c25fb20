//! The known state of the mutations of a source, in a file of JSON lines that outlives an
//! interrupted run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::mutation::Key;
use super::trial::{Outcome, Reach};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// The first line: the source that the others are about.
    Source { fingerprint: u64 },
    /// Mutations that do not compile. They stay known when the source changes.
    Rejected { mutations: Vec<Key> },
    /// The copy of this source is compiled.
    Built,
    /// A seed without a mutation.
    Reached(Reach),
    /// A seed with a mutation.
    Ran { number: usize, seed: u64, outcome: Outcome },
    /// The tests of the crate with a mutation, and the one that fails.
    Tested { number: usize, found: Option<String> },
}

/// What the seeds tried so far showed about a mutation.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// The seeds that kept all rules. Other mutations may have been switched on, too.
    pub(crate) survived: BTreeSet<u64>,
    /// The seeds in which the mutation changed nothing.
    pub(crate) unchanged: BTreeSet<u64>,
    /// How a seed found it.
    pub(crate) found: Option<Outcome>,
}

/// The results, in memory and in a file.
pub(crate) struct Record {
    file: File,
    /// The mutations that do not compile, in this source or in an earlier one.
    pub(crate) rejected: Vec<Key>,
    /// Whether the copy of this source is compiled.
    pub(crate) is_built: bool,
    /// The seeds without a mutation.
    pub(crate) reached: BTreeMap<u64, Reach>,
    /// The seeds with mutations.
    pub(crate) tried: BTreeMap<usize, Trial>,
    /// The tests that found the mutations.
    pub(crate) tested: BTreeMap<usize, Option<String>>,
}

impl Record {
    /// Opens the results of this source. Drops the results of another source, except for the
    /// mutations that did not compile.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(path: &Path, fingerprint: u64) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines().map_while(|line| serde_json::from_str(line).ok());
        let is_known =
            matches!(lines.next(), Some(Line::Source { fingerprint: it }) if it == fingerprint);
        let file = File::options().create(true).append(true).open(path)?;
        let mut record = Self {
            file,
            rejected: Vec::new(),
            is_built: false,
            reached: BTreeMap::new(),
            tried: BTreeMap::new(),
            tested: BTreeMap::new(),
        };
        if is_known {
            lines.for_each(|line| record.take(line));
            return Ok(record);
        }
        record.file.set_len(0)?;
        record.add(Line::Source { fingerprint })?;
        if let Some(rejected) = lines.find(|line| matches!(line, Line::Rejected { .. })) {
            record.add(rejected)?;
        }
        Ok(record)
    }

    /// Keeps that the copy is compiled, without these mutations.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn built(&mut self, rejected: Vec<Key>) -> anyhow::Result<()> {
        self.add(Line::Rejected { mutations: rejected })?;
        self.add(Line::Built)
    }

    /// Keeps a seed without a mutation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn reached(&mut self, reach: Reach) -> anyhow::Result<()> {
        self.add(Line::Reached(reach))
    }

    /// Keeps what a seed showed about a mutation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn ran(&mut self, number: usize, seed: u64, outcome: Outcome) -> anyhow::Result<()> {
        self.add(Line::Ran { number, seed, outcome })
    }

    /// Keeps which test found a mutation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn tested(&mut self, number: usize, found: Option<String>) -> anyhow::Result<()> {
        self.add(Line::Tested { number, found })
    }

    /// Whether a seed reaches the mutation.
    pub(crate) fn reaches(&self, seed: u64, number: usize) -> bool {
        self.reached.get(&seed).is_some_and(|reach| reach.hits.contains(&number))
    }

    /// Returns the number of seeds that reach a mutation.
    pub(crate) fn seeds_for(&self, number: usize) -> usize {
        self.reached.keys().filter(|seed| self.reaches(**seed, number)).count()
    }

    fn add(&mut self, line: Line) -> anyhow::Result<()> {
        writeln!(self.file, "{}", serde_json::to_string(&line)?).context("cannot write results")?;
        self.take(line);
        Ok(())
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Source { .. } => {}
            Line::Rejected { mutations } => self.rejected = mutations,
            Line::Built => self.is_built = true,
            Line::Reached(reach) => {
                self.reached.insert(reach.seed, reach);
            }
            Line::Ran { number, seed, outcome: Outcome::Survived } => {
                self.tried.entry(number).or_default().survived.insert(seed);
            }
            Line::Ran { number, seed, outcome: Outcome::Unchanged } => {
                let trial = self.tried.entry(number).or_default();
                trial.survived.insert(seed);
                trial.unchanged.insert(seed);
            }
            Line::Ran { number, outcome, .. } => {
                self.tried.entry(number).or_default().found = Some(outcome);
            }
            Line::Tested { number, found } => {
                self.tested.insert(number, found);
            }
        }
    }
}
