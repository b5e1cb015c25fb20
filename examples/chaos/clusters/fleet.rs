//! The processes of a run: API servers of a management cluster and of members, agents, and
//! schedulers.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::Context;
use kube::config::{Config, Kubeconfig};
use sandbox::http::Options;
use sandbox::kubelet;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::api_server::ApiServer;
use crate::pods::create_nodes;
use crate::proxy::{Link, Way};
use crate::replica::{Replica, Role};

/// The schedulers: instance, scheduler name, strategy. The first two serve the same pods.
const SCHEDULERS: [(&str, &str, &str); 3] = [
    ("first", NAMES[0], "best"),
    ("second", NAMES[0], "random"),
    ("other", NAMES[1], "round-robin"),
];
/// The scheduler names.
pub(super) const NAMES: [&str; 2] = ["supercluster", "supercluster-other"];
/// Number of ports for the agents of a run.
const PORTS: u16 = 24;
/// Time between two probes of an agent, and the time limit of one.
const PROBE: Duration = Duration::from_millis(300);

/// A member cluster.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) server: ApiServer,
    pub(super) agents: Vec<Replica>,
    /// The connections from each scheduler.
    pub(super) links: Vec<Link>,
    /// The addresses at which the schedulers reach its agents.
    addresses: Vec<SocketAddr>,
    _service: AbortOnDropHandle<()>,
}

/// All clusters and processes.
pub(super) struct Fleet {
    pub(super) management: ApiServer,
    pub(super) members: Vec<Member>,
    pub(super) schedulers: Vec<Replica>,
    folder: PathBuf,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Fleet {
    pub(super) async fn start(
        seed: u64,
        clusters: usize,
        agents: usize,
        nodes: usize,
    ) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("loadmaster-chaos-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let options = |seed, kubelets| Options { kubelets, seed, ..Options::default() };
        let management = ApiServer::sandbox(options(seed, None)).await?;
        create_nodes(&management.client().await?, 0).await?;
        let pair = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        fs::write(folder.join("agents.crt"), pair.cert.pem())?;
        fs::write(folder.join("agents.key"), pair.signing_key.serialize_pem())?;
        let mut own = Self { management, members: Vec::new(), schedulers: Vec::new(), folder };
        for number in 1..=clusters {
            let seed = seed + u64::try_from(number)?;
            let kubelets = kubelet::Settings {
                start_delay: Duration::from_millis(300),
                stop_delay: Duration::from_secs(2),
                ..kubelet::Settings::default()
            };
            let server = ApiServer::sandbox(options(seed, Some(kubelets))).await?;
            create_nodes(&server.client().await?, nodes).await?;
            let member = own.member(format!("member-{number}"), server, agents).await?;
            own.members.push(member);
        }
        for (index, (instance, name, strategy)) in SCHEDULERS.into_iter().enumerate() {
            let scheduler = own.scheduler(index, instance, name, strategy).await?;
            own.schedulers.push(scheduler);
        }
        Ok(own)
    }

    async fn member(
        &self,
        name: String,
        server: ApiServer,
        agents: usize,
    ) -> anyhow::Result<Member> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let kubeconfig = server.kubeconfig()?;
        fs::write(file(&format!("{name}.token")), token(&kubeconfig)?)?;
        let policy = json!({"apiVersion": "supercluster.loadmaster.io/v1alpha1",
            "kind": "AgentConfiguration", "copies": ["configmaps"]});
        fs::write(file("agent.yaml"), policy.to_string())?;
        let (mut processes, mut ports) = (Vec::new(), Vec::new());
        for index in 0..agents {
            let port = port()?;
            let role = Role {
                command: "agent",
                configuration: configuration("loadmaster-agent", true),
                flags: vec![
                    format!("--agent-config={}", file("agent.yaml")),
                    format!("--tls-cert-file={}", file("agents.crt")),
                    format!("--tls-private-key-file={}", file("agents.key")),
                    "--bind-address=127.0.0.1".to_owned(),
                    format!("--secure-port={port}"),
                ],
            };
            let agent = format!("{name}-agent-{index}");
            processes.push(Replica::start(&agent, &kubeconfig, &role).await?);
            ports.push(port);
        }
        let (endpoint, chosen) = watch::channel(format!("127.0.0.1:{}", ports[0]));
        let (mut links, mut addresses) = (Vec::new(), Vec::new());
        for _ in SCHEDULERS {
            let (link, address) = Link::start(chosen.clone(), Way::Open).await;
            links.push(link);
            addresses.push(address);
        }
        let service = tokio::spawn(serve(ports, endpoint));
        let _service = AbortOnDropHandle::new(service);
        Ok(Member { name, server, agents: processes, links, addresses, _service })
    }

    async fn scheduler(
        &self,
        index: usize,
        instance: &str,
        name: &str,
        strategy: &str,
    ) -> anyhow::Result<Replica> {
        let members = self.members.iter().map(|member| {
            let token = self.folder.join(format!("{}.token", member.name));
            json!({"name": member.name, "server": format!("https://{}", member.addresses[index]),
                "certificateAuthority": self.folder.join("agents.crt"), "tokenFile": token,
                "labels": {"name": member.name}})
        });
        let members: Vec<Value> = members.collect();
        let file = json!({"apiVersion": "supercluster.loadmaster.io/v1alpha1",
            "kind": "SuperclusterConfiguration", "clusters": members, "strategy": strategy,
            "instance": instance, "takeoverWait": "8s", "commitTimeout": "1s",
            "clustersToSampleBp": 10_000, "nodesToSampleBp": 5_000,
            "copies": {"kinds": ["configmaps"], "namespaces": ["default"]}});
        let path = self.folder.join(format!("{instance}.yaml"));
        fs::write(&path, file.to_string())?;
        let role = Role {
            command: "run",
            configuration: configuration(name, false),
            flags: vec![format!("--clusters={}", path.display()), "--secure-port=0".to_owned()],
        };
        Replica::start(&format!("scheduler-{instance}"), &self.management.kubeconfig()?, &role)
            .await
    }

    /// Returns all processes.
    pub(super) fn processes(&mut self) -> impl Iterator<Item = &mut Replica> {
        self.members.iter_mut().flat_map(|member| &mut member.agents).chain(&mut self.schedulers)
    }

    /// Returns all API servers, that of the management cluster first.
    pub(super) fn servers(&self) -> impl Iterator<Item = &ApiServer> {
        [&self.management].into_iter().chain(self.members.iter().map(|member| &member.server))
    }

    /// Starts the processes that have ended again.
    pub(super) fn restart_ended(&mut self) -> anyhow::Result<()> {
        self.processes().try_for_each(Replica::restart_if_ended)
    }

    pub(super) fn show_logs(&mut self) {
        self.processes().for_each(|process| process.show_log());
    }
}

/// The configuration of a role. Schedulers act side by side; of the agents of a cluster one leads.
fn configuration(name: &str, leader_elect: bool) -> String {
    json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": leader_elect, "leaseDuration": "3s",
            "renewDeadline": "2s", "retryPeriod": "500ms", "resourceNamespace": "kube-system",
            "resourceName": name},
        "profiles": [{"schedulerName": name}]})
    .to_string()
}

/// Returns a port that is free, and that the system gives to no other socket while an agent is
/// restarted.
fn port() -> anyhow::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the ports of outgoing connections, and others for each of several runs at a time.
    let first = 20_000 + u16::try_from(std::process::id() % 500)? * PORTS;
    let free = (0..PORTS).find_map(|_| {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
    });
    free.context("no port is free")
}

/// Returns the token of the administrator.
fn token(kubeconfig: &Kubeconfig) -> anyhow::Result<String> {
    let text = serde_json::to_value(kubeconfig)?;
    let token = text["users"][0]["user"]["token"].as_str();
    token.map(str::to_owned).context("the kubeconfig has no token")
}

/// Sends new connections to an agent that is ready, as a Service does.
async fn serve(ports: Vec<u16>, endpoint: watch::Sender<String>) {
    let clients: Vec<_> = ports.into_iter().filter_map(|port| Some((port, probe(port)?))).collect();
    loop {
        for (port, client) in &clients {
            let request = http::Request::get("/readyz").body(Vec::new());
            let Ok(request) = request else { continue };
            let answer = tokio::time::timeout(PROBE, client.request_text(request)).await;
            if matches!(answer, Ok(Ok(_))) {
                endpoint.send_replace(format!("127.0.0.1:{port}"));
                break;
            }
        }
        tokio::time::sleep(PROBE).await;
    }
}

fn probe(port: u16) -> Option<kube::Client> {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().ok()?);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    kube::Client::try_from(config).ok()
}
