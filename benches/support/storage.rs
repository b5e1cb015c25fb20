//! Storage objects, for the benchmarks.

use engine::Change;
use framework::EventResource;
use framework::storage::BIND_COMPLETED;
use serde_json::{Value, json};

use crate::object::object;
use crate::support;

/// The namespace of all claims.
pub(crate) const NAMESPACE: &str = "default";
/// The CSI driver of all volumes.
pub(crate) const DRIVER: &str = "disk.example.com";
/// The class of all volumes and claims.
pub(crate) const CLASS: &str = "disks";

/// Returns the source of a volume of the driver.
pub(crate) fn csi(volume: &str) -> Value {
    json!({ "driver": DRIVER, "volumeHandle": volume })
}

/// Returns a volume with this `spec`, without a claim unless `spec` has one.
pub(crate) fn volume(name: &str, mut spec: Value) -> Change {
    let is_bound = spec.get("claimRef").is_some();
    spec["storageClassName"] = json!(CLASS);
    spec["accessModes"] = json!(["ReadWriteOnce", "ReadWriteOncePod"]);
    spec["capacity"] = json!({ "storage": "20Gi" });
    let status = json!({ "phase": if is_bound { "Bound" } else { "Available" } });
    let volume = json!({ "spec": spec, "status": status });
    object(EventResource::PersistentVolume, "", name, volume)
}

/// Returns a claim with this `spec`, bound if `spec` names a volume.
pub(crate) fn claim(name: &str, spec: Value) -> Change {
    let bound = spec.get("volumeName").map(|_| (BIND_COMPLETED.to_owned(), json!("yes")));
    let annotations: serde_json::Map<_, _> = bound.into_iter().collect();
    let claim = json!({ "metadata": { "annotations": annotations }, "spec": spec });
    object(EventResource::PersistentVolumeClaim, NAMESPACE, name, claim)
}

/// Returns the number of volumes that the node with this number can attach.
pub(crate) fn csi_node(number: usize, limit: usize) -> Change {
    let driver = json!({ "name": DRIVER, "allocatable": { "count": limit } });
    let node = json!({ "spec": { "drivers": [driver] } });
    object(EventResource::CsiNode, "", &support::node_name(number), node)
}
