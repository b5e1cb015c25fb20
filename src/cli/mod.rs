//! The command line: what can be asked, and how answers are printed.
//!
//! Exit codes: 0 when all went well (pods that stay pending are an answer, not a failure), 1 on input that
//! cannot be used, 2 on a command that cannot be understood.

mod config;
mod progress;
mod simulate;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use framework::Registry;

/// A Kubernetes scheduler that considers every node and can always say why.
#[derive(Debug, Parser)]
#[command(name = "loadmaster", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Config(config::ConfigCommand),
    Simulate(simulate::Args),
    /// Prints the version
    Version,
}

/// Reads the command line and does what it says, with these plugins.
pub fn run(registry: Registry) -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Config(command) => return command.run(&registry),
        Command::Simulate(args) => simulate::run(&args, registry),
        Command::Version => print(&format!("loadmaster {}\n", env!("CARGO_PKG_VERSION"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            format!("{error:#}").lines().for_each(|line| complain("error", line));
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output. A reader that has seen enough is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error. If that fails there is nobody left to tell.
fn complain(kind: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{kind}: {text}");
}
