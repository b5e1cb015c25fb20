//! Counts outcomes and prints them.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::areas;
use super::compare::{Difference, Outcome};
use super::levels::DERIVED;

/// Number of failed cases shown per area, and of deviations shown per case.
const SHOWN_CASES: usize = 5;
const SHOWN_DIFFERENCES: usize = 10;
/// Length of the longest value that is printed in full.
const SHOWN_CHARS: usize = 300;

/// The outcome of all areas.
#[derive(Debug, Default)]
pub(crate) struct Report {
    areas: BTreeMap<String, Tally>,
    /// Deliberate differences, with the number of cases that each explains.
    on_purpose: BTreeMap<&'static str, usize>,
    /// Rules of the derived level, with the number of cases that each changes.
    at_level: BTreeMap<&'static str, usize>,
    /// Number of decisions without a full pass.
    ranked: u64,
}

/// The outcome of one area.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    failed: Vec<Failure>,
    /// Cases with entries only of plugins that are not built.
    deferred: usize,
    /// Cases without a recorded value to compare.
    unrecorded: usize,
    /// Cases that no function can run.
    skipped: usize,
    /// Plugins that are not built, with the number of cases with entries of theirs.
    plugins: BTreeMap<String, usize>,
}

/// A case that failed.
#[derive(Debug)]
struct Failure {
    id: String,
    note: String,
    differences: Vec<Difference>,
}

impl Report {
    /// Counts a case.
    pub(crate) fn add(&mut self, area: &str, case: &Value, outcome: Outcome) {
        self.ranked += outcome.ranked;
        let tally = self.areas.entry(area.to_owned()).or_default();
        for plugin in &outcome.deferred {
            *tally.plugins.entry(plugin.clone()).or_default() += 1;
        }
        for difference in outcome.on_purpose {
            *self.on_purpose.entry(difference).or_default() += 1;
        }
        for rule in outcome.at_level {
            *self.at_level.entry(rule).or_default() += 1;
        }
        if !outcome.differences.is_empty() {
            let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
            let (id, note) = (text("id"), text("note"));
            tally.failed.push(Failure { id, note, differences: outcome.differences });
        } else if outcome.compared > 0 {
            tally.passed += 1;
        } else if outcome.deferred.is_empty() {
            tally.unrecorded += 1;
        } else {
            tally.deferred += 1;
        }
    }

    /// Counts an area that no function can run.
    pub(crate) fn skip(&mut self, area: &str, cases: usize) {
        self.areas.entry(area.to_owned()).or_default().skipped += cases;
    }

    /// Whether no case failed.
    pub(crate) fn is_success(&self) -> bool {
        self.areas.values().all(|tally| tally.failed.is_empty())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (area, tally) in &self.areas {
            writeln!(f, "{area}: {}", tally.line(area))?;
        }
        for (difference, cases) in &self.on_purpose {
            writeln!(f, "different on purpose: {difference} {cases}")?;
        }
        for (rule, cases) in &self.at_level {
            writeln!(f, "different at level {DERIVED}: {rule} {cases}")?;
        }
        if self.ranked > 0 {
            writeln!(f, "decisions without a full pass: {}", self.ranked)?;
        }
        for (area, tally) in self.areas.iter().filter(|(_, tally)| !tally.failed.is_empty()) {
            writeln!(f, "\n{area}: {} failed", tally.failed.len())?;
            for failure in tally.failed.iter().take(SHOWN_CASES) {
                write!(f, "{failure}")?;
            }
            let more = tally.failed.iter().skip(SHOWN_CASES).map(|failure| failure.id.as_str());
            let more: Vec<&str> = more.collect();
            if !more.is_empty() {
                writeln!(f, "  and {}", more.join(", "))?;
            }
        }
        Ok(())
    }
}

impl Tally {
    fn line(&self, area: &str) -> String {
        let total = self.passed + self.failed.len();
        let subjects = areas::unbuilt_subjects(area);
        if self.skipped > 0 {
            return format!("not an area known here ({} cases left out)", self.skipped);
        }
        let passed = format!("{}/{total}", self.passed);
        let mut notes = Vec::new();
        if !subjects.is_empty() {
            notes.push(format!(
                "{}; what is built decides {passed} cases alike",
                subjects.join(", ")
            ));
        }
        let deferred = self.deferred_notes();
        if !deferred.is_empty() {
            notes.push(format!("deferred: {}", deferred.join(", ")));
        }
        if self.unrecorded > 0 {
            notes.push(format!("nothing recorded: {}", self.unrecorded));
        }
        let score = if subjects.is_empty() { passed.as_str() } else { "not built yet" };
        match notes.is_empty() {
            true => score.to_owned(),
            false => format!("{score} ({})", notes.join("; ")),
        }
    }

    /// Returns the deferred plugins, the most frequent first.
    fn deferred_notes(&self) -> Vec<String> {
        let mut plugins: Vec<_> = self.plugins.iter().collect();
        plugins.sort_by_key(|(name, cases)| (std::cmp::Reverse(**cases), *name));
        let mut notes: Vec<String> =
            plugins.into_iter().map(|(name, cases)| format!("{name} {cases}")).collect();
        if self.deferred > 0 {
            notes.push(format!("whole cases {}", self.deferred));
        }
        notes
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.note.as_str() {
            "" => writeln!(f, "  {}", self.id)?,
            note => writeln!(f, "  {} ({note})", self.id)?,
        }
        for difference in self.differences.iter().take(SHOWN_DIFFERENCES) {
            writeln!(f, "    {}", difference.path)?;
            writeln!(f, "      expected {}", shown(&difference.expected))?;
            writeln!(f, "      actual   {}", shown(&difference.actual))?;
        }
        match self.differences.len().saturating_sub(SHOWN_DIFFERENCES) {
            0 => Ok(()),
            more => writeln!(f, "    and {more} more"),
        }
    }
}

fn shown(value: &Value) -> String {
    if value.is_null() {
        return "nothing".to_owned();
    }
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
