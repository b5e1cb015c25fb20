//! Carries out the effects of the engine of a role.

use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{self, DroppedEvents, EventRecorder};
use control::scheduler::RequestSource;
use control::{FailedCall, Reply, Request, RequestId};
use engine::{Effect, EffectId, EffectKind, Engine, Event, EventSubject};
use framework::{Answer, PodKey, Time, Uid, WallOffset};

/// The machines that turn effects into requests.
pub(super) struct Effects {
    api_dispatcher: ApiDispatcher,
    event_recorder: EventRecorder,
}

impl Effects {
    pub(super) fn new(limits: Limits, options: event_recorder::Options, seed: u64) -> Self {
        Self {
            api_dispatcher: ApiDispatcher::new(limits, seed),
            event_recorder: EventRecorder::new(options, seed),
        }
    }

    pub(super) fn set_wall_offset(&mut self, offset: WallOffset) {
        self.api_dispatcher.set_wall_offset(offset);
        self.event_recorder.set_wall_offset(offset);
    }

    /// Adds an effect. Returns the event that it is, for the log.
    pub(super) fn add(&mut self, effect: Effect, engine: &Engine, now: Time) -> Option<Event> {
        match effect.kind {
            EffectKind::Event(event) => {
                let is_known = event.subject != EventSubject::Pod
                    || knows(engine, &event.regarding, &event.uid);
                match is_known {
                    true => self.event_recorder.record(event.clone(), now),
                    false => self.event_recorder.record_last(event.clone(), now),
                }
                Some(event)
            }
            kind => {
                self.api_dispatcher.add(Effect { id: effect.id, kind }, now);
                None
            }
        }
    }

    pub(super) fn pod_deleted(&mut self, pod: &PodKey, uid: &Uid, now: Time) {
        self.event_recorder.pod_deleted(pod, uid, now);
    }

    pub(super) fn handle_reply(
        &mut self,
        source: RequestSource,
        id: RequestId,
        reply: Reply,
        now: Time,
    ) {
        match source {
            RequestSource::EventRecorder => self.event_recorder.handle_reply(id, reply, now),
            _ => self.api_dispatcher.handle_reply(id, reply, now),
        }
    }

    pub(super) fn tick(&mut self, now: Time) {
        self.api_dispatcher.tick(now);
        self.event_recorder.tick(now);
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.api_dispatcher.next_deadline(), self.event_recorder.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn take_answers(&mut self) -> Vec<(EffectId, Answer)> {
        // Their measurements belong to the dispatcher of a scheduler, which a role does not have.
        drop(self.api_dispatcher.take_finished_calls());
        self.api_dispatcher.take_answers()
    }

    pub(super) fn take_requests(&mut self) -> impl Iterator<Item = (RequestSource, Request)> {
        let calls = self.api_dispatcher.take_requests().into_iter();
        let events = self.event_recorder.take_requests().into_iter();
        calls
            .map(|request| (RequestSource::ApiDispatcher, request))
            .chain(events.map(|request| (RequestSource::EventRecorder, request)))
    }

    pub(super) fn take_failed_calls(&mut self) -> impl Iterator<Item = FailedCall> {
        let calls = self.api_dispatcher.take_failed_calls();
        calls.into_iter().chain(self.event_recorder.take_failed_calls())
    }

    /// Events that were dropped.
    pub(super) const fn dropped_events(&self) -> &DroppedEvents {
        self.event_recorder.dropped()
    }

    /// Drops the calls that were not sent.
    pub(super) fn stop(&mut self, now: Time) {
        self.api_dispatcher.stop();
        self.event_recorder.stop(now);
    }

    /// Whether no call is in flight after [`stop`](Self::stop).
    pub(super) fn is_drained(&self) -> bool {
        self.api_dispatcher.unfinished() == 0
    }
}

/// Whether the pod has not been deleted.
fn knows(engine: &Engine, pod: &PodKey, uid: &Uid) -> bool {
    let is_pending = engine.pending_pod(pod).is_some_and(|pod| pod.uid == *uid);
    is_pending || engine.world().placed(uid).is_some()
}
