//! Compiles the copy, and finds out which mutations do not compile.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::source::{Source, SourceFile};

/// Maximum number of attempts to compile the copy. The compiler reports errors of types before errors of
/// borrowing, and a crate only after those it depends on.
const MOST_ROUNDS: usize = 30;

/// A message of `cargo build --message-format=json`.
#[derive(Deserialize)]
#[serde(tag = "reason")]
enum Message {
    #[serde(rename = "compiler-message")]
    Diagnostic { message: Diagnostic },
    #[serde(rename = "compiler-artifact")]
    Artifact { target: Target, executable: Option<PathBuf> },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    file_name: PathBuf,
    line_start: usize,
    is_primary: bool,
}

/// Writes and compiles the copy until it compiles, without the mutations on the lines of errors, which
/// are added to `rejected`. Returns the fault simulation.
///
/// # Errors
/// An error is not on the line of a mutation, nor in a function with mutations.
pub(crate) fn build(
    source: &Source,
    folder: &Path,
    target: &Path,
    rejected: &mut Vec<usize>,
) -> anyhow::Result<PathBuf> {
    for round in 1..=MOST_ROUNDS {
        source.write(folder, rejected)?;
        let (executable, errors) = compile(folder, target)?;
        if let Some(executable) = executable.filter(|_| errors.is_empty()) {
            return Ok(executable);
        }
        let mut wrong = BTreeSet::new();
        for error in &errors {
            let culprits = culprits(&source.planted, error, rejected);
            if culprits.is_empty() {
                bail!("the copy does not compile:\n{}", error.rendered.as_deref().unwrap_or("?"));
            }
            wrong.extend(culprits);
        }
        if wrong.is_empty() {
            bail!("cargo failed without an error of the compiler");
        }
        eprintln!("round {round}: {} mutations do not compile", wrong.len());
        rejected.extend(wrong);
    }
    bail!("the copy does not compile after {MOST_ROUNDS} rounds");
}

/// Returns the fault simulation if it compiles, and the errors.
fn compile(folder: &Path, target: &Path) -> anyhow::Result<(Option<PathBuf>, Vec<Diagnostic>)> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--profile", "checks", "--example", "faults", "--keep-going"])
        .arg("--message-format=json")
        .arg("--target-dir")
        .arg(target)
        .current_dir(folder)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let mut executable = None;
    let mut errors = Vec::new();
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line)? {
            Message::Artifact { target, executable: Some(path) } if target.name == "faults" => {
                executable = Some(path);
            }
            Message::Diagnostic { message }
                if message.level == "error" && !message.spans.is_empty() =>
            {
                errors.push(message);
            }
            _ => {}
        }
    }
    Ok((executable.filter(|_| output.status.success()), errors))
}

/// Returns the mutations that may have caused an error: those that begin or end on its line, or else
/// those of the same function.
fn culprits(files: &[SourceFile], error: &Diagnostic, rejected: &[usize]) -> Vec<usize> {
    let primary = error.spans.iter().filter(|span| span.is_primary);
    let places = primary.filter_map(|span| {
        files.iter().find(|file| file.path == span.file_name).map(|file| (file, span.line_start))
    });
    let mut numbers = Vec::new();
    for (file, line) in places {
        let present = || file.mutations.iter().filter(|it| !rejected.contains(&it.number));
        let on_line = present().filter(|it| *it.lines.start() == line || *it.lines.end() == line);
        let found = numbers.len();
        numbers.extend(on_line.map(|it| it.number));
        if numbers.len() == found {
            let around = present().filter(|it| it.function.contains(&line));
            numbers.extend(around.map(|it| it.number));
        }
    }
    numbers
}
