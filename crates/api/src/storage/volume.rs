//! PersistentVolumes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::claim::access_modes;
use super::{
    AccessMode, BOUND_BY_CONTROLLER, PersistentVolumeClaim, StorageSize, VolumeMode, class_name,
    identified,
};
use crate::{Labels, NodeSelector, Uid, api};

/// The claim that a volume is bound to, or should be bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRef {
    /// Namespace of the claim.
    pub namespace: Arc<str>,
    /// Name of the claim.
    pub name: Arc<str>,
    /// UID of the claim; `None` for a reservation by name only.
    pub uid: Option<Uid>,
}

impl ClaimRef {
    /// Returns whether the reference refers to `claim`: same namespace and name, and same UID if
    /// set.
    pub fn refers_to(&self, claim: &PersistentVolumeClaim) -> bool {
        self.namespace == claim.namespace
            && self.name == claim.name
            && self.uid.as_ref().is_none_or(|uid| *uid == claim.uid)
    }
}

/// A volume plugin that is, or was, part of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the plugins of these names")]
pub enum InTreePlugin {
    AwsElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GcePersistentDisk,
    Iscsi,
    Portworx,
    Rbd,
    Vsphere,
}

/// A volume of an in-tree plugin: what decides where it can be used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InTreeVolume {
    /// The plugin.
    pub plugin: InTreePlugin,
    /// The disk in the words of the plugin: `volumeID`, `diskURI`, `pdName`, `iqn` or `image`.
    /// Empty for plugins whose disks are not told apart.
    pub disk: Arc<str>,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Pool of an RBD image.
    pub pool: Arc<str>,
    /// Monitors of an RBD image.
    pub monitors: Box<[Arc<str>]>,
}

impl InTreeVolume {
    fn new(plugin: InTreePlugin, disk: &str, read_only: bool) -> Self {
        let (pool, monitors) = (Arc::default(), Box::default());
        Self { plugin, disk: disk.into(), read_only, pool, monitors }
    }

    /// Returns the inline volume of a pod, if it is one.
    pub(crate) fn of_pod(volume: &api::Volume) -> Option<Self> {
        let unread = |plugin, source: &Option<api::Unread>| {
            source.as_ref().map(|_| Self::new(plugin, "", false))
        };
        let first = volume.aws_elastic_block_store.as_ref().map(Self::from);
        first
            .or_else(|| volume.azure_disk.as_ref().map(Self::from))
            .or_else(|| unread(InTreePlugin::AzureFile, &volume.azure_file))
            .or_else(|| volume.cinder.as_ref().map(Self::from))
            .or_else(|| volume.gce_persistent_disk.as_ref().map(Self::from))
            .or_else(|| volume.iscsi.as_ref().map(Self::from))
            .or_else(|| volume.portworx_volume.as_ref().map(Self::from))
            .or_else(|| volume.rbd.as_ref().map(Self::from))
            .or_else(|| unread(InTreePlugin::Vsphere, &volume.vsphere_volume))
    }

    /// Returns the source of a PersistentVolume, if a CSI driver replaces its plugin.
    fn of_persistent_volume(spec: &api::PersistentVolumeSpec) -> Option<Self> {
        let first = spec.aws_elastic_block_store.as_ref().map(Self::from);
        first
            .or_else(|| spec.azure_disk.as_ref().map(Self::from))
            .or_else(|| spec.cinder.as_ref().map(Self::from))
            .or_else(|| spec.gce_persistent_disk.as_ref().map(Self::from))
            .or_else(|| spec.portworx_volume.as_ref().map(Self::from))
    }
}

impl From<&api::AwsElasticBlockStoreVolumeSource> for InTreeVolume {
    fn from(source: &api::AwsElasticBlockStoreVolumeSource) -> Self {
        Self::new(InTreePlugin::AwsElasticBlockStore, &source.volume_id, source.read_only)
    }
}

impl From<&api::AzureDiskVolumeSource> for InTreeVolume {
    fn from(source: &api::AzureDiskVolumeSource) -> Self {
        Self::new(InTreePlugin::AzureDisk, &source.disk_uri, source.read_only)
    }
}

impl From<&api::CinderVolumeSource> for InTreeVolume {
    fn from(source: &api::CinderVolumeSource) -> Self {
        Self::new(InTreePlugin::Cinder, &source.volume_id, source.read_only)
    }
}

impl From<&api::GcePersistentDiskVolumeSource> for InTreeVolume {
    fn from(source: &api::GcePersistentDiskVolumeSource) -> Self {
        Self::new(InTreePlugin::GcePersistentDisk, &source.pd_name, source.read_only)
    }
}

impl From<&api::IscsiVolumeSource> for InTreeVolume {
    fn from(source: &api::IscsiVolumeSource) -> Self {
        Self::new(InTreePlugin::Iscsi, &source.iqn, source.read_only)
    }
}

impl From<&api::PortworxVolumeSource> for InTreeVolume {
    fn from(source: &api::PortworxVolumeSource) -> Self {
        Self::new(InTreePlugin::Portworx, &source.volume_id, source.read_only)
    }
}

impl From<&api::RbdVolumeSource> for InTreeVolume {
    fn from(source: &api::RbdVolumeSource) -> Self {
        Self {
            pool: source.pool.as_str().into(),
            monitors: source.monitors.iter().map(|name| name.as_str().into()).collect(),
            ..Self::new(InTreePlugin::Rbd, &source.image, source.read_only)
        }
    }
}

/// The storage behind a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// A volume of a CSI driver.
    Csi {
        /// Name of the driver.
        driver: Arc<str>,
        /// The volume handle of the driver.
        handle: Arc<str>,
    },
    /// A volume of an in-tree plugin that a CSI driver replaces.
    InTree(Arc<InTreeVolume>),
    /// Any other source.
    Other,
}

impl VolumeSource {
    fn of(spec: &api::PersistentVolumeSpec) -> Self {
        if let Some(api::CsiPersistentVolumeSource { driver, volume_handle }) = &spec.csi {
            return Self::Csi {
                driver: driver.as_str().into(),
                handle: volume_handle.as_str().into(),
            };
        }
        let in_tree = InTreeVolume::of_persistent_volume(spec);
        in_tree.map_or(Self::Other, |volume| Self::InTree(Arc::new(volume)))
    }
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Uid,
    /// Version of the object.
    pub resource_version: Arc<str>,
    /// Labels.
    pub labels: Labels,
    /// Whether the volume is being deleted.
    pub terminating: bool,
    /// Whether the volume is ready to be bound (phase `Available`).
    pub available: bool,
    /// The claim that the volume is bound to, or should be bound to.
    pub claim_ref: Option<ClaimRef>,
    /// Whether the volume has the annotation [`BOUND_BY_CONTROLLER`], with any value.
    pub bound_by_controller: bool,
    /// The StorageClass; empty for none.
    pub class: Arc<str>,
    /// The capacity; zero if absent or unreadable.
    pub capacity: StorageSize,
    /// The supported access modes.
    pub access_modes: Box<[AccessMode]>,
    /// File system or block device.
    pub volume_mode: VolumeMode,
    /// The VolumeAttributesClass; empty if absent.
    pub attributes_class: Arc<str>,
    /// The nodes that can use the volume; `None` for all nodes. Uncompiled, because the affinity of
    /// in-tree volumes is translated.
    pub node_affinity: Option<Arc<api::NodeSelector>>,
    /// The compiled `node_affinity`.
    pub node_selector: Option<Arc<NodeSelector>>,
    /// The storage behind the volume.
    pub source: VolumeSource,
}

impl PersistentVolume {
    /// Converts the API object.
    pub fn from_api(volume: &api::PersistentVolume) -> Self {
        let api::PersistentVolume { metadata, spec, status } = volume;
        let affinity = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let claim_ref = spec.claim_ref.as_ref().map(|claim| ClaimRef {
            namespace: claim.namespace.as_str().into(),
            name: claim.name.as_str().into(),
            uid: identified(&claim.uid),
        });
        let attributes_class = spec.volume_attributes_class_name.as_deref();
        Self {
            name: metadata.name.as_str().into(),
            uid: metadata.uid.as_str().into(),
            resource_version: metadata.resource_version.as_str().into(),
            labels: Labels::from(&metadata.labels),
            terminating: metadata.deletion_timestamp.is_some(),
            available: status.phase == "Available",
            claim_ref,
            bound_by_controller: metadata.annotations.contains_key(BOUND_BY_CONTROLLER),
            class: class_name(&metadata.annotations, Some(&spec.storage_class_name)),
            capacity: StorageSize::of_list(&spec.capacity).ok().flatten().unwrap_or_default(),
            access_modes: access_modes(&spec.access_modes),
            volume_mode: VolumeMode::of(spec.volume_mode.as_deref()),
            attributes_class: attributes_class.unwrap_or_default().into(),
            node_affinity: affinity.cloned().map(Arc::new),
            node_selector: affinity.map(NodeSelector::compile).map(Arc::new),
            source: VolumeSource::of(spec),
        }
    }

    /// Returns whether a claim may bind the volume: it is available and has no claim.
    pub const fn is_free(&self) -> bool {
        self.claim_ref.is_none() && self.available && !self.terminating
    }

    /// Returns whether the volume satisfies `claim` in size, mode, access modes and
    /// VolumeAttributesClass. Does not compare class, labels or `claim_ref`.
    pub fn suits(&self, claim: &PersistentVolumeClaim) -> bool {
        claim.request.is_none_or(|request| self.capacity >= request)
            && self.volume_mode == claim.volume_mode
            && self.attributes_class == claim.attributes_class
            && claim.access_modes.iter().all(|mode| self.access_modes.contains(mode))
    }

    /// Returns whether the selector of `claim` matches the volume.
    pub fn is_selected_by(&self, claim: &PersistentVolumeClaim) -> bool {
        claim.selector.as_ref().is_none_or(|selector| {
            selector.as_ref().is_ok_and(|selector| selector.matches(&self.labels))
        })
    }

    /// Returns whether the volume is bound to `claim` or reserved for it.
    pub fn is_for(&self, claim: &PersistentVolumeClaim) -> bool {
        self.claim_ref.as_ref().is_some_and(|reference| reference.refers_to(claim))
    }
}
