//! Traces: the daemon sends spans over gRPC to a collector of this test.

use std::collections::BTreeMap;
use std::io::Write;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::cluster::{Cluster, run, uid};
use super::daemon::Daemon;
use super::process::free_port;

/// The path of the service of collectors.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Length of the prefix of a message: a flag and the length.
const PREFIX: usize = 5;

/// Time in which a turn of the scheduling loop may lie, in nanoseconds: the loop reads its clock
/// once in a turn.
const SKEW: u64 = 500_000_000;

/// A collector. It decodes each request.
struct Collector {
    endpoint: String,
    spans: mpsc::UnboundedReceiver<Span>,
}

impl Collector {
    async fn start() -> Self {
        let (sender, spans) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let router = Router::new().route(EXPORT, post(take)).with_state(sender);
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { endpoint, spans }
    }

    /// Waits until a trace has its root, and returns its spans by name.
    async fn trace(&mut self) -> BTreeMap<String, Vec<Span>> {
        let mut spans: BTreeMap<String, Vec<Span>> = BTreeMap::new();
        loop {
            let span = self.spans.recv().await.unwrap();
            let is_root = span.parent_span_id.is_empty();
            spans.entry(span.name.clone()).or_default().push(span);
            if is_root {
                return spans;
            }
        }
    }
}

async fn take(
    State(spans): State<mpsc::UnboundedSender<Span>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    assert_eq!(headers[header::CONTENT_TYPE], "application/grpc");
    let request = ExportTraceServiceRequest::decode(&body[PREFIX..]).unwrap();
    for resource in request.resource_spans {
        let service = resource.resource.unwrap().attributes;
        assert_eq!(text(&service, "service.name").as_deref(), Some("loadmaster"));
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            // The test may have ended.
            let _ = spans.send(span);
        }
    }
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from(0))]);
    let frames = [Frame::data(Bytes::from_static(&[0; PREFIX])), Frame::trailers(trailers)];
    let frames = stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
    ([(header::CONTENT_TYPE, "application/grpc")], Body::new(StreamBody::new(frames)))
        .into_response()
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let own = attributes.iter().find(|own| own.key == key)?;
    match own.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

fn configuration(endpoint: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    write!(
        file,
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n\
         endpoint: {endpoint}\nsamplingRatePerMillion: 1000000\n"
    )
    .unwrap();
    file
}

fn flag(file: &NamedTempFile) -> String {
    format!("--tracing-config-file={}", file.path().display())
}

#[test]
fn pod_has_a_trace_from_its_creation_over_each_attempt_to_its_bind() {
    run(async |cluster| {
        let mut collector = Collector::start().await;
        let file = configuration(&collector.endpoint);
        cluster.add_node("small", 1).await;
        let daemon = Daemon::spawn_with(cluster, |_| {}, &[&flag(&file)]).await;
        daemon.ready().await;
        let pod = cluster.create_pod(&cluster.pod("web", 2)).await;
        cluster.rejected("web").await;
        cluster.add_node("large", 2).await;
        let node = cluster.bound("web").await;

        let spans = collector.trace().await;
        let [root] = &*spans["schedule pod"] else { panic!("{spans:?}") };
        let trace = uid(&pod).replace('-', "");
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let attempts = &spans["scheduling attempt"];
        assert!(attempts.len() >= 2, "{attempts:?}");
        let all = spans.values().flatten();
        all.clone().for_each(|span| assert_eq!(hex(&span.trace_id), trace, "{span:?}"));
        for span in attempts.iter().chain(&spans["Bind"]) {
            assert_eq!(span.parent_span_id, root.span_id, "{span:?}");
        }
        let rejections = text(&attempts[0].attributes, "scheduler.rejections").unwrap();
        assert!(rejections.contains("NodeResourcesFit: Insufficient cpu"), "{rejections}");
        let chosen = text(&attempts.last().unwrap().attributes, "k8s.node.name");
        assert_eq!(chosen, Some(node.clone()));
        assert_eq!(text(&root.attributes, "k8s.node.name"), Some(node));
        let first = attempts.iter().map(|span| span.start_time_unix_nano).min().unwrap();
        let last = all.map(|span| span.end_time_unix_nano).max().unwrap();
        assert!(root.start_time_unix_nano <= first + SKEW, "{root:?} {attempts:?}");
        assert!(last <= root.end_time_unix_nano + SKEW, "{root:?} {spans:?}");

        let [event] = cluster.events(&pod, "Scheduled").await.try_into().unwrap();
        let annotations = event.metadata.annotations.unwrap();
        assert_eq!(annotations["loadmaster.io/trace-id"], trace);
    });
}

/// Accepts connections and never answers. Returns the address.
async fn silent_collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut connections = Vec::new();
        loop {
            connections.push(listener.accept().await.unwrap());
        }
    });
    endpoint
}

/// Schedules pods with a collector that takes no spans. Returns the reason in the log.
async fn schedule_without_collector(cluster: &Cluster, endpoint: &str) -> String {
    let file = configuration(endpoint);
    cluster.add_node("a", 20).await;
    let daemon = Daemon::spawn_with(cluster, |_| {}, &[&flag(&file)]).await;
    daemon.ready().await;
    for number in 0..10 {
        let name = format!("web-{number}");
        cluster.create_pod(&cluster.pod(&name, 1)).await;
        cluster.bound(&name).await;
    }
    let line = daemon.log.line("The collector did not take spans, which are lost").await;
    let failed = "loadmaster_trace_spans_total{result=\"failed\"}";
    assert!(daemon.endpoints.metric(failed).await.is_some_and(|spans| spans > 0.0));
    line
}

#[test]
fn absent_collector_holds_up_no_pod_and_its_spans_are_counted() {
    run(async |cluster| {
        // No process listens there.
        let endpoint = format!("127.0.0.1:{}", free_port());
        schedule_without_collector(cluster, &endpoint).await;
    });
}

#[test]
fn silent_collector_holds_up_no_pod_and_its_spans_are_counted() {
    run(async |cluster| {
        let line = schedule_without_collector(cluster, &silent_collector().await).await;
        let reasons = ["no answer within 5 s", "deadline", "Timeout expired"];
        assert!(reasons.iter().any(|reason| line.contains(reason)), "{line}");
    });
}
