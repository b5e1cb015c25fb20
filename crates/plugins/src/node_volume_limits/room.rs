//! Whether nodes can attach more volumes of one driver.

use std::collections::BTreeSet;

use framework::{AttachedCounts, Cluster, CsiVolume, NodeColumn, NodeIx, VolumeUses};

use super::changes::VolumeChanges;

/// The volumes of a driver that a pod wants, and the attached volumes and limits of nodes.
pub(super) struct Room<'a> {
    driver: &'a str,
    limits: &'a NodeColumn<Option<i64>>,
    attached: AttachedCounts<'a>,
    wanted: Vec<(&'a CsiVolume, Option<&'a NodeColumn<VolumeUses>>)>,
}

impl<'a> Room<'a> {
    /// Returns `None` for a driver that no node limits.
    pub(super) fn new(
        driver: &'a str,
        wanted: &'a BTreeSet<CsiVolume>,
        cluster: &'a Cluster,
    ) -> Option<Self> {
        Some(Self {
            driver,
            limits: cluster.attach_limits(driver)?,
            attached: cluster.attached_counts(driver),
            wanted: wanted.iter().map(|volume| (volume, cluster.uses_of(volume))).collect(),
        })
    }

    /// Whether the node can attach the wanted volumes, given `changes`.
    pub(super) fn suffices(&self, node: NodeIx, changes: &VolumeChanges) -> bool {
        let Some(limit) = self.limits.get(node) else { return true };
        // Rule node-volume-limits-attached-volume of docs/differences.toml: 1.36 counts a volume
        // twice if it is attached to the node, no pod there uses it, and the pod wants it.
        let is_new = |(volume, uses): &&(&CsiVolume, Option<&NodeColumn<VolumeUses>>)| {
            let uses = uses.map_or_else(VolumeUses::default, |uses| uses.get(node));
            uses.by_attachments == 0 && i64::from(uses.by_pods) + changes.users_of(volume) <= 0
        };
        let new: i64 = self.wanted.iter().filter(is_new).map(|_| 1).sum();
        let attached = self.attached.get(node) + changes.attached(self.driver);
        new == 0 || attached + new <= limit
    }
}
