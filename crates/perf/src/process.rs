//! Child processes, with their CPU time and memory from `/proc`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::{Child, ChildStdout, Command};

/// Linux counts CPU time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// Number of lines of the log in the error of a process that ended.
const LAST_LINES: usize = 5;

/// A child process. It is killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program. Its standard error goes to the file `log`.
    ///
    /// # Errors
    /// The program cannot be started, or the log cannot be written.
    pub fn start(
        program: &OsStr,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        let file = File::create(log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let child = command.kill_on_drop(true).spawn();
        let child = child.with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    /// Takes the standard output. It must be read, or dropped to close it.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Kills the process and waits until it has ended.
    pub async fn kill(mut self) {
        // It may have ended already.
        let _ = self.child.kill().await;
    }

    /// Checks that the process runs.
    ///
    /// # Errors
    /// It has ended. The error has the end of its log.
    pub fn check_runs(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        bail!("{} ended: {status}; the end of its log:\n{last}", self.name)
    }

    /// Returns what the process has used.
    ///
    /// # Errors
    /// It has ended.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let id = self.child.id().with_context(|| format!("{} has ended", self.name))?;
        Ok(Usage::of(id))
    }
}

/// The resources that a process has used, from `/proc`.
#[derive(Debug, Clone, Copy)]
pub struct Usage(u32);

impl Usage {
    /// Returns the usage of the process with this id.
    pub const fn of(process: u32) -> Self {
        Self(process)
    }

    /// Returns the CPU time since the start, of all threads.
    ///
    /// # Errors
    /// The process has ended.
    pub fn cpu(self) -> anyhow::Result<Duration> {
        let stat = self.proc("stat")?;
        // The command name, in parentheses, may contain spaces.
        let (_, fields) = stat.rsplit_once(')').context("no command in /proc/PID/stat")?;
        let (user, system) = (11, 12);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok());
        let ticks = ticks(user).zip(ticks(system)).context("no times in /proc/PID/stat")?;
        Ok(TICK * (ticks.0 + ticks.1))
    }

    /// Returns the peak resident set in MiB.
    ///
    /// # Errors
    /// The process has ended.
    pub fn peak_mib(self) -> anyhow::Result<f64> {
        self.mib("VmHWM:")
    }

    /// Returns the resident set in MiB.
    ///
    /// # Errors
    /// The process has ended.
    pub fn rss_mib(self) -> anyhow::Result<f64> {
        self.mib("VmRSS:")
    }

    fn mib(self, field: &str) -> anyhow::Result<f64> {
        let status = self.proc("status")?;
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = value.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.with_context(|| format!("no {field} in /proc/PID/status"))? / 1024.0)
    }

    fn proc(self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.0);
        fs::read_to_string(&path).with_context(|| format!("{path}: has the process ended?"))
    }
}
