//! What a document says that a command prints.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::DETERMINISTIC;
use crate::markdown::{Kind, Part, cells};

/// A line of output that stands for lines left out.
const ELLIPSIS: &str = "…";

/// A command of a document and its output there.
pub(crate) struct Claim {
    /// Line of the document.
    pub(crate) line: usize,
    /// Arguments of `loadmaster`.
    args: Vec<String>,
    output: Output,
}

enum Output {
    /// These lines, in this order; others can stand between them.
    Lines(Vec<String>),
    /// Mean GPU allocation by percentage of arrived demand, as a table shows it.
    GpuAllocation(Vec<(f64, String)>),
}

/// The result of a check.
pub(crate) enum Checked {
    Right,
    /// The difference, for people.
    Wrong(String),
    /// A file of the trace, or one that the reader is to make, is absent.
    Skipped(PathBuf),
}

/// All claims of a document.
pub(crate) fn all(parts: &[Part]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut command: Option<Vec<String>> = None;
    for part in parts {
        match part.kind {
            Kind::Shell => command = commands(&part.lines).pop(),
            Kind::Text => claims.extend(of_text(part, command.as_deref())),
            Kind::Table => claims.extend(of_table(part, command.as_deref())),
            Kind::Other => command = None,
        }
    }
    claims
}

/// The arguments of each deterministic `loadmaster` command in a block.
fn commands(lines: &[String]) -> Vec<Vec<String>> {
    let joined = lines.join("\n").replace("\\\n", " ");
    joined.lines().filter_map(arguments).collect()
}

fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("time ").unwrap_or(line);
    let args = line.strip_prefix("loadmaster ")?.split_whitespace();
    let args: Vec<String> = args.map(str::to_owned).collect();
    DETERMINISTIC.contains(&args.first()?.as_str()).then_some(args)
}

/// The output of the command on its first line, or of the command above.
fn of_text(part: &Part, above: Option<&[String]>) -> Option<Claim> {
    let first = part.lines.first()?;
    let (args, lines) = match first.starts_with("$ ") {
        true => (arguments(first)?, &part.lines[1..]),
        false => (above?.to_vec(), &part.lines[..]),
    };
    Some(Claim { line: part.line, args, output: Output::Lines(lines.to_vec()) })
}

/// A claim for each row that begins with options: the command above, with them.
fn of_table(part: &Part, above: Option<&[String]>) -> Vec<Claim> {
    let (Some(above), Some(header)) = (above, part.lines.first()) else { return Vec::new() };
    let marks: Vec<Option<f64>> = cells(header).into_iter().map(mark).collect();
    let claim = |(offset, row): (usize, &String)| {
        let cells = cells(row);
        let options = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
        let shown = marks.iter().zip(&cells);
        let shown = shown.filter_map(|(mark, cell)| Some((mark.as_ref().copied()?, *cell)));
        let shown = shown.map(|(mark, cell)| (mark, cell.trim_matches('*').to_owned()));
        Some(Claim {
            line: part.line + offset,
            args: with_options(above, options)?,
            output: Output::GpuAllocation(shown.collect()),
        })
    };
    part.lines.iter().enumerate().filter_map(claim).collect()
}

/// The percentage that a column is about, as in `At 100 % arrived`.
fn mark(header: &str) -> Option<f64> {
    let number = header.to_lowercase().strip_prefix("at ")?.split(' ').next()?.parse().ok();
    number.filter(|_| header.contains('%'))
}

/// The command with each option of the text in place of its own.
fn with_options(command: &[String], options: &str) -> Option<Vec<String>> {
    let mut args = command.to_vec();
    let words: Vec<&str> = options.split_whitespace().collect();
    for pair in words.chunks(2) {
        let [option, value] = pair else { return None };
        match args.iter().position(|arg| arg == option) {
            Some(place) => *args.get_mut(place + 1)? = (*value).to_owned(),
            None if option.starts_with("--") => {
                args.extend([(*option).to_owned(), (*value).to_owned()]);
            }
            None => return None,
        }
    }
    Some(args)
}

impl Claim {
    /// The command, for people.
    pub(crate) fn command(&self) -> String {
        format!("loadmaster {}", self.args.join(" "))
    }

    /// Runs the command in the folder `root` and compares; files of the trace are in `data`.
    pub(crate) fn check(
        &self,
        root: &Path,
        data: &Path,
        run: impl Fn(&[String]) -> anyhow::Result<String>,
    ) -> anyhow::Result<Checked> {
        let mut args = Vec::new();
        let mut given = self.args.iter();
        while let Some(arg) = given.next() {
            if arg == "--plot" {
                given.next();
            } else if arg == "-f" {
                let file = given.next().cloned().unwrap_or_default();
                if !root.join(&file).exists() {
                    return Ok(Checked::Skipped(file.into()));
                }
                args.extend([arg.clone(), file]);
            } else if arg.starts_with("openb_") {
                let file = data.join(arg);
                if !file.is_file() {
                    return Ok(Checked::Skipped(file));
                }
                args.push(file.display().to_string());
            } else {
                args.push(arg.clone());
            }
        }
        let difference = match &self.output {
            Output::Lines(lines) => missing_line(lines, &run(&args)?),
            Output::GpuAllocation(marks) => {
                args.extend(["-o", "json"].map(str::to_owned));
                other_allocation(marks, &serde_json::from_str(&run(&args)?)?)
            }
        };
        Ok(difference.map_or(Checked::Right, Checked::Wrong))
    }
}

/// The first line that the output lacks, or has only before the lines above.
fn missing_line(lines: &[String], output: &str) -> Option<String> {
    let mut printed = output.lines();
    let missing = lines.iter().filter(|line| *line != ELLIPSIS);
    let missing = missing.map(|line| line.trim_end()).find(|line| !printed.any(|own| own == *line));
    missing.map(|line| format!("not printed: {line}\nprinted:\n{output}"))
}

fn other_allocation(marks: &[(f64, String)], answer: &Value) -> Option<String> {
    let allocation = answer["allocation"].as_array().map(Vec::as_slice).unwrap_or_default();
    marks.iter().find_map(|(arrived, shown)| {
        let mark = allocation.iter().find(|mark| mark["arrivedPercent"] == *arrived);
        let mean = mark.and_then(|mark| mark["gpu"]["mean"].as_f64()).unwrap_or(f64::NAN);
        let printed = format!("{mean:.2}");
        (printed != *shown).then(|| format!("at {arrived} %: {shown} in the document, {printed}"))
    })
}
