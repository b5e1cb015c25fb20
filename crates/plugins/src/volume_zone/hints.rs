//! Queueing hints for pods that the plugin rejected.

use framework::storage::{PersistentVolume, StorageClass};
use framework::{EventForPod, HintResult, PodVolume};

use super::VolumeZone;
use super::topology::{self, VolumeTopology};
use crate::hint;

impl VolumeZone {
    /// Requeues for a class with delayed binding. Claims of other classes have a volume before the
    /// pod is tried.
    pub(super) fn after_class_addition(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.typed::<StorageClass>()?;
        Ok(hint::queue_if(new.is_some_and(StorageClass::waits_for_first_consumer)))
    }

    pub(super) fn after_claim_change(&self, event: EventForPod<'_>) -> HintResult {
        hint::queue_on_claim(event, PodVolume::named_claim)
    }

    pub(super) fn after_volume_change(&self, event: EventForPod<'_>) -> HintResult {
        let (old, new) = event.objects.typed::<PersistentVolume>()?;
        let moved = |old| new.is_some_and(|new| topologies(old) != topologies(new));
        Ok(hint::queue_if(old.is_none_or(moved)))
    }
}

fn topologies(volume: &PersistentVolume) -> Vec<VolumeTopology> {
    topology::of_labels(|label| volume.labels.get(label)).collect()
}
