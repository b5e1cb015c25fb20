//! Tests of the metrics and of the text that the endpoint serves.

mod reference;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use engine::ports::{Count, Probe, Span};
use engine::queue::GroupCount;
use engine::record::Choice;
use framework::{
    ActionType, ClusterEvent, Code, Counter, CounterVec, EventResource, ExtensionPoint, GaugeVec,
    HistogramVec, Level, PluginName, PodKey, QueueTimes,
};
use testkit::pod;

use super::*;

fn claims() -> WatchedKind {
    WatchedKind {
        resource: EventResource::ResourceClaim,
        name: "resourceclaims.resource.k8s.io".into(),
        path: "/apis/resource.k8s.io/v1/resourceclaims".into(),
        field_selector: None,
        describes_nodes: false,
    }
}

/// The books of a quota of which a pod uses more than is guaranteed.
fn quotas() -> framework::quota::Books {
    let mut books = framework::quota::Books::default();
    books.count();
    let object = serde_json::json!({"spec": {"min": {"cpu": "1"}, "max": {"cpu": "4"}}});
    let object: framework::api::ElasticQuota = serde_json::from_value(object).unwrap();
    let quota = framework::ElasticQuota::from_api(&object).unwrap();
    let key = framework::QuotaKey { namespace: "default".into(), name: "q".into() };
    books.set_quota(&key, Some(Arc::new(quota)));
    books.set_placed(&pod("p").cpu("1500m").build(), true);
    books.set_pending(&pod("r").cpu("1").build(), true);
    books
}

#[test]
fn amounts_of_quotas_are_in_cpus() {
    let metrics = Metrics::new();
    metrics.set_quotas(&quotas());
    let text = metrics.render();
    let label = |amount: &str| format!(r#"{{amount="{amount}",quota="default/q",resource="cpu"}}"#);
    let expected = [
        ("borrowed", "0.5"),
        ("guaranteed", "1"),
        ("max", "4"),
        ("share", "1"),
        ("used", "1.5"),
        ("wanted", "2.5"),
    ];
    let expected: Vec<_> = expected.iter().map(|(own, value)| (label(own), *value)).collect();
    let found = samples(&text, "loadmaster_quota_amount");
    let found: Vec<_> = found.iter().map(|(own, value)| ((*own).to_owned(), *value)).collect();
    assert_eq!(found, expected);
    assert_eq!(samples(&text, "loadmaster_quota_pending_pods")[0].1, "1");
}

/// Returns metrics with at least one sample in every family.
fn with_samples() -> Arc<Metrics> {
    let metrics = Arc::new(Metrics::new());
    metrics.set_cache_mismatches(0, 0);
    let mut probe = EngineProbe::new(metrics.clone());
    let (plugin, uid): (PluginName, _) = ("P".into(), "u".into());
    let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
    let spans = [
        Span::Attempt("a", &uid),
        Span::Point(ExtensionPoint::Filter.into(), "a"),
        Span::Plugin(ExtensionPoint::Filter.into(), &plugin),
        Span::Hint(&plugin, &event),
    ];
    // Single plugins are timed in every tenth attempt.
    for _ in 0..10 {
        spans.into_iter().for_each(|span| probe.start(span));
        spans.into_iter().rev().for_each(|span| probe.stop(span, Code::Success));
    }
    let volumes: PluginName = "VolumeBinding".into();
    let reserve = Span::Plugin(ExtensionPoint::Reserve.into(), &volumes);
    probe.start(reserve);
    probe.stop(reserve, Code::Error);
    probe.count(Count::Incoming { queue: "active", event: "NodeAdd" });
    probe.count(Count::Attempt { result: "scheduled", profile: "a" });
    probe.count(Count::Scheduled {
        pod: &pod("p").build(),
        choice: &Choice { node: "n".into(), ties: 1, total: None, feasible: 1, evaluated: 1 },
        profile: "a",
        attempts: 2,
        took: Duration::from_millis(3),
        since_first_active: Duration::from_secs(3),
        after_flush: false,
        times: QueueTimes::default(),
    });
    probe.count(Count::PermitWait {
        pod: &pod("p").build(),
        code: Code::Success,
        waited: Duration::from_secs(1),
    });
    probe.count(Count::Panic { plugin: &plugin });
    probe.count(Count::Victims(2));
    probe.count(Count::GroupVictims(2));
    let preemption: PluginName = "DefaultPreemption".into();
    let for_group = Span::Plugin(ExtensionPoint::PodGroupPostFilter.into(), &preemption);
    probe.start(for_group);
    probe.stop(for_group, Code::Success);
    probe.count(Count::Placements { profile: "a", count: 2 });
    probe.start(Span::Placement("a"));
    probe.stop(Span::Placement("a"), Code::Success);
    for counter in engine::counters::ALL {
        probe.count(Count::of(counter, &vec!["pod"; counter.labels.len()]));
    }
    probe.count(Count::RankingCheck { pod: &PodKey::new("default", "p"), agrees: true });
    metrics.set_cache_size(CacheSize::default());
    metrics.set_binding_phases(BindingPhases::default());
    metrics.set_api_calls(&CallCounts::new());
    metrics.set_hold(None);
    metrics.set_extenders([("http://extender", true)]);
    metrics.set_oldest_pods([("active", Duration::from_secs(1))]);
    let watch = metrics.watch(&claims());
    watch.failed();
    watch.set_store_version(1_234_567_890_123_456_789);
    watch.queue().add(3).taken();
    metrics.clusters().profile("eu", true);
    let member = metrics.clusters().member("eu");
    member.sampled("nodes");
    member.committed("conflict", "Resources");
    member.lost_answer();
    member.replaced();
    probe.start(Span::Change);
    probe.count(Count::Event(&event));
    probe.stop(Span::Change, Code::Success);
    probe.count(Count::BindingError { namespace: "default" });
    let (code, took) = (Code::Success, Duration::from_millis(3));
    probe.count(Count::ApiCall { call_type: "pod_binding", code, took });
    probe.count(Count::Evicted { code, took });
    let auth = metrics.delegated_auth();
    auth.token_review(Some(201), took);
    auth.subject_access_review(None, took);
    auth.authenticated(Authentication::Success("system:anonymous"), took);
    auth.authorized(Authorization::Allowed, took);
    metrics.set_inflight_events([("NodeAdd", 2)]);
    metrics.set_unschedulable([("P", "a", 4)]);
    metrics.set_features(&Gates::default());
    metrics.set_leader_election(true, 3);
    metrics.set_quotas(&quotas());
    metrics.set_missing_nodes([("cpu 8", 2)]);
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
fn informers_have_the_metrics_of_client_go() {
    let metrics = Metrics::new();
    let watch = metrics.watch(&claims());
    let labels =
        r#"{group="resource.k8s.io",name="kube-scheduler",resource="resourceclaims",version="v1"}"#;
    let queued = |expected: &'static str| {
        let text = metrics.render();
        assert_eq!(samples(&text, "informer_queued_items"), [(labels, expected)]);
    };
    queued("0");
    let (mut first, second) = (watch.queue().add(3), watch.queue().add(2));
    queued("5");
    first.taken();
    drop(first);
    queued("2");
    // A batch that nothing handled has no latency.
    drop(second);
    queued("0");
    assert_eq!(samples(&metrics.render(), "informer_store_resource_version"), []);
    watch.set_store_version(1_234_567_890_123_456_789);
    let text = metrics.render();
    assert_eq!(
        samples(&text, "informer_store_resource_version"),
        [(labels, "5.67890123456789e+14")]
    );
    assert_eq!(samples(&text, "informer_processing_latency_seconds_count"), [(labels, "1")]);
}

#[test]
fn help_has_the_stability_of_the_level_and_the_deprecation() {
    let stability = |level| {
        let text = Metrics::at(level, Selection::default()).render();
        let help = "# HELP scheduler_scheduling_algorithm_duration_seconds [";
        text.split_once(help).unwrap().1.split_once(']').unwrap().0.to_owned()
    };
    assert_eq!((stability(Level::V1_36), stability(Level::V1_37)), ("ALPHA".into(), "BETA".into()));
    let help = "# HELP scheduler_preemption_goroutines_duration_seconds [ALPHA] (Deprecated since 1.37.0) ";
    let text = with_samples().render();
    assert!(text.contains(help));
    assert!(text.contains(
        r#"registered_metrics_total{deprecated_version="1.37.0",stability_level="ALPHA"} 1"#
    ));
}

#[test]
fn families_are_sorted_and_unique() {
    let text = with_samples().render();
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(names.is_sorted());
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
}

#[test]
fn evaluations_of_configured_plugins_start_at_zero() {
    let config = crate::config::defaults(&Gates::default());
    let metrics = Metrics::new();
    metrics.set_profiles(&config.build_profiles(&plugins::registry()).unwrap());
    let text = metrics.render();
    let evaluations = samples(&text, "scheduler_plugin_evaluation_total");
    let of = |plugin: &str| {
        let plugin = format!("plugin=\"{plugin}\"");
        let labels = evaluations.iter().filter(|(labels, _)| labels.contains(&plugin));
        labels.map(|(labels, _)| labels.split('"').nth(1).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of("NodeAffinity"), ["Filter", "PreFilter", "PreScore", "Score"]);
    assert_eq!(of("NodeName"), ["Filter"]);
    assert_eq!(of("DefaultPreemption"), [""; 0]);
    assert!(evaluations.iter().all(|(_, value)| *value == "0"), "{evaluations:?}");
}

/// Names of kube-scheduler that promtool objects to.
const NAMES_OF_KUBERNETES: [&str; 2] = ["authenticated_user_requests", "authentication_attempts"];

#[test]
fn promtool_objects_only_to_names_of_kubernetes() {
    let mut promtool = match Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: promtool is not installed (Debian: apt-get install prometheus)");
            return;
        }
        promtool => promtool.unwrap(),
    };
    promtool.stdin.take().unwrap().write_all(with_samples().render().as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let names: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, BTreeSet::from(NAMES_OF_KUBERNETES), "{text}");
}

#[test]
fn disabled_metrics_are_absent_and_counted() {
    let names =
        ["scheduler_pending_pods", "process_open_fds", "of_a_plugin_total", "no_such_metric"];
    let selection = Selection::default().without(names.map(str::to_owned));
    let metrics = Metrics::at(Level::default(), selection);
    let counter = Counter::new("of_a_plugin_total", "Help.");
    assert_eq!(metrics.set_plugin_metrics([("a".to_owned(), Metric::from(&counter))]), []);
    let text = metrics.render();
    assert!(names.iter().all(|name| !text.contains(name)), "{text}");
    assert_eq!(samples(&text, "disabled_metrics_total"), [("", "4")]);
    assert_eq!(samples(&text, "hidden_metrics_total"), [("", "2")]);
    let registered = |text: &str| {
        let stable = r#"{deprecated_version="",stability_level="STABLE"}"#;
        let totals = samples(text, "registered_metrics_total");
        totals.into_iter().find(|(labels, _)| *labels == stable).unwrap().1.parse::<u32>().unwrap()
    };
    assert_eq!(registered(&text) + 1, registered(&Metrics::new().render()));
}

#[test]
fn values_that_are_not_allowed_are_unexpected() {
    let allowed = ["active", "gated"];
    let selection = Selection::default().allowing("scheduler_pending_pods", "queue", allowed);
    let selection = selection.allowing("rest_client_requests_total", "host", ["h:1"]);
    let metrics = Metrics::at(Level::default(), selection);
    let client = metrics.rest_client();
    for host in ["h:1", "h:2", "h:3"] {
        client.requested("GET", host, Some(200));
    }
    let text = metrics.render();
    let pending: Vec<_> =
        samples(&text, "scheduler_pending_pods").into_iter().map(|(labels, _)| labels).collect();
    assert_eq!(pending, [r#"{queue="active"}"#, r#"{queue="gated"}"#, r#"{queue="unexpected"}"#]);
    let requests = samples(&text, "rest_client_requests_total");
    let expected = [
        (r#"{code="200",host="h:1",method="GET"}"#, "1"),
        (r#"{code="200",host="unexpected",method="GET"}"#, "2"),
    ];
    assert_eq!(requests, expected);
    // Two queues and two hosts.
    let counted = samples(&text, "cardinality_enforcement_unexpected_categorizations_total");
    assert_eq!(counted, [("", "4")]);
}

#[test]
fn gauges_have_the_last_set_size() {
    let metrics = Metrics::new();
    let unschedulable = GroupCount { groups: 1, pods: 2 };
    let groups = QueuedGroupCounts { unschedulable, ..QueuedGroupCounts::default() };
    metrics.set_pending(Pending { active: 1, backoff: 2, unschedulable: 3, gated: 4, groups });
    metrics.set_unschedulable([("P", "a", 4), ("Q", "a", 1)]);
    metrics.set_unschedulable([("Q", "a", 2)]);
    let text = metrics.render();
    let pending = [("active", 1), ("backoff", 2), ("unschedulable", 3), ("gated", 4)];
    for (queue, pods) in pending {
        assert!(text.contains(&format!("scheduler_pending_pods{{queue=\"{queue}\"}} {pods}\n")));
    }
    for (entity, count) in [("pod", 1), ("podgroup", 1)] {
        let labels = format!("{{queue=\"unschedulable\",type=\"{entity}\"}} {count}\n");
        assert!(text.contains(&format!("scheduler_queued_entities{labels}")), "{text}");
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
    let metrics = Metrics::new();
    metrics.set_features(&Gates::at(Level::V1_36));
    let text = metrics.render();
    assert!(text.contains("git_version=\"v1.36.0+loadmaster-"), "{text}");
    assert!(text.contains(r#"major="1",minor="36""#), "{text}");
    let expected = r#"binary="1.37",component="kube",emulation="1.36",min_compat="1.35"} 1"#;
    assert!(text.contains(expected) && !text.contains(r#"emulation="1.37""#), "{text}");
}

#[test]
fn extension_point_is_measured_under_the_profile_of_its_pod() {
    let metrics = Arc::new(Metrics::new());
    let mut probe = EngineProbe::new(metrics.clone());
    let gate = Span::Point(ExtensionPoint::PreEnqueue.into(), "a");
    probe.start(gate);
    probe.stop(gate, Code::Success);
    let took = Duration::from_millis(3);
    probe.count(Count::Point {
        pod: &pod("p").build(),
        point: ExtensionPoint::Bind,
        profile: "b",
        code: Code::Error,
        took,
    });
    let text = metrics.render();
    let counts = samples(&text, "scheduler_framework_extension_point_duration_seconds_count");
    let expected = [
        (r#"{extension_point="Bind",profile="b",status="Error"}"#, "1"),
        (r#"{extension_point="PreEnqueue",profile="a",status="Success"}"#, "1"),
    ];
    assert_eq!(counts, expected);
}
