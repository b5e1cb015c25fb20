//! Volumes, claims, StorageClasses and the objects of CSI drivers.

use serde::{Deserialize, Serialize};

use super::{
    AwsElasticBlockStoreVolumeSource, AzureDiskVolumeSource, CinderVolumeSource,
    GcePersistentDiskVolumeSource, LabelSelector, NodeSelector, ObjectMeta, PortworxVolumeSource,
    QuantityText, ResourceList, ResourceRequirements, or_default,
};

api! {
    /// A `v1` PersistentVolumeClaim.
    struct PersistentVolumeClaim {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: PersistentVolumeClaimSpec,
        /// Observed state.
        status: PhaseStatus,
    }

    /// `spec` of a PersistentVolumeClaim.
    struct PersistentVolumeClaimSpec {
        /// Required access modes.
        access_modes: Vec<String>,
        /// Required labels of the volume.
        selector: Option<LabelSelector>,
        /// The requested size.
        resources: ResourceRequirements,
        /// The volume that the claim is bound to, or should be bound to.
        volume_name: String,
        /// StorageClass.
        storage_class_name: Option<String>,
        /// `Filesystem` (default) or `Block`.
        volume_mode: Option<String>,
        /// VolumeAttributesClass.
        volume_attributes_class_name: Option<String>,
    }

    /// The `status` of an object; only the phase is read.
    struct PhaseStatus {
        /// Phase.
        phase: String,
    }

    /// A `v1` PersistentVolume.
    struct PersistentVolume {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: PersistentVolumeSpec,
        /// Observed state.
        status: PhaseStatus,
    }

    /// `spec` of a PersistentVolume.
    struct PersistentVolumeSpec {
        /// The capacity.
        capacity: ResourceList,
        /// Supported access modes.
        access_modes: Vec<String>,
        /// The claim that the volume is bound to, or should be bound to.
        claim_ref: Option<ClaimReference>,
        /// StorageClass.
        storage_class_name: String,
        /// `Filesystem` (default) or `Block`.
        volume_mode: Option<String>,
        /// VolumeAttributesClass.
        volume_attributes_class_name: Option<String>,
        /// The nodes that can use the volume.
        node_affinity: Option<VolumeNodeAffinity>,
        /// The CSI source.
        csi: Option<CsiPersistentVolumeSource>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        aws_elastic_block_store: Option<AwsElasticBlockStoreVolumeSource>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        azure_disk: Option<AzureDiskVolumeSource>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        cinder: Option<CinderVolumeSource>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        gce_persistent_disk: Option<GcePersistentDiskVolumeSource>,
        /// Source of an in-tree plugin that a CSI driver replaces.
        portworx_volume: Option<PortworxVolumeSource>,
    }

    /// A reference from a volume to its claim.
    struct ClaimReference {
        /// Namespace of the claim.
        namespace: String,
        /// Name of the claim.
        name: String,
        /// UID of the claim; empty for a reservation by name only.
        uid: String,
    }

    /// The nodes that can use a volume.
    struct VolumeNodeAffinity {
        /// The selector of the nodes.
        required: Option<NodeSelector>,
    }

    /// A volume of a CSI driver.
    struct CsiPersistentVolumeSource {
        /// Name of the driver.
        driver: String,
        /// The volume handle of the driver.
        volume_handle: String,
    }

    /// A `storage.k8s.io/v1` StorageClass.
    struct StorageClass {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// The provisioner of volumes.
        provisioner: String,
        /// `Immediate` or `WaitForFirstConsumer`.
        volume_binding_mode: Option<String>,
        /// The topologies in which volumes may be provisioned.
        allowed_topologies: Vec<crate::TopologySelectorTerm>,
    }

    /// A `storage.k8s.io/v1` CSINode.
    struct CsiNode {
        /// Standard metadata; the name is the name of the node.
        metadata: ObjectMeta,
        /// Desired state.
        spec: CsiNodeSpec,
    }

    /// `spec` of a CSINode.
    struct CsiNodeSpec {
        /// Drivers on the node.
        drivers: Vec<CsiNodeDriver>,
    }

    /// A driver on a node.
    struct CsiNodeDriver {
        /// Name of the driver.
        name: String,
        /// The limits of the driver on the node.
        allocatable: Option<VolumeNodeResources>,
    }

    /// The limits of a driver on a node.
    struct VolumeNodeResources {
        /// Maximum number of attached volumes.
        count: Option<i32>,
    }

    /// A `storage.k8s.io/v1` CSIDriver.
    struct CsiDriver {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: CsiDriverSpec,
    }

    /// `spec` of a CSIDriver.
    struct CsiDriverSpec {
        /// Whether the driver reports its capacity in CSIStorageCapacity objects.
        storage_capacity: Option<bool>,
        /// Whether a node without the driver takes no pod with its volumes.
        #[serde(rename = "preventPodSchedulingIfMissing")]
        prevent_pod_scheduling_if_missing: Option<bool>,
    }

    /// A `storage.k8s.io/v1` CSIStorageCapacity.
    struct CsiStorageCapacity {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// The nodes that can use the capacity.
        node_topology: Option<LabelSelector>,
        /// The StorageClass.
        storage_class_name: String,
        /// Remaining capacity.
        capacity: Option<QuantityText>,
        /// Maximum size of a volume.
        maximum_volume_size: Option<QuantityText>,
    }

    /// A `storage.k8s.io/v1` VolumeAttachment.
    struct VolumeAttachment {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: VolumeAttachmentSpec,
    }

    /// `spec` of a VolumeAttachment.
    struct VolumeAttachmentSpec {
        /// The CSI driver.
        attacher: String,
        /// The node.
        node_name: String,
        /// The volume.
        source: VolumeAttachmentSource,
    }

    /// The volume that is attached.
    struct VolumeAttachmentSource {
        /// Name of the PersistentVolume; absent for an inline volume.
        persistent_volume_name: Option<String>,
    }
}
