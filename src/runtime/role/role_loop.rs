//! The loop of a role: the thread that owns its state machine.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use control::Request;
use control::leader_election::{LeaderElector, Notice, Outcome};
use control::scheduler::RequestSource;
use engine::ports::Ports;
use engine::{Change, Effect, EffectId, Engine};
use framework::{Answer, Time};
use tokio::sync::SetOnce;
use tokio::sync::mpsc::UnboundedSender;
use tracing::info;

use super::effects::Effects;
use crate::clock::Clock;
use crate::observer::MetricsObserver;
use crate::scheduling_loop::{
    DRAIN_TIMEOUT, ElectionLog, EventReceiver, FailureLog, Heartbeat, LoopEvent, Observer,
    OutgoingRequest, log_event,
};
use crate::wire::Update;

/// Maximum number of events handled before what they led to is carried out.
const MAX_EVENTS_PER_ROUND: usize = 256;
/// Shortest wait for an event. It prevents a busy loop when a deadline has just passed.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// Longest wait, after which the heartbeat beats, and longest time between two observations.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A state machine with an engine, driven by its own loop: the agent, and the scheduler over many
/// clusters.
pub trait Role: Send + 'static {
    /// Events of this role.
    type Event: Send + 'static;

    /// The engine.
    fn engine(&self) -> &Engine;

    /// Applies a watched object.
    fn update(&mut self, update: Update, now: Time, ports: &mut Ports<'_>);

    /// Notes that the watches have shown all objects. A role in an election leads then.
    fn synced(&mut self, now: Time, ports: &mut Ports<'_>);

    /// Handles an event.
    fn event(&mut self, event: Self::Event, now: Time, ports: &mut Ports<'_>);

    /// Handles the answer to an effect of the engine.
    fn effect_answered(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        now: Time,
        ports: &mut Ports<'_>,
    );

    /// Runs the timers that are due.
    fn tick(&mut self, now: Time, ports: &mut Ports<'_>);

    /// Returns the time at which [`tick`](Self::tick) is due next.
    fn next_deadline(&self) -> Option<Time>;

    /// Begins what the role asks for, and returns the effects of its engine. Requests must not be
    /// sent after `not_after`, the end of the authority of this process.
    fn carry_out(&mut self, not_after: Option<Time>) -> Vec<Effect>;
}

/// The loop of a role. [`run`](Self::run) blocks, so it needs a separate thread.
pub(super) struct RoleLoop<R: Role> {
    pub(super) role: R,
    pub(super) effects: Effects,
    pub(super) elector: Option<LeaderElector>,
    pub(super) election_log: ElectionLog,
    pub(super) failure_log: FailureLog,
    pub(super) observer: MetricsObserver,
    pub(super) last_observed: Time,
    pub(super) events: EventReceiver<R::Event>,
    pub(super) requests: UnboundedSender<OutgoingRequest>,
    pub(super) clock: Clock,
    /// Number of informers that have not synced.
    pub(super) unsynced_informers: usize,
    pub(super) leading: Arc<SetOnce<()>>,
    pub(super) heartbeat: Arc<Heartbeat>,
    /// Time at which the loop ends even if requests are in flight.
    pub(super) drain_deadline: Option<Time>,
}

/// Borrows the ports for one call of the role.
macro_rules! ports {
    ($own:ident) => {
        &mut Ports { extenders: &mut (), probe: &mut $own.observer }
    };
}

impl<R: Role> RoleLoop<R> {
    /// Runs until the loop is stopped and the requests in flight have ended, or until the Lease is
    /// lost.
    pub(super) fn run(mut self) -> Outcome {
        loop {
            self.heartbeat.beat();
            let is_up_to_date = self.handle_waiting_events();
            let now = self.clock.now();
            let offset = self.clock.wall_offset();
            self.effects.set_wall_offset(offset);
            if let Some(elector) = &mut self.elector {
                elector.set_wall_offset(offset);
                elector.tick(now);
            }
            self.effects.tick(now);
            self.role.tick(now, ports!(self));
            self.settle(now);
            self.send_requests(now);
            if let Some(outcome) = self.outcome(now) {
                return outcome;
            }
            if is_up_to_date {
                self.wait();
            }
            if now.since(self.last_observed) >= MAX_WAIT {
                self.observe(now);
            }
        }
    }

    fn observe(&mut self, now: Time) {
        self.last_observed = now;
        self.failure_log.end_windows(now);
        self.observer.observe_engine(self.role.engine(), self.elector.as_ref(), now);
        self.observer.count_dropped_events(self.effects.dropped_events());
    }

    fn handle_waiting_events(&mut self) -> bool {
        for _ in 0..MAX_EVENTS_PER_ROUND {
            let Ok(event) = self.events.try_recv() else { return true };
            self.handle(event);
        }
        false
    }

    fn handle(&mut self, event: LoopEvent<R::Event>) {
        let now = self.clock.now();
        match event {
            LoopEvent::Updates(updates, _place) => {
                for update in updates {
                    if let Change::PodDeleted { key, uid } = &update.change {
                        self.effects.pod_deleted(key, uid, now);
                    }
                    self.role.update(update, now, ports!(self));
                }
            }
            LoopEvent::Synced => {
                self.unsynced_informers = self.unsynced_informers.saturating_sub(1);
                if self.unsynced_informers == 0 {
                    self.role.synced(now, ports!(self));
                    self.observer.synced();
                    info!("Handlers synced");
                }
            }
            LoopEvent::Reply(RequestSource::LeaderElector, id, reply) => {
                if let Some(elector) = &mut self.elector {
                    elector.handle_reply(id, reply, now);
                }
            }
            LoopEvent::Reply(source, id, reply) => {
                self.effects.handle_reply(source, id, reply, now);
            }
            LoopEvent::LeaseEvent(event) => {
                if let Some(elector) = &mut self.elector {
                    elector.handle_watch_event(&event, now);
                }
            }
            LoopEvent::Own(event) => self.role.event(event, now, ports!(self)),
            LoopEvent::Stop => self.stop(now),
            // A role asks for none of them.
            LoopEvent::Relisted(_)
            | LoopEvent::Note(_)
            | LoopEvent::Snapshot(_)
            | LoopEvent::Question(_)
            | LoopEvent::ExtenderProbed(..)
            | LoopEvent::Planned(..) => {}
        }
    }

    fn stop(&mut self, now: Time) {
        self.effects.stop(now);
        self.drain_deadline = Some(now + DRAIN_TIMEOUT);
    }

    /// Returns the end of the authority of this process.
    fn not_after(&self) -> Option<Time> {
        self.elector.as_ref().and_then(LeaderElector::authority_ends_at)
    }

    /// Passes effects to the machines and answers to the role until neither is left.
    fn settle(&mut self, now: Time) {
        loop {
            let not_after = self.not_after();
            for effect in self.role.carry_out(not_after) {
                let event = self.effects.add(effect, self.role.engine(), now);
                event.iter().for_each(log_event);
            }
            let answers = self.effects.take_answers();
            if answers.is_empty() {
                return;
            }
            for (effect, answer) in answers {
                self.role.effect_answered(effect, &answer, now, ports!(self));
            }
        }
    }

    fn send_requests(&mut self, now: Time) {
        let mut requests = Vec::new();
        if let Some(elector) = &mut self.elector {
            let election = elector.take_requests().into_iter();
            requests.extend(election.map(|request| (RequestSource::LeaderElector, request)));
            for notice in elector.take_notices() {
                self.election_log.log(&notice, now);
                if notice == Notice::StartedLeading {
                    // A process starts to lead once.
                    let _ = self.leading.set(());
                }
            }
        }
        let not_after = self.not_after();
        let may_act = self.elector.is_none() || not_after.is_some();
        let effects = self.effects.take_requests();
        let effects = effects.map(|(source, request)| (source, Request { not_after, ..request }));
        requests.extend(effects.filter(|_| may_act));
        for (source, request) in requests {
            // The receiver is only gone if its task has panicked, which ends the process.
            let _ = self.requests.send(OutgoingRequest { source, request });
        }
        for call in self.effects.take_failed_calls() {
            self.failure_log.log_call(&call, now);
        }
    }

    fn outcome(&mut self, now: Time) -> Option<Outcome> {
        let deadline = self.drain_deadline;
        if let Some(elector) = &mut self.elector {
            if deadline.is_some() && self.effects.is_drained() {
                elector.release(now);
            }
            if let Some(outcome) = elector.outcome() {
                return Some(outcome);
            }
        } else if deadline.is_some() && self.effects.is_drained() {
            return Some(Outcome::Stopped);
        }
        deadline.filter(|deadline| *deadline <= now).map(|_| Outcome::Stopped)
    }

    /// Waits for an event or the next deadline.
    fn wait(&mut self) {
        let now = self.clock.now();
        self.observe(now);
        let deadlines = [
            self.role.next_deadline(),
            self.effects.next_deadline(),
            self.elector.as_ref().and_then(LeaderElector::next_deadline),
            self.drain_deadline,
        ];
        let deadline = deadlines.into_iter().flatten().min();
        let wait = deadline.map_or(MAX_WAIT, |deadline| self.clock.until(deadline));
        match self.events.recv_timeout(wait.clamp(MIN_WAIT, MAX_WAIT)) {
            Ok(event) => self.handle(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.drain_deadline = Some(now),
        }
    }
}
