//! A scheduler with a plugin that watches a custom kind, against a sandbox that serves the kind.

use std::sync::Arc;

use control::scheduler::Fencing;
use engine::cycle::Form;
use framework::{Level, Registry};
use loadmaster::api_client::Credentials;
use loadmaster::config::{self, Configuration, Gates};
use loadmaster::http::Health;
use loadmaster::metrics::Metrics;
use loadmaster::observer::MetricsObserver;
use loadmaster::runtime::{self, Followed, ServedGroups, Setup};
use loadmaster::scheduling_loop::channel;
use sandbox::http::{Options, Server};
use sandbox::resources::{CUSTOMRESOURCEDEFINITIONS, NODES, PODS};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::wait::eventually;

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: MaintenanceWindow
";

/// Returns a scheduler of the sandbox with the MaintenanceWindow plugin.
pub(super) async fn setup(server: &Server) -> Setup {
    let mut registry = plugins::registry();
    maintenance_window::register(&mut registry).unwrap();
    let config = config::load(CONFIG, &Gates::at(Level::V1_36)).unwrap().config;
    setup_of(config, registry, &server.kubeconfig()).await
}

/// Returns a scheduler with this configuration of the API server of a kubeconfig.
pub(super) async fn setup_of(config: Configuration, registry: Registry, kubeconfig: &str) -> Setup {
    Setup {
        followed: Followed::by_flag(Level::V1_36),
        served_groups: ServedGroups::NotAsked,
        unschedulable_timeout: config.queue().max_in_unschedulable,
        config,
        registry,
        credentials: Credentials::parse(kubeconfig).await.unwrap(),
        request_rate: None,
        adaptive_sampling: false,
        form: Form::Ranked,
        longest_preemption_pause: framework::preemption::LONGEST_PAUSE,
        fencing: Fencing::default(),
        metrics: Arc::new(Metrics::new()),
        server_status: Arc::default(),
        heartbeat: Arc::default(),
        channel: channel(),
        configuration_file: None,
        debug_signal: None,
        recording: None,
        trace_ids: None,
    }
}

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
    "required": ["state"], "properties": {
        "state": {"type": "string", "enum": ["Open", "Closed"]},
        "nodes": {"type": "array", "items": {"type": "string"}},
    }}}});
    json!({
        "metadata": {"name": "maintenancewindows.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "maintenancewindows", "kind": "MaintenanceWindow"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn node() -> Value {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    json!({"metadata": {"name": "a"}, "status": {"capacity": amounts, "allocatable": amounts}})
}

/// Creates the kind, the node, an open window on it, and a pod.
fn prepare(server: &Server) {
    let window = json!({"metadata": {"name": "w"}, "spec": {"state": "Open", "nodes": ["a"]}});
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "pause"}]}});
    server.with_store(|store, now| {
        store.create(CUSTOMRESOURCEDEFINITIONS, definition(), now).unwrap();
        store.create(NODES, node(), now).unwrap();
        let windows = store.resource_of_kind("example.com/v1", "MaintenanceWindow").unwrap();
        store.create(windows, window, now).unwrap();
        store.create(PODS, pod, now).unwrap();
    });
}

fn close_window(server: &Server) {
    server.with_store(|store, now| {
        let windows = store.resource_of_kind("example.com/v1", "MaintenanceWindow").unwrap();
        let close = |window: &mut Value| {
            window["spec"]["state"] = json!("Closed");
            Ok(())
        };
        store.modify(windows, "", "w", now, close).unwrap();
    });
}

fn pod(server: &Server) -> Value {
    server.with_store(|store, _| Value::clone(store.get(PODS, "default", "p").unwrap()))
}

/// Returns the message of the condition with which a pod is unschedulable.
fn rejection(pod: &Value) -> Option<String> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let unscheduled = conditions.iter().find(|one| one["reason"] == "Unschedulable")?;
    unscheduled["message"].as_str().map(str::to_owned)
}

async fn check(server: &Server) {
    let message = eventually("the pod is rejected", async || rejection(&pod(server))).await;
    assert!(message.contains("1 node(s) in maintenance window w"), "{message}");
    close_window(server);
    let node = async || pod(server)["spec"]["nodeName"].as_str().map(str::to_owned);
    assert_eq!(eventually("the pod is bound", node).await, "a");
}

#[tokio::test]
async fn plugin_follows_a_custom_kind_of_the_sandbox() {
    let server = Server::start(Options::default()).await.unwrap();
    prepare(&server);
    let (stop, setup) = (CancellationToken::new(), setup(&server).await);
    let observer = MetricsObserver::new(setup.metrics.clone(), Arc::new(Health::default()));
    tokio::select! {
        outcome = runtime::run_scheduler(setup, observer, &stop) => panic!("{outcome:?}"),
        () = check(&server) => {}
    }
    server.stop().await;
}
