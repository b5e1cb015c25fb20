//! Scores of extended resources that devices provide.

use std::sync::Arc;

use framework::{
    Attempt, Cluster, CycleState, EventResource, NodeIx, PerNode, Plugin, PluginArgs, Pod,
};
use serde_json::{Value, json};
use testkit::{NodeBuilder, PodBuilder, SetJson, cluster, handle, node, pod};

use super::super::{balanced_allocation, fit};

const GPU: &str = "example.com/gpu";
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/gpu";

/// Nodes a to d, of which d offers 8 of the resource itself, with these objects and the class
/// `gpu`.
fn world(selectors: &[Value], slices: &[Value], allocated: &[Value]) -> Cluster {
    let bare = |name: &str| node(name).allocatable("pods", "110");
    let nodes = ["a", "b", "c"].map(bare).map(NodeBuilder::build);
    let offering = bare("d").allocatable(GPU, "8").label("zone", "z").build();
    let mut cluster = cluster(nodes.into_iter().chain([offering]), []);
    let class = json!({"metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": GPU, "selectors": selectors}});
    set(&mut cluster, EventResource::DeviceClass, class);
    for (number, spec) in slices.iter().enumerate() {
        let slice = json!({"metadata": {"name": format!("s{number}")}, "spec": spec});
        set(&mut cluster, EventResource::ResourceSlice, slice);
    }
    let claim = json!({"metadata": {"name": "taken", "uid": "u"},
        "status": {"allocation": {"devices": {"results": allocated}}}});
    set(&mut cluster, EventResource::ResourceClaim, claim);
    cluster
}

fn set(cluster: &mut Cluster, kind: EventResource, object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.set_json(&kind, "", &name, Some(Arc::new(object)));
}

fn cel(expression: &str) -> Value {
    json!({"cel": {"expression": expression}})
}

/// Devices `0` to `count - 1`; the odd ones are large.
fn devices(count: usize) -> Vec<Value> {
    let device = |number: usize| {
        let size = if number % 2 == 1 { "large" } else { "small" };
        json!({"name": number.to_string(), "allowMultipleAllocations": true,
            "attributes": {"size": {"string": size}}})
    };
    (0..count).map(device).collect()
}

/// A slice with as many devices, of the pool that is named like `node`.
fn slice(node: &str, count: usize) -> Value {
    json!({"driver": "d", "nodeName": node, "devices": devices(count),
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}})
}

/// A slice of the pool `shared` with this field that says for which nodes it is.
fn slice_for(field: &str, nodes: Value, devices: &[Value]) -> Value {
    let mut spec = json!({"driver": "d", "devices": devices,
        "pool": {"name": "shared", "generation": 1, "resourceSliceCount": 1}});
    spec[field] = nodes;
    spec
}

fn taken(pool: &str, device: &str) -> Value {
    json!({"request": "r", "driver": "d", "pool": pool, "device": device})
}

fn shared(pool: &str, device: &str) -> Value {
    let mut result = taken(pool, device);
    result["shareID"] = json!("0a1b");
    result
}

fn most_allocated(resource: &str) -> Plugin {
    let resources = json!([{"name": resource, "weight": 1}]);
    let strategy = json!({"type": "MostAllocated", "resources": resources});
    fit::plugin(&PluginArgs::new(json!({"scoringStrategy": strategy}))).unwrap()
}

fn requesting(resource: &str, amount: &str) -> PodBuilder {
    pod("p").request(resource, amount)
}

/// Returns the scores of all nodes, the same by both forms.
#[track_caller]
fn scores(plugin: &Plugin, cluster: &Cluster, pod: &Pod) -> Vec<i64> {
    let state = CycleState::new();
    let nodes: Vec<NodeIx> = cluster.nodes().iter().collect();
    let score = plugin.score.as_ref().unwrap();
    let one = |node: &NodeIx| {
        score.score(&Attempt::new(&state, pod, &handle(cluster)), &cluster.node(*node)).unwrap()
    };
    let by_node: Vec<_> = nodes.iter().map(one).collect();
    let mut scores = vec![-1; nodes.len()];
    score
        .score_set(&Attempt::new(&state, pod, &handle(cluster)), PerNode::new(&nodes, &mut scores))
        .unwrap();
    assert_eq!(scores, by_node);
    scores
}

/// What the row shows; the selectors of the class, the slices, what is allocated; the scores.
type Row<'a> = (&'a str, &'a [Value], &'a [Value], &'a [Value], [i64; 4]);

#[test]
fn devices_of_the_class_count() {
    let large = cel("device.attributes['d'].size == 'large'");
    let faulty = cel("device.attributes['d'].gone == 1");
    let unknown = json!({});
    let in_zone = json!({"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}]});
    let invalid = json!({"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "Odd"}]}]});
    let own = |node: &str| json!({"name": node, "nodeName": node});
    let replaced = |generation: i64| {
        let mut slice = slice("a", 2);
        slice["pool"]["generation"] = json!(generation);
        slice
    };
    // The node d offers 8 of its own, of which the pod gets 2.
    let rows: [Row<'_>; 13] = [
        ("no device", &[], &[], &[], [0, 0, 0, 25]),
        ("free devices", &[], &[slice("a", 4), slice("b", 8)], &[], [50, 25, 0, 25]),
        ("allocated device", &[], &[slice("a", 4)], &[taken("a", "0")], [75, 0, 0, 25]),
        ("share", &[], &[slice("a", 4)], &[shared("a", "0"), shared("a", "0")], [75, 0, 0, 25]),
        ("too few", &[], &[slice("a", 1)], &[taken("a", "0")], [100, 0, 0, 25]),
        (
            "selector",
            std::slice::from_ref(&large),
            &[slice("a", 8), slice("b", 8)],
            &[taken("a", "0"), taken("a", "1"), taken("b", "0")],
            [75, 50, 0, 25],
        ),
        ("failing selector", &[large.clone(), faulty], &[slice("a", 4)], &[], [0, 0, 0, 25]),
        ("selector that does not compile", &[cel("1 +")], &[slice("a", 4)], &[], [0, 0, 0, 25]),
        ("unknown selector", &[unknown], &[slice("a", 4)], &[], [50, 0, 0, 25]),
        (
            "all nodes",
            &[],
            &[slice("a", 2), slice_for("allNodes", json!(true), &devices(2))],
            &[taken("shared", "1")],
            [75, 100, 100, 25],
        ),
        (
            "nodes of a selector",
            &[],
            &[slice_for("nodeSelector", in_zone, &devices(4))],
            &[],
            [50, 50, 50, 25],
        ),
        (
            "invalid selector of nodes",
            &[],
            &[slice("a", 2), slice_for("nodeSelector", invalid, &devices(4))],
            &[],
            [0, 0, 0, 25],
        ),
        (
            "nodes of each device, and a pool being replaced",
            &[],
            &[
                slice_for("perDeviceNodeSelection", json!(true), &[own("b"), own("c"), own("d")]),
                replaced(1),
                replaced(2),
            ],
            &[],
            [50, 100, 100, 25],
        ),
    ];
    for (what, selectors, slices, allocated, expected) in rows {
        let cluster = world(selectors, slices, allocated);
        let pod = requesting(GPU, "2").build();
        assert_eq!(scores(&most_allocated(GPU), &cluster, &pod), expected, "{what}");
    }
}

#[test]
fn implicit_resource_of_a_class_counts_devices() {
    let cluster = world(&[], &[slice("a", 4), slice("d", 4)], &[taken("a", "3")]);
    let pod = requesting(IMPLICIT, "1").build();
    assert_eq!(scores(&most_allocated(IMPLICIT), &cluster, &pod), [50, 0, 0, 25]);
    let unknown = "deviceclass.resource.kubernetes.io/gone";
    let pod = requesting(unknown, "1").build();
    assert_eq!(scores(&most_allocated(unknown), &cluster, &pod), [0; 4]);
}

#[test]
fn resource_that_the_pod_does_not_request_is_left_out() {
    let cluster = world(&[], &[slice("a", 4)], &[taken("a", "0")]);
    let pod = pod("p").request("cpu", "1").build();
    assert_eq!(scores(&most_allocated(GPU), &cluster, &pod), [0; 4]);
}

#[test]
fn balance_counts_devices() {
    let cluster = world(&[], &[slice("a", 4), slice("b", 4)], &[taken("a", "0"), taken("a", "1")]);
    let resources = json!([{"name": "memory", "weight": 1}, {"name": GPU, "weight": 1}]);
    let plugin = balanced_allocation::plugin(&PluginArgs::new(json!({"resources": resources})));
    let pod = requesting(GPU, "1").build();
    // Memory stays unused. Devices: on a from 2 to 3 of 4, on b from 0 to 1 of 4, on d from 0 to 1
    // of 8.
    assert_eq!(scores(&plugin.unwrap(), &cluster, &pod), [68, 68, 75, 71]);
}
