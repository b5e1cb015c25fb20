//! The decisions recorded from kube-scheduler 1.36, as far as the allocator alone makes them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use framework::device::ResourceClaim;
use framework::{Cluster, EventResource, Level, Node, api};
use serde::Deserialize;
use serde_json::{Value, json};

use super::cel_text::Texts;
use crate::simulation::world::World;
use crate::{AllocateError, Allocated, Allocator, Budget, Claims, Gates, Limits, LongSearches};

fn cases(area: &str) -> Option<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/corpus");
    let file = std::fs::File::open(folder.join(format!("{area}.jsonl.gz"))).ok()?;
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn cluster(objects: &Value) -> Cluster {
    let mut world = World::default();
    for object in objects.as_array().unwrap() {
        let kind = match object["kind"].as_str().unwrap() {
            "Node" => {
                let node = api::Node::deserialize(object).unwrap();
                world.cluster.set_node(&Node::from_api(&node).0);
                continue;
            }
            "DeviceClass" => EventResource::DeviceClass,
            "ResourceSlice" => EventResource::ResourceSlice,
            "ResourceClaim" => EventResource::ResourceClaim,
            _ => continue,
        };
        world.set(&kind, object.clone());
    }
    world.cluster
}

/// Returns the claims of the pod that are to be allocated; `None` if the plugin rejects the pod, or
/// makes a claim of its own.
fn wanted(case: &Value, cluster: &Cluster) -> Option<Vec<ResourceClaim>> {
    let pod = &case["pod"];
    if case["expected"].get("nodes").is_none() || pod.to_string().contains("example.com/gpu\":") {
        return None;
    }
    let namespace = pod["metadata"]["namespace"].as_str()?;
    let statuses = pod["status"]["resourceClaimStatuses"].as_array();
    let mut claims = Vec::new();
    for claim in pod["spec"]["resourceClaims"].as_array()? {
        let generated = || {
            let mut statuses = statuses?.iter();
            statuses.find(|own| own["name"] == claim["name"])?["resourceClaimName"].as_str()
        };
        let Some(name) = claim["resourceClaimName"].as_str().or_else(generated) else { continue };
        let claim = cluster.resource_claim(namespace, name)?;
        if claim.allocation.is_none() {
            claims.push((**claim).clone());
        }
    }
    (!claims.is_empty()).then_some(claims)
}

#[test]
fn allocations_are_those_of_the_corpus() {
    let (mut nodes, mut compared) = (0, 0);
    for area in ["dra", "mixed"] {
        let Some(cases) = cases(area) else {
            println!("skipped: no recorded decisions");
            return;
        };
        for case in cases {
            let cluster = cluster(&case["objects"]);
            let Some(wanted) = wanted(&case, &cluster) else { continue };
            let claims = Claims::new(&wanted, &cluster, &mut Texts);
            let base = cluster.allocated_devices();
            let allocated = Allocated { base, overlay: None };
            let allocator = Allocator::new(&cluster, Gates::at(Level::V1_36), allocated);
            let expected: BTreeMap<String, Value> =
                serde_json::from_value(case["expected"]["nodes"].clone()).unwrap();
            for (name, verdict) in expected {
                let node = cluster.node(cluster.node_named(&name).unwrap());
                let mut long = LongSearches::default();
                let found = allocator.allocate(
                    &claims,
                    &node,
                    Limits { budget: Budget::of_millis(10_000), long: &mut long },
                    1,
                );
                let id = format!("{} {name}", case["id"]);
                let is_ours = verdict["plugin"] == "DynamicResources";
                match verdict["code"].as_str().unwrap() {
                    "Success" => {
                        let Ok(Some(found)) = found else { panic!("{id}: {found:?}") };
                        let expected = &case["expected"]["allocations"][&name];
                        for (claim, found) in wanted.iter().zip(found) {
                            let expected = &expected[&*claim.name];
                            if expected.is_null() {
                                continue;
                            }
                            let mut found = found.to_json();
                            for result in found["devices"]["results"].as_array_mut().unwrap() {
                                if let Some(share) = result.get_mut("shareID") {
                                    *share = json!("<random>");
                                }
                            }
                            assert_eq!(found, *expected, "{id}");
                            compared += 1;
                        }
                    }
                    "Error" if is_ours => {
                        let Err(AllocateError::Fatal(error)) = &found else {
                            panic!("{id}: {found:?}")
                        };
                        let text = verdict["reasons"][0].as_str().unwrap();
                        let (_, expected) = text.split_once("filter plugin: ").unwrap();
                        if !expected.contains("compile error") {
                            assert_eq!(**error, *expected, "{id}");
                        }
                    }
                    _ if is_ours && verdict["reasons"][0] == "cannot allocate all claims" => {
                        assert!(found == Ok(None), "{id}: {found:?}");
                    }
                    _ => {
                        assert!(found.is_ok(), "{id}: {found:?}");
                        continue;
                    }
                }
                nodes += 1;
            }
        }
    }
    println!("{nodes} nodes, {compared} allocations");
    assert!(nodes > 300 && compared > 100, "{nodes} nodes, {compared} allocations");
}
