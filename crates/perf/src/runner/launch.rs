//! The API server and the scheduler of a workload, as processes of their own.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::process::Process;
use crate::workload::Workload;

/// The API server of the workloads.
#[derive(Debug, Clone)]
pub enum Server {
    /// A sandbox of its own for each workload, started by this program, whose first argument is
    /// `sandbox`.
    Sandbox(PathBuf),
    /// The API server of this kubeconfig.
    Given(PathBuf),
}

/// The measured scheduler.
///
/// In its arguments, `{config}` is the path of a KubeSchedulerConfiguration that names the
/// kubeconfig, `{kubeconfig}` that of the kubeconfig itself, and `{featureGates}` stands for gates
/// like `A=true,B=false`.
#[derive(Debug, Clone)]
pub enum Scheduler {
    /// A program with arguments.
    Program(PathBuf, Vec<String>),
    /// A command of the shell.
    Command(String),
}

/// The processes of a workload.
pub(super) struct Launched {
    pub(super) scheduler: Process,
    pub(super) kubeconfig: PathBuf,
    sandbox: Option<Process>,
    /// Removed with its files when dropped.
    _folder: TempDir,
}

impl Launched {
    pub(super) async fn start(
        workload: &Workload,
        server: &Server,
        scheduler: &Scheduler,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("loadmaster-perf-").tempdir();
        let folder = folder.context("cannot create a folder for temporary files")?;
        let (sandbox, kubeconfig) = match server {
            Server::Given(kubeconfig) => (None, kubeconfig.clone()),
            Server::Sandbox(program) => {
                let (sandbox, kubeconfig) = start_sandbox(program, folder.path()).await?;
                (Some(sandbox), kubeconfig)
            }
        };
        let config = folder.path().join("config.yaml");
        let document = configuration(workload.scheduler_config.as_deref(), &kubeconfig)?;
        fs::write(&config, document.to_string()).with_context(|| config.display().to_string())?;
        let gates: Vec<String> =
            workload.feature_gates.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
        let replaced = |text: &str, quote: fn(&str) -> String| {
            text.replace("{config}", &quote(&config.to_string_lossy()))
                .replace("{kubeconfig}", &quote(&kubeconfig.to_string_lossy()))
                .replace("{featureGates}", &quote(&gates.join(",")))
        };
        let (program, args): (OsString, Vec<String>) = match scheduler {
            Scheduler::Program(program, args) => {
                let args = args.iter().map(|arg| replaced(arg, str::to_owned));
                (program.into(), args.collect())
            }
            // `exec`, so that the CPU time and the memory belong to the scheduler.
            Scheduler::Command(command) => {
                let command = format!("exec {}", replaced(command, quoted));
                ("sh".into(), vec!["-c".to_owned(), command])
            }
        };
        let log = folder.path().join("scheduler.log");
        let mut scheduler = Process::start(&program, &args, &log)?;
        if let Some(output) = scheduler.stdout() {
            tokio::spawn(discard(BufReader::new(output)));
        }
        Ok(Self { scheduler, kubeconfig, sandbox, _folder: folder })
    }

    /// Checks that the processes run.
    pub(super) fn check_runs(&mut self) -> anyhow::Result<()> {
        self.sandbox.iter_mut().try_for_each(Process::check_runs)?;
        self.scheduler.check_runs()
    }

    /// Ends the processes and waits for their end.
    pub(super) async fn stop(self) {
        self.scheduler.kill().await;
        if let Some(sandbox) = self.sandbox {
            sandbox.kill().await;
        }
    }
}

/// Starts a sandbox without scheduler and kubelets, and waits until it serves.
async fn start_sandbox(program: &Path, folder: &Path) -> anyhow::Result<(Process, PathBuf)> {
    let kubeconfig = folder.join("kubeconfig");
    let path = kubeconfig.to_string_lossy();
    let args = ["sandbox", "--no-scheduler", "--no-kubelets", "--write-kubeconfig", &path];
    let mut process = Process::start(program.as_os_str(), args, &folder.join("sandbox.log"))?;
    let output = process.stdout().context("the output of the sandbox is not piped")?;
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while output.read_line(&mut line).await? > 0 {
        if line.starts_with("loaded") {
            tokio::spawn(discard(output));
            return Ok((process, kubeconfig));
        }
        line.clear();
    }
    process.check_runs()?;
    bail!("the sandbox did not start")
}

/// Reads an output to its end, so that its writer is not held up.
async fn discard(mut output: impl AsyncBufReadExt + Unpin) {
    let _ = tokio::io::copy_buf(&mut output, &mut tokio::io::sink()).await;
}

/// Returns the configuration of the scheduler: the configuration of the workload with the
/// kubeconfig, without leader election and without a limit of requests.
fn configuration(file: Option<&Path>, kubeconfig: &Path) -> anyhow::Result<Value> {
    let mut config = match file {
        None => json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }),
        Some(file) => {
            let text = fs::read_to_string(file);
            let text = text.with_context(|| {
                format!("{}: cannot read the configuration of the scheduler", file.display())
            })?;
            yaml::decode(&text)
                .map_err(anyhow::Error::msg)
                .with_context(|| file.display().to_string())?
        }
    };
    let Value::Object(fields) = &mut config else { bail!("the configuration is not an object") };
    fields.insert(
        "clientConnection".to_owned(),
        json!({ "kubeconfig": kubeconfig.to_string_lossy(), "qps": -1 }),
    );
    fields.insert("leaderElection".to_owned(), json!({ "leaderElect": false }));
    Ok(config)
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("/tmp/a b"), "'/tmp/a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn default_configuration_has_no_limits() {
        let config = configuration(None, Path::new("/k")).unwrap();
        assert_eq!(config["clientConnection"], json!({ "kubeconfig": "/k", "qps": -1 }));
        assert_eq!(config["leaderElection"]["leaderElect"], json!(false));
    }
}
