use serde_json::{Value, json};

use super::*;
use crate::api;

fn slice(spec: Value) -> ResourceSlice {
    let object = json!({"metadata": {"name": "s"}, "spec": spec});
    ResourceSlice::from_api(&serde_json::from_value::<api::ResourceSlice>(object).unwrap())
}

fn claim(object: Value) -> ResourceClaim {
    ResourceClaim::from_api(&serde_json::from_value::<api::ResourceClaim>(object).unwrap())
}

#[test]
fn attribute_without_domain_belongs_to_the_driver() {
    let attributes = json!({"model": {"string": "m"}, "other.com/x": {"int": 3}, "odd": {},
        "list": {"strings": ["a", "b"]}});
    let device = json!({"name": "d", "attributes": attributes});
    let slice = slice(json!({"driver": "gpu.com", "devices": [device]}));
    let description = &slice.devices[0].description;
    assert_eq!(description.attribute("gpu.com/model"), Some(&Attribute::String("m".into())));
    assert_eq!(description.attribute("other.com/x"), Some(&Attribute::Int(3)));
    assert_eq!(description.attribute("other.com/model"), None);
    assert_eq!(description.attribute("gpu.com/odd"), Some(&Attribute::Unsupported));
    let list = Attribute::Strings(["a".into(), "b".into()].into());
    assert_eq!(description.attribute("gpu.com/list"), Some(&list));
    assert!(description.has_list_attribute && description.has_unreadable_attribute);
}

#[test]
fn field_that_cannot_be_read_spoils_only_its_device() {
    let bad = json!({"name": "bad", "capacity": {"memory": {"value": "x"}}});
    let worse = json!({"name": "worse",
        "consumesCounters": [{"counterSet": "c", "counters": {"n": {"value": "?"}}}]});
    let slice = slice(json!({"devices": [bad, worse, {"name": "good"}]}));
    let problems: Vec<_> = slice.devices.iter().map(|device| device.problem.is_some()).collect();
    assert_eq!(problems, [true, true, false]);
}

#[test]
fn node_scope_follows_the_precedence_of_kubernetes() {
    let selector = json!({"nodeSelectorTerms": []});
    for (spec, expected) in [
        (json!({"nodeName": "n", "allNodes": true}), "Node"),
        (json!({"nodeName": "", "allNodes": true, "nodeSelector": selector}), "All"),
        (json!({"nodeSelector": selector, "perDeviceNodeSelection": true}), "Selector"),
        (json!({"allNodes": false, "perDeviceNodeSelection": true}), "PerDevice"),
        (json!({"perDeviceNodeSelection": false}), "None"),
    ] {
        let scope = format!("{:?}", slice(spec.clone()).scope);
        assert!(scope.starts_with(expected), "{spec}: {scope}");
    }
}

#[test]
fn request_gets_the_defaults_of_the_api_server() {
    let requests = json!([
        {"name": "a", "exactly": {"deviceClassName": "c"}},
        {"name": "b", "firstAvailable": [{"name": "s", "deviceClassName": "c", "count": 2}]},
        {"name": "c", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        {"name": "d"},
    ]);
    let claim = claim(json!({"spec": {"devices": {"requests": requests}}}));
    let modes = |place: usize| claim.spec.requests[place].bodies().iter().map(|body| &body.mode);
    assert!(modes(0).eq([&AllocationMode::ExactCount(1)]));
    assert!(modes(1).eq([&AllocationMode::ExactCount(2)]));
    assert!(modes(2).eq([&AllocationMode::All]));
    assert_eq!(claim.spec.requests[3].kind, RequestKind::Unknown);
}

#[test]
fn allocation_is_written_as_it_was_read() {
    let json = json!({
        "devices": {
            "results": [
                {"request": "r", "driver": "d", "pool": "p", "device": "x"},
                {"request": "r/s", "driver": "d", "pool": "p", "device": "y", "adminAccess": true,
                 "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
                 "bindingConditions": ["a"], "bindingFailureConditions": ["b"],
                 "shareID": "u", "consumedCapacity": {"memory": "1Gi"}},
            ],
            "config": [{"source": "FromClass", "requests": ["r"],
                "opaque": {"driver": "d", "parameters": {"kind": "K", "n": 1}}}],
        },
        "nodeSelector": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    });
    let read: api::AllocationResult = serde_json::from_value(json.clone()).unwrap();
    let allocation = Allocation::from_api(&read);
    assert_eq!(allocation.to_json(), json);
    assert!(allocation.allocated_at().is_some());
    assert_eq!(Allocation::default().to_json(), json!({"devices": {}}));
}

#[test]
fn claim_keeps_what_the_plugin_writes_back() {
    let entry = json!({"resource": "pods", "name": "p", "uid": "u", "future": 1});
    let claim = claim(json!({
        "metadata": {"name": "c", "namespace": "n", "uid": "c-uid", "resourceVersion": "7",
            "finalizers": ["x", FINALIZER], "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u", "controller": true}]},
        "status": {"reservedFor": [entry]},
    }));
    assert!(claim.is_protected() && claim.is_for_extended_resources);
    assert_eq!(*claim.reserved_for[0].raw, entry);
    assert_eq!(claim.controller.unwrap().uid, claim.reserved_for[0].uid);
}

#[test]
fn toleration_matches_as_specified() {
    let taint = DeviceTaint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into() };
    for (key, operator, value, effect, expected) in [
        ("k", "Exists", "", "", true),
        ("", "Exists", "", "NoSchedule", true),
        ("k", "Equal", "v", "", true),
        ("k", "", "v", "", true),
        ("k", "Equal", "w", "", false),
        ("l", "Exists", "", "", false),
        ("k", "Exists", "", "NoExecute", false),
        ("k", "Gt", "v", "", false),
    ] {
        let [key, operator, value, effect] = [key, operator, value, effect].map(Arc::from);
        let toleration =
            DeviceToleration { key, operator, value, effect, toleration_seconds: None };
        assert_eq!(toleration.tolerates(&taint), expected, "{toleration:?}");
    }
}
