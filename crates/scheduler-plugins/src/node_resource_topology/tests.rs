use framework::{Code, EventObjects, Object, Overlay, QueueingHint};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{Harness, node, object};

use super::*;

fn harness(args: Value) -> Harness {
    Harness::new(plugin(&PluginArgs::new(args)).unwrap())
}

fn big_node(name: &str) -> framework::Node {
    node(name)
        .allocatable("cpu", "64")
        .allocatable("memory", "256Gi")
        .allocatable("example.com/gpu", "8")
        .allocatable("example.com/license", "8")
        .build()
}

/// A zone with CPUs, GiB of memory and GPUs, of twice as many that there are.
fn zone(id: u32, cpu: i64, memory: i64, gpus: i64) -> Value {
    let resource = |name: &str, available: String, capacity: String| json!({"name": name, "available": available, "allocatable": capacity, "capacity": capacity});
    json!({
        "name": format!("node-{id}"),
        "type": "Node",
        "costs": [{"name": "node-0", "value": if id == 0 { 10 } else { 20 }},
            {"name": "node-1", "value": if id == 1 { 10 } else { 20 }}],
        "resources": [
            resource("cpu", cpu.to_string(), "16".to_owned()),
            resource("memory", format!("{memory}Gi"), "64Gi".to_owned()),
            resource("example.com/gpu", gpus.to_string(), "4".to_owned()),
        ],
    })
}

fn topology(name: &str, policy: &str, zones: &[Value]) -> Value {
    json!({
        "metadata": {"name": name},
        "attributes": [{"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": "container"}],
        "zones": zones,
    })
}

fn with_scope(mut topology: Value, scope: &str) -> Value {
    topology["attributes"][1]["value"] = json!(scope);
    topology
}

fn with_fingerprint(mut topology: Value, pods: &[&Pod]) -> Value {
    let text = fingerprint::of(pods.iter().copied());
    let attributes = topology["attributes"].as_array_mut().unwrap();
    attributes.push(json!({"name": "nodeTopologyPodsFingerprint", "value": text}));
    topology
}

/// A container with equal requests and limits.
fn container(cpu: i64, memory: i64, gpus: i64) -> Value {
    let mut amounts = json!({"cpu": cpu.to_string(), "memory": format!("{memory}Gi")});
    if gpus > 0 {
        amounts["example.com/gpu"] = json!(gpus.to_string());
    }
    json!({"name": "c", "resources": {"requests": amounts, "limits": amounts}})
}

fn init(cpu: i64, memory: i64, is_sidecar: bool) -> Value {
    let mut init = container(cpu, memory, 0);
    if is_sidecar {
        init["restartPolicy"] = json!("Always");
    }
    init
}

fn pod_json(name: &str, inits: Vec<Value>, containers: Vec<Value>) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"initContainers": inits, "containers": containers}})
}

fn guaranteed(harness: &Harness, containers: Vec<Value>) -> Pod {
    harness.pod_from_json(&pod_json("p", Vec::new(), containers))
}

/// Returns the verdict on a node with these zones.
fn verdict(topology: Value, inits: Vec<Value>, containers: Vec<Value>) -> String {
    verdict_with(json!({}), topology, inits, containers)
}

fn verdict_with(args: Value, topology: Value, inits: Vec<Value>, containers: Vec<Value>) -> String {
    let harness = harness(args).node(big_node("a")).object(KIND, topology);
    let pod = harness.pod_from_json(&pod_json("p", inits, containers));
    let run = harness.run(&pod);
    assert_eq!(harness.ranking_problem(&pod), None);
    run.verdicts["a"].message().to_owned()
}

const SINGLE: &str = "single-numa-node";

#[test]
fn one_numa_node_has_to_have_all_that_a_container_asks_for() {
    let two = || vec![zone(0, 4, 8, 0), zone(1, 2, 32, 2)];
    let on = |scope: &str| with_scope(topology("a", SINGLE, &two()), scope);
    for (scope, containers, expected) in [
        ("container", vec![container(4, 8, 0)], ""),
        ("container", vec![container(2, 32, 2)], ""),
        ("container", vec![container(4, 32, 0)], "cannot align container"),
        ("container", vec![container(3, 8, 1)], "cannot align container"),
        // The first container takes the first NUMA node that fits.
        ("container", vec![container(3, 1, 0), container(2, 1, 0)], ""),
        ("container", vec![container(1, 1, 0), container(3, 7, 0)], ""),
        ("container", vec![container(2, 1, 0), container(3, 1, 0)], "cannot align container"),
        ("pod", vec![container(2, 1, 0), container(2, 1, 0)], ""),
        ("pod", vec![container(3, 1, 0), container(2, 1, 0)], "cannot align pod"),
    ] {
        assert_eq!(verdict(on(scope), Vec::new(), containers.clone()), expected, "{containers:?}");
    }
}

#[test]
fn init_containers_end_and_sidecars_stay() {
    let one = || topology("a", SINGLE, &[zone(0, 4, 8, 0)]);
    let app = || vec![container(3, 1, 0)];
    for (inits, containers, expected) in [
        (vec![init(4, 8, false)], app(), ""),
        (vec![init(5, 1, false)], app(), "cannot align init container"),
        (vec![init(5, 1, true)], app(), "cannot align init container"),
        (vec![init(1, 1, true)], app(), ""),
        (vec![init(2, 1, true)], app(), "cannot align container"),
        (vec![init(1, 1, true), init(4, 1, false)], app(), "cannot align init container"),
        (vec![init(4, 1, false), init(1, 1, true)], app(), ""),
    ] {
        let scoped = |scope| verdict(with_scope(one(), scope), inits.clone(), containers.clone());
        assert_eq!(scoped("container"), expected, "{inits:?}");
        let whole = if expected.is_empty() { "" } else { "cannot align pod" };
        assert_eq!(scoped("pod"), whole, "{inits:?}");
    }
}

#[test]
fn resources_without_numa_nodes_do_not_count() {
    let one = || topology("a", SINGLE, &[zone(0, 4, 8, 0)]);
    let with = |name: &str, amount: &str| {
        let mut container = container(1, 1, 0);
        for list in ["requests", "limits"] {
            container["resources"][list][name] = json!(amount);
        }
        vec![container]
    };
    for (name, amount, expected) in [
        ("example.com/license", "1", ""),
        ("example.com/unknown", "1", "cannot align container"),
        ("ephemeral-storage", "1Gi", ""),
        ("hugepages-2Mi", "2Mi", "cannot align container"),
        ("example.com/gpu", "1", "cannot align container"),
    ] {
        assert_eq!(verdict(one(), Vec::new(), with(name, amount)), expected, "{name}");
    }
}

#[test]
fn only_devices_of_pods_that_are_not_guaranteed_count() {
    let harness = harness(json!({}))
        .node(big_node("a"))
        .object(KIND, topology("a", SINGLE, &[zone(0, 1, 1, 2)]));
    let burstable = |gpus: i64| {
        let mut container = container(8, 8, gpus);
        container["resources"]["limits"] = json!({});
        if gpus > 0 {
            container["resources"]["limits"] = json!({"example.com/gpu": gpus.to_string()});
        }
        harness.run(&guaranteed(&harness, vec![container])).verdicts["a"].clone()
    };
    assert!(burstable(0).is_success() && burstable(2).is_success());
    assert_eq!(burstable(3).message(), "cannot align container");
    assert_eq!(burstable(3).code(), Code::Unschedulable);
    let none = guaranteed(&harness, vec![json!({"name": "c"})]);
    assert!(harness.run(&none).verdicts["a"].is_success());
}

#[test]
fn other_policies_are_filtered_on_request() {
    let two = || [zone(0, 4, 8, 1), zone(1, 4, 8, 1)];
    let all = || json!({"filterPolicies": ["single-numa-node", "restricted", "best-effort"]});
    let one = |args: Value, policy: &str, containers: Vec<Value>| {
        verdict_with(args, topology("a", policy, &two()), Vec::new(), containers)
    };
    for policy in ["restricted", "best-effort"] {
        assert_eq!(one(json!({}), policy, vec![container(8, 8, 0)]), "");
        // A NUMA node has 16 CPUs, so that 8 are to come from one.
        assert_eq!(one(all(), policy, vec![container(8, 8, 0)]), "cannot align container");
        assert_eq!(one(all(), policy, vec![container(4, 8, 0)]), "");
    }
    assert_eq!(one(all(), "none", vec![container(32, 8, 0)]), "");
    // 20 CPUs need two NUMA nodes anyway, but the memory needs one.
    let empty = topology("a", "restricted", &[zone(0, 16, 64, 4), zone(1, 16, 64, 4)]);
    let wide = |memory, gpus| {
        verdict_with(all(), empty.clone(), Vec::new(), vec![container(20, memory, gpus)])
    };
    assert_eq!(wide(8, 0), "cannot align container");
    assert_eq!(wide(100, 0), "");
    assert_eq!(wide(100, 1), "cannot align container");
    assert_eq!(wide(100, 6), "");
}

#[test]
fn node_without_data_is_accepted_or_rejected() {
    for (args, expected, code) in [
        (json!({}), "", Code::Success),
        (
            json!({"nodesWithoutTopology": "Reject"}),
            "node has no topology data",
            Code::UnschedulableAndUnresolvable,
        ),
    ] {
        let harness = harness(args).node(big_node("a"));
        let run = harness.run(&guaranteed(&harness, vec![container(1, 1, 0)]));
        assert_eq!(
            (run.verdicts["a"].message(), run.verdicts["a"].code()),
            (expected.into(), code)
        );
        if code == Code::Success {
            assert_eq!(run.scores["a"], 0);
        }
    }
}

fn score(args: Value, topology: Value, containers: Vec<Value>) -> i64 {
    let harness = harness(args).node(big_node("a")).object(KIND, topology);
    harness.run(&guaranteed(&harness, containers)).scores["a"]
}

fn by(strategy: &str) -> Value {
    json!({"scoringStrategy": {"type": strategy}})
}

#[test]
fn worst_numa_node_that_fits_decides() {
    let two = || topology("a", SINGLE, &[zone(0, 8, 16, 0), zone(1, 4, 16, 0)]);
    for (strategy, expected) in [
        // cpu 75 and memory 75; cpu 50 and memory 75.
        ("LeastAllocated", 62),
        // cpu 25 and memory 25; cpu 50 and memory 25.
        ("MostAllocated", 25),
        // Variance 0; variance of 0.5 and 0.25.
        ("BalancedAllocation", 96),
    ] {
        assert_eq!(score(by(strategy), two(), vec![container(2, 4, 0)]), expected, "{strategy}");
    }
    // The second NUMA node does not fit for the CPU; its memory counts all the same.
    assert_eq!(score(by("LeastAllocated"), two(), vec![container(6, 4, 0)]), 37);
    let weighted = json!({"scoringStrategy": {"type": "LeastAllocated",
        "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}]}});
    assert_eq!(score(weighted, two(), vec![container(2, 4, 0)]), (50 * 3 + 75) / 4);
}

#[test]
fn containers_are_scored_one_by_one_or_together() {
    let one = || topology("a", SINGLE, &[zone(0, 8, 16, 0)]);
    let containers = || vec![container(4, 8, 0), container(2, 4, 0)];
    assert_eq!(score(by("LeastAllocated"), one(), containers()), (50 + 75) / 2);
    assert_eq!(score(by("LeastAllocated"), with_scope(one(), "pod"), containers()), 25);
    let restricted = || topology("a", "restricted", &[zone(0, 8, 16, 0)]);
    assert_eq!(score(by("LeastAllocated"), restricted(), containers()), 0);
}

#[test]
fn fewest_and_closest_numa_nodes_score_highest() {
    let two = |policy: &str| topology("a", policy, &[zone(0, 8, 16, 0), zone(1, 8, 16, 0)]);
    let fewest = |topology, cpu| score(by("LeastNUMANodes"), topology, vec![container(cpu, 4, 0)]);
    // 100 / 8 = 12 for each NUMA node, and 6 for the shortest distance.
    assert_eq!(fewest(two("none"), 8), 100 - 12 + 6);
    assert_eq!(fewest(two("best-effort"), 12), 100 - 24 + 6);
    assert_eq!(fewest(with_scope(two("none"), "pod"), 12), 100 - 24 + 6);
    assert_eq!(fewest(two("none"), 20), 0);
    let far = |id: u32, others: [i64; 3]| {
        let mut zone = zone(id, 8, 16, 0);
        let costs = others.iter().enumerate();
        let costs = costs.map(|(to, cost)| json!({"name": format!("node-{to}"), "value": cost}));
        zone["costs"] = costs.collect::<Vec<_>>().into();
        zone
    };
    let mut three = [far(0, [10, 12, 30]), far(1, [12, 10, 30]), far(2, [30, 30, 10])];
    assert_eq!(fewest(topology("a", "none", &three), 12), 100 - 24 + 6);
    // The close pair has no room left.
    three[1]["resources"][0]["available"] = json!("1");
    assert_eq!(fewest(topology("a", "none", &three), 12), 100 - 24);
}

#[test]
fn many_numa_nodes_are_scored_in_bounded_time() {
    let zones: Vec<Value> = (0..64).map(|id| zone(id, 2, 16, 0)).collect();
    let mut wide = topology("a", "none", &zones);
    wide["attributes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "topologyManagerMaxNUMANodes", "value": "64"}));
    let score = score(by("LeastNUMANodes"), wide, vec![container(60, 4, 0)]);
    assert!((70..=71).contains(&score), "{score}");
}

#[test]
fn pods_that_are_not_guaranteed_score_100_everywhere() {
    let harness = harness(json!({})).node(big_node("a"));
    let pod = guaranteed(&harness, vec![json!({"name": "c"})]);
    assert_eq!(harness.run(&pod).scores["a"], 100);
}

/// A harness with over-reservation whose pods are those of the scheduler `default-scheduler`.
fn reserving(more: &Value) -> Harness {
    let mut args = json!({"cacheResyncPeriodSeconds": 5, "cache": {}});
    args["cache"] = more.clone();
    harness(args).node(big_node("a"))
}

fn placed(harness: &Harness, name: &str, scheduler: &str, cpu: i64, started: bool) -> Pod {
    let mut json = pod_json(name, Vec::new(), vec![container(cpu, 1, 0)]);
    json["spec"]["nodeName"] = json!("a");
    json["spec"]["schedulerName"] = json!(scheduler);
    if started {
        json["status"] = json!({"startTime": "2026-01-01T00:00:00Z"});
    }
    harness.pod_from_json(&json)
}

const OWN: &str = "default-scheduler";

fn feasible(harness: &Harness, cpu: i64) -> bool {
    let mut json = pod_json("p", Vec::new(), vec![container(cpu, 1, 0)]);
    json["spec"]["schedulerName"] = json!(OWN);
    harness.run(&harness.pod_from_json(&json)).verdicts["a"].is_success()
}

#[test]
fn assumed_pods_are_subtracted_from_every_numa_node_until_the_report_has_them() {
    let zones = [zone(0, 8, 32, 0), zone(1, 8, 32, 0)];
    let report =
        |pods: &[&Pod], zones: &[Value]| with_fingerprint(topology("a", SINGLE, zones), pods);
    let harness = reserving(&json!({})).object(KIND, report(&[], &zones));
    assert!(feasible(&harness, 8));
    // Assumed, then started: the report does not have it.
    let first = placed(&harness, "first", OWN, 6, false);
    let harness = harness.pod(first.clone());
    assert!(feasible(&harness, 2) && !feasible(&harness, 3));
    // A report of other pods changes nothing.
    let other = placed(&harness, "other", OWN, 1, true);
    let harness = harness.object(KIND, report(&[&other], &zones));
    assert!(feasible(&harness, 2) && !feasible(&harness, 3));
    // The report has it: 6 CPUs are taken from one NUMA node.
    let taken = [zone(0, 2, 31, 0), zone(1, 8, 32, 0)];
    let harness = harness.object(KIND, report(&[&first], &taken));
    assert!(feasible(&harness, 8));
}

#[test]
fn pods_of_other_schedulers_make_the_report_stale_until_it_has_them() {
    let zones = [zone(0, 8, 32, 0)];
    let stale = |cache: Value| {
        let harness =
            reserving(&cache).object(KIND, with_fingerprint(topology("a", SINGLE, &zones), &[]));
        assert!(feasible(&harness, 8));
        let foreign = placed(&harness, "foreign", "other", 4, true);
        let harness = harness.pod(foreign.clone());
        let is_stale = !feasible(&harness, 1);
        let now = [zone(0, 4, 31, 0)];
        let report = with_fingerprint(topology("a", SINGLE, &now), &[&foreign]);
        let harness = harness.object(KIND, report);
        assert!(feasible(&harness, 4) && !feasible(&harness, 5));
        is_stale
    };
    assert!(stale(json!({})));
    assert!(stale(json!({"foreignPodsDetect": "OnlyExclusiveResources"})));
    assert!(!stale(json!({"foreignPodsDetect": "None"})));
}

#[test]
fn report_without_fingerprint_has_the_pods_that_have_started() {
    let zones = [zone(0, 8, 32, 0)];
    let harness = reserving(&json!({})).object(KIND, topology("a", SINGLE, &zones));
    assert!(feasible(&harness, 8));
    let pods = ["started", "assumed"].map(|name| placed(&harness, name, OWN, 2, name == "started"));
    let [started, assumed] = pods;
    let harness = harness.pod(started).pod(assumed);
    assert!(feasible(&harness, 4) && !feasible(&harness, 5));
    let harness = harness.object(KIND, topology("a", SINGLE, &[zone(0, 6, 31, 0)]));
    assert!(feasible(&harness, 4) && !feasible(&harness, 5));
}

#[test]
fn other_configuration_of_the_kubelet_counts_at_once() {
    let zones = [zone(0, 8, 32, 0), zone(1, 8, 32, 0)];
    for (cache, expected) in [(json!({}), true), (json!({"resyncScope": "OnlyResources"}), false)] {
        let harness =
            reserving(&cache).object(KIND, with_fingerprint(topology("a", SINGLE, &zones), &[]));
        assert!(!feasible(&harness, 12));
        let unknown = placed(&harness, "unknown", OWN, 1, true);
        let report = with_fingerprint(topology("a", "none", &zones), &[&unknown]);
        assert_eq!(feasible(&harness.object(KIND, report), 12), expected);
    }
}

/// Whether a pod of so many CPUs fits without the victims, which are on the node `a`.
fn fits_without(harness: &Harness, plugin: &Plugin, cpu: i64, victims: &[&str]) -> bool {
    let mut json = pod_json("p", Vec::new(), vec![container(cpu, 1, 0)]);
    json["spec"]["schedulerName"] = json!(OWN);
    let pod = harness.pod_from_json(&json);
    let (mut state, handle) = (framework::CycleState::new(), harness.handle());
    let pre_filter = plugin.pre_filter.as_ref().unwrap();
    pre_filter.pre_filter(AttemptMut::new(&mut state, &pod, &handle)).unwrap();
    let cluster = handle.cluster;
    let node = cluster.node(cluster.node_named("a").unwrap());
    let mut overlay = Overlay::default();
    for (pod, _) in node.placed().filter(|(_, pod)| victims.contains(&&*pod.key.name)) {
        overlay.remove(cluster, pod);
    }
    let filter = plugin.filter.as_ref().unwrap();
    filter.filter(&Attempt::new(&state, &pod, &handle), &node.with(&overlay)).is_success()
}

#[test]
fn victims_leave_their_room_where_they_may_lie() {
    let args = |mode: &str| json!({"cacheResyncPeriodSeconds": 5, "preemptionMode": mode});
    let with = |mode: &str, policy: &str, pods: &[(&str, i64)], free: [i64; 2]| {
        let harness = harness(args(mode)).node(big_node("a"));
        let pods: Vec<Pod> =
            pods.iter().map(|(name, cpu)| placed(&harness, name, OWN, *cpu, true)).collect();
        let all: Vec<&Pod> = pods.iter().collect();
        // A NUMA node has 16 CPUs.
        let zones = [zone(0, free[0], 60, 0), zone(1, free[1], 60, 0)];
        let report = with_fingerprint(topology("a", policy, &zones), &all);
        pods.iter().fold(harness, |harness, pod| harness.pod(pod.clone())).object(KIND, report)
    };
    let fits = |mode: &str, harness: &Harness, cpu: i64, victims: &[&str]| {
        let plugin = plugin(&PluginArgs::new(args(mode))).unwrap();
        fits_without(harness, &plugin, cpu, victims)
    };
    let one = with("Enabled", SINGLE, &[("x", 12), ("y", 4)], [4, 12]);
    assert!(!fits("Enabled", &one, 16, &[]));
    // Only the first NUMA node has 12 CPUs in use, and `y` may lie on either.
    assert!(fits("Enabled", &one, 16, &["x"]));
    assert!(!fits("Enabled", &one, 16, &["y"]));
    let two = with("Enabled", SINGLE, &[("x", 8), ("y", 8)], [8, 8]);
    // Wherever a pod of 8 CPUs was, 16 are free then.
    assert!(fits("Enabled", &two, 16, &["x"]) && fits("Enabled", &two, 16, &["x", "y"]));
    assert!(!fits("Enabled", &two, 9, &[]));
    assert!(!fits("Disabled", &one, 16, &["x"]));
    // A pod that the report does not have is not subtracted when it goes.
    let late = placed(&two, "late", OWN, 12, false);
    let late = two.pod(late);
    assert!(!fits("Enabled", &late, 16, &["x"]) && fits("Enabled", &late, 16, &["x", "late"]));
}

#[test]
fn reserved_node_takes_no_pod_until_the_bind() {
    let discarding = harness(json!({"discardReservedNodes": true, "cacheResyncPeriodSeconds": 5}))
        .node(big_node("a"))
        .object(KIND, topology("a", SINGLE, &[zone(0, 8, 32, 0)]));
    let pod = guaranteed(&discarding, vec![container(1, 1, 0)]);
    assert!(discarding.run(&pod).verdicts["a"].is_success());
    let commit = discarding.commit(&pod, "a");
    assert_eq!(discarding.run(&pod).verdicts["a"].message(), "invalid node topology data");
    let commands = discarding.post_bind(&pod, "a");
    assert!(matches!(&commands[..], [Command::ObjectChanged(_)]), "{commands:?}");
    assert!(discarding.run(&pod).verdicts["a"].is_success());
    drop(discarding.undo(&pod, "a", commit));
    assert!(discarding.ranking_problem(&pod).unwrap().contains("scope Cluster"));
}

#[test]
fn report_and_deleted_pod_wake_a_pod_that_now_fits() {
    let kind = || EventResource::Custom(KIND.into());
    let changed = ClusterEvent::new(kind(), ActionType::UPDATE);
    let hint = |cpu: i64| {
        let report = topology("a", SINGLE, &[zone(0, cpu, 32, 0)]);
        let harness = harness(json!({})).node(big_node("a")).object(KIND, report.clone());
        let pod = guaranteed(&harness, vec![container(4, 1, 0)]);
        let object: Object = object(kind(), report);
        harness.hint(&pod, &changed, EventObjects::Other { old: None, new: Some(&object) })
    };
    assert_eq!(hint(4), Some(QueueingHint::Queue));
    assert_eq!(hint(3), Some(QueueingHint::Skip));

    let harness = reserving(&json!({})).object(KIND, topology("a", SINGLE, &[zone(0, 4, 32, 0)]));
    let pod = guaranteed(&harness, vec![container(4, 1, 0)]);
    let gone = placed(&harness, "gone", OWN, 1, true);
    let deleted = ClusterEvent::new(EventResource::Pod, ActionType::DELETE);
    let objects = EventObjects::Pod { old: Some(&gone), new: None };
    assert_eq!(harness.hint(&pod, &deleted, objects), Some(QueueingHint::Queue));
}

#[test]
fn wrong_arguments_are_reported() {
    let error = |args| plugin(&PluginArgs::new(args)).map(|_| ()).unwrap_err();
    assert_eq!(
        error(json!({"scoringStrategy": {"type": "Spread"}})),
        "scoringStrategy.type: Invalid value: \"Spread\": invalid ScoringStrategyType"
    );
    assert!(error(json!({"preemptionMode": "On"})).starts_with("preemptionMode: Invalid value"));
    assert!(error(json!({"filterPolicies": ["none"]})).starts_with("filterPolicies[0]: "));
    assert!(error(json!({"cache": {"mode": "x"}})).starts_with("unknown field `mode`"));
    let made = plugin(&PluginArgs::new(json!({"preemptionMode": "Enabled"}))).unwrap();
    assert!(made.notes[0].starts_with("preemptionMode Enabled has no effect"), "{:?}", made.notes);
    assert_eq!(made.args.unwrap()["scoringStrategy"]["resources"][1]["weight"], 1);
}

/// The resources of the naive kubelet: CPUs, GiB of memory, GPUs.
type Amounts = [i64; 3];

#[derive(Debug, Clone)]
struct NaiveZone {
    capacity: Amounts,
    available: Amounts,
}

/// The hints of a kubelet for one resource: sets of NUMA nodes, and whether they are preferred.
fn hints(zones: &[NaiveZone], resource: usize, amount: i64) -> Option<Vec<(u32, bool)>> {
    if amount == 0 {
        return None;
    }
    let sum = |mask: u32, of: fn(&NaiveZone) -> &Amounts| -> i64 {
        let own = zones.iter().enumerate().filter(|(place, _)| mask & 1 << place != 0);
        own.map(|(_, zone)| of(zone)[resource]).sum()
    };
    let masks = 1..1u32 << zones.len();
    let holds = masks.clone().filter(|mask| sum(*mask, |zone| &zone.capacity) >= amount);
    let fewest = holds.map(u32::count_ones).min();
    let fits = masks.filter(|mask| sum(*mask, |zone| &zone.available) >= amount);
    Some(fits.map(|mask| (mask, Some(mask.count_ones()) == fewest)).collect())
}

/// Whether a kubelet admits a container: it merges a hint of each resource, and a merged hint is
/// preferred if all are, and are the same.
fn admits(zones: &[NaiveZone], asked: Amounts, is_single: bool) -> bool {
    let lists: Vec<_> =
        asked.iter().enumerate().filter_map(|(at, amount)| hints(zones, at, *amount)).collect();
    let mut merged = vec![(u32::MAX, true, None::<u32>)];
    for list in lists {
        let mut next = Vec::new();
        for (mask, preferred, first) in &merged {
            for (other, other_preferred) in &list {
                if is_single && other.count_ones() > 1 {
                    continue;
                }
                let same = first.is_none_or(|first| first == *other);
                next.push((mask & other, *preferred && *other_preferred && same, Some(*other)));
            }
        }
        merged = next;
    }
    merged.iter().any(|(mask, preferred, first)| first.is_none() || *mask != 0 && *preferred)
}

/// What a random node or container is made of.
#[derive(Debug, Clone)]
struct Mixed {
    amounts: [i64; 3],
    kind: u8,
}

fn mixed() -> impl Strategy<Value = Mixed> {
    (0i64..6, 0i64..6, 0i64..3, 0u8..12)
        .prop_map(|(cpu, memory, gpus, kind)| Mixed { amounts: [cpu, memory, gpus], kind })
}

/// A NUMA node, some of which do not list every resource.
fn mixed_zone(id: usize, Mixed { amounts: [cpu, memory, gpus], kind }: &Mixed) -> Value {
    let mut zone = zone(id as u32, *cpu, *memory, *gpus);
    let listed = zone["resources"].as_array_mut().unwrap();
    match kind {
        0 => drop(listed.remove(2)),
        1 => drop(listed.remove(0)),
        2 => listed.push(json!({"name": "hugepages-2Mi", "available": "4Mi", "capacity": "8Mi"})),
        _ => {}
    }
    zone
}

fn mixed_container(Mixed { amounts: [cpu, memory, gpus], kind }: &Mixed) -> Value {
    let mut container = container(*cpu, *memory, *gpus);
    let more = match kind {
        0 => Some("hugepages-2Mi"),
        1 => Some("example.com/license"),
        2 => Some("example.com/unknown"),
        3 => Some("ephemeral-storage"),
        _ => None,
    };
    for list in ["requests", "limits"] {
        if let Some(name) = more {
            container["resources"][list][name] = json!("2Mi");
        }
    }
    if *kind == 4 {
        container["resources"]["requests"]["cpu"] = json!("100m");
        container["resources"]["limits"]["cpu"] = json!("90");
    }
    container
}

proptest! {
    /// All nodes at once are filtered as each by itself, with and without what is kept of them.
    #[test]
    fn columns_agree_with_the_reports(
        nodes in prop::collection::vec(
            (prop::collection::vec(mixed(), 0..6), 0u8..8),
            1..5,
        ),
        pods in prop::collection::vec(prop::collection::vec(mixed(), 1..4), 1..4),
        rejects_missing: bool,
    ) {
        let missing = if rejects_missing { "Reject" } else { "Accept" };
        let args = json!({"nodesWithoutTopology": missing, "filterPolicies": [SINGLE, "restricted"]});
        let mut harness = harness(args.clone());
        for (place, (zones, kind)) in nodes.iter().enumerate() {
            let name = format!("n{place}");
            harness = harness.node(big_node(&name));
            let zones: Vec<Value> =
                zones.iter().enumerate().map(|(id, own)| mixed_zone(id, own)).collect();
            let policy = ["restricted", "none"].get(usize::from(*kind)).unwrap_or(&SINGLE);
            let scope = if kind % 2 == 0 { "pod" } else { "container" };
            if *kind != 7 {
                harness = harness.object(KIND, with_scope(topology(&name, policy, &zones), scope));
            }
        }
        let plugin = plugin(&PluginArgs::new(args)).unwrap();
        let (filter, handle) = (plugin.filter.as_ref().unwrap(), harness.handle());
        for containers in &pods {
            let (inits, apps): (Vec<_>, Vec<_>) =
                containers.iter().partition(|own| matches!(own.kind, 5 | 6));
            let inits = inits.into_iter().map(|own| {
                let mut init = mixed_container(own);
                if own.kind == 6 {
                    init["restartPolicy"] = json!("Always");
                }
                init
            });
            let apps = apps.into_iter().map(mixed_container);
            let pod = pod_json("p", inits.collect(), apps.collect());
            let pod = harness.pod_from_json(&pod);
            let state = framework::CycleState::new();
            let attempt = Attempt::new(&state, &pod, &handle);
            let alone = |ix: &framework::NodeIx| {
                filter.filter(&attempt, &handle.cluster.node(*ix)).is_success()
            };
            let expected: Vec<_> = handle.cluster.nodes().iter().filter(alone).collect();
            for _ in 0..2 {
                let mut taken = NodeBits::default();
                taken.copy_from(handle.cluster.nodes());
                filter.filter_set(&attempt, &mut taken).unwrap();
                prop_assert_eq!(taken.iter().collect::<Vec<_>>(), expected.clone());
            }
        }
    }

    /// A container passes exactly if a kubelet admits it.
    #[test]
    fn filter_agrees_with_the_kubelet(
        zones in prop::collection::vec((0i64..17, 1i64..65, 0i64..5), 1..5),
        (cpu, memory, gpus) in (1i64..40, 1i64..150, 0i64..10),
        is_single: bool,
    ) {
        let naive: Vec<NaiveZone> = zones
            .iter()
            .map(|(cpu, memory, gpus)| NaiveZone {
                capacity: [16, 64, 4],
                available: [*cpu, *memory, *gpus],
            })
            .collect();
        let shown: Vec<Value> = zones
            .iter()
            .enumerate()
            .map(|(id, (cpu, memory, gpus))| zone(id as u32, *cpu, *memory, *gpus))
            .collect();
        let policy = if is_single { SINGLE } else { "restricted" };
        let args = json!({"filterPolicies": [SINGLE, "restricted"]});
        let verdict =
            verdict_with(args, topology("a", policy, &shown), Vec::new(), vec![container(cpu, memory, gpus)]);
        let admitted = admits(&naive, [cpu, memory, gpus], is_single);
        prop_assert_eq!(verdict.is_empty(), admitted, "{}", verdict);
    }
}
