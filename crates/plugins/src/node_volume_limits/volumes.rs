//! Volumes as CSI drivers count them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use framework::storage::{PersistentVolume, PersistentVolumeClaim, VolumeSource};
use framework::{Cluster, NodeView, Pod, PodVolume, PodVolumeSource, Status};

use super::migration_of_inline;
use crate::csi_translation::{MigratableVolume, Migration};
use crate::lookup;

/// Stands before the names of claims that have no volume yet; no volume has such a name.
const UNBOUND: &str = "\0unbound-";

/// A volume by what its driver calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CsiVolume<'a> {
    driver: &'a str,
    handle: Cow<'a, str>,
}

/// Volumes, each of them once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CsiVolumes<'a>(BTreeSet<CsiVolume<'a>>);

/// Why volumes of a pod cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Uncountable {
    /// A claim is not there.
    MissingClaim(String),
    /// Something is wrong with the pod.
    Other(String),
}

impl From<Uncountable> for Status {
    fn from(uncountable: Uncountable) -> Self {
        match uncountable {
            Uncountable::MissingClaim(text) => Self::unresolvable(text),
            Uncountable::Other(text) => Self::error(text),
        }
    }
}

impl<'a> CsiVolumes<'a> {
    /// The volumes of a pod that is to be placed on a node with or without a CSINode.
    ///
    /// # Errors
    /// Some volume cannot be counted.
    pub(super) fn wanted_by(
        pod: &'a Pod,
        cluster: &'a Cluster,
        has_csi_node: bool,
    ) -> Result<Self, Uncountable> {
        let counted = Counted { cluster, pod, has_csi_node };
        let volumes = pod.spec.volumes.iter().map(|volume| counted.volume(volume));
        Ok(Self(volumes.filter_map(Result::transpose).collect::<Result<_, _>>()?))
    }

    /// The volumes of the pods on a node with a CSINode.
    pub(super) fn of_pods_on(node: &NodeView<'a>) -> Self {
        let mut volumes = BTreeSet::new();
        for pod in node.pods() {
            let counted = Counted { cluster: node.cluster(), pod, has_csi_node: true };
            // Difference node-volume-limits-bad-neighbour: what cannot be counted is not.
            let countable = |volume| counted.volume(volume).ok().flatten();
            volumes.extend(pod.spec.volumes.iter().filter_map(countable));
        }
        Self(volumes)
    }

    /// Adds the volumes that VolumeAttachments name.
    pub(super) fn add_attachments_of(&mut self, node: &NodeView<'a>) {
        let cluster = node.cluster();
        for attachment in cluster.volume_attachments(node.name()) {
            let driver = &*attachment.attacher;
            let volume = attachment.volume_name.as_ref().and_then(|name| cluster.volume(name));
            if let Some(VolumeSource::Csi { handle, .. }) = volume.map(|volume| &volume.source)
                && !driver.is_empty()
            {
                self.0.insert(CsiVolume { driver, handle: Cow::Borrowed(handle) });
            }
        }
    }

    /// The volumes that are not among `others`.
    pub(super) fn without(&self, others: &CsiVolumes<'_>) -> Self {
        let is_new = |volume: &&CsiVolume<'a>| !others.0.contains::<CsiVolume<'_>>(volume);
        Self(self.0.iter().filter(is_new).cloned().collect())
    }

    /// The drivers of the volumes, each of them once.
    pub(super) fn drivers(&self) -> impl Iterator<Item = &'a str> {
        let drivers: BTreeSet<_> = self.0.iter().map(|volume| volume.driver).collect();
        drivers.into_iter()
    }

    /// How many of the volumes are of this driver.
    pub(super) fn count(&self, driver: &str) -> i64 {
        self.0.iter().filter(|volume| volume.driver == driver).map(|_| 1).sum()
    }
}

/// The volumes of a pod, on a node with or without a CSINode.
#[derive(Debug, Clone, Copy)]
struct Counted<'a> {
    cluster: &'a Cluster,
    pod: &'a Pod,
    has_csi_node: bool,
}

impl<'a> Counted<'a> {
    /// `None` for a volume that no driver attaches.
    fn volume(&self, volume: &'a PodVolume) -> Result<Option<CsiVolume<'a>>, Uncountable> {
        if let PodVolumeSource::InTree(_, source) = &volume.source {
            let migration = migration_of_inline(volume).filter(|own| self.is_done(own));
            let Some(migration) = migration else { return Ok(None) };
            let handle = migration.inline_handle(source).map_err(|error| {
                let name = &volume.name;
                Uncountable::Other(format!("converting volume({name}) from inline to csi: {error}"))
            })?;
            return Ok(Some(CsiVolume { driver: migration.driver, handle: handle.into() }));
        }
        let Some(name) = volume.claim_name(&self.pod.key.name) else { return Ok(None) };
        let claim = self.claim(&name)?;
        if volume.source == PodVolumeSource::Ephemeral {
            lookup::check_made_for(claim, self.pod).map_err(Uncountable::Other)?;
        }
        Ok(self.volume_of_claim(claim))
    }

    fn claim(&self, name: &str) -> Result<&'a PersistentVolumeClaim, Uncountable> {
        if name.is_empty() {
            return Err(Uncountable::Other("PersistentVolumeClaim had no name".to_owned()));
        }
        let namespace = &self.pod.key.namespace;
        let claim = lookup::claim(self.cluster, namespace, name).map_err(|error| {
            Uncountable::MissingClaim(format!("looking up PVC {namespace}/{name}: {error}"))
        })?;
        Ok(claim)
    }

    fn volume_of_claim(&self, claim: &'a PersistentVolumeClaim) -> Option<CsiVolume<'a>> {
        let volume = claim.volume_name.as_ref().and_then(|name| self.cluster.volume(name));
        let volume = match volume {
            Some(volume) => self.persistent_volume(volume),
            None => self.volume_to_be_made(claim),
        };
        volume.filter(|volume| !volume.driver.is_empty() && !volume.handle.is_empty())
    }

    fn persistent_volume(&self, volume: &'a PersistentVolume) -> Option<CsiVolume<'a>> {
        if let VolumeSource::Csi { driver, handle } = &volume.source {
            return Some(CsiVolume { driver, handle: Cow::Borrowed(handle) });
        }
        let volume = MigratableVolume::of(volume)?;
        let handle = volume.handle().ok()?;
        let driver = volume.migration.driver;
        self.is_done(volume.migration).then(|| CsiVolume { driver, handle: handle.into() })
    }

    /// What the provisioner of its class will make for a claim.
    fn volume_to_be_made(&self, claim: &'a PersistentVolumeClaim) -> Option<CsiVolume<'a>> {
        let provisioner = &*self.cluster.storage_class(&claim.class)?.provisioner;
        let handle = format!("{UNBOUND}{}/{}", claim.namespace, claim.name).into();
        match Migration::of_provisioner(provisioner) {
            Some(own) => self.is_done(own).then_some(CsiVolume { driver: own.driver, handle }),
            None => Some(CsiVolume { driver: provisioner, handle }),
        }
    }

    /// Whether volumes of a replaced plugin count as those of the driver. Whether the CSINode lists
    /// the plugin is not asked here.
    fn is_done(&self, migration: &Migration) -> bool {
        migration.is_on && self.has_csi_node
    }
}
