//! The kinds of objects that the scheduler watches.

use std::sync::Arc;

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
    /// Returns the name of the resource in event labels of Kubernetes.
    pub fn name(&self) -> &str {
        match self {
            Self::Pod => "Pod",
            Self::AssignedPod => "AssignedPod",
            Self::UnschedulablePod => "UnschedulablePod",
            Self::Node => "Node",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::CsiNode => "storage.k8s.io/CSINode",
            Self::CsiDriver => "storage.k8s.io/CSIDriver",
            Self::VolumeAttachment => "storage.k8s.io/VolumeAttachment",
            Self::CsiStorageCapacity => "storage.k8s.io/CSIStorageCapacity",
            Self::StorageClass => "storage.k8s.io/StorageClass",
            Self::ResourceClaim => "resource.k8s.io/ResourceClaim",
            Self::ResourceSlice => "resource.k8s.io/ResourceSlice",
            Self::DeviceClass => "resource.k8s.io/DeviceClass",
            Self::PodGroup => "scheduling.k8s.io/PodGroup",
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::ReplicationController => "ReplicationController",
            Self::ReplicaSet => "apps/ReplicaSet",
            Self::StatefulSet => "apps/StatefulSet",
            Self::PodDisruptionBudget => "policy/PodDisruptionBudget",
            Self::Custom(name) => name,
            Self::Any => "*",
        }
    }

    pub(crate) fn covers(&self, incoming: &Self) -> bool {
        match self {
            Self::Any => true,
            Self::Pod => matches!(incoming, Self::Pod | Self::AssignedPod | Self::UnschedulablePod),
            _ => self == incoming,
        }
    }
}
