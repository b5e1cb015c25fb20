//! Volumes of pods, identified as CSI drivers identify them.

use std::sync::Arc;

use super::Cluster;
use api::storage::csi_translation::{MigratableVolume, Migration, TranslationError};
use api::storage::{PersistentVolume, PersistentVolumeClaim, VolumeAttachment, VolumeSource};
use api::{Pod, PodVolume, PodVolumeSource};

/// The identity of a volume to its CSI driver, existing or still to be provisioned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CsiVolume {
    /// A volume that exists.
    Existing {
        /// Name of the driver.
        driver: Arc<str>,
        /// The volume handle of the driver.
        handle: Arc<str>,
    },
    /// A volume still to be provisioned for a claim.
    Unprovisioned {
        /// The StorageClass, which names the provisioner.
        class: Arc<str>,
        /// Namespace of the claim.
        namespace: Arc<str>,
        /// Name of the claim.
        claim: Arc<str>,
    },
}

/// The reason a volume of a pod cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UncountableVolume {
    /// The volume refers to a claim without a name.
    NamelessClaim,
    /// The claim with this name does not exist.
    MissingClaim(String),
    /// An ephemeral volume whose claim has another owner than the pod.
    ForeignClaim(Arc<PersistentVolumeClaim>),
    /// The CSI driver that replaced the in-tree plugin has no handle for the volume.
    Untranslatable(TranslationError),
}

impl CsiVolume {
    /// Returns the volume, or `None` if the driver or the handle is empty.
    fn existing(driver: &Arc<str>, handle: &Arc<str>) -> Option<Self> {
        let is_known = !handle.is_empty();
        is_known.then(|| Self::Existing { driver: driver.clone(), handle: handle.clone() })
    }

    /// Returns the CSI volume of an in-tree volume. As in Kubernetes, it does not check that the
    /// CSINode lists the plugin.
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

    fn unprovisioned(claim: &PersistentVolumeClaim) -> Self {
        let PersistentVolumeClaim { class, namespace, name, .. } = claim;
        Self::Unprovisioned {
            class: class.clone(),
            namespace: namespace.clone(),
            claim: name.clone(),
        }
    }
}

/// Volumes as CSI drivers count them.
impl Cluster {
    /// Returns the CSI volume of a pod volume on a node with a CSINode; `None` if no driver
    /// attaches it.
    ///
    /// # Errors
    /// The volume cannot be counted.
    pub fn csi_volume(
        &self,
        pod: &Pod,
        volume: &PodVolume,
    ) -> Result<Option<CsiVolume>, UncountableVolume> {
        if let PodVolumeSource::InTree(inline) = &volume.source {
            let migration = Migration::of_plugin(inline.plugin).filter(|own| own.is_on);
            let Some(migration) = migration else { return Ok(None) };
            let handle =
                migration.inline_handle(inline).map_err(UncountableVolume::Untranslatable)?;
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
            return Err(UncountableVolume::ForeignClaim(claim.clone()));
        }
        Ok(self.csi_volume_of_claim(claim))
    }

    /// Returns the volumes of a pod that count on its node. Volumes that cannot be counted are left
    /// out; kube-scheduler 1.36 fails every attempt that looks at such a node.
    pub fn counted_volumes<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = CsiVolume> + 'a {
        let volumes = pod.spec.volumes.iter();
        volumes.filter_map(|volume| self.csi_volume(pod, volume).ok().flatten())
    }

    fn csi_volume_of_claim(&self, claim: &PersistentVolumeClaim) -> Option<CsiVolume> {
        match claim.volume_name.as_ref().and_then(|name| self.volume(name)) {
            Some(volume) => CsiVolume::of_persistent_volume(volume),
            None => Some(CsiVolume::unprovisioned(claim)),
        }
    }

    /// Returns the volume that an attachment names; `None` for volumes of in-tree plugins.
    pub fn attached_volume(&self, attachment: &VolumeAttachment) -> Option<CsiVolume> {
        let volume = self.volume(attachment.volume_name.as_ref()?)?;
        let VolumeSource::Csi { handle, .. } = &volume.source else { return None };
        let driver = attachment.attacher.clone();
        Some(CsiVolume::Existing { driver, handle: handle.clone() })
    }

    /// Returns the driver that attaches a volume; `None` if it is not known.
    pub fn driver_of<'a>(&'a self, volume: &'a CsiVolume) -> Option<&'a str> {
        match volume {
            CsiVolume::Existing { driver, .. } => Some(driver),
            CsiVolume::Unprovisioned { class, .. } => self.driver_of_class(class),
        }
    }

    /// Returns the driver that attaches the volumes of a class. A provisioner that is not a CSI
    /// driver counts as a driver without limits.
    pub(super) fn driver_of_class(&self, class: &str) -> Option<&str> {
        let provisioner = &*self.storage_class(class)?.provisioner;
        match Migration::of_provisioner(provisioner) {
            Some(migration) => Some(migration.driver).filter(|_| migration.is_on),
            None => Some(provisioner),
        }
    }
}
