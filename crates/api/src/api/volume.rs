//! The volumes of a pod, as far as they affect placement or a move.

use serde::{Deserialize, Serialize};

use super::or_default;
use crate::protobuf::{Content, FieldValue, Fields, Malformed, Message};

api! {
    /// A volume; only the fields that affect placement or a move.
    struct Volume {
        /// Volume name.
        name: String,
        /// Reference to a claim.
        persistent_volume_claim: Option<ClaimVolumeSource>,
        /// The template of a claim that the ephemeral volume controller creates.
        ephemeral: Option<Unread>,
        /// An image mounted as a volume.
        image: Option<ImageVolumeSource>,
        /// An inline CSI volume.
        csi: Option<CsiVolumeSource>,
        /// A directory of the pod, on the disk of its node or in memory.
        empty_dir: Option<EmptyDirVolumeSource>,
        /// A path of the node.
        host_path: Option<Unread>,
        /// In-tree disk.
        aws_elastic_block_store: Option<AwsElasticBlockStoreVolumeSource>,
        /// In-tree disk.
        azure_disk: Option<AzureDiskVolumeSource>,
        /// In-tree file share.
        azure_file: Option<Unread>,
        /// In-tree disk.
        cinder: Option<CinderVolumeSource>,
        /// In-tree disk.
        gce_persistent_disk: Option<GcePersistentDiskVolumeSource>,
        /// In-tree disk.
        iscsi: Option<IscsiVolumeSource>,
        /// In-tree volume.
        portworx_volume: Option<PortworxVolumeSource>,
        /// In-tree disk.
        rbd: Option<RbdVolumeSource>,
        /// In-tree disk.
        vsphere_volume: Option<Unread>,
    }

    /// A source of which only the presence counts.
    struct Unread {}
}

impl Message for Unread {
    fn merge(&mut self, _: u64, _: Content<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

impl Message for Volume {
    /// The source (2) is a message of its own, whose fields JSON has beside the name.
    fn merge(&mut self, number: u64, content: Content<'_>) -> Result<(), Malformed> {
        match number {
            1 => self.name.merge(content),
            2 => Fields::of(content.delimited()?).try_for_each(|field| {
                let (number, content) = field?;
                self.merge_source(number, content)
            }),
            _ => Ok(()),
        }
    }
}

impl Volume {
    fn merge_source(&mut self, number: u64, content: Content<'_>) -> Result<(), Malformed> {
        match number {
            1 => self.host_path.merge(content),
            2 => self.empty_dir.merge(content),
            3 => self.gce_persistent_disk.merge(content),
            4 => self.aws_elastic_block_store.merge(content),
            8 => self.iscsi.merge(content),
            10 => self.persistent_volume_claim.merge(content),
            11 => self.rbd.merge(content),
            13 => self.cinder.merge(content),
            18 => self.azure_file.merge(content),
            20 => self.vsphere_volume.merge(content),
            22 => self.azure_disk.merge(content),
            24 => self.portworx_volume.merge(content),
            28 => self.csi.merge(content),
            29 => self.ephemeral.merge(content),
            30 => self.image.merge(content),
            _ => Ok(()),
        }
    }
}

messages! {
    /// Reference to a claim in the namespace of the pod.
    struct ClaimVolumeSource {
        /// Claim name.
        claim_name: String = 1,
    }

    /// Reference to an image.
    struct ImageVolumeSource {
        /// Image reference.
        reference: String = 1,
    }

    /// A directory that begins empty and ends with its pod.
    struct EmptyDirVolumeSource {
        /// `Memory`, or empty for the disk of the node.
        medium: String = 1,
    }

    /// An inline volume of a CSI driver.
    struct CsiVolumeSource {
        /// Name of the driver.
        driver: String = 1,
    }

    /// A volume of AWS Elastic Block Store.
    struct AwsElasticBlockStoreVolumeSource {
        /// ID of the volume.
        #[serde(rename = "volumeID")]
        volume_id: String = 1,
        /// Whether it is mounted read-only.
        read_only: bool = 4,
    }

    /// An Azure data disk.
    struct AzureDiskVolumeSource {
        /// URI of the disk.
        #[serde(rename = "diskURI")]
        disk_uri: String = 2,
        /// Whether it is mounted read-only.
        read_only: bool = 5,
    }

    /// A volume of OpenStack Cinder.
    struct CinderVolumeSource {
        /// ID of the volume.
        #[serde(rename = "volumeID")]
        volume_id: String = 1,
        /// Whether it is mounted read-only.
        read_only: bool = 3,
    }

    /// A GCE persistent disk.
    struct GcePersistentDiskVolumeSource {
        /// Name of the disk.
        pd_name: String = 1,
        /// Whether it is mounted read-only.
        read_only: bool = 4,
    }

    /// An iSCSI disk.
    struct IscsiVolumeSource {
        /// Qualified name of the target.
        iqn: String = 2,
        /// Whether it is mounted read-only.
        read_only: bool = 6,
    }

    /// A Portworx volume.
    struct PortworxVolumeSource {
        /// ID of the volume.
        #[serde(rename = "volumeID")]
        volume_id: String = 1,
        /// Whether it is mounted read-only.
        read_only: bool = 3,
    }

    /// A Rados block device.
    struct RbdVolumeSource {
        /// Ceph monitors.
        monitors: Vec<String> = 1,
        /// Name of the image.
        image: String = 2,
        /// Pool of the image.
        pool: String = 4,
        /// Whether it is mounted read-only.
        read_only: bool = 8,
    }
}
