//! The measured processes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use perf::process::Usage;
use serde_json::Value;

/// Time between two looks at a log.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum number of looks.
const LOOKS: usize = 60_000;

/// A `loadmaster` process, killed when dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(args: &[&str], stdout: Stdio) -> anyhow::Result<Self> {
        let log = scratch(&format!("{}.log", args[0]));
        let child = Command::new(env!("CARGO_BIN_EXE_loadmaster"))
            .args(args)
            .stdout(stdout)
            .stderr(fs::File::create(&log)?)
            .spawn()
            .context("cannot start loadmaster")?;
        Ok(Self { child, log })
    }

    /// Starts a scheduler for the API of this kubeconfig.
    pub(crate) fn scheduler(kubeconfig: &Path) -> anyhow::Result<Self> {
        let kubeconfig = kubeconfig.to_string_lossy();
        let args =
            ["run", "--leader-elect=false", "--kubeconfig", &kubeconfig, "--secure-port", "0"];
        Self::start(&args, Stdio::null())
    }

    /// Starts one of several replicas, which elect a leader. Everybody may scrape it on this port.
    pub(crate) fn replica(kubeconfig: &Path, port: u16) -> anyhow::Result<Self> {
        Self::replica_with(kubeconfig, port, &[])
    }

    /// Starts such a replica with further flags.
    pub(crate) fn replica_with(
        kubeconfig: &Path,
        port: u16,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let (kubeconfig, port) = (kubeconfig.to_string_lossy(), port.to_string());
        let everybody = "--authorization-always-allow-paths=/metrics";
        let args = ["run", "--kubeconfig", &kubeconfig, "--secure-port", &port, everybody];
        Self::start(&[&args, flags].concat(), Stdio::null())
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, name: &str) -> anyhow::Result<()> {
        let (signal, pid) = (format!("-{name}"), self.child.id().to_string());
        let sent = Command::new("kill").args([signal, pid]).status().context("cannot run kill")?;
        if sent.success() { Ok(()) } else { bail!("cannot send SIG{name}") }
    }

    /// Waits until a line of the log contains this text.
    pub(crate) async fn until_logged(&self, text: &str) -> anyhow::Result<()> {
        for _ in 0..LOOKS {
            if fs::read_to_string(&self.log)?.contains(text) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("{}: no line contains {text:?}", self.log.display())
    }

    /// Returns how often a thread has waited so far.
    pub(crate) fn waits(&self) -> anyhow::Result<u64> {
        let mut waits = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let status = fs::read_to_string(task?.path().join("status"))?;
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            waits += line.context("voluntary_ctxt_switches")?.trim().parse::<u64>()?;
        }
        Ok(waits)
    }

    /// Returns the CPU time since the start, of all threads.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.usage().cpu()
    }

    /// Returns the peak resident set in MiB.
    pub(crate) fn peak_mib(&self) -> anyhow::Result<f64> {
        self.usage().peak_mib()
    }

    /// Returns the resident set in MiB.
    pub(crate) fn rss_mib(&self) -> anyhow::Result<f64> {
        self.usage().rss_mib()
    }

    fn usage(&self) -> Usage {
        Usage::of(self.child.id())
    }
}

/// A sandbox with objects.
pub(crate) struct Sandbox {
    pub(crate) process: Process,
    pub(crate) kubeconfig: PathBuf,
}

impl Sandbox {
    /// Starts a sandbox without scheduler and kubelets, and waits until it has loaded the objects.
    pub(crate) fn start(objects: Vec<Value>) -> anyhow::Result<Self> {
        let (manifest, kubeconfig) = (scratch("cluster.json"), scratch("kubeconfig"));
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        fs::write(&manifest, list.to_string())?;
        let (file, config) = (manifest.to_string_lossy(), kubeconfig.to_string_lossy());
        let args = ["sandbox", "--no-scheduler", "--no-kubelets", "-f", &file];
        let args = [&args[..], &["--write-kubeconfig", &config]].concat();
        let mut process = Process::start(&args, Stdio::piped())?;
        let stdout = process.child.stdout.take().context("stdout is piped")?;
        for line in BufReader::new(stdout).lines() {
            if line?.starts_with("loaded") {
                return Ok(Self { process, kubeconfig });
            }
        }
        bail!("the sandbox did not start: see {}", scratch("sandbox.log").display())
    }
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns the load average of this machine.
pub(crate) fn load_average() -> anyhow::Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
}

pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-daemon-{name}"))
}
