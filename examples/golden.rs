//! Compares Loadmaster with decisions recorded from kube-scheduler 1.36.2.
//!
//! ```text
//! cargo run --release --example golden -- tests/golden/corpus
//! ```

#[path = "../tests/golden/mod.rs"]
mod golden;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

/// Runs recorded cases and prints deviations. Exits with 1 if there are any, with 2 if the cases
/// cannot be read.
#[derive(Parser)]
#[command(name = "golden")]
struct Args {
    /// Folder of .jsonl or .jsonl.gz files, one area each
    dir: PathBuf,
    /// Run this area only; may be repeated
    #[arg(long = "area", value_name = "AREA")]
    areas: Vec<String>,
    /// Run this case only
    #[arg(long, value_name = "ID")]
    case: Option<String>,
    /// Write computed values, one {"id","actual"} per line
    #[arg(long, value_name = "FILE")]
    emit: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Args { dir, areas, case, emit } = Args::parse();
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("{pos}/{len} cases {wide_bar} {elapsed}")
            .expect("the template is fixed"),
    );
    let advance = |total: usize| {
        bar.set_length(total as u64);
        bar.inc(1);
    };
    let report = golden::run(&dir, &golden::Options { areas, case, emit }, &advance);
    bar.finish_and_clear();
    match report {
        Ok(report) => {
            print!("{report}");
            if report.is_success() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            eprintln!("golden: {error}");
            ExitCode::from(2)
        }
    }
}
