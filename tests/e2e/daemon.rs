//! The daemon under test: the built binary, with the arguments of its Deployment.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{AuthInfo, Kubeconfig};
use serde_json::Value;

use super::authentication::{authority, issue};
use super::cluster::Cluster;
use super::endpoints::Endpoints;
use super::process::free_port;
use super::wait::eventually;
use crate::manifests::{DEFAULT, find};

/// The name of the file with the configuration.
const CONFIG: &str = "config.yaml";

/// The standard error of a process so far.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl From<&str> for Log {
    fn from(text: &str) -> Self {
        Self(Arc::new(Mutex::new(text.lines().map(str::to_owned).collect())))
    }
}

impl Log {
    /// Collects the output of this process until it ends.
    pub(super) fn of(child: &mut Child) -> Self {
        let (log, errors) = (Self::default(), child.stderr.take().unwrap());
        let lines = log.0.clone();
        tokio::task::spawn_blocking(move || {
            for line in BufReader::new(errors).lines() {
                lines.lock().unwrap().push(line.unwrap());
            }
        });
        log
    }

    /// Returns the lines with this text.
    pub(super) fn lines(&self, text: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// Waits for the first line with this text.
    pub(super) async fn line(&self, text: &str) -> String {
        eventually(&format!("the log says {text:?}"), async || self.lines(text).into_iter().next())
            .await
    }
}

/// A running daemon. It is killed when dropped; if a test fails, its log is shown.
pub(super) struct Daemon {
    child: Child,
    /// Folder with its configuration and credentials.
    folder: PathBuf,
    /// Its log.
    pub(super) log: Log,
    /// Its endpoints, for a caller that may do everything there without a review.
    pub(super) endpoints: Endpoints,
    /// Its endpoints, for a caller without credentials like the probes of a kubelet.
    pub(super) probes: Endpoints,
    /// The port of its endpoints.
    pub(super) port: u16,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
        if std::thread::panicking() {
            self.log.lines("").iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl Daemon {
    /// Starts a daemon with the permissions of the chart and waits until it is ready.
    pub(super) async fn start(cluster: &Cluster) -> Self {
        let daemon = Self::spawn(cluster, &cluster.scheduler_kubeconfig().await).await;
        daemon.ready().await;
        daemon
    }

    /// Starts a ready daemon with another configuration.
    pub(super) async fn start_with(cluster: &Cluster, change: impl FnOnce(&mut Value)) -> Self {
        let daemon = Self::spawn_with(cluster, change, &[]).await;
        daemon.ready().await;
        daemon
    }

    /// Starts a daemon with another configuration and further arguments, without waiting for it.
    pub(super) async fn spawn_with(
        cluster: &Cluster,
        change: impl FnOnce(&mut Value),
        args: &[&str],
    ) -> Self {
        let mut config = config_of(cluster);
        change(&mut config);
        Self::run(cluster, &cluster.scheduler_kubeconfig().await, &config, args)
    }

    /// Starts a daemon without waiting for it.
    pub(super) async fn spawn(cluster: &Cluster, kubeconfig: &Kubeconfig) -> Self {
        Self::run(cluster, kubeconfig, &config_of(cluster), &[])
    }

    fn run(
        cluster: &Cluster,
        kubeconfig: &Kubeconfig,
        configuration: &Value,
        args: &[&str],
    ) -> Self {
        let folder = folder(cluster);
        let config = folder.join(CONFIG);
        fs::write(&config, yaml::to_string(configuration).unwrap()).unwrap();
        let path = folder.join("kubeconfig");
        fs::write(&path, serde_json::to_string(kubeconfig).unwrap()).unwrap();
        let authority = authority();
        let authority_file = folder.join("operators.crt");
        fs::write(&authority_file, authority.pem()).unwrap();
        let port = free_port();
        let mut child = loadmaster()
            .arg(format!("--config={}", config.display()))
            .arg(format!("--kubeconfig={}", path.display()))
            .arg(format!("--client-ca-file={}", authority_file.display()))
            .arg(format!("--secure-port={port}"))
            .arg("--v=2")
            .args(args)
            .spawn()
            .unwrap();
        let log = Log::of(&mut child);
        let endpoints = Endpoints::at(port, issue(&authority, "operator", "system:masters"));
        let probes = Endpoints::at(port, AuthInfo::default());
        Self { child, folder, log, endpoints, probes, port }
    }

    /// Replaces the file of its configuration.
    pub(super) fn configure(&self, cluster: &Cluster, change: impl FnOnce(&mut Value)) {
        let mut config = config_of(cluster);
        change(&mut config);
        fs::write(self.folder.join(CONFIG), yaml::to_string(&config).unwrap()).unwrap();
    }

    /// Waits until its watches have synced.
    pub(super) async fn ready(&self) {
        let ready = async || self.probes.is_ready().await.then_some(());
        eventually("the daemon is ready", ready).await;
    }

    /// Waits until a metric with exactly these labels has this value.
    pub(super) async fn counts(&self, series: &str, value: f64) {
        eventually(&format!("{series} is {value}"), async || {
            (self.endpoints.metric(series).await == Some(value)).then_some(())
        })
        .await;
    }

    /// Sends `TERM` or another signal.
    pub(super) fn signal(&self, name: &str) {
        let (signal, process) = (format!("-{name}"), self.child.id().to_string());
        let status = Command::new("kill").args([signal, process]).status().unwrap();
        assert!(status.success());
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&mut self) -> ExitStatus {
        eventually("the daemon ends", async || self.child.try_wait().unwrap()).await
    }
}

/// Returns `loadmaster run` without credentials from the environment.
pub(super) fn loadmaster() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadmaster"));
    command.arg("run").env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Creates a folder for the files of one daemon.
pub(super) fn folder(cluster: &Cluster) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("e2e/{}-{}", cluster.name, NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the configuration of the chart with the scheduler name of the test and without leader
/// election, which has tests of its own.
fn config_of(cluster: &Cluster) -> Value {
    let data = find::<ConfigMap>(DEFAULT).unwrap().data.unwrap();
    let mut config: Value = yaml::decode(&data["config.yaml"]).unwrap();
    config["profiles"][0]["schedulerName"] = cluster.name.as_str().into();
    config["leaderElection"]["leaderElect"] = false.into();
    config
}
