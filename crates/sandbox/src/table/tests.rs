//! Recorded tables, and cells of each kind.

use serde_json::json;

use super::*;
use crate::recorded;
use crate::resources;

fn now() -> Time {
    Time::parse_rfc3339("2026-11-20T22:12:00Z").unwrap()
}

fn cells(resource: &Resource, object: &Value) -> Vec<Value> {
    let table = table(
        resource,
        &[object],
        json!({}),
        now(),
        Layout { include: IncludeObject::None, with_headers: false },
    );
    table["rows"][0]["cells"].as_array().unwrap().clone()
}

/// One cell, by the name of its column.
fn cell(resource: &Resource, column: &str, object: &Value) -> Value {
    let headers = columns::definitions(resource);
    let index = headers.iter().position(|header| header["name"] == column).unwrap();
    cells(resource, object)[index].clone()
}

#[test]
fn tables_are_as_recorded() {
    let objects = [
        ("get as table", "create pod (defaults applied)", resources::PODS),
        ("list nodes as table", "create node", resources::NODES),
    ];
    for (recorded, created, resource) in objects {
        let Some(recorded) = recorded::dialogue(recorded) else { return };
        let object = recorded::dialogue(created).unwrap().response_body();
        let expected = recorded.response_body();
        let metadata = expected["metadata"].clone();
        let made = table(
            resource,
            &[object],
            metadata,
            now(),
            Layout { include: IncludeObject::Metadata, with_headers: true },
        );
        assert_eq!(made["columnDefinitions"], expected["columnDefinitions"]);
        assert_eq!(made["rows"][0], expected["rows"][0]);
        let rest = |table: &Value| ["kind", "apiVersion", "metadata"].map(|it| table[it].clone());
        assert_eq!(rest(&made), rest(expected));
    }
}

#[test]
fn pod_status_is_its_most_important_state() {
    let waiting = |reason: &str| json!([{"state": {"waiting": {"reason": reason}}}]);
    let terminated = |reason: &str| json!([{"state": {"terminated": {"reason": reason}}}]);
    let running = json!([{"ready": true, "state": {"running": {}}}]);
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    let cases = [
        (json!({"phase": "Pending"}), "Pending"),
        (json!({"phase": "Pending", "conditions": gated}), "SchedulingGated"),
        (
            json!({"phase": "Pending", "containerStatuses": waiting("ContainerCreating")}),
            "ContainerCreating",
        ),
        (json!({"phase": "Running", "containerStatuses": running}), "Running"),
        (json!({"phase": "Succeeded", "containerStatuses": terminated("Completed")}), "Completed"),
        (
            json!({"phase": "Failed", "containerStatuses": [
                {"state": {"terminated": {"exitCode": 3}}},
            ]}),
            "ExitCode:3",
        ),
        (json!({"phase": "Failed", "reason": "OutOfcpu"}), "OutOfcpu"),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}),
            "Init:0/1",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": waiting("CrashLoopBackOff")}),
            "Init:CrashLoopBackOff",
        ),
    ];
    for (status, expected) in cases {
        let pod = json!({"spec": {"initContainers": [{"name": "i"}]}, "status": status});
        assert_eq!(cell(resources::PODS, "Status", &pod), expected, "{status}");
    }
    let deleted = json!({
        "metadata": {"deletionTimestamp": "2026-11-20T22:00:00Z"},
        "status": {"phase": "Running", "containerStatuses": running},
    });
    assert_eq!(cell(resources::PODS, "Status", &deleted), "Terminating");
}

#[test]
fn ready_containers_and_restarts_are_counted_with_sidecars() {
    let pod = json!({
        "spec": {
            "initContainers": [{"name": "once"}, {"name": "side", "restartPolicy": "Always"}],
            "containers": [{"name": "a"}, {"name": "b"}],
        },
        "status": {
            "initContainerStatuses": [
                {"name": "once", "restartCount": 7, "state": {"terminated": {"exitCode": 0}}},
                {"name": "side", "started": true, "ready": true, "state": {"running": {}}},
            ],
            "containerStatuses": [
                {"name": "a", "ready": true, "state": {"running": {}}, "restartCount": 2,
                 "lastState": {"terminated": {"finishedAt": "2026-11-20T22:07:00Z"}}},
                {"name": "b", "ready": false, "state": {"running": {}}},
            ],
        },
    });
    assert_eq!(cell(resources::PODS, "Ready", &pod), "2/3");
    assert_eq!(cell(resources::PODS, "Restarts", &pod), "2 (5m ago)");
}

#[test]
fn nodes_show_readiness_cordon_roles_and_addresses() {
    let node = json!({
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    });
    let cases = [
        ("Status", "NotReady,SchedulingDisabled"),
        ("Roles", "worker"),
        ("Internal-IP", "10.0.0.1"),
        ("External-IP", "<none>"),
    ];
    for (column, expected) in cases {
        assert_eq!(cell(resources::NODES, column, &node), expected);
    }
}

#[test]
fn other_kinds_have_their_columns() {
    let metadata = json!({"name": "x", "creationTimestamp": "2026-11-20T22:00:00Z"});
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let cases = [
        (
            resources::REPLICASETS,
            json!({
                "spec": {
                    "replicas": 3, "template": template,
                    "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [
                        {"key": "k", "operator": "In", "values": ["x", "y"]},
                    ]},
                },
                "status": {"replicas": 2, "readyReplicas": 1},
            }),
            json!(["x", 3, 2, 1, "12m", "c", "i", "a=b,k in (x,y)"]),
        ),
        (
            resources::DEPLOYMENTS,
            json!({"spec": {"replicas": 2, "template": template}, "status": {"readyReplicas": 1}}),
            json!(["x", "1/2", 0, 0, "12m", "c", "i", "<none>"]),
        ),
        (
            resources::PODDISRUPTIONBUDGETS,
            json!({"spec": {"maxUnavailable": "10%"}, "status": {"disruptionsAllowed": 1}}),
            json!(["x", "N/A", "10%", 1, "12m"]),
        ),
        (
            resources::PERSISTENTVOLUMECLAIMS,
            json!({
                "spec": {"volumeName": "v", "storageClassName": "s", "volumeMode": "Filesystem"},
                "status": {
                    "phase": "Bound", "accessModes": ["ReadWriteOnce"],
                    "capacity": {"storage": "1Gi"},
                },
            }),
            json!(["x", "Bound", "v", "1Gi", "RWO", "s", "<unset>", "12m", "Filesystem"]),
        ),
        (
            resources::CSIDRIVERS,
            json!({"spec": {"attachRequired": true, "podInfoOnMount": false,
                "storageCapacity": true, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}}),
            json!(["x", true, false, true, "Persistent,Ephemeral", "12m"]),
        ),
        (
            resources::CSINODES,
            json!({"spec": {"drivers": [{"name": "d"}, {"name": "e"}]}}),
            json!(["x", 2, "12m"]),
        ),
        (
            resources::CSISTORAGECAPACITIES,
            json!({"storageClassName": "fast", "capacity": "5Gi"}),
            json!(["x", "fast", "5Gi", "12m"]),
        ),
        (
            resources::VOLUMEATTACHMENTS,
            json!({"spec": {"attacher": "d", "nodeName": "n",
                "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}}),
            json!(["x", "d", "v", "n", true, "12m"]),
        ),
        (
            resources::SERVICES,
            json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}}),
            json!(["x", "ClusterIP", "<none>", "<none>", "80/TCP", "12m", "<none>"]),
        ),
        (
            resources::EVENTS,
            json!({
                "eventTime": "2026-11-20T22:11:50.000000Z", "type": "Normal", "reason": "Scheduled",
                "involvedObject": {"kind": "Pod", "name": "p"}, "message": "done",
                "reportingComponent": "s", "reportingInstance": "s-1",
            }),
            json!(["10s", "Normal", "Scheduled", "pod/p", "", "s, s-1", "done", "10s", 1, "x",]),
        ),
        (
            resources::PODGROUPS,
            json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}, "status": {"conditions":
                [{"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable"}]}}),
            json!(["x", "Gang", "<none>", "Unschedulable", "12m"]),
        ),
        (resources::ROLES, json!({}), json!(["x", "2026-11-20T22:00:00Z"])),
    ];
    for (resource, mut object, expected) in cases {
        object["metadata"] = metadata.clone();
        assert_eq!(json!(cells(resource, &object)), expected, "{}", resource.plural);
    }
}

#[test]
fn objects_of_any_shape_have_a_row() {
    for resource in resources::ALL {
        for object in [json!(null), json!({"spec": 1, "status": []}), json!([1])] {
            assert_eq!(cells(resource, &object).len(), columns::of(resource).len());
        }
    }
}
