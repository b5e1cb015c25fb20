//! Commands of `loadmaster`, in processes of their own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::folder::Folder;

/// A process, killed when dropped.
pub(crate) struct Process {
    command: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command of the `loadmaster` that was built beside this example.
    pub(crate) fn start(
        folder: &Folder,
        command: &'static str,
        args: &[impl AsRef<OsStr>],
        output: Stdio,
    ) -> anyhow::Result<Self> {
        let log = folder.path().join(command).with_extension("log");
        let program = program()?;
        let child = Command::new(&program)
            .arg(command)
            .args(args)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { command, child, log })
    }

    /// Reads the first line of a piped output. The process must write no other.
    pub(crate) async fn first_line(&mut self) -> anyhow::Result<String> {
        let output = self.child.stdout.take().context("the output is not piped")?;
        let line = BufReader::new(output).lines().next_line().await?;
        line.with_context(|| {
            format!("`loadmaster {}` wrote nothing:\n{}", self.command, self.log())
        })
    }

    /// Returns an error if the process has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        bail!("`loadmaster {}` has ended ({status}):\n{}", self.command, self.log())
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the process. No request is in progress, so an orderly shutdown is not needed.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let killed = self.child.kill().await;
        killed.with_context(|| format!("cannot stop `loadmaster {}`", self.command))
    }
}

/// Returns the path of the binary. Cargo builds examples into a folder beside the binaries.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let program = here.ancestors().nth(2).map(|folder| folder.join("loadmaster"));
    program
        .filter(|program| program.is_file())
        .context("no loadmaster beside this example: run `make demo`")
}
