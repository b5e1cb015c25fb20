//! A scheduler with plugins of scheduler-plugins, some of whose sources are missing.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::routing::get;
use framework::Level;
use loadmaster::config::{self, Gates};
use loadmaster::http::Health;
use loadmaster::metrics::Metrics;
use loadmaster::observer::MetricsObserver;
use loadmaster::runtime;
use sandbox::http::{Options, Server};
use sandbox::resources::{NODES, PODS};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::custom_resources::setup_of;
use super::wait::eventually;

/// A load-watcher that has measured the node `hot` at 90 percent of its CPU, and `cold` at 10.
#[expect(clippy::disallowed_methods, reason = "measurements have times of the wall clock")]
async fn load_watcher() -> String {
    let answer = || async {
        let metrics = |cpu: i64| {
            let rows = [("CPU", cpu), ("Memory", 10)]
                .map(|(kind, value)| json!({"type": kind, "operator": "AVG", "value": value}));
            json!({"metrics": rows})
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        json!({"timestamp": now, "window": {"duration": "15m", "start": now - 900, "end": now},
            "data": {"NodeMetricsMap": {"hot": metrics(90), "cold": metrics(10)}}})
        .to_string()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/watcher", get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn node(name: &str) -> Value {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    json!({"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}})
}

/// Creates pods that each take a quarter of a node, and returns their nodes.
async fn placed(server: &Server, prefix: &str) -> Vec<String> {
    let mut nodes = Vec::new();
    for number in 0..2 {
        let name = format!("{prefix}-{number}");
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [
            {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]}});
        server.with_store(|store, now| drop(store.create(PODS, pod, now).unwrap()));
        let node = async || {
            server.with_store(|store, _| {
                let pod = Value::clone(store.get(PODS, "default", &name).unwrap());
                pod["spec"]["nodeName"].as_str().map(str::to_owned)
            })
        };
        nodes.push(eventually("the pod is bound", node).await);
    }
    nodes
}

async fn read(metrics: &Arc<Metrics>) {
    let is_read = async || {
        let text = metrics.render();
        text.contains("loadmaster_feed_last_read_timestamp_seconds{resource=\"nodes.load-watcher-")
            .then_some(())
    };
    eventually("the load-watcher is read", is_read).await;
}

/// The hot node takes no pod once it is measured. The CustomResourceDefinition of the reports and
/// `metrics.k8s.io` are missing, which holds up no pod.
#[tokio::test]
async fn measured_load_decides_and_missing_sources_hold_up_no_pod() {
    let server = Server::start(Options::default()).await.unwrap();
    server.with_store(|store, now| {
        for name in ["hot", "cold"] {
            store.create(NODES, node(name), now).unwrap();
        }
    });
    let address = load_watcher().await;
    let config = format!(
        "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{{name: NodeResourceTopologyMatch}}, {{name: TargetLoadPacking}}, {{name: LoadAwareScheduling}}]
  pluginConfig:
  - {{name: LoadAwareScheduling, args: {{watcherAddress: '{address}'}}}}
"
    );
    let mut registry = plugins::registry();
    scheduler_plugins::add_to(&mut registry);
    let config = config::load(&config, &Gates::at(Level::V1_36)).unwrap().config;
    let setup = setup_of(config, registry, &server.kubeconfig()).await;
    let (status, metrics) = (setup.server_status.clone(), setup.metrics.clone());
    let check = async {
        read(&metrics).await;
        assert_eq!(placed(&server, "p").await, ["cold", "cold"]);
        let unread = async || (status.unread().len() == 2).then(|| status.unread());
        let unread = eventually("missing sources are reported", unread).await;
        let names: Vec<&str> = unread.keys().map(|name| &**name).collect();
        let expected = ["noderesourcetopologies.topology.node.k8s.io", "nodes.metrics.k8s.io"];
        assert_eq!(names, expected);
        assert_eq!(status.check(), Ok(()));
    };
    let stop = CancellationToken::new();
    let observer = MetricsObserver::new(metrics.clone(), Arc::new(Health::default()));
    tokio::select! {
        outcome = runtime::run_scheduler(setup, observer, &stop) => panic!("{outcome:?}"),
        () = check => {}
    }
    server.stop().await;
}
