//! `loadmaster sandbox --clusters N`: a management cluster and members with agents, in one process.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use control::Reply;
use framework::Registry;
use sandbox::http::{Options, Server};
use sandbox::resources::NODES;
use serde_json::{Value, json};
use supercluster::message::API_VERSION;
use supercluster::registry::PipelineRegistry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::{complain, in_process, print};
use super::{Args, manifests, options, secrets, until_interrupted, with_advice};
use crate::api_client::{ApiClient, Credentials};
use crate::http::{self, Certificate, KeyPairFiles, Serving, Tls, TlsVersion};
use crate::metrics::Metrics;
use crate::supercluster::scheduler::{self, ClustersFile};
use crate::wire::{self, Object, ReadObjects};

/// The service account with which the scheduler calls an agent.
const CALLER: (&str, &str) = ("kube-system", "loadmaster-supercluster");
/// Lifetime of its token.
const TOKEN_LIFETIME: Duration = Duration::from_hours(24 * 365);
/// Paths of an agent that it may use.
const AGENT_PATHS: &str = "/supercluster.loadmaster.io/v1alpha1/*";
/// Number of concurrent requests on one connection to an agent.
const STREAMS: u32 = 1_000;
/// Number of nodes of each member, unless a file has nodes.
const NODES_OF_MEMBER: usize = 3;

/// Runs the clusters until interrupted.
pub(super) fn run(
    args: &Args,
    members: u8,
    registry: &Registry,
    pipelines: &PipelineRegistry,
) -> anyhow::Result<()> {
    let options = options(args)?;
    let ReadObjects { objects, strays } = wire::read_objects(&args.filename)?;
    strays.iter().for_each(|stray| complain("warning", &stray.to_string()));
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let folder = &args.write_clusters;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let folder = std::path::absolute(folder)?;
        let (nodes, others): (Vec<Object>, Vec<Object>) =
            objects.into_iter().partition(|object| object.kind == NODES.kind);
        let namespaces = others.iter().filter(|object| object.kind == "Namespace");
        let in_members: Vec<Object> = namespaces.chain(&nodes).cloned().collect();

        let management = start(Options { kubelets: None, ..options.clone() }, others).await?;
        secrets::write_kubeconfig(&folder.join("management.kubeconfig"), &management.kubeconfig())?;
        let tls = write_certificate(&folder, args.bind_address)?;
        let stop = CancellationToken::new();
        let (mut roles, mut servers, mut clusters) = (JoinSet::new(), Vec::new(), Vec::new());
        for number in 1..=members {
            let name = format!("member-{number}");
            let seed = options.seed + u64::from(number);
            let options = Options { port: 0, seed, ..options.clone() };
            let server = start(options, in_members.clone()).await?;
            if nodes.is_empty() {
                add_nodes(&server, &name).await?;
            }
            let kubeconfig = server.kubeconfig();
            secrets::write_kubeconfig(&folder.join(format!("{name}.kubeconfig")), &kubeconfig)?;
            let token = folder.join(format!("{name}.token"));
            secrets::write_token(&token, &admit_caller(&server).await?)?;
            let listener = http::bind(serving(args.bind_address, &tls))?;
            clusters.push(json!({"name": name,
                "server": format!("https://{}", listener.address()?),
                "certificateAuthority": tls.certificate, "tokenFile": token,
                "labels": {"name": name}}));
            let (registry, stop) = (registry.clone(), stop.clone());
            roles.spawn(in_process::agent(registry, kubeconfig, listener, stop));
            servers.push((name, server));
        }
        let path = folder.join("clusters.yaml");
        let file = json!({"apiVersion": API_VERSION, "kind": "SuperclusterConfiguration",
            "clustersToSampleBp": 10_000, "clusters": clusters});
        secrets::write_config(&path, &yaml::to_string(&file).map_err(anyhow::Error::msg)?)?;
        let mut scheduler = None;
        if !args.no_scheduler {
            let (registry, file) = (registry.clone(), ClustersFile::read(&path, pipelines)?);
            let listener = http::bind(serving(args.bind_address, &tls))?;
            scheduler = Some(listener.address()?);
            let (kubeconfig, stop) = (management.kubeconfig(), stop.clone());
            roles.spawn(in_process::supercluster(registry, kubeconfig, file, listener, stop));
        }
        print(&welcome(&management.url(), &folder, &servers, scheduler))?;
        let running = async {
            while let Some(ended) = roles.join_next().await {
                ended.context("a role panicked")??;
            }
            Ok(())
        };
        let outcome = until_interrupted(running, &stop).await;
        management.stop().await;
        for (_, server) in servers {
            server.stop().await;
        }
        outcome
    })
}

async fn start(options: Options, objects: Vec<Object>) -> anyhow::Result<Server> {
    let server = Server::start(options).await.map_err(with_advice)?;
    let loaded = server.with_store(|store, now| manifests::load(store, objects, now))?;
    loaded.warnings.iter().for_each(|warning| complain("warning", warning));
    Ok(server)
}

async fn administrator(server: &Server) -> anyhow::Result<ApiClient> {
    let credentials = Credentials::parse(&server.kubeconfig()).await?;
    let metrics = Metrics::new().rest_client();
    Ok(ApiClient::new(&credentials, "sandbox", metrics, std::sync::Arc::default())?)
}

async fn create(client: &ApiClient, path: &str, object: &Value) -> anyhow::Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(10);
    match client.create(path, object.to_string().into_bytes(), TIMEOUT).await {
        Reply::Answered(response) if response.is_success() => Ok(()),
        Reply::Answered(response) => bail!("{path}: {}", response.error_message()),
        Reply::Rejected(error) | Reply::NotSent(error) | Reply::Lost(error) => {
            bail!("{path}: {error}")
        }
    }
}

async fn add_nodes(server: &Server, member: &str) -> anyhow::Result<()> {
    let client = administrator(server).await?;
    for number in 1..=NODES_OF_MEMBER {
        let name = format!("{member}-node-{number}");
        let room = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": room, "allocatable": room}});
        create(&client, "/api/v1/nodes", &node).await?;
    }
    Ok(())
}

/// Creates the service account of the scheduler, with the permission to use the agent and nothing
/// else. Returns its token.
async fn admit_caller(server: &Server) -> anyhow::Result<String> {
    let (namespace, name) = CALLER;
    let client = administrator(server).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    create(&client, &format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await?;
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"nonResourceURLs": [AGENT_PATHS], "verbs": ["get", "post"]}]});
    create(&client, &format!("/apis/{group}/v1/clusterroles"), &role).await?;
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}]});
    create(&client, &format!("/apis/{group}/v1/clusterrolebindings"), &binding).await?;
    server.token(namespace, name, TOKEN_LIFETIME).context("the service account is gone")
}

/// Writes a certificate for all agents.
fn write_certificate(folder: &Path, address: IpAddr) -> anyhow::Result<KeyPairFiles> {
    let names = vec![address.to_string(), "localhost".to_owned()];
    let pair = rcgen::generate_simple_self_signed(names)?;
    let (certificate, key) = (folder.join("agents.crt"), folder.join("agents.key"));
    secrets::write_config(&certificate, &pair.cert.pem())?;
    secrets::write_config(&key, &pair.signing_key.serialize_pem())?;
    Ok(KeyPairFiles { certificate, key })
}

fn serving(address: IpAddr, files: &KeyPairFiles) -> Serving {
    Serving {
        address: SocketAddr::new(address, 0),
        share_port: false,
        tls: Tls {
            certificate: Certificate::Files(files.clone()),
            named: Vec::new(),
            min_version: TlsVersion::default(),
            cipher_suites: Vec::new(),
            curves: Vec::new(),
        },
        max_streams: Some(STREAMS),
    }
}

/// The next steps. `scheduler` is the address at which the scheduler of this process answers
/// questions.
fn welcome(
    url: &str,
    folder: &Path,
    members: &[(String, Server)],
    scheduler: Option<SocketAddr>,
) -> String {
    let file = |name: &str| -> PathBuf { folder.join(name) };
    let mut text = format!("management {url} {}\n", file("management.kubeconfig").display());
    for (name, server) in members {
        let kubeconfig = file(&format!("{name}.kubeconfig"));
        text.push_str(&format!("{name} {} {}\n", server.url(), kubeconfig.display()));
    }
    let clusters = file("clusters.yaml");
    match scheduler {
        None => text.push_str(&format!(
            "Nothing is scheduled until you run: loadmaster run --clusters {}\n",
            clusters.display()
        )),
        Some(address) => text.push_str(&format!(
            "Pods with schedulerName {} are placed; clusters {}\nQuestions: loadmaster explain pod NAME \
             --server https://{address} --insecure-skip-tls-verify --kubeconfig {}\n",
            scheduler::PROFILE,
            clusters.display(),
            file("management.kubeconfig").display(),
        )),
    }
    text
}
