//! Feeds over HTTP, with a server of the test and with Prometheus.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::get;
use engine::Change;
use framework::{EventResource, Feed, HttpFeed, HttpServer, PluginArgs};
use http::StatusCode;
use serde_json::{Value, json};

use super::FeedFactory;
use super::origin::Origin;
use super::poll::Poll;
use crate::api_client::{ApiClient, Credentials, ServerStatus};
use crate::metrics::Metrics;
use crate::scheduling_loop::{LoopEvent, channel};
use crate::wire::WatchedKind;

/// Serves on a free port; returns the address.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A feed that runs, and the objects that it has brought.
struct Running {
    changes: std::sync::mpsc::Receiver<(String, Option<Value>)>,
    objects: BTreeMap<String, Value>,
    status: Arc<ServerStatus>,
    metrics: Arc<Metrics>,
}

impl Running {
    async fn start(feed: HttpFeed) -> Self {
        let (metrics, status) = (Arc::new(Metrics::new()), Arc::<ServerStatus>::default());
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        let credentials = Credentials::parse(&kubeconfig.to_string()).await.unwrap();
        let client =
            ApiClient::new(&credentials, "scheduler", metrics.rest_client(), Arc::default());
        let (events, received) = channel();
        let shared = FeedFactory {
            client: client.unwrap(),
            events,
            metrics: metrics.clone(),
            status: status.clone(),
        };
        let kind = WatchedKind {
            resource: EventResource::Custom(feed.kind.clone()),
            name: "loads.example.com".into(),
            path: "/unused".into(),
            field_selector: None,
            describes_nodes: true,
        };
        let poll = Poll::new(shared, kind, Origin::of(feed), Duration::from_secs(1));
        tokio::spawn(poll.every(Duration::from_millis(20)).run());
        let (sender, changes) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || {
            for event in received.iter() {
                let LoopEvent::Updates(updates, _) = event else { panic!("only updates are sent") };
                for update in updates {
                    let sent = match update.change {
                        Change::Object(object) => {
                            let json = Some((*object.json()).clone());
                            sender.send((object.name().to_string(), json))
                        }
                        Change::ObjectDeleted(key) => sender.send((key.name.to_string(), None)),
                        _ => panic!("an object"),
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            }
        });
        Self { changes, objects: BTreeMap::new(), status, metrics }
    }

    /// Waits until the objects are as `is_met` wants them.
    async fn until(&mut self, is_met: impl Fn(&BTreeMap<String, Value>) -> bool) {
        let waiting = async {
            while !is_met(&self.objects) {
                match self.changes.try_recv() {
                    Ok((name, Some(object))) => drop(self.objects.insert(name, object)),
                    Ok((name, None)) => drop(self.objects.remove(&name)),
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
    }

    async fn until_unread(&self, expected: Option<&str>) {
        let waiting = async {
            loop {
                let reason = self.status.unread().remove("loads.example.com");
                if reason.is_some() == expected.is_some()
                    && reason.unwrap_or_default().contains(expected.unwrap_or_default())
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
    }
}

/// The feed of LowRiskOverCommitment with these arguments.
fn feed(args: Value) -> HttpFeed {
    let made = scheduler_plugins::load::low_risk_over_commitment::plugin(&PluginArgs::new(args));
    match made.unwrap().feeds.remove(0) {
        Feed::Http(feed) => feed,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn load_watcher_is_read_again_and_again() {
    let round = Arc::new(AtomicUsize::new(0));
    let rounds = round.clone();
    let watcher = move || async move {
        let nodes = match rounds.load(Ordering::Relaxed) {
            0 => json!({"a": {"metrics": [{"type": "CPU", "operator": "AVG", "value": 20}]},
                "b": {"metrics": []}}),
            1 => return (StatusCode::INTERNAL_SERVER_ERROR, "no metrics yet").into_response(),
            2 => return "<html>".into_response(),
            _ => json!({"b": {"metrics": []}}),
        };
        json!({"timestamp": 7, "window": {"duration": "15m", "start": 1, "end": 6},
            "data": {"NodeMetricsMap": nodes}})
        .to_string()
        .into_response()
    };
    // The address has a path, and a slash at its end.
    let router = Router::new().route("/behind/a/proxy/watcher", get(watcher));
    let address = format!("{}/behind/a/proxy/", serve(router).await);
    let mut running = Running::start(feed(json!({"watcherAddress": address}))).await;
    running.until(|objects| objects.len() == 2).await;
    assert_eq!(running.objects["a"]["metrics"][0]["value"], 20);
    assert_eq!(running.objects["a"]["timestamp"], "1970-01-01T00:00:06Z");
    round.store(1, Ordering::Relaxed);
    running.until_unread(Some("status 500 Internal Server Error: no metrics yet")).await;
    round.store(2, Ordering::Relaxed);
    running.until_unread(Some("the answer is not that of a load-watcher")).await;
    // A failure leaves the objects as they are.
    assert_eq!(running.objects.len(), 2);
    let metrics = running.metrics.render();
    let unread = "loadmaster_unread_sources{resource=\"loads.example.com\"} 1";
    assert!(metrics.contains(unread), "{metrics}");
    round.store(3, Ordering::Relaxed);
    running.until(|objects| !objects.contains_key("a")).await;
    running.until_unread(None).await;
}

#[tokio::test]
async fn token_is_sent_to_prometheus() {
    let answer = |headers: HeaderMap| async move {
        match headers.get("authorization").and_then(|value| value.to_str().ok()) {
            Some("Bearer secret") => {
                let metric = json!({"metric": {"instance": "n"}, "value": [1, "0.5"]});
                let data = json!({"resultType": "vector", "result": [metric]});
                json!({"status": "success", "data": data}).to_string().into_response()
            }
            _ => StatusCode::UNAUTHORIZED.into_response(),
        }
    };
    let address = serve(Router::new().route("/api/v1/query", get(answer))).await;
    let provider = |token: &str| {
        feed(json!({"metricProvider": {"type": "Prometheus", "address": address, "token": token}}))
    };
    let mut running = Running::start(provider("secret")).await;
    running.until(|objects| objects.contains_key("n")).await;
    let running = Running::start(provider("wrong")).await;
    running.until_unread(Some("status 401 Unauthorized")).await;
}

#[tokio::test]
async fn dead_server_and_invalid_token_are_reasons() {
    let server = HttpServer {
        address: "http://127.0.0.1:1".to_owned(),
        token: None,
        accepts_any_certificate: false,
    };
    let feed = |server: HttpServer| HttpFeed {
        kind: "loads.v1.example.com".into(),
        interval: Duration::from_secs(30),
        server,
        paths: vec!["/x".to_owned()],
        read: Arc::new(|_| Ok(Vec::new())),
    };
    let running = Running::start(feed(server.clone())).await;
    running.until_unread(Some("GET http://127.0.0.1:1/x: ")).await;
    let token = Some("two\nlines".to_owned());
    let running = Running::start(feed(HttpServer { token, ..server })).await;
    running.until_unread(Some("the token cannot be sent")).await;
}

/// Prometheus of the Debian package, which is stopped at the end.
struct Prometheus {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It has ended, or does so now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts Prometheus, which scrapes a target every second. Returns `None` if it is not
    /// installed.
    fn start(target: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({"global": {"scrape_interval": "1s"}, "scrape_configs": [{
            "job_name": "node", "honor_labels": true,
            "static_configs": [{"targets": [target.trim_start_matches("http://")]}],
        }]});
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config.to_string()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("127.0.0.1:{port}");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={listen}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(_) => {
                eprintln!(
                    "skipped: Prometheus is not installed (Debian: apt-get install prometheus)"
                );
                return None;
            }
        };
        Some(Self { child, address: format!("http://{listen}"), _folder: folder })
    }
}

#[tokio::test]
async fn prometheus_has_mean_and_deviation_of_each_node() {
    let scrape = Arc::new(AtomicUsize::new(0));
    let exposed = move || async move {
        // The CPU of `a` changes between 0.2 and 0.4.
        let cpu = if scrape.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { 0.2 } else { 0.4 };
        format!(
            "instance:node_cpu:ratio{{instance=\"a\"}} {cpu}\n\
             instance:node_cpu:ratio{{instance=\"b\"}} 0.75\n\
             instance:node_memory_utilisation:ratio{{instance=\"a\"}} 0.5\n"
        )
    };
    let target = serve(Router::new().route("/metrics", get(exposed))).await;
    let Some(prometheus) = Prometheus::start(&target) else { return };
    let provider = json!({"type": "Prometheus", "address": prometheus.address});
    let mut running = Running::start(feed(json!({"metricProvider": provider}))).await;
    let number = |objects: &BTreeMap<String, Value>, node: &str, place: usize| {
        let metrics = objects.get(node)?["metrics"].as_array()?;
        metrics.get(place)?["value"].as_f64()
    };
    // Once there are several samples, the CPU has a deviation.
    running.until(|objects| number(objects, "a", 2).is_some_and(|own| own > 5.0)).await;
    let metrics = |node: &str| {
        let rows = running.objects[node]["metrics"].as_array().unwrap();
        let of = |row: &Value| {
            let text = |field: &str| row[field].as_str().unwrap().to_owned();
            (text("type"), text("operator"))
        };
        rows.iter().map(of).collect::<Vec<_>>()
    };
    let named = |kind: &str, operator: &str| (kind.to_owned(), operator.to_owned());
    let (average, deviation) = ("AVG", "STD");
    let a = [("CPU", average), ("Memory", average), ("CPU", deviation), ("Memory", deviation)];
    assert_eq!(metrics("a"), a.map(|(kind, operator)| named(kind, operator)));
    assert_eq!(metrics("b"), [named("CPU", average), named("CPU", deviation)]);
    let mean = number(&running.objects, "a", 0).unwrap();
    assert!((20.0..=40.0).contains(&mean), "{mean}");
    assert_eq!(number(&running.objects, "b", 0), Some(75.0));
    assert_eq!(number(&running.objects, "b", 1), Some(0.0));
}
