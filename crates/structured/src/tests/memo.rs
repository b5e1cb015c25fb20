//! Nodes that look alike get the answer that a search of their own gives.

use fastrand::Rng;
use framework::device::Allocation;
use framework::{Cluster, EventResource, api};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::simulation::random::{claims, device, one_in, pick};
use crate::simulation::toy::Toys;
use crate::simulation::world::{World, claim, read_claim};
use crate::{
    Allocated, Allocator, Answer, Budget, Claims, Gates, Limits, LongSearches, Memos, Overlay,
};

const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// Gives a node the devices of a template, under names of its own.
fn equip(world: &mut World, node: &str, template: &[Value], has_counters: bool) {
    let pool =
        json!({"name": node, "generation": 1, "resourceSliceCount": 1 + u8::from(has_counters)});
    let mut devices = template.to_vec();
    for device in &mut devices {
        device["name"] = json!(format!("{node}-{}", device["name"].as_str().unwrap()));
        device["attributes"]["uuid"] = json!({"string": device["name"]});
    }
    let spec = json!({"driver": "a.com", "pool": pool, "nodeName": node, "devices": devices});
    world.slice(&format!("{node}-d"), spec);
    if has_counters {
        let counters = json!([{"name": "set", "counters": {"memory": {"value": "6"}}}]);
        let spec =
            json!({"driver": "a.com", "pool": pool, "nodeName": node, "sharedCounters": counters});
        world.slice(&format!("{node}-c"), spec);
    }
}

/// Adds a pool for all nodes or for those of some zones, with names before, between or after those
/// of the nodes. One of them lacks a slice.
fn share(rng: &mut Rng, world: &mut World, style: usize, number: usize) {
    let name = *pick(rng, &["a", "n3x", "z"]);
    let has_counters = one_in(rng, 3);
    let count = 1 + usize::from(has_counters) + usize::from(one_in(rng, 8));
    let pool = json!({"name": name, "generation": 1, "resourceSliceCount": count});
    let zones = &NODES[rng.usize(..3)..3 + rng.usize(..3)];
    let selector = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}]}]});
    let mut devices: Vec<_> = (0..1 + rng.usize(..3))
        .map(|device| {
            let device = format!("{name}-{number}-{device}");
            crate::simulation::random::device(rng, &device, style, has_counters)
        })
        .collect();
    let mut spec = json!({"driver": *pick(rng, &["a.com", "b.com"]), "pool": pool});
    match rng.usize(..3) {
        0 => spec["allNodes"] = json!(true),
        1 => spec["nodeSelector"] = selector,
        _ => {
            spec["perDeviceNodeSelection"] = json!(true);
            for device in &mut devices {
                match rng.bool() {
                    true => device["allNodes"] = json!(true),
                    false => device["nodeSelector"] = selector.clone(),
                }
            }
        }
    }
    if has_counters {
        let counters = json!([{"name": "set", "counters": {"memory": {"value": "6"}}}]);
        let mut spec = spec.clone();
        spec["sharedCounters"] = counters;
        world.slice(&format!("shared-{number}-c"), spec);
    }
    spec["devices"] = devices.into();
    world.slice(&format!("shared-{number}-d"), spec);
}

/// Allocates some devices of a node.
fn occupy(rng: &mut Rng, world: &mut World, node: &str, devices: usize) {
    let results: Vec<_> = (0..devices)
        .filter(|_| one_in(rng, 4))
        .map(|number| {
            json!({"request": "r", "driver": "a.com", "pool": node,
                "device": format!("{node}-{number}")})
        })
        .collect();
    let status = json!({"allocation": {"devices": {"results": results}}});
    let object = json!({"metadata": {"name": node, "uid": node}, "status": status});
    world.set(&EventResource::ResourceClaim, object);
}

/// Returns allocations that the watch does not show.
fn in_flight(rng: &mut Rng, cluster: &Cluster) -> Overlay {
    let mut overlay = Overlay::default();
    for node in NODES {
        if !one_in(rng, 3) {
            continue;
        }
        let result = json!({"request": "r", "driver": "a.com", "pool": node,
            "device": format!("{node}-{}", rng.usize(..4))});
        let raw = json!({"devices": {"results": [result]}});
        overlay.add(&Allocation::from_api(&api::AllocationResult::deserialize(&raw).unwrap()));
    }
    overlay.update(cluster);
    overlay
}

#[test]
fn nodes_that_look_alike_share_their_answers() {
    let (fitting, searches) = compare_with_searches(0);
    assert!(searches * 5 < fitting * 4, "{searches} searches for {fitting} fitting nodes");
}

#[test]
fn nodes_that_see_shared_pools_alike_share_their_answers() {
    let (fitting, searches) = compare_with_searches(2);
    assert!(searches * 10 < fitting * 9, "{searches} searches for {fitting} fitting nodes");
}

/// Compares the answers with those of a search on each node, in random clusters with up to so many
/// shared pools. Returns the number of nodes that fit, and of searches for them.
fn compare_with_searches(shared: usize) -> (usize, usize) {
    let (mut fitting, mut searches) = (0, 0);
    let mut memos = Memos::default();
    for seed in 0..400 {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new(&NODES);
        world.class("any", &[]);
        world.class("model0", &["a.com/model=0"]);
        let has_counters = rng.bool();
        let style = rng.usize(..4);
        let templates: Vec<Vec<_>> = (0..2)
            .map(|_| {
                let devices = 0..1 + rng.usize(..4);
                devices.map(|n| device(&mut rng, &n.to_string(), style, has_counters)).collect()
            })
            .collect();
        for node in NODES {
            let template = pick(&mut rng, &templates);
            equip(&mut world, node, template, has_counters);
            if one_in(&mut rng, 3) {
                occupy(&mut rng, &mut world, node, template.len());
            }
        }
        for number in 0..if shared > 0 { 1 + rng.usize(..shared) } else { 0 } {
            share(&mut rng, &mut world, style, number);
        }
        for round in 0..3 {
            let node = pick(&mut rng, &NODES);
            if round > 0 {
                occupy(&mut rng, &mut world, node, 4);
            }
            let objects = claims(&mut rng);
            let wanted: Vec<_> = objects.iter().map(read_claim).collect();
            let claims = Claims::new(&wanted, &world.cluster, &mut Toys);
            // The names that a claim reads are those of stored claims.
            objects.into_iter().for_each(|own| world.set(&EventResource::ResourceClaim, own));
            let base = world.cluster.allocated_devices();
            let overlay = in_flight(&mut rng, &world.cluster);
            let allocated = Allocated { base, overlay: Some(&overlay) };
            let allocator = Allocator::new(&world.cluster, Gates::default(), allocated);
            let by_shape = allocator.nodes_by_shape();
            let mut trial = memos.start(claims.clone(), &world.cluster);
            for name in NODES {
                let node = world.cluster.node(world.cluster.node_named(name).unwrap());
                let (budget, mut long) = (Budget::UNLIMITED, LongSearches::default());
                let rank = |own: &[Allocation]| {
                    let results = own.iter().flat_map(|own| &own.results);
                    results.map(|result| i64::try_from(result.request.len()).unwrap()).sum()
                };
                let expected = allocator
                    .allocate(&claims, &node, Limits { budget, long: &mut long }, 0)
                    .map(|own| match own {
                        Some(own) => Answer::Fits { rank: rank(&own) },
                        None => Answer::DoesNotFit,
                    });
                let searched = std::cell::Cell::new(false);
                let found = allocator.fits(
                    &mut trial,
                    &by_shape,
                    node.ix(),
                    Limits { budget, long: &mut long },
                    |own| {
                        searched.set(true);
                        rank(own)
                    },
                );
                assert_eq!(found, expected, "seed {seed}, node {name}");
                if matches!(found, Ok(Answer::Fits { .. })) {
                    fitting += 1;
                    searches += usize::from(searched.get());
                }
            }
            memos.keep(trial);
        }
    }
    (fitting, searches)
}

#[test]
fn shared_pool_is_searched_once_for_nodes_that_see_it_alike() {
    let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let zones = |zones: &[&str]| {
        json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}]}]})
    };
    let device = json!([{"name": "d"}]);
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let whole = json!({"driver": "a.com", "pool": pool, "allNodes": true, "devices": device});
    let selector = zones(&names[..40]);
    let part =
        json!({"driver": "a.com", "pool": pool, "nodeSelector": selector, "devices": device});
    for (spec, fitting, most_searches) in [(whole, 100, 1), (part, 40, 1)] {
        let mut world = World::new(&names);
        world.class("any", &[]);
        world.slice("s", spec);
        let requests = json!([{"name": "r", "exactly": {"deviceClassName": "any"}}]);
        let wanted = [claim("c", &json!({"requests": requests}))];
        let claims = Claims::new(&wanted, &world.cluster, &mut Toys);
        let allocated = Allocated { base: world.cluster.allocated_devices(), overlay: None };
        let allocator = Allocator::new(&world.cluster, Gates::default(), allocated);
        let by_shape = allocator.nodes_by_shape();
        let mut trial = Memos::default().start(claims, &world.cluster);
        let searches = std::cell::Cell::new(0);
        let mut long = LongSearches::default();
        let mut fits = |name: &&&str| {
            let node = world.cluster.node_named(name).unwrap();
            let answer = allocator.fits(
                &mut trial,
                &by_shape,
                node,
                Limits { budget: Budget::UNLIMITED, long: &mut long },
                |_| {
                    searches.set(searches.get() + 1);
                    0
                },
            );
            answer == Ok(Answer::Fits { rank: 0 })
        };
        assert_eq!(names.iter().filter(|name| fits(name)).count(), fitting);
        assert!(searches.get() <= most_searches, "{} searches", searches.get());
    }
}
