//! Processes of the daemon, each behind a proxy of its own in front of its API server.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use kube::config::Kubeconfig;

use crate::api_server::ApiServer;
use crate::moves;
use crate::proxy::{Proxy, Way};

/// The first arguments that make this program the daemon.
pub(crate) const COMMANDS: [&str; 2] = ["run", "agent"];

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
";

/// Number of lines of each log that are shown after a failure.
const LAST_LINES: usize = 20;

/// What a process of the daemon is started with.
pub(crate) struct Role {
    /// One of [`COMMANDS`].
    pub(crate) command: &'static str,
    /// Its KubeSchedulerConfiguration.
    pub(crate) configuration: String,
    /// Further flags.
    pub(crate) flags: Vec<String>,
}

/// A process of the daemon. It is killed when dropped.
pub(crate) struct Replica {
    name: String,
    folder: PathBuf,
    proxy: Proxy,
    arguments: Vec<String>,
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
    /// Starts a process for the API server of this kubeconfig.
    pub(crate) async fn start(
        name: &str,
        kubeconfig: &Kubeconfig,
        role: &Role,
    ) -> anyhow::Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("loadmaster-chaos-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let proxy = Proxy::start(kubeconfig, Way::Open).await;
        fs::write(folder.join("kubeconfig"), serde_json::to_string(&proxy.kubeconfig)?)?;
        fs::write(folder.join("config.yaml"), &role.configuration)?;
        File::create(folder.join("log"))?;
        let file = |name: &str| folder.join(name).display().to_string();
        let mut arguments = vec![
            role.command.to_owned(),
            format!("--config={}", file("config.yaml")),
            format!("--kubeconfig={}", file("kubeconfig")),
            "--v=2".to_owned(),
        ];
        arguments.extend(role.flags.iter().cloned());
        let process = spawn(&folder, &arguments)?;
        Ok(Self { name: name.to_owned(), folder, proxy, arguments, process, is_stopped: false })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Changes the state of the connections to its API server.
    pub(crate) fn set_way(&self, way: Way) {
        self.proxy.set(way);
    }

    /// Ends all trouble of the process.
    pub(crate) fn leave_alone(&mut self) {
        self.set_way(Way::Open);
        if self.is_stopped {
            self.signal("CONT");
        }
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

    /// Starts the process again if it has ended, as a kubelet does.
    ///
    /// # Errors
    /// The process panicked, or cannot be started.
    pub(crate) fn restart_if_ended(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.process.try_wait()? else { return Ok(()) };
        let log = self.folder.join("log");
        let text = fs::read_to_string(&log)?;
        if let Some(panic) = text.lines().find(|line| line.contains("panicked")) {
            bail!("{} panicked: {panic}", self.name);
        }
        let mut log = OpenOptions::new().append(true).open(log)?;
        writeln!(log, "--- the process ended: {status}")?;
        self.process = spawn(&self.folder, &self.arguments)?;
        self.is_stopped = false;
        Ok(())
    }

    /// Writes the end of the log to the standard error.
    pub(crate) fn show_log(&self) {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        eprintln!("{} ({}):\n{last}", self.name, self.folder.display());
    }
}

impl Replicas {
    pub(crate) async fn start(api_server: &ApiServer) -> anyhow::Result<Self> {
        let role = Role {
            command: "run",
            configuration: format!("{CONFIGURATION}{}", moves::PROFILE),
            flags: vec!["--secure-port=0".to_owned()],
        };
        let kubeconfig = api_server.kubeconfig()?;
        let first = Replica::start("replica-a", &kubeconfig, &role).await?;
        Ok(Self(vec![first, Replica::start("replica-b", &kubeconfig, &role).await?]))
    }

    pub(crate) fn all_mut(&mut self) -> &mut [Replica] {
        &mut self.0
    }

    /// Starts the replicas that have ended again.
    pub(crate) fn restart_ended(&mut self) -> anyhow::Result<()> {
        self.0.iter_mut().try_for_each(Replica::restart_if_ended)
    }

    pub(crate) fn show_logs(&self) {
        self.0.iter().for_each(Replica::show_log);
    }
}

fn spawn(folder: &Path, arguments: &[String]) -> anyhow::Result<Child> {
    let program = std::env::current_exe()?;
    let log = OpenOptions::new().append(true).open(folder.join("log"))?;
    Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}
