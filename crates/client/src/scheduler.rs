//! The engine with what it needs to act on the world: everything of the daemon but I/O.

use engine::ports::Ports;
use engine::{Attempt, Change, Effect, EffectKind, Engine, Event};
use framework::Time;

use crate::executor::{Executor, Failure};
use crate::recorder::Recorder;
use crate::request::{Reply, Request, RequestId};

/// Pods are not taken up while this many effects wait for their answers: the API server is the
/// bottleneck then, and what is decided later is decided on fresher state.
const MAX_UNFINISHED: usize = 2048;

/// Which machine a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The effect executor.
    Executor,
    /// The event recorder.
    Recorder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The state of the cluster is not known in full: no decision is taken.
    Syncing,
    Running,
    /// No pod is taken up any more; what is under way comes to its end.
    Stopping,
}

/// A scheduler: changes and replies go in, requests come out.
///
/// It takes no decision before [`synced`](Self::synced), and none after [`stop`](Self::stop).
pub struct Scheduler {
    engine: Engine,
    executor: Executor,
    recorder: Recorder,
    phase: Phase,
    /// Events since somebody last asked.
    events: Vec<Event>,
}

impl Scheduler {
    /// A scheduler that knows of nothing yet.
    pub const fn new(engine: Engine, executor: Executor, recorder: Recorder) -> Self {
        Self { engine, executor, recorder, phase: Phase::Syncing, events: Vec::new() }
    }

    /// The engine, to look into.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine, for questions that need its buffers.
    pub const fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// The effect executor, to look into.
    pub const fn executor(&mut self) -> &mut Executor {
        &mut self.executor
    }

    /// The event recorder, to look into.
    pub const fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// Takes in a change of the world.
    pub fn apply(&mut self, change: Change, now: Time, ports: &mut Ports<'_>) {
        self.engine.apply(change, now, ports);
        self.carry_out_effects(now, ports);
    }

    /// Every watch has told the whole state it found: decisions may begin.
    pub fn synced(&mut self) {
        if self.phase == Phase::Syncing {
            self.phase = Phase::Running;
        }
    }

    /// Takes the reply to a request of one of the machines.
    pub fn reply(
        &mut self,
        sender: Sender,
        id: RequestId,
        reply: Reply,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        match sender {
            Sender::Executor => self.executor.reply(id, reply, now),
            Sender::Recorder => self.recorder.reply(id, reply, now),
        }
        self.carry_out_effects(now, ports);
    }

    /// Does what has become due.
    pub fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        self.engine.tick(now, ports);
        self.executor.tick(now);
        self.recorder.tick(now);
        self.carry_out_effects(now, ports);
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let engine = self.engine.next_deadline();
        let machines = [self.executor.next_deadline(), self.recorder.next_deadline()];
        engine.into_iter().chain(machines.into_iter().flatten()).min()
    }

    /// Whether a pod may be taken up now.
    pub fn takes_pods(&self, now: Time) -> bool {
        self.phase == Phase::Running
            && self.executor.unfinished() < MAX_UNFINISHED
            && !self.executor.is_throttled(now)
    }

    /// Tries the pod whose turn it is, unless none may be taken up now.
    pub fn schedule_one(&mut self, now: Time, ports: &mut Ports<'_>) -> Option<Attempt> {
        if !self.takes_pods(now) {
            return None;
        }
        let attempt = self.engine.schedule_one(now, ports);
        self.carry_out_effects(now, ports);
        attempt
    }

    /// The requests to send now.
    pub fn requests(&mut self) -> impl Iterator<Item = (Sender, Request)> {
        let effects = self.executor.requests().into_iter();
        let events = self.recorder.requests().into_iter();
        let effects = effects.map(|request| (Sender::Executor, request));
        effects.chain(events.map(|request| (Sender::Recorder, request)))
    }

    /// The events recorded since the last call, for the log.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Events that were not written because too many were waiting.
    pub const fn events_dropped(&self) -> u64 {
        self.recorder.dropped()
    }

    /// What failed for good since the last call and has nobody else to tell of it.
    pub fn take_failures(&mut self) -> impl Iterator<Item = Failure> {
        self.executor.failures().into_iter().chain(self.recorder.failures())
    }

    /// Takes up no more pods. What was not sent yet is dropped: its pods are pending still, for
    /// whoever schedules next.
    pub fn stop(&mut self, now: Time) {
        self.phase = Phase::Stopping;
        self.executor.stop(now);
        self.recorder.stop(now);
    }

    /// Whether all that was sent has been answered.
    pub fn is_drained(&self) -> bool {
        self.executor.unfinished() == 0
    }

    /// Hands effects to the machines and answers to the engine, until neither has more.
    fn carry_out_effects(&mut self, now: Time, ports: &mut Ports<'_>) {
        loop {
            let effects = self.engine.take_effects();
            for effect in effects {
                self.carry_out(effect, now);
            }
            let answers = self.executor.answers();
            if answers.is_empty() {
                return;
            }
            for (effect, answer) in answers {
                self.engine.answer(effect, &answer, now, ports);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, now: Time) {
        match effect.kind {
            EffectKind::Event(event) => {
                self.events.push(event.clone());
                self.recorder.record(event, now);
            }
            kind => self.executor.submit(Effect { id: effect.id, kind }, now),
        }
    }
}
