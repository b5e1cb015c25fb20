use framework::{ExtensionPoint, Metric, Pod, SampleValue};
use serde_json::{Value, json};
use testkit::{Harness, node};

use super::*;

/// When the metrics are taken, unless a test says otherwise.
const TAKEN: &str = "2026-11-22T12:00:00Z";

fn at(text: &str) -> Time {
    Time::parse_rfc3339(text).unwrap()
}

fn made(args: Value) -> Result<Plugin, String> {
    plugin(&PluginArgs::new(args))
}

/// Nodes of 10 CPUs called `a`, `b` and `c`, ten seconds after the metrics were taken.
fn harness(plugin: Plugin) -> Harness {
    let named = |name| node(name).allocatable("cpu", "10").build();
    let harness = ["a", "b", "c"].map(named).into_iter().fold(Harness::new(plugin), Harness::node);
    harness.at(at("2026-11-22T12:00:10Z"))
}

fn metrics(node: &str, taken: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": node},
        "timestamp": taken,
        "window": "20.004s",
        "usage": {"cpu": cpu, "memory": "1000Ki"},
    })
}

fn measured(harness: Harness, loads: &[(&str, &str)]) -> Harness {
    loads
        .iter()
        .fold(harness, |harness, (node, cpu)| harness.object(KIND, metrics(node, TAKEN, cpu)))
}

/// A pod of one container with these resources.
fn pod_with(harness: &Harness, name: &str, resources: Value) -> Pod {
    harness.pod_from_json(&json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
    }))
}

/// A pod that is predicted to use one CPU.
fn one_cpu(harness: &Harness) -> Pod {
    pod_with(harness, "p", json!({"limits": {"cpu": "1"}}))
}

fn scores(harness: &Harness) -> Vec<i64> {
    harness.run(&one_cpu(harness)).scores.into_values().collect()
}

#[test]
fn node_at_the_target_is_best_and_node_above_it_is_worse_than_an_empty_one() {
    let harness =
        measured(harness(made(json!({})).unwrap()), &[("a", "0"), ("b", "3"), ("c", "5")]);
    // With the pod: 10, 40 and 60 percent.
    assert_eq!(scores(&harness), [55, 100, 27]);
}

#[test]
fn scores_are_those_of_target_load_packing() {
    for (percent, expected) in
        [(0, 40), (20, 70), (40, 100), (41, 39), (70, 20), (100, 0), (150, 0)]
    {
        assert_eq!(score(percent * 100, 10_000, 40), expected, "{percent}");
    }
    assert_eq!(score(i64::MAX, 1, 99), 0);
}

#[test]
fn usage_is_read_in_the_units_of_the_metrics_server() {
    let harness = measured(
        harness(made(json!({})).unwrap()),
        &[("a", "3000000000n"), ("b", "3000000u"), ("c", "3000m")],
    );
    assert_eq!(scores(&harness), [100, 100, 100]);
}

#[test]
fn limit_request_and_default_predict_the_usage_in_this_order() {
    let harness = harness(made(json!({"defaultMilliCpu": 700})).unwrap());
    let settings = made_settings(&json!({"defaultMilliCpu": 700}));
    let usage = |resources| usage::predicted(&pod_with(&harness, "p", resources), &settings);
    assert_eq!(usage(json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})), 2000);
    assert_eq!(usage(json!({"requests": {"cpu": "1"}})), 1500);
    assert_eq!(usage(json!({"requests": {"memory": "1Gi"}})), 700);
    let pod = harness.pod_from_json(&json!({
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [
                {"name": "setup", "resources": {"limits": {"cpu": "8"}}},
                {"name": "proxy", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}},
            ],
            "containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}],
        },
    }));
    assert_eq!(usage::predicted(&pod, &settings), 3000);
}

fn made_settings(args: &Value) -> Settings {
    serde_json::from_value::<LoadAwareArgs>(args.clone()).unwrap().settings().unwrap()
}

#[test]
fn pods_that_the_metrics_do_not_cover_count_with_their_predicted_usage() {
    let harness =
        measured(harness(made(json!({})).unwrap()), &[("a", "0"), ("b", "0"), ("c", "0")]);
    let running = |name: &str, node: &str, started: Option<&str>| {
        let pod = pod_with(&harness, name, json!({"limits": {"cpu": "2"}}));
        Pod { node_name: Some(node.into()), start_time: started.map(at).into(), ..pod }
    };
    let pods = [
        running("old", "a", Some("2026-11-22T11:59:00Z")),
        running("within-the-window", "b", Some("2026-11-22T11:59:50Z")),
        running("assumed", "c", None),
        running("later", "c", Some("2026-11-22T12:00:05Z")),
    ];
    let harness = pods.into_iter().fold(harness, Harness::pod);
    // With the pod: 10, 30 and 50 percent.
    assert_eq!(scores(&harness), [55, 85, 33]);
}

#[test]
fn metrics_expire_while_time_passes() {
    let harness = measured(harness(made(json!({"maximumAgeSeconds": 60})).unwrap()), &[("a", "3")])
        .object(KIND, metrics("b", "2026-11-22T12:00:40Z", "3"));
    assert_eq!(scores(&harness), [100, 100, 0]);
    let harness = harness.at(at("2026-11-22T12:01:00Z"));
    assert_eq!(scores(&harness), [100, 100, 0]);
    let harness = harness.at(at("2026-11-22T12:01:01Z"));
    assert_eq!(scores(&harness), [0, 100, 0]);
}

#[test]
fn new_metrics_replace_what_was_worked_out() {
    let harness =
        measured(harness(made(json!({})).unwrap()), &[("a", "3"), ("b", "3"), ("c", "3")]);
    assert_eq!(scores(&harness), [100, 100, 100]);
    let harness = measured(harness, &[("a", "5")]);
    assert_eq!(scores(&harness), [27, 100, 100]);
    let pod = Pod {
        node_name: Some("b".into()),
        ..pod_with(&harness, "q", json!({"limits": {"cpu": "2"}}))
    };
    assert_eq!(scores(&harness.pod(pod)), [27, 27, 100]);
}

#[test]
fn without_any_metrics_the_plugin_is_skipped() {
    let harness = harness(made(json!({})).unwrap());
    let run = harness.run(&one_cpu(&harness));
    assert!(run.pre_score.is_skip());
    assert!(run.scores.is_empty());
}

#[test]
fn scored_nodes_are_counted_by_the_state_of_their_metrics() {
    let plugin = made(json!({"maximumAgeSeconds": 60})).unwrap();
    let metric = plugin.metrics[0].clone();
    let harness = measured(harness(plugin), &[("a", "3")])
        .object(KIND, metrics("b", "2026-11-22T11:00:00Z", "3"))
        .object(KIND, metrics("c", TAKEN, "much"));
    assert_eq!(scores(&harness), [100, 0, 0]);
    let problem = harness.cluster().decode_problem(KIND, "", "c").unwrap();
    assert!(problem.contains("usage[cpu]: cannot read \"much\""), "{problem}");
    let counted: Vec<_> = metric
        .samples()
        .into_iter()
        .map(|sample| (sample.labels[0].1.to_string(), sample.value))
        .collect();
    // The harness runs both forms.
    let twice = SampleValue::Counter(2);
    let expected =
        ["expired", "fresh", "unreadable"].map(|state| (state.to_owned(), twice.clone()));
    assert_eq!(counted, expected);
    assert!(matches!(metric, Metric::CounterVec(_)));
}

#[test]
fn node_without_cpu_gets_the_lowest_score() {
    let empty = node("z").allocatable("cpu", "0").build();
    let harness = measured(harness(made(json!({})).unwrap()).node(empty), &[("z", "0")]);
    assert_eq!(scores(&harness), [0, 0, 0, 0]);
}

#[test]
fn plugin_polls_the_metrics_and_scores() {
    let plugin = made(json!({"pollIntervalSeconds": 15})).unwrap();
    let [Feed::Poll { kind, interval }] = &plugin.feeds[..] else { panic!("one poll") };
    assert_eq!((&**kind, interval.as_secs()), (KIND, 15));
    let points = ExtensionPoint::ALL.into_iter().filter(|point| plugin.extends(*point));
    assert_eq!(points.collect::<Vec<_>>(), [ExtensionPoint::PreScore, ExtensionPoint::Score]);
    assert!(plugin.events.is_some_and(|events| events.is_empty()));
}

#[test]
fn wrong_arguments_are_reported_field_by_field() {
    let error = made(json!({
        "targetUtilization": 100, "maximumAgeSeconds": 0, "defaultMilliCpu": -1,
        "defaultRequestsMultiplier": 0.5,
    }));
    assert_eq!(
        error.unwrap_err(),
        "targetUtilization: must be from 1 to 99, got 100; \
         maximumAgeSeconds: must be at least 1, got 0; \
         defaultMilliCpu: must be at least 0, got -1; \
         defaultRequestsMultiplier: must be from 1 to 100, got 0.5"
    );
    let unknown = made(json!({"target": 1})).unwrap_err();
    assert!(unknown.starts_with("unknown field `target`"), "{unknown}");
}
