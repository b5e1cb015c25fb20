//! Random histories: a kept overlay equals one that is made from nothing.

use fastrand::Rng;
use framework::device::Allocation;
use framework::{EventResource, api};
use serde::Deserialize;
use serde_json::json;
use testkit::SetJson;

use crate::Overlay;
use crate::simulation::random::{one_in, pick};
use crate::simulation::world::World;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const POOLS: [&str; 4] = ["p", "q", "r", "s"];

/// Replaces or removes a slice of a pool, which may have another node then.
fn change_slice(rng: &mut Rng, world: &mut World) {
    let pool = *pick(rng, &POOLS);
    let name = format!("{pool}-{}", rng.usize(..2));
    if one_in(rng, 4) {
        world.cluster.set_json(&EventResource::ResourceSlice, "", &name, None);
        return;
    }
    let devices: Vec<_> =
        (0..3).filter(|_| rng.bool()).map(|number| json!({"name": number.to_string()})).collect();
    let mut spec = json!({"driver": "a.com", "devices": devices,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 2}});
    spec["nodeName"] = json!(*pick(rng, &NODES));
    world.slice(&name, spec);
}

fn allocation(rng: &mut Rng) -> Allocation {
    let result = |rng: &mut Rng| {
        let mut result = json!({"request": "r", "driver": "a.com", "pool": *pick(rng, &POOLS),
            "device": rng.usize(..3).to_string()});
        if rng.bool() {
            result["shareID"] = json!("x");
            result["consumedCapacity"] = json!({"memory": "2"});
        }
        result
    };
    let results: Vec<_> = (0..1 + rng.usize(..2)).map(|_| result(rng)).collect();
    let raw = json!({"devices": {"results": results}});
    Allocation::from_api(&api::AllocationResult::deserialize(&raw).unwrap())
}

#[test]
fn kept_overlay_equals_one_made_from_nothing() {
    let mut with_nodes = 0;
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new(&NODES);
        let (mut overlay, mut counted) = (Overlay::default(), Vec::new());
        for event in 0..60 {
            match rng.usize(..5) {
                0..2 => change_slice(&mut rng, &mut world),
                2..4 => {
                    let allocation = allocation(&mut rng);
                    overlay.add(&allocation);
                    counted.push(allocation);
                }
                _ if !counted.is_empty() => {
                    let place = rng.usize(..counted.len());
                    overlay.remove(&counted.swap_remove(place));
                }
                _ => {}
            }
            if one_in(&mut rng, 3) {
                overlay.update(&world.cluster);
                let mut made = Overlay::default();
                counted.iter().for_each(|allocation| made.add(allocation));
                made.update(&world.cluster);
                assert_eq!(overlay, made, "seed {seed}, event {event}");
                with_nodes += made.nodes().count();
            }
        }
    }
    assert!(with_nodes > 1000, "{with_nodes}");
}
