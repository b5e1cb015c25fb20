//! Queueing hints for pods that the plugin rejected.

use framework::{EventObjects, Handle, Pod, PodVolume, QueueingHint};
use serde_json::Value;

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
        let (_, new) = objects.others()?;
        let waits = |class: &Value| class["volumeBindingMode"] == "WaitForFirstConsumer";
        Ok(hint::queue_if(new.is_some_and(waits)))
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
        let (old, new) = objects.others()?;
        let moved = |old| new.is_some_and(|new| topologies(old) != topologies(new));
        Ok(hint::queue_if(old.is_none_or(moved)))
    }
}

fn topologies(volume: &Value) -> Vec<VolumeTopology> {
    let labels = &volume["metadata"]["labels"];
    topology::of_labels(|label| labels[label].as_str()).collect()
}
