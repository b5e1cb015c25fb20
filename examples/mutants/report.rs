//! The table of mutations, in Markdown.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use super::record::Record;
use super::source::{Source, SourceFile};
use super::trial::Outcome;

/// The results for the chosen mutations.
pub(crate) struct Report<'a> {
    pub(crate) source: &'a Source,
    pub(crate) record: &'a Record,
    /// The mutations that were tried or were to be tried.
    pub(crate) chosen: &'a [usize],
}

/// A row of the table.
#[derive(Default)]
struct Row {
    planted: usize,
    compiled: usize,
    tried: usize,
    found: usize,
    hung: usize,
    unreached: usize,
    survived: usize,
}

impl Row {
    const fn add(&mut self, other: &Self) {
        self.planted += other.planted;
        self.compiled += other.compiled;
        self.tried += other.tried;
        self.found += other.found;
        self.hung += other.hung;
        self.unreached += other.unreached;
        self.survived += other.survived;
    }

    fn write(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { planted, compiled, tried, found, hung, unreached, survived } = self;
        writeln!(
            f,
            "| {name} | {planted} | {compiled} | {tried} | {found} | {hung} | {survived} | {unreached} |"
        )
    }
}

impl Report<'_> {
    fn row(&self, file: &SourceFile, reached: &BTreeSet<usize>) -> Row {
        let rejected = self.record.rejected.as_deref().unwrap_or_default();
        let mut row = Row { planted: file.mutations.len(), ..Row::default() };
        for mutation in &file.mutations {
            row.compiled += usize::from(!rejected.contains(&mutation.number));
            if !self.chosen.contains(&mutation.number) {
                continue;
            }
            row.tried += 1;
            match self.record.tried.get(&mutation.number) {
                Some((_, Outcome::Found { .. } | Outcome::Crashed)) => row.found += 1,
                Some((_, Outcome::Hung)) => row.hung += 1,
                _ if reached.contains(&mutation.number) => row.survived += 1,
                _ => row.unreached += 1,
            }
        }
        row
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let baselines = self.record.baselines.values();
        let reached = baselines.flat_map(|it| it.reached.iter().copied()).collect();
        let mut modules: Vec<(&str, Row)> = Vec::new();
        let mut total = Row::default();
        for file in &self.source.planted {
            let row = self.row(file, &reached);
            total.add(&row);
            match modules.iter_mut().find(|(name, _)| *name == file.module) {
                Some((_, sum)) => sum.add(&row),
                None => modules.push((file.module, row)),
            }
        }
        writeln!(
            f,
            "| Module | Planted | Compiled | Tried | Found | Hangs | Not found | Not reached |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|")?;
        modules.iter().try_for_each(|(name, row)| row.write(name, f))?;
        total.write("all", f)?;
        for file in &self.source.planted {
            for mutation in &file.mutations {
                let number = mutation.number;
                let known = self.record.tried.get(&number);
                let verdict = match known {
                    _ if !self.chosen.contains(&number) => continue,
                    Some((end, Outcome::Survived)) => format!("not found in {end} seeds"),
                    Some((_, Outcome::Hung)) => "hangs".to_owned(),
                    Some((_, Outcome::Crashed)) => "crashes".to_owned(),
                    Some((_, Outcome::Found { .. })) => continue,
                    None if reached.contains(&number) => "not tried".to_owned(),
                    None => "not reached".to_owned(),
                };
                let (path, line) = (file.path.display(), mutation.lines.start());
                write!(f, "\n- {number} {path}:{line}: {} ({verdict})", mutation.change)?;
            }
        }
        writeln!(f)
    }
}
