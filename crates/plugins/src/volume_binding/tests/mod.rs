mod agreement;
mod assuming;
mod bad_input;
mod binding;
mod caches;
mod claims;
mod filtering;
mod hints;
mod scoring;
mod world;

use std::sync::Arc;

use framework::EventResource;
use serde_json::{Value, json};
use testkit::{StorageObject, claim, volume};

use super::*;

const WAIT: &str = "WaitForFirstConsumer";
const DRIVER: &str = "csi.example.com";
const VOLUMES: &str = "persistentvolumes";
const CLAIMS: &str = "persistentvolumeclaims";

/// Returns a claim of this class and size.
fn sized_claim(name: &str, class: &str, size: &str) -> StorageObject {
    claim(
        name,
        json!({
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": size } },
        }),
    )
}

/// Returns a free volume of class `local` and this size for the nodes with this zone label.
fn local_volume(name: &str, size: &str, zone: &str) -> StorageObject {
    volume(
        name,
        json!({
            "storageClassName": "local",
            "capacity": { "storage": size },
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "nodeAffinity": zone_affinity(&[zone]),
        }),
    )
}

fn zone_affinity(zones: &[&str]) -> Value {
    let zone = json!({ "key": "zone", "operator": "In", "values": zones });
    json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [zone] }] } })
}

fn plugin_of(args: Value) -> Plugin {
    plugin(&PluginArgs::new(args)).unwrap()
}
