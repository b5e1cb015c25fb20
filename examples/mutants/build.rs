//! Compiles the copy, and finds out which mutations do not compile.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::mutation::Mutation;
use super::source::{Source, SourceFile};

/// Maximum number of attempts to compile the copy. The compiler reports errors of types before
/// errors of borrowing, and a crate only after those it depends on.
const MOST_ROUNDS: usize = 30;

/// The crates with mutations. Their tests are compiled, too.
const CRATES: [&str; 7] =
    ["api", "cluster", "framework", "structured", "plugins", "engine", "control"];

/// The profile of the copy: a run is repeated thousands of times, so optimising its code pays.
/// Dependencies keep their settings, except for those on the path of a run.
const PROFILE: [&str; 5] = [
    "profile.dev.opt-level=2",
    "profile.dev.debug=false",
    "profile.dev.package.loadmaster.opt-level=2",
    "profile.dev.package.serde_json.opt-level=2",
    "profile.dev.package.hashbrown.opt-level=2",
];

/// A message of `cargo build --message-format=json`.
#[derive(Deserialize)]
#[serde(tag = "reason")]
enum Message {
    #[serde(rename = "compiler-message")]
    Diagnostic { message: Diagnostic },
    #[serde(rename = "compiler-artifact")]
    Artifact { manifest_path: PathBuf, executable: Option<PathBuf> },
    #[serde(other)]
    Other,
}

/// A compiled program.
pub(crate) struct Program {
    /// The executable.
    pub(crate) path: PathBuf,
    /// The crate that it belongs to: the name of its folder.
    pub(crate) owner: String,
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

/// Writes and compiles the copy until it compiles, without the mutations on the lines of errors,
/// which are added to `rejected`. Returns the fault simulation.
///
/// # Errors
/// An error is not on the line of a mutation, nor in a function with mutations.
pub(crate) fn simulation(
    source: &Source,
    folder: &Path,
    target: &Path,
    rejected: &mut Vec<usize>,
) -> anyhow::Result<Program> {
    for round in 1..=MOST_ROUNDS {
        source.write(folder, rejected)?;
        // A check finds the errors without generating code.
        let arguments = |command| [command, "--keep-going", "--example", "faults"];
        let (_, mut errors) = compile(folder, target, &arguments("check"))?;
        if errors.is_empty() {
            let (mut programs, more) = compile(folder, target, &arguments("build"))?;
            if let Some(program) = programs.pop().filter(|_| more.is_empty()) {
                return Ok(program);
            }
            errors = more;
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

/// Compiles the tests of the crates with mutations, once the copy compiles.
///
/// # Errors
/// The tests do not compile.
pub(crate) fn tests(folder: &Path, target: &Path) -> anyhow::Result<Vec<Program>> {
    let packages = CRATES.map(|name| format!("--package=loadmaster-{name}"));
    let arguments = ["test", "--no-run", "--tests"].into_iter();
    let arguments: Vec<_> = arguments.chain(packages.iter().map(String::as_str)).collect();
    let (programs, errors) = compile(folder, target, &arguments)?;
    match errors.first() {
        Some(error) => {
            bail!("the tests do not compile:\n{}", error.rendered.as_deref().unwrap_or("?"))
        }
        None if programs.is_empty() => bail!("cargo failed without an error of the compiler"),
        None => Ok(programs),
    }
}

/// Returns the programs if they compile, and the errors.
fn compile(
    folder: &Path,
    target: &Path,
    arguments: &[&str],
) -> anyhow::Result<(Vec<Program>, Vec<Diagnostic>)> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(PROFILE.iter().flat_map(|setting| ["--config", setting]))
        .args(["--message-format=json", "--target-dir"])
        .arg(target)
        .current_dir(folder)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let (mut programs, mut errors) = (Vec::new(), Vec::new());
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line)? {
            Message::Artifact { manifest_path, executable: Some(path) } => {
                let owner =
                    manifest_path.parent().and_then(Path::file_name).and_then(OsStr::to_str);
                programs.push(Program { path, owner: owner.unwrap_or_default().to_owned() });
            }
            Message::Diagnostic { message }
                if message.level == "error" && !message.spans.is_empty() =>
            {
                errors.push(message);
            }
            _ => {}
        }
    }
    if !output.status.success() {
        programs.clear();
    }
    Ok((programs, errors))
}

/// Returns the mutations that may have caused an error: those that begin or end on its line, or
/// else those of the same function. Bugs that are planted by hand are meant to compile, so they
/// come last.
fn culprits(files: &[SourceFile], error: &Diagnostic, rejected: &[usize]) -> Vec<usize> {
    let primary = error.spans.iter().filter(|span| span.is_primary);
    let places = primary.filter_map(|span| {
        files.iter().find(|file| file.path == span.file_name).map(|file| (file, span.line_start))
    });
    let mut numbers = Vec::new();
    for (file, line) in places {
        let is_present = |it: &&Mutation| !rejected.contains(&it.number);
        let is_on_line = |it: &&Mutation| *it.lines.start() == line || *it.lines.end() == line;
        let is_around = |it: &&Mutation| it.function.lines.contains(&line);
        let mut found: Vec<usize> = Vec::new();
        for by in [&is_on_line as &dyn Fn(&&Mutation) -> bool, &is_around] {
            for mutations in [&file.mutations, &file.by_hand] {
                if found.is_empty() {
                    let wrong = mutations.iter().filter(is_present).filter(|it| by(it));
                    found.extend(wrong.map(|it| it.number));
                }
            }
        }
        numbers.append(&mut found);
    }
    numbers
}
