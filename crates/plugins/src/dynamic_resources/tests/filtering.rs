//! PreFilter, Filter and Score.

use framework::merge_patch;
use framework::{Attempt, Level, PerNode, PluginGates};
use serde_json::json;

use super::world::*;

#[test]
fn nodes_without_enough_devices_are_rejected() {
    let mut world = World::new([("resourceclaims", claim("c", 2))]);
    world.put("resourceslices", slice("b", &["0"]));
    let pod = pod_using("p", &["c"]);
    assert_eq!(world.messages(&pod), ["", "cannot allocate all claims"]);
    world.delete("resourceslices", "slice-a");
    let lacking = "cannot allocate all claims".to_owned();
    assert_eq!(world.messages(&pod), [lacking.clone(), lacking]);
}

/// DRADeviceTaintRules is off by default, and rules then have no effect.
#[test]
fn rules_taint_the_devices_that_they_select() {
    let one = claim("c", 1);
    let mut tolerant = claim("t", 1);
    tolerant["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] =
        json!([{"key": "broken", "operator": "Exists", "effect": "NoExecute"}]);
    let rule = |selector: serde_json::Value| {
        json!({"metadata": {"name": "rule"}, "spec": {"deviceSelector": selector,
            "taint": {"key": "broken", "value": "yes", "effect": "NoExecute"}}})
    };
    let lacking = "cannot allocate all claims";
    for is_on in [true, false] {
        let gates = framework::PluginGates {
            device_taint_rules: is_on,
            ..framework::PluginGates::default()
        };
        let args = framework::PluginArgs::default().with_gates(gates);
        let claims = [("resourceclaims", one.clone()), ("resourceclaims", tolerant.clone())];
        let mut world = World::with(args, claims);
        for (selector, expected) in [
            (json!({"driver": "d", "pool": "a"}), [lacking, ""]),
            (json!({"driver": "e"}), ["", ""]),
            (json!({"pool": "b", "device": "0"}), ["", ""]),
            (json!({}), [lacking, lacking]),
        ] {
            world.put("devicetaintrules", rule(selector.clone()));
            let expected = if is_on { expected } else { ["", ""] };
            assert_eq!(world.messages(&pod_using("p", &["c"])), expected, "{selector}");
            assert_eq!(world.messages(&pod_using("p", &["t"])), ["", ""], "{selector}");
        }
        world.delete("devicetaintrules", "rule");
        assert_eq!(world.messages(&pod_using("p", &["c"])), ["", ""]);
    }
}

/// Each feature on node `a` has a gate, and 1.36 lets it be switched off.
#[test]
fn features_of_devices_follow_their_gates() {
    const LACKING: &str = "cannot allocate all claims";
    let exactly = |more: serde_json::Value| {
        let mut body = json!({"deviceClassName": "gpu"});
        merge_patch(&mut body, &more);
        claim_with("c", &json!([{"name": "r", "exactly": body}]))
    };
    let of_pool = |name: &str, more: serde_json::Value| {
        let mut slice = slice_with("a", &json!([]));
        slice["metadata"]["name"] = json!(name);
        merge_patch(&mut slice["spec"], &more);
        ("resourceslices", slice)
    };
    let tainted = json!([{"name": "0", "taints": [{"key": "t", "effect": "NoSchedule"}]}]);
    let counters = json!({"memory": {"value": "1"}});
    let partition = json!([{"name": "0",
        "consumesCounters": [{"counterSet": "set", "counters": counters}]}]);
    let pool = json!({"resourceSliceCount": 2});
    let set = json!([{"name": "set", "counters": counters}]);
    let partitions = [
        of_pool("slice-a", json!({"pool": pool, "devices": partition})),
        of_pool("counters", json!({"pool": pool, "devices": null, "sharedCounters": set})),
    ];
    let shared = json!([{"name": "0", "allowMultipleAllocations": true,
        "capacity": {"memory": {"value": "8"}}}]);
    let memory = json!({"capacity": {"requests": {"memory": "4"}}});
    let body = json!([{"name": "s", "deviceClassName": "gpu"}]);
    let list = claim_with("c", &json!([{"name": "r", "firstAvailable": body}]));
    let on = PluginGates::default();
    let rows = [
        (
            PluginGates { device_taints: false, ..on },
            exactly(json!({})),
            vec![of_pool("slice-a", json!({"devices": tainted}))],
            [LACKING, ""],
        ),
        (
            PluginGates { partitionable_devices: false, ..on },
            exactly(json!({})),
            partitions.to_vec(),
            ["", LACKING],
        ),
        (
            PluginGates { consumable_capacity: false, ..on },
            exactly(memory),
            vec![of_pool("slice-a", json!({"devices": shared}))],
            [
                "",
                "claim default/c, request r: has capacity requests, but the DRAConsumableCapacity \
                 feature is disabled",
            ],
        ),
        (
            PluginGates { prioritized_list: false, ..on },
            list,
            Vec::new(),
            [
                "",
                "resource claim default/c, request r: has subrequests, but the DRAPrioritizedList \
                 feature is disabled",
            ],
        ),
    ];
    for (off, claim, objects, expected) in rows {
        let message = |gates| {
            let args = framework::PluginArgs::default().with_gates(gates);
            let objects = objects.iter().cloned().chain([("resourceclaims", claim.clone())]);
            World::with(args, objects).messages(&pod_using("p", &["c"]))[0].clone()
        };
        assert_eq!([on, off].map(message), expected, "{off:?}");
    }
}

#[test]
fn allocated_claim_fits_only_its_nodes() {
    let mut world = World::new([("resourceclaims", claim("c", 1))]);
    let mut attempt = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    world.write_all(&mut attempt);
    let other = pod_using("q", &["c"]);
    assert_eq!(world.messages(&other), ["", "resourceclaim not available on the node"]);
}

#[test]
fn claim_in_flight_rejects_other_pods() {
    let world = World::new([("resourceclaims", claim("c", 1))]);
    let mut attempt = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    let text = "resource claim default/c is in the process of being allocated".to_owned();
    assert_eq!(world.messages(&pod_using("q", &["c"])), [text.clone(), text]);
    world.unreserve(&mut attempt);
    assert_eq!(world.messages(&pod_using("q", &["c"])), ["", ""]);
}

#[test]
fn devices_in_flight_are_taken() {
    let world = World::new([
        ("resourceclaims", claim("c", 2)),
        ("resourceclaims", claim("d", 1)),
        ("resourceclaims", claim("e", 2)),
    ]);
    let mut attempt = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    let rest = pod_using("q", &["d", "e"]);
    assert_eq!(world.messages(&pod_using("q", &["d"])), ["cannot allocate all claims", ""]);
    assert_eq!(world.messages(&rest)[1], "cannot allocate all claims");
    world.unreserve(&mut attempt);
    assert_eq!(world.messages(&pod_using("q", &["d"])), ["", ""]);
}

#[test]
fn requests_are_checked_before_any_node() {
    let alternative = json!([{"name": "x", "deviceClassName": "gpu"},
        {"name": "y", "deviceClassName": "gone"}]);
    let rows = [
        (json!([{"name": "r"}]), "resource claim default/c, request r: unknown request type"),
        (
            json!([{"name": "r", "exactly": {"deviceClassName": "gone"}}]),
            "request r: device class gone does not exist",
        ),
        (
            json!([{"name": "r", "firstAvailable": alternative}]),
            "request r/y: device class gone does not exist",
        ),
        (json!([{"name": "r", "exactly": {}}]), "request r: unsupported request type"),
    ];
    for (requests, expected) in rows {
        let world = World::new([("resourceclaims", claim_with("c", &requests))]);
        let messages = world.messages(&pod_using("p", &["c"]));
        assert_eq!(messages, [expected, expected]);
    }
}

#[test]
fn faulty_selector_fails_the_attempt_of_its_pod_alone() {
    let faulty = json!([{"name": "r", "exactly": {
        "deviceClassName": "gpu", "count": 1,
        "selectors": [{"cel": {"expression": "device.attributes['d'].missing == 1"}}],
    }}]);
    let told = "claim default/bad: selector #0 on device d/a/0: CEL runtime error: no such key: \
                missing\n\nSee https://pkg.go.dev/k8s.io/api/resource/v1#CELDeviceSelector for \
                documentation on CEL device selectors and how to handle optional fields.";
    let rows = [
        (Level::V1_36, "claim default/bad: selector #0: CEL runtime error: no such key: missing"),
        (Level::V1_37, told),
    ];
    for (level, expected) in rows {
        let args = framework::PluginArgs::default().with_gates(PluginGates::at(level));
        let claims =
            [("resourceclaims", claim_with("bad", &faulty)), ("resourceclaims", claim("good", 1))];
        let world = World::with(args, claims);
        let (state, result) = world.pre_filter(&pod_using("p", &["bad"]));
        result.unwrap();
        let [status, _] = world.filter(&state, &pod_using("p", &["bad"]));
        assert_eq!(status.code(), framework::Code::Error);
        assert_eq!(status.message(), expected);
        assert_eq!(world.messages(&pod_using("q", &["good"])), ["", ""]);
    }
}

#[test]
fn earlier_alternatives_score_higher() {
    let request = json!([{"name": "r", "firstAvailable": [
        {"name": "two", "deviceClassName": "gpu", "count": 2},
        {"name": "one", "deviceClassName": "gpu", "count": 1},
    ]}]);
    let mut world = World::new([("resourceclaims", claim_with("c", &request))]);
    world.put("resourceslices", slice("b", &["0"]));
    let pod = pod_using("p", &["c"]);
    let (state, result) = world.pre_filter(&pod);
    result.unwrap();
    let nodes = ["a", "b"].map(|name| world.cluster.node_named(name).unwrap());
    let point = world.plugin.score.as_ref().unwrap();
    let mut scores = [0; 2];
    point
        .score_set(&Attempt::new(&state, &pod, &world.handle()), PerNode::new(&nodes, &mut scores))
        .unwrap();
    assert_eq!(scores, [8, 7]);
    let each = nodes.map(|node| {
        point
            .score(&Attempt::new(&state, &pod, &world.handle()), &world.cluster.node(node))
            .unwrap()
    });
    assert_eq!(each, scores);
}
