//! What queueing hints have in common.

use framework::{EventObjects, Node, Pod, PodVolume, QueueingHint};

/// Queue if `helps`, else Skip.
pub(crate) const fn queue_if(helps: bool) -> QueueingHint {
    QueueingHint::queue_if(helps)
}

/// The pod of an event, before and after.
///
/// # Errors
/// The event is about something else.
pub(crate) fn pods<'a>(
    objects: &EventObjects<'a>,
) -> Result<(Option<&'a Pod>, Option<&'a Pod>), String> {
    objects.pods()
}

/// The node of an event, before and after.
///
/// # Errors
/// The event is about something else.
pub(crate) fn nodes<'a>(
    objects: &EventObjects<'a>,
) -> Result<(Option<&'a Node>, Option<&'a Node>), String> {
    objects.nodes()
}

/// The new state of `pod`, if the event is an update of that very pod.
pub(crate) fn update_of<'a>(
    pod: &Pod,
    objects: &EventObjects<'a>,
) -> Result<Option<&'a Pod>, String> {
    let (_, new) = pods(objects)?;
    Ok(new.filter(|new| new.uid == pod.uid))
}

/// Queue if the event is about one of the pod's own claims, which is there afterwards. `name` tells
/// the name of the claim behind a volume.
///
/// # Errors
/// The event is about a pod or a node.
pub(crate) fn queue_on_claim<'a, N: AsRef<str>>(
    pod: &'a Pod,
    objects: &EventObjects<'_>,
    name: impl Fn(&'a PodVolume) -> Option<N>,
) -> Result<QueueingHint, String> {
    let (_, claim) = objects.others()?;
    let text = |field: &str| claim.and_then(|claim| claim["metadata"][field].as_str());
    let mut names = pod.spec.volumes.iter().filter_map(name);
    let own = text("namespace") == Some(&pod.key.namespace)
        && names.any(|name| text("name") == Some(name.as_ref()));
    Ok(queue_if(own))
}
