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

fn owner(kind: &str, name: &str) -> Owner {
    Owner { kind: kind.into(), name: name.into() }
}

/// Returns a pod of a controller, created at this second.
fn pod(name: &str, node: Option<&str>, owner: &Owner, created: i64) -> DumpedPod {
    let metadata = json!({"name": name, "namespace": "ns", "uid": name,
        "labels": {"pod-template-hash": owner.name.rsplit('-').next()}});
    let own = object(metadata, json!({"nodeName": node}));
    DumpedPod { created: Some(Time::from_secs(created)), owner: Some(owner.clone()), ..own }
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
    Inventory { nodes, pods, workloads, first_changed, ..Inventory::default() }
}

fn apply(inventory: &mut Inventory, documents: &[Changes]) -> Result<Applied, Vec<Objection>> {
    super::apply(inventory, documents, Limits::default())
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
    let pods =
        ["ReplicaSet", "DaemonSet", "Node"].map(|kind| pod(kind, Some("a"), &owner(kind, "x"), 0));
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

fn quota(spec: &Value) -> DumpedObject {
    let kind = EventResource::Custom(framework::ELASTIC_QUOTAS.into());
    let raw = to_raw_value(&json!({"spec": spec})).unwrap().into();
    DumpedObject { kind, namespace: "default".into(), name: "a".into(), raw }
}

#[test]
fn quota_changes_by_percent_and_by_amount() {
    let spec = json!({"min": {"cpu": "10", "memory": "8Gi"}, "max": {"cpu": "20"}});
    let changed = |entry: Value| {
        let mut inventory = inventory(Vec::new(), &[]);
        inventory.objects = vec![quota(&spec)];
        apply(&mut inventory, &changes(json!({"quotas": [entry]})))?;
        let quota: Value = serde_json::from_str(inventory.objects[0].raw.get()).unwrap();
        Ok(quota["spec"].clone())
    };
    assert_eq!(
        changed(json!({"name": "a", "by": "+10%"})),
        Ok(json!({"min": {"cpu": "11", "memory": "9448928051"}, "max": {"cpu": "22"}}))
    );
    let single = json!({"name": "a", "min": {"cpu": "-25%", "memory": null}, "max": {"pods": "5"}});
    assert_eq!(
        changed(single),
        Ok(json!({"min": {"cpu": "7500m"}, "max": {"cpu": "20", "pods": "5"}}))
    );
    let refused = [
        (json!({"name": "a"}), "quotas[0]", "changes nothing"),
        (json!({"name": "b", "by": "+10%"}), "quotas[0].name", "there is no ElasticQuota"),
        (json!({"name": "a", "by": "10%"}), "quotas[0].by", "no change in percent"),
        (json!({"name": "a", "min": {"pods": "+5%"}}), "quotas[0].min[pods]", "does not mention"),
        (json!({"name": "a", "max": {"cpu": "many"}}), "quotas[0].max[cpu]", "no quantity"),
    ];
    for (entry, field, message) in refused {
        let objections: Vec<Objection> = changed(entry).unwrap_err();
        assert_eq!(objections[0].field, field);
        assert!(objections[0].message.contains(message), "{}", objections[0].message);
    }
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
    let other = owner("ReplicaSet", "other");
    let owner = &owner("ReplicaSet", "rs");
    let pods = vec![
        pod("old", Some("a"), owner, 1),
        pod("new", Some("b"), owner, 9),
        pod("crowded-old", Some("c"), owner, 0),
        pod("crowded-new", Some("c"), owner, 2),
        pod("pending", None, owner, 3),
        pod("other", Some("a"), &other, 9),
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
        pod("x", Some("a"), &owner("ReplicaSet", "web-1"), 0),
        pod("y", Some("b"), &owner("ReplicaSet", "web-1"), 1),
        pod("z", Some("b"), &owner("ReplicaSet", "web-2"), 2),
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
    let own = |name| pod(name, Some("a"), &owner("StatefulSet", "db"), 0);
    let mut set = workload("StatefulSet", "db", 4);
    set["spec"]["ordinals"] = json!({"start": 2});
    let mut inventory = inventory(["db-2", "db-10", "db-3"].map(own).into(), &[set]);
    let scale = json!([{"kind": "StatefulSet", "namespace": "ns", "name": "db", "replicas": 1}]);
    apply(&mut inventory, &changes(json!({"scale": scale}))).unwrap();
    assert_eq!(names(&inventory), ["db-2"]);
}

#[test]
fn manifest_with_fewer_replicas_removes_pods() {
    let owner = &owner("ReplicationController", "rc");
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
        pod("x", Some("a"), &owner("ReplicaSet", "web-1"), 0),
        pod("y", Some("b"), &owner("ReplicaSet", "web-2"), 1),
        pod("z", Some("b"), &owner("ReplicaSet", "web-other-2"), 1),
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
    let seen = to_raw_value(&json!({})).unwrap().into();
    let mut seen = inventory(vec![DumpedPod { raw: Some(seen), ..own.clone() }], &[]);
    let mut compact = inventory(vec![own], &[]);
    let owners = json!([{"controller": true, "uid": "p"}]);
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let claim = json!({"metadata": {"ownerReferences": owners, "annotations": annotations},
        "spec": {"volumeName": "pv-1", "storageClassName": "fast"}, "status": {"phase": "Bound"}});
    let rows = [
        (EventResource::PersistentVolumeClaim, "ns", "p-scratch", claim),
        (EventResource::PersistentVolumeClaim, "ns", "kept", json!({})),
        (EventResource::PersistentVolume, "", "pv-1", json!({})),
        (EventResource::PersistentVolume, "", "pv-2", json!({})),
    ];
    let objects = rows.map(|(kind, namespace, name, value)| DumpedObject {
        kind,
        namespace: namespace.into(),
        name: name.into(),
        raw: to_raw_value(&value).unwrap().into(),
    });
    for (inventory, expected) in
        [(&mut seen, &["kept", "pv-2"][..]), (&mut compact, &["p-scratch", "kept", "pv-2"])]
    {
        inventory.objects = Vec::from(objects.clone());
        apply(inventory, &changes(json!({"drain": ["a"]}))).unwrap();
        let objects: Vec<&str> = inventory.objects.iter().map(|own| &*own.name).collect();
        assert_eq!(objects, expected, "a claim is made again, from the template or the old claim");
    }
    let claim: Value = serde_json::from_str(compact.objects[0].raw.get()).unwrap();
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "p-again");
    assert_eq!(
        (&claim["spec"], &claim["status"]),
        (&json!({"storageClassName": "fast"}), &Value::Null)
    );
}

#[test]
fn workload_of_which_only_pods_are_known_is_scaled_by_them() {
    let pods = vec![
        pod("web-1-x", Some("a"), &owner("ReplicaSet", "web-1"), 0),
        pod("web-1-y", Some("b"), &owner("ReplicaSet", "web-1"), 1),
        pod("db-0", Some("a"), &owner("StatefulSet", "db"), 0),
        pod("db-1", Some("a"), &owner("StatefulSet", "db"), 0),
    ];
    let scaled = |kind: &str, name: &str, replicas: i64| {
        let mut inventory = inventory(pods.clone(), &[]);
        let scale = json!([{"kind": kind, "namespace": "ns", "name": name, "replicas": replicas}]);
        let applied = apply(&mut inventory, &changes(json!({"scale": scale})));
        applied.map(|applied| (applied, inventory))
    };
    let (applied, down) = scaled("Deployment", "web", 1).unwrap();
    assert_eq!((names(&down), applied.scaled_down.len()), (vec!["web-1-x", "db-0", "db-1"], 1));
    let (_, up) = scaled("Deployment", "web", 4).unwrap();
    let new = &up.pods[4..];
    assert!(new.iter().all(|own| own.pod.node_name.is_none()), "{:?}", names(&up));
    assert!(new.len() == 2 && new[0].pod.key.name.starts_with("web-1-"), "{:?}", names(&up));
    assert_ne!((&new[0].pod.key, &new[0].pod.uid), (&new[1].pod.key, &new[1].pod.uid));
    assert_eq!(names(&scaled("StatefulSet", "db", 1).unwrap().1)[2..], ["db-0"]);
    assert_eq!(names(&scaled("StatefulSet", "db", 3).unwrap().1)[4..], ["db-2"]);
    let (_, many) = scaled("Deployment", "web", 9_002).unwrap();
    let distinct: HashSet<&str> = names(&many).into_iter().collect();
    assert_eq!(distinct.len(), 9_000 + 4, "no two pods have one name");
    for (kind, name) in [("ReplicaSet", "web-1"), ("Deployment", "other"), ("StatefulSet", "web")] {
        assert!(scaled(kind, name, 1).is_err(), "{kind} {name}");
    }
}

#[test]
fn new_ordinal_gets_claims_of_its_own() {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]);
    let metadata = json!({"name": "db-0", "namespace": "ns", "uid": "db-0",
        "labels": {"apps.kubernetes.io/pod-index": "0", "app": "db"}});
    let mut own = object(metadata, json!({"nodeName": "a", "volumes": volumes}));
    own.owner = Some(Owner { kind: "StatefulSet".into(), name: "db".into() });
    let mut inventory = inventory(vec![own], &[]);
    let claim =
        json!({"metadata": {"name": "data-db-0", "uid": "c"}, "spec": {"volumeName": "pv-1"}});
    inventory.objects = vec![DumpedObject {
        kind: EventResource::PersistentVolumeClaim,
        namespace: "ns".into(),
        name: "data-db-0".into(),
        raw: to_raw_value(&claim).unwrap().into(),
    }];
    let scale = json!([{"kind": "StatefulSet", "namespace": "ns", "name": "db", "replicas": 2}]);
    apply(&mut inventory, &changes(json!({"scale": scale}))).unwrap();
    let claims: Vec<_> = inventory.objects.iter().map(|own| &*own.name).collect();
    assert_eq!(claims, ["data-db-0", "data-db-1"]);
    let claim: Value = serde_json::from_str(inventory.objects[1].raw.get()).unwrap();
    assert_eq!((&claim["metadata"]["name"], &claim["spec"]), (&json!("data-db-1"), &json!({})));
    let new = &inventory.pods[1].pod;
    assert_eq!(new.labels.get("apps.kubernetes.io/pod-index"), Some("1"));
    let named: Vec<_> = new.spec.volumes.iter().filter_map(|own| own.named_claim()).collect();
    assert_eq!(named.iter().map(|own| &***own).collect::<Vec<_>>(), ["data-db-1", "shared"]);
}

#[test]
fn pool_has_its_own_names_labels_taints_and_size_and_the_daemons_of_the_copied_node() {
    let daemon = pod("agent-x", Some("a"), &owner("DaemonSet", "agent"), 0);
    let mut inventory = inventory(vec![daemon], &[]);
    let pool = json!({"like": "a", "count": 2, "name": "gpu", "labels": {"pool": "gpu", "old": null},
        "taints": [], "allocatable": {"cpu": "16", "pods": "30", "example.com/gpu": "2"}});
    apply(&mut inventory, &changes(json!({"addNodes": [pool]}))).unwrap();
    let node = &inventory.nodes[2];
    assert_eq!((&*node.name, &*inventory.nodes[3].name), ("gpu-1", "gpu-2"));
    assert_eq!((node.labels.get("pool"), node.taints.len()), (Some("gpu"), 0));
    assert_eq!(node.labels.get("kubernetes.io/hostname"), Some("gpu-1"));
    assert_eq!((node.allocatable.milli_cpu, node.allowed_pods), (16_000, 30));
    assert_eq!(node.allocatable.scalar("example.com/gpu"), 2);
    assert_eq!(names(&inventory), ["agent-x", "agent-x-gpu-1", "agent-x-gpu-2"]);
    assert_eq!(inventory.pods[2].pod.node_name.as_deref(), Some("gpu-2"));
    for (field, value) in
        [("name", json!("a b")), ("taints", json!(["x"])), ("allocatable", json!({"cpu": "much"}))]
    {
        let mut pool = json!({"like": "a", "count": 1});
        pool[field] = value;
        let refused = apply(&mut inventory, &changes(json!({"addNodes": [pool]}))).unwrap_err();
        assert_eq!(refused[0].field, format!("addNodes[0].{field}"), "{refused:?}");
    }
}

#[test]
fn change_that_adds_more_than_the_limits_is_refused() {
    let limits = Limits { pods: 5, nodes: 3 };
    let pods = vec![pod("web-1-x", Some("a"), &owner("ReplicaSet", "web-1"), 0)];
    let scale = |replicas: i64| json!({"scale": [{"kind": "Deployment", "namespace": "ns", "name": "web", "replicas": replicas}]});
    let add = |count: i64| json!({"addNodes": [{"like": "a", "count": 1}, {"like": "b", "count": count}]});
    for (document, field) in [
        (scale(6), None),
        (scale(7), Some("scale[0].replicas")),
        (scale(2_000_000_000), Some("scale[0].replicas")),
        (add(2), None),
        (add(3), Some("addNodes[1].count")),
    ] {
        let refused =
            super::apply(&mut inventory(pods.clone(), &[]), &changes(document.clone()), limits);
        let found = refused.as_ref().err().map(|own| own[0].field.as_str());
        assert_eq!(found, field, "{document}");
    }
}

#[test]
fn contradictions_within_and_between_documents_are_found() {
    let taint = |taint| json!([{"nodes": ["a"], "taint": taint}]);
    let upgrade = |node| json!([{"nodes": [node]}]);
    let rows = [
        (json!({"drain": ["a"]}), json!({"upgrade": upgrade("a")}), Some("upgrade[0]")),
        (json!({"upgrade": upgrade("a")}), json!({"upgrade": upgrade("a")}), Some("upgrade[0]")),
        (json!({"upgrade": upgrade("a")}), json!({"upgrade": upgrade("b")}), None),
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
