use testkit::{Harness, node, pod, storage_class};

use super::world::World;
use super::*;

/// Returns the shape with these scores for empty and full storage.
fn line([empty, full]: [i32; 2]) -> Value {
    json!({ "shape": [
        { "utilization": 0, "score": empty },
        { "utilization": 100, "score": full },
    ] })
}

/// Prefers empty storage.
const FALLING: [i32; 2] = [10, 0];

/// Nodes `a` and `b` in zones of their names, with the shape that prefers empty storage.
fn harness(objects: impl IntoIterator<Item = StorageObject>) -> Harness {
    harness_with(FALLING, objects)
}

/// The same nodes, with these scores for empty and full storage.
fn harness_with(scores: [i32; 2], objects: impl IntoIterator<Item = StorageObject>) -> Harness {
    let harness = Harness::new(plugin_of(line(scores)))
        .node(node("a").label("zone", "a").build())
        .node(node("b").label("zone", "b").build())
        .storage(storage_class("local", "kubernetes.io/no-provisioner", WAIT))
        .storage(storage_class("made", DRIVER, WAIT));
    objects.into_iter().fold(harness, Harness::storage)
}

#[track_caller]
fn scores(harness: &Harness, claims: &[&str]) -> [i64; 2] {
    let pod = claims.iter().fold(pod("p"), |pod, claim| pod.claim(claim)).build();
    let run = harness.run(&pod);
    ["a", "b"].map(|node| run.scores[node])
}

#[test]
fn without_a_shape_storage_is_not_scored() {
    let harness = Harness::new(plugin_of(json!({}))).node(node("a").build());
    assert!(harness.run(&pod("p").build()).pre_score.is_skip());
}

#[test]
fn existing_volumes_score_by_requested_share() {
    let harness = harness([
        sized_claim("one", "local", "1Gi"),
        sized_claim("two", "local", "2Gi"),
        local_volume("a-1", "4Gi", "a"),
        local_volume("a-2", "4Gi", "a"),
        local_volume("b-1", "1Gi", "b"),
        local_volume("b-2", "3Gi", "b"),
    ]);
    assert_eq!(scores(&harness, &["one"]), [75, 0]);
    assert_eq!(scores(&harness, &["one", "two"]), [63, 25]);
    assert_eq!(scores(&harness, &[]), [0, 0]);
}

#[test]
fn score_is_the_mean_over_classes_with_halves_rounded_up() {
    let slow = |volume: StorageObject| volume.set("/spec/storageClassName", json!("slow"));
    let harness = harness([
        storage_class("slow", "kubernetes.io/no-provisioner", WAIT),
        sized_claim("one", "local", "1Gi"),
        sized_claim("two", "slow", "1Gi"),
        local_volume("a-1", "4Gi", "a"),
        slow(local_volume("a-2", "2Gi", "a")),
        local_volume("b-1", "4Gi", "b"),
        slow(local_volume("b-2", "1Gi", "b")),
    ]);
    assert_eq!(scores(&harness, &["one"]), [75, 75]);
    assert_eq!(scores(&harness, &["two"]), [50, 0]);
    assert_eq!(scores(&harness, &["one", "two"]), [63, 38]);
}

fn driver() -> StorageObject {
    let spec = json!({ "spec": { "storageCapacity": true } });
    StorageObject::new(EventResource::CsiDriver, DRIVER, spec)
}

/// Returns the reported capacity of class `made` in a zone.
fn capacity(zone: &str, mut fields: Value) -> StorageObject {
    fields["storageClassName"] = json!("made");
    fields["nodeTopology"] = json!({ "matchLabels": { "zone": zone } });
    StorageObject::new(EventResource::CsiStorageCapacity, zone, fields)
}

#[test]
fn unknown_capacity_counts_as_full_and_unreported_storage_is_not_scored() {
    let objects = || {
        [sized_claim("one", "made", "1Gi"), capacity("b", json!({ "maximumVolumeSize": "1Gi" }))]
    };
    let reported = harness_with(
        [0, 10],
        objects().into_iter().chain([driver(), capacity("a", json!({ "capacity": "10Gi" }))]),
    );
    assert_eq!(scores(&reported, &["one"]), [10, 100]);
    assert_eq!(scores(&harness_with([5, 10], objects()), &["one"]), [0, 0]);
}

#[test]
fn volumes_assumed_for_other_claims_are_not_scored() {
    let mut world = World::new(
        line(FALLING),
        [
            storage_class("local", "kubernetes.io/no-provisioner", WAIT),
            sized_claim("one", "local", "1Gi"),
            sized_claim("two", "local", "1Gi"),
            local_volume("full", "1Gi", "a"),
            local_volume("roomy", "4Gi", "a"),
        ],
    );
    assert_eq!(world.score(pod("q").claim("two"), "a"), 0);
    world.reserve(pod("p").claim("one"), "a").unwrap();
    assert_eq!(world.score(pod("q").claim("two"), "a"), 75);
}

#[test]
fn provisioned_volumes_score_by_capacity() {
    let harness = harness([
        driver(),
        sized_claim("one", "made", "1Gi"),
        sized_claim("two", "made", "2Gi"),
        sized_claim("three", "local", "3Gi"),
        local_volume("pv-a", "4Gi", "a"),
        local_volume("pv-b", "12Gi", "b"),
        capacity("a", json!({ "capacity": "10Gi" })),
        capacity("b", json!({ "maximumVolumeSize": "10Gi" })),
    ]);
    // If only the maximum volume size is known, the capacity is unknown.
    assert_eq!(scores(&harness, &["one"]), [90, 0]);
    assert_eq!(scores(&harness, &["one", "two"]), [70, 0]);
    // A volume may be larger than the capacity.
    let harness =
        harness.storage(capacity("b", json!({ "capacity": "1Gi", "maximumVolumeSize": "9Gi" })));
    assert_eq!(scores(&harness, &["two"]), [80, 0]);
    // Provisioned volumes do not count beside existing volumes.
    assert_eq!(scores(&harness, &["one", "three"]), [25, 75]);
}
