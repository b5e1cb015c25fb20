use framework::{
    ActionType, ClusterEvent, Command, EventObjects, EventResource, Feed, HttpFeed, Node, Object,
    Plugin, PluginArgs, Pod, QueueingHint,
};
use serde_json::{Value, json};
use testkit::Harness;

use super::source::METRICS_K8S_IO as KIND;
use super::*;

const NAMES: [&str; 4] = [
    target_load_packing::NAME,
    load_variation_risk_balancing::NAME,
    low_risk_over_commitment::NAME,
    load_aware_scheduling::NAME,
];

fn made(name: &str, args: Value) -> Result<Plugin, String> {
    let factory = match name {
        target_load_packing::NAME => target_load_packing::plugin,
        load_variation_risk_balancing::NAME => load_variation_risk_balancing::plugin,
        low_risk_over_commitment::NAME => low_risk_over_commitment::plugin,
        _ => load_aware_scheduling::plugin,
    };
    factory(&PluginArgs::new(args))
}

/// Nodes `a`, `b` and `c` of 10 CPUs and 10 GiB, of which pods can have less, ten seconds after
/// noon.
fn harness(name: &str, args: Value) -> Harness {
    harness_of(made(name, args).unwrap())
}

fn harness_of(plugin: Plugin) -> Harness {
    let harness = Harness::new(plugin).at(at("2026-11-22T12:00:10Z"));
    let node = |name: &str| {
        json!({"metadata": {"name": name}, "status": {
            "capacity": {"cpu": "10", "memory": "10Gi"},
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100"}}})
    };
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
    for name in NAMES {
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
fn deviation_counts_with_margin_and_sensitivity() {
    let metrics = |node: &str, average: f64, deviation: f64| {
        let rows = ["CPU", "Memory"].map(|kind| {
            [("AVG", average), ("STD", deviation)].map(
                |(operator, value)| json!({"type": kind, "operator": operator, "value": value}),
            )
        });
        json!({"metadata": {"name": node}, "timestamp": NOON, "metrics": rows.concat()})
    };
    let scores = |more: Value| {
        let mut args = json!({"watcherAddress": "http://load-watcher:2020"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let plugin = made(load_variation_risk_balancing::NAME, args).unwrap();
        assert!(plugin.notes.is_empty(), "{:?}", plugin.notes);
        let kind = plugin.feeds[0].kind().clone();
        let harness = harness_of(plugin);
        let harness = harness
            .object(&kind, metrics("a", 20.0, 4.0))
            .object(&kind, metrics("b", 20.0, 36.0))
            .object(&kind, metrics("c", 90.0, 100.0));
        scores(&harness)
    };
    // The pod requests an eighth. Half of 0.325 + σ, and of 1 + 1.
    assert_eq!(scores(json!({})), [82, 66, 0]);
    assert_eq!(scores(json!({"safeVarianceMargin": 2})), [80, 48, 0]);
    // The square root of 0.04 is 0.2, and that of 0.36 is 0.6.
    assert_eq!(scores(json!({"safeVarianceSensitivity": 2})), [74, 54, 0]);
    assert_eq!(scores(json!({"safeVarianceSensitivity": 0})), [84, 84, 0]);
}

#[test]
fn target_load_packing_reads_the_number_that_is_listed_last() {
    let plugin = made(target_load_packing::NAME, json!({"watcherAddress": "http://w"})).unwrap();
    let kind = plugin.feeds[0].kind().clone();
    let metrics = |node: &str, operators: [(&str, i64); 2]| {
        let rows = operators
            .map(|(operator, value)| json!({"type": "CPU", "operator": operator, "value": value}));
        json!({"metadata": {"name": node}, "timestamp": NOON, "metrics": rows})
    };
    let harness = harness_of(plugin)
        .object(&kind, metrics("a", [("AVG", 90), ("Latest", 30)]))
        .object(&kind, metrics("b", [("Latest", 90), ("AVG", 30)]))
        .object(&kind, metrics("c", [("", 30), ("STD", 30)]));
    assert_eq!(scores(&harness), [100, 100, 0]);
}

#[test]
fn sources_are_checked() {
    for name in NAMES {
        let error = |args| made(name, args).map(|_| ()).unwrap_err();
        let provider = |provider: Value| json!({"metricProvider": provider});
        assert!(
            error(json!({"watcherAddress": "load-watcher:2020"}))
                .starts_with("watcherAddress: must be the address of a server")
        );
        let no_address = json!({"type": "Prometheus", "address": "p:9090"});
        assert!(error(provider(no_address)).starts_with("metricProvider.address: must be"));
        assert!(error(provider(json!({"type": "SignalFx"}))).contains("SignalFx is not read"));
        assert!(error(provider(json!({"type": "X"}))).contains("got \"X\""));
        assert_eq!(error(json!({"targetUtilisation": 3})), "unknown field `targetUtilisation`");
        assert!(error(json!({"maximumAgeSeconds": 0})).starts_with("maximumAgeSeconds: "));
        assert!(made(name, provider(json!({"type": "KubernetesMetricsServer"}))).is_ok());
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

/// The feed of a plugin with these arguments.
fn feed(args: Value) -> Feed {
    made(low_risk_over_commitment::NAME, args).unwrap().feeds[0].clone()
}

fn http(args: Value) -> HttpFeed {
    match feed(args) {
        Feed::Http(feed) => feed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn source_is_that_of_the_arguments() {
    assert!(matches!(feed(json!({})), Feed::Poll { kind, .. } if *kind == *KIND));
    let watcher = http(json!({"watcherAddress": "http://w:2020",
        "metricProvider": {"type": "Prometheus"}}));
    assert_eq!(
        (&*watcher.server.address, &watcher.paths[..]),
        ("http://w:2020", &["/watcher".to_owned()][..])
    );
    let prometheus = |provider: Value| http(json!({"metricProvider": provider})).server;
    let by_default = prometheus(json!({"type": "Prometheus"}));
    assert_eq!(by_default.address, "http://prometheus-k8s:9090");
    assert!(by_default.accepts_any_certificate && by_default.token.is_none());
    let given = prometheus(json!({"type": "Prometheus", "address": "https://p", "token": "t",
        "insecureSkipVerify": false}));
    assert_eq!((given.address.as_str(), given.token.as_deref()), ("https://p", Some("t")));
    assert!(!given.accepts_any_certificate);
    assert_eq!(format!("{given:?}"), "https://p");
}

/// A measurement of a load-watcher, in percent.
fn watched(node: &str, cpu: [f64; 2], memory: [f64; 2]) -> Value {
    let rows = [("CPU", cpu), ("Memory", memory)].map(|(kind, [average, deviation])| {
        [("AVG", average), ("STD", deviation)]
            .map(|(operator, value)| json!({"type": kind, "operator": operator, "value": value}))
    });
    json!({"metadata": {"name": node}, "timestamp": NOON, "metrics": rows.concat()})
}

const WATCHER: &str = "http://w";

/// Requests and limits of a pod: thousandths of a CPU, and MiB.
#[derive(Debug, Clone, Copy)]
struct Asked {
    cpu: [i64; 2],
    memory: [i64; 2],
}

fn asking(harness: &Harness, name: &str, asked: Asked, node: Option<&str>) -> Pod {
    let amounts = |place: usize| {
        json!({"cpu": format!("{}m", asked.cpu[place]),
            "memory": format!("{}Mi", asked.memory[place])})
    };
    let container =
        json!({"name": "c", "resources": {"requests": amounts(0), "limits": amounts(1)}});
    harness.pod_from_json(&json!({"metadata": {"name": name, "uid": name},
        "spec": {"containers": [container], "nodeName": node}}))
}

/// The score of a node of 4 CPUs and 4 GiB with these pods on it.
fn low_risk(args: Value, measured: ([f64; 2], [f64; 2]), there: &[Asked], pod: Asked) -> i64 {
    let mut all = json!({"watcherAddress": WATCHER});
    all.as_object_mut().unwrap().extend(args.as_object().unwrap().clone());
    let plugin = made(low_risk_over_commitment::NAME, all).unwrap();
    let kind = plugin.feeds[0].kind().clone();
    let amounts = json!({"cpu": "4", "memory": "4Gi", "pods": "100"});
    let node = json!({"metadata": {"name": "n"},
        "status": {"capacity": amounts, "allocatable": amounts}});
    let harness = Harness::new(plugin).at(at("2026-11-22T12:00:10Z")).node_from_json(&node);
    let harness = harness.object(&kind, watched("n", measured.0, measured.1));
    let harness = there.iter().enumerate().fold(harness, |harness, (place, asked)| {
        let pod = asking(&harness, &format!("there-{place}"), *asked, Some("n"));
        harness.pod(pod)
    });
    let pod = asking(&harness, "p", pod, None);
    assert_eq!(harness.ranking_problem(&pod), None);
    harness.run(&pod).scores["n"]
}

/// The examples of the tests of scheduler-plugins, and others.
#[test]
fn risk_is_that_of_limits_and_of_the_measured_load() {
    let at_rest = ([80.0, 0.0], [25.0, 0.0]);
    let asked = |cpu: [i64; 2], memory: [i64; 2]| Asked { cpu, memory };
    for (there, pod, expected) in [
        // By the CPU: limits 3000 of 4000, and 80 % measured while 25 % is requested: 0.5. By the
        // memory: (6 - 4)/(6 - 2) of the limits, and no request of others: 0.25.
        (vec![asked([1000, 2000], [0, 0])], asked([1000, 1000], [2048, 6144]), 50),
        // (5000 - 4000)/(5000 - 4000), and 80 % measured while 75 % is requested.
        (vec![asked([3000, 4000], [512, 6144])], asked([1000, 1000], [512, 1024]), 0),
        // Nothing is over-committed, and the others request more than is used.
        (vec![asked([3500, 3500], [2048, 2048])], asked([100, 100], [100, 100]), 100),
        // A pod of the class BestEffort.
        (vec![], asked([0, 0], [0, 0]), 0),
    ] {
        assert_eq!(low_risk(json!({}), at_rest, &there, pod), expected, "{there:?} {pod:?}");
    }
    let over = || vec![asked([1000, 2000], [0, 0])];
    let pod = asked([1000, 1000], [2048, 6144]);
    let by = |args| low_risk(args, at_rest, &over(), pod);
    assert_eq!(by(json!({"riskLimitWeights": {"cpu": 1}})), 75);
    assert_eq!(by(json!({"riskLimitWeights": {"cpu": 1, "memory": 1}})), 50);
    assert_eq!(by(json!({"riskLimitWeights": {"cpu": 7}})), 50);
    // Half of a uniform distribution: the deviation is that of one window.
    let uniform = (1.0_f64 / 12.0).sqrt() * 100.0;
    let spread = ([50.0, uniform], [0.0, 0.0]);
    let there = [asked([1000, 4000], [0, 0])];
    let one = |window: i64| {
        let args = json!({"smoothingWindowSize": window, "riskLimitWeights": {"cpu": 0}});
        low_risk(args, spread, &there, asked([100, 100], [100, 100]))
    };
    assert_eq!(one(1), 25);
    assert!(one(5) > one(1), "a wider distribution has more near 0");
    assert_eq!(one(0), one(5));
    // The limits of the others are three quarters, so that a quarter of them is requested.
    let limited = [asked([1000, 3000], [0, 0])];
    let args = json!({"smoothingWindowSize": 1, "riskLimitWeights": {"cpu": 0}});
    assert_eq!(low_risk(args, spread, &limited, asked([100, 100], [100, 100])), 33);
}

/// The risk as scheduler-plugins states it, with an integral in place of the beta function.
fn naive_risk(
    capacity: i64,
    there: [i64; 2],
    pod: [i64; 2],
    measured: [f64; 2],
    weight: f64,
) -> f64 {
    let capacity = capacity as f64;
    let [mut others, other_limits] = there.map(|amount| amount as f64);
    let other_limits = other_limits.max(others);
    let limits = other_limits + (pod[1] as f64).max(pod[0] as f64);
    let requests = (others + pod[0] as f64).min(capacity);
    others = others.min(capacity);
    let by_limit = if limits > capacity { (limits - capacity) / (limits - requests) } else { 0.0 };
    let mean = measured[0] / 100.0;
    let most = 0.99 * mean * (1.0 - mean);
    let deviation = (measured[1] / 100.0 * 5.0_f64.sqrt()).min(most.sqrt());
    let shapes = mean * (1.0 - mean) / (deviation * deviation) - 1.0;
    let below = |x: f64| match x {
        1.0 => 1.0,
        0.0 => 0.0,
        _ => beta::tests::integrated(mean * shapes, (1.0 - mean) * shapes, x),
    };
    let mut within = below(others / capacity);
    if other_limits < capacity {
        within = match other_limits {
            0.0 => 1.0,
            some if below(some / capacity) > 0.0 => (within / below(some / capacity)).min(1.0),
            _ => within,
        };
    }
    weight * by_limit + (1.0 - weight) * (1.0 - within)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    #[test]
    fn risk_agrees_with_a_naive_model(
        cpu in (0i64..5000, 0i64..6000), memory in (0i64..5000, 0i64..6000),
        pod_cpu in (1i64..3000, 0i64..4000), pod_memory in (1i64..3000, 0i64..4000),
        means in (30.0..70.0_f64, 30.0..70.0_f64), deviations in (0.5..12.0_f64, 0.5..12.0_f64),
        weight in 0.0..1.0_f64,
    ) {
        let there = Asked { cpu: cpu.into(), memory: memory.into() };
        let pod = Asked { cpu: pod_cpu.into(), memory: pod_memory.into() };
        let args = json!({"riskLimitWeights": {"cpu": weight, "memory": weight}});
        let own = low_risk(args, ([means.0, deviations.0], [means.1, deviations.1]), &[there], pod);
        let by_cpu = naive_risk(4000, there.cpu, pod.cpu, [means.0, deviations.0], weight);
        let by_memory = naive_risk(4096, there.memory, pod.memory, [means.1, deviations.1], weight);
        let expected = (1.0 - by_cpu.max(by_memory)) * 100.0;
        proptest::prop_assert!((own as f64 - expected).abs() < 0.51, "{own} {expected}");
    }
}

/// A harness of LoadAwareScheduling in which all nodes are measured.
fn load_aware(args: Value, cpu: [&str; 3]) -> Harness {
    let harness = harness(load_aware_scheduling::NAME, args);
    ["a", "b", "c"]
        .into_iter()
        .zip(cpu)
        .fold(harness, |harness, (name, cpu)| harness.object(KIND, metrics(name, NOON, cpu, "1Gi")))
}

fn rejections(harness: &Harness, pod: &Pod) -> [String; 3] {
    let run = harness.run(pod);
    assert_eq!(harness.ranking_problem(pod), None);
    ["a", "b", "c"].map(|name| run.verdicts[name].message().to_owned())
}

const HOT: &str = "node(s) cpu usage exceed threshold";
const FULL: &str = "node(s) memory usage exceed threshold";

#[test]
fn nodes_above_a_threshold_take_no_pod() {
    // The pod is expected to use 0.85 CPUs, and 0.7 GiB. A node gives 8 CPUs and 8 GiB.
    let harness =
        load_aware(json!({}), ["4.35", "4.4", "1"]).object(KIND, metrics("c", NOON, "1", "6.95Gi"));
    let p = pod(&harness, "p", &json!({}));
    assert_eq!(rejections(&harness, &p), ["", HOT, FULL]);
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]);
    let mut of_daemon_set = json!({"metadata": {"name": "d", "ownerReferences": owner}});
    of_daemon_set["spec"] = json!({"containers": [{"name": "c"}]});
    let run = harness.run(&harness.pod_from_json(&of_daemon_set));
    assert_eq!(run.feasible(), ["a", "b", "c"]);
    let other = json!({"usageThresholds": {"cpu": 64}});
    let harness =
        load_aware(other, ["4.35", "4.2", "1"]).object(KIND, metrics("c", NOON, "1", "8Gi"));
    assert_eq!(rejections(&harness, &pod(&harness, "p", &json!({}))), [HOT, "", ""]);
}

#[test]
fn requests_count_until_a_node_is_measured() {
    let harness = load_aware(json!({}), ["0", "0", "0"]);
    let heavy = |harness: &Harness, name: &str, node: &str, started: Option<&str>| {
        let amounts = json!({"cpu": "6", "memory": "1Gi"});
        let container = json!({"name": "c", "resources": {"requests": amounts}});
        harness.pod_from_json(&json!({"metadata": {"name": name, "uid": name},
            "spec": {"nodeName": node, "containers": [container]}, "status": {"startTime": started}}))
    };
    let pods = [
        heavy(&harness, "measured", "a", Some("2026-11-22T11:00:00Z")),
        heavy(&harness, "new", "b", Some("2026-11-22T11:59:30Z")),
        heavy(&harness, "assumed", "c", None),
    ];
    let harness = pods.into_iter().fold(harness, Harness::pod);
    let p = pod(&harness, "p", &json!({}));
    assert_eq!(rejections(&harness, &p), ["", HOT, HOT]);
    // All measurements expire.
    let late = harness.at(at("2026-11-22T12:03:10Z"));
    assert_eq!(rejections(&late, &p), [HOT, HOT, HOT]);
}

#[test]
fn usage_of_a_pod_is_a_share_of_its_request_or_limit() {
    // A node gives 8 CPUs, of which the pod uses the share that the score shows.
    let used = |resources: Value| {
        let args = json!({"resourceWeights": {"cpu": 1}});
        let harness = load_aware(args, ["0", "0", "0"]);
        let object = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}});
        harness.run(&harness.pod_from_json(&object)).scores["a"]
    };
    for (resources, expected) in [
        (json!({"requests": {"cpu": "2"}}), 78),
        (json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}), 78),
        (json!({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}), 57),
        (json!({}), 96),
    ] {
        assert_eq!(used(resources.clone()), expected, "{resources}");
    }
}

#[test]
fn lowest_load_scores_highest() {
    // With the pod: 1.85, 2.85 and 0.85 of 8 CPUs, and 1.7 of 8 GiB.
    let one = |args: Value| scores(&load_aware(args, ["1", "2", "0"]));
    assert_eq!(one(json!({})), [77, 71, 83]);
    assert_eq!(one(json!({"resourceWeights": {"cpu": 1}})), [76, 64, 89]);
    assert_eq!(
        one(json!({"resourceWeights": {"cpu": 1, "memory": 1}, "dominantResourceWeight": 2})),
        [76, 67, 80]
    );
}

#[test]
fn change_of_a_node_wakes_a_pod_that_it_now_takes() {
    let kind = || EventResource::Custom(KIND.into());
    let p = |harness: &Harness| pod(harness, "p", &json!({}));
    let hint = |cpu: &str| {
        let harness = load_aware(json!({}), [cpu, "6", "6"]);
        let object: Object = testkit::object(kind(), metrics("a", NOON, cpu, "1Gi"));
        let event = ClusterEvent::new(kind(), ActionType::UPDATE);
        let objects = EventObjects::Other { old: None, new: Some(&object) };
        harness.hint(&p(&harness), &event, objects)
    };
    assert_eq!(hint("1"), Some(QueueingHint::Queue));
    assert_eq!(hint("5"), Some(QueueingHint::Skip));
    for (cpu, expected) in [("1", QueueingHint::Queue), ("5", QueueingHint::Skip)] {
        let harness = load_aware(json!({}), [cpu, "6", "6"]);
        let gone = asking(&harness, "g", Asked { cpu: [1, 1], memory: [1, 1] }, Some("a"));
        let event = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
        let objects = EventObjects::Pod { old: Some(&gone), new: None };
        assert_eq!(harness.hint(&p(&harness), &event, objects), Some(expected));
        let node: Node = testkit::node("a").build();
        let event = ClusterEvent::new(EventResource::Node, ActionType::ADD);
        let objects = EventObjects::Node { old: None, new: Some(&node) };
        assert_eq!(harness.hint(&p(&harness), &event, objects), Some(expected));
    }
}

#[test]
fn expired_measurement_is_reported_while_pods_are_pending() {
    let harness = load_aware(json!({}), ["6", "6", "6"])
        .object(KIND, metrics("b", "2026-11-22T12:00:25Z", "6", "1Gi"));
    // Steps of ten seconds begin after 180 seconds.
    let harness = harness.at(at("2026-11-22T12:03:10Z"));
    assert!(harness.fire(0).is_empty(), "no pod is pending");
    let p = pod(&harness, "p", &json!({}));
    let harness = harness.pending(p);
    let reported = |commands: &[Command]| -> Vec<String> {
        let names = commands.iter().filter_map(|command| match command {
            Command::ObjectChanged(update) => Some(update.new.as_ref()?.name().to_string()),
            _ => None,
        });
        names.collect()
    };
    let timer = |commands: &[Command]| {
        commands.iter().find_map(|command| match command {
            Command::SetTimer { at, .. } => Some(*at),
            _ => None,
        })
    };
    let commands = harness.fire(0);
    assert_eq!(reported(&commands), ["a", "c"]);
    assert_eq!(timer(&commands), Some(at("2026-11-22T12:03:30Z")));
    let harness = harness.at(at("2026-11-22T12:03:30Z"));
    let commands = harness.fire(0);
    assert_eq!((reported(&commands), timer(&commands)), (vec!["b".to_owned()], None));
}

#[test]
fn arguments_of_load_aware_scheduling_are_checked() {
    let error = |args| made(load_aware_scheduling::NAME, args).map(|_| ()).unwrap_err();
    let thresholds = |thresholds: Value| error(json!({"usageThresholds": thresholds}));
    assert!(
        thresholds(json!({"cpu": 101})).starts_with("usageThresholds[cpu]: Invalid value: 101")
    );
    assert!(thresholds(json!({"gpu": 1})).contains("only cpu and memory are measured"));
    assert!(
        error(json!({"estimatedScalingFactors": {"cpu": 0}})).contains("must be from 1 to 100")
    );
    assert_eq!(error(json!({"aggregated": {}})), "unknown field `aggregated`");
    let args = json!({"nodeMetricExpirationSeconds": 60, "filterExpiredNodeMetrics": true});
    let plugin = made(load_aware_scheduling::NAME, args).unwrap();
    assert!(plugin.notes[0].starts_with("filterExpiredNodeMetrics has no effect: "));
    let args = plugin.args.unwrap();
    assert_eq!(args["maximumAgeSeconds"], 60);
    assert_eq!(args["usageThresholds"], json!({"cpu": 65, "memory": 95}));
    assert_eq!(args["estimatedScalingFactors"], json!({"cpu": 85, "memory": 70}));
}
