//! Comparison of every metric with the reference: name, type, stability, labels, buckets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::{Count, Probe, Span};
use framework::{
    ActionType, ClusterEvent, Code, Counter, CounterVec, EventResource, ExtensionPoint, GaugeVec,
    HistogramVec, PluginName,
};

use super::*;

/// Bucket sets of the reference; `…` stands for omitted bounds.
const A: &str = "0.001 0.002 0.004 0.008 0.016 … 16.384";
const B: &str = "0.0001 0.0002 0.0004 … 0.2048";
const C: &str = "1e-05 1.5000000000000002e-05 2.2500000000000005e-05 … 0.02216837820053101";
const D: &str = "0.01 0.02 0.04 … 5242.88";
const REQUEST: &str = "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60";
const BODY: &str =
    "64 256 512 1024 4096 16384 65536 262144 1.048576e+06 4.194304e+06 1.6777216e+07";

/// Name, type, stability, labels by name, and buckets.
const REFERENCE: &str = "
scheduler_schedule_attempts_total|counter|STABLE|profile result|
scheduler_scheduling_attempt_duration_seconds|histogram|STABLE|profile result|A
scheduler_scheduling_algorithm_duration_seconds|histogram|ALPHA||A
scheduler_event_handling_duration_seconds|histogram|ALPHA|event|B
scheduler_pending_pods|gauge|STABLE|queue|
scheduler_pod_scheduling_sli_duration_seconds|histogram|BETA|attempts|D
scheduler_pod_scheduling_attempts|histogram|STABLE||1 2 4 8 16
scheduler_pod_scheduled_after_flush_total|counter|ALPHA||
scheduler_framework_extension_point_duration_seconds|histogram|STABLE\
    |extension_point profile status|B
scheduler_plugin_execution_duration_seconds|histogram|ALPHA|extension_point plugin status|C
scheduler_queue_incoming_pods_total|counter|STABLE|event queue|
scheduler_goroutines|gauge|BETA|operation|
scheduler_permit_wait_duration_seconds|histogram|BETA|result|A
scheduler_preemption_attempts_total|counter|STABLE||
scheduler_preemption_victims|histogram|STABLE||1 2 4 8 16 32 64
scheduler_cache_size|gauge|ALPHA|type|
scheduler_unschedulable_pods|gauge|BETA|plugin profile|
scheduler_plugin_evaluation_total|counter|BETA|extension_point plugin profile|
scheduler_queueing_hint_execution_duration_seconds|histogram|ALPHA|event hint plugin|C
scheduler_inflight_events|gauge|ALPHA|event|
rest_client_requests_total|counter|ALPHA|code host method|
rest_client_request_duration_seconds|histogram|ALPHA|host verb|REQUEST
rest_client_rate_limiter_duration_seconds|histogram|ALPHA|host verb|REQUEST
rest_client_request_size_bytes|histogram|ALPHA|host verb|BODY
rest_client_response_size_bytes|histogram|ALPHA|host verb|BODY
rest_client_request_retries_total|counter|ALPHA|code host verb|
leader_election_master_status|gauge|ALPHA|name|
leader_election_slowpath_total|counter|ALPHA|name|
kubernetes_build_info|gauge|BETA\
    |build_date compiler git_commit git_tree_state git_version go_version major minor platform|
version_info|gauge|ALPHA|binary component emulation min_compat|
kubernetes_feature_enabled|gauge|BETA|name stage|
registered_metrics_total|counter|BETA|deprecated_version stability_level|
hidden_metrics_total|counter|BETA||
disabled_metrics_total|counter|BETA||
scheduler_volume_scheduling_stage_error_total|counter|ALPHA|operation|
loadmaster_plugin_panics_total|counter|ALPHA|plugin|
loadmaster_preemption_pauses_total|counter|ALPHA|paused|
loadmaster_undecodable_objects_total|counter|ALPHA|resource|
loadmaster_events_dropped_total|counter|ALPHA||
";

/// Returns metrics with at least one sample in every family.
fn with_samples() -> Arc<Metrics> {
    let metrics = Arc::new(Metrics::new());
    let mut probe = EngineProbe::new(metrics.clone());
    let plugin: PluginName = "P".into();
    let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    let spans = [
        Span::Attempt("a"),
        Span::Point(ExtensionPoint::Filter, "a"),
        Span::Plugin(ExtensionPoint::Filter, &plugin),
        Span::Hint(&plugin, &event),
        Span::Event(&event),
    ];
    // Single plugins are timed in every tenth attempt.
    for _ in 0..10 {
        spans.into_iter().for_each(|span| probe.start(span));
        spans.into_iter().rev().for_each(|span| probe.stop(span, Code::Success));
    }
    let volumes: PluginName = "VolumeBinding".into();
    let reserve = Span::Plugin(ExtensionPoint::Reserve, &volumes);
    probe.start(reserve);
    probe.stop(reserve, Code::Error);
    probe.count(Count::Incoming { queue: "active", event: "NodeAdd" });
    probe.count(Count::Attempt { result: "scheduled", profile: "a" });
    probe.count(Count::Scheduled {
        profile: "a",
        attempts: 2,
        took: Duration::from_millis(3),
        since_first_active: Duration::from_secs(3),
        after_flush: false,
    });
    probe.count(Count::PermitWait { code: Code::Success, waited: Duration::from_secs(1) });
    probe.count(Count::Panic { plugin: &plugin });
    probe.count(Count::Victims(2));
    probe.count(Count::PreemptionPaused("pod"));
    metrics.set_cache_size(CacheSize::default());
    metrics.set_bindings(3);
    metrics.set_inflight_events([("NodeAdd", 2)]);
    metrics.set_unschedulable([("P", "a", 4)]);
    metrics.set_features(&Gates::default());
    metrics.set_leader_election(true, 3);
    metrics.undecodable("pods");
    let client = metrics.rest_client();
    client.requested("GET", "h:1", Some(200));
    client.requested("GET", "h:1", None);
    client.took("GET", "h:1", Duration::from_millis(3), 0, 512);
    client.waited("GET", "h:1", Duration::ZERO);
    client.retried("POST", "h:1", Some(429));
    metrics
}

/// Returns the samples of a family, each as labels between braces and value.
fn samples<'a>(text: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let lines = lines.filter(|rest| rest.starts_with(['{', ' ']));
    lines.filter_map(|rest| rest.rsplit_once(' ')).collect()
}

/// Returns the label names of a sample, without the bound of a bucket.
fn label_names(labels: &str) -> BTreeSet<&str> {
    let pairs = labels.trim_matches(['{', '}']).split("\",").filter(|pair| !pair.is_empty());
    let names = pairs.filter_map(|pair| Some(pair.split_once('=')?.0));
    names.filter(|name| *name != "le").collect()
}

/// Returns whether the bounds are the expected ones; `…` skips bounds.
fn bounds_match(bounds: &[&str], expected: &str) -> bool {
    let expected: Vec<_> = expected.split(' ').collect();
    match expected.iter().position(|bound| *bound == "…") {
        None => bounds == expected,
        Some(gap) => bounds.starts_with(&expected[..gap]) && bounds.ends_with(&expected[gap + 1..]),
    }
}

#[test]
fn leader_election_follows_the_elector() {
    let metrics = Metrics::new();
    let samples_of = |name| {
        let text = metrics.render();
        let samples = samples(&text, name).into_iter();
        samples.map(|(labels, value)| format!("{labels} {value}")).collect::<Vec<_>>()
    };
    assert_eq!(samples_of("leader_election_master_status"), Vec::<String>::new());
    for (is_leader, slowpath_total, status) in [(false, 0, 0), (true, 2, 1), (true, 5, 1)] {
        metrics.set_leader_election(is_leader, slowpath_total);
        let sample = |value: u64| vec![format!("{{name=\"kube-scheduler\"}} {value}")];
        assert_eq!(samples_of("leader_election_master_status"), sample(status));
        assert_eq!(samples_of("leader_election_slowpath_total"), sample(slowpath_total));
    }
}

#[test]
fn every_metric_has_the_name_type_labels_and_buckets_of_the_reference() {
    let text = with_samples().render();
    for row in REFERENCE.trim().lines() {
        let columns: Vec<_> = row.split('|').collect();
        let [name, kind, stability, labels, buckets] = columns[..] else { panic!("{row}") };
        assert!(text.contains(&format!("# HELP {name} [{stability}] ")), "{row}");
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{row}");
        let sampled = if kind == "histogram" { format!("{name}_count") } else { name.to_owned() };
        let sampled = samples(&text, &sampled);
        assert!(!sampled.is_empty(), "{row}");
        let names: BTreeSet<_> = labels.split_whitespace().collect();
        for (labels, _) in sampled {
            assert_eq!(label_names(labels), names, "{row}");
        }
        let buckets = match buckets {
            "A" => A,
            "B" => B,
            "C" => C,
            "D" => D,
            "REQUEST" => REQUEST,
            "BODY" => BODY,
            "" => continue,
            bounds => bounds,
        };
        let series = samples(&text, &format!("{name}_bucket"));
        let bounds = series.iter().filter_map(|(labels, _)| labels.rsplit_once("le=\""));
        let mut bounds: Vec<_> = bounds.map(|(_, bound)| bound.trim_end_matches("\"}")).collect();
        let one_series = bounds.iter().position(|bound| *bound == "+Inf").unwrap();
        bounds.truncate(one_series);
        assert!(bounds_match(&bounds, buckets), "{name}: {bounds:?}");
    }
}

#[test]
fn every_exported_metric_is_in_the_reference() {
    let text = with_samples().render();
    let known: BTreeSet<_> =
        REFERENCE.trim().lines().filter_map(|row| row.split('|').next()).collect();
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for name in names {
        assert!(known.contains(name) || name.starts_with("process_"), "{name}");
    }
}

#[test]
fn families_are_sorted_and_unique() {
    let text = with_samples().render();
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(names.is_sorted());
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
}

#[test]
fn gauges_have_the_last_set_size() {
    let metrics = Metrics::new();
    metrics.set_pending(Pending { active: 1, backoff: 2, unschedulable: 3, gated: 4 });
    metrics.set_unschedulable([("P", "a", 4), ("Q", "a", 1)]);
    metrics.set_unschedulable([("Q", "a", 2)]);
    let text = metrics.render();
    let pending = [("active", 1), ("backoff", 2), ("unschedulable", 3), ("gated", 4)];
    for (queue, pods) in pending {
        assert!(text.contains(&format!("scheduler_pending_pods{{queue=\"{queue}\"}} {pods}\n")));
    }
    let rejected = samples(&text, "scheduler_unschedulable_pods");
    assert_eq!(rejected, [(r#"{plugin="Q",profile="a"}"#, "2")]);
}

#[test]
fn plugin_metrics_are_exported_by_profile_unless_the_name_is_taken() {
    let metrics = Metrics::new();
    let given = |profile: &str, name: &str| {
        let counter = Counter::new(name, "Help.");
        counter.add(7);
        (profile.to_owned(), Metric::from(&counter))
    };
    let refused = metrics.set_plugin_metrics([
        given("a", "gpu_rejections_total"),
        given("b", "gpu_rejections_total"),
        given("b", "gpu_rejections_total"),
        given("a", "scheduler_pending_pods"),
        given("a", "no name"),
    ]);
    let taken = |name: &str| ExportError::NameTaken(name.into());
    let invalid = ExportError::InvalidName("no name".into());
    let expected = [taken("gpu_rejections_total"), taken("scheduler_pending_pods"), invalid];
    assert_eq!(refused, expected);
    let text = metrics.render();
    let exported = samples(&text, "gpu_rejections_total");
    assert_eq!(exported, [(r#"{profile="a"}"#, "7"), (r#"{profile="b"}"#, "7")]);
}

#[test]
fn labels_and_buckets_of_plugin_metrics_are_exported() {
    let metrics = Metrics::new();
    let load = GaugeVec::new("load_percent", "Help.", &["zone", "node"]);
    load.with_label_values(&["z", "n"]).set(40);
    let ages = HistogramVec::new("age_seconds", "Help.", &["node"], &[1.0, 60.0]);
    ages.with_label_values(&["n"]).observe(30.0);
    let idle = CounterVec::new("idle_total", "Help.", &["node"]);
    let own = [Metric::from(&load), Metric::from(&ages), Metric::from(&idle)];
    assert_eq!(metrics.set_plugin_metrics(own.map(|own| ("a".to_owned(), own))), []);
    let text = metrics.render();
    let exported = samples(&text, "load_percent");
    assert_eq!(exported, [(r#"{node="n",profile="a",zone="z"}"#, "40")]);
    let expected = r#"# TYPE age_seconds histogram
age_seconds_bucket{node="n",profile="a",le="1"} 0
age_seconds_bucket{node="n",profile="a",le="60"} 1
age_seconds_bucket{node="n",profile="a",le="+Inf"} 1
age_seconds_sum{node="n",profile="a"} 30
age_seconds_count{node="n",profile="a"} 1
"#;
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("idle_total"));
}

#[test]
fn plugin_metrics_with_invalid_or_conflicting_labels_are_rejected() {
    let given = |profile: &str, labels: &[&str]| {
        (profile.to_owned(), Metric::from(&CounterVec::new("m_total", "Help.", labels)))
    };
    let refused = Metrics::new().set_plugin_metrics([
        given("a", &["profile"]),
        given("a", &["le"]),
        given("a", &["node", "node"]),
        given("a", &["not valid"]),
        given("a", &["node"]),
        given("b", &["zone"]),
    ]);
    let label =
        |label: &str| ExportError::InvalidLabel { metric: "m_total".into(), label: label.into() };
    let labels = ["profile", "le", "node", "not valid"].map(label);
    assert_eq!(refused[..4], labels);
    assert_eq!(refused[4..], [ExportError::NameTaken("m_total".into())]);
}

#[test]
fn first_build_info_has_the_kubernetes_version() {
    let text = Metrics::new().render();
    assert!(text.contains("git_version=\"v1.36.0+loadmaster-"), "{text}");
    assert!(text.contains(r#"major="1",minor="36""#), "{text}");
}

#[test]
fn extension_point_is_measured_under_the_profile_of_its_pod() {
    let metrics = Arc::new(Metrics::new());
    let mut probe = EngineProbe::new(metrics.clone());
    let gate = Span::Point(ExtensionPoint::PreEnqueue, "a");
    probe.start(gate);
    probe.stop(gate, Code::Success);
    let took = Duration::from_millis(3);
    probe.count(Count::Bind { profile: "b", code: Code::Error, took });
    let text = metrics.render();
    let counts = samples(&text, "scheduler_framework_extension_point_duration_seconds_count");
    let expected = [
        (r#"{extension_point="Bind",profile="b",status="Error"}"#, "1"),
        (r#"{extension_point="PreEnqueue",profile="a",status="Success"}"#, "1"),
    ];
    assert_eq!(counts, expected);
}
