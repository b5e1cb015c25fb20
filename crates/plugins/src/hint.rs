//! What queueing hints have in common.

use framework::{EventObjects, Node, Pod, QueueingHint};

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
