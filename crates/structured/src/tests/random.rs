//! Random slices and claims: the allocator agrees with the naive one.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use framework::EventResource;
use framework::device::{AllocatedDevice, DeviceClass, ResourceClaim, ResourceSlice};
use serde_json::{Value, json};

use super::naive::{End, Naive, Picked};
use super::world::{World, claim};
use crate::AllocateError;

/// Candidates after which the naive search gives up, so that a case takes no longer than this.
const PATIENCE: usize = 20_000;
/// Names of counter sets, one of them wrong.
const SETS: [&str; 20] = {
    let mut sets = ["set"; 20];
    sets[0] = "other";
    sets
};

/// A random small cluster of two nodes, and claims.
struct Case {
    world: World,
    slices: Vec<ResourceSlice>,
    claims: Vec<ResourceClaim>,
}

pub(super) fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(..from.len())]
}

pub(super) fn one_in(rng: &mut Rng, chance: usize) -> bool {
    rng.usize(..chance) == 0
}

pub(super) fn device(rng: &mut Rng, name: &str, style: usize, has_counters: bool) -> Value {
    let mut attributes = json!({"uuid": {"string": name}});
    for (attribute, values) in [("model", 2), ("numa", 3)] {
        if !one_in(rng, 12) {
            let value = rng.usize(..values).to_string();
            attributes[attribute] = json!({"string": value});
        }
    }
    let mut device = json!({"name": name, "attributes": attributes});
    if has_counters && !one_in(rng, 4) || one_in(rng, 400) {
        let amount = *pick(rng, &["1", "2", "4"]);
        let counters = json!({"memory": {"value": amount}});
        device["consumesCounters"] = json!([{"counterSet": "set", "counters": counters}]);
    }
    if style == 2 || one_in(rng, 12) {
        let mut capacity = json!({"value": *pick(rng, &["4", "8"])});
        if rng.bool() {
            capacity["requestPolicy"] = json!({"default": "1",
                "validRange": {"min": "1", "max": "6", "step": *pick(rng, &["1", "2"])}});
        }
        device["capacity"] = json!({"bandwidth": capacity});
        device["allowMultipleAllocations"] = json!(rng.bool());
    } else if one_in(rng, 20) {
        device["allowMultipleAllocations"] = json!(true);
    }
    if one_in(rng, 6) {
        let effect = *pick(rng, &["NoSchedule", "NoExecute", "None"]);
        device["taints"] = json!([{"key": "t", "value": "v", "effect": effect}]);
    }
    if one_in(rng, 10) {
        device["bindingConditions"] = json!(["ready"]);
    }
    device
}

fn slices(rng: &mut Rng) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for pool in 0..1 + rng.usize(..3) {
        let style = rng.usize(..4);
        let driver = *pick(rng, &["a.com", "b.com"]);
        let name = *pick(rng, &["p", "q", "r"]);
        let parts = 1 + rng.usize(..2);
        let has_counters = style == 1 || one_in(rng, 4);
        let count = parts + usize::from(has_counters) + usize::from(one_in(rng, 25));
        let generation = if one_in(rng, 12) { 2 } else { 1 };
        let spec = |more: Value| {
            let mut spec = json!({"driver": driver, "pool": {
                "name": name, "generation": generation, "resourceSliceCount": count}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        for part in 0..parts {
            let number = 1 + rng.usize(..5);
            let mut devices: Vec<_> = (0..number)
                .map(|number| device(rng, &format!("{pool}-{part}-{number}"), style, has_counters))
                .collect();
            if one_in(rng, 60) {
                devices.push(devices[0].clone());
            }
            let mut more = match rng.usize(..6) {
                0 => json!({"allNodes": true}),
                1 => json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In",
                     "values": [*pick(rng, &["n1", "n2"])]}]}]}}),
                2 => {
                    for device in &mut devices {
                        match rng.usize(..4) {
                            0 => device["allNodes"] = json!(true),
                            1 => device["nodeName"] = json!("n2"),
                            _ => device["nodeName"] = json!("n1"),
                        }
                    }
                    json!({"perDeviceNodeSelection": true})
                }
                3 if one_in(rng, 3) => json!({"nodeName": "n2"}),
                _ => json!({"nodeName": "n1"}),
            };
            more["devices"] = devices.into();
            all.push((format!("s-{pool}-{part}"), spec(more)));
        }
        if has_counters {
            let counters = json!({"memory": {"value": *pick(rng, &["4", "6", "9"])}});
            let set = *pick(rng, &SETS);
            let more = json!({"nodeName": "n1",
                "sharedCounters": [{"name": set, "counters": counters}]});
            all.push((format!("s-{pool}-c"), spec(more)));
        }
    }
    all
}

fn body(rng: &mut Rng) -> Value {
    let mut body = json!({"deviceClassName": *pick(rng, &["any", "any", "any", "model0"])});
    if one_in(rng, 150) {
        body["deviceClassName"] = json!("gone");
    }
    match rng.usize(..10) {
        0 => body["allocationMode"] = json!("All"),
        1..4 => body["count"] = json!(1 + rng.usize(..3)),
        _ => {}
    }
    if one_in(rng, 3) {
        let text = *pick(
            rng,
            &[
                "a.com/numa=1",
                "a.com/numa=1",
                "a.com/model=1",
                "a.com/model=1",
                "b.com/numa=0",
                "b.com/model=0",
                "a.com/numa!0",
                "a.com/numa?1",
            ],
        );
        body["selectors"] = json!([{"cel": {"expression": text}}]);
    }
    if rng.bool() {
        let mut toleration = json!({"operator": "Exists"});
        if rng.bool() {
            toleration["effect"] = json!("NoSchedule");
        }
        body["tolerations"] = json!([toleration]);
    }
    if one_in(rng, 6) {
        let amount = *pick(rng, &["1", "2", "3", "9"]);
        body["capacity"] = json!({"requests": {"bandwidth": amount}});
    }
    body
}

pub(super) fn claims(rng: &mut Rng) -> Vec<ResourceClaim> {
    let one = |number: usize, rng: &mut Rng| {
        let requests: Vec<_> = (0..1 + rng.usize(..2))
            .map(|request| {
                if one_in(rng, 3) {
                    let subs = (0..1 + rng.usize(..3)).map(|sub| {
                        let mut body = body(rng);
                        body["name"] = json!(format!("s{sub}"));
                        body
                    });
                    let subs: Value = subs.collect();
                    return json!({"name": format!("r{request}"), "firstAvailable": subs});
                }
                let mut body = body(rng);
                if one_in(rng, 10) {
                    body["adminAccess"] = json!(true);
                }
                if one_in(rng, 40) {
                    body["count"] = json!(20);
                }
                json!({"name": format!("r{request}"), "exactly": body})
            })
            .collect();
        let constraints: Vec<_> = (0..rng.usize(..5).saturating_sub(2))
            .map(|_| {
                let kind = *pick(rng, &["matchAttribute", "matchAttribute", "distinctAttribute"]);
                let name = *pick(rng, &["a.com/numa", "a.com/model", "a.com/numa", "b.com/numa"]);
                let mut constraint = json!({kind: name});
                if rng.bool() {
                    let names = ["r0", "r1", "r0/s0", "r1/s1"];
                    constraint["requests"] = json!([*pick(rng, &names), *pick(rng, &names)]);
                }
                constraint
            })
            .collect();
        claim(&format!("c{number}"), &json!({"requests": requests, "constraints": constraints}))
    };
    (0..1 + rng.usize(..2)).map(|number| one(number, rng)).collect()
}

fn case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let mut world = World::new(&["n1", "n2"]);
    world.class("any", &[]);
    world.class("model0", &["a.com/model=0"]);
    for (name, spec) in slices(&mut rng) {
        world.slice(&name, spec);
    }
    let pools = world.cluster.device_pools();
    let all = pools.pools().into_iter().flat_map(|key| pools.slices(key));
    let mut slices: Vec<ResourceSlice> = all.map(|slice| (**slice).clone()).collect();
    rng.shuffle(&mut slices);
    let mut results = Vec::new();
    for slice in &slices {
        for device in &slice.devices {
            if !one_in(&mut rng, 5) {
                continue;
            }
            let key = &slice.pool.key;
            let mut result = json!({"request": "r", "driver": &*key.driver, "pool": &*key.pool,
                "device": &*device.name});
            if device.description.allows_multiple_allocations && !one_in(&mut rng, 4) {
                if device.description.capacity.is_empty() {
                    continue;
                }
                result["shareID"] = json!("x");
                result["consumedCapacity"] = json!({"bandwidth": "2"});
            }
            results.push(result);
        }
    }
    let status = json!({"allocation": {"devices": {"results": results}}});
    let object = json!({"metadata": {"name": "old", "uid": "old"}, "status": status});
    world.set(&EventResource::ResourceClaim, object);
    let claims = claims(&mut rng);
    Case { world, slices, claims }
}

impl Case {
    fn naive(&self) -> Result<Option<Vec<Vec<Picked>>>, End> {
        let cluster = &self.world.cluster;
        let class = |name: &str| {
            let class: &DeviceClass = cluster.device_class(name).unwrap();
            (name.to_owned(), class.clone())
        };
        let (mut dedicated, mut consumed) = (BTreeSet::new(), BTreeMap::new());
        let allocated = cluster.allocated_devices();
        for key in allocated.pools() {
            for slice in &self.slices {
                for device in slice.devices.iter().filter(|_| slice.pool.key == *key) {
                    let pool = allocated.pool(key).unwrap();
                    let Some(own) = pool.get(&device.name) else { continue };
                    let name = device.name.to_string();
                    let id = (key.driver.to_string(), key.pool.to_string(), name);
                    if own.dedicated > 0 {
                        dedicated.insert(id.clone());
                    }
                    if own.consuming > 0 {
                        consumed.insert(id, own.consumed.clone());
                    }
                }
            }
        }
        let naive = Naive {
            slices: self.slices.clone(),
            classes: ["any", "model0"].map(class).into(),
            claims: self.claims.clone(),
            node: cluster.node(cluster.node_named("n1").unwrap()),
            dedicated,
            consumed,
            patience: PATIENCE,
        };
        naive.allocate()
    }
}

fn picked(result: &AllocatedDevice) -> Picked {
    let id = &result.id;
    let consumed = result.consumed_capacity.iter();
    let consumed = consumed.map(|(name, amount)| (name.to_string(), amount.to_string())).collect();
    (
        result.request.to_string(),
        (id.driver.to_string(), id.pool.to_string(), id.device.to_string()),
        result.share_id.as_ref().map(|_| consumed),
    )
}

#[test]
fn allocator_finds_what_the_naive_search_finds() {
    let mut seen = BTreeMap::<&str, usize>::new();
    for seed in 0..3000 {
        let case = case(seed);
        let found = case.world.allocate("n1", &case.claims);
        let kind = match (case.naive(), found) {
            (Err(End::OutOfPatience), _) => "patience",
            (Ok(None), Ok(None)) => "nothing",
            (Ok(Some(expected)), Ok(Some(found))) => {
                let found: Vec<Vec<_>> = found
                    .iter()
                    .map(|allocation| allocation.results.iter().map(picked).collect())
                    .collect();
                assert_eq!(found, expected, "seed {seed}");
                "found"
            }
            (Err(End::Error(expected)), Err(AllocateError::Fatal(found))) => {
                assert_eq!(*found, *expected, "seed {seed}");
                "error"
            }
            (Err(End::Node(expected)), Err(AllocateError::Node(found))) => {
                assert_eq!(*found, *expected, "seed {seed}");
                "node"
            }
            (expected, found) => {
                panic!("seed {seed}: expected {expected:?}, found {found:?}");
            }
        };
        *seen.entry(kind).or_default() += 1;
    }
    for (kind, least) in [("found", 500), ("nothing", 500), ("error", 100), ("node", 10)] {
        let cases = seen.get(kind).copied().unwrap_or_default();
        assert!(cases >= least, "{kind}: {seen:?}");
        println!("{kind}: {cases}");
    }
}
