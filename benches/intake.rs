//! The first list of a large cluster, from the connection to the engine:
//! `cargo bench --bench intake [-- json NODES PODS]`.
//!
//! A server in this process streams nodes and placed pods in protobuf, or in JSON if an argument
//! says so, as fast as they are read. Two informers read them over HTTP, and the engine takes them
//! in. The memory is the growth of the resident set of the process: nodes and pods in the engine,
//! what the reflectors remember of them, and the buffers between.

#[expect(dead_code, reason = "this benchmark makes its nodes in JSON")]
mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use engine::Engine;
use framework::protobuf::MEDIA_TYPE;
use framework::{EventResource, ExtraFields};
use futures::stream;
use http::header::CONTENT_TYPE;
use loadmaster::api_client::{ApiClient, Credentials};
use loadmaster::clock::Clock;
use loadmaster::informer::InformerFactory;
use loadmaster::metrics::Metrics;
use loadmaster::scheduling_loop::{LoopEvent, Relists, channel};
use loadmaster::wire::{Decoder, WatchedKind};
use sandbox::protobuf::watch_frame;
use serde_json::{Value, json};

const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// Number of objects in a chunk of the server.
const CHUNK: usize = 64;
const IMAGES: usize = 20;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|own| own != "--bench").collect();
    let accept =
        if arguments.iter().any(|own| own == "json") { "application/json" } else { MEDIA_TYPE };
    let mut numbers = arguments.iter().filter(|own| *own != "json").map(|own| own.parse::<usize>());
    let nodes = numbers.next().transpose().context("NODES")?.unwrap_or(5_000);
    let pods = numbers.next().transpose().context("PODS")?.unwrap_or(50_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(nodes, pods, accept))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
async fn run(nodes: usize, pods: usize, accept: &'static str) -> anyhow::Result<()> {
    let address = serve(nodes, pods).await?;
    let kubeconfig = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [], \
         contexts: [{{name: c, context: {{cluster: c}}}}], current-context: c}}"
    );
    let credentials = Credentials::parse(&kubeconfig).await?;
    let metrics = Arc::new(Metrics::new());
    let client = ApiClient::new(&credentials, "bench", metrics.rest_client(), Arc::default())?;
    let (events, received) = channel();
    let factory = InformerFactory {
        client,
        accept: accept.into(),
        events,
        clock: Clock::start(),
        metrics,
        status: Arc::default(),
        relists: Relists::new(2).subscribe(),
    };
    let mut engine =
        Engine::new(support::config(&support::default_plugins(), &plugins::registry()));
    let (before, started) = (resident_bytes(), Instant::now());
    let watches = [EventResource::Node, EventResource::Pod].map(|resource| {
        let kind = kind(resource);
        let decoder = Decoder::new(kind.resource.clone(), ExtraFields::default());
        tokio::spawn(factory.informer(kind, decoder, 1).run())
    });
    let taking_in = tokio::task::spawn_blocking(move || {
        let (mut peak, mut unsynced) = (0, 2);
        while unsynced > 0 {
            match received.recv_timeout(std::time::Duration::from_secs(60)) {
                Ok(LoopEvent::Updates(updates, _place)) => {
                    for update in updates {
                        support::apply(&mut engine, update.change);
                    }
                }
                Ok(LoopEvent::Synced) => unsynced -= 1,
                Ok(_) => {}
                Err(_) => break,
            }
            peak = peak.max(resident_bytes());
        }
        (engine, peak)
    });
    let (engine, peak) = taking_in.await?;
    let took = started.elapsed();
    let cluster = engine.cluster();
    ensure!(cluster.node_count() == nodes, "{} nodes arrived", cluster.node_count());
    let grown = resident_bytes() - before;
    println!(
        "{nodes} nodes and {pods} pods, {accept}: {:.1} s, {} MiB more, {} at the peak, {} bytes an object",
        took.as_secs_f64(),
        grown >> 20,
        peak.saturating_sub(before) >> 20,
        grown / (nodes + pods).max(1),
    );
    watches.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

fn kind(resource: EventResource) -> WatchedKind {
    let name = if resource == EventResource::Node { "nodes" } else { "pods" };
    let path = format!("/api/v1/{name}").into();
    let name = name.into();
    WatchedKind { resource, name, path, field_selector: None, describes_nodes: false }
}

/// Starts a server whose watches send this many objects and the bookmark behind them, and stay
/// open.
async fn serve(nodes: usize, pods: usize) -> anyhow::Result<std::net::SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let watch = |count: usize, kind: &'static str, object: fn(usize, usize) -> Value| {
        get(async move |headers: http::HeaderMap| {
            let accept = headers.get(http::header::ACCEPT).and_then(|text| text.to_str().ok());
            let is_protobuf = accept.is_some_and(|text| text.contains(MEDIA_TYPE));
            let chunks = stream::unfold(0, move |sent| async move {
                if sent > count {
                    std::future::pending::<()>().await;
                }
                let end = (sent + CHUNK).min(count);
                let mut chunk: Vec<u8> = (sent..end)
                    .flat_map(|number| event("ADDED", &object(number, nodes), is_protobuf))
                    .collect();
                if end == count {
                    chunk.extend(event("BOOKMARK", &bookmark(kind), is_protobuf));
                }
                let next = if end == count { count + 1 } else { end };
                Some((Ok::<_, Infallible>(chunk), next))
            });
            let content_type = if is_protobuf { STREAM } else { "application/json" };
            ([(CONTENT_TYPE, content_type)], Body::from_stream(chunks))
        })
    };
    let router = Router::new()
        .route("/api/v1/nodes", watch(nodes, "Node", node))
        .route("/api/v1/pods", watch(pods, "Pod", pod));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

fn event(type_: &str, object: &Value, is_protobuf: bool) -> Vec<u8> {
    if is_protobuf {
        return watch_frame(type_, object).map(|frame| frame.to_vec()).unwrap_or_default();
    }
    let mut line = json!({"type": type_, "object": object}).to_string().into_bytes();
    line.push(b'\n');
    line
}

fn bookmark(kind: &str) -> Value {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"resourceVersion": "200000000", "annotations": annotations},
    })
}

fn node(number: usize, _: usize) -> Value {
    let name = support::node_name(number);
    let resources =
        json!({"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"});
    let image = |place: usize| {
        let image = (number * 3 + place * 7) % 200;
        json!({
            "names": [
                format!("registry.example.com/app-{image}@sha256:{:064x}", image * 7919),
                format!("registry.example.com/app-{image}:v1"),
            ],
            "sizeBytes": 20_000_000 + image * 3_000_000,
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("{number:08x}-0000-4000-9000-000000000000"),
            "resourceVersion": (100_000_000 + number).to_string(),
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "std-32", "topology.kubernetes.io/region": "eu-1",
                "topology.kubernetes.io/zone": support::zone(number),
                "example.com/pool": format!("pool-{}", number % 7),
                "example.com/rack": format!("rack-{}", number / support::NODES_PER_RACK),
            },
        },
        "status": {
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
        },
    })
}

fn pod(number: usize, nodes: usize) -> Value {
    let app = format!("app-{:04}", number / 100);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-5d9c7b-{:05x}", number % 100), "namespace": format!("team-{}", number / 100 % 50),
            "uid": format!("{number:08x}-0000-4000-8000-000000000000"),
            "resourceVersion": (100_000_000 + number).to_string(), "generation": 1,
            "labels": {"app": app, "pod-template-hash": "5d9c7b"},
        },
        "spec": {
            "nodeName": support::node_name(number % nodes.max(1)), "schedulerName": "default-scheduler",
            "containers": [{
                "name": "main", "image": format!("registry.example.com/{app}:v1"),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            }],
        },
        "status": {
            "phase": "Running", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        },
    })
}

/// Returns the resident set as reported by Linux.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}
