//! A search that gives up once too few devices are left finds what the full search finds.

use fastrand::Rng;
use framework::device::{Allocation, ResourceClaim};
use serde_json::{Value, json};

use crate::search::{Buffers, Effort, Outcome, Search};
use crate::simulation::random::{one_in, pick};
use crate::simulation::toy::Toys;
use crate::simulation::world::{World, claim};
use crate::{AllocateError, Allocated, Allocator, Budget, Claims, Gates, result};

const STEPS: u64 = 100_000;

fn device(rng: &mut Rng, name: &str) -> Value {
    let mut attributes = json!({"uuid": {"string": name}});
    for (attribute, values) in [("model", 2), ("numa", 3)] {
        if !one_in(rng, 30) {
            let value = rng.usize(..values).to_string();
            attributes[attribute] = json!({"string": value});
        }
    }
    if one_in(rng, 30) {
        attributes["numa"] = json!({"unknown": true});
    }
    let mut device = json!({"name": name, "attributes": attributes});
    if one_in(rng, 40) {
        device["allowMultipleAllocations"] = json!(true);
    }
    if one_in(rng, 8) {
        device["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
    }
    device
}

fn world(rng: &mut Rng) -> World {
    let mut world = World::new(&["n1"]);
    world.class("any", &[]);
    let devices: Vec<_> =
        (0..2 + rng.usize(..9)).map(|number| device(rng, &number.to_string())).collect();
    let used = devices.iter().filter(|_| one_in(rng, 6)).map(
        |device| json!({"request": "r", "driver": "a.com", "pool": "p", "device": device["name"]}),
    );
    let status = json!({"allocation": {"devices": {"results": used.collect::<Value>()}}});
    let object = json!({"metadata": {"name": "old", "uid": "old"}, "status": status});
    world.set(&framework::EventResource::ResourceClaim, object);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let slice = json!({"driver": "a.com", "nodeName": "n1", "pool": pool, "devices": devices});
    world.slice("s", slice);
    world
}

fn body(rng: &mut Rng) -> Value {
    let count = if one_in(rng, 3) { 1 } else { 1 + rng.usize(..6) };
    let mut body = json!({"deviceClassName": "any", "count": count});
    if one_in(rng, 3) {
        let text = *pick(rng, &["a.com/model=0", "a.com/numa=1", "a.com/model!0", "a.com/numa?1"]);
        body["selectors"] = json!([{"cel": {"expression": text}}]);
    }
    body
}

fn wanted(rng: &mut Rng) -> Vec<ResourceClaim> {
    let request = |number: usize, rng: &mut Rng| {
        let name = format!("r{number}");
        if one_in(rng, 3) {
            let mut alternatives = [body(rng), body(rng)];
            alternatives[0]["name"] = json!("a");
            alternatives[1]["name"] = json!("b");
            return json!({"name": name, "firstAvailable": alternatives});
        }
        let mut body = body(rng);
        if one_in(rng, 10) {
            body["adminAccess"] = json!(true);
        }
        json!({"name": name, "exactly": body})
    };
    let one = |number: usize, rng: &mut Rng| {
        let requests: Value = (0..1 + rng.usize(..4)).map(|number| request(number, rng)).collect();
        let constraints: Value = (0..rng.usize(..3))
            .map(|_| {
                let kind = *pick(rng, &["matchAttribute", "matchAttribute", "distinctAttribute"]);
                let mut constraint = json!({kind: *pick(rng, &["a.com/numa", "a.com/model"])});
                if one_in(rng, 3) {
                    constraint["requests"] = json!([*pick(rng, &["r0", "r1", "r0/a"])]);
                }
                constraint
            })
            .collect();
        claim(&format!("c{number}"), &json!({"requests": requests, "constraints": constraints}))
    };
    (0..1 + rng.usize(..2)).map(|number| one(number, rng)).collect()
}

/// Returns what a search finds, and its steps.
fn search(
    world: &World,
    claims: &Claims,
    effort: Effort,
) -> (Result<Option<Vec<Allocation>>, AllocateError>, u64) {
    let cluster = &world.cluster;
    let allocated = Allocated { base: cluster.allocated_devices(), overlay: None };
    let allocator = Allocator::new(cluster, Gates::default(), allocated);
    let node = cluster.node(cluster.node_named("n1").unwrap());
    let mut search = match Search::new(&allocator, claims, &node, Budget(STEPS), Buffers::default())
    {
        Ok(search) => search,
        Err(error) => return (Err(error), 0),
    };
    let found = search.run(effort).and_then(|outcome| match outcome {
        Outcome::Done => result::allocations(&search, "n1", 1).map(Some),
        Outcome::Failed | Outcome::TooMany => Ok(None),
    });
    (found, search.steps.taken_of(Budget(STEPS)))
}

#[test]
fn giving_up_changes_no_result() {
    let (mut least, mut full, mut shorter) = (0, 0, 0);
    let mut seen = [0; 3];
    for seed in 0..1500 {
        let mut rng = Rng::with_seed(seed);
        let world = world(&mut rng);
        let claims = Claims::new(&wanted(&mut rng), &world.cluster, &mut Toys);
        let (expected, steps) = search(&world, &claims, Effort::Full);
        if expected == Err(AllocateError::OutOfSteps) {
            continue;
        }
        let (found, own_steps) = search(&world, &claims, Effort::Least);
        assert_eq!(found, expected, "seed {seed}");
        assert!(own_steps <= steps, "seed {seed}: {own_steps} instead of {steps} steps");
        shorter += usize::from(own_steps < steps);
        least += own_steps;
        full += steps;
        seen[match found {
            Ok(Some(_)) => 0,
            Ok(None) => 1,
            Err(_) => 2,
        }] += 1;
    }
    println!("{least} instead of {full} steps, {shorter} shorter; {seen:?}");
    assert!(seen.iter().all(|cases| *cases >= 20), "{seen:?}");
    assert!(shorter > 190 && least * 3 < full * 2, "{least} instead of {full} steps");
}
