//! Heartbeats of a node: conditions and a lease.

use framework::Time;
use serde_json::{Value, json};

use crate::object::{
    condition_status, entries, micro_timestamp, put, set_condition, text, timestamp,
};
use crate::resources::LEASES;
use crate::store::Store;

const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: u32 = 40;

/// The conditions of a healthy node: type, status, reason, message.
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// Fields of `status.nodeInfo` that are set if absent.
const NODE_INFO: [(&str, &str); 5] = [
    ("kubeletVersion", "v1.36.2"),
    ("osImage", "Loadmaster sandbox"),
    ("operatingSystem", "linux"),
    ("architecture", "amd64"),
    ("containerRuntimeVersion", "sandbox://1.0.0"),
];

/// Sets the status of a node when its kubelet starts. Existing fields stay, so that a manifest can
/// declare a node as not ready.
pub(super) fn register(node: &mut Value, now: Time) {
    for (of_type, status, reason, message) in CONDITIONS {
        if condition_status(node, of_type).is_empty() {
            let condition = json!({"type": of_type, "status": status, "reason": reason,
                "message": message, "lastHeartbeatTime": timestamp(now)});
            set_condition(node, condition, now);
        }
    }
    for (field, value) in NODE_INFO {
        if text(&node["status"]["nodeInfo"], &format!("/{field}")).is_empty() {
            put(node, &["status", "nodeInfo", field], json!(value));
        }
    }
}

/// Renews the heartbeat time in the conditions of a node.
pub(super) fn beat(node: &mut Value, now: Time) {
    let conditions: Vec<Value> = entries(node, "/status/conditions")
        .map(|condition| {
            let mut condition = condition.clone();
            put(&mut condition, &["lastHeartbeatTime"], json!(timestamp(now)));
            condition
        })
        .collect();
    put(node, &["status", "conditions"], json!(conditions));
}

/// Renews the lease of a node, or creates it.
pub(super) fn renew_lease(store: &mut Store, node: &Value, now: Time) {
    let name = text(node, "/metadata/name");
    let renew = |lease: &mut Value| {
        put(lease, &["spec", "holderIdentity"], json!(name));
        put(lease, &["spec", "renewTime"], json!(micro_timestamp(now)));
        Ok(())
    };
    if store.modify(LEASES, LEASE_NAMESPACE, name, now, renew).is_err() {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"],
            }]},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": micro_timestamp(now),
            },
        });
        // The lease cannot be created while its namespace is missing; it then expires.
        store.create(LEASES, lease, now).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_node_is_ready_unless_declared_otherwise() {
        let mut node = json!({"status": {"nodeInfo": {"architecture": "arm64", "osImage": ""}}});
        register(&mut node, Time::ZERO);
        assert_eq!(condition_status(&node, "Ready"), "True");
        assert_eq!(node["status"]["nodeInfo"]["architecture"], "arm64");
        assert_eq!(node["status"]["nodeInfo"]["osImage"], "Loadmaster sandbox");

        let conditions = json!([{"type": "Ready", "status": "False"}]);
        let mut node = json!({"status": {"conditions": conditions}});
        register(&mut node, Time::ZERO);
        assert_eq!(condition_status(&node, "Ready"), "False");
        assert_eq!(condition_status(&node, "DiskPressure"), "False");
    }

    #[test]
    fn heartbeat_renews_only_the_times() {
        let mut node = json!({});
        register(&mut node, Time::ZERO);
        beat(&mut node, Time::from_secs(300));
        for condition in entries(&node, "/status/conditions") {
            assert_eq!(condition["lastHeartbeatTime"], "1970-01-01T00:05:00Z");
            assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:00Z");
        }
    }
}
