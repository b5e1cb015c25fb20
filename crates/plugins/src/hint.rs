//! Helpers of queueing hints.

use framework::storage::PersistentVolumeClaim;
use framework::{EventObjects, Node, Pod, PodVolume, QueueingHint};

/// Returns Queue if `helps`, otherwise Skip.
pub(crate) const fn queue_if(helps: bool) -> QueueingHint {
    QueueingHint::queue_if(helps)
}

/// Returns the old and the new pod of an event.
///
/// # Errors
/// Returns an error if the event is about another kind.
pub(crate) fn pods<'a>(
    objects: &EventObjects<'a>,
) -> Result<(Option<&'a Pod>, Option<&'a Pod>), String> {
    objects.pods()
}

/// Returns the old and the new node of an event.
///
/// # Errors
/// Returns an error if the event is about another kind.
pub(crate) fn nodes<'a>(
    objects: &EventObjects<'a>,
) -> Result<(Option<&'a Node>, Option<&'a Node>), String> {
    objects.nodes()
}

/// Returns the new state of `pod` if the event is an update of this pod.
pub(crate) fn update_of<'a>(
    pod: &Pod,
    objects: &EventObjects<'a>,
) -> Result<Option<&'a Pod>, String> {
    let (_, new) = pods(objects)?;
    Ok(new.filter(|new| new.uid == pod.uid))
}

/// Returns Queue if the event adds or updates a claim of the pod. `name` returns the name of the
/// claim behind a volume.
///
/// # Errors
/// Returns an error if the event is about another kind.
pub(crate) fn queue_on_claim<'a, N: AsRef<str>>(
    pod: &'a Pod,
    objects: &EventObjects<'_>,
    name: impl Fn(&'a PodVolume) -> Option<N>,
) -> Result<QueueingHint, String> {
    let (_, claim) = objects.typed::<PersistentVolumeClaim>()?;
    let mut names = pod.spec.volumes.iter().filter_map(name);
    let mut is_own = |claim: &PersistentVolumeClaim| {
        claim.namespace == pod.key.namespace && names.any(|name| *claim.name == *name.as_ref())
    };
    Ok(queue_if(claim.is_some_and(&mut is_own)))
}
