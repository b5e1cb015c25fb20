//! Queueing hints for pods that the plugin rejected.

use std::sync::Arc;

use framework::{EventForPod, HintResult, Pod, PodVolume};

use super::{VolumeRestrictions, disks};
use crate::hint;

impl VolumeRestrictions {
    pub(super) fn after_pod_deletion(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.pods()?;
        // Rule volume-restrictions-disk-hint of docs/differences.toml: disks conflict across
        // namespaces.
        let helps = |old: &Pod| disks::conflict(event.pod, old) || share_a_claim(event.pod, old);
        Ok(hint::queue_if(old.is_some_and(helps)))
    }

    pub(super) fn after_claim_addition(&self, event: EventForPod<'_>) -> HintResult {
        hint::queue_on_claim(event, PodVolume::named_claim)
    }
}

fn share_a_claim(pod: &Pod, other: &Pod) -> bool {
    pod.key.namespace == other.key.namespace
        && named_claims(pod).any(|claim| named_claims(other).any(|used| used == claim))
}

fn named_claims(pod: &Pod) -> impl Iterator<Item = &Arc<str>> {
    pod.spec.volumes.iter().filter_map(PodVolume::named_claim)
}
