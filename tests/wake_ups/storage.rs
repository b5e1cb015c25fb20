//! Storage in the API server.

use serde_json::{Value, json};

use super::objects::{Object, object, pod};

/// The CSI driver of all volumes.
pub(crate) const DRIVER: &str = "csi.example.com";
/// The provisioner of a class whose volumes are never provisioned.
pub(crate) const NOBODY: &str = "kubernetes.io/no-provisioner";

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// A Pod with a volume from this source.
pub(crate) fn with_volume(name: &str, source: Value) -> Object {
    let mut volume = source;
    volume["name"] = json!("v");
    pod(name).spec(json!({"volumes": [volume]}))
}

/// A Pod with a volume from this claim.
pub(crate) fn claiming(name: &str, claim: &str) -> Object {
    with_volume(name, json!({"persistentVolumeClaim": {"claimName": claim}}))
}

/// A claim for 1Gi of this class.
pub(crate) fn claim(name: &str, class: &str) -> Object {
    let resources = json!({"requests": {"storage": "1Gi"}});
    object("v1", "PersistentVolumeClaim", name).spec(json!({
        "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": resources,
    }))
}

/// A patch that binds a claim to this volume.
pub(crate) fn binding_to(volume: &str) -> Value {
    let annotations = json!({BIND_COMPLETED: "yes"});
    json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}})
}

/// A claim that is bound to this volume.
pub(crate) fn bound_claim(name: &str, volume: &str) -> Object {
    claim(name, "").fields(binding_to(volume)).status(json!({"phase": "Bound"}))
}

/// An available volume of 1Gi in this class.
pub(crate) fn volume(name: &str, class: &str) -> Object {
    let spec = json!({
        "storageClassName": class, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": name},
    });
    object("v1", "PersistentVolume", name).spec(spec).status(json!({"phase": "Available"}))
}

/// The `spec` of a volume that is usable on nodes with this label.
pub(crate) fn only_on(key: &str, value: &str) -> Value {
    let label = json!({"key": key, "operator": "In", "values": [value]});
    json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [label]}]}}})
}

/// A class whose claims wait for a pod.
pub(crate) fn storage_class(name: &str, provisioner: &str) -> Object {
    object("storage.k8s.io/v1", "StorageClass", name).fields(json!({
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    }))
}

/// A CSINode with this limit of the driver.
pub(crate) fn csi_node(name: &str, driver: &str, count: i32) -> Object {
    let limit = json!({"name": driver, "nodeID": name, "allocatable": {"count": count}});
    object("storage.k8s.io/v1", "CSINode", name).spec(json!({"drivers": [limit]}))
}

/// A VolumeAttachment of a node.
pub(crate) fn attachment(name: &str, driver: &str, node: &str, volume: &str) -> Object {
    object("storage.k8s.io/v1", "VolumeAttachment", name).spec(json!({
        "attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume},
    }))
}
