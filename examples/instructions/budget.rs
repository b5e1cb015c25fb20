//! The budget.

use std::fmt;
use std::str::FromStr;

use anyhow::Context;

/// How far a count may be above its budget, in percent.
const TOLERANCE: u64 = 3;

/// The instructions of a decision in one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) name: String,
    pub(crate) instructions: u64,
}

/// The instructions of all scenarios, with a compiler of this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) compiler: String,
    pub(crate) counts: Vec<Count>,
}

const HEADER: &str =
    "# Instructions of one decision at 400 nodes. Written by `make instructions-budget`.";

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}\n# {}", self.compiler)?;
        for Count { name, instructions } in &self.counts {
            writeln!(f, "{instructions:>9} {name}")?;
        }
        Ok(())
    }
}

impl FromStr for Budget {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let compiler = text.lines().filter_map(|line| line.strip_prefix("# ")).nth(1);
        let counts = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (count, name) = line.trim().split_once(' ').context("a line has no name")?;
            let instructions = count.parse().with_context(|| format!("{count:?} is no count"))?;
            Ok(Count { name: name.to_owned(), instructions })
        });
        let compiler = compiler.context("the compiler is missing")?.to_owned();
        Ok(Self { compiler, counts: counts.collect::<anyhow::Result<_>>()? })
    }
}

/// The counts beside their budget.
#[derive(Debug)]
pub(crate) struct Report {
    text: String,
    pub(crate) is_within: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Budget {
    /// Compares counts with this budget. Counts of another compiler are within it.
    pub(crate) fn compare(&self, counted: &Self) -> Report {
        let mut lines =
            vec![format!("{:>12} {:>9} {:>8}  scenario", "instructions", "budget", "change")];
        let (mut beyond, mut below) = (Vec::new(), false);
        for Count { name, instructions } in &counted.counts {
            let Some(budget) = self.counts.iter().find(|own| own.name == *name) else {
                lines.push(format!("{instructions:>12} {:>9} {:>8}  {name}", "-", "new"));
                beyond.push(name.as_str());
                continue;
            };
            let budget = budget.instructions;
            let change = (*instructions as f64 / budget as f64 - 1.0) * 100.0;
            lines.push(format!("{instructions:>12} {budget:>9} {change:>+7.2}%  {name}"));
            if 100 * instructions > (100 + TOLERANCE) * budget {
                beyond.push(name);
            }
            below |= 100 * instructions < (100 - TOLERANCE) * budget;
        }
        let is_counted = |own: &&Count| counted.counts.iter().any(|count| count.name == own.name);
        beyond.extend(self.counts.iter().filter(|own| !is_counted(own)).map(|own| &*own.name));
        let is_within = beyond.is_empty() || self.compiler != counted.compiler;
        if self.compiler != counted.compiler {
            let (own, other) = (&self.compiler, &counted.compiler);
            lines.push(format!("not held: the budget is for {own}, not for {other}"));
        } else if !is_within {
            let names = beyond.join("; ");
            lines.push(format!("not within {TOLERANCE} % of the budget: {names}"));
            lines.push("if that is meant, run `make instructions-budget` and say why".to_owned());
        } else if below {
            lines.push("below the budget: run `make instructions-budget` to lower it".to_owned());
        }
        Report { text: lines.join("\n") + "\n", is_within }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(compiler: &str, counts: &[(&str, u64)]) -> Budget {
        let count = |(name, instructions): &(&str, u64)| Count {
            name: (*name).to_owned(),
            instructions: *instructions,
        };
        Budget { compiler: compiler.to_owned(), counts: counts.iter().map(count).collect() }
    }

    #[test]
    fn budget_reads_what_it_writes() {
        let own =
            budget("rustc 1.95.0", &[("basic, first pods", 12_345), ("basic, later pods", 7)]);
        assert_eq!(own.to_string().parse::<Budget>().unwrap(), own);
    }

    #[test]
    fn count_more_than_three_percent_above_the_budget_is_beyond_it() {
        let own = budget("rustc 1", &[("a", 1000), ("b", 1000)]);
        let within = |compiler: &str, counts: &[(&str, u64)]| {
            own.compare(&budget(compiler, counts)).is_within
        };
        assert!(within("rustc 1", &[("a", 1030), ("b", 10)]));
        assert!(!within("rustc 1", &[("a", 1031), ("b", 1000)]));
        assert!(!within("rustc 1", &[("a", 1000)]), "a scenario is missing");
        assert!(!within("rustc 1", &[("a", 1000), ("b", 1000), ("c", 1)]), "one has no budget");
        assert!(within("rustc 2", &[("a", 2000), ("b", 1000)]), "another compiler");
    }
}
