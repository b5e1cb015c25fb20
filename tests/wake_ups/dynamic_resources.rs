//! DynamicResources.

use std::time::Duration;

use framework::ActionType as A;
use framework::EventResource as R;
use serde_json::{Value, json};

use super::objects::{Object, create, delete, label, node, object, patch, pod, taint};
use super::scenario::{Expected, Scenario, event};
use super::world::World;
use Expected::{Bound, Left, Retried};

const API: &str = "resource.k8s.io/v1";
const DEVICES: &str = "resourceslices/devices";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        without_devices(),
        with_a_device_in_use(),
        with_a_contradictory_pool(),
        without_its_claim(),
        without_generated_claim(),
    ]
}

fn class(name: &str) -> Object {
    object(API, "DeviceClass", name).spec(json!({}))
}

/// A claim for one device.
fn claim(name: &str) -> Object {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    object(API, "ResourceClaim", name).spec(json!({"devices": {"requests": [request]}}))
}

/// A slice of node `n` with these devices.
fn slice(devices: &[&str]) -> Object {
    let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
    object(API, "ResourceSlice", "devices").spec(json!({
        "driver": "d.example.com", "nodeName": "n", "devices": devices,
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
    }))
}

/// A pod that uses the claim `c`.
fn claiming() -> Object {
    pod("p").spec(json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}))
}

fn without_devices() -> Scenario {
    let given = [node("n"), class("gpu"), claim("c"), slice(&[])];
    let device = json!({"spec": {"devices": [{"name": "x"}]}});
    let grown = json!({"status": {"allocatable": {"cpu": "5"}}});
    Scenario::new("DynamicResources", claiming(), given)
        .on(event(R::ResourceSlice, A::UPDATE), "a device comes", patch(DEVICES, device), Bound)
        .on(event(R::Node, A::ADD), "a node comes", create(node("m")), Retried)
        .on(
            event(R::Node, A::UPDATE_NODE_LABEL),
            "it is labelled",
            label("nodes/n", "k", "v"),
            Retried,
        )
        .on(event(R::Node, A::UPDATE_NODE_TAINT), "it is tainted", taint("nodes/n", "k"), Retried)
        .on(
            event(R::Node, A::UPDATE_NODE_ALLOCATABLE),
            "the node grows",
            patch("nodes/n/status", grown),
            Retried,
        )
        .on(event(R::DeviceClass, A::ADD), "a class comes", create(class("other")), Retried)
        .on(
            event(R::DeviceClass, A::UPDATE),
            "a class changes",
            label("deviceclasses/gpu", "k", "v"),
            Retried,
        )
        .on(event(R::ResourceClaim, A::ADD), "another claim comes", create(claim("more")), Left)
        .on(event(R::ResourceSlice, A::DELETE), "the slice goes", delete(DEVICES), Left)
}

/// Two slices name a device that exists once, so the pool is not used.
fn with_a_contradictory_pool() -> Scenario {
    let pool = json!({"pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}});
    let twice = slice(&["x"]).fields(json!({"metadata": {"name": "twice"}})).spec(pool);
    let given = [node("n"), class("gpu"), claim("c"), slice(&["x"]), twice];
    Scenario::new("DynamicResources", claiming(), given).on(
        event(R::ResourceSlice, A::DELETE),
        "one slice goes",
        delete("resourceslices/twice"),
        Bound,
    )
}

fn with_a_device_in_use() -> Scenario {
    let result = json!({"request": "r", "driver": "d.example.com", "pool": "n", "device": "x"});
    let allocated =
        claim("other").status(json!({"allocation": {"devices": {"results": [result]}}}));
    let given = [node("n"), class("gpu"), claim("c"), claim("unused"), allocated, slice(&["x"])];
    let more = slice(&["y"]).fields(json!({"metadata": {"name": "more"}}));
    let more = more.spec(json!({"pool": {"name": "more"}}));
    Scenario::new("DynamicResources", claiming(), given)
        .on(
            event(R::ResourceClaim, A::UPDATE),
            "the device comes free",
            patch("resourceclaims/other/status", json!({"status": {"allocation": null}})),
            Bound,
        )
        .on(
            event(R::ResourceClaim, A::UPDATE),
            "its claim is labelled",
            label("resourceclaims/c", "k", "v"),
            Left,
        )
        .on(
            event(R::ResourceClaim, A::DELETE),
            "the claim goes with the device",
            delete("resourceclaims/other"),
            Bound,
        )
        .on(
            event(R::ResourceClaim, A::DELETE),
            "a claim without a device goes",
            delete("resourceclaims/unused"),
            Left,
        )
        .on(event(R::ResourceSlice, A::ADD), "a slice comes", create(more), Bound)
}

fn without_its_claim() -> Scenario {
    Scenario::new("DynamicResources", claiming(), [node("n"), class("gpu"), slice(&["x"])])
        .on(event(R::ResourceClaim, A::ADD), "its claim comes", create(claim("c")), Bound)
        .on(event(R::ResourceClaim, A::ADD), "another claim comes", create(claim("more")), Left)
}

/// The status of the pod does not say yet which claim was made from the template.
fn without_generated_claim() -> Scenario {
    let entry = json!({"name": "c", "resourceClaimTemplateName": "t"});
    let waiting = pod("p").spec(json!({"resourceClaims": [entry]}));
    let made = |status: Value| {
        patch("pods/p/status", json!({"status": {"resourceClaimStatuses": [status]}}))
    };
    let known = || event(R::UnschedulablePod, A::UPDATE_POD_GENERATED_RESOURCE_CLAIM);
    Scenario::new("DynamicResources", waiting, [node("n")])
        .on(known(), "it needs no claim", made(json!({"name": "c"})), Bound)
        .on(
            known(),
            "its claim is not known",
            made(json!({"name": "c", "resourceClaimName": "absent"})),
            Left,
        )
}

#[test]
fn dynamic_resources_rejects_a_pod() {
    scenarios().iter().for_each(Scenario::check);
}

/// All pods decide to allocate the claim, which one of them does. kube-scheduler makes 686 failed
/// attempts.
#[test]
fn pods_that_share_a_claim_fail_at_most_once_each() {
    const PODS: usize = 256;
    let roomy = node("n").status(json!({"allocatable": {"cpu": "999", "pods": "999"}}));
    let given = [roomy, class("gpu"), claim("c"), slice(&["x"])].map(create);
    let mut world = World::new("", &given);
    world.decide_in_batches();
    for number in 0..PODS {
        let spec = json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]});
        world.happens(&create(pod(&format!("p{number}")).spec(spec)));
    }
    world.settle();
    world.pass(Duration::from_secs(60));
    let bound = (0..PODS).filter(|number| world.is_bound(&format!("p{number}"))).count();
    assert_eq!(bound, PODS);
    let failed = world.all_attempts() - bound;
    assert!(failed <= PODS, "{failed} failed attempts");
}
