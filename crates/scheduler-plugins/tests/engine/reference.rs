//! Cases worked out from what scheduler-plugins documents and does, one table for each plugin.

use framework::{Plugin, PluginArgs, Registry, Time};
use serde_json::{Value, json};
use testkit::Harness;

const TOPOLOGIES: &str = "noderesourcetopologies.v1alpha2.topology.node.k8s.io";
const METRICS: &str = "nodes.v1beta1.metrics.k8s.io";
const NOON: &str = "2026-11-22T12:00:00Z";
const NIC: &str = "example.com/nic";

fn made(name: &str, args: Value) -> Result<Plugin, String> {
    let mut registry = Registry::new();
    loadmaster_scheduler_plugins::add_to(&mut registry);
    registry.get(name).unwrap()(&PluginArgs::new(args))
}

fn harness(name: &str, args: &Value) -> Harness {
    Harness::new(made(name, args.clone()).unwrap()).at(Time::parse_rfc3339(NOON).unwrap())
}

fn node(name: &str, amounts: &Value) -> Value {
    let mut all = json!({"pods": "110"});
    all.as_object_mut().unwrap().extend(amounts.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "status": {"capacity": all, "allocatable": all}})
}

/// A container with these limits, and equal requests.
fn equal(amounts: &Value) -> Value {
    json!({"name": "c", "resources": {"requests": amounts, "limits": amounts}})
}

fn with(requests: &Value, limits: &Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
}

fn pod_of(containers: &[Value], inits: &[Value]) -> Value {
    json!({"metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": containers, "initContainers": inits}})
}

fn cpu_memory(cpu: &str, memory: &str) -> Value {
    json!({"cpu": cpu, "memory": memory})
}

fn whole(cpu: &str, memory: &str) -> Value {
    equal(&cpu_memory(cpu, memory))
}

/// A NUMA node with these amounts available, of twice as many.
fn zone(id: u32, available: &Value) -> Value {
    let resources = available.as_object().unwrap().iter().map(|(name, amount)| {
        json!({"name": name, "capacity": "64Gi", "allocatable": "64Gi", "available": amount})
    });
    json!({"name": format!("node-{id}"), "type": "Node", "resources": resources.collect::<Vec<_>>()})
}

fn report(policy: &str, scope: &str, zones: &[Value]) -> Value {
    let attributes = [("topologyManagerPolicy", policy), ("topologyManagerScope", scope)];
    let attributes = attributes.map(|(name, value)| json!({"name": name, "value": value}));
    json!({"metadata": {"name": "a"}, "attributes": attributes, "zones": zones})
}

fn large() -> Value {
    json!({"cpu": "64", "memory": "256Gi", NIC: "8", "example.com/license": "8",
        "hugepages-2Mi": "64Mi", "ephemeral-storage": "100Gi"})
}

fn numa(args: &Value, report: Option<Value>) -> Harness {
    let harness = harness("NodeResourceTopologyMatch", args).node_from_json(&node("a", &large()));
    match report {
        Some(report) => harness.object(TOPOLOGIES, report),
        None => harness,
    }
}

#[test]
fn node_resource_topology_match_filters() {
    let zones = |amounts: &[(&str, &str)]| -> Vec<Value> {
        let own = |(id, (cpu, memory)): (u32, &(&str, &str))| zone(id, &cpu_memory(cpu, memory));
        (0..).zip(amounts).map(own).collect()
    };
    let two = || zones(&[("4", "8Gi"), ("4", "8Gi")]);
    let on = |scope: &str, zones: &[Value]| Some(report("single-numa-node", scope, zones));
    let more = |name: &str, amount: &str| {
        let mut amounts = cpu_memory("1", "1Gi");
        amounts[name] = json!(amount);
        equal(&amounts)
    };
    let socket = |mut zone: Value| {
        zone["type"] = json!("Socket");
        zone
    };
    let with_nics = || {
        let own = |id| zone(id, &json!({"cpu": "4", "memory": "8Gi", NIC: "1"}));
        [own(0), own(1)]
    };
    let deprecated =
        |name: &str| json!({"metadata": {"name": "a"}, "topologyPolicies": [name], "zones": two()});
    let sidecar = |cpu: &str| {
        let mut own = whole(cpu, "1Gi");
        own["restartPolicy"] = json!("Always");
        own
    };
    let burstable =
        |cpu: &str, nics: &str| with(&json!({"cpu": cpu, NIC: nics}), &json!({NIC: nics}));
    let (no_pod, no_container, no_init) =
        ("cannot align pod", "cannot align container", "cannot align init container");
    let none = Vec::new;
    type Case = (&'static str, Option<Value>, Vec<Value>, Vec<Value>, &'static str);
    let cases: Vec<Case> = vec![
        ("exact fit", on("container", &two()), vec![whole("4", "8Gi")], none(), ""),
        ("too much CPU", on("container", &two()), vec![whole("5", "1Gi")], none(), no_container),
        ("too much memory", on("container", &two()), vec![whole("1", "9Gi")], none(), no_container),
        (
            "pod together",
            on("pod", &two()),
            vec![whole("2", "1Gi"), whole("3", "1Gi")],
            none(),
            no_pod,
        ),
        (
            "containers apart",
            on("container", &two()),
            vec![whole("2", "1Gi"), whole("3", "1Gi")],
            none(),
            "",
        ),
        (
            "third has no room",
            on("container", &two()),
            vec![whole("3", "1Gi"); 3],
            none(),
            no_container,
        ),
        (
            "lowest id first",
            on("container", &zones(&[("4", "8Gi"), ("2", "8Gi")])),
            vec![whole("2", "1Gi"), whole("3", "1Gi")],
            none(),
            no_container,
        ),
        ("zero is dropped", on("container", &two()), vec![more(NIC, "0")], none(), ""),
        (
            "not on the node",
            on("container", &two()),
            vec![more("example.com/gpu", "1")],
            none(),
            no_container,
        ),
        (
            "device without NUMA nodes",
            on("container", &two()),
            vec![more("example.com/license", "1")],
            none(),
            "",
        ),
        (
            "ephemeral storage",
            on("container", &two()),
            vec![more("ephemeral-storage", "1Gi")],
            none(),
            "",
        ),
        (
            "unlisted huge pages",
            on("container", &two()),
            vec![more("hugepages-2Mi", "2Mi")],
            none(),
            no_container,
        ),
        ("Burstable CPU", on("container", &two()), vec![burstable("30", "0")], none(), ""),
        (
            "Burstable with devices",
            on("container", &with_nics()),
            vec![burstable("30", "1")],
            none(),
            "",
        ),
        (
            "devices of two NUMA nodes",
            on("container", &with_nics()),
            vec![burstable("1", "2")],
            none(),
            no_container,
        ),
        ("BestEffort", on("container", &[]), vec![json!({"name": "c"})], none(), ""),
        (
            "BestEffort with devices",
            on("container", &with_nics()),
            vec![equal(&json!({NIC: "2"}))],
            none(),
            no_container,
        ),
        (
            "init container",
            on("container", &two()),
            vec![whole("1", "1Gi")],
            vec![whole("5", "1Gi")],
            no_init,
        ),
        (
            "init container has ended",
            on("container", &two()),
            vec![whole("4", "1Gi")],
            vec![whole("4", "1Gi")],
            "",
        ),
        (
            "sidecar too large",
            on("container", &two()),
            vec![whole("1", "1Gi")],
            vec![sidecar("5")],
            no_init,
        ),
        (
            "sidecar stays",
            on("container", &zones(&[("4", "8Gi")])),
            vec![whole("4", "1Gi")],
            vec![sidecar("1")],
            no_container,
        ),
        (
            "sidecar in the pod",
            on("pod", &zones(&[("4", "8Gi")])),
            vec![whole("4", "1Gi")],
            vec![sidecar("1")],
            no_pod,
        ),
        (
            "sockets do not count",
            on(
                "container",
                &[socket(zone(0, &cpu_memory("8", "8Gi"))), zone(1, &cpu_memory("4", "8Gi"))],
            ),
            vec![whole("6", "1Gi")],
            none(),
            no_container,
        ),
        ("no zone lists CPU", on("container", &[]), vec![whole("1", "1Gi")], none(), no_container),
        (
            "policy none",
            Some(report("none", "container", &two())),
            vec![whole("9", "1Gi")],
            none(),
            "",
        ),
        (
            "policy restricted",
            Some(report("restricted", "container", &two())),
            vec![whole("5", "1Gi")],
            none(),
            "",
        ),
        (
            "policy best-effort",
            Some(report("best-effort", "container", &two())),
            vec![whole("5", "1Gi")],
            none(),
            "",
        ),
        (
            "unknown policy",
            Some(report("numa", "container", &two())),
            vec![whole("5", "1Gi")],
            none(),
            "",
        ),
        (
            "deprecated policy",
            Some(deprecated("SingleNUMANodePodLevel")),
            vec![whole("2", "1Gi"), whole("3", "1Gi")],
            none(),
            no_pod,
        ),
        (
            "deprecated container level",
            Some(deprecated("SingleNUMANodeContainerLevel")),
            vec![whole("2", "1Gi"), whole("3", "1Gi")],
            none(),
            "",
        ),
        ("no report", None, vec![whole("9", "1Gi")], none(), ""),
    ];
    for (case, report, containers, inits, expected) in cases {
        let harness = numa(&json!({}), report);
        let pod = harness.pod_from_json(&pod_of(&containers, &inits));
        assert_eq!(harness.run(&pod).verdicts["a"].message(), expected, "{case}");
        assert_eq!(harness.ranking_problem(&pod), None, "{case}");
    }
}

#[test]
fn node_resource_topology_match_scores() {
    let two = || vec![zone(0, &cpu_memory("8", "16Gi")), zone(1, &cpu_memory("4", "8Gi"))];
    let single = |zones: &[Value]| Some(report("single-numa-node", "container", zones));
    let in_pod = |zones: &[Value]| Some(report("single-numa-node", "pod", zones));
    let by = |kind: &str| json!({"scoringStrategy": {"type": kind}});
    let most = || by("MostAllocated");
    let balanced = || by("BalancedAllocation");
    let fewest = || by("LeastNUMANodes");
    let weighted = json!({"scoringStrategy": {"type": "LeastAllocated", "resources": [
        {"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]}});
    let distances = |mut zone: Value, costs: &[i64]| {
        let costs = (0..).zip(costs);
        let costs = costs
            .map(|(id, value): (u32, _)| json!({"name": format!("node-{id}"), "value": value}));
        zone["costs"] = costs.collect();
        zone
    };
    let pair = |cpu: &str| {
        vec![
            distances(zone(0, &cpu_memory(cpu, "16Gi")), &[10, 20]),
            distances(zone(1, &cpu_memory(cpu, "16Gi")), &[20, 10]),
        ]
    };
    // Only the NUMA nodes 2 and 3 have enough together, and 0 and 1 are closer to each other.
    let far = || {
        vec![
            distances(zone(0, &cpu_memory("1", "16Gi")), &[10, 12, 20, 20]),
            distances(zone(1, &cpu_memory("1", "16Gi")), &[12, 10, 20, 20]),
            distances(zone(2, &cpu_memory("4", "16Gi")), &[20, 20, 10, 20]),
            distances(zone(3, &cpu_memory("4", "16Gi")), &[20, 20, 20, 10]),
        ]
    };
    let of_two_at_most = |zones: &[Value]| {
        let mut report = report("single-numa-node", "container", zones);
        let more = json!({"name": "topologyManagerMaxNUMANodes", "value": "2"});
        report["attributes"].as_array_mut().unwrap().push(more);
        Some(report)
    };
    let one = |cpu: &str, memory: &str| vec![whole(cpu, memory)];
    let burstable = vec![with(&cpu_memory("2", "4Gi"), &json!({}))];
    let none = Vec::new;
    type Case = (&'static str, Value, Option<Value>, Vec<Value>, Vec<Value>, i64);
    let cases: Vec<Case> = vec![
        ("least: 75 and 50", json!({}), single(&two()), one("2", "4Gi"), none(), 50),
        ("least: weights", weighted, single(&two()), one("2", "2Gi"), none(), 56),
        (
            "least: one resource does not fit",
            json!({}),
            single(&two()),
            one("6", "1Gi"),
            none(),
            43,
        ),
        (
            "least: whole CPUs",
            json!({}),
            single(&[zone(0, &cpu_memory("3500m", "8Gi"))]),
            one("1500m", "4Gi"),
            none(),
            50,
        ),
        (
            "least: containers",
            json!({}),
            single(&two()),
            vec![whole("2", "4Gi"), whole("1", "2Gi")],
            none(),
            62,
        ),
        (
            "least: init containers",
            json!({}),
            single(&two()),
            one("2", "4Gi"),
            vec![whole("1", "2Gi")],
            62,
        ),
        (
            "least: pod",
            json!({}),
            in_pod(&two()),
            vec![whole("2", "4Gi"), whole("1", "2Gi")],
            none(),
            25,
        ),
        ("most: 25 and 50", most(), single(&two()), one("2", "4Gi"), none(), 25),
        (
            "most: full",
            most(),
            single(&[zone(0, &cpu_memory("2", "4Gi"))]),
            one("2", "4Gi"),
            none(),
            100,
        ),
        ("balanced: equal", balanced(), single(&two()), one("2", "4Gi"), none(), 100),
        ("balanced: 92 and 71", balanced(), single(&two()), one("4", "2Gi"), none(), 71),
        (
            "balanced: nothing free",
            balanced(),
            in_pod(&[zone(0, &cpu_memory("0", "8Gi")), zone(1, &cpu_memory("8", "16Gi"))]),
            one("2", "4Gi"),
            none(),
            87,
        ),
        ("Burstable", json!({}), single(&two()), burstable, none(), 100),
        ("no report", json!({}), None, one("2", "4Gi"), none(), 0),
        (
            "other policy",
            json!({}),
            Some(report("restricted", "container", &two())),
            one("2", "4Gi"),
            none(),
            0,
        ),
        ("fewest: one", fewest(), single(&pair("8")), one("8", "4Gi"), none(), 94),
        (
            "fewest: two",
            fewest(),
            Some(report("none", "container", &pair("8"))),
            one("9", "4Gi"),
            none(),
            82,
        ),
        (
            "fewest: two of four, far",
            fewest(),
            Some(report("none", "container", &far())),
            one("7", "4Gi"),
            none(),
            76,
        ),
        (
            "fewest: of two at most",
            fewest(),
            of_two_at_most(&pair("8")),
            one("8", "4Gi"),
            none(),
            75,
        ),
        (
            "fewest: too much",
            fewest(),
            Some(report("none", "pod", &pair("8"))),
            one("17", "4Gi"),
            none(),
            0,
        ),
        (
            "fewest: no resource of NUMA nodes",
            fewest(),
            Some(report("none", "container", &[zone(0, &json!({NIC: "1"}))])),
            one("2", "4Gi"),
            none(),
            100,
        ),
        (
            "fewest: largest of the containers",
            fewest(),
            Some(report("none", "container", &pair("8"))),
            vec![whole("1", "1Gi"), whole("9", "1Gi")],
            none(),
            82,
        ),
    ];
    for (case, args, report, containers, inits, expected) in cases {
        let harness = numa(&args, report);
        let pod = harness.pod_from_json(&pod_of(&containers, &inits));
        let run = harness.run(&pod);
        let verdict = run.verdicts.get("a");
        // A node that the filter leaves out has no score.
        let score = run.scores.get("a").copied();
        assert_eq!(score, Some(expected), "{case}: {verdict:?}");
    }
}

/// A node of 10 CPUs and 10 GiB with these measurements in percent.
fn measured(name: &str, args: &Value, numbers: &[(&str, &str, f64)]) -> Harness {
    let harness = harness(name, args).node_from_json(&node("a", &cpu_memory("10", "10Gi")));
    let metrics = numbers
        .iter()
        .map(|(kind, operator, value)| json!({"type": kind, "operator": operator, "value": value}));
    let metrics: Vec<Value> = metrics.collect();
    harness
        .object(METRICS, json!({"metadata": {"name": "a"}, "timestamp": NOON, "metrics": metrics}))
}

fn scored(harness: &Harness, pod: &Value) -> i64 {
    let pod = harness.pod_from_json(pod);
    assert_eq!(harness.ranking_problem(&pod), None);
    harness.run(&pod).scores["a"]
}

#[test]
fn target_load_packing_scores() {
    let average = |cpu: f64| vec![("CPU", "AVG", cpu)];
    let limited = || vec![whole("1", "1Gi")];
    let requested = || vec![with(&json!({"cpu": "1"}), &json!({}))];
    let unset = || vec![json!({"name": "c"})];
    let none = Vec::new;
    type Case =
        (&'static str, Value, Vec<(&'static str, &'static str, f64)>, Vec<Value>, Vec<Value>, i64);
    let cases: Vec<Case> = vec![
        ("idle", json!({}), average(0.0), limited(), none(), 55),
        ("at the target", json!({}), average(30.0), limited(), none(), 100),
        ("just past the target", json!({}), average(30.1), limited(), none(), 40),
        ("far past the target", json!({}), average(50.0), limited(), none(), 27),
        ("full", json!({}), average(90.0), limited(), none(), 0),
        ("over full", json!({}), average(95.0), limited(), none(), 0),
        ("another target", json!({"targetUtilization": 80}), average(30.0), limited(), none(), 90),
        ("no target", json!({"targetUtilization": 0}), average(30.0), limited(), none(), 100),
        ("a request", json!({}), average(5.0), requested(), none(), 70),
        (
            "multiplied by 2",
            json!({"defaultRequestsMultiplier": "2"}),
            average(10.0),
            requested(),
            none(),
            85,
        ),
        ("nothing asked", json!({}), average(0.0), unset(), none(), 55),
        (
            "other default",
            json!({"defaultRequests": {"cpu": "2000m"}}),
            average(0.0),
            unset(),
            none(),
            70,
        ),
        (
            "two containers",
            json!({}),
            average(0.0),
            vec![whole("1", "1Gi"), whole("2", "1Gi")],
            none(),
            85,
        ),
        (
            "init containers do not count",
            json!({}),
            average(0.0),
            limited(),
            vec![whole("5", "1Gi")],
            55,
        ),
        (
            "the latest is listed last",
            json!({}),
            vec![("CPU", "AVG", 70.0), ("CPU", "Latest", 10.0)],
            limited(),
            none(),
            70,
        ),
        (
            "the average is listed last",
            json!({}),
            vec![("CPU", "Latest", 70.0), ("CPU", "AVG", 10.0)],
            limited(),
            none(),
            70,
        ),
        ("memory does not count", json!({}), vec![("Memory", "AVG", 10.0)], limited(), none(), 0),
        ("not measured", json!({}), none_measured(), limited(), none(), 0),
    ];
    for (case, args, numbers, containers, inits, expected) in cases {
        let harness = measured("TargetLoadPacking", &args, &numbers);
        assert_eq!(scored(&harness, &pod_of(&containers, &inits)), expected, "{case}");
    }
}

const fn none_measured() -> Vec<(&'static str, &'static str, f64)> {
    Vec::new()
}

#[test]
fn load_variation_risk_balancing_scores() {
    let cpu =
        |average: f64, deviation: f64| vec![("CPU", "AVG", average), ("CPU", "STD", deviation)];
    let both = |average: f64, deviation: f64, memory: f64| {
        let mut numbers = cpu(average, deviation);
        numbers.push(("Memory", "AVG", memory));
        numbers
    };
    let margin = |margin: f64| json!({"safeVarianceMargin": margin});
    let sensitivity = |root: f64| json!({"safeVarianceSensitivity": root});
    // The pod asks for a tenth of each.
    type Case = (&'static str, Value, Vec<(&'static str, &'static str, f64)>, i64);
    let cases: Vec<Case> = vec![
        ("the lower of 70 and 85", json!({}), both(40.0, 10.0, 20.0), 70),
        ("memory is lower", json!({}), both(10.0, 0.0, 70.0), 60),
        ("only CPU", json!({}), cpu(40.0, 10.0), 70),
        ("only memory", json!({}), vec![("Memory", "AVG", 20.0)], 85),
        ("margin 2", margin(2.0), cpu(40.0, 10.0), 65),
        ("margin 0", margin(0.0), cpu(40.0, 10.0), 75),
        ("negative margin is 1", margin(-1.0), cpu(40.0, 10.0), 70),
        ("sensitivity 2", sensitivity(2.0), cpu(40.0, 10.0), 59),
        ("sensitivity 0.5", sensitivity(0.5), cpu(40.0, 20.0), 73),
        ("negative sensitivity is 1", sensitivity(-2.0), cpu(40.0, 10.0), 70),
        ("sensitivity 0", sensitivity(0.0), cpu(40.0, 10.0), 75),
        ("more than full", json!({}), cpu(95.0, 10.0), 45),
        ("deviation above 100 percent", json!({}), cpu(40.0, 150.0), 25),
        ("margin times deviation above 100 percent", margin(20.0), cpu(40.0, 10.0), 25),
        ("the latest without an average", json!({}), vec![("CPU", "Latest", 40.0)], 75),
        (
            "the average before the latest",
            json!({}),
            vec![("CPU", "AVG", 40.0), ("CPU", "Latest", 90.0)],
            75,
        ),
        ("not measured", json!({}), none_measured(), 0),
    ];
    for (case, args, numbers, expected) in cases {
        let harness = measured("LoadVariationRiskBalancing", &args, &numbers);
        let pod = pod_of(&[with(&cpu_memory("1", "1Gi"), &json!({}))], &[]);
        assert_eq!(scored(&harness, &pod), expected, "{case}");
    }
}

#[test]
fn low_risk_over_commitment_scores() {
    let load =
        |average: f64, deviation: f64| vec![("CPU", "AVG", average), ("CPU", "STD", deviation)];
    let weight = |cpu: f64| json!({"smoothingWindowSize": 1, "riskLimitWeights": {"cpu": cpu}});
    let plain = || json!({"smoothingWindowSize": 1});
    let cpu = |request: &str, limit: &str| with(&json!({"cpu": request}), &json!({"cpu": limit}));
    // The standard deviation of the uniform distribution, in percent.
    let uniform = 28.867_513_459_481_29;
    let none = || None;
    type Case =
        (&'static str, Value, Vec<(&'static str, &'static str, f64)>, Option<Value>, Value, i64);
    let cases: Vec<Case> = vec![
        ("BestEffort", plain(), load(50.0, 0.0), none(), json!({"name": "c"}), 0),
        ("empty node", plain(), load(80.0, 0.0), none(), cpu("1", "1"), 100),
        // The others request a quarter of what they use.
        (
            "more is used than requested",
            plain(),
            load(80.0, 0.0),
            Some(cpu("2500m", "5")),
            cpu("1", "1"),
            50,
        ),
        (
            "only limits count",
            weight(1.0),
            load(80.0, 0.0),
            Some(cpu("2500m", "5")),
            cpu("1", "1"),
            100,
        ),
        (
            "only the load counts",
            weight(0.0),
            load(80.0, 0.0),
            Some(cpu("2500m", "5")),
            cpu("1", "1"),
            0,
        ),
        (
            "weight out of range",
            weight(1.5),
            load(80.0, 0.0),
            Some(cpu("2500m", "5")),
            cpu("1", "1"),
            50,
        ),
        // (20 - 10)/(20 - 5) is the risk by limits.
        (
            "limits above the capacity",
            plain(),
            load(10.0, 0.0),
            Some(cpu("2500m", "15")),
            cpu("2500m", "5"),
            67,
        ),
        // All is requested: (15 - 10)/(15 - 10).
        (
            "requests up to the capacity",
            plain(),
            load(0.0, 0.0),
            Some(cpu("8", "12")),
            cpu("3", "3"),
            50,
        ),
        // 0.4 * (16 - 10)/(16 - 5) + 0.6 * 0.75 = 0.668.
        (
            "beta distribution",
            weight(0.4),
            load(50.0, uniform),
            Some(cpu("2500m", "11")),
            cpu("2500m", "5"),
            33,
        ),
        // The load is at most 5 of 10, and half of that is requested.
        (
            "load within the limits",
            plain(),
            load(50.0, uniform),
            Some(cpu("2500m", "5")),
            cpu("1", "1"),
            75,
        ),
        (
            "smoothed over 4 windows",
            json!({"smoothingWindowSize": 4}),
            load(50.0, uniform / 2.0),
            Some(cpu("2500m", "5")),
            cpu("1", "1"),
            75,
        ),
        (
            "a request without a limit",
            plain(),
            load(80.0, 0.0),
            Some(cpu("2500m", "5")),
            with(&json!({"cpu": "1"}), &json!({})),
            50,
        ),
        (
            "memory is at higher risk",
            plain(),
            vec![("CPU", "AVG", 10.0), ("Memory", "AVG", 90.0)],
            Some(with(&cpu_memory("5", "1Gi"), &cpu_memory("5", "2Gi"))),
            cpu("1", "1"),
            50,
        ),
        ("not measured", plain(), none_measured(), None, cpu("1", "1"), 100),
    ];
    for (case, args, numbers, there, incoming, expected) in cases {
        let mut harness = measured("LowRiskOverCommitment", &args, &numbers);
        if let Some(container) = there {
            let mut other = pod_of(&[container], &[]);
            other["metadata"]["name"] = json!("other");
            other["metadata"]["uid"] = json!("other");
            other["spec"]["nodeName"] = json!("a");
            let other = harness.pod_from_json(&other);
            harness = harness.pod(other);
        }
        assert_eq!(scored(&harness, &pod_of(&[incoming], &[])), expected, "{case}");
    }
}

#[test]
fn load_aware_scheduling_filters() {
    let used = |cpu: f64, memory: f64| vec![("CPU", "AVG", cpu), ("Memory", "AVG", memory)];
    let (cpu_exceeds, memory_exceeds) =
        ("node(s) cpu usage exceed threshold", "node(s) memory usage exceed threshold");
    let requests = || with(&cpu_memory("1", "1Gi"), &json!({}));
    type Case = (&'static str, Value, Vec<(&'static str, &'static str, f64)>, Value, &'static str);
    let cases: Vec<Case> = vec![
        ("58.5 percent", json!({}), used(50.0, 10.0), requests(), ""),
        ("64.9 percent", json!({}), used(56.4, 10.0), requests(), ""),
        ("65.4 percent is 65", json!({}), used(56.9, 10.0), requests(), ""),
        ("65.6 percent is 66", json!({}), used(57.1, 10.0), requests(), cpu_exceeds),
        ("memory at 95", json!({}), used(10.0, 88.0), requests(), ""),
        ("memory at 96", json!({}), used(10.0, 89.0), requests(), memory_exceeds),
        (
            "a higher limit counts",
            json!({}),
            used(50.0, 10.0),
            with(&json!({"cpu": "1"}), &json!({"cpu": "2"})),
            cpu_exceeds,
        ),
        ("nothing asked is 250m", json!({}), used(62.4, 10.0), json!({"name": "c"}), ""),
        (
            "nothing asked is 200Mi",
            json!({}),
            used(10.0, 94.0),
            json!({"name": "c"}),
            memory_exceeds,
        ),
        (
            "another threshold",
            json!({"usageThresholds": {"cpu": 90}}),
            used(80.0, 99.0),
            requests(),
            "",
        ),
        (
            "no threshold",
            json!({"usageThresholds": {"cpu": 0, "memory": 95}}),
            used(99.0, 10.0),
            requests(),
            "",
        ),
        (
            "another factor",
            json!({"estimatedScalingFactors": {"cpu": 100}}),
            used(56.0, 10.0),
            requests(),
            cpu_exceeds,
        ),
        ("not measured", json!({}), none_measured(), requests(), ""),
        (
            "requests until measured",
            json!({}),
            none_measured(),
            with(&cpu_memory("8", "1Gi"), &json!({})),
            cpu_exceeds,
        ),
    ];
    for (case, args, numbers, container, expected) in cases {
        let harness = measured("LoadAwareScheduling", &args, &numbers);
        let pod = harness.pod_from_json(&pod_of(&[container], &[]));
        assert_eq!(harness.run(&pod).verdicts["a"].message(), expected, "{case}");
        assert_eq!(harness.ranking_problem(&pod), None, "{case}");
    }
    let harness = measured("LoadAwareScheduling", &json!({}), &used(99.0, 99.0));
    let mut pod = pod_of(&[requests()], &[]);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet",
        "name": "d", "uid": "d", "controller": true}]);
    let run = harness.run(&harness.pod_from_json(&pod));
    assert!(run.verdicts["a"].is_success(), "pods of a DaemonSet are not filtered");
}

fn three_nodes(name: &str, args: &Value, nodes: &[Value]) -> Harness {
    nodes.iter().fold(harness(name, args), |harness, node| harness.node_from_json(node))
}

#[test]
fn node_resources_allocatable_scores() {
    let of = |resources: &[(&str, i64)]| {
        let resources = resources.iter();
        let resources = resources.map(|(name, weight)| json!({"name": name, "weight": weight}));
        resources.collect::<Vec<_>>()
    };
    let machines = [
        node("a", &json!({"cpu": "1", "memory": "8Gi", "example.com/gpu": "4"})),
        node("b", &json!({"cpu": "2", "memory": "4Gi"})),
        node("c", &json!({"cpu": "4", "memory": "2Gi", "example.com/gpu": "1"})),
    ];
    let least = |resources: &[(&str, i64)]| json!({"resources": of(resources)});
    let most = |resources: &[(&str, i64)]| json!({"mode": "Most", "resources": of(resources)});
    // Worked out per node: sum of amount times weight, over the sum of the weights.
    type Case = (&'static str, Value, [i64; 3]);
    let cases: Vec<Case> = vec![
        ("fewest CPUs", least(&[("cpu", 1)]), [100, 66, 0]),
        ("most CPUs", most(&[("cpu", 1)]), [0, 33, 100]),
        ("a weight alone changes nothing", most(&[("cpu", 7)]), [0, 33, 100]),
        ("least memory", least(&[("memory", 1)]), [0, 66, 100]),
        ("most devices", most(&[("example.com/gpu", 1)]), [100, 0, 25]),
        ("a resource that no node has", most(&[("example.com/tpu", 1)]), [0, 0, 0]),
        // 9192, 6096 and 6048 in mebibytes.
        ("defaults: a thousandth of a CPU is a mebibyte", json!({"mode": "Most"}), [100, 1, 0]),
        ("defaults", json!({}), [0, 98, 100]),
        // 5000/1001, 2000/1001 and 5000/1001.
        ("weights of two", most(&[("cpu", 1), ("example.com/gpu", 1000)]), [100, 0, 100]),
        ("pods", most(&[("pods", 1)]), [0, 0, 0]),
    ];
    for (case, args, expected) in cases {
        let harness = three_nodes("NodeResourcesAllocatable", &args, &machines);
        let pod = harness.pod_from_json(&pod_of(&[whole("1", "1Gi")], &[]));
        let run = harness.run(&pod);
        let scores = ["a", "b", "c"].map(|name| run.scores[name]);
        assert_eq!(scores, expected, "{case}: {:?}", run.raw_scores);
    }
    for args in [
        json!({"mode": "Mean"}),
        json!({"resources": [{"name": "cpu", "weight": 0}]}),
        json!({"resources": [{"name": "cpu", "weight": -1}]}),
    ] {
        assert!(made("NodeResourcesAllocatable", args.clone()).is_err(), "{args}");
    }
}

/// The nodes a, b and c with these values of a label and of an annotation.
fn ranked(values: [Option<&str>; 3]) -> Vec<Value> {
    let nodes = ["a", "b", "c"].into_iter().zip(values).map(|(name, value)| {
        let mut node = node(name, &cpu_memory("1", "1Gi"));
        if let Some(value) = value {
            node["metadata"]["labels"] = json!({"rank": value});
            node["metadata"]["annotations"] = json!({"rank": value});
        }
        node
    });
    nodes.collect()
}

#[test]
fn node_metadata_scores() {
    let args = |source: &str, kind: &str, strategy: &str| {
        json!({"metadataKey": "rank", "metadataSource": source, "metadataType": kind,
            "scoringStrategy": strategy})
    };
    let highest = || args("Label", "Number", "Highest");
    let lowest = || args("Label", "Number", "Lowest");
    let newest = || args("Annotation", "Timestamp", "Newest");
    let day = |mut args: Value| {
        args["timestampFormat"] = json!("2006-01-02");
        args
    };
    let some = |a, b, c| [Some(a), Some(b), Some(c)];
    type Case = (&'static str, Value, [Option<&'static str>; 3], [i64; 3]);
    let cases: Vec<Case> = vec![
        ("highest", highest(), some("10", "20", "40"), [1, 34, 100]),
        ("lowest", lowest(), some("10", "20", "40"), [100, 67, 1]),
        ("negative numbers", highest(), some("-10", "0", "10"), [1, 50, 100]),
        ("fractions are cut", highest(), some("1.2", "1.9", "3"), [1, 1, 100]),
        ("without a number", highest(), some("10", "x", "40"), [1, 0, 100]),
        ("without the label", highest(), [Some("10"), None, Some("40")], [1, 0, 100]),
        ("all equal", highest(), some("7", "7", "7"), [1, 1, 1]),
        ("only one", highest(), [None, Some("7"), None], [0, 1, 0]),
        ("none", highest(), [None, None, None], [0, 0, 0]),
        ("annotation", args("Annotation", "Number", "Lowest"), some("1", "2", "3"), [100, 50, 1]),
        (
            "newest",
            newest(),
            some("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"),
            [1, 50, 100],
        ),
        (
            "oldest",
            args("Annotation", "Timestamp", "Oldest"),
            some("2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00Z", "x"),
            [100, 1, 0],
        ),
        (
            "days",
            day(newest()),
            some("2026-01-01", "2026-01-02", "2026-01-03T00:00:00Z"),
            [1, 100, 0],
        ),
    ];
    for (case, args, values, expected) in cases {
        let harness = three_nodes("NodeMetadata", &args, &ranked(values));
        let run = harness.run(&harness.pod_from_json(&pod_of(&[whole("1", "1Gi")], &[])));
        let scores = ["a", "b", "c"].map(|name| run.scores[name]);
        assert_eq!(scores, expected, "{case}: {:?}", run.raw_scores);
    }
    for (kind, strategy) in [("Number", "Newest"), ("Timestamp", "Lowest"), ("Text", "Highest")] {
        assert!(made("NodeMetadata", args("Label", kind, strategy)).is_err(), "{kind} {strategy}");
    }
}

#[test]
fn pod_state_scores() {
    // Terminating and running pods of the nodes a, b and c.
    type Case = (&'static str, [usize; 3], [usize; 3], [i64; 3]);
    let cases: [Case; 10] = [
        ("empty", [0, 0, 0], [0, 0, 0], [0, 0, 0]),
        ("all equal", [2, 2, 2], [0, 1, 5], [0, 0, 0]),
        ("one ends", [1, 0, 0], [0, 0, 0], [100, 0, 0]),
        ("more end", [1, 2, 0], [0, 0, 0], [50, 100, 0]),
        ("running pods do not count", [1, 0, 0], [0, 9, 9], [100, 0, 0]),
        ("thirds", [3, 2, 0], [0, 0, 0], [100, 66, 0]),
        ("three quarters", [4, 3, 0], [1, 1, 1], [100, 75, 0]),
        ("spread", [5, 10, 4], [0, 0, 0], [16, 100, 0]),
        ("two at the top", [2, 2, 1], [0, 0, 0], [100, 100, 0]),
        ("all end on one", [0, 0, 8], [3, 3, 0], [0, 0, 100]),
    ];
    for (case, terminating, running, expected) in cases {
        let names = ["a", "b", "c"];
        let nodes = names.map(|name| node(name, &cpu_memory("64", "64Gi")));
        let mut harness = three_nodes("PodState", &json!({}), &nodes);
        for (place, name) in names.into_iter().enumerate() {
            for number in 0..terminating[place] + running[place] {
                let mut pod = pod_of(&[whole("1", "1Gi")], &[]);
                let own = format!("{name}-{number}");
                pod["metadata"]["name"] = json!(own);
                pod["metadata"]["uid"] = json!(own);
                pod["spec"]["nodeName"] = json!(name);
                if number < terminating[place] {
                    pod["metadata"]["deletionTimestamp"] = json!(NOON);
                }
                let pod = harness.pod_from_json(&pod);
                harness = harness.pod(pod);
            }
        }
        let run = harness.run(&harness.pod_from_json(&pod_of(&[whole("1", "1Gi")], &[])));
        assert_eq!(names.map(|name| run.scores[name]), expected, "{case}");
    }
}
