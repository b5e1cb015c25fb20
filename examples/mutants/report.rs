//! The table of mutations, in Markdown.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use super::bugs::Bug;
use super::mutation::Key;
use super::planter::shorten;
use super::record::Record;
use super::source::{Source, SourceFile};
use super::trial::Outcome;
use super::verdicts::{Effect, Verdicts};

/// The results for the chosen mutations.
pub(crate) struct Report<'a> {
    pub(crate) source: &'a Source,
    /// What identifies the mutations.
    pub(crate) keys: &'a BTreeMap<usize, Key>,
    pub(crate) record: &'a Record,
    pub(crate) verdicts: &'a Verdicts,
    /// The mutations that were tried or were to be tried.
    pub(crate) chosen: &'a [usize],
}

/// The known state of a mutation.
enum Result {
    /// A rule was violated.
    Rule,
    /// The simulation did not end, or was killed.
    Hang,
    /// Only tests of the crate fail.
    Tests,
    /// Nothing shows it, and nothing can: it does not change what the scheduler does.
    Harmless,
    /// Nothing shows it.
    Open,
}

/// A row of the table.
#[derive(Default)]
struct Row {
    planted: usize,
    compiled: usize,
    tried: usize,
    harmless: usize,
    rule: usize,
    hang: usize,
    tests: usize,
    open: usize,
}

impl Row {
    const fn add(&mut self, other: &Self) {
        self.planted += other.planted;
        self.compiled += other.compiled;
        self.tried += other.tried;
        self.harmless += other.harmless;
        self.rule += other.rule;
        self.hang += other.hang;
        self.tests += other.tests;
        self.open += other.open;
    }

    fn write(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { planted, compiled, tried, harmless, rule, hang, tests, open } = self;
        let share = share_of(rule + hang, tried - harmless);
        writeln!(
            f,
            "| {name} | {planted} | {compiled} | {tried} | {harmless} | {rule} | {hang} | {share} | {tests} | {open} |"
        )
    }
}

/// A row of the table of the bugs that were planted by hand.
#[derive(Default)]
struct BugRow {
    part: &'static str,
    planted: usize,
    harmless: usize,
    rule: usize,
    hang: usize,
    tests: usize,
    quiet: usize,
    open: usize,
    unreached: usize,
}

impl BugRow {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, planted, harmless, rule, hang, tests, quiet, open, unreached } = self;
        let share = share_of(rule + hang, planted - harmless);
        writeln!(
            f,
            "| {part} | {planted} | {harmless} | {rule} | {hang} | {share} | {tests} | {quiet} | {open} | {unreached} |"
        )
    }
}

fn share_of(found: usize, relevant: usize) -> String {
    match relevant {
        0 => String::new(),
        relevant => format!("{} %", 100 * found / relevant),
    }
}

impl Report<'_> {
    fn result(&self, number: usize) -> Result {
        match self.record.tried.get(&number).and_then(|trial| trial.found.as_ref()) {
            Some(Outcome::Hung | Outcome::Crashed) => return Result::Hang,
            Some(_) => return Result::Rule,
            None => {}
        }
        let verdict = self.verdicts.get(&self.keys[&number]);
        if verdict.is_some_and(|verdict| verdict.effect != Effect::Behaviour) {
            return Result::Harmless;
        }
        match self.record.tested.get(&number) {
            Some(Some(_)) => Result::Tests,
            _ => Result::Open,
        }
    }

    fn row(&self, file: &SourceFile) -> Row {
        let mut row = Row { planted: file.mutations.len(), ..Row::default() };
        for mutation in &file.mutations {
            let is_rejected = self.record.rejected.contains(&self.keys[&mutation.number]);
            row.compiled += usize::from(!is_rejected);
            if !self.chosen.contains(&mutation.number) {
                continue;
            }
            row.tried += 1;
            match self.result(mutation.number) {
                Result::Rule => row.rule += 1,
                Result::Hang => row.hang += 1,
                Result::Tests => row.tests += 1,
                Result::Harmless => row.harmless += 1,
                Result::Open => row.open += 1,
            }
        }
        row
    }

    /// Writes the tables of the bugs that were planted by hand: for each part of the scheduler, and
    /// for each bug.
    fn write_bugs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| Where | Planted | Harmless | Found by a rule | As a hang | Share | By tests only | Changes nothing in these seeds | Not found | Not reached |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        let mut parts: Vec<BugRow> = Vec::new();
        let mut total = BugRow { part: "all", ..BugRow::default() };
        for (number, bug) in &self.source.bugs {
            let part = self.source.module_of(&bug.file);
            let place = parts.iter().position(|row| row.part == part).unwrap_or_else(|| {
                parts.push(BugRow { part, ..BugRow::default() });
                parts.len() - 1
            });
            for row in [&mut parts[place], &mut total] {
                self.count_bug(*number, bug, row);
            }
        }
        parts.iter().chain([&total]).try_for_each(|row| row.write(f))?;
        writeln!(f, "\n| Planted | Found |\n|---|---|")?;
        for (number, bug) in &self.source.bugs {
            let is_rejected = self.record.rejected.contains(&self.keys[number]);
            let found = self.record.tried.get(number).and_then(|trial| trial.found.as_ref());
            let found = match found {
                _ if is_rejected => "does not compile".to_owned(),
                Some(Outcome::Found { seed, rule }) => {
                    format!("seed {seed}: {}", shorten(&rule.replace('|', "/")))
                }
                _ => self.explanation(*number).unwrap_or_default(),
            };
            let note = bug.note.as_ref().or(bug.harmless.as_ref()).map(|note| format!("; {note}"));
            writeln!(f, "| {} | {found}{} |", bug.name, note.unwrap_or_default())?;
        }
        Ok(())
    }

    fn count_bug(&self, number: usize, bug: &Bug, row: &mut BugRow) {
        row.planted += 1;
        let trial = self.record.tried.get(&number);
        let is_quiet = trial.is_none_or(|trial| trial.survived.len() == trial.unchanged.len());
        match self.result(number) {
            Result::Rule => row.rule += 1,
            Result::Hang => row.hang += 1,
            _ if bug.harmless.is_some() => row.harmless += 1,
            Result::Tests => row.tests += 1,
            _ if self.record.seeds_for(number) == 0 => row.unreached += 1,
            _ if is_quiet => row.quiet += 1,
            _ => row.open += 1,
        }
    }

    /// Says how a mutation that no rule found was tried, and why it was not found.
    fn explanation(&self, number: usize) -> Option<String> {
        let trial = self.record.tried.get(&number);
        let survived = trial.map_or(0, |trial| trial.survived.len());
        let unchanged = trial.map_or(0, |trial| trial.unchanged.len());
        let tried = match (survived, self.record.seeds_for(number)) {
            (_, 0) => "not reached".to_owned(),
            (seeds, reaching) if seeds == unchanged => {
                format!("changes nothing in {seeds} of {reaching} seeds")
            }
            (seeds, reaching) => {
                format!("not found in {seeds} of {reaching} seeds, {unchanged} without a change")
            }
        };
        let how = match self.result(number) {
            Result::Rule => return None,
            Result::Hang => return Some("hangs".to_owned()),
            Result::Tests => {
                let test = self.record.tested.get(&number).cloned().flatten();
                format!("{tried}, found by `{}`", test.unwrap_or_default())
            }
            Result::Harmless | Result::Open => tried,
        };
        let verdict = self.verdicts.get(&self.keys[&number]);
        let verdict = verdict.map(|it| format!("; {:?}: {}", it.effect, it.reason));
        Some(format!("{how}{}", verdict.unwrap_or_default()))
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut modules: Vec<(&str, Row)> = Vec::new();
        let mut total = Row::default();
        for file in &self.source.planted {
            let row = self.row(file);
            total.add(&row);
            match modules.iter_mut().find(|(name, _)| *name == file.module) {
                Some((_, sum)) => sum.add(&row),
                None => modules.push((file.module, row)),
            }
        }
        modules.retain(|(_, row)| row.planted > 0);
        if self.source.bugs.iter().any(|(number, _)| self.chosen.contains(number)) {
            return self.write_bugs(f);
        }
        writeln!(
            f,
            "| Module | Planted | Compiled | Tried | Harmless | By a rule | As a hang | Share | By tests only | Not found |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        modules.iter().try_for_each(|(name, row)| row.write(name, f))?;
        total.write("all", f)?;
        for file in &self.source.planted {
            for mutation in file.mutations.iter().filter(|it| self.chosen.contains(&it.number)) {
                let Some(explanation) = self.explanation(mutation.number) else { continue };
                let (number, path, line) =
                    (mutation.number, file.path.display(), mutation.lines.start());
                let Key { function, change, nth, .. } = &self.keys[&number];
                write!(f, "\n- {number} {path}:{line} {function}: {change}")?;
                if *nth > 1 {
                    write!(f, " ({nth})")?;
                }
                write!(f, " ({explanation})")?;
            }
        }
        let known: Vec<_> = self.keys.values().collect();
        for stale in self.verdicts.keys().filter(|key| !known.contains(key)) {
            write!(f, "\n- a decision is about a mutation that does not exist: {stale:?}")?;
        }
        writeln!(f)
    }
}
