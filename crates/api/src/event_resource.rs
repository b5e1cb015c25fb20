//! The kinds of objects that the scheduler watches.

use std::sync::Arc;

use kinds::Kind;
use serde::{Deserialize, Serialize};

/// The kind of object an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EventResource {
    /// Any pod; registered by plugins, matches the two below.
    Pod,
    /// A pod with a node; incoming events only.
    AssignedPod,
    /// A pod without a node; incoming events only.
    UnschedulablePod,
    /// A node.
    Node,
    /// A persistent volume.
    PersistentVolume,
    /// A claim on a persistent volume.
    PersistentVolumeClaim,
    /// A CSINode.
    CsiNode,
    /// A CSIDriver.
    CsiDriver,
    /// A VolumeAttachment.
    VolumeAttachment,
    /// A CSIStorageCapacity.
    CsiStorageCapacity,
    /// A StorageClass.
    StorageClass,
    /// A ResourceClaim.
    ResourceClaim,
    /// A ResourceSlice.
    ResourceSlice,
    /// A DeviceClass.
    DeviceClass,
    /// A PodGroup.
    PodGroup,
    /// A Namespace.
    Namespace,
    /// A Service.
    Service,
    /// A ReplicationController.
    ReplicationController,
    /// A ReplicaSet.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
    /// A PodDisruptionBudget.
    PodDisruptionBudget,
    /// A custom kind that a plugin watches, as `<plural>.<version>.<group>`.
    Custom(Arc<str>),
    /// Every kind.
    Any,
}

impl EventResource {
    /// The kinds of Kubernetes that a scheduler may watch. Nodes come first, so that pods find
    /// their nodes.
    pub const BUILT_IN: [Self; 19] = [
        Self::Node,
        Self::Pod,
        Self::Namespace,
        Self::Service,
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::PodDisruptionBudget,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::CsiNode,
        Self::CsiDriver,
        Self::VolumeAttachment,
        Self::CsiStorageCapacity,
        Self::StorageClass,
        Self::ResourceClaim,
        Self::ResourceSlice,
        Self::DeviceClass,
        Self::PodGroup,
    ];

    /// Returns the kind of the objects, if it is one kind of Kubernetes.
    pub const fn kind(&self) -> Option<&'static Kind> {
        Some(match self {
            Self::Node => kinds::NODE,
            Self::Pod => kinds::POD,
            Self::Namespace => kinds::NAMESPACE,
            Self::Service => kinds::SERVICE,
            Self::ReplicationController => kinds::REPLICATION_CONTROLLER,
            Self::ReplicaSet => kinds::REPLICA_SET,
            Self::StatefulSet => kinds::STATEFUL_SET,
            Self::PodDisruptionBudget => kinds::POD_DISRUPTION_BUDGET,
            Self::PersistentVolume => kinds::PERSISTENT_VOLUME,
            Self::PersistentVolumeClaim => kinds::PERSISTENT_VOLUME_CLAIM,
            Self::CsiNode => kinds::CSI_NODE,
            Self::CsiDriver => kinds::CSI_DRIVER,
            Self::VolumeAttachment => kinds::VOLUME_ATTACHMENT,
            Self::CsiStorageCapacity => kinds::CSI_STORAGE_CAPACITY,
            Self::StorageClass => kinds::STORAGE_CLASS,
            Self::ResourceClaim => kinds::RESOURCE_CLAIM,
            Self::ResourceSlice => kinds::RESOURCE_SLICE,
            Self::DeviceClass => kinds::DEVICE_CLASS,
            Self::PodGroup => kinds::POD_GROUP,
            Self::AssignedPod | Self::UnschedulablePod | Self::Custom(_) | Self::Any => {
                return None;
            }
        })
    }

    /// Returns the name of the resource in event labels of Kubernetes.
    pub fn name(&self) -> &str {
        match self {
            Self::AssignedPod => "AssignedPod",
            Self::UnschedulablePod => "UnschedulablePod",
            Self::Custom(name) => name,
            _ => self.kind().map_or("*", |kind| kind.qualified),
        }
    }

    /// Returns whether an event of this resource is one of `incoming`.
    pub fn covers(&self, incoming: &Self) -> bool {
        match self {
            Self::Any => true,
            Self::Pod => matches!(incoming, Self::Pod | Self::AssignedPod | Self::UnschedulablePod),
            _ => self == incoming,
        }
    }
}
