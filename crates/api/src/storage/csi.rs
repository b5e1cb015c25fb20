//! Storage objects of CSI drivers: nodes, drivers, capacities and attachments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{MIGRATED_PLUGINS, StorageSize};
use crate::{LabelSelector, SelectorError, api};

/// A CSINode: the drivers of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// Drivers of the node, with the number of volumes each can attach; `None` means no limit.
    pub drivers: BTreeMap<Arc<str>, Option<i64>>,
    /// In-tree plugins that CSI drivers of the node replace.
    pub migrated_plugins: BTreeSet<Arc<str>>,
}

impl CsiNode {
    /// Converts the API object.
    pub fn from_api(node: &api::CsiNode) -> Self {
        let limit = |driver: &api::CsiNodeDriver| driver.allocatable.as_ref()?.count.map(i64::from);
        let drivers = node.spec.drivers.iter();
        let migrated = node.metadata.annotations.get(MIGRATED_PLUGINS);
        Self {
            drivers: drivers.map(|driver| (driver.name.as_str().into(), limit(driver))).collect(),
            migrated_plugins: migrated
                .map(|list| list.split(',').map(Into::into).collect())
                .unwrap_or_default(),
        }
    }
}

/// A CSIDriver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CsiDriver {
    /// Whether the driver reports its capacity in [`CsiStorageCapacity`] objects.
    pub storage_capacity: bool,
    /// Whether a node without the driver takes no pod with its volumes, if the gate
    /// VolumeLimitScaling is on.
    pub prevent_pod_scheduling_if_missing: bool,
}

impl CsiDriver {
    /// Converts the API object.
    pub fn from_api(driver: &api::CsiDriver) -> Self {
        let spec = &driver.spec;
        Self {
            storage_capacity: spec.storage_capacity.unwrap_or_default(),
            prevent_pod_scheduling_if_missing: spec
                .prevent_pod_scheduling_if_missing
                .unwrap_or_default(),
        }
    }
}

/// A CSIStorageCapacity: the capacity for volumes of a class in a part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiStorageCapacity {
    /// The StorageClass.
    pub class: Arc<str>,
    /// Remaining capacity, if known.
    pub capacity: Option<StorageSize>,
    /// The maximum size of a volume: `maximumVolumeSize`, or else the capacity. `None` if that
    /// value is absent or cannot be read.
    pub limit: Option<StorageSize>,
    /// The nodes that can use the capacity; `None` for no node.
    pub node_topology: Option<Result<LabelSelector, SelectorError>>,
}

impl CsiStorageCapacity {
    /// Converts the API object.
    pub fn from_api(capacity: &api::CsiStorageCapacity) -> Self {
        let read = |text: &Option<api::QuantityText>| {
            text.as_ref().map(StorageSize::read).transpose().ok()
        };
        let (room, largest) = (read(&capacity.capacity), read(&capacity.maximum_volume_size));
        let topology = capacity.node_topology.as_ref();
        Self {
            class: capacity.storage_class_name.as_str().into(),
            capacity: room.flatten(),
            limit: room.zip(largest).and_then(|(room, largest)| largest.or(room)),
            node_topology: topology.map(|topology| LabelSelector::compile(Some(topology))),
        }
    }
}

/// A VolumeAttachment: a volume attached to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// The CSI driver.
    pub attacher: Arc<str>,
    /// The node.
    pub node_name: Arc<str>,
    /// The PersistentVolume; `None` for an inline volume.
    pub volume_name: Option<Arc<str>>,
}

impl VolumeAttachment {
    /// Converts the API object.
    pub fn from_api(attachment: &api::VolumeAttachment) -> Self {
        let api::VolumeAttachmentSpec { attacher, node_name, source } = &attachment.spec;
        Self {
            attacher: attacher.as_str().into(),
            node_name: node_name.as_str().into(),
            volume_name: source.persistent_volume_name.as_deref().map(Into::into),
        }
    }
}
