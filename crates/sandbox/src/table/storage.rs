//! Columns of volumes, their claims and classes, and CSI drivers.

use framework::storage::default_class::is_default;
use serde_json::Value;

use super::columns::{AGE, Column, NAME, text_or};
use crate::object::{entries, text};

const UNSET: &str = "<unset>";

/// The columns of PersistentVolumes.
pub(super) const VOLUME: &[Column] = &[
    NAME,
    Column::text("Capacity", "Size of the volume.", |volume, _| {
        text(volume, "/spec/capacity/storage").into()
    }),
    Column::text("Access Modes", "How the volume can be mounted.", |volume, _| {
        access_modes(volume, "/spec/accessModes").into()
    }),
    Column::text("Reclaim Policy", "What becomes of it when it is released.", |volume, _| {
        text(volume, "/spec/persistentVolumeReclaimPolicy").into()
    }),
    Column::text("Status", "Phase of the volume.", |volume, _| status(volume).into()),
    Column::text("Claim", "The claim it is bound to.", |volume, _| claim_of(volume).into()),
    Column::text("StorageClass", "Class of the volume.", |volume, _| {
        text(volume, "/spec/storageClassName").into()
    }),
    Column::text("VolumeAttributesClass", "Class of its attributes.", |volume, _| {
        text_or(volume, "/spec/volumeAttributesClassName", UNSET).into()
    }),
    Column::text("Reason", "Why it is in its phase.", |volume, _| {
        text(volume, "/status/reason").into()
    }),
    AGE,
    VOLUME_MODE,
];

/// The columns of PersistentVolumeClaims.
pub(super) const CLAIM: &[Column] = &[
    NAME,
    Column::text("Status", "Phase of the claim.", |claim, _| status(claim).into()),
    Column::text("Volume", "The volume it is bound to.", |claim, _| {
        text(claim, "/spec/volumeName").into()
    }),
    Column::text("Capacity", "Size of the volume.", |claim, _| {
        text(claim, "/status/capacity/storage").into()
    }),
    Column::text("Access Modes", "How the volume can be mounted.", |claim, _| {
        access_modes(claim, "/status/accessModes").into()
    }),
    Column::text("StorageClass", "Class that is asked for.", |claim, _| {
        text(claim, "/spec/storageClassName").into()
    }),
    Column::text("VolumeAttributesClass", "Class of attributes that is asked for.", |claim, _| {
        text_or(claim, "/spec/volumeAttributesClassName", UNSET).into()
    }),
    AGE,
    VOLUME_MODE,
];

const VOLUME_MODE: Column =
    Column::text("VolumeMode", "Whether it is a file system or a block device.", |object, _| {
        text_or(object, "/spec/volumeMode", UNSET).into()
    })
    .wide();

/// The columns of StorageClasses.
pub(super) const CLASS: &[Column] = &[
    NAME.showing(|class, _| {
        let name = text(class, "/metadata/name");
        format!("{name}{}", if is_default(class) { " (default)" } else { "" }).into()
    }),
    Column::text("Provisioner", "Who makes its volumes.", |class, _| {
        text(class, "/provisioner").into()
    }),
    Column::text("ReclaimPolicy", "What becomes of released volumes.", |class, _| {
        text_or(class, "/reclaimPolicy", "Delete").into()
    }),
    Column::text("VolumeBindingMode", "When claims are bound.", |class, _| {
        text_or(class, "/volumeBindingMode", "Immediate").into()
    }),
    Column::boolean("AllowVolumeExpansion", "Whether volumes may grow.", |class, _| {
        (class["allowVolumeExpansion"] == true).into()
    }),
    AGE,
];

/// The columns of CSIDrivers.
pub(super) const CSI_DRIVER: &[Column] = &[
    NAME,
    Column::boolean("AttachRequired", "Whether volumes are attached to nodes.", |driver, _| {
        driver["spec"]["attachRequired"].clone()
    }),
    Column::boolean("PodInfoOnMount", "Whether it is told of pods.", |driver, _| {
        driver["spec"]["podInfoOnMount"].clone()
    }),
    Column::boolean("StorageCapacity", "Whether it says where there is room.", |driver, _| {
        driver["spec"]["storageCapacity"].clone()
    }),
    Column::text("Modes", "What kinds of volumes it makes.", |driver, _| {
        let modes = entries(driver, "/spec/volumeLifecycleModes").filter_map(Value::as_str);
        modes.collect::<Vec<_>>().join(",").into()
    }),
    AGE,
];

/// The columns of CSINodes.
pub(super) const CSI_NODE: &[Column] = &[
    NAME,
    Column::integer("Drivers", "Number of drivers on the node.", |node, _| {
        entries(node, "/spec/drivers").count().into()
    }),
    AGE,
];

/// The columns of CSIStorageCapacities.
pub(super) const CSI_STORAGE_CAPACITY: &[Column] = &[
    NAME,
    Column::text("StorageClass", "Class whose volumes have room.", |capacity, _| {
        text(capacity, "/storageClassName").into()
    }),
    Column::text("Capacity", "How much room there is.", |capacity, _| {
        text(capacity, "/capacity").into()
    }),
    AGE,
];

/// The columns of VolumeAttachments.
pub(super) const VOLUME_ATTACHMENT: &[Column] = &[
    NAME,
    Column::text("Attacher", "The driver that attaches it.", |attachment, _| {
        text(attachment, "/spec/attacher").into()
    }),
    Column::text("PV", "The volume.", |attachment, _| {
        text(attachment, "/spec/source/persistentVolumeName").into()
    }),
    Column::text("Node", "The node it is attached to.", |attachment, _| {
        text(attachment, "/spec/nodeName").into()
    }),
    Column::boolean("Attached", "Whether it is attached.", |attachment, _| {
        (attachment["status"]["attached"] == true).into()
    }),
    AGE,
];

fn status(object: &Value) -> &str {
    let is_terminating = crate::object::is_terminating(object);
    if is_terminating { "Terminating" } else { text(object, "/status/phase") }
}

fn claim_of(volume: &Value) -> String {
    let claim = &volume["spec"]["claimRef"];
    match (text(claim, "/namespace"), text(claim, "/name")) {
        ("", "") => String::new(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

fn access_modes(object: &Value, pointer: &str) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => "RWO",
        Some("ReadOnlyMany") => "ROX",
        Some("ReadWriteMany") => "RWX",
        Some("ReadWriteOncePod") => "RWOP",
        _ => "?",
    };
    entries(object, pointer).map(short).collect::<Vec<_>>().join(",")
}
