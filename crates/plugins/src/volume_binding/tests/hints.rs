use framework::storage::MIGRATED_PLUGINS;
use framework::{ActionType, ClusterEvent, EventObjects, QueueingHint};
use testkit::{Harness, bound_claim, object, pod, storage_class};

use super::*;
use crate::forms;

fn answer(resource: EventResource, old: Option<Value>, new: Value) -> QueueingHint {
    let action = if old.is_some() { ActionType::UPDATE } else { ActionType::ADD };
    answer_to(resource, action, old.as_ref(), Some(&new))
}

fn answer_to(
    resource: EventResource,
    action: ActionType,
    old: Option<&Value>,
    new: Option<&Value>,
) -> QueueingHint {
    let pod = pod("p")
        .claim("data")
        .volume(json!({ "ephemeral": {} }))
        .volume(json!({ "csi": { "driver": DRIVER } }))
        .build();
    let [old, new] = [old, new].map(|json| Some(object(resource.clone(), json?.clone())));
    let objects = EventObjects::Other { old: old.as_ref(), new: new.as_ref() };
    forms::hint(&plugin_of(json!({})), &pod, resource, action, objects)
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
fn changed_topologies_of_a_class_requeue() {
    let class = |zones: &[&str]| {
        let label = json!({ "key": "zone", "values": zones });
        json!({ "allowedTopologies": [{ "matchLabelExpressions": [label] }] })
    };
    let mut labelled = class(&["a"]);
    labelled["metadata"] = json!({ "labels": { "tier": "gold" } });
    check(
        &EventResource::StorageClass,
        [
            (None, class(&["a"]), true),
            (Some(class(&["a"])), class(&["a"]), false),
            (Some(class(&["a"])), class(&["a", "b"]), true),
            // Kubernetes compares the topologies in order and requeues here.
            (Some(class(&["a", "b"])), class(&["b", "a"]), true),
            (Some(class(&["a"])), json!({}), true),
            (Some(json!({ "allowedTopologies": [] })), json!({ "parameters": {} }), false),
            (Some(class(&["a"])), labelled, false),
        ],
    );
}

#[test]
fn changes_of_own_claims_requeue() {
    let claim = |namespace: &str, name: &str| {
        let metadata = json!({ "namespace": namespace, "name": name });
        json!({ "metadata": metadata })
    };
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
fn changes_of_any_volume_requeue() {
    check(
        &EventResource::PersistentVolume,
        [(None, json!({}), true), (Some(json!({})), json!({}), true)],
    );
}

#[test]
fn deleted_volume_requeues_the_pod_it_was_reserved_for() {
    let reserved = |namespace: &str, name: &str| {
        let reference = json!({ "namespace": namespace, "name": name });
        json!({ "spec": { "claimRef": reference } })
    };
    for (old, queue) in [
        (reserved("default", "data"), true),
        (reserved("default", "p-v1"), true),
        (reserved("default", "other"), false),
        (reserved("other", "data"), false),
        (json!({}), false),
    ] {
        let kind = EventResource::PersistentVolume;
        let answer = answer_to(kind, ActionType::DELETE, Some(&old), None);
        assert_eq!(answer, QueueingHint::queue_if(queue), "{old}");
    }
}

#[test]
fn csi_node_with_changed_migration_requeues() {
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
    for (old, queue) in [(node("x"), true), (node(""), false), (json!({}), false)] {
        let answer = answer_to(EventResource::CsiNode, ActionType::DELETE, Some(&old), None);
        assert_eq!(answer, QueueingHint::queue_if(queue), "{old} goes");
    }
}

#[test]
fn driver_that_stops_reporting_capacity_requeues() {
    let driver = |name: &str, capacity: Value| {
        let spec = json!({ "storageCapacity": capacity });
        json!({ "metadata": { "name": name }, "spec": spec })
    };
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

/// Returns the hint for pod `p` with claim `data` of class `made`, bound or not.
fn hint_in_cluster(
    is_bound: bool,
    resource: EventResource,
    action: ActionType,
    objects: EventObjects<'_>,
) -> QueueingHint {
    let data = match is_bound {
        true => bound_claim("data", "pv"),
        false => sized_claim("data", "made", "1Gi"),
    };
    let harness = Harness::new(plugin_of(json!({})))
        .storage(storage_class("made", DRIVER, WAIT))
        .storage(bound_claim("bound", "pv-bound"))
        .storage(sized_claim("unbound", "made", "1Gi"))
        .storage(bound_claim("bound", "pv-1").namespace("team"))
        .storage(bound_claim("unbound", "pv-2").namespace("team"))
        .storage(data);
    let event = ClusterEvent::new(resource, action);
    harness.hint(&pod("p").claim("data").build(), &event, objects).unwrap()
}

#[test]
fn changed_or_deleted_driver_requeues_claims_it_provisions() {
    let driver = |name: &str, capacity: bool| {
        let spec = json!({ "storageCapacity": capacity });
        json!({ "metadata": { "name": name }, "spec": spec })
    };
    for (is_bound, old, new, queue) in [
        (false, driver(DRIVER, true), Some(driver(DRIVER, false)), true),
        (false, driver(DRIVER, true), None, true),
        (false, driver(DRIVER, false), None, false),
        (false, driver("other", true), None, false),
        (true, driver(DRIVER, true), None, false),
    ] {
        let action = if new.is_some() { ActionType::UPDATE } else { ActionType::DELETE };
        let decoded = |json: &Value| object(EventResource::CsiDriver, json.clone());
        let (from, to) = (decoded(&old), new.as_ref().map(decoded));
        let objects = EventObjects::Other { old: Some(&from), new: to.as_ref() };
        let answer = hint_in_cluster(is_bound, EventResource::CsiDriver, action, objects);
        assert_eq!(answer, QueueingHint::queue_if(queue), "{old} {new:?} {is_bound}");
    }
}

#[test]
fn deleted_pod_that_never_ran_with_claims_requeues() {
    for (namespace, claim, has_run, is_bound, queue) in [
        ("default", Some("unbound"), false, false, true),
        ("default", Some("missing"), false, false, true),
        ("team", Some("unbound"), false, false, true),
        // Another pod has bound the claim that it shared, maybe to another volume than the assumed
        // one.
        ("default", Some("bound"), false, false, true),
        ("default", Some("bound"), true, false, false),
        ("default", Some("unbound"), false, true, false),
        ("default", None, false, false, false),
    ] {
        let gone = pod("gone").namespace(namespace).on("a");
        let gone = claim.map_or(gone.clone(), |claim| gone.claim(claim));
        let gone = if has_run { gone.started(1).build() } else { gone.build() };
        let objects = EventObjects::Pod { old: Some(&gone), new: None };
        let (resource, action) = (EventResource::AssignedPod, ActionType::DELETE);
        let answer = hint_in_cluster(is_bound, resource, action, objects);
        let expected = QueueingHint::queue_if(queue);
        assert_eq!(answer, expected, "{namespace}/{claim:?} {has_run} {is_bound}");
    }
}

#[test]
fn grown_capacity_requeues() {
    let capacity = |capacity: Value, largest: Value| {
        let mut hint_given = json!({ "capacity": capacity });
        hint_given["maximumVolumeSize"] = largest;
        hint_given
    };
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
