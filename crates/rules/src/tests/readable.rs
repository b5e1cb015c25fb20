//! Every readable field has its value.

use serde_json::{Value, json};

use super::{filter, harness};
use crate::facts::FACTS;

fn object_of_node() -> Value {
    json!({
        "metadata": {
            "name": "a",
            "labels": {"tier": "gold"},
            "annotations": {"example.com/owner": "me"},
            "creationTimestamp": "2026-01-02T03:04:05Z"
        },
        "spec": {
            "podCIDR": "10.0.0.0/24",
            "providerID": "cloud://a",
            "unschedulable": true,
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]
        },
        "status": {
            "allocatable": {"cpu": "3500m", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"},
            "capacity": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "x"}],
            "declaredFeatures": ["Resize"],
            "nodeInfo": {
                "architecture": "arm64",
                "containerRuntimeVersion": "containerd://2",
                "kernelVersion": "6.1",
                "kubeletVersion": "v1.36.1",
                "operatingSystem": "linux",
                "osImage": "Debian"
            }
        }
    })
}

fn object_of_pod() -> Value {
    json!({
        "metadata": {
            "name": "p",
            "namespace": "default",
            "labels": {"app": "web"},
            "annotations": {"example.com/cost": "low"},
            "creationTimestamp": "2026-02-01T00:00:00Z",
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}
            ]
        },
        "spec": {
            "containers": [{"name": "c", "image": "web:1",
                "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}],
            "initContainers": [{"name": "i", "image": "init:1"}],
            "hostNetwork": true,
            "nodeSelector": {"disk": "ssd"},
            "priority": 7,
            "priorityClassName": "high",
            "restartPolicy": "Never",
            "runtimeClassName": "gvisor",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "robot",
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]
        }
    })
}

/// An expression for each readable field that is true only for its value above.
const EXPRESSIONS: &[&str] = &[
    r#"pod.metadata.name == "p""#,
    r#"pod.metadata.namespace == "default""#,
    r#"pod.metadata.labels == {"app": "web"}"#,
    r#"pod.metadata.annotations["example.com/cost"] == "low""#,
    r#"pod.metadata.creationTimestamp == timestamp("2026-02-01T00:00:00Z")"#,
    r#"pod.metadata.ownerReferences.exists(o, o.kind == "Job" && o.controller)"#,
    r#"pod.spec.containers[0].image == "web:1" && size(pod.spec.containers) == 1"#,
    r#"pod.spec.hostNetwork"#,
    r#"pod.spec.initContainers.map(c, c.name) == ["i"]"#,
    r#"pod.spec.nodeSelector["disk"] == "ssd""#,
    r#"pod.spec.priority == 7"#,
    r#"pod.spec.priorityClassName == "high""#,
    r#"pod.spec.restartPolicy == "Never""#,
    r#"pod.spec.runtimeClassName == "gvisor" && pod.spec.?runtimeClassName.hasValue()"#,
    r#"pod.spec.schedulerName == "default-scheduler""#,
    r#"pod.spec.serviceAccountName == "robot""#,
    r#"pod.spec.tolerations.exists(t, t.key == "k" && t.operator == "Exists" && t.effect == "NoExecute")"#,
    r#"requests["cpu"] == quantity("1500m") && requests["memory"].asInteger() == 1073741824"#,
    r#"namespaceObject.metadata.name == "default""#,
    r#"namespaceObject.metadata.labels["team"] == "b""#,
    r#"node.metadata.name == "a""#,
    r#"node.metadata.labels["tier"] == "gold" && "tier" in node.metadata.labels"#,
    r#"node.metadata.annotations[?"example.com/owner"].orValue("") == "me""#,
    r#"node.metadata.creationTimestamp == timestamp("2026-01-02T03:04:05Z")"#,
    r#"node.spec.podCIDR == "10.0.0.0/24""#,
    r#"node.spec.providerID.startsWith("cloud://")"#,
    r#"node.spec.taints.exists_one(t, t.key == "k" && t.value == "v" && t.effect == "NoSchedule")"#,
    r#"node.spec.unschedulable"#,
    r#"node.status.allocatable["cpu"] == quantity("3500m")"#,
    r#"node.status.capacity["cpu"].asInteger() == 4"#,
    r#"node.status.conditions.exists_one(c, c.type == "Ready" && c.status == "True")"#,
    r#""Resize" in node.status.declaredFeatures"#,
    r#"node.status.nodeInfo.architecture == "arm64""#,
    r#"node.status.nodeInfo.containerRuntimeVersion == "containerd://2""#,
    r#"node.status.nodeInfo.kernelVersion == "6.1""#,
    r#"node.status.nodeInfo.kubeletVersion.startsWith("v1.36")"#,
    r#"node.status.nodeInfo.operatingSystem == "linux""#,
    r#"node.status.nodeInfo.osImage == "Debian""#,
    r#"usage.allocatable["example.com/gpu"].asInteger() == 2 && !("example.com/fpga" in usage.allocatable)"#,
    r#"usage.free["cpu"] == quantity("3") && usage.free["pods"].asInteger() == 109"#,
    r#"usage.requested["cpu"] == quantity("500m")"#,
];

#[test]
fn every_readable_field_has_its_value() {
    for (fact, expression) in FACTS.iter().zip(EXPRESSIONS) {
        assert!(expression.contains(fact.path), "{} is not tested in its place", fact.path);
        let args = filter(expression);
        let harness = harness(args).node_from_json(&object_of_node());
        let there = testkit::pod("there").cpu("500m").on("a").build();
        let namespace =
            testkit::StorageObject::new(framework::EventResource::Namespace, "default", json!({}))
                .label("team", "b");
        let harness = harness.pod(there).storage(namespace);
        let pod = harness.pod_from_json(&object_of_pod());
        let run = harness.run(&pod);
        assert_eq!(run.feasible(), ["a"], "{expression}: {run}");
    }
    assert_eq!(FACTS.len(), EXPRESSIONS.len());
}

#[test]
fn absent_fields_are_errors_or_empty() {
    let rows = [
        (r#"pod.spec.runtimeClassName == """#, false),
        (r#"has(pod.spec.runtimeClassName)"#, false),
        (r#"!has(pod.spec.runtimeClassName)"#, true),
        (r#"!pod.spec.hostNetwork"#, true),
        (r#"size(node.spec.taints) == 0"#, true),
        (r#"size(node.metadata.annotations) == 0"#, true),
        (r#"size(node.metadata.labels) == 0"#, true),
    ];
    for (expression, expected) in rows {
        let harness =
            harness(filter(expression)).node_from_json(&json!({"metadata": {"name": "a"}}));
        let pod = harness.pod_from_json(&json!({"metadata": {"name": "p", "namespace": "x"}}));
        assert_eq!(harness.run(&pod).feasible().len() == 1, expected, "{expression}");
    }
}
