//! The context of one call into the engine.

use std::sync::Arc;

use framework::{EventType, Pod, StatusPatch, Time, WallOffset};

use crate::effect::{Effect, EffectId, EffectKind, Event, EventSubject, ObjectRef, note};
use crate::extender_calls::{ExtenderCalls, ExtenderHealth};
use crate::ports::{Ports, Probe};

/// The time, the ports and the effects of one call into the engine, or into a part of it.
pub struct Context<'a> {
    /// The time of the call; an extender that is slow moves it on.
    pub(crate) now: Time,
    pub(crate) extenders: ExtenderCalls<'a>,
    pub(crate) probe: &'a mut dyn Probe,
    pub(crate) effects: Effects,
}

impl<'a> Context<'a> {
    /// Returns the context of a call into a part of an engine that is used alone, without outages
    /// of extenders. Its effects end with it.
    pub fn alone(now: Time, ports: &'a mut Ports<'_>) -> Self {
        let health = ExtenderHealth::default();
        let extenders = ExtenderCalls::new(&mut *ports.extenders, health, WallOffset::default());
        Self { now, extenders, probe: &mut *ports.probe, effects: Effects::default() }
    }
}

/// The effects that the caller has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    list: Vec<Effect>,
    next_id: u64,
}

impl Effects {
    pub(crate) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.list)
    }

    pub(crate) fn emit(&mut self, kind: EffectKind) -> EffectId {
        let id = EffectId(self.next_id);
        self.next_id += 1;
        self.list.push(Effect { id, kind });
        id
    }

    /// Patches the status of a pod, unless the patch is empty. Returns the effect.
    pub(crate) fn patch_pod_status(&mut self, pod: &Pod, patch: StatusPatch) -> Option<EffectId> {
        if patch == StatusPatch::default() {
            return None;
        }
        let effect = self.emit(EffectKind::PatchPodStatus {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            observed_generation: pod.generation.into(),
            resource_version: pod.resource_version,
            patch,
        });
        Some(effect)
    }

    /// Records an event about `pod` in the name of the scheduler called `reporter`.
    pub(crate) fn record(&mut self, pod: &Pod, reporter: &Arc<str>, event: PodEvent<'_>) {
        self.emit(EffectKind::Event(Event {
            subject: EventSubject::Pod,
            regarding: pod.key.clone(),
            uid: pod.uid.clone(),
            related: event.related,
            event_type: event.event_type,
            reason: event.reason.into(),
            action: event.action.into(),
            note: note(event.note),
            reporting_controller: reporter.clone(),
        }));
    }
}

/// The part of an event that its place in the engine decides.
pub(crate) struct PodEvent<'a> {
    pub(crate) event_type: EventType,
    pub(crate) reason: &'static str,
    pub(crate) action: &'static str,
    pub(crate) note: &'a str,
    pub(crate) related: Option<ObjectRef>,
}

impl<'a> PodEvent<'a> {
    pub(crate) const fn warning(reason: &'static str, action: &'static str, note: &'a str) -> Self {
        Self { event_type: EventType::Warning, reason, action, note, related: None }
    }

    pub(crate) const fn normal(reason: &'static str, action: &'static str, note: &'a str) -> Self {
        Self { event_type: EventType::Normal, reason, action, note, related: None }
    }
}
