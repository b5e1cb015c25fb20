//! Defaults of volumes and claims.

use serde_json::json;

use super::fill::{Object, default, defaults, ensure, get};

/// Sets the defaults of PersistentVolumes.
pub(super) fn volume(object: &mut Object) {
    if let Some(spec) = ensure(object, "spec") {
        defaults(
            spec,
            [
                ("persistentVolumeReclaimPolicy", "Retain".into()),
                ("volumeMode", "Filesystem".into()),
            ],
        );
        if let Some(host_path) = get(spec, "hostPath") {
            default(host_path, "type", "");
        }
    }
    if let Some(status) = ensure(object, "status") {
        default(status, "phase", "Pending");
    }
}

/// Sets the defaults of PersistentVolumeClaims, also in a StatefulSet.
pub(super) fn claim(object: &mut Object) {
    ensure(object, "spec").into_iter().for_each(claim_spec);
    if let Some(status) = ensure(object, "status") {
        default(status, "phase", "Pending");
    }
}

/// Sets the defaults of the spec of a claim.
pub(super) fn claim_spec(spec: &mut Object) {
    defaults(spec, [("resources", json!({})), ("volumeMode", "Filesystem".into())]);
}

/// Sets the defaults of StorageClasses.
pub(super) fn class(object: &mut Object) {
    defaults(
        object,
        [("reclaimPolicy", "Delete".into()), ("volumeBindingMode", "Immediate".into())],
    );
}

/// Sets the defaults of CSIDrivers.
pub(super) fn csi_driver(object: &mut Object) {
    if let Some(spec) = ensure(object, "spec") {
        defaults(
            spec,
            [
                ("attachRequired", true.into()),
                ("podInfoOnMount", false.into()),
                ("storageCapacity", false.into()),
                ("requiresRepublish", false.into()),
                ("seLinuxMount", false.into()),
                ("fsGroupPolicy", "ReadWriteOnceWithFSType".into()),
                ("volumeLifecycleModes", json!(["Persistent"])),
            ],
        );
    }
}
