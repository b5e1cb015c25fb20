//! One cluster in which many pods wait, each for another reason.
//!
//! `EXPLAIN_DUMP=FILE` writes the cluster as a dump for `loadmaster explain --dump`.

use dry_run::{Object, World};
use explain::{PodAnswer, Suggestion};
use fastrand::Rng;
use framework::{EventResource, Node, Pod};
use loadmaster_explain as explain;
use serde_json::{Value, json};

use crate::support::*;

/// A pod that waits.
struct Pending {
    /// Name of the pod, which says the cause.
    name: &'static str,
    /// Its spec, without containers.
    spec: Value,
    /// The requests of its container.
    requests: Value,
    labels: Value,
    /// A part of the reason.
    reason: &'static str,
    /// The kind of the first suggestion, and a part of its text.
    first: (&'static str, &'static str),
}

fn pending(
    name: &'static str,
    reason: &'static str,
    kind: &'static str,
    text: &'static str,
) -> Pending {
    let requests = json!({"cpu": "100m", "memory": "64Mi"});
    Pending { name, spec: json!({}), requests, labels: json!({}), reason, first: (kind, text) }
}

impl Pending {
    fn requests(self, requests: Value) -> Self {
        Self { requests, ..self }
    }

    fn spec(self, spec: Value) -> Self {
        Self { spec, ..self }
    }

    fn labels(self, labels: Value) -> Self {
        Self { labels, ..self }
    }

    fn object(&self) -> Value {
        pod(self.name, None, &self.requests, &self.labels, self.spec.clone())
    }
}

fn pod(name: &str, node: Option<&str>, requests: &Value, labels: &Value, mut spec: Value) -> Value {
    let mut container = json!({"name": "main", "image": "registry.example.com/app:1"});
    container["resources"] = json!({"requests": requests});
    if let Some(ports) = spec.as_object_mut().and_then(|spec| spec.remove("ports")) {
        container["ports"] = ports;
    }
    spec["schedulerName"] = json!("default-scheduler");
    spec["containers"] = json!([container]);
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": labels},
        "spec": spec,
    })
}

fn node(name: &str, zone: &str, allocatable: Value, labels: Value, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": {
            "cpu": "8", "memory": "32Gi", "ephemeral-storage": "50Gi", "pods": "110",
        }},
    });
    object["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
    object["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
    for (resource, amount) in allocatable.as_object().expect("an object") {
        object["status"]["allocatable"][resource] = amount.clone();
    }
    object
}

fn of_kind(api: &str, kind: &str, name: &str, mut object: Value) -> Value {
    object["apiVersion"] = json!(api);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    if matches!(kind, "PersistentVolumeClaim" | "ResourceClaim") {
        object["metadata"]["namespace"] = json!("default");
    }
    object
}

fn nodes() -> Vec<Value> {
    let taint = json!({"key": "dedicated", "value": "batch", "effect": "NoSchedule"});
    let gpu = json!({"key": "gpu", "value": "", "effect": "NoSchedule"});
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    let own = |pool: &str| json!({"pool": pool});
    vec![
        node("a1", "a", json!({}), own("general"), json!({})),
        node("a2", "a", json!({}), own("general"), json!({})),
        node("b1", "b", json!({}), own("general"), json!({})),
        node(
            "batch-1",
            "b",
            json!({"cpu": "16", "memory": "64Gi"}),
            own("batch"),
            json!({"taints": [taint]}),
        ),
        node("gpu-1", "a", json!({"nvidia.com/gpu": "1"}), own("gpu"), json!({"taints": [gpu]})),
        node(
            "cordoned",
            "a",
            json!({"cpu": "16", "memory": "64Gi"}),
            own("old"),
            json!({"unschedulable": true, "taints": [cordon]}),
        ),
        node("tiny", "b", json!({"pods": "1"}), own("edge"), json!({})),
        node("disks", "b", json!({"cpu": "4"}), own("disks"), json!({})),
        node("busy", "a", json!({"cpu": "4", "memory": "8Gi"}), own("busy"), json!({})),
    ]
}

/// Pods with a node. The general nodes have 1500m of CPU left (b1 1000m) and 22Gi of memory.
fn running() -> Vec<Value> {
    let some = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    let plain = json!({});
    let hostname = "kubernetes.io/hostname";
    let mut pods = Vec::new();
    for (node, cpu) in [("a1", "3"), ("a2", "3"), ("b1", "3500m")] {
        let requests = some(cpu, "5Gi");
        let db = json!({"app": "db"});
        pods.push(pod(&format!("db-{node}"), Some(node), &requests, &db, json!({})));
        let loner = near("podAntiAffinity", "noisy", hostname);
        let port = json!([{"containerPort": 80, "hostPort": 80}]);
        let mut spec = loner;
        spec["ports"] = port;
        pods.push(pod(
            &format!("proxy-{node}"),
            Some(node),
            &some("500m", "1Gi"),
            &json!({"app": "proxy"}),
            spec,
        ));
        pods.push(pod(&format!("api-{node}"), Some(node), &some("3", "4Gi"), &plain, json!({})));
    }
    for number in 0..2 {
        let name = format!("web-{number}");
        let node = ["a1", "a2"][number];
        pods.push(pod(&name, Some(node), &some("0", "0"), &json!({"app": "web"}), json!({})));
    }
    pods.push(pod("training", Some("gpu-1"), &json!({"nvidia.com/gpu": "1"}), &plain, json!({})));
    pods.push(pod("only", Some("tiny"), &some("100m", "64Mi"), &plain, json!({})));
    pods.push(pod("writer", Some("disks"), &some("3500m", "1Gi"), &plain, uses_claim("written")));
    for number in 0..4 {
        pods.push(pod(
            &format!("low-{number}"),
            Some("busy"),
            &some("1", "2Gi"),
            &plain,
            json!({"priority": 0}),
        ));
    }
    pods
}

fn uses_claim(name: &str) -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]})
}

fn uses_device(claim: &str) -> Value {
    json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]})
}

fn storage_class(name: &str, zone: Option<&str>) -> Value {
    let mut class =
        json!({"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    if let Some(zone) = zone {
        class["allowedTopologies"] = json!([{"matchLabelExpressions": [
            {"key": "topology.kubernetes.io/zone", "values": [zone]}]}]);
    }
    of_kind("storage.k8s.io/v1", "StorageClass", name, class)
}

fn pvc(name: &str, class: &str, mode: &str, volume: Option<&str>) -> Value {
    of_kind("v1", "PersistentVolumeClaim", name, claim_of(class, &[mode], volume))
}

fn pv(name: &str, claim: &str, zone: Option<&str>) -> Value {
    of_kind("v1", "PersistentVolume", name, volume_of(name, claim, zone))
}

fn device_class(name: &str) -> Value {
    let expression = format!("device.driver == \"{name}\"");
    let spec = json!({"spec": {"selectors": [{"cel": {"expression": expression}}]}});
    of_kind("resource.k8s.io/v1", "DeviceClass", name, spec)
}

fn resource_claim(name: &str, class: &str, selector: Option<&str>) -> Value {
    let mut exactly = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": 1});
    if let Some(expression) = selector {
        exactly["selectors"] = json!([{"cel": {"expression": expression}}]);
    }
    let spec = json!({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}});
    of_kind("resource.k8s.io/v1", "ResourceClaim", name, spec)
}

fn others() -> Vec<Value> {
    let mut taken = resource_claim("taken", "gpu.example.com", None);
    taken["status"] = json!({
        "allocation": {"devices": {"results": [{
            "request": "gpu", "driver": "gpu.example.com", "pool": "batch-1", "device": "gpu-0",
        }]}},
        "reservedFor": [{"resource": "pods", "name": "gone", "uid": "uid-gone"}],
    });
    let device = |name: &str| json!({"name": name, "attributes": {"memory": {"int": 40}}});
    vec![
        storage_class("fast", None),
        storage_class("zonal", Some("c")),
        pvc("of-no-class", "gold", "ReadWriteOnce", None),
        pvc("of-zone-c", "zonal", "ReadWriteOnce", None),
        pvc("in-zone-d", "fast", "ReadWriteOnce", Some("pv-d")),
        pv("pv-d", "in-zone-d", Some("d")),
        pvc("in-zone-b", "fast", "ReadWriteOnce", Some("pv-b")),
        pv("pv-b", "in-zone-b", Some("b")),
        pvc("written", "fast", "ReadWriteOncePod", Some("pv-w")),
        pv("pv-w", "written", None),
        pvc("second", "fast", "ReadWriteOnce", Some("pv-s")),
        pv("pv-s", "second", None),
        of_kind(
            "storage.k8s.io/v1",
            "CSINode",
            "disks",
            json!({"spec": {"drivers": [{
            "name": "csi.example.com", "nodeID": "disks", "allocatable": {"count": 1}}]}}),
        ),
        device_class("gpu.example.com"),
        device_class("fpga.example.com"),
        of_kind(
            "resource.k8s.io/v1",
            "ResourceSlice",
            "slice-batch-1",
            json!({"spec": {
                "driver": "gpu.example.com",
                "nodeName": "batch-1",
                "pool": {"name": "batch-1", "generation": 1, "resourceSliceCount": 1},
                "devices": [device("gpu-0")],
            }}),
        ),
        of_kind(
            "resource.k8s.io/v1",
            "ResourceSlice",
            "slice-a1",
            json!({"spec": {
                "driver": "gpu.example.com",
                "nodeName": "a1",
                "pool": {"name": "a1", "generation": 1, "resourceSliceCount": 1},
                "devices": [device("gpu-0")],
            }}),
        ),
        taken,
        resource_claim("of-missing-class", "tpu.example.com", None),
        resource_claim("of-empty-class", "fpga.example.com", None),
        resource_claim(
            "too-large",
            "gpu.example.com",
            Some("device.attributes[\"gpu.example.com\"].memory >= 80"),
        ),
        resource_claim("in-use", "gpu.example.com", None),
    ]
}

fn waiting() -> Vec<Pending> {
    let hostname = "kubernetes.io/hostname";
    let zone = "topology.kubernetes.io/zone";
    let pool = |name: &str| json!({"nodeSelector": {"pool": name}});
    let with = |mut spec: Value, other: Value| {
        for (key, value) in other.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        spec
    };
    let tolerates = |key: &str| json!({"tolerations": [{"key": key, "operator": "Exists"}]});
    vec![
        pending(
            "cpu",
            "Insufficient cpu",
            "request",
            "request 1500m less cpu (1500m instead of 3)",
        )
        .requests(json!({"cpu": "3"})),
        pending("much-cpu", "Insufficient cpu", "capacity", "3500m more cpu on node a1")
            .requests(json!({"cpu": "5"}))
            .spec(pool("general")),
        pending("memory", "Insufficient memory", "request", "3Gi less memory")
            .requests(json!({"memory": "25Gi"}))
            .spec(pool("general")),
        pending(
            "ephemeral-storage",
            "Insufficient ephemeral-storage",
            "request",
            "10Gi less ephemeral-storage",
        )
        .requests(json!({"ephemeral-storage": "60Gi"})),
        pending("larger-than-all", "Insufficient cpu", "node", "a node with 64 cpu")
            .requests(json!({"cpu": "64"})),
        pending(
            "gpu-in-use",
            "Insufficient nvidia.com/gpu",
            "capacity",
            "1 more nvidia.com/gpu on node gpu-1",
        )
        .requests(json!({"nvidia.com/gpu": "1"}))
        .spec(tolerates("gpu")),
        pending(
            "no-such-resource",
            "Insufficient example.com/fpga",
            "capacity",
            "1 more example.com/fpga on node a",
        )
        .requests(json!({"example.com/fpga": "1"})),
        pending("pod-count", "Too many pods", "slot", "room for 1 more pod on node tiny")
            .spec(pool("edge")),
        pending("taint", "untolerated taint", "toleration", "tolerate dedicated=batch:NoSchedule")
            .spec(pool("batch")),
        pending(
            "node-selector",
            "didn't match Pod's node affinity/selector",
            "label",
            "disktype=ssd",
        )
        .spec(json!({"nodeSelector": {"disktype": "ssd"}})),
        pending(
            "node-affinity",
            "didn't match Pod's node affinity/selector",
            "label",
            "generation=6",
        )
        .spec(required_node("generation", "Gt", &["5"])),
        pending(
            "missing-zone",
            "didn't match Pod's node affinity/selector",
            "node",
            "topology.kubernetes.io/zone=q",
        )
        .spec(json!({"nodeSelector": {zone: "q"}})),
        pending("cordoned-node", "unschedulable", "cordon", "lift the cordon of node cordoned")
            .spec(pool("old")),
        pending(
            "pod-affinity",
            "didn't match pod affinity rules",
            "affinity",
            "a running pod labelled app=cache",
        )
        .spec(near("podAffinity", "cache", hostname)),
        pending(
            "own-anti-affinity",
            "anti-affinity rules",
            "antiAffinity",
            "keeps the pod away from default/db-",
        )
        .spec(with(near("podAntiAffinity", "db", hostname), pool("general"))),
        pending(
            "anti-affinity-of-others",
            "existing pods anti-affinity rules",
            "antiAffinity",
            "keeps the pod away from default/proxy-",
        )
        .labels(json!({"app": "noisy"}))
        .spec(pool("general")),
        pending("spread", "topology spread constraints", "request", "200m less cpu")
            .labels(json!({"app": "web"}))
            .requests(json!({"cpu": "1200m"}))
            .spec(with(pool("general"), spread(zone))),
        pending("host-port", "didn't have free ports", "port", "uses the host port 80")
            .spec(with(pool("general"), json!({"ports": [{"containerPort": 80, "hostPort": 80}]}))),
        pending("gate", "waiting for scheduling gates", "gate", "remove the scheduling gates")
            .spec(json!({"schedulingGates": [{"name": "example.com/quota"}]})),
        pending(
            "missing-claim",
            "persistentvolumeclaim \"nowhere\" not found",
            "claim",
            "create the PersistentVolumeClaim default/nowhere",
        )
        .spec(uses_claim("nowhere")),
        pending(
            "missing-storage-class",
            "unbound immediate PersistentVolumeClaims",
            "class",
            "create the StorageClass gold",
        )
        .spec(uses_claim("of-no-class")),
        pending(
            "class-of-another-zone",
            "didn't find available persistent volumes to bind",
            "topology",
            "zonal",
        )
        .spec(uses_claim("of-zone-c")),
        pending(
            "volume-of-a-zone-without-nodes",
            "node affinity",
            "node",
            "topology.kubernetes.io/zone=d",
        )
        .spec(uses_claim("in-zone-d")),
        pending("volume-of-a-full-zone", "node affinity", "request", "200m less cpu")
            .requests(json!({"cpu": "1200m"}))
            .spec(with(pool("general"), uses_claim("in-zone-b"))),
        pending(
            "attach-limit",
            "exceed max volume count",
            "limit",
            "one pod with a volume fewer on node disks",
        )
        .spec(with(pool("disks"), uses_claim("second"))),
        pending(
            "read-write-once-pod",
            "ReadWriteOncePod",
            "exclusive",
            "default/writer uses claim written",
        )
        .spec(uses_claim("written")),
        pending(
            "class-without-devices",
            "cannot allocate all claims",
            "device",
            "fpga.example.com",
        )
        .spec(uses_device("of-empty-class")),
        pending("no-device-passes", "cannot allocate all claims", "deviceSelector", "too-large")
            .spec(uses_device("too-large")),
        pending(
            "missing-resource-claim",
            "could not find ResourceClaim",
            "deviceClaim",
            "create the ResourceClaim default/none",
        )
        .spec(uses_device("none")),
        pending(
            "missing-device-class",
            "tpu.example.com",
            "deviceClass",
            "create the DeviceClass tpu.example.com",
        )
        .spec(uses_device("of-missing-class")),
        pending("device-in-use", "cannot allocate all claims", "device", "batch-1")
            .spec(with(with(pool("batch"), tolerates("dedicated")), uses_device("in-use"))),
        pending(
            "may-not-preempt",
            "Insufficient cpu",
            "preemptionPolicy",
            "let the pod preempt others",
        )
        .requests(json!({"cpu": "3", "memory": "7Gi"}))
        .spec(with(pool("busy"), json!({"priority": 100, "preemptionPolicy": "Never"}))),
        pending("low-priority", "Insufficient cpu", "priority", "a priority of at least 1")
            .requests(json!({"cpu": "3", "memory": "7Gi"}))
            .spec(pool("busy")),
        pending(
            "two-shortages",
            "Insufficient cpu",
            "capacity",
            "2500m more cpu and 4Gi more memory on node b1",
        )
        .requests(json!({"cpu": "3500m", "memory": "26Gi"}))
        .spec(json!({"nodeSelector": {"pool": "general", zone: "b"}})),
    ]
}

fn load(world: &mut World, object: &Value) {
    let kind = match object["kind"].as_str().expect("a kind") {
        "Node" => {
            let api = serde_json::from_value(object.clone()).expect("a node");
            let (node, problems) = Node::from_api(&api);
            assert!(problems.is_empty(), "{problems:?}");
            return world.add_node(node);
        }
        "Pod" => {
            let pod = serde_json::from_value(object.clone()).expect("a pod");
            return world.add_pod(Pod::from_api(&pod));
        }
        "StorageClass" => EventResource::StorageClass,
        "PersistentVolumeClaim" => EventResource::PersistentVolumeClaim,
        "PersistentVolume" => EventResource::PersistentVolume,
        "CSINode" => EventResource::CsiNode,
        "DeviceClass" => EventResource::DeviceClass,
        "ResourceClaim" => EventResource::ResourceClaim,
        "ResourceSlice" => EventResource::ResourceSlice,
        other => panic!("{other}"),
    };
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
    let (namespace, name) = (text("namespace"), text("name"));
    world.add_object(Object { kind, namespace, name, object: object.clone().into() });
}

fn world(waiting: &[Pending]) -> World {
    let mut world = empty_world();
    let objects: Vec<Value> = [nodes(), others(), running()].concat();
    let waiting = waiting.iter().map(Pending::object);
    let objects: Vec<Value> = objects.into_iter().chain(waiting).collect();
    if let Some(file) = std::env::var_os("EXPLAIN_DUMP") {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(file, list.to_string()).expect("the dump is written");
    }
    objects.iter().for_each(|object| load(&mut world, object));
    world.run_until_idle();
    world
}

fn reasons(answer: &PodAnswer) -> String {
    let Some(now) = &answer.now else { return String::new() };
    let of_nodes = now.rejections.iter().flat_map(|own| own.reasons.iter().cloned());
    let all = of_nodes.chain(now.gate.clone()).chain(now.message.clone());
    all.collect::<Vec<_>>().join("; ")
}

fn listed(help: &[Suggestion]) -> Vec<String> {
    help.iter()
        .map(|own| format!("{:.2} {}: {} ({})", own.size, own.kind, own.text, own.effect))
        .collect()
}

#[test]
fn each_pod_of_one_cluster_gets_the_reason_and_a_first_suggestion_that_schedules_it() {
    let waiting = waiting();
    let asked = world(&waiting);
    let mut failures = Vec::new();
    for own in &waiting {
        assert_eq!(node_of(&asked, own.name), None, "{} does not wait", own.name);
        let answer = explained(&asked, own.name, None);
        let reasons = reasons(&answer);
        if !reasons.contains(own.reason) {
            failures.push(format!("{}: the reason is {reasons}", own.name));
        }
        let Some(first) = answer.help.first() else {
            failures.push(format!("{}: no suggestion: {reasons}", own.name));
            continue;
        };
        if first.kind != own.first.0 || !first.text.contains(own.first.1) {
            failures.push(format!(
                "{}: expected {:?}: {:#?}",
                own.name,
                own.first,
                listed(&answer.help)
            ));
        }
        let mut world = world(std::slice::from_ref(own));
        carry_out(&mut world, &first.changes);
        world.run_until_idle();
        if node_of(&world, own.name).is_none() {
            failures.push(format!("{}: {} did not help", own.name, first.text));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Another pod may take the room that was made, so that a pod is asked about again.
#[test]
fn following_first_suggestions_schedules_the_pods_of_a_cluster() {
    let waiting = waiting();
    let mut world = world(&waiting);
    let mut left: Vec<&str> = waiting.iter().map(|own| own.name).collect();
    for _ in 0..4 {
        for name in &left {
            if node_of(&world, name).is_some() {
                continue;
            }
            let answer = explained(&world, name, None);
            let Some(first) = answer.help.first() else { continue };
            carry_out(&mut world, &first.changes);
            world.run_until_idle();
        }
        left.retain(|name| node_of(&world, name).is_none());
    }
    let answer = |name: &&str| {
        let answer = explained(&world, name, None);
        (reasons(&answer), listed(&answer.help))
    };
    // The one node with a device is full by then, and no other device passes.
    left.retain(|name| *name != "no-device-passes");
    assert!(left.is_empty(), "{left:?} {:#?}", left.iter().map(answer).collect::<Vec<_>>());
}

/// Pools of nodes that are more or less full, and pods in which several causes meet.
fn pools(rng: &mut Rng) -> Vec<Value> {
    let mut objects = vec![storage_class("fast", None)];
    for pool in 0..6 {
        let taint = json!([{"key": "pool", "value": format!("p{pool}"), "effect": "NoSchedule"}]);
        let (cpu, memory) = ([4, 8, 16][pool % 3], [8, 64, 16][pool % 3]);
        for number in 0..6 {
            let name = format!("p{pool}-{number}");
            let spec = match (pool, number) {
                (0 | 1, 0) => json!({"unschedulable": true}),
                (4 | 5, _) => json!({"taints": taint}),
                _ => json!({}),
            };
            let zone = ["a", "b", "c"][number % 3];
            let size = json!({"cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": if pool == 3 { "3" } else { "110" }});
            objects.push(node(&name, zone, size, json!({"pool": format!("p{pool}")}), spec));
            for own in 0..3 {
                let share = rng.usize(20..34);
                let requests = json!({
                    "cpu": format!("{}m", cpu * 10 * share),
                    "memory": format!("{}Mi", memory * 1024 * rng.usize(10..34) / 100),
                });
                let app = format!("app-{}", rng.usize(0..4));
                let spec = json!({"priority": rng.usize(0..3) * 10});
                let labels = json!({"app": app});
                objects.push(pod(&format!("{name}-{own}"), Some(&name), &requests, &labels, spec));
            }
        }
    }
    objects
}

/// Returns a pod of random wishes.
fn wishes(number: usize, rng: &mut Rng) -> Value {
    let requests = json!({
        "cpu": format!("{}m", rng.usize(1..60) * 200),
        "memory": format!("{}Mi", rng.usize(1..80) * 256),
    });
    let mut spec = json!({"priority": rng.usize(0..3) * 10});
    let set = |spec: &mut Value, own: Value| {
        for (key, value) in own.as_object().expect("an object") {
            spec[key] = value.clone();
        }
    };
    if rng.bool() {
        set(&mut spec, json!({"nodeSelector": {"pool": format!("p{}", rng.usize(0..6))}}));
    }
    match rng.usize(0..6) {
        0 => set(&mut spec, near("podAntiAffinity", "app-1", "topology.kubernetes.io/zone")),
        1 => set(&mut spec, spread("topology.kubernetes.io/zone")),
        2 => set(&mut spec, json!({"ports": [{"containerPort": 80, "hostPort": 80}]})),
        3 => set(&mut spec, json!({"schedulingGates": [{"name": "example.com/hold"}]})),
        _ => {}
    }
    if rng.usize(0..4) == 0 {
        let volume =
            |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let claims: Vec<_> =
            ["one", "two"].iter().take(rng.usize(1..3)).map(|own| volume(own)).collect();
        set(&mut spec, json!({"volumes": claims}));
    }
    if rng.bool() {
        set(&mut spec, json!({"tolerations": [{"key": "pool", "operator": "Exists"}]}));
    }
    pod(&format!("wishes-{number}"), None, &requests, &json!({"app": "web"}), spec)
}

#[test]
fn pods_in_which_several_causes_meet_get_a_suggestion_that_schedules_them() {
    let mut failures = Vec::new();
    let mut waiting = 0;
    for seed in 0..120 {
        let mut rng = Rng::with_seed(seed);
        let objects = pools(&mut rng);
        let wishes = wishes(0, &mut rng);
        let load_all = || {
            let mut world = empty_world();
            objects.iter().chain([&wishes]).for_each(|object| load(&mut world, object));
            world
        };
        // Asked before the first attempt, so that the world has evicted no pod.
        let mut world = load_all();
        let answer = explained(&world, "wishes-0", None);
        let now = answer.now.as_ref().expect("a profile is responsible");
        if now.gate.is_none() && (now.feasible > 0 || now.preemption.is_some()) {
            continue;
        }
        waiting += 1;
        let Some(first) = answer.help.first() else {
            failures.push(format!("seed {seed}: no suggestion: {}\n  {wishes}", reasons(&answer)));
            continue;
        };
        println!("seed {seed}: {} => {:#?}", reasons(&answer), listed(&answer.help));
        carry_out(&mut world, &first.changes);
        world.run_until_idle();
        if node_of(&world, "wishes-0").is_none() {
            failures.push(format!("seed {seed}: {} did not help", first.text));
        }
    }
    assert!(waiting > 50, "{waiting} pods wait");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
