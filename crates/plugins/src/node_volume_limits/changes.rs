//! What-if changes to the volumes of a node.

use std::collections::BTreeMap;

use framework::{CsiVolume, NodeView, Pod};

/// The volumes that what-if pods add to a node or remove from it.
#[derive(Debug, Clone, Default)]
pub(super) struct VolumeChanges {
    /// Change of the number of pods that use a volume.
    users: BTreeMap<CsiVolume, i64>,
    /// Change of the number of attached volumes, by driver.
    attached: BTreeMap<Box<str>, i64>,
}

impl VolumeChanges {
    /// Returns the what-if changes of `node`.
    pub(super) fn on(node: &NodeView<'_>) -> Self {
        let mut changes = Self::default();
        node.added().iter().for_each(|pod| changes.count(pod, 1, node));
        node.removed().for_each(|pod| changes.count(pod, -1, node));
        changes
    }

    /// Counts the volumes of a pod added to the node, or removed if `sign` is negative.
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

    /// Returns the change of the number of pods that use this volume.
    pub(super) fn users_of(&self, volume: &CsiVolume) -> i64 {
        self.users.get(volume).copied().unwrap_or_default()
    }

    /// Returns the change of the number of attached volumes of the driver.
    pub(super) fn attached(&self, driver: &str) -> i64 {
        self.attached.get(driver).copied().unwrap_or_default()
    }
}
