//! Two replicas of the daemon, each behind a proxy of its own.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::api_server::ApiServer;
use crate::proxy::{Proxy, Way};

/// The first argument that makes this program a replica.
pub(crate) const COMMAND: &str = "run";

/// A short lease, so that a run has many takeovers.
const CONFIGURATION: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  leaseDuration: 3s
  renewDeadline: 2s
  retryPeriod: 500ms
  resourceNamespace: kube-system
  resourceName: chaos
profiles: [{schedulerName: loadmaster}]
";

/// Number of lines of each log that are shown after a failure.
const LAST_LINES: usize = 20;

/// A replica. It is killed when dropped.
pub(crate) struct Replica {
    name: String,
    folder: PathBuf,
    proxy: Proxy,
    process: Child,
    /// Whether it was stopped by SIGSTOP.
    pub(crate) is_stopped: bool,
}

/// The replicas of a run.
pub(crate) struct Replicas(Vec<Replica>);

impl Drop for Replica {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Replica {
    async fn start(name: &str, api_server: &ApiServer) -> anyhow::Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("loadmaster-chaos-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let proxy = Proxy::start(&api_server.kubeconfig()?, Way::Open).await;
        fs::write(folder.join("kubeconfig"), serde_json::to_string(&proxy.kubeconfig)?)?;
        fs::write(folder.join("config.yaml"), CONFIGURATION)?;
        File::create(folder.join("log"))?;
        let process = spawn(&folder)?;
        Ok(Self { name: name.to_owned(), folder, proxy, process, is_stopped: false })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn set_way(&self, way: Way) {
        self.proxy.set(way);
    }

    /// Sends `TERM` or another signal.
    pub(crate) fn signal(&mut self, name: &str) {
        self.is_stopped = match name {
            "STOP" => true,
            "CONT" => false,
            _ => self.is_stopped,
        };
        // A process that has ended needs no signal.
        let _ = Command::new("kill")
            .args([format!("-{name}"), self.process.id().to_string()])
            .stderr(Stdio::null())
            .status();
    }
}

impl Replicas {
    pub(crate) async fn start(api_server: &ApiServer) -> anyhow::Result<Self> {
        let first = Replica::start("a", api_server).await?;
        Ok(Self(vec![first, Replica::start("b", api_server).await?]))
    }

    pub(crate) fn all_mut(&mut self) -> &mut [Replica] {
        &mut self.0
    }

    /// Starts the replicas that have ended again, as a kubelet does.
    pub(crate) fn restart_ended(&mut self) -> anyhow::Result<()> {
        for replica in &mut self.0 {
            if let Some(status) = replica.process.try_wait()? {
                let mut log = OpenOptions::new().append(true).open(replica.folder.join("log"))?;
                writeln!(log, "--- the process ended: {status}")?;
                replica.process = spawn(&replica.folder)?;
                replica.is_stopped = false;
            }
        }
        Ok(())
    }

    /// Writes the end of each log to the standard error.
    pub(crate) fn show_logs(&self) {
        for replica in &self.0 {
            let log = fs::read_to_string(replica.folder.join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
            eprintln!("replica {} ({}):\n{last}", replica.name, replica.folder.display());
        }
    }
}

fn spawn(folder: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe()?;
    let log = OpenOptions::new().append(true).open(folder.join("log"))?;
    Command::new(&program)
        .arg(COMMAND)
        .arg(format!("--config={}", folder.join("config.yaml").display()))
        .arg(format!("--kubeconfig={}", folder.join("kubeconfig").display()))
        .args(["--secure-port=0", "--v=2"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}
