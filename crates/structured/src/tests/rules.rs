//! Single rules of the search.

use std::sync::Arc;

use framework::device::DEVICE_TAINT_RULES;
use framework::device::{Allocation, DeviceDescription};
use framework::{EventResource, Level, Time};
use serde_json::{Value, json};

use crate::simulation::toy::Toys;
use crate::simulation::world::{World, claim};
use crate::{
    AllocateError, Allocated, Allocator, Answer, Budget, Claims, Compiled, Compiler, Expression,
    Gates, Limits, LongSearches, Memos,
};

fn devices_of(found: &[Allocation]) -> Vec<String> {
    let results = found.iter().flat_map(|allocation| &allocation.results);
    results.map(|result| result.id.to_string()).collect()
}

/// A pool on node n1 with these devices, and a slice with a counter of this value.
fn partitions(world: &mut World, driver: &str, devices: &Value, counter: &str) {
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 2});
    let spec = json!({"driver": driver, "pool": pool, "nodeName": "n1", "devices": devices});
    world.slice(&format!("{driver}-devices"), spec);
    let sets = json!([{"name": "set", "counters": {"memory": {"value": counter}}}]);
    let spec = json!({"driver": driver, "pool": pool, "nodeName": "n1", "sharedCounters": sets});
    world.slice(&format!("{driver}-counters"), spec);
}

fn partition(name: &str, memory: &str) -> Value {
    json!({"name": name, "attributes": {"model": {"string": "m"}},
        "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": memory}}}]})
}

fn count(devices: usize) -> Value {
    json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "any", "count": devices}}]})
}

#[test]
fn pools_of_one_name_have_counters_of_their_own() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    for (driver, counter) in [("a.com", "1"), ("b.com", "2")] {
        partitions(&mut world, driver, &json!([partition("x", "1"), partition("y", "1")]), counter);
    }
    let found = world.allocate("n1", &[claim("c", &count(3))]).unwrap().unwrap();
    assert_eq!(devices_of(&found), ["a.com/p/x", "b.com/p/x", "b.com/p/y"]);
    assert_eq!(world.allocate("n1", &[claim("c", &count(4))]), Ok(None));
}

/// Rule device-counts-add-up of docs/differences.toml.
#[test]
fn counts_beyond_64_bits_exceed_the_limit_at_every_level() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let request = |name: &str| json!({"name": name, "exactly": {"deviceClassName": "any", "count": i64::MAX}});
    let spec = json!({"requests": [request("a"), request("b")]});
    let text = "claim ns/c: number of requested devices 18446744073709551614 exceeds the claim \
                limit of 32";
    for level in Level::ALL {
        let found = world.allocate_with(Gates::at(level), "n1", &[claim("c", &spec)]);
        assert_eq!(found, Err(AllocateError::fatal(text)));
    }
}

#[test]
fn identical_devices_are_tried_once() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let devices: Vec<_> = (0..64)
        .map(|number| {
            let model = if number < 32 { "a" } else { "b" };
            json!({"name": format!("d{number:02}"), "attributes": {
                "uuid": {"string": number.to_string()}, "model": {"string": model}}})
        })
        .collect();
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices});
    world.slice("s", spec);
    let request = |name: &str, model: &str, count: usize| {
        let selector = format!("a.com/model={model}");
        json!({"name": name, "exactly": {"deviceClassName": "any", "count": count,
            "selectors": [{"cel": {"expression": selector}}]}})
    };
    // Twelve of 32 devices leave too few for the second request: there are 225 million ways.
    let requests = json!([request("r0", "a", 12), request("r1", "a", 20), request("r2", "c", 1)]);
    let claims = [
        claim("c0", &json!({"requests": [requests[0]]})),
        claim("c1", &json!({"requests": [requests[1]]})),
        claim("c2", &json!({"requests": [requests[2]]})),
    ];
    let prepared = Claims::new(&claims, &world.cluster, &mut Toys);
    let base = world.cluster.allocated_devices();
    let allocated = Allocated { base, overlay: None };
    let allocator = Allocator::new(&world.cluster, Gates::default(), allocated);
    let node = world.cluster.node(world.cluster.node_named("n1").unwrap());
    let budget = Budget::of_millis(10_000);
    let mut long = LongSearches::default();
    assert_eq!(
        allocator.allocate(&prepared, &node, Limits { budget, long: &mut long }, 1),
        Ok(None)
    );
    let diagnosis = allocator.diagnosis(&prepared, &node, budget).0.unwrap();
    assert_eq!(
        diagnosis.to_string(),
        "claim ns/c2, request r2: 0 of 1 devices; the node has 64: 64 rejected by selector #0 \
         of the request"
    );
    let steps =
        allocator.allocate(&prepared, &node, Limits { budget: Budget(50), long: &mut long }, 1);
    assert_eq!(steps, Err(AllocateError::OutOfSteps));
}

/// Without counting the values, the search tries all permutations, for which kube-scheduler takes
/// longer than it may.
#[test]
fn requests_need_as_many_values_as_must_be_different() {
    let mut world = World::new(&["n1", "n2"]);
    world.class("any", &[]);
    for (node, boards) in [("n1", 15), ("n2", 16)] {
        let device = |number: usize| {
            json!({"name": format!("d{number:02}"), "attributes": {
                "board": {"int": number % boards}, "uuid": {"int": number}}})
        };
        let devices: Vec<_> = (0..16).map(device).collect();
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": "a.com", "pool": pool, "nodeName": node, "devices": devices});
        world.slice(node, spec);
    }
    let request = |number: usize| json!({"name": format!("r{number}"), "exactly": {"deviceClassName": "any"}});
    let requests: Vec<_> = (0..16).map(request).collect();
    let constraints = json!([{"distinctAttribute": "a.com/board"}]);
    let wanted = [claim("c", &json!({"requests": requests, "constraints": constraints}))];
    let claims = Claims::new(&wanted, &world.cluster, &mut Toys);
    let allocated = Allocated { base: world.cluster.allocated_devices(), overlay: None };
    let allocator = Allocator::new(&world.cluster, Gates::default(), allocated);
    let allocate = |node: &str| {
        let node = world.cluster.node(world.cluster.node_named(node).unwrap());
        allocator
            .allocate(
                &claims,
                &node,
                Limits { budget: Budget(1_000), long: &mut LongSearches::default() },
                1,
            )
            .map(|own| own.is_some())
    };
    assert_eq!(["n1", "n2"].map(allocate), [Ok(false), Ok(true)]);
}

/// Admin access shares a device with other claims, but a claim names each device once.
#[test]
fn request_for_all_devices_does_not_take_a_device_of_its_claim_again() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let devices = json!([{"name": "x"}]);
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    let one = json!({"name": "one", "exactly": {"deviceClassName": "any", "adminAccess": true}});
    let all = json!({"name": "all", "exactly":
        {"deviceClassName": "any", "adminAccess": true, "allocationMode": "All"}});
    let claim = |name: &str, requests: Value| claim(name, &json!({"requests": requests}));
    assert_eq!(world.allocate("n1", &[claim("c", json!([one, all]))]), Ok(None));
    let both = [claim("c", json!([one])), claim("d", json!([all]))];
    let found = world.allocate("n1", &both).unwrap().unwrap();
    assert_eq!(devices_of(&found), ["a.com/p/x", "a.com/p/x"]);
}

#[test]
fn device_that_binds_to_its_node_keeps_the_claim_there() {
    let mut world = World::new(&["n1", "n2"]);
    world.class("any", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let devices = json!([{"name": "x"}, {"name": "y", "bindsToNode": true}]);
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "allNodes": true, "devices": devices}));
    let selector = |devices: usize| {
        let found = world.allocate("n2", &[claim("c", &count(devices))]).unwrap().unwrap();
        found[0].to_json()["nodeSelector"].clone()
    };
    assert_eq!(selector(1), Value::Null);
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["n2"]});
    assert_eq!(selector(2), json!({"nodeSelectorTerms": [{"matchFields": [name]}]}));
}

/// At 1.36, a configuration of the claim appears once for each request that it names. From 1.37 on
/// it appears once, without requests if it is for all of them; so does the configuration of a
/// class.
#[test]
fn configuration_is_repeated_for_each_named_request_at_1_36_only() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let devices = json!([{"name": "x"}, {"name": "y"}]);
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    let request = |name: &str| json!({"name": name, "exactly": {"deviceClassName": "any"}});
    let config = |requests: &[&str]| {
        let opaque = json!({"driver": "a.com", "parameters": {"of": requests}});
        json!({"requests": requests, "opaque": opaque})
    };
    let spec = json!({"requests": [request("a"), request("b")],
        "config": [config(&["a", "b"]), config(&[]), config(&["b"]), config(&["other"])]});
    let requests = |level| -> Vec<String> {
        let found = world.allocate_with(Gates::at(level), "n1", &[claim("c", &spec)]);
        let found = found.unwrap().unwrap();
        found[0].config.iter().map(|own| own.requests.join("+")).collect()
    };
    assert_eq!(requests(Level::V1_36), ["a+b", "a+b", "", "b"]);
    assert_eq!(requests(Level::V1_37), ["", "", "b"]);
}

#[test]
fn configuration_of_a_class_names_no_request_if_it_is_for_all() {
    let mut world = World::new(&["n1"]);
    let config = json!({"opaque": {"driver": "a.com", "parameters": {}}});
    let class = json!({"metadata": {"name": "any"}, "spec": {"selectors": [], "config": [config]}});
    world.set(&EventResource::DeviceClass, class);
    world.class("other", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let devices = json!([{"name": "x"}, {"name": "y"}]);
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    let request =
        |name: &str, class: &str| json!({"name": name, "exactly": {"deviceClassName": class}});
    let requests = |second: &str, level| -> Vec<String> {
        let spec = json!({"requests": [request("a", "any"), request("b", second)]});
        let found = world.allocate_with(Gates::at(level), "n1", &[claim("c", &spec)]);
        found.unwrap().unwrap()[0].config.iter().map(|own| own.requests.join("+")).collect()
    };
    assert_eq!(requests("any", Level::V1_36), ["a+b"]);
    assert_eq!(requests("any", Level::V1_37), [""]);
    assert_eq!(requests("other", Level::V1_37), ["a"]);
}

/// At 1.36, the constraint knows only the latest device of the request.
#[test]
fn different_values_are_those_of_every_device_from_1_37_on() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let device =
        |name: &str, board: &str| json!({"name": name, "attributes": {"board": {"string": board}}});
    let devices = json!([device("x", "a"), device("y", "b"), device("z", "a")]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    let mut spec = count(3);
    spec["constraints"] = json!([{"distinctAttribute": "a.com/board"}]);
    let fits = |spec: &Value, level| {
        world.allocate_with(Gates::at(level), "n1", &[claim("c", spec)]).unwrap().is_some()
    };
    assert_eq!([Level::V1_36, Level::V1_37].map(|level| fits(&spec, level)), [true, false]);
    let mut spec = count(2);
    spec["constraints"] = json!([{"distinctAttribute": "a.com/board"}]);
    assert!(fits(&spec, Level::V1_37));
}

/// A device that may be shared, of which a part of the capacity and all counters are in use.
fn shared(world: &mut World, capacity: &Value) {
    let mut device = partition("x", "1");
    device["allowMultipleAllocations"] = json!(true);
    device["capacity"] = capacity.clone();
    partitions(world, "a.com", &json!([device]), "1");
}

/// Records a share of the device `a.com/p/x`.
fn share(world: &mut World, consumed: &Value) {
    let result = json!({"request": "r", "driver": "a.com", "pool": "p", "device": "x", "shareID": "1",
        "consumedCapacity": consumed});
    world.set(
        &EventResource::ResourceClaim,
        json!({
            "metadata": {"name": "old", "namespace": "ns", "uid": "old"},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }),
    );
}

/// At 1.36, a share without capacity is charged again.
#[test]
fn counters_of_a_shared_device_are_charged_once_from_1_37_on() {
    let fits = |consumed: &Value, capacity: &Value, level| {
        let mut world = World::new(&["n1"]);
        world.class("any", &[]);
        shared(&mut world, capacity);
        share(&mut world, consumed);
        world.allocate_with(Gates::at(level), "n1", &[claim("c", &count(1))]).unwrap().is_some()
    };
    let levels = [Level::V1_36, Level::V1_37];
    assert_eq!(levels.map(|level| fits(&json!({}), &json!({}), level)), [false, true]);
    let (consumed, capacity) = (
        json!({"m": "1"}),
        json!({"m": {"value": "4",
        "requestPolicy": {"default": "1"}}}),
    );
    assert_eq!(levels.map(|level| fits(&consumed, &capacity, level)), [true, true]);
}

/// At 1.36, a request for all devices takes the others without a word.
#[test]
fn all_devices_include_those_with_too_little_capacity_from_1_37_on() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let device = |name: &str, capacity: &str| json!({"name": name, "allowMultipleAllocations": true, "capacity": {"m": {"value": capacity}}});
    let devices = json!([device("x", "4"), device("y", "4"), device("small", "1")]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    let all = json!({"deviceClassName": "any", "allocationMode": "All",
        "capacity": {"requests": {"m": "3"}}});
    let wanted = [claim("c", &json!({"requests": [{"name": "r", "exactly": all}]}))];
    let found = |world: &World, level| {
        let found = world.allocate_with(Gates::at(level), "n1", &wanted).unwrap();
        found.as_deref().map(devices_of)
    };
    let both = Some(vec!["a.com/p/x".to_owned(), "a.com/p/y".to_owned()]);
    let levels = [Level::V1_36, Level::V1_37];
    assert_eq!(levels.map(|level| found(&world, level)), [both.clone(), both]);
    share(&mut world, &json!({"m": "2"}));
    let other = Some(vec!["a.com/p/y".to_owned()]);
    assert_eq!(levels.map(|level| found(&world, level)), [other, None]);
}

/// A device that is rejected after its counters were charged gives them back, at every level
/// (kubernetes/kubernetes 140431, in 1.36 after 1.36.2).
#[test]
fn rejected_device_gives_back_its_counters() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let mut tainted = partition("w", "2");
    tainted["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
    let mut other = partition("x", "2");
    other["attributes"]["model"]["string"] = json!("n");
    let devices = json!([tainted, other, partition("y", "1"), partition("z", "1")]);
    partitions(&mut world, "a.com", &devices, "2");
    let mut spec = count(2);
    spec["constraints"] = json!([{"matchAttribute": "a.com/model"}]);
    for level in Level::ALL {
        let found = world.allocate_with(Gates::at(level), "n1", &[claim("c", &spec)]);
        let found = found.unwrap().map(|found| devices_of(&found));
        assert_eq!(found, Some(vec!["a.com/p/y".to_owned(), "a.com/p/z".to_owned()]), "{level}");
    }
}

#[test]
fn pool_that_is_updated_fails_the_attempt_before_1_38() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 2});
    let devices = json!([{"name": "x"}]);
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    let all = json!({"deviceClassName": "any", "allocationMode": "All"});
    let wanted = [claim("c", &json!({"requests": [{"name": "r", "exactly": all}]}))];
    let text = "claim ns/c, request r: asks for all devices, but resource pool a.com/p is currently \
                being updated";
    let allocate = |level| world.allocate_with(Gates::at(level), "n1", &wanted);
    assert_eq!(allocate(Level::V1_36), Err(AllocateError::fatal(text)));
    assert_eq!(allocate(Level::V1_37), Err(AllocateError::fatal(text)));
    assert_eq!(allocate(Level::V1_38), Err(AllocateError::Node(text.into())));
}

/// Before 1.38, a rule without a selector taints every device.
#[test]
fn taint_rule_needs_a_selector_from_1_38_on() {
    let fits = |selector: &Value, level| {
        let mut world = World::new(&["n1"]);
        world.class("any", &[]);
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
        let devices = json!([{"name": "x"}]);
        world.slice(
            "s",
            json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}),
        );
        let taint = json!({"key": "broken", "effect": "NoSchedule"});
        let spec = json!({"deviceSelector": selector, "taint": taint});
        let kind = EventResource::Custom(DEVICE_TAINT_RULES.into());
        world.set(&kind, json!({"metadata": {"name": "rule"}, "spec": spec}));
        let gates = Gates { device_taint_rules: true, ..Gates::at(level) };
        world.allocate_with(gates, "n1", &[claim("c", &count(1))]).unwrap().is_some()
    };
    assert_eq!(Level::ALL.map(|level| fits(&Value::Null, level)), [false, false, true]);
    assert_eq!(Level::ALL.map(|level| fits(&json!({}), level)), [false; 3]);
}

/// A driver may stop the sharing of a device while shares of it are allocated.
#[test]
fn device_with_shares_is_not_allocated_as_a_whole_from_1_38_on() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let devices = json!([{"name": "x", "capacity": {"m": {"value": "4"}}}]);
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    share(&mut world, &json!({"m": "1"}));
    let asked = json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "any",
        "capacity": {"requests": {"m": "1"}}}}]});
    let fits = |level| {
        let found = world.allocate_with(Gates::at(level), "n1", &[claim("c", &asked)]);
        found.unwrap().is_some()
    };
    assert_eq!(Level::ALL.map(fits), [true, true, false]);
}

#[test]
fn alternative_that_makes_a_claim_too_large_is_passed_over() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let devices: Vec<_> = (0..40).map(|number| json!({"name": format!("d{number}")})).collect();
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    let alternative =
        |name: &str, count: i64| json!({"name": name, "deviceClassName": "any", "count": count});
    let first = |count| {
        let list = json!({"name": "list", "firstAvailable": [alternative("a", count), alternative("b", 1)]});
        let one = json!({"name": "one", "exactly": {"deviceClassName": "any"}});
        let wanted = claim("c", &json!({"requests": [list, one]}));
        let found = world.allocate("n1", &[wanted]).unwrap().unwrap();
        (found[0].results[0].request.to_string(), found[0].results.len())
    };
    assert_eq!(first(31), ("list/a".to_owned(), 32));
    assert_eq!(first(32), ("list/b".to_owned(), 2));
}

/// A driver may replace a pool by one for other nodes, slice by slice.
#[test]
fn pool_that_is_replaced_for_another_node_is_gone() {
    let mut world = World::new(&["n1", "n2"]);
    world.class("any", &[]);
    let slice = |generation: i64, slices: i64, node: &str| {
        let pool = json!({"name": "p", "generation": generation, "resourceSliceCount": slices});
        json!({"driver": "a.com", "pool": pool, "nodeName": node, "devices": [{"name": "x"}]})
    };
    world.slice("old", slice(1, 2, "n1"));
    let all = json!({"deviceClassName": "any", "allocationMode": "All"});
    let wanted = [claim("c", &json!({"requests": [{"name": "r", "exactly": all}]}))];
    let text = "claim ns/c, request r: asks for all devices, but resource pool a.com/p is currently \
                being updated";
    assert_eq!(world.allocate("n1", &wanted), Err(AllocateError::fatal(text)));
    world.slice("new", slice(2, 1, "n2"));
    assert_eq!(world.allocate("n1", &wanted), Ok(None));
}

#[test]
fn explanation_says_that_it_is_cut_off() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let device = |number: usize| json!({"name": format!("d{number}"), "attributes": {"model": {"string": number.to_string()}}});
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let devices: Vec<_> = (0..20).map(device).collect();
    let spec = json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices});
    world.slice("s", spec);
    let mut wanted = count(2);
    wanted["constraints"] = json!([{"matchAttribute": "a.com/model"}]);
    let claims = [claim("c", &wanted)];
    let prepared = Claims::new(&claims, &world.cluster, &mut Toys);
    let base = world.cluster.allocated_devices();
    let allocated = Allocated { base, overlay: None };
    let allocator = Allocator::new(&world.cluster, Gates::default(), allocated);
    let node = world.cluster.node(world.cluster.node_named("n1").unwrap());
    let explain = |budget| allocator.diagnosis(&prepared, &node, budget).0.unwrap().to_string();
    let whole = explain(Budget::UNLIMITED);
    assert!(
        whole.starts_with("claim ns/c, request r: 1 of 2 devices; the node has 20: "),
        "{whole}"
    );
    assert!(!whole.contains("not all combinations"), "{whole}");
    let part = explain(Budget(30));
    let end = "; not all combinations of devices were tried for this explanation";
    assert!(
        part.starts_with("claim ns/c, request r: 1 of 2 devices; ") && part.ends_with(end),
        "{part}"
    );
}

/// An attempt in which every node takes long ends after a few nodes; the answers so far are kept.
#[test]
fn steps_of_all_nodes_of_an_attempt_are_limited() {
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names);
    world.class("any", &[]);
    for (number, name) in names.iter().enumerate() {
        // No two devices have a value in common, and no two nodes look alike.
        let device = |device: usize| {
            json!({"name": format!("d{device:02}"), "attributes": {
                "a": {"string": format!("{number}-{device}")}, "b": {"string": "same"}}})
        };
        let devices: Vec<_> = (0..12).map(device).collect();
        let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": "a.com", "pool": pool, "nodeName": name, "devices": devices});
        world.slice(name, spec);
    }
    // Each of four requests takes any device, and the last one finds none: 11,880 ways.
    let mut requests: Vec<_> = (0..4)
        .map(|number| json!({"name": format!("r{number}"), "exactly": {"deviceClassName": "any"}}))
        .collect();
    let selector = json!([{"cel": {"expression": "a.com/b=other"}}]);
    requests.push(json!({"name": "last", "exactly":
        {"deviceClassName": "any", "selectors": selector}}));
    let constraints = json!([{"distinctAttribute": "a.com/a"}]);
    let wanted = [claim("c", &json!({"requests": requests, "constraints": constraints}))];
    let claims = Claims::new(&wanted, &world.cluster, &mut Toys);
    let allocated = Allocated { base: world.cluster.allocated_devices(), overlay: None };
    let allocator = Allocator::new(&world.cluster, Gates::default(), allocated);
    let by_shape = allocator.nodes_by_shape();
    let budget = Budget::of_millis(10_000);
    let mut long = LongSearches::default();
    // Returns how many nodes an attempt has answers for.
    let attempt = |long: &mut LongSearches| {
        let mut trial = Memos::default().start(claims.clone(), &world.cluster);
        let mut answers = names.iter().map(|name| {
            let node = world.cluster.node_named(name).unwrap();
            allocator.fits(&mut trial, &by_shape, node, Limits { budget, long }, |_| 0).unwrap()
        });
        let answered = answers.by_ref().take_while(|own| *own == Answer::DoesNotFit).count();
        assert!(answers.all(|own| own == Answer::OutOfSteps));
        answered
    };
    let first = attempt(&mut long);
    assert!((5..50).contains(&first), "{first} nodes");
    assert_eq!(attempt(&mut long), 0, "all attempts share the steps");
    long.refill(Time::from_secs(1));
    assert_eq!(attempt(&mut long), first);
}

/// Selectors take steps by their cost, so that a search with costly ones ends, too.
#[test]
fn costly_selectors_take_steps() {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let device =
        |number: usize| json!({"name": format!("d{number}"), "attributes": {"u": {"int": number}}});
    let devices: Vec<_> = (0..8).map(device).collect();
    world
        .slice("s", json!({"driver": "a.com", "pool": pool, "nodeName": "n1", "devices": devices}));
    let selector = json!([{"cel": {"expression": "a.com/u=none"}}]);
    let request = json!({"deviceClassName": "any", "selectors": selector});
    let wanted = [claim("c", &json!({"requests": [{"name": "r", "exactly": request}]}))];
    let allocated = Allocated { base: world.cluster.allocated_devices(), overlay: None };
    let allocator = Allocator::new(&world.cluster, Gates::default(), allocated);
    let node = world.cluster.node(world.cluster.node_named("n1").unwrap());
    let search = |cost: u64, long: &mut LongSearches| {
        let claims = Claims::new(&wanted, &world.cluster, &mut Costly(cost));
        allocator.allocate(&claims, &node, Limits { budget: Budget::of_millis(10_000), long }, 1)
    };
    let mut long = LongSearches::default();
    assert_eq!(search(1_000, &mut long), Ok(None));
    assert_eq!(
        search(1_000_000, &mut long),
        Err(AllocateError::OutOfSteps),
        "longer than a node may take"
    );
    let out = (0..50).find(|_| search(100_000, &mut long) == Err(AllocateError::OutOfSteps));
    assert!(out.is_some(), "all pods share the steps of long searches");
    assert_eq!(search(100, &mut long), Ok(None), "a search of a usual length needs none of them");
}

/// Expressions of a cost that match no device.
struct Costly(u64);

impl Compiler for Costly {
    fn compile(&mut self, _: &str) -> Compiled {
        Ok(Arc::new(CostlyExpression(self.0)))
    }
}

#[derive(Debug)]
struct CostlyExpression(u64);

impl Expression for CostlyExpression {
    fn matches(&self, _: &DeviceDescription, cost: &mut u64) -> Result<bool, Box<str>> {
        *cost += self.0;
        Ok(false)
    }

    fn reads_alike(&self, one: &DeviceDescription, other: &DeviceDescription) -> bool {
        one == other
    }
}
