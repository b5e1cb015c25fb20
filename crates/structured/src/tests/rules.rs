//! Single rules of the search.

use framework::device::Allocation;
use serde_json::{Value, json};

use super::toy::Toys;
use super::world::{World, claim};
use crate::{AllocateError, Allocated, Allocator, Answer, Budget, Claims, Gates, Memos};

fn devices(found: &[Allocation]) -> Vec<String> {
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
    assert_eq!(devices(&found), ["a.com/p/x", "b.com/p/x", "b.com/p/y"]);
    assert_eq!(world.allocate("n1", &[claim("c", &count(4))]), Ok(None));
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
    assert_eq!(allocator.allocate(&prepared, &node, budget, 1), Ok(None));
    let diagnosis = allocator.diagnosis(&prepared, &node, budget).0.unwrap();
    assert_eq!(
        diagnosis.to_string(),
        "claim ns/c2, request r2: 0 of 1 devices; the node has 64: 64 rejected by selector #0 \
         of the request"
    );
    let steps = allocator.allocate(&prepared, &node, Budget(50), 1);
    assert_eq!(steps, Err(AllocateError::OutOfSteps));
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
    let mut memos = Memos::default();
    let mut trial = memos.start(claims.clone(), &world.cluster);
    let mut answers = names.iter().map(|name| {
        let node = world.cluster.node_named(name).unwrap();
        allocator.fits(&mut trial, &by_shape, node, budget, |_| 0).unwrap()
    });
    let searched = answers.by_ref().take_while(|own| *own == Answer::DoesNotFit).count();
    assert!((10..50).contains(&searched), "{searched} nodes");
    assert!(answers.all(|own| own == Answer::OutOfSteps));
    // The next attempt goes on with the nodes that were not searched.
    memos.keep(trial);
    let mut trial = memos.start(claims, &world.cluster);
    let node = world.cluster.node_named(names[searched + 1]).unwrap();
    let answer = allocator.fits(&mut trial, &by_shape, node, budget, |_| 0);
    assert_eq!(answer, Ok(Answer::DoesNotFit));
}
