//! `loadmaster perf`: runs the workloads of scheduler_perf and measures a scheduler.

mod progress;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use framework::Level;
use perf::runner::{self, Scheduler, Server};
use perf::workload::{File, Selection, Templates, Workload};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use self::progress::Spinner;
use self::report::{Report, Result};
use super::in_process::LEVEL as SANDBOX_LEVEL;
use super::{complain, print};
use crate::config::Gates;

/// Runs the workloads of scheduler_perf and measures throughput, CPU time and memory of a scheduler
///
/// Reads a `performance-config.yaml` of Kubernetes' test/integration/scheduler_perf. Each workload
/// gets a sandbox and a scheduler of its own, both as processes. Throughput is sampled each second;
/// a measurement too short for samples has its pods over its time. CPU time includes what the
/// scheduler does for the measured pods up to three seconds later. The exit code is 1 if a workload
/// fails or misses its threshold.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file with the test cases; paths in it are relative to its folder
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Runs this test case (`SchedulingBasic`) or workload (`5Nodes`, `SchedulingBasic/5Nodes`);
    /// may be repeated
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,

    /// Runs workloads with this label, with a leading `-` those without; several are separated by
    /// commas, and all must apply
    #[arg(long, value_name = "LABEL", value_delimiter = ',', allow_hyphen_values = true)]
    label: Vec<String>,

    /// Measures another scheduler: a command of the shell
    ///
    /// `{config}` stands for the path of a KubeSchedulerConfiguration, which has the path of the
    /// kubeconfig, `{kubeconfig}` for that path, and `{featureGates}` for the gates of the workload
    /// as `A=true,B=false`.
    #[arg(long, value_name = "COMMAND")]
    scheduler: Option<String>,

    /// Uses this API server instead of sandboxes
    ///
    /// It should have no nodes and no other scheduler. Claims from templates need
    /// kube-controller-manager. Created objects are deleted after each workload.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Output
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text in columns
    Table,
    /// JSON
    Json,
}

/// Runs the selected workloads. The exit code is 1 if one fails or misses its threshold.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let selection = Selection { names: args.workload.clone(), labels: args.label.clone() };
    let mut workloads = File::read(&args.config)?.workloads(&selection)?;
    let templates = Templates::read(workloads.iter().flat_map(Workload::templates))?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let server = match &args.kubeconfig {
        Some(kubeconfig) => Server::Given(kubeconfig.clone()),
        None => Server::Sandbox(program.clone()),
    };
    let scheduler = match &args.scheduler {
        Some(command) => Scheduler::Command(command.clone()),
        None => {
            let level = match server {
                Server::Sandbox(_) => SANDBOX_LEVEL,
                Server::Given(_) => Gates::default().level(),
            };
            adapt_gates(&mut workloads, level);
            let args =
                ["run", "--config={config}", "--feature-gates={featureGates}", "--secure-port=0"];
            Scheduler::Program(program, args.map(str::to_owned).into())
        }
    };
    // Scheduler and API server need the other cores.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let report = runtime.block_on(async {
        tokio::select! {
            report = run_all(&workloads, &templates, &server, &scheduler) => Ok(report),
            interrupted = interrupted() => Err(interrupted),
        }
    })?;
    match args.output {
        Output::Table => print(&report.table())?,
        Output::Json => print(&(serde_json::to_string_pretty(&report)? + "\n"))?,
    }
    let shortfalls = report.shortfalls();
    shortfalls.iter().for_each(|shortfall| complain("error", shortfall));
    Ok(if shortfalls.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run_all(
    workloads: &[Workload],
    templates: &Templates,
    server: &Server,
    scheduler: &Scheduler,
) -> Report {
    let mut results = Vec::new();
    for (index, workload) in workloads.iter().enumerate() {
        let spinner = Spinner::start(&workload.name, index + 1, workloads.len());
        let outcome = runner::run(workload, templates, server, scheduler, &spinner).await;
        results.push(Result::new(workload, outcome));
    }
    Report { results }
}

/// Returns when a signal asks this program to end, so that its child processes are ended first.
async fn interrupted() -> anyhow::Error {
    let wait = async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        anyhow::Ok(())
    };
    wait.await.err().unwrap_or_else(|| anyhow::anyhow!("interrupted"))
}

/// Leaves out gates that this scheduler does not let go, or whose feature it does not have, and
/// enables the gates that `GenericWorkload` includes at other levels.
fn adapt_gates(workloads: &mut [Workload], level: Level) {
    let mut dropped = BTreeMap::new();
    for workload in workloads {
        let mut left = std::mem::take(&mut workload.feature_gates);
        if left.get("GenericWorkload") == Some(&true) {
            for gate in Gates::at(level).group_gates() {
                left.entry(gate.to_owned()).or_insert(true);
            }
        }
        let mut kept: Vec<String> = Vec::new();
        // A gate may need another one, whose name comes later.
        loop {
            let before = left.len();
            left.retain(|gate, on| {
                let entry = format!("{gate}={on}");
                let entries = kept.iter().chain([&entry]).map(String::as_str);
                let checked = Gates::at(level).with_flags(entries);
                match checked.and_then(|gates| gates.check_built()) {
                    Ok(()) => {
                        workload.feature_gates.insert(gate.clone(), *on);
                        dropped.remove(&entry);
                        kept.push(entry);
                        false
                    }
                    Err(error) => {
                        dropped.insert(entry, error);
                        true
                    }
                }
            });
            if left.len() == before {
                break;
            }
        }
    }
    for (entry, error) in dropped {
        complain("warning", &format!("without the feature gate {entry}: {error}"));
    }
}
