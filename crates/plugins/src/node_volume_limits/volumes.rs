//! The volumes of a pod as CSI drivers count them.

use std::collections::{BTreeMap, BTreeSet};

use framework::storage::csi_translation::Migration;
use framework::storage::{CsiDriver, VolumeSource};
use framework::{Cluster, CsiVolume, Pod, PodVolume, Status, UncountableVolume};

use super::room::Room;
use crate::lookup;

/// The distinct volumes that a pod wants.
#[derive(Debug, Clone, Default)]
pub(super) struct WantedVolumes {
    by_driver: BTreeMap<Box<str>, BTreeSet<CsiVolume>>,
    /// Drivers without which a node takes no pod with their volumes, and whether some of the
    /// volumes are not the volumes of an in-tree plugin. Only the gate VolumeLimitScaling considers
    /// them.
    needed: BTreeMap<Box<str>, bool>,
}

impl WantedVolumes {
    /// Returns the volumes of a pod to be placed on a node with or without a CSINode.
    ///
    /// # Errors
    /// Returns the status for this kind of node if some volume cannot be counted.
    pub(super) fn of(pod: &Pod, cluster: &Cluster, has_csi_node: bool) -> Result<Self, Status> {
        let mut wanted = Self::default();
        for volume in &pod.spec.volumes {
            match cluster.csi_volume(pod, volume) {
                Ok(counted) => {
                    if let Some(counted) = counted {
                        wanted.add(counted, is_in_tree(pod, volume, cluster), cluster);
                    }
                }
                // Without a CSINode, a volume of an in-tree plugin does not count for its CSI
                // driver.
                Err(UncountableVolume::Untranslatable(_)) if !has_csi_node => {}
                Err(uncountable) => return Err(status(pod, volume, uncountable)),
            }
        }
        Ok(wanted)
    }

    fn add(&mut self, volume: CsiVolume, is_in_tree: bool, cluster: &Cluster) {
        let Some(driver) = cluster.driver_of(&volume).map(Box::<str>::from) else { return };
        let prevents = |driver: &CsiDriver| driver.prevent_pod_scheduling_if_missing;
        if cluster.csi_driver(&driver).is_some_and(prevents) {
            *self.needed.entry(driver.clone()).or_default() |= !is_in_tree;
        }
        self.by_driver.entry(driver).or_default().insert(volume);
    }

    /// Returns whether a node may lack a driver that it needs.
    pub(super) fn needs_drivers(&self) -> bool {
        !self.needed.is_empty()
    }

    /// Returns the first driver that the node needs and lacks. Without a CSINode, a volume of an
    /// in-tree plugin does not belong to a driver.
    pub(super) fn missing_driver(&self, cluster: &Cluster, node: &str) -> Option<&str> {
        let csi_node = cluster.csi_node(node);
        let is_missing = |driver: &str, is_own: bool| match csi_node {
            Some(csi_node) => !csi_node.drivers.contains_key(driver),
            None => is_own,
        };
        let mut needed = self.needed.iter().map(|(driver, is_own)| (&**driver, *is_own));
        needed.find(|(driver, is_own)| is_missing(driver, *is_own)).map(|(driver, _)| driver)
    }

    /// Returns the limits for these volumes, driver by driver.
    pub(super) fn rooms<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = Room<'a>> {
        let by_driver = self.by_driver.iter();
        by_driver.filter_map(|(driver, volumes)| Room::new(driver, volumes, cluster))
    }
}

/// Whether a volume is one of an in-tree plugin that a CSI driver replaces.
fn is_in_tree(pod: &Pod, volume: &PodVolume, cluster: &Cluster) -> bool {
    let claim = volume.claim_name(&pod.key.name);
    let Some(claim) = claim.and_then(|name| cluster.claim(&pod.key.namespace, &name)) else {
        return true;
    };
    match claim.volume_name.as_ref().and_then(|name| cluster.volume(name)) {
        Some(volume) => !matches!(volume.source, VolumeSource::Csi { .. }),
        None => cluster
            .storage_class(&claim.class)
            .is_some_and(|class| Migration::of_provisioner(&class.provisioner).is_some()),
    }
}

/// Returns the status of a pod with a volume that cannot be counted.
fn status(pod: &Pod, volume: &PodVolume, uncountable: UncountableVolume) -> Status {
    match uncountable {
        UncountableVolume::NamelessClaim => Status::error("PersistentVolumeClaim had no name"),
        UncountableVolume::MissingClaim(name) => {
            let (namespace, error) = (&pod.key.namespace, lookup::no_claim(&name));
            Status::unresolvable(format!("looking up PVC {namespace}/{name}: {error}"))
        }
        UncountableVolume::ForeignClaim(claim) => Status::error(lookup::not_made_for(&claim, pod)),
        UncountableVolume::Untranslatable(error) => {
            let name = &volume.name;
            Status::error(format!("converting volume({name}) from inline to csi: {error}"))
        }
    }
}
