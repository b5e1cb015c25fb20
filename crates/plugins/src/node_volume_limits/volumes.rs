//! Sets of volumes as CSI drivers count them.

use std::collections::BTreeSet;

use framework::{Cluster, CsiVolume, NodeView, Pod, PodVolume, Status, UncountableVolume};

use crate::lookup;

/// Volumes, each of them once.
#[derive(Debug, Clone)]
pub(super) struct CsiVolumes<'a> {
    cluster: &'a Cluster,
    volumes: BTreeSet<CsiVolume>,
}

impl<'a> CsiVolumes<'a> {
    /// The volumes of a pod that is to be placed on a node with or without a CSINode.
    ///
    /// # Errors
    /// The status of a node of this kind: some volume cannot be counted.
    pub(super) fn wanted_by(
        pod: &Pod,
        cluster: &'a Cluster,
        has_csi_node: bool,
    ) -> Result<Self, Status> {
        let counted = |volume: &PodVolume| match cluster.csi_volume(pod, volume) {
            // Without a CSINode no volume of an in-tree plugin counts as one of a driver.
            Err(UncountableVolume::Untranslatable(_)) if !has_csi_node => None,
            Err(uncountable) => Some(Err(status(pod, volume, uncountable))),
            Ok(counted) => counted.map(Ok),
        };
        let volumes = pod.spec.volumes.iter().filter_map(counted).collect::<Result<_, _>>()?;
        Ok(Self { cluster, volumes })
    }

    /// The volumes of the pods on a node with a CSINode.
    pub(super) fn of_pods_on(node: &NodeView<'a>) -> Self {
        let cluster = node.cluster();
        // What cannot be counted is not; in 1.36 it fails every attempt that looks at the node.
        let of_pod = |pod| move |volume| cluster.csi_volume(pod, volume).ok().flatten();
        let volumes = node.pods().flat_map(|pod| pod.spec.volumes.iter().filter_map(of_pod(pod)));
        Self { cluster, volumes: volumes.collect() }
    }

    /// Adds the volumes that VolumeAttachments name.
    pub(super) fn add_attachments_of(&mut self, node: &NodeView<'_>) {
        let attachments = self.cluster.volume_attachments(node.name());
        let attached = attachments.filter_map(|own| self.cluster.attached_volume(own));
        self.volumes.extend(attached);
    }

    /// The volumes that are not among `others`.
    pub(super) fn without(&self, others: &Self) -> Self {
        Self { cluster: self.cluster, volumes: &self.volumes - &others.volumes }
    }

    /// The drivers of the volumes, each of them once.
    pub(super) fn drivers(&self) -> BTreeSet<&str> {
        self.volumes.iter().filter_map(|volume| self.cluster.driver_of(volume)).collect()
    }

    /// The volumes of this driver.
    pub(super) fn of_driver(&self, driver: &str) -> impl Iterator<Item = &CsiVolume> {
        let is_own = move |volume: &&CsiVolume| self.cluster.driver_of(volume) == Some(driver);
        self.volumes.iter().filter(is_own)
    }

    /// How many of the volumes are of this driver.
    pub(super) fn count(&self, driver: &str) -> i64 {
        self.of_driver(driver).map(|_| 1).sum()
    }
}

/// What a volume that cannot be counted means to its pod.
fn status(pod: &Pod, volume: &PodVolume, uncountable: UncountableVolume) -> Status {
    match uncountable {
        UncountableVolume::NamelessClaim => Status::error("PersistentVolumeClaim had no name"),
        UncountableVolume::MissingClaim(name) => {
            let (namespace, error) = (&pod.key.namespace, lookup::no_claim(&name));
            Status::unresolvable(format!("looking up PVC {namespace}/{name}: {error}"))
        }
        UncountableVolume::ClaimOfAnother(claim) => {
            Status::error(lookup::not_made_for(&claim, pod))
        }
        UncountableVolume::Untranslatable(error) => {
            let name = &volume.name;
            Status::error(format!("converting volume({name}) from inline to csi: {error}"))
        }
    }
}
