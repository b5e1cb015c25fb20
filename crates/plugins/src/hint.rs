//! Helpers of queueing hints.

use framework::storage::PersistentVolumeClaim;
use framework::{EventForPod, HintResult, Pod, PodVolume, QueueingHint};

/// Returns Queue if `helps`, otherwise Skip.
pub(crate) const fn queue_if(helps: bool) -> QueueingHint {
    QueueingHint::queue_if(helps)
}

/// Returns the new state of the pod if the event is an update of it.
///
/// # Errors
/// Returns an error if the event is about another kind.
pub(crate) fn own_update<'a>(event: EventForPod<'a>) -> Result<Option<&'a Pod>, String> {
    let (_, new) = event.objects.pods()?;
    Ok(new.filter(|new| new.uid == event.pod.uid))
}

/// Returns Queue if the event adds or updates a claim of the pod. `name` returns the name of the
/// claim behind a volume.
///
/// # Errors
/// Returns an error if the event is about another kind.
pub(crate) fn queue_on_claim<'a, N: AsRef<str>>(
    event: EventForPod<'a>,
    name: impl Fn(&'a PodVolume) -> Option<N>,
) -> HintResult {
    let (_, claim) = event.objects.typed::<PersistentVolumeClaim>()?;
    let mut names = event.pod.spec.volumes.iter().filter_map(name);
    let mut is_own = |claim: &PersistentVolumeClaim| {
        claim.namespace == event.pod.key.namespace
            && names.any(|name| *claim.name == *name.as_ref())
    };
    Ok(queue_if(claim.is_some_and(&mut is_own)))
}
