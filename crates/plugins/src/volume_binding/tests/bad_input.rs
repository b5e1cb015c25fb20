//! Dangling references and invalid objects: the pods that need them get an error, and other pods
//! are not affected.

use framework::storage::SELECTED_NODE;
use testkit::{Harness, bound_claim, csi_node, pod, storage_class};

use super::filtering::{
    AFFINITY, BIND, MISSING, SPACE, anywhere, at, capacity, driver, harness, messages,
};
use super::*;

/// Returns the storage of a pod that fits only node `a`.
fn good() -> [StorageObject; 5] {
    [
        bound_claim("own", "pv-own"),
        at("pv-own", zone_affinity(&["a", "b"])),
        sized_claim("free", "local", "1Gi"),
        local_volume("pv-free", "1Gi", "a"),
        sized_claim("new", "made", "1Gi"),
    ]
}

#[track_caller]
fn check_good(harness: &Harness) {
    let both = format!("{AFFINITY}, {BIND}");
    assert_eq!(messages(harness, &["own", "free", "new"]), ["", BIND, &both]);
}

fn of_class(class: &str) -> StorageObject {
    sized_claim("data", class, "1Gi")
}

#[test]
fn dangling_claim_rejects_every_node() {
    let immediate = "pod has unbound immediate PersistentVolumeClaims";
    let unreadable = "persistentvolumeclaim \"data\" cannot be read: \
         spec.resources.requests.storage: \"1 Gi\": quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let modeless = storage_class("modeless", DRIVER, WAIT).set("/volumeBindingMode", json!(null));
    let mode = Status::error("VolumeBindingMode not set for StorageClass \"modeless\"");
    let never = |text: &str| Status::unresolvable(text.to_owned());
    for (bad, expected) in [
        (vec![], never("persistentvolumeclaim \"data\" not found")),
        (
            vec![of_class("made").set("/spec", json!(7))],
            never("persistentvolumeclaim \"data\" not found"),
        ),
        (vec![of_class("gone")], never(immediate)),
        (vec![of_class("gone").annotation(SELECTED_NODE, "gone")], never(immediate)),
        (
            vec![
                of_class("broken"),
                storage_class("broken", DRIVER, WAIT).set("/provisioner", json!([])),
            ],
            never(immediate),
        ),
        (vec![of_class("modeless"), modeless], mode),
        (vec![sized_claim("data", "made", "1 Gi")], never(unreadable)),
    ] {
        let harness = harness(good().into_iter().chain(bad.clone()));
        let run = harness.run(&pod("p").claim("data").build());
        assert_eq!(run.pre_filter, expected, "{bad:?}");
        check_good(&harness);
    }
}

#[test]
fn invalid_volume_rejects_only_the_nodes_it_affects() {
    let bound = || bound_claim("data", "pv");
    let zone = |operator: &str| {
        let zone = json!({ "key": "zone", "operator": operator, "values": ["a"] });
        json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [zone] }] } })
    };
    let class = |topologies: Value| {
        storage_class("odd", DRIVER, WAIT).set("/allowedTopologies", topologies)
    };
    let without_values = json!([{ "matchLabelExpressions": [{ "key": "zone" }] }]);
    let of_odd = |volume: StorageObject| volume.set("/spec/storageClassName", json!("odd"));
    let local = || storage_class("odd", "kubernetes.io/no-provisioner", WAIT);
    let room = |fields: Value| capacity("room", "odd", "a", fields);
    let full = |room: StorageObject| vec![of_class("odd"), class(json!([])), driver(true), room];
    for (text, bad, expected) in [
        ("no volume", vec![bound()], MISSING),
        ("no volume at all", vec![bound(), anywhere("pv").set("/spec", json!("x"))], MISSING),
        ("an unknown operator", vec![bound(), at("pv", zone("Near"))], AFFINITY),
        (
            "a size that does not parse",
            vec![of_class("odd"), local(), of_odd(local_volume("pv", "much", "a"))],
            BIND,
        ),
        ("no provisioner", vec![of_class("odd"), local()], BIND),
        ("topologies without values", vec![of_class("odd"), class(without_values)], BIND),
        ("capacity that does not parse", full(room(json!({ "capacity": "much" }))), SPACE),
        (
            "a limit that does not parse",
            full(room(json!({ "capacity": "9Gi", "maximumVolumeSize": "much" }))),
            SPACE,
        ),
        (
            "invalid capacity with a valid limit",
            full(room(json!({ "capacity": "much", "maximumVolumeSize": "9Gi" }))),
            SPACE,
        ),
        (
            "a topology that does not parse",
            full(room(json!({ "capacity": "9Gi" })).set(
                "/nodeTopology",
                json!({ "matchExpressions": [{ "key": "zone", "operator": "Near" }] }),
            )),
            SPACE,
        ),
    ] {
        // Reported capacities concern only class `odd`.
        let objects = good().map(|own| match own.json()["metadata"]["name"] == "new" {
            true => sized_claim("new", "reserve", "1Gi"),
            false => own,
        });
        let reserve = storage_class("reserve", "other.example.com", WAIT);
        let harness = harness(objects.into_iter().chain(bad)).storage(reserve);
        assert_eq!(messages(&harness, &["data"]), [expected; 3], "{text}");
        check_good(&harness);
    }
}

#[test]
fn unrelated_and_invalid_objects_are_ignored() {
    let unreadable = csi_node("a", &[]).set("/spec", json!("x"));
    let elsewhere = csi_node("gone", &[(DRIVER, Some(0))]);
    let driver = StorageObject::new(EventResource::CsiDriver, DRIVER, json!({ "spec": [] }));
    let volume = local_volume("pv-other", "1Gi", "a").set("/spec/claimRef", json!("x"));
    for bad in [unreadable, elsewhere, driver, volume] {
        check_good(&harness(good().into_iter().chain([bad])));
    }
}
