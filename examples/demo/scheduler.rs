//! The daemon, in a process of its own.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::process::{Child, Command};

use crate::folder::Folder;

/// `loadmaster run`, killed when dropped.
pub(crate) struct Scheduler {
    child: Child,
    log: PathBuf,
}

impl Scheduler {
    /// Starts the `loadmaster` that was built beside this example.
    pub(crate) fn start(folder: &Folder, kubeconfig: &str) -> anyhow::Result<Self> {
        let (file, log) = (folder.path().join("kubeconfig"), folder.path().join("log"));
        fs::write(&file, kubeconfig)?;
        let program = program()?;
        let child = Command::new(&program)
            .args(["run", "--leader-elect=false", "--secure-port", "0", "--kubeconfig"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, log })
    }

    /// Returns an error if the process has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        bail!("the scheduler has ended ({status}):\n{log}")
    }

    /// Kills the process. No request is in progress, so an orderly shutdown is not needed.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot stop the scheduler")
    }
}

/// Returns the path of the binary. Cargo builds examples into a folder beside the binaries.
fn program() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let program = here.ancestors().nth(2).map(|folder| folder.join("loadmaster"));
    program
        .filter(|program| program.is_file())
        .context("no loadmaster beside this example: run `make demo`")
}
