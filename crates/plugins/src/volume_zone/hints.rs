//! Queueing hints for pods that the plugin rejected.

use framework::storage::{PersistentVolume, StorageClass};
use framework::{EventObjects, Handle, Pod, PodVolume, QueueingHint};

use super::VolumeZone;
use super::topology::{self, VolumeTopology};
use crate::hint;

impl VolumeZone {
    /// Requeues for a class with delayed binding. Claims of other classes have a volume before the
    /// pod is tried.
    pub(super) fn after_class_addition(
        &self,
        _pod: &Pod,
        objects: &EventObjects<'_>,
        _handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        let (_, new) = objects.typed::<StorageClass>()?;
        Ok(hint::queue_if(new.is_some_and(StorageClass::waits_for_first_consumer)))
    }

    pub(super) fn after_claim_change(
        &self,
        pod: &Pod,
        objects: &EventObjects<'_>,
        _handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        hint::queue_on_claim(pod, objects, PodVolume::named_claim)
    }

    pub(super) fn after_volume_change(
        &self,
        _pod: &Pod,
        objects: &EventObjects<'_>,
        _handle: &Handle<'_>,
    ) -> Result<QueueingHint, String> {
        let (old, new) = objects.typed::<PersistentVolume>()?;
        let moved = |old| new.is_some_and(|new| topologies(old) != topologies(new));
        Ok(hint::queue_if(old.is_none_or(moved)))
    }
}

fn topologies(volume: &PersistentVolume) -> Vec<VolumeTopology> {
    topology::of_labels(|label| volume.labels.get(label)).collect()
}
