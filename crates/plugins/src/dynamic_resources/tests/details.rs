//! Details about rejected nodes, for explanations.

use framework::Attempt;
use serde_json::json;

use super::world::*;
use crate::dynamic_resources::*;

/// Returns the details with the names of their nodes.
fn details(world: &World, pod: &Pod) -> Vec<(String, Vec<String>)> {
    let (state, result) = world.pre_filter(pod);
    result.unwrap();
    let statuses = world.filter(&state, pod);
    let nodes = ["a", "b"].map(|name| world.cluster.node_named(name).unwrap());
    let rejected = nodes.into_iter().zip(&statuses).filter(|(_, status)| !status.is_success());
    let rejected: NodeBits = rejected.map(|(node, _)| node).collect();
    let filter = world.plugin.filter.as_ref().unwrap();
    let details = filter.details(&Attempt::new(&state, pod, &world.handle()), &rejected);
    let names = |nodes: &NodeBits| {
        nodes.iter().map(|node| world.cluster.node_name(node).to_string()).collect()
    };
    details.into_iter().map(|detail| (detail.text, names(&detail.nodes))).collect()
}

fn both(text: &str) -> Vec<(String, Vec<String>)> {
    vec![(text.to_owned(), vec!["a".to_owned(), "b".to_owned()])]
}

fn exactly(name: &str, count: i64, selectors: &[&str]) -> Value {
    let selectors: Vec<_> =
        selectors.iter().map(|text| json!({"cel": {"expression": text}})).collect();
    json!({"name": name, "exactly": {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
        "selectors": selectors,
    }})
}

#[test]
fn the_request_and_what_rejected_the_devices_are_named() {
    let all = json!({"deviceClassName": "gpu", "allocationMode": "All",
        "selectors": [{"cel": {"expression": "device.driver == 'e'"}}]});
    let alternatives = json!([
        {"name": "x", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 4},
        {"name": "y", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3},
    ]);
    let rows = [
        (
            json!([exactly("r", 3, &[])]),
            "claim default/c, request r: 2 of 3 devices; the node has 2",
        ),
        (
            json!([exactly("r", 1, &["true", "device.driver == 'e'"])]),
            "claim default/c, request r: 0 of 1 devices; the node has 2: 2 rejected by selector #1 \
             of the request",
        ),
        (
            json!([exactly("first", 2, &[]), exactly("second", 1, &[])]),
            "claim default/c, request second: 0 of 1 devices; the node has 2: 2 in use",
        ),
        (
            json!([{"name": "r", "exactly": all}]),
            "claim default/c, request r: all devices; the node has 2: 2 rejected by selector #0 of \
             the request",
        ),
        (
            json!([{"name": "r", "firstAvailable": alternatives}]),
            "claim default/c, request r/y: 2 of 3 devices; the node has 2",
        ),
    ];
    for (requests, expected) in rows {
        let world = World::new([("resourceclaims", claim_with("c", &requests))]);
        assert_eq!(details(&world, &pod_using("p", &["c"])), both(expected));
    }
}

#[test]
fn selectors_of_classes_and_constraints_are_named() {
    let device = |name: &str| json!({"name": name, "attributes": {"model": {"string": name}}});
    let mut constrained = claim("c", 2);
    constrained["spec"]["devices"]["constraints"] = json!([{"matchAttribute": "d/model"}]);
    let mut world = World::new([("resourceclaims", constrained)]);
    for node in ["a", "b"] {
        world.put("resourceslices", slice_with(node, &json!([device("x"), device("y")])));
    }
    let pod = pod_using("p", &["c"]);
    let by_constraint = "claim default/c, request r: 1 of 2 devices; the node has 2: 1 rejected \
                         by constraint #0";
    assert_eq!(details(&world, &pod), both(by_constraint));
    let selectors = json!([{"cel": {"expression": "device.driver == 'e'"}}]);
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}});
    world.put("deviceclasses", class);
    let by_class = "claim default/c, request r: 0 of 2 devices; the node has 2: 2 rejected by \
                    selector #0 of the class";
    assert_eq!(details(&world, &pod), both(by_class));
}

#[test]
fn nodes_are_grouped_by_what_they_lack() {
    let mut world = World::new([("resourceclaims", claim("c", 2))]);
    world.delete("resourceslices", "slice-a");
    world.put("resourceslices", slice("b", &["0"]));
    let expected = [
        ("claim default/c, request r: 0 of 2 devices; the node has none", "a"),
        ("claim default/c, request r: 1 of 2 devices; the node has 1", "b"),
    ];
    let expected = expected.map(|(text, node)| (text.to_owned(), vec![node.to_owned()]));
    assert_eq!(details(&world, &pod_using("p", &["c"])), expected);
}

#[test]
fn allocated_claim_is_named() {
    let mut world = World::new([("resourceclaims", claim("c", 1))]);
    let mut attempt = world.reserve(&pod_using("p", &["c"]), "a").unwrap();
    world.write_all(&mut attempt);
    let text = "claim default/c: it is allocated for other nodes".to_owned();
    assert_eq!(details(&world, &pod_using("q", &["c"])), [(text, vec!["b".to_owned()])]);
}

#[test]
fn missing_extended_resource_is_named() {
    let mut world = World::new([]);
    let spec = json!({"extendedResourceName": "example.com/gpu"});
    world.put("deviceclasses", json!({"metadata": {"name": "gpu"}, "spec": spec}));
    let pod = |requests: Value| {
        let containers = json!([{"name": "main", "resources": {"requests": requests}}]);
        pod("p", &json!({"containers": containers}))
    };
    let lacking = "neither the node nor a device class provides example.com/nic";
    let requests = json!({"example.com/gpu": "1", "example.com/nic": "1"});
    assert_eq!(details(&world, &pod(requests)), both(lacking));
    let lacking = "claim default/<extended-resources>, request container-0-request-0: 2 of 3 \
                   devices; the node has 2";
    assert_eq!(details(&world, &pod(json!({"example.com/gpu": "3"}))), both(lacking));
}
