//! Volumes of pods as CSI drivers count them.

use std::sync::Arc;

use super::Cluster;
use crate::storage::csi_translation::{MigratableVolume, Migration, TranslationError};
use crate::storage::{PersistentVolume, PersistentVolumeClaim, VolumeAttachment, VolumeSource};
use crate::{Pod, PodVolume, PodVolumeSource};

/// A volume by what its driver calls it, or will call it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CsiVolume {
    /// A volume that exists.
    Existing {
        /// Name of the driver.
        driver: Arc<str>,
        /// Name of the volume to the driver.
        handle: Arc<str>,
    },
    /// The volume that is to be made for a claim.
    ToBeMade {
        /// The class, whose provisioner makes it.
        class: Arc<str>,
        /// Namespace of the claim.
        namespace: Arc<str>,
        /// Name of the claim.
        claim: Arc<str>,
    },
}

/// Why a volume of a pod cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UncountableVolume {
    /// It is a claim without a name.
    NamelessClaim,
    /// Its claim, of this name, is not there.
    MissingClaim(String),
    /// Its claim was to be made for the pod, but was made for something else.
    ClaimOfAnother(Arc<PersistentVolumeClaim>),
    /// The driver that has replaced its in-tree plugin cannot make sense of it.
    Untranslatable(TranslationError),
}

impl CsiVolume {
    /// `None` for what the driver cannot know.
    fn existing(driver: &Arc<str>, handle: &Arc<str>) -> Option<Self> {
        let is_known = !handle.is_empty();
        is_known.then(|| Self::Existing { driver: driver.clone(), handle: handle.clone() })
    }

    /// A volume of an in-tree plugin. Whether the CSINode lists the plugin is not asked, as in
    /// Kubernetes.
    fn migrated(migration: &Migration, handle: &str) -> Option<Self> {
        Self::existing(&migration.driver.into(), &handle.into())
    }

    fn of_persistent_volume(volume: &PersistentVolume) -> Option<Self> {
        if let VolumeSource::Csi { driver, handle } = &volume.source {
            return Self::existing(driver, handle);
        }
        let volume = MigratableVolume::of(volume)?;
        Self::migrated(volume.migration, &volume.handle().ok()?)
    }

    fn to_be_made_for(claim: &PersistentVolumeClaim) -> Self {
        let PersistentVolumeClaim { class, namespace, name, .. } = claim;
        Self::ToBeMade { class: class.clone(), namespace: namespace.clone(), claim: name.clone() }
    }
}

/// Volumes as CSI drivers count them.
impl Cluster {
    /// A volume of a pod that is, or is to be, on a node with a CSINode; `None` for one that no
    /// driver attaches.
    ///
    /// # Errors
    /// It cannot be counted.
    pub fn csi_volume(
        &self,
        pod: &Pod,
        volume: &PodVolume,
    ) -> Result<Option<CsiVolume>, UncountableVolume> {
        if let PodVolumeSource::InTree(plugin, source) = &volume.source {
            let migration = Migration::of_plugin(*plugin).filter(|own| own.is_on);
            let Some(migration) = migration else { return Ok(None) };
            let handle =
                migration.inline_handle(source).map_err(UncountableVolume::Untranslatable)?;
            return Ok(CsiVolume::migrated(migration, &handle));
        }
        let Some(name) = volume.claim_name(&pod.key.name) else { return Ok(None) };
        if name.is_empty() {
            return Err(UncountableVolume::NamelessClaim);
        }
        let claim = self
            .claim(&pod.key.namespace, &name)
            .ok_or_else(|| UncountableVolume::MissingClaim(name.into_owned()))?;
        if volume.source == PodVolumeSource::Ephemeral && !claim.is_made_for(pod) {
            return Err(UncountableVolume::ClaimOfAnother(claim.clone()));
        }
        Ok(self.csi_volume_of_claim(claim))
    }

    /// The volumes of a pod that count on its node. What cannot be counted does not; in 1.36 it
    /// fails every attempt that looks at the node.
    pub fn counted_volumes<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = CsiVolume> + 'a {
        let volumes = pod.spec.volumes.iter();
        volumes.filter_map(|volume| self.csi_volume(pod, volume).ok().flatten())
    }

    fn csi_volume_of_claim(&self, claim: &PersistentVolumeClaim) -> Option<CsiVolume> {
        match claim.volume_name.as_ref().and_then(|name| self.volume(name)) {
            Some(volume) => CsiVolume::of_persistent_volume(volume),
            None => Some(CsiVolume::to_be_made_for(claim)),
        }
    }

    /// The volume that an attachment names. Volumes of in-tree plugins are not known by it.
    pub fn attached_volume(&self, attachment: &VolumeAttachment) -> Option<CsiVolume> {
        let volume = self.volume(attachment.volume_name.as_ref()?)?;
        let VolumeSource::Csi { handle, .. } = &volume.source else { return None };
        let driver = attachment.attacher.clone();
        Some(CsiVolume::Existing { driver, handle: handle.clone() })
    }

    /// The driver that attaches a volume; `None` where it is not known.
    pub fn driver_of<'a>(&'a self, volume: &'a CsiVolume) -> Option<&'a str> {
        match volume {
            CsiVolume::Existing { driver, .. } => Some(driver),
            CsiVolume::ToBeMade { class, .. } => self.driver_of_class(class),
        }
    }

    /// The driver that attaches the volumes made for a class. A provisioner that is no driver
    /// counts as one: it has no limits.
    pub(super) fn driver_of_class(&self, class: &str) -> Option<&str> {
        let provisioner = &*self.storage_class(class)?.provisioner;
        match Migration::of_provisioner(provisioner) {
            Some(migration) => Some(migration.driver).filter(|_| migration.is_on),
            None => Some(provisioner),
        }
    }
}
