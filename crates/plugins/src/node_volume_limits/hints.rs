//! Queueing hints for pods that the plugin rejected.

use framework::storage::{CsiNode, PersistentVolumeClaim, VolumeAttachment};
use framework::{EventForPod, HintResult, Pod, PodVolume, PodVolumeSource};

use super::{NodeVolumeLimits, may_be_limited, migration_of_inline};
use crate::hint;

impl NodeVolumeLimits {
    pub(super) fn after_limit_change(&self, event: EventForPod<'_>) -> HintResult {
        let none = CsiNode::default();
        let (old, new) = event.objects.typed::<CsiNode>()?;
        let [old, new] = [old, new].map(|node| node.unwrap_or(&none));
        let limit_of_old = |driver| old.drivers.get(driver).copied().flatten();
        // Rule node-volume-limits-limit-gone-hint of docs/differences.toml: a removed limit counts
        // as a raised one.
        let raised = new.drivers.iter().any(|(driver, limit)| match limit {
            Some(limit) => *limit > limit_of_old(driver).unwrap_or(0),
            None => limit_of_old(driver).is_some(),
        });
        let gone = old
            .drivers
            .iter()
            .any(|(driver, limit)| limit.is_some() && !new.drivers.contains_key(driver));
        // Rule node-volume-limits-missing-driver-hint: a driver without a limit may have been
        // missing.
        let installed = self.gates.volume_limit_scaling
            && new.drivers.keys().any(|driver| !old.drivers.contains_key(driver));
        Ok(hint::queue_if(raised || gone || installed))
    }

    pub(super) fn after_pod_deletion(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.pods()?;
        let held_room = |old: &Pod| old.node_name.is_some() || old.nominated_node_name().is_some();
        Ok(hint::queue_if(old.is_some_and(|old| held_room(old) && may_be_limited(old))))
    }

    /// Rule node-volume-limits-shared-claim-hint of docs/differences.toml: a node that attaches the
    /// volume of a claim has room for further pods with the claim.
    pub(super) fn after_pod_addition(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.pods()?;
        let has = |new: &Pod, claim: &str| {
            let mut volumes = new.spec.volumes.iter();
            volumes.any(|own| own.named_claim().is_some_and(|name| **name == *claim))
        };
        let shares = |new: &Pod| {
            let mut claims = event.pod.spec.volumes.iter().filter_map(PodVolume::named_claim);
            new.key.namespace == event.pod.key.namespace && claims.any(|claim| has(new, claim))
        };
        Ok(hint::queue_if(new.is_some_and(shares)))
    }

    pub(super) fn after_claim_addition(&self, event: EventForPod<'_>) -> HintResult {
        hint::queue_on_claim(event, |volume| volume.claim_name(&event.pod.key.name))
    }

    /// Rule node-volume-limits-fewer-volumes-hint of docs/differences.toml: without its claim, the
    /// volume of a placed pod no longer counts.
    pub(super) fn after_claim_deletion(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.typed::<PersistentVolumeClaim>()?;
        let is_used = |claim: &PersistentVolumeClaim| {
            event.handle.cluster.pods_with_claim(&claim.namespace, &claim.name).next().is_some()
        };
        Ok(hint::queue_if(old.is_some_and(is_used)))
    }

    /// Rule node-volume-limits-attachment-hint of docs/differences.toml: a node to which a volume
    /// of the pod is attached has room for the pod.
    pub(super) fn after_attachment(&self, event: EventForPod<'_>) -> HintResult {
        let (_, new) = event.objects.typed::<VolumeAttachment>()?;
        let attached = new.and_then(|attachment| event.handle.cluster.attached_volume(attachment));
        let mut wanted = event.handle.cluster.counted_volumes(event.pod);
        Ok(hint::queue_if(attached.is_some_and(|attached| wanted.any(|own| own == attached))))
    }

    pub(super) fn after_detachment(&self, event: EventForPod<'_>) -> HintResult {
        let (old, _) = event.objects.typed::<VolumeAttachment>()?;
        let attacher = old.map_or("", |attachment| &*attachment.attacher);
        let helps = |volume: &PodVolume| match volume.source {
            // Rule node-volume-limits-ephemeral-hint of docs/differences.toml: an ephemeral volume
            // has a claim too.
            PodVolumeSource::Claim(_) | PodVolumeSource::Ephemeral => true,
            PodVolumeSource::Csi(_) | PodVolumeSource::InTree(_) => {
                migration_of_inline(volume).is_some_and(|own| *own.driver == *attacher)
            }
        };
        Ok(hint::queue_if(event.pod.spec.volumes.iter().any(helps)))
    }
}
