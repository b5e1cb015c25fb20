//! What becomes of the volumes of a node when other pods are taken to be on it.

use std::collections::BTreeMap;

use framework::{CsiVolume, NodeView, Pod};

/// What pods change about the volumes of a node that are taken to be there, or to be gone.
#[derive(Debug, Clone, Default)]
pub(super) struct VolumeChanges {
    /// How many more volumes of pods are this one.
    users: BTreeMap<CsiVolume, i64>,
    /// How many more volumes of a driver the node has.
    attached: BTreeMap<Box<str>, i64>,
}

impl VolumeChanges {
    /// What is taken to be on `node`, and off it.
    pub(super) fn on(node: &NodeView<'_>) -> Self {
        let mut changes = Self::default();
        node.added().iter().for_each(|pod| changes.count(pod, 1, node));
        node.removed().for_each(|pod| changes.count(pod, -1, node));
        changes
    }

    /// Counts a pod that comes to the node, or with a negative `sign` goes.
    pub(super) fn count(&mut self, pod: &Pod, sign: i64, node: &NodeView<'_>) {
        for volume in node.cluster().counted_volumes(pod) {
            self.count_volume(volume, sign, node);
        }
    }

    fn count_volume(&mut self, volume: CsiVolume, sign: i64, node: &NodeView<'_>) {
        let Some(driver) = node.cluster().driver_of(&volume) else { return };
        let kept = node.cluster().uses_of(&volume).map(|uses| uses.get(node.ix()));
        let kept = kept.unwrap_or_default();
        let is_attached =
            |change: i64| kept.by_attachments > 0 || i64::from(kept.by_pods) + change > 0;
        let before = self.users_of(&volume);
        let difference = i64::from(is_attached(before + sign)) - i64::from(is_attached(before));
        *self.attached.entry(driver.into()).or_default() += difference;
        self.users.insert(volume, before + sign);
    }

    /// How many more volumes of pods are this one.
    pub(super) fn users_of(&self, volume: &CsiVolume) -> i64 {
        self.users.get(volume).copied().unwrap_or_default()
    }

    /// How many more volumes of the driver the node has.
    pub(super) fn attached(&self, driver: &str) -> i64 {
        self.attached.get(driver).copied().unwrap_or_default()
    }
}
