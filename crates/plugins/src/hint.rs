//! What queueing hints have in common.

use framework::{EventObjects, Node, Pod, QueueingHint};

/// Queue if `helps`, else Skip.
pub(crate) const fn queue_if(helps: bool) -> QueueingHint {
    if helps { QueueingHint::Queue } else { QueueingHint::Skip }
}

/// The pod of an event, before and after.
///
/// # Errors
/// The event is about something else.
pub(crate) fn pods<'a>(
    objects: &EventObjects<'a>,
) -> Result<(Option<&'a Pod>, Option<&'a Pod>), String> {
    match *objects {
        EventObjects::Pod { old, new } => Ok((old, new)),
        _ => Err("the event is not about a pod".to_owned()),
    }
}

/// The node of an event, before and after.
///
/// # Errors
/// The event is about something else.
pub(crate) fn nodes<'a>(
    objects: &EventObjects<'a>,
) -> Result<(Option<&'a Node>, Option<&'a Node>), String> {
    match *objects {
        EventObjects::Node { old, new } => Ok((old, new)),
        _ => Err("the event is not about a node".to_owned()),
    }
}

/// The new state of `pod`, if the event is an update of that very pod.
pub(crate) fn update_of<'a>(
    pod: &Pod,
    objects: &EventObjects<'a>,
) -> Result<Option<&'a Pod>, String> {
    let (_, new) = pods(objects)?;
    Ok(new.filter(|new| new.uid == pod.uid))
}
