use serde_json::{Value, json};

use super::*;
use crate::api;

fn claim(object: Value) -> PersistentVolumeClaim {
    PersistentVolumeClaim::from_api(&serde_json::from_value(object).unwrap())
}

fn persistent_volume(object: Value) -> PersistentVolume {
    PersistentVolume::from_api(&serde_json::from_value(object).unwrap())
}

#[test]
fn class_annotation_takes_precedence_over_the_field() {
    let rows = [
        (json!({}), json!({}), ""),
        (json!({}), json!({ "storageClassName": "fast" }), "fast"),
        (json!({ BETA_STORAGE_CLASS: "old" }), json!({ "storageClassName": "fast" }), "old"),
        (json!({ BETA_STORAGE_CLASS: "" }), json!({ "storageClassName": "fast" }), ""),
    ];
    for (annotations, spec, expected) in rows {
        let object = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        assert_eq!(&*claim(object.clone()).class, expected, "{object}");
        assert_eq!(&*persistent_volume(object.clone()).class, expected, "{object}");
    }
}

#[test]
fn claim_is_bound_with_annotation_and_volume_name() {
    let rows = [
        (json!({}), json!({}), false),
        (json!({}), json!({ "volumeName": "pv" }), false),
        (json!({ BIND_COMPLETED: "yes" }), json!({}), false),
        (json!({ BIND_COMPLETED: "" }), json!({ "volumeName": "pv" }), true),
    ];
    for (annotations, spec, expected) in rows {
        let object = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        assert_eq!(claim(object.clone()).is_fully_bound(), expected, "{object}");
    }
}

#[test]
fn claim_is_for_one_pod_with_read_write_once_pod() {
    for (modes, expected) in [
        (json!([]), false),
        (json!(["ReadWriteOnce"]), false),
        (json!(["ReadOnlyMany", "ReadWriteOncePod"]), true),
    ] {
        let object = json!({ "spec": { "accessModes": modes } });
        assert_eq!(claim(object.clone()).is_for_one_pod(), expected, "{object}");
    }
}

#[test]
fn annotation_marks_a_volume_bound_by_a_controller() {
    for (annotations, expected) in [
        (json!({}), false),
        (json!({ BOUND_BY_CONTROLLER: "yes" }), true),
        (json!({ BOUND_BY_CONTROLLER: "" }), true),
    ] {
        let object = json!({ "metadata": { "annotations": annotations } });
        assert_eq!(persistent_volume(object.clone()).bound_by_controller, expected, "{object}");
    }
}

#[test]
fn unreadable_size_is_reported_and_other_fields_are_kept() {
    let requests = json!({ "resources": { "requests": { "storage": "ten" } }, "volumeName": "pv" });
    let claim = claim(json!({ "metadata": { "name": "c" }, "spec": requests }));
    let problem = claim.problem.as_deref().unwrap();
    assert!(problem.starts_with("spec.resources.requests.storage: \"ten\": "), "{problem}");
    assert_eq!((claim.request, claim.volume_name.as_deref()), (None, Some("pv")));
    let spec = json!({ "capacity": { "storage": "ten" }, "storageClassName": "fast" });
    let volume = persistent_volume(json!({ "metadata": { "name": "pv" }, "spec": spec }));
    assert_eq!((volume.capacity, &*volume.class), (StorageSize::default(), "fast"));
}

#[test]
fn sizes_compare_exactly_and_round_up() {
    let size = |text: &str| StorageSize::read(&api::QuantityText(text.to_owned())).unwrap();
    assert!(size("1.5") < size("1.6") && size("1Gi") > size("1G"));
    assert_eq!(size("1Gi"), StorageSize::bytes(1 << 30));
    let rounded = ["1.2", "0", "-1.5", "2k"].map(|text| size(text).to_bytes());
    assert_eq!(rounded, [2, 0, -1, 2000]);
}

#[test]
fn volume_belongs_to_the_claim_of_its_reference() {
    let claim = claim(json!({ "metadata": { "namespace": "ns", "name": "c", "uid": "u" } }));
    for (reference, expected) in [
        (json!(null), false),
        (json!({ "namespace": "ns", "name": "c" }), true),
        (json!({ "namespace": "ns", "name": "c", "uid": "u" }), true),
        (json!({ "namespace": "ns", "name": "c", "uid": "v" }), false),
        (json!({ "namespace": "ns", "name": "d", "uid": "u" }), false),
        (json!({ "namespace": "other", "name": "c", "uid": "u" }), false),
    ] {
        let object = json!({ "spec": { "claimRef": reference } });
        assert_eq!(persistent_volume(object).is_for(&claim), expected, "{reference}");
    }
}
