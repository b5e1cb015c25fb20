//! `make demo-clusters`: a management cluster, three member clusters with agents, and a scheduler
//! over them. One member is cut off and comes back.
//!
//! The API servers run in this process, each agent and the scheduler in a process of its own; they
//! communicate over HTTPS. A member is cut off by stopping its agent with SIGSTOP.

use std::fs::{self, File};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use sandbox::http::{Options, Server};
use sandbox::kubelet;
use sandbox::resources::{NODES, PODS};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::interval;

use crate::folder::Folder;
use crate::process::program;

const MEMBERS: usize = 3;
const NODES_OF_MEMBER: usize = 3;
const CPUS: usize = 4;
/// Annotation with the placement of a pod.
const PLACEMENT: &str = "supercluster.loadmaster.io/placement";

/// What happens, after this number of seconds.
const SCRIPT: [(u64, Deed, &str); 6] = [
    (2, Deed::Create("web", 9), "nine pods are created in the management cluster"),
    (9, Deed::CutOff, "member-2 is cut off: its pods stay, and others go elsewhere"),
    (11, Deed::Create("api", 8), "eight more pods"),
    (19, Deed::Back, "member-2 is back"),
    (21, Deed::Create("job", 6), "six more pods"),
    (28, Deed::DeleteAll, "all pods are deleted: their delegates end first"),
];
const END: u64 = 36;

#[derive(Clone, Copy)]
enum Deed {
    Create(&'static str, usize),
    CutOff,
    Back,
    DeleteAll,
}

struct Member {
    name: String,
    server: Server,
    agent: Child,
    port: u16,
}

/// Runs the demo.
pub(crate) async fn demo() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let file = |name: &str| folder.path().join(name);
    let certificate = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    fs::write(file("agents.crt"), certificate.cert.pem())?;
    fs::write(file("agents.key"), certificate.signing_key.serialize_pem())?;
    let management = Server::start(Options { kubelets: None, ..Options::default() }).await?;
    fs::write(file("management.kubeconfig"), management.kubeconfig())?;
    let mut members = Vec::new();
    for number in 1..=MEMBERS {
        members.push(start_member(&folder, number).await?);
    }
    let clusters = members.iter().map(|member| {
        json!({"name": member.name, "server": format!("https://127.0.0.1:{}", member.port),
            "certificateAuthority": file("agents.crt"),
            "tokenFile": file(&format!("{}.token", member.name))})
    });
    let config = json!({"apiVersion": "supercluster.loadmaster.io/v1alpha1",
        "kind": "SuperclusterConfiguration", "clustersToSampleBp": 10_000,
        "nodesToSampleBp": 10_000,
        "decisionPipeline": {"plugins": [{"name": "ClusterSpread", "weight": 5}]},
        "clusters": clusters.collect::<Value>()});
    fs::write(file("clusters.yaml"), config.to_string())?;
    let mut scheduler = start(
        &folder,
        "scheduler",
        &[
            "run",
            "--secure-port=0",
            "--kubeconfig",
            &file("management.kubeconfig").display().to_string(),
            "--clusters",
            &file("clusters.yaml").display().to_string(),
        ],
    )?;
    println!(
        "{MEMBERS} clusters of {NODES_OF_MEMBER} nodes, {CPUS} CPUs each; every pod asks for one CPU"
    );
    let mut frames = interval(Duration::from_millis(500));
    let began = frames.tick().await;
    let mut script = SCRIPT.iter().peekable();
    let mut shown = String::new();
    loop {
        let elapsed = (frames.tick().await - began).as_secs();
        if let Some(status) = scheduler.try_wait()? {
            let log = fs::read_to_string(file("scheduler.log")).unwrap_or_default();
            bail!("the scheduler has ended ({status}):\n{log}");
        }
        while let Some((_, deed, text)) = script.next_if(|(at, ..)| *at <= elapsed) {
            println!("{elapsed:>3} s  # {text}");
            perform(*deed, &management, &members).await?;
        }
        let line = state(&management, &members);
        if line != shown {
            println!("{elapsed:>3} s  {line}");
            shown = line;
        }
        if elapsed >= END {
            return check(&management, &members);
        }
    }
}

async fn start_member(folder: &Folder, number: usize) -> anyhow::Result<Member> {
    let name = format!("member-{number}");
    let moment = Duration::from_millis(700);
    let kubelets =
        kubelet::Settings { start_delay: moment, stop_delay: moment, ..Default::default() };
    let seed = u64::try_from(number).unwrap_or_default();
    let options = Options { kubelets: Some(kubelets), seed, ..Options::default() };
    let server = Server::start(options).await?;
    for node in 1..=NODES_OF_MEMBER {
        let node = format!("{name}-node-{node}");
        let room = json!({"cpu": CPUS.to_string(), "memory": "16Gi", "pods": "110"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
            "status": {"capacity": room, "allocatable": room}});
        let created = server.with_store(|store, now| store.create(NODES, node, now));
        created.map_err(|status| anyhow!("{status}"))?;
    }
    let kubeconfig = folder.path().join(format!("{name}.kubeconfig"));
    fs::write(&kubeconfig, server.kubeconfig())?;
    // The demo calls agents as the administrator of their cluster.
    let administrator = server.kubeconfig();
    let token = administrator.lines().find_map(|line| line.trim().strip_prefix("token: "));
    let token = token.context("the kubeconfig has no token")?.trim_matches(['"', '\'']);
    fs::write(folder.path().join(format!("{name}.token")), token)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let agent = start(
        folder,
        &name,
        &[
            "agent",
            "--bind-address=127.0.0.1",
            &format!("--secure-port={port}"),
            &format!("--kubeconfig={}", kubeconfig.display()),
            &format!("--tls-cert-file={}", path("agents.crt")),
            &format!("--tls-private-key-file={}", path("agents.key")),
        ],
    )?;
    Ok(Member { name, server, agent, port })
}

fn start(folder: &Folder, name: &str, args: &[&str]) -> anyhow::Result<Child> {
    let program = program()?;
    let log = File::create(folder.path().join(format!("{name}.log")))?;
    Command::new(&program)
        .args(args)
        .arg("--leader-elect=false")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

async fn perform(deed: Deed, management: &Server, members: &[Member]) -> anyhow::Result<()> {
    match deed {
        Deed::Create(prefix, count) => {
            for number in 1..=count {
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
                    "name": format!("{prefix}-{number}"), "namespace": "default",
                    "labels": {"app": prefix}}, "spec": {"schedulerName": "supercluster",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "c", "image": "pause",
                        "resources": {"requests": {"cpu": "1"}}}]}});
                let created = management.with_store(|store, now| store.create(PODS, pod, now));
                created.map_err(|status| anyhow!("{status}"))?;
            }
            Ok(())
        }
        Deed::CutOff => signal(&members[1].agent, "STOP").await,
        Deed::Back => signal(&members[1].agent, "CONT").await,
        Deed::DeleteAll => {
            let path = "/api/v1/namespaces/default/pods";
            let kubeconfig = kube::config::Kubeconfig::from_yaml(&management.kubeconfig())?;
            let options = kube::config::KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
            let client = kube::Client::try_from(config)?;
            let request = http::Request::delete(path).body(kube::client::Body::empty())?;
            client.send(request).await?;
            Ok(())
        }
    }
}

async fn signal(process: &Child, name: &str) -> anyhow::Result<()> {
    let id = process.id().context("an agent has ended")?;
    let args = [format!("-{name}"), id.to_string()];
    let status = Command::new("kill").args(args).status().await?;
    status.success().then_some(()).context("cannot send a signal")
}

/// Returns the pods of each cluster that run, and those that wait.
fn state(management: &Server, members: &[Member]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for member in members {
        let running = pods(&member.server).iter().filter(|pod| is_running(pod)).count();
        let room = NODES_OF_MEMBER * CPUS;
        let bar = format!("{}{}", "#".repeat(running), ".".repeat(room.saturating_sub(running)));
        parts.push(format!("{} {bar}", member.name));
    }
    let originals = pods(management);
    let placed = originals.iter().filter(|pod| is_placed(pod)).count();
    let running = originals.iter().filter(|pod| is_running(pod)).count();
    let waiting = originals.len() - placed;
    format!("{}   originals: {running} Running, {waiting} wait", parts.join("  "))
}

fn pods(server: &Server) -> Vec<Value> {
    server.with_store(|store, _| store.objects(PODS).map(|own| Value::clone(own)).collect())
}

fn is_running(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

fn is_placed(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(PLACEMENT).is_some()
}

/// Checks that nothing is left after the last deed.
fn check(management: &Server, members: &[Member]) -> anyhow::Result<()> {
    let left = members.iter().map(|member| pods(&member.server).len()).sum::<usize>();
    let originals = pods(management).len();
    match left + originals {
        0 => Ok(()),
        _ => bail!("{originals} originals and {left} delegates are left"),
    }
}
