//! Queueing hints.

use framework::{ActionType, EventForPod, EventObjects, EventResource, QueueingHint};
use serde_json::json;

use super::world::*;
use crate::dynamic_resources::*;

fn hint(world: &World, pod: &Pod, kind: &EventResource, objects: EventObjects<'_>) -> QueueingHint {
    let events = world.plugin.events.as_ref().unwrap();
    let own = events.iter().find(|own| own.event.resource == *kind).unwrap();
    own.evaluate_hint(EventForPod::new(pod, objects, &world.handle())).unwrap()
}

fn after_claim(world: &World, pod: &Pod, old: Option<&Value>, new: Option<&Value>) -> QueueingHint {
    let [old, new] =
        [old, new].map(|json| Some(testkit::object(EventResource::ResourceClaim, json?.clone())));
    let objects = EventObjects::Other { old: old.as_ref(), new: new.as_ref() };
    hint(world, pod, &EventResource::ResourceClaim, objects)
}

#[test]
fn changes_of_claims_wake_the_pods_they_may_help() {
    use QueueingHint::{Queue, Skip};
    let world = World::new([("resourceclaims", claim("c", 1)), ("resourceclaims", claim("d", 1))]);
    let (own, other) = (pod_using("p", &["c"]), pod_using("q", &["d"]));
    let gated = pod_using("r", &["absent"]);
    let free = claim("c", 1);
    let mut allocated = free.clone();
    allocated["status"] = json!({"allocation": {"devices": {}}});
    let mut reserved = allocated.clone();
    reserved["status"]["reservedFor"] = json!([{"resource": "pods", "name": "x", "uid": "u"}]);
    let mut protected = allocated.clone();
    protected["metadata"]["finalizers"] = json!([FINALIZER]);
    let rows = [
        ("added", None, Some(&free), [Queue, Skip, Skip]),
        ("deallocated", Some(&allocated), Some(&free), [Queue, Queue, Skip]),
        ("allocated", Some(&free), Some(&allocated), [Queue, Skip, Skip]),
        ("reserved", Some(&allocated), Some(&reserved), [Queue, Skip, Skip]),
        ("deleted with its allocation", Some(&allocated), None, [Queue, Queue, Skip]),
        ("deleted without one", Some(&free), None, [Skip, Skip, Skip]),
        ("other metadata", Some(&allocated), Some(&protected), [Skip, Skip, Skip]),
    ];
    for (change, old, new, expected) in rows {
        let answers = [&own, &other, &gated].map(|pod| after_claim(&world, pod, old, new));
        assert_eq!(answers, expected, "{change}");
    }
}

#[test]
fn deletion_of_a_claim_that_an_attempt_left_wakes_its_pod() {
    use QueueingHint::{Queue, Skip};
    let world = World::new([]);
    let left = json!({
        "metadata": {
            "name": "p-extended-resources-1",
            "namespace": "default",
            "uid": "left",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": true,
            }],
        },
        "spec": {"devices": {}},
    });
    let mut of_a_template = left.clone();
    of_a_template["metadata"]["annotations"] = json!({});
    let pods = [pod("p", &json!({})), pod("q", &json!({}))];
    for (claim, expected) in [(&left, [Queue, Skip]), (&of_a_template, [Skip, Skip])] {
        let answers = pods.each_ref().map(|pod| after_claim(&world, pod, Some(claim), None));
        assert_eq!(answers, expected, "{claim}");
    }
}

#[test]
fn generated_claims_wake_their_pod() {
    use QueueingHint::{Queue, Skip};
    let world = World::new([("resourceclaims", {
        let mut claim = claim("made", 1);
        claim["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": true,
        }]);
        claim
    })]);
    let spec = json!({"resourceClaims": [{"name": "t", "resourceClaimTemplateName": "t"}]});
    let with = |name: &str, claim: &str| {
        let statuses = json!([{"name": "t", "resourceClaimName": claim}]);
        pod_with(name, &spec, &json!({"resourceClaimStatuses": statuses}))
    };
    let waiting = pod("p", &spec);
    for (new, expected) in
        [(with("p", "made"), Queue), (with("p", "absent"), Skip), (with("q", "made"), Skip)]
    {
        let objects = EventObjects::Pod { old: Some(&waiting), new: Some(&new) };
        assert_eq!(hint(&world, &waiting, &EventResource::Pod, objects), expected);
    }
}

/// 1.36 reports changes of rules as changes of the slices that they select.
#[test]
fn changes_of_taint_rules_wake_pods_if_their_gate_is_on() {
    for is_on in [false, true] {
        let gates = framework::PluginGates {
            device_taint_rules: is_on,
            ..framework::PluginGates::default()
        };
        let world = World::with(PluginArgs::default().with_gates(gates), []);
        let kind = EventResource::Custom(framework::device::DEVICE_TAINT_RULES.into());
        let mut events = world.plugin.events.as_ref().unwrap().iter();
        let own = events.find(|own| own.event.resource == kind);
        assert_eq!(own.map(|own| own.event.action), is_on.then_some(ActionType::ALL));
        assert_eq!(world.plugin.watched_kinds.len(), usize::from(is_on));
    }
}

#[test]
fn registered_events_are_those_of_kube_scheduler_and_deletions_of_claims_and_slices() {
    use EventResource as R;
    let changes = ActionType::ADD | ActionType::UPDATE;
    let gates = framework::PluginGates::at(framework::Level::V1_36);
    let world = World::with(PluginArgs::default().with_gates(gates), []);
    let events = world.plugin.events.as_ref().unwrap().iter();
    let events: Vec<_> = events.map(|own| (own.event.resource.clone(), own.event.action)).collect();
    let node =
        ActionType::ADD | ActionType::UPDATE_NODE_LABEL | ActionType::UPDATE_NODE_ALLOCATABLE;
    let expected = [
        (R::Node, node),
        (R::ResourceClaim, changes | ActionType::DELETE),
        (R::Pod, ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
        (R::DeviceClass, changes),
        (R::ResourceSlice, changes),
        (R::ResourceSlice, ActionType::DELETE),
    ];
    assert_eq!(events, expected);
}
