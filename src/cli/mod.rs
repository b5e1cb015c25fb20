//! The command line.
//!
//! Exit codes: 0 on success, also if pods stay pending; 1 for invalid input, and for an invalid
//! command line of the daemon, as in kube-scheduler; 2 for an invalid command line of another
//! command.

mod config;
mod dry_runs;
mod dump;
mod explain;
mod flags;
mod in_effect;
#[cfg(feature = "sandbox")]
mod in_process;
#[cfg(feature = "sandbox")]
mod perf;
mod replay;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
#[cfg(feature = "simulator")]
mod simulate;
mod ui;
mod usage;
mod what_if;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use framework::Registry;
use supercluster::registry::PipelineRegistry;

use self::flags::{Flags, VersionRequest};
use self::usage::UsageError;

/// A Kubernetes scheduler that considers every node and can always say why.
///
/// Without a subcommand it schedules the pods of a cluster, like `loadmaster run`, and accepts the
/// flags of kube-scheduler.
#[derive(Debug, Parser)]
#[command(
    name = "loadmaster",
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    disable_version_flag = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Schedules the pods of a cluster
    Run(Box<Flags>),
    /// Serves samples of the nodes of this cluster and commits to them, for a scheduler over many
    /// clusters
    Agent(Box<Flags>),
    #[cfg(feature = "sandbox")]
    Sandbox(sandbox::Args),
    #[cfg(feature = "simulator")]
    Simulate(Box<simulate::Args>),
    #[command(name = "whatif")]
    WhatIf(Box<what_if::Args>),
    #[cfg(feature = "sandbox")]
    Perf(perf::Args),
    Dump(dump::Args),
    Explain(Box<explain::Args>),
    Replay(Box<replay::Args>),
    Ui(Box<ui::Args>),
    Config(config::ConfigCommand),
    /// Prints the completion of the command line for a shell
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Prints the version
    Version,
}

/// Parses the command line and runs the command with these plugins.
pub fn run(registry: Registry, pipelines: &PipelineRegistry) -> ExitCode {
    let args: Vec<OsString> = flags::with_dashes(std::env::args_os()).collect();
    let Cli { command, flags } = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return reject(&error, args.get(1)),
    };
    let is_daemon = matches!(command, None | Some(Command::Run(_)));
    if is_daemon && args.first().is_some_and(|name| is_plugin_of_kubectl(name)) {
        complain("error", "kubectl loadmaster runs no scheduler: see `kubectl loadmaster --help`");
        return ExitCode::from(2);
    }
    let outcome = match command.unwrap_or_else(|| Command::Run(Box::new(flags))) {
        Command::Run(flags) => run_daemon(&flags, run::Role::of_run, registry, pipelines),
        Command::Agent(flags) => run_daemon(&flags, run::Role::of_agent, registry, pipelines),
        #[cfg(feature = "sandbox")]
        Command::Sandbox(args) => {
            sandbox::run(&args, registry, pipelines).map(|()| ExitCode::SUCCESS)
        }
        #[cfg(feature = "simulator")]
        Command::Simulate(args) => simulate::run(&args, registry),
        Command::WhatIf(args) => what_if::run(&args, registry),
        #[cfg(feature = "sandbox")]
        Command::Perf(args) => perf::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Explain(args) => explain::run(&args, registry),
        Command::Replay(args) => replay::run(&args, registry),
        Command::Ui(args) => ui::run(&args, registry),
        Command::Config(command) => Ok(command.run(&registry, pipelines)),
        Command::Completion { shell } => print_completion(shell),
        Command::Version => print_version(),
    };
    outcome.unwrap_or_else(|error| {
        format!("{error:#}").lines().for_each(|line| complain("error", line));
        ExitCode::FAILURE
    })
}

/// Whether the binary was called as a plugin of kubectl, under the name `kubectl-loadmaster`.
fn is_plugin_of_kubectl(name: &OsStr) -> bool {
    Path::new(name).file_stem().is_some_and(|name| name == "kubectl-loadmaster")
}

/// Runs the daemon in a role, or prints the version that the flags ask for.
fn run_daemon(
    flags: &Flags,
    role: fn(&Flags, &PipelineRegistry) -> anyhow::Result<run::Role>,
    registry: Registry,
    pipelines: &PipelineRegistry,
) -> anyhow::Result<ExitCode> {
    match flags.version {
        VersionRequest::No => run::run(flags, role, registry, pipelines),
        VersionRequest::Version => print_version(),
        VersionRequest::Raw => print_versions(),
    }
}

/// Reports an invalid command line, or prints the help that it asks for. `first` is the first
/// argument.
fn reject(error: &clap::Error, first: Option<&OsString>) -> ExitCode {
    const RUN: &str = "run";
    let mut cli = Cli::command();
    cli.build();
    let subcommand = first.and_then(|first| cli.find_subcommand_mut(first));
    let (path, command) = match subcommand {
        Some(command) if command.get_name() == RUN => ("loadmaster run", command),
        Some(_) => error.exit(),
        None => ("loadmaster", &mut cli),
    };
    if !error.use_stderr() {
        error.exit();
    }
    let text = UsageError::of(error, path).with_usage(command);
    let _ = io::stderr().lock().write_all(text.as_bytes());
    ExitCode::FAILURE
}

/// Prints the version, the newest released Kubernetes that it follows, and the platform.
fn print_versions() -> anyhow::Result<ExitCode> {
    let (own, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let kubernetes = framework::Level::default();
    print(&format!("loadmaster: {own}\nkubernetes: {kubernetes}\nplatform: {os}/{arch}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn print_completion(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loadmaster", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

fn print_version() -> anyhow::Result<ExitCode> {
    print(&format!("loadmaster {}\n", env!("CARGO_PKG_VERSION")))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes to standard output. A closed pipe is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error. Errors of writing are ignored.
fn complain(kind: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{kind}: {text}");
}
