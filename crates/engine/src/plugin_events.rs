//! Events that plugins record.

use framework::PodEvent;

use crate::context::Context;
use crate::effect::{EffectKind, Event, EventSubject, note};
use crate::world::World;

/// Records an event in the name of the scheduler that is responsible for the pod.
pub(crate) fn record_plugin_event(event: PodEvent, world: &World, cx: &mut Context<'_>) {
    let placed = world.placed(&event.uid).map(|placed| &placed.pod);
    let pod = world.pending().get(&event.pod).filter(|pod| pod.uid == event.uid).or(placed);
    let profile = pod.and_then(|pod| world.profile_of(pod)).or(world.profiles().iter().next());
    let Some(profile) = profile else { return };
    cx.effects.emit(EffectKind::Event(Event {
        subject: EventSubject::Pod,
        regarding: event.pod,
        uid: event.uid,
        related: None,
        event_type: event.event_type,
        reason: event.reason.to_string().into(),
        action: event.action.to_string().into(),
        note: note(&event.note),
        reporting_controller: profile.scheduler_name.clone(),
    }));
}
