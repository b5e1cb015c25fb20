//! Where the load is measured: `metrics.k8s.io`, a load-watcher, or Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::{Feed, HttpFeed, HttpServer, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use twox_hash::XxHash64;

/// The kind of `metrics.k8s.io`, as `<plural>.<version>.<group>`.
pub(super) const METRICS_K8S_IO: &str = "nodes.v1beta1.metrics.k8s.io";

/// The time between two reads of the measurements.
const INTERVAL: Duration = Duration::from_secs(30);

/// The queries of Prometheus: average and deviation of both resources over the window of a
/// load-watcher, and when the last of them was measured.
const QUERIES: [(Operator, Resource, &str); 4] = [
    (Operator::Average, Resource::Cpu, "avg_over_time(instance:node_cpu:ratio[15m])"),
    (
        Operator::Average,
        Resource::Memory,
        "avg_over_time(instance:node_memory_utilisation:ratio[15m])",
    ),
    (Operator::Deviation, Resource::Cpu, "stddev_over_time(instance:node_cpu:ratio[15m])"),
    (
        Operator::Deviation,
        Resource::Memory,
        "stddev_over_time(instance:node_memory_utilisation:ratio[15m])",
    ),
];
const LAST: &str = "max by (instance) (timestamp(instance:node_cpu:ratio) \
                    or timestamp(instance:node_memory_utilisation:ratio))";

/// A source of measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// `metrics.k8s.io` of the API server.
    MetricsServer,
    /// A load-watcher.
    LoadWatcher(HttpServer),
    /// Prometheus.
    Prometheus(HttpServer),
}

/// A resource that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Cpu,
    Memory,
}

/// What a measured number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Average,
    Deviation,
    Latest,
    /// A load-watcher that names no operator.
    Unnamed,
}

impl Source {
    /// Returns the kind under which the measurements are kept. Equal addresses have equal kinds;
    /// the token does not count, because a recording does not have it.
    pub(super) fn kind(&self) -> Arc<str> {
        let (name, server) = match self {
            Self::MetricsServer => return METRICS_K8S_IO.into(),
            Self::LoadWatcher(server) => ("load-watcher", server),
            Self::Prometheus(server) => ("prometheus", server),
        };
        let hash = XxHash64::oneshot(0, server.address.as_bytes());
        format!("nodes.v1.{name}-{:08x}", hash as u32).into()
    }

    /// Returns the feed that brings the measurements.
    pub(super) fn feed(&self) -> Feed {
        let (kind, interval) = (self.kind(), INTERVAL);
        match self {
            Self::MetricsServer => Feed::Poll { kind, interval },
            Self::LoadWatcher(server) => Feed::Http(HttpFeed {
                kind,
                interval,
                server: server.clone(),
                paths: vec!["/watcher".to_owned()],
                read: Arc::new(|bodies| match bodies {
                    [body] => load_watcher(body),
                    _ => Err("expected one answer".to_owned()),
                }),
            }),
            Self::Prometheus(server) => {
                let queries = QUERIES.iter().map(|(_, _, query)| *query).chain([LAST]);
                Feed::Http(HttpFeed {
                    kind,
                    interval,
                    server: server.clone(),
                    paths: queries.map(query_path).collect(),
                    read: Arc::new(prometheus),
                })
            }
        }
    }
}

/// Returns the path of an instant query.
fn query_path(query: &str) -> String {
    let encoded = query.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    format!("/api/v1/query?query={}", encoded.collect::<String>())
}

/// The answer of a load-watcher.
#[derive(Debug, Deserialize)]
struct WatcherMetrics {
    #[serde(default)]
    timestamp: i64,
    #[serde(default)]
    window: Window,
    #[serde(default)]
    data: Data,
}

#[derive(Debug, Default, Deserialize)]
struct Window {
    #[serde(default)]
    end: i64,
}

#[derive(Debug, Default, Deserialize)]
struct Data {
    #[serde(default, rename = "NodeMetricsMap")]
    nodes: Option<BTreeMap<String, WatchedNode>>,
}

#[derive(Debug, Deserialize)]
struct WatchedNode {
    #[serde(default)]
    metrics: Option<Value>,
}

/// Reads the measurements of a load-watcher. The window ends when they were taken.
fn load_watcher(body: &[u8]) -> Result<Vec<Value>, String> {
    let answer: WatcherMetrics = serde_json::from_slice(body)
        .map_err(|error| format!("the answer is not that of a load-watcher: {error}"))?;
    let seconds = if answer.window.end > 0 { answer.window.end } else { answer.timestamp };
    let taken = Time::from_secs(seconds);
    let nodes = answer.data.nodes.unwrap_or_default().into_iter();
    let nodes = nodes.map(|(name, own)| object(&name, taken, own.metrics.unwrap_or(json!([]))));
    Ok(nodes.collect())
}

fn object(node: &str, taken: Time, metrics: Value) -> Value {
    json!({"metadata": {"name": node}, "timestamp": taken.to_string(), "metrics": metrics})
}

/// The answer of Prometheus to an instant query.
#[derive(Debug, Deserialize)]
struct QueryAnswer {
    data: Option<QueryData>,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryData {
    result_type: String,
    result: Vec<Sample>,
}

#[derive(Debug, Deserialize)]
struct Sample {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    /// The time of the query, and the number as text.
    value: (f64, String),
}

/// Reads the numbers of one query, by the label `instance`, which is the name of the node.
fn vector(body: &[u8]) -> Result<BTreeMap<String, f64>, String> {
    let answer: QueryAnswer = serde_json::from_slice(body)
        .map_err(|error| format!("the answer is not that of Prometheus: {error}"))?;
    let data = answer.data.ok_or_else(|| answer.error.unwrap_or_else(|| "no data".to_owned()))?;
    if data.result_type != "vector" {
        return Err(format!("the answer of Prometheus is no vector, but {:?}", data.result_type));
    }
    let numbers = data.result.into_iter().filter_map(|mut sample| {
        let (_, text) = sample.value;
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
        Some((sample.metric.remove("instance")?, number))
    });
    Ok(numbers.collect())
}

/// Reads the measurements of Prometheus from the answers to the queries. A node of which no sample
/// is recent has none.
fn prometheus(bodies: &[&[u8]]) -> Result<Vec<Value>, String> {
    let vectors: Vec<_> = bodies.iter().map(|body| vector(body)).collect::<Result<_, _>>()?;
    let Some((last, measured)) = vectors.split_last() else {
        return Err("expected answers".to_owned());
    };
    let of_node = |name: &str, taken: f64| {
        let metrics =
            QUERIES.iter().zip(measured).filter_map(|((operator, resource, _), numbers)| {
                let percent = numbers.get(name)? * 100.0;
                let (kind, operator) = (resource.watcher_name(), operator.watcher_name());
                Some(json!({"type": kind, "operator": operator, "value": percent}))
            });
        object(name, Time::from_nanos((taken * 1e9) as i64), metrics.collect())
    };
    Ok(last.iter().map(|(name, taken)| of_node(name, *taken)).collect())
}

impl Resource {
    /// Returns the name in answers of a load-watcher.
    const fn watcher_name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Memory => "Memory",
        }
    }

    /// Returns the resource of this name in answers of a load-watcher, which has others too.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Cpu, Self::Memory].into_iter().find(|own| own.watcher_name() == name)
    }
}

impl Operator {
    /// Returns the name in answers of a load-watcher.
    const fn watcher_name(self) -> &'static str {
        match self {
            Self::Average => "AVG",
            Self::Deviation => "STD",
            Self::Latest => "Latest",
            Self::Unnamed => "",
        }
    }

    /// Returns the operator of this name in answers of a load-watcher.
    pub(super) fn named(name: &str) -> Option<Self> {
        let all = [Self::Average, Self::Deviation, Self::Latest, Self::Unnamed];
        all.into_iter().find(|own| own.watcher_name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(address: &str) -> HttpServer {
        HttpServer { address: address.to_owned(), token: None, accepts_any_certificate: false }
    }

    #[test]
    fn equal_addresses_have_equal_kinds() {
        let a = Source::Prometheus(server("http://a"));
        assert_eq!(a.kind(), a.clone().kind());
        assert_ne!(a.kind(), Source::Prometheus(server("http://b")).kind());
        let with_token = HttpServer { token: Some("t".to_owned()), ..server("http://a") };
        assert_eq!(a.kind(), Source::Prometheus(with_token).kind());
        let watcher = Source::LoadWatcher(server("http://a")).kind();
        assert!(watcher.starts_with("nodes.v1.load-watcher-"), "{watcher}");
    }

    #[test]
    fn answer_of_a_load_watcher_has_the_metrics_of_each_node() {
        let metrics = json!([{"name": "", "type": "CPU", "operator": "AVG", "value": 12.5}]);
        let answer = json!({"timestamp": 5, "window": {"duration": "15m", "start": 1, "end": 4},
            "source": "Prometheus", "data": {"NodeMetricsMap": {
                "n": {"metrics": metrics, "tags": {}, "metadata": {}}, "new": {}}}});
        let read = |answer: &Value| load_watcher(answer.to_string().as_bytes()).unwrap();
        let taken = "1970-01-01T00:00:04Z";
        let expected = [("n", metrics), ("new", json!([]))].map(|(name, metrics)| {
            json!({"metadata": {"name": name}, "timestamp": taken, "metrics": metrics})
        });
        assert_eq!(read(&answer), expected);
        let none: [Value; 0] = [];
        assert_eq!(read(&json!({"timestamp": 5, "data": {"NodeMetricsMap": null}})), none);
        assert!(load_watcher(b"no JSON").unwrap_err().contains("not that of a load-watcher"));
    }

    #[test]
    fn answers_of_prometheus_are_joined_by_instance() {
        let answer = |rows: &[(&str, &str)]| {
            let rows = rows.iter().map(|(instance, value)| {
                json!({"metric": {"instance": instance, "job": "node"}, "value": [7.5, value]})
            });
            let data = json!({"resultType": "vector", "result": rows.collect::<Vec<_>>()});
            json!({"status": "success", "data": data}).to_string()
        };
        let answers = [
            answer(&[("a", "0.25"), ("b", "0.5"), ("old", "1")]),
            answer(&[("a", "NaN")]),
            answer(&[("a", "0.125")]),
            answer(&[]),
            answer(&[("a", "7"), ("b", "6.5")]),
        ];
        let bodies: Vec<&[u8]> = answers.iter().map(|own| own.as_bytes()).collect();
        let metric =
            |operator, value: f64| json!({"type": "CPU", "operator": operator, "value": value});
        let node = |name, taken, metrics: &[Value]| json!({"metadata": {"name": name}, "timestamp": taken, "metrics": metrics});
        let expected = [
            node("a", "1970-01-01T00:00:07Z", &[metric("AVG", 25.0), metric("STD", 12.5)]),
            node("b", "1970-01-01T00:00:06.5Z", &[metric("AVG", 50.0)]),
        ];
        let read = prometheus(&bodies).unwrap();
        assert_eq!(read.len(), 2);
        for (read, expected) in read.iter().zip(&expected) {
            assert_eq!(read["metrics"], expected["metrics"]);
            let time = |object: &Value| {
                Time::parse_rfc3339(object["timestamp"].as_str().unwrap()).unwrap()
            };
            assert_eq!(time(read), time(expected));
        }
        let error = |body: &str| prometheus(&[body.as_bytes()]).unwrap_err();
        assert!(error("<html>").contains("not that of Prometheus"));
        assert_eq!(error(r#"{"status": "error", "error": "out of memory"}"#), "out of memory");
        let matrix = r#"{"data": {"resultType": "matrix", "result": []}}"#;
        assert!(error(matrix).contains("no vector, but \"matrix\""));
    }

    #[test]
    fn queries_are_encoded() {
        let path = query_path("avg_over_time(instance:node_cpu:ratio[15m])");
        let expected =
            "/api/v1/query?query=avg_over_time%28instance%3Anode_cpu%3Aratio%5B15m%5D%29";
        assert_eq!(path, expected);
    }
}
