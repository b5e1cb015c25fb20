//! The instructions of decisions, held to a budget: `make instructions`.
//!
//! The program runs itself under callgrind, which counts the instructions of each scenario, and
//! compares the counts with `budget.txt`. `make instructions-budget` writes the file anew.
//!
//! Counts do not depend on the load or the clock of the machine. Callgrind shows each program the
//! same model of processor, so that the C library chooses the same variants of its functions; the
//! environment of the child is empty. What is left are the seeds of hash maps, which move the
//! counts by less than 0.1 %, and the compiler: the budget names its version, and counts of another
//! one are not held to it.

mod budget;
mod count;
mod scenarios;
#[path = "../../benches/support/mod.rs"]
mod support;
#[path = "../../benches/support/templates.rs"]
mod templates;
#[path = "../../benches/decision/workload.rs"]
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use budget::Budget;

/// Counts the instructions of decisions. Exits with 1 if a count is beyond its budget, with 2 if it
/// cannot count.
#[derive(Parser)]
#[command(name = "instructions")]
struct Args {
    /// Write the counts into the budget
    #[arg(long)]
    write: bool,
    /// The budget
    #[arg(long, default_value = "examples/instructions/budget.txt")]
    budget: PathBuf,
    /// Run the scenarios, which callgrind counts
    #[arg(long, hide = true)]
    counted: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.counted {
        scenarios::run();
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("instructions: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether the counts are within the budget.
fn run(args: &Args) -> anyhow::Result<bool> {
    if !count::has_valgrind() {
        println!("skipped: valgrind is not installed, so instructions cannot be counted");
        return Ok(true);
    }
    let counted = Budget { compiler: count::compiler()?, counts: count::all()? };
    if args.write {
        std::fs::write(&args.budget, counted.to_string())?;
        print!("{counted}");
        return Ok(true);
    }
    let budget: Budget = std::fs::read_to_string(&args.budget)?.parse()?;
    let report = budget.compare(&counted);
    print!("{report}");
    Ok(report.is_within)
}
