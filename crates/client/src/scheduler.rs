//! The engine together with the machines that carry out its effects: the daemon without its I/O.

use engine::ports::Ports;
use engine::{Attempt, Change, Effect, EffectKind, Engine, Event};
use framework::Time;

use crate::api_dispatcher::ApiDispatcher;
use crate::event_recorder::EventRecorder;
use crate::failed_call::FailedCall;
use crate::request::{Reply, Request, RequestId};

/// Maximum number of effects without an answer at which pods are scheduled. Above it the API server
/// is the bottleneck, and a later decision can use fresher state.
const MAX_UNFINISHED_EFFECTS: usize = 2048;

/// The machine that made a request and takes the reply to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSource {
    /// The [API dispatcher](ApiDispatcher).
    ApiDispatcher,
    /// The [event recorder](EventRecorder).
    EventRecorder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Some informers have not synced. No pod is scheduled.
    Syncing,
    Running,
    /// No pod is scheduled any more. Requests in flight are completed.
    Stopping,
}

/// A scheduler that takes changes and replies and returns requests.
///
/// It schedules no pod before [`set_synced`](Self::set_synced) or after [`stop`](Self::stop).
pub struct Scheduler {
    engine: Engine,
    api_dispatcher: ApiDispatcher,
    event_recorder: EventRecorder,
    phase: Phase,
    /// Events that have not been taken for the log.
    events: Vec<Event>,
}

impl Scheduler {
    /// Creates a scheduler whose caches are empty.
    pub const fn new(
        engine: Engine,
        api_dispatcher: ApiDispatcher,
        event_recorder: EventRecorder,
    ) -> Self {
        let phase = Phase::Syncing;
        Self { engine, api_dispatcher, event_recorder, phase, events: Vec::new() }
    }

    /// Returns the engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the engine for queries that use its buffers.
    pub const fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the API dispatcher.
    pub const fn api_dispatcher(&self) -> &ApiDispatcher {
        &self.api_dispatcher
    }

    /// Returns the event recorder.
    pub const fn event_recorder(&self) -> &EventRecorder {
        &self.event_recorder
    }

    /// Applies a change that an informer reported.
    pub fn apply(&mut self, change: Change, now: Time, ports: &mut Ports<'_>) {
        self.engine.apply(change, now, ports);
        self.dispatch_effects(now, ports);
    }

    /// Allows scheduling to begin, once every informer has synced.
    pub fn set_synced(&mut self) {
        if self.phase == Phase::Syncing {
            self.phase = Phase::Running;
        }
    }

    /// Passes the reply to a request to the machine that made the request.
    pub fn handle_reply(
        &mut self,
        source: RequestSource,
        id: RequestId,
        reply: Reply,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        match source {
            RequestSource::ApiDispatcher => self.api_dispatcher.handle_reply(id, reply, now),
            RequestSource::EventRecorder => self.event_recorder.handle_reply(id, reply, now),
        }
        self.dispatch_effects(now, ports);
    }

    /// Runs the timers that are due.
    pub fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        self.engine.tick(now, ports);
        self.api_dispatcher.tick(now);
        self.event_recorder.tick(now);
        self.dispatch_effects(now, ports);
    }

    /// Returns the time at which [`tick`](Self::tick) is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.engine.next_deadline(),
            self.api_dispatcher.next_deadline(),
            self.event_recorder.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns whether a pod may be scheduled now.
    pub fn can_schedule(&self, now: Time) -> bool {
        self.phase == Phase::Running
            && self.api_dispatcher.unfinished() < MAX_UNFINISHED_EFFECTS
            && !self.api_dispatcher.is_throttled(now)
    }

    /// Runs the scheduling cycle of the next pod in the queue, if [one may be
    /// scheduled](Self::can_schedule) now.
    pub fn schedule_one(&mut self, now: Time, ports: &mut Ports<'_>) -> Option<Attempt> {
        if !self.can_schedule(now) {
            return None;
        }
        let attempt = self.engine.schedule_one(now, ports);
        self.dispatch_effects(now, ports);
        attempt
    }

    /// Takes the requests to send now.
    pub fn take_requests(&mut self) -> impl Iterator<Item = (RequestSource, Request)> {
        let api_calls = self.api_dispatcher.take_requests().into_iter();
        let events = self.event_recorder.take_requests().into_iter();
        let api_calls = api_calls.map(|request| (RequestSource::ApiDispatcher, request));
        api_calls.chain(events.map(|request| (RequestSource::EventRecorder, request)))
    }

    /// Takes the events recorded since the last call, for the log.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the number of events that were dropped because too many were waiting.
    pub const fn events_dropped(&self) -> u64 {
        self.event_recorder.dropped()
    }

    /// Takes the API calls that failed since the last call, for the log.
    pub fn take_failed_calls(&mut self) -> impl Iterator<Item = FailedCall> {
        let api_calls = self.api_dispatcher.take_failed_calls().into_iter();
        api_calls.chain(self.event_recorder.take_failed_calls())
    }

    /// Stops scheduling and drops the API calls that were not sent. Their pods stay pending and are
    /// scheduled by the next scheduler that starts.
    pub fn stop(&mut self) {
        self.phase = Phase::Stopping;
        self.api_dispatcher.stop();
        self.event_recorder.stop();
    }

    /// Returns whether all API calls of effects have finished.
    pub const fn is_drained(&self) -> bool {
        self.api_dispatcher.unfinished() == 0
    }

    /// Passes effects to the machines and answers to the engine until there are no more of either.
    fn dispatch_effects(&mut self, now: Time, ports: &mut Ports<'_>) {
        loop {
            let effects = self.engine.take_effects();
            for effect in effects {
                self.dispatch(effect, now);
            }
            let answers = self.api_dispatcher.take_answers();
            if answers.is_empty() {
                return;
            }
            for (effect, answer) in answers {
                self.engine.answer(effect, &answer, now, ports);
            }
        }
    }

    fn dispatch(&mut self, effect: Effect, now: Time) {
        match effect.kind {
            EffectKind::Event(event) => {
                self.events.push(event.clone());
                self.event_recorder.record(event, now);
            }
            kind => self.api_dispatcher.add(Effect { id: effect.id, kind }, now),
        }
    }
}
