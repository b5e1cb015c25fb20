use framework::{Plugin, PluginArgs, Pod};
use serde_json::{Value, json};
use testkit::Harness;

use super::*;

fn made(name: &str, args: Value) -> Result<Plugin, String> {
    let factory = match name {
        target_load_packing::NAME => target_load_packing::plugin,
        _ => load_variation_risk_balancing::plugin,
    };
    factory(&PluginArgs::new(args))
}

/// Nodes `a`, `b` and `c` of 10 CPUs and 10 GiB, of which pods can have less, ten seconds after noon.
fn harness(name: &str, args: Value) -> Harness {
    let node = |name: &str| {
        json!({"metadata": {"name": name}, "status": {
            "capacity": {"cpu": "10", "memory": "10Gi"},
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100"}}})
    };
    let harness = Harness::new(made(name, args).unwrap()).at(at("2026-11-22T12:00:10Z"));
    ["a", "b", "c"].into_iter().fold(harness, |harness, name| harness.node_from_json(&node(name)))
}

fn at(text: &str) -> Time {
    Time::parse_rfc3339(text).unwrap()
}

const NOON: &str = "2026-11-22T12:00:00Z";

fn metrics(node: &str, taken: &str, cpu: &str, memory: &str) -> Value {
    json!({"metadata": {"name": node}, "timestamp": taken, "window": "20s",
        "usage": {"cpu": cpu, "memory": memory}})
}

fn pod(harness: &Harness, name: &str, more: &Value) -> Pod {
    let mut object = json!({"metadata": {"name": name, "uid": name}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1"}}}]}});
    if let (Some(own), Some(more)) = (object.as_object_mut(), more.as_object()) {
        for (field, value) in more {
            own.entry(field)
                .or_insert(json!({}))
                .as_object_mut()
                .unwrap()
                .extend(value.as_object().unwrap().clone());
        }
    }
    harness.pod_from_json(&object)
}

fn scores(harness: &Harness) -> [i64; 3] {
    let pod = pod(harness, "p", &json!({}));
    let run = harness.run(&pod);
    assert_eq!(harness.ranking_problem(&pod), None);
    ["a", "b", "c"].map(|name| run.scores[name])
}

#[test]
fn target_load_packing_prefers_the_node_at_its_target() {
    let harness = harness(target_load_packing::NAME, json!({}))
        .object(KIND, metrics("a", NOON, "0", "0"))
        .object(KIND, metrics("b", NOON, "3", "0"))
        .object(KIND, metrics("c", NOON, "5", "0"));
    // With the pod: 10, 40 and 60 percent of the capacity.
    assert_eq!(scores(&harness), [55, 100, 27]);
}

#[test]
fn pods_that_came_after_the_measurement_are_predicted() {
    let measured = || {
        ["a", "b", "c"]
            .into_iter()
            .fold(harness(target_load_packing::NAME, json!({})), |harness, name| {
                harness.object(KIND, metrics(name, NOON, "1", "0"))
            })
    };
    let placed = |harness: &Harness, started: &str| {
        pod(harness, started, &json!({"spec": {"nodeName": "a"}, "status": {"startTime": started}}))
    };
    for (started, expected) in [
        ("2026-11-22T11:00:00Z", 70),
        ("2026-11-22T11:59:00Z", 70),
        ("2026-11-22T11:59:01Z", 85),
        ("2026-11-22T12:00:05Z", 85),
    ] {
        let harness = measured();
        let there = placed(&harness, started);
        assert_eq!(scores(&harness.pod(there)), [expected, 70, 70], "{started}");
    }
    let harness = measured();
    let assumed = pod(&harness, "assumed", &json!({"spec": {"nodeName": "a"}}));
    assert_eq!(scores(&harness.pod(assumed)), [85, 70, 70]);
}

#[test]
fn usage_is_predicted_from_limits_requests_and_overhead() {
    let predicted = |resources: Value, args: Value| {
        let harness =
            harness(target_load_packing::NAME, args).object(KIND, metrics("a", NOON, "0", "0"));
        let object = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}],
            "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "9"}}}],
            "overhead": {"cpu": "500m"}}});
        harness.run(&harness.pod_from_json(&object)).scores["a"]
    };
    // The score is 40 and 1.5 for each percent.
    for (resources, args, expected) in [
        (json!({"limits": {"cpu": "1"}}), json!({}), 63),
        (json!({"requests": {"cpu": "1"}}), json!({}), 70),
        (json!({}), json!({}), 63),
        (json!({}), json!({"defaultRequests": {"cpu": "2"}}), 78),
        (json!({"requests": {"cpu": "1"}}), json!({"defaultRequestsMultiplier": "2.5"}), 85),
    ] {
        assert_eq!(predicted(resources.clone(), args), expected, "{resources}");
    }
}

#[test]
fn old_and_missing_measurements_score_0() {
    for name in [target_load_packing::NAME, load_variation_risk_balancing::NAME] {
        let harness = harness(name, json!({}))
            .object(KIND, metrics("a", "2026-11-22T11:57:10Z", "1", "1Gi"))
            .object(KIND, metrics("b", "2026-11-22T11:57:09Z", "1", "1Gi"));
        let [a, b, c] = scores(&harness);
        assert!(a > 0 && b == 0 && c == 0, "{name}: {a} {b} {c}");
        let later = scores(&harness.at(at("2026-11-22T12:00:20Z")));
        assert_eq!(later, [0, 0, 0], "{name}");
    }
}

#[test]
fn load_variation_risk_balancing_takes_the_scarcer_resource() {
    let harness = harness(load_variation_risk_balancing::NAME, json!({}))
        .object(KIND, metrics("a", NOON, "2", "1Gi"))
        .object(KIND, metrics("b", NOON, "1", "5Gi"))
        .object(KIND, metrics("c", NOON, "10", "1Gi"));
    // Half of 0.2 + 1/8, of 0.5 + 1/8, and of all.
    assert_eq!(scores(&harness), [84, 69, 50]);
}

#[test]
fn sources_that_are_not_built_are_refused() {
    for name in [target_load_packing::NAME, load_variation_risk_balancing::NAME] {
        let error = |args| made(name, args).map(|_| ()).unwrap_err();
        assert!(
            error(json!({"watcherAddress": "http://load-watcher:2020"}))
                .starts_with("watcherAddress: ")
        );
        let prometheus = json!({"metricProvider": {"type": "Prometheus", "address": "http://p"}});
        assert!(error(prometheus).starts_with("metricProvider.type: Prometheus is not read; "));
        assert!(error(json!({"metricProvider": {"type": "X"}})).contains("got \"X\""));
        assert_eq!(error(json!({"targetUtilisation": 3})), "unknown field `targetUtilisation`");
        assert!(made(name, json!({"metricProvider": {"type": "KubernetesMetricsServer"}})).is_ok());
    }
    let packing = |args| made(target_load_packing::NAME, args);
    assert_eq!(
        packing(json!({"targetUtilization": 0})).unwrap().args.unwrap()["targetUtilization"],
        40
    );
    assert!(packing(json!({"defaultRequestsMultiplier": "many"})).is_err());
    let risk =
        made(load_variation_risk_balancing::NAME, json!({"safeVarianceMargin": 2.0})).unwrap();
    assert!(risk.notes[0].starts_with("safeVarianceMargin has no effect: "));
}
