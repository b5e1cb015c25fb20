use framework::{EventResource, Node, Pod, Time};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;
use crate::{DumpedObject, DumpedPod, Owner};

fn node(name: &str) -> Node {
    let labels = json!({"kubernetes.io/hostname": name, "pool": "x"});
    let metadata = json!({"name": name, "labels": labels});
    let taints = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "team", "value": "a", "effect": "NoSchedule"}]);
    let spec = json!({"unschedulable": true, "taints": taints});
    let node = json!({"metadata": metadata, "spec": spec, "status": {"allocatable": {"cpu": "4"}}});
    Node::from_api(&serde_json::from_value(node).unwrap()).0
}

fn object(metadata: Value, mut spec: Value) -> DumpedPod {
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    let raw = json!({"metadata": metadata, "spec": spec});
    let pod = Pod::from_api(&serde_json::from_value(raw).unwrap());
    DumpedPod { pod, raw: None, created: None, owner: None }
}

/// Returns a pod of a controller, created at this second.
fn pod(name: &str, node: Option<&str>, owner: (&str, &str), created: i64) -> DumpedPod {
    let metadata = json!({"name": name, "namespace": "ns", "uid": name,
        "labels": {"pod-template-hash": owner.1.rsplit('-').next()}});
    let own = object(metadata, json!({"nodeName": node}));
    let owner = Some(Owner { kind: owner.0.into(), name: owner.1.into() });
    DumpedPod { created: Some(Time::from_secs(created)), owner, ..own }
}

fn workload(kind: &str, name: &str, replicas: i32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicas": replicas, "template": {"spec": {"priorityClassName": "low"}}}})
}

fn set_of(deployment: &str, name: &str, replicas: i32) -> Value {
    let mut set = workload("ReplicaSet", name, replicas);
    set["metadata"]["ownerReferences"] =
        json!([{"kind": "Deployment", "name": deployment, "controller": true}]);
    set
}

fn inventory(pods: Vec<DumpedPod>, workloads: &[Value]) -> Inventory {
    let workloads: Vec<_> = workloads.iter().map(|own| to_raw_value(own).unwrap()).collect();
    let first_changed = workloads.len();
    let nodes = ["a", "b"].map(node).into();
    Inventory { nodes, pods, objects: Vec::new(), workloads, first_changed }
}

fn changes(value: Value) -> Vec<Changes> {
    vec![serde_json::from_value(value).unwrap()]
}

fn names(inventory: &Inventory) -> Vec<&str> {
    inventory.pods.iter().map(|object| &*object.pod.key.name).collect()
}

fn replicas(inventory: &Inventory, place: usize) -> Value {
    let value: Value = serde_json::from_str(inventory.workloads[place].get()).unwrap();
    value["spec"]["replicas"].clone()
}

#[test]
fn copied_node_is_ready_and_has_its_own_name() {
    let mut inventory = inventory(Vec::new(), &[]);
    let slice = json!({"spec": {"nodeName": "a", "pool": {"name": "a"}}});
    let kinds =
        [(EventResource::CsiNode, "a", json!({})), (EventResource::ResourceSlice, "s", slice)];
    inventory.objects = Vec::from(kinds.map(|(kind, name, value)| DumpedObject {
        kind,
        namespace: "".into(),
        name: name.into(),
        raw: to_raw_value(&value).unwrap().into(),
    }));
    let text = json!({"addNodes": [{"like": "a", "count": 2}], "removeNodes": ["a"]});
    apply(&mut inventory, &changes(text)).unwrap();
    let names: Vec<&str> = inventory.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["b", "a-new-1", "a-new-2"]);
    let copy = &inventory.nodes[1];
    assert!(!copy.unschedulable);
    assert_eq!(copy.taints.iter().map(|own| &*own.key).collect::<Vec<_>>(), ["team"]);
    assert_eq!(copy.labels.get("kubernetes.io/hostname"), Some("a-new-1"));
    let objects: Vec<&str> = inventory.objects.iter().map(|own| &*own.name).collect();
    assert_eq!(objects, ["a", "s", "a-new-1", "a-new-2", "s-a-new-1", "s-a-new-2"]);
    let slice: Value = serde_json::from_str(inventory.objects[4].raw.get()).unwrap();
    assert_eq!(slice["spec"], json!({"nodeName": "a-new-1", "pool": {"name": "a-new-1"}}));
}

#[test]
fn drained_node_keeps_daemons_and_static_pods() {
    let pods = ["ReplicaSet", "DaemonSet", "Node"].map(|kind| pod(kind, Some("a"), (kind, "x"), 0));
    let mut drained = inventory(Vec::from(pods.clone()), &[]);
    let applied = apply(&mut drained, &changes(json!({"drain": ["a"]}))).unwrap();
    let on_nodes: Vec<bool> = drained.pods.iter().map(|own| own.pod.node_name.is_some()).collect();
    assert_eq!(on_nodes, [false, true, true]);
    assert_eq!((applied.displaced.len(), applied.gone_with_nodes), (1, 0));
    assert_ne!(drained.pods[0].pod.uid, pods[0].pod.uid, "it is another pod");
    let mut removed = inventory(Vec::from(pods), &[]);
    let applied = apply(&mut removed, &changes(json!({"removeNodes": ["a"]}))).unwrap();
    assert_eq!((names(&removed), applied.gone_with_nodes), (vec!["ReplicaSet"], 2));
}

#[test]
fn uncordoned_node_loses_the_taint_of_the_node_controller() {
    let mut inventory = inventory(Vec::new(), &[]);
    let text = json!({"uncordon": ["a"], "untaint": [{"nodes": ["b"], "taint": "team=a"}]});
    apply(&mut inventory, &changes(text)).unwrap();
    let keys = |place: usize| {
        let taints = inventory.nodes[place].taints.iter();
        taints.map(|own| own.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(keys(0), ["team"]);
    assert_eq!(keys(1), ["node.kubernetes.io/unschedulable"]);
    assert!(!inventory.nodes[0].unschedulable && inventory.nodes[1].unschedulable);
}

#[test]
fn replica_set_removes_pending_pods_then_crowded_then_new_ones() {
    let owner = ("ReplicaSet", "rs");
    let pods = vec![
        pod("old", Some("a"), owner, 1),
        pod("new", Some("b"), owner, 9),
        pod("crowded-old", Some("c"), owner, 0),
        pod("crowded-new", Some("c"), owner, 2),
        pod("pending", None, owner, 3),
        pod("other", Some("a"), ("ReplicaSet", "other"), 9),
    ];
    let rows: [(i32, &[&str]); 4] = [
        (4, &["old", "new", "crowded-old", "crowded-new", "other"]),
        (3, &["old", "new", "crowded-old", "other"]),
        (1, &["old", "other"]),
        (0, &["other"]),
    ];
    for (replicas, expected) in rows {
        let mut inventory = inventory(pods.clone(), &[workload("ReplicaSet", "rs", 5)]);
        let scale =
            json!([{"kind": "ReplicaSet", "namespace": "ns", "name": "rs", "replicas": replicas}]);
        let applied = apply(&mut inventory, &changes(json!({"scale": scale}))).unwrap();
        let left = names(&inventory);
        match replicas {
            1 => assert_eq!(left, expected, "both nodes have one, the older pod stays"),
            _ => assert_eq!(left, expected, "{replicas} replicas"),
        }
        assert_eq!(applied.scaled_down.len(), 6 - expected.len());
    }
}

#[test]
fn deployment_gives_up_pods_that_are_not_made_yet_first() {
    let pods = vec![
        pod("x", Some("a"), ("ReplicaSet", "web-1"), 0),
        pod("y", Some("b"), ("ReplicaSet", "web-1"), 1),
        pod("z", Some("b"), ("ReplicaSet", "web-2"), 2),
    ];
    let workloads = [workload("Deployment", "web", 5), set_of("web", "web-1", 4)];
    let scaled = |replicas: i32| {
        let mut inventory = inventory(pods.clone(), &workloads);
        let scale =
            json!([{"kind": "Deployment", "namespace": "ns", "name": "web", "replicas": replicas}]);
        apply(&mut inventory, &changes(json!({"scale": scale}))).unwrap();
        inventory
    };
    let three = scaled(3);
    assert_eq!((names(&three), replicas(&three, 1)), (vec!["x", "y", "z"], json!(2)));
    let one = scaled(1);
    assert_eq!(
        (names(&one), replicas(&one, 1)),
        (vec!["x"], json!(1)),
        "web-2 is only known by its pod"
    );
    assert_eq!(
        replicas(&scaled(9), 1),
        json!(4),
        "the Deployment makes more, not its old ReplicaSet"
    );
}

#[test]
fn stateful_set_removes_its_last_ordinals() {
    let own = |name| pod(name, Some("a"), ("StatefulSet", "db"), 0);
    let mut set = workload("StatefulSet", "db", 4);
    set["spec"]["ordinals"] = json!({"start": 2});
    let mut inventory = inventory(["db-2", "db-10", "db-3"].map(own).into(), &[set]);
    let scale = json!([{"kind": "StatefulSet", "namespace": "ns", "name": "db", "replicas": 1}]);
    apply(&mut inventory, &changes(json!({"scale": scale}))).unwrap();
    assert_eq!(names(&inventory), ["db-2"]);
}

#[test]
fn manifest_with_fewer_replicas_removes_pods() {
    let owner = ("ReplicationController", "rc");
    let pods = vec![pod("x", Some("a"), owner, 0), pod("y", Some("b"), owner, 1)];
    let of_controller = |replicas| {
        let mut own = workload("ReplicationController", "rc", replicas);
        own["apiVersion"] = json!("v1");
        own
    };
    let mut inventory = inventory(pods, &[of_controller(2), of_controller(1)]);
    inventory.first_changed = 1;
    apply(&mut inventory, &[]).unwrap();
    assert_eq!(names(&inventory), ["x"]);
}

#[test]
fn priority_of_a_deployment_is_that_of_its_pods_and_templates() {
    let pods = vec![
        pod("x", Some("a"), ("ReplicaSet", "web-1"), 0),
        pod("y", Some("b"), ("ReplicaSet", "web-2"), 1),
        pod("z", Some("b"), ("ReplicaSet", "web-other-2"), 1),
    ];
    let mut inventory =
        inventory(pods, &[workload("Deployment", "web", 2), set_of("web", "web-1", 1)]);
    let priority = json!([{"kind": "Deployment", "namespace": "ns", "name": "web", "value": 7}]);
    let applied = apply(&mut inventory, &changes(json!({"priority": priority}))).unwrap();
    let pods: Vec<&str> = applied.priorities.keys().map(|key| &*key.name).collect();
    assert_eq!(pods, ["x", "y"]);
    for raw in &inventory.workloads {
        let value: Value = serde_json::from_str(raw.get()).unwrap();
        assert_eq!(value["spec"]["template"]["spec"]["priority"], 7);
    }
}

#[test]
fn claims_of_ephemeral_volumes_end_with_their_pod() {
    let volumes = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]);
    let metadata = json!({"name": "p", "namespace": "ns", "uid": "p"});
    let mut own = object(metadata, json!({"nodeName": "a", "volumes": volumes}));
    own.owner = Some(Owner { kind: "Job".into(), name: "j".into() });
    let mut inventory = inventory(vec![own], &[]);
    let claim = json!({"spec": {"volumeName": "pv-1"}});
    let rows = [
        (EventResource::PersistentVolumeClaim, "ns", "p-scratch", claim),
        (EventResource::PersistentVolumeClaim, "ns", "kept", json!({})),
        (EventResource::PersistentVolume, "", "pv-1", json!({})),
        (EventResource::PersistentVolume, "", "pv-2", json!({})),
    ];
    inventory.objects = Vec::from(rows.map(|(kind, namespace, name, value)| DumpedObject {
        kind,
        namespace: namespace.into(),
        name: name.into(),
        raw: to_raw_value(&value).unwrap().into(),
    }));
    apply(&mut inventory, &changes(json!({"drain": ["a"]}))).unwrap();
    let objects: Vec<&str> = inventory.objects.iter().map(|own| &*own.name).collect();
    assert_eq!(objects, ["kept", "pv-2"]);
}

#[test]
fn contradictions_within_and_between_documents_are_found() {
    let taint = |taint| json!([{"nodes": ["a"], "taint": taint}]);
    let rows = [
        (json!({"drain": ["a"], "uncordon": ["a"]}), json!({"cordon": ["b"]}), Some("uncordon[0]")),
        (json!({"drain": ["a"]}), json!({"cordon": ["a"]}), None),
        (
            json!({"removeNodes": ["a"]}),
            json!({"taint": taint("x:NoSchedule")}),
            Some("taint[0].nodes"),
        ),
        (
            json!({"taint": taint("x=1:NoSchedule")}),
            json!({"taint": taint("x=2:NoSchedule")}),
            Some("taint[0].taint"),
        ),
        (
            json!({"untaint": taint("team")}),
            json!({"taint": taint("team=b:NoSchedule")}),
            Some("taint[0].taint"),
        ),
        (
            json!({"untaint": taint("team=a:NoSchedule")}),
            json!({"taint": taint("team=b:NoSchedule")}),
            None,
        ),
    ];
    for (first, second, expected) in rows {
        let documents = [changes(first.clone()), changes(second.clone())].concat();
        let found = apply(&mut inventory(Vec::new(), &[]), &documents).map(drop);
        let field = found.as_ref().err().map(|objections| objections[0].field.as_str());
        assert_eq!(field, expected, "{first} {second}: {found:?}");
    }
}
