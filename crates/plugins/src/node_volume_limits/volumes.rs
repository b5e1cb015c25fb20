//! The volumes of a pod as CSI drivers count them.

use std::collections::{BTreeMap, BTreeSet};

use framework::{Cluster, CsiVolume, Pod, PodVolume, Status, UncountableVolume};

use super::room::Room;
use crate::lookup;

/// The distinct volumes that a pod wants, by driver.
#[derive(Debug, Clone, Default)]
pub(super) struct WantedVolumes(BTreeMap<Box<str>, BTreeSet<CsiVolume>>);

impl WantedVolumes {
    /// Returns the volumes of a pod to be placed on a node with or without a CSINode.
    ///
    /// # Errors
    /// Returns the status for this kind of node if some volume cannot be counted.
    pub(super) fn of(pod: &Pod, cluster: &Cluster, has_csi_node: bool) -> Result<Self, Status> {
        let mut wanted = Self::default();
        for volume in &pod.spec.volumes {
            match cluster.csi_volume(pod, volume) {
                Ok(counted) => wanted.extend(counted, cluster),
                // Without a CSINode, a volume of an in-tree plugin does not count for its CSI
                // driver.
                Err(UncountableVolume::Untranslatable(_)) if !has_csi_node => {}
                Err(uncountable) => return Err(status(pod, volume, uncountable)),
            }
        }
        Ok(wanted)
    }

    fn extend(&mut self, volumes: impl IntoIterator<Item = CsiVolume>, cluster: &Cluster) {
        for volume in volumes {
            if let Some(driver) = cluster.driver_of(&volume).map(Into::into) {
                self.0.entry(driver).or_default().insert(volume);
            }
        }
    }

    /// Returns the limits for these volumes, driver by driver.
    pub(super) fn rooms<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = Room<'a>> {
        self.0.iter().filter_map(|(driver, volumes)| Room::new(driver, volumes, cluster))
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
