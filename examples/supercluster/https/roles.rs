//! The processes of agents and schedulers.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use http_body_util::BodyExt;
use loadmaster::api_client::{ApiClient, Credentials};
use loadmaster::metrics::Metrics;
use perf::process::Process;
use sandbox::http::Server;
use serde_json::{Value, json};

use super::clusters::Clusters;
use crate::Args;

/// Time to wait until a role is ready.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A role with its secure port.
struct Role {
    process: Process,
    client: ApiClient,
}

/// The roles of a run.
pub(super) struct Roles {
    schedulers: Vec<Role>,
    agents: Vec<Role>,
}

impl Roles {
    /// Starts all roles, and waits until they are ready.
    pub(super) async fn start(
        folder: &Path,
        args: &Args,
        clusters: &Clusters,
    ) -> anyhow::Result<Self> {
        let certificate = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        fs::write(folder.join("roles.crt"), certificate.cert.pem())?;
        fs::write(folder.join("roles.key"), certificate.signing_key.serialize_pem())?;
        let mut own = Self { schedulers: Vec::new(), agents: Vec::new() };
        let mut members = Vec::new();
        for (name, server) in &clusters.members {
            let port = free_port()?;
            fs::write(folder.join(format!("{name}.token")), administrator(server)?)?;
            own.agents.push(start(folder, name, &["agent"], server, port).await?);
            members.push(json!({"name": name, "server": format!("https://127.0.0.1:{port}"),
                "certificateAuthority": folder.join("roles.crt"),
                "tokenFile": folder.join(format!("{name}.token"))}));
        }
        for agent in &mut own.agents {
            agent.ready().await?;
        }
        for number in 0..args.schedulers {
            let path = folder.join(format!("clusters-{number}.yaml"));
            fs::write(&path, file(args, number, &members).to_string())?;
            let (name, clusters_file) =
                (format!("scheduler-{number}"), format!("--clusters={}", path.display()));
            let (command, server) = (["run", &*clusters_file], &clusters.management);
            let scheduler = start(folder, &name, &command, server, free_port()?).await?;
            own.schedulers.push(scheduler);
        }
        for scheduler in &mut own.schedulers {
            scheduler.ready().await?;
        }
        Ok(own)
    }

    /// Returns the CPU seconds of schedulers and agents.
    pub(super) fn cpu(&self) -> anyhow::Result<(f64, f64)> {
        let sum = |roles: &[Role]| -> anyhow::Result<f64> {
            roles.iter().map(|role| Ok(role.process.usage()?.cpu()?.as_secs_f64())).sum()
        };
        Ok((sum(&self.schedulers)?, sum(&self.agents)?))
    }

    /// Returns the numbers of commits that the agents have answered, and of those with a conflict.
    pub(super) async fn commits(&self) -> anyhow::Result<(u64, u64)> {
        let (mut commits, mut conflicts) = (0, 0);
        for scheduler in &self.schedulers {
            let text = scheduler.get("/metrics").await?;
            let answered =
                text.lines().filter(|line| line.starts_with("loadmaster_member_commits_total{"));
            for line in answered {
                let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
                let count = count.context("a metric has no value")? as u64;
                commits += count;
                conflicts += if line.contains("outcome=\"conflict\"") { count } else { 0 };
            }
        }
        Ok((commits, conflicts))
    }

    /// Checks that no role has ended.
    pub(super) fn check_run(&mut self) -> anyhow::Result<()> {
        let mut all = self.schedulers.iter_mut().chain(&mut self.agents);
        all.try_for_each(|role| role.process.check_runs())
    }
}

impl Role {
    async fn get(&self, path: &str) -> anyhow::Result<String> {
        let response = self.client.get(path).await.map_err(anyhow::Error::msg)?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        match status.as_u16() {
            200 => Ok(String::from_utf8_lossy(&body).into_owned()),
            _ => bail!("{path}: {status}: {}", String::from_utf8_lossy(&body)),
        }
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let ready = async {
            while self.get("/readyz").await.is_err() {
                self.process.check_runs()?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(READY_WITHIN, ready).await.context("a role is not ready")?
    }
}

/// The file of clusters of a scheduler.
fn file(args: &Args, number: u32, members: &[Value]) -> Value {
    let mut file = json!({"apiVersion": "supercluster.loadmaster.io/v1alpha1",
        "kind": "SuperclusterConfiguration", "strategy": args.strategy,
        "nodesToSampleBp": args.share_bp, "clustersToSampleBp": args.clusters_bp,
        "commitCandidates": args.candidates, "maxInFlight": args.in_flight,
        // Only the conflicts of this load are of interest, not what a busy machine makes late.
        "sampleTimeout": "30s", "stragglerWait": "30s", "commitTimeout": "30s",
        "clusters": members});
    if args.schedulers > 1 {
        file["instance"] = format!("s{number}").into();
        file["turn"] = json!({"index": number, "of": args.schedulers});
        file["takeoverWait"] = "300s".into();
    }
    file
}

async fn start(
    folder: &Path,
    name: &str,
    command: &[&str],
    server: &Server,
    port: u16,
) -> anyhow::Result<Role> {
    let kubeconfig = folder.join(format!("{name}.kubeconfig"));
    fs::write(&kubeconfig, server.kubeconfig())?;
    let path = |name: &str| folder.join(name).display().to_string();
    let mut args: Vec<OsString> = command.iter().map(OsString::from).collect();
    let flags = [
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
        "--v=1".to_owned(),
        format!("--secure-port={port}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--tls-cert-file={}", path("roles.crt")),
        format!("--tls-private-key-file={}", path("roles.key")),
    ];
    args.extend(flags.into_iter().map(OsString::from));
    let log = folder.join(format!("{name}.log"));
    let process = Process::start(program()?.as_os_str(), args, &log)?;
    let role = json!({"apiVersion": "v1", "kind": "Config", "current-context": "role",
        "clusters": [{"name": "role", "cluster": {"server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": path("roles.crt")}}],
        "users": [{"name": "role", "user": {"token": administrator(server)?}}],
        "contexts": [{"name": "role", "context": {"cluster": "role", "user": "role"}}]});
    let credentials = Credentials::parse(&role.to_string()).await?;
    let metrics = Metrics::new().rest_client();
    let client = ApiClient::new(&credentials, "measurement", metrics, Arc::default())?;
    Ok(Role { process, client })
}

/// Returns the token of the administrator.
fn administrator(server: &Server) -> anyhow::Result<String> {
    let kubeconfig: Value = yaml::decode(&server.kubeconfig()).map_err(anyhow::Error::msg)?;
    let token = kubeconfig["users"][0]["user"]["token"].as_str();
    token.map(str::to_owned).context("the kubeconfig has no token")
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns the path of the binary. Cargo builds examples into a folder beside the binaries.
fn program() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let program = here.ancestors().nth(2).map(|folder| folder.join("loadmaster"));
    program
        .filter(|program| program.is_file())
        .context("no loadmaster beside this example: run `cargo build --bin loadmaster`, with --release if this is")
}
