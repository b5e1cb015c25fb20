//! Holds the documents to the program: runs the commands they show and compares the output.
//!
//! ```text
//! cargo run --release --example documents
//! ```
//!
//! Checked are the commands of [`DETERMINISTIC`] that a `text` block follows or begins with
//! (`$ loadmaster ...`), and the rows of tables that begin with options of the command above.

mod claim;
mod markdown;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::Parser;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use claim::Checked;

/// Subcommands whose output depends on nothing but their input.
const DETERMINISTIC: [&str; 3] = ["simulate", "whatif", "config"];

/// Set for the processes in which this program acts as `loadmaster`.
const AS_LOADMASTER: &str = "LOADMASTER_DOCUMENTS_COMMAND";

/// Runs the commands of the documents and compares their output. Exits with 1 if any differs.
#[derive(Parser)]
#[command(name = "documents")]
struct Args {
    /// Folder with the files of the openb trace; its commands are skipped if there is none
    #[arg(long, value_name = "DIR", default_value = "../shared/data/openb")]
    data: PathBuf,
}

fn main() -> ExitCode {
    if env::var_os(AS_LOADMASTER).is_some() {
        return loadmaster::run_with(framework::Registry::new());
    }
    match check(&Args::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("documents: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks every document, a command on each core. Returns the number of claims that are wrong.
fn check(args: &Args) -> anyhow::Result<usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = root.join(&args.data);
    let mut claims = Vec::new();
    for path in documents(root)? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let own = claim::all(&markdown::parts(&text)).into_iter();
        claims.extend(own.map(|claim| (name.clone(), claim)));
    }
    // One at a time to each thread, as a few take far longer than the others.
    let checked: Vec<_> = claims
        .par_iter()
        .with_max_len(1)
        .map(|(_, claim)| claim.check(root, &data, |args| run(root, args)))
        .collect();
    let (mut right, mut wrong, mut skipped) = (0, 0, 0);
    for ((name, claim), checked) in claims.iter().zip(checked) {
        match checked? {
            Checked::Right => right += 1,
            Checked::Wrong(difference) => {
                wrong += 1;
                println!("{name}:{}: {}\n{difference}", claim.line, claim.command());
            }
            Checked::Skipped(file) => {
                skipped += 1;
                println!("skipped: {name}:{}: {} is absent", claim.line, file.display());
            }
        }
    }
    println!("documents: {right}/{} outputs match, {skipped} skipped", right + wrong);
    Ok(wrong)
}

/// The documents that show commands with their output.
fn documents(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut documents = vec![root.join("README.md")];
    for entry in fs::read_dir(root.join("docs")).context("docs")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            documents.push(path);
        }
    }
    documents.sort();
    Ok(documents)
}

/// Runs `loadmaster` with these arguments and returns its standard output.
fn run(root: &Path, args: &[String]) -> anyhow::Result<String> {
    let mut command = Command::new(env::current_exe()?);
    let output = command.args(args).env(AS_LOADMASTER, "1").current_dir(root).output()?;
    if !output.status.success() {
        bail!("loadmaster {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
