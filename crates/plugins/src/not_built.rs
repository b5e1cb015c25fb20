//! Stand-ins for plugins of Kubernetes that are not implemented.
//!
//! A stand-in has the name and the extension points of its plugin, so that profiles resolve as in
//! kube-scheduler. It has no effect on any pod.

use framework::{
    AttemptMut, ExtensionPoint, Handle, Permit, PermitVerdict, Plugin, PluginBuilder, Pod,
    PreEnqueue, Status,
};

use crate::catalogue::Entry;

/// The stand-in for a plugin that is not implemented.
#[derive(Debug)]
pub struct NotBuilt;

/// Makes the stand-in for the plugin of a catalogue entry.
pub fn plugin(entry: &Entry) -> Plugin {
    let builder = Plugin::new(entry.name, NotBuilt).no_events();
    entry.points.iter().copied().fold(builder, extend).build()
}

/// Adds an extension point that a plugin without implementation has.
fn extend(builder: PluginBuilder<NotBuilt>, point: ExtensionPoint) -> PluginBuilder<NotBuilt> {
    match point {
        ExtensionPoint::PreEnqueue => builder.pre_enqueue(),
        ExtensionPoint::Permit => builder.permit(),
        _ => builder,
    }
}

impl PreEnqueue for NotBuilt {
    fn pre_enqueue(&self, _pod: &Pod, _handle: &Handle<'_>) -> Status {
        Status::success()
    }
}

impl Permit for NotBuilt {
    fn permit(&self, _attempt: AttemptMut<'_>, _node: &str) -> PermitVerdict {
        PermitVerdict::Allow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn no_event_requeues_pods_for_a_stand_in() {
        for entry in catalogue::ALL.iter().filter(|entry| !entry.is_built()) {
            assert_eq!(plugin(entry).events.unwrap().len(), 0, "{}", entry.name);
        }
    }
}
