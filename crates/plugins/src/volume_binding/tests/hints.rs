use framework::storage::MIGRATED_PLUGINS;
use framework::testing::pod;
use framework::{ActionType, EventObjects, QueueingHint};

use super::*;
use crate::forms;

fn answer(resource: EventResource, old: Option<Value>, new: Value) -> QueueingHint {
    let pod = pod("p")
        .claim("data")
        .volume(json!({ "ephemeral": {} }))
        .volume(json!({ "csi": { "driver": DRIVER } }))
        .build();
    let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
    let objects = EventObjects::Other { old: old.as_ref(), new: Some(&new) };
    forms::hint(&plugin_of(json!({})), &pod, resource, action, &objects)
}

#[track_caller]
fn check(resource: &EventResource, rows: impl IntoIterator<Item = (Option<Value>, Value, bool)>) {
    for (old, new, queue) in rows {
        let text = format!("{old:?} {new}");
        let expected = QueueingHint::queue_if(queue);
        assert_eq!(answer(resource.clone(), old, new), expected, "{text}");
    }
}

#[test]
fn other_topologies_of_a_class_may_help() {
    let class = |zones: &[&str]| {
        let label = json!({ "key": "zone", "values": zones });
        json!({ "allowedTopologies": [{ "matchLabelExpressions": [label] }] })
    };
    check(
        &EventResource::StorageClass,
        [
            (None, class(&["a"]), true),
            (Some(class(&["a"])), class(&["a"]), false),
            (Some(class(&["a"])), class(&["a", "b"]), true),
            (Some(class(&["a"])), json!({}), true),
            (Some(json!({ "allowedTopologies": [] })), json!({ "parameters": {} }), false),
        ],
    );
}

#[test]
fn claims_of_the_pod_may_help() {
    let claim = |namespace: &str, name: &str| json!({ "metadata": { "namespace": namespace, "name": name } });
    let rows = [
        (claim("default", "data"), true),
        (claim("default", "p-v1"), true),
        (claim("default", "p-v0"), false),
        (claim("other", "data"), false),
    ];
    for old in [None, Some(claim("default", "data"))] {
        let rows = rows.clone().into_iter().map(|(new, queue)| (old.clone(), new, queue));
        check(&EventResource::PersistentVolumeClaim, rows);
    }
}

#[test]
fn any_volume_may_help() {
    check(
        &EventResource::PersistentVolume,
        [(None, json!({}), true), (Some(json!({})), json!({}), true)],
    );
}

#[test]
fn a_csi_node_helps_when_it_replaces_other_plugins() {
    let node =
        |plugins: &str| json!({ "metadata": { "annotations": { MIGRATED_PLUGINS: plugins } } });
    check(
        &EventResource::CsiNode,
        [
            (None, json!({}), true),
            (Some(node("x")), node("x"), false),
            (Some(node("x")), node("x,y"), true),
            (Some(json!({})), node("x"), true),
            (Some(json!({})), json!({ "spec": { "drivers": [{ "name": "x" }] } }), false),
        ],
    );
}

#[test]
fn a_driver_helps_when_it_stops_telling_how_much_room_there_is() {
    let driver = |name: &str, capacity: Value| json!({ "metadata": { "name": name }, "spec": { "storageCapacity": capacity } });
    let own = |capacity: Value| driver(DRIVER, capacity);
    check(
        &EventResource::CsiDriver,
        [
            (Some(own(json!(true))), own(json!(false)), true),
            (Some(own(json!(true))), own(json!(null)), true),
            (Some(own(json!(true))), own(json!(true)), false),
            (Some(own(json!(false))), own(json!(null)), false),
            (Some(driver("other", json!(true))), driver("other", json!(false)), false),
        ],
    );
}

#[test]
fn more_room_helps() {
    let capacity = |capacity: Value, maximum: Value| json!({ "capacity": capacity, "maximumVolumeSize": maximum });
    let room = |size: &str| capacity(json!(size), json!(null));
    check(
        &EventResource::CsiStorageCapacity,
        [
            (None, json!({}), true),
            (Some(room("1Gi")), room("2Gi"), true),
            (Some(room("2Gi")), room("1Gi"), false),
            (Some(room("1Gi")), room("1024Mi"), false),
            (Some(json!({})), room("0"), true),
            (Some(room("0")), json!({}), false),
            (Some(capacity(json!("1Gi"), json!("2Gi"))), room("3Gi"), true),
            (Some(room("9Gi")), capacity(json!("9Gi"), json!("5Gi")), false),
        ],
    );
}

#[test]
fn what_is_not_an_object_of_the_kind_queues() {
    let old = Some(json!({ "allowedTopologies": 7 }));
    assert_eq!(answer(EventResource::StorageClass, old, json!({})), QueueingHint::Queue);
}
