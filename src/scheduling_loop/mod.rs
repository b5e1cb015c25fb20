//! The scheduling loop: the thread that owns the engine.
//!
//! ```text
//!   API server ──▶ informers, one task per kind ──▶ channel ──▶ scheduling loop, one thread
//!        ▲                                             ▲            │
//!        └───────── one task per request ◀─────────────┼────────────┘ requests
//!                          └───────────────────────────┘ replies
//! ```

mod channel;
mod failure_log;
mod heartbeat;
mod log;
mod questions;
mod relists;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use control::Request;
use control::leader_election::{Notice, Outcome};
use control::scheduler::{RequestSource, Scheduler};
use engine::ports::{Ports, Probe};
use engine::{EffectId, Engine, MovesWanted};
use framework::{Time, WallOffset};
use tokio::sync::SetOnce;
use tokio::sync::mpsc::UnboundedSender;
use tracing::info;

pub use self::channel::{
    EventChannel, EventReceiver, EventSender, LeaseNote, LoopEvent, Place, channel, role_channel,
};
pub(crate) use self::failure_log::FailureLog;
pub use self::heartbeat::{Heartbeat, LoopTurns};
use self::log::log_takeover;
pub(crate) use self::log::{ElectionLog, log_attempt, log_bound, log_event, log_gated};
use self::questions::Copies;
pub use self::questions::{Copied, Question};
pub use self::relists::{RelistRequests, Relists};
use self::snapshot::Snapshots;
pub use self::snapshot::{NodeSnapshot, Snapshot};
use crate::clock::Clock;
use crate::extender::Extenders;
use crate::recorder::Recorder;
use crate::wire::Update;

/// Maximum number of events handled before the next pod is scheduled.
const MAX_EVENTS_PER_ROUND: usize = 256;
/// Shortest wait for an event. It prevents a busy loop when a deadline has just passed.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// Smallest correction of the wall clock that is followed.
const LEAST_CORRECTION: Duration = Duration::from_millis(1);
/// Maximum interval between two calls of the observer.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);
/// Time to wait for the requests in flight after the loop was stopped.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// A request to send, with the machine that takes the reply.
#[derive(Debug)]
pub struct OutgoingRequest {
    /// The machine that made the request.
    pub source: RequestSource,
    /// The request.
    pub request: Request,
}

/// An observer of the scheduling loop, which also receives the measurements of the engine.
pub trait Observer: Probe {
    /// Observes the scheduler, and the number of updates that wait for the loop. The loop calls
    /// this before each wait, and at least about once a second.
    fn observe(&mut self, scheduler: &Scheduler, now: Time, waiting_updates: usize);

    /// Notes that an attempt has ended. Its decision record is the last one of the engine.
    fn attempted(&mut self, engine: &Engine) {
        let _ = engine;
    }

    /// Notes that all informers have synced and scheduling begins.
    fn synced(&mut self);
}

/// The parts of a scheduling loop.
pub struct LoopParts<O> {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The extenders.
    pub extenders: Extenders,
    /// The receiving end of the event channel.
    pub events: EventReceiver,
    /// The channel for requests.
    pub requests: UnboundedSender<OutgoingRequest>,
    /// The channel for plans of moves that the engine wants.
    pub plans: UnboundedSender<(EffectId, MovesWanted)>,
    /// The clock of the daemon.
    pub clock: Clock,
    /// The observer.
    pub observer: O,
    /// Number of informers that have to sync before the first pod is scheduled.
    pub informers: usize,
    /// Set when the scheduler leads, if it takes part in an election.
    pub leading: Arc<SetOnce<()>>,
    /// Notes the turns of the loop.
    pub heartbeat: Arc<Heartbeat>,
    /// Asks informers to list again.
    pub relists: Relists,
    /// Takes what was recorded of the engine, if it is recorded.
    pub recorder: Option<Recorder>,
}

/// A scheduling loop. [`run`](Self::run) blocks, so it needs a separate thread.
pub struct SchedulingLoop<O> {
    scheduler: Scheduler,
    environment: Environment<O>,
    events: EventReceiver,
    requests: UnboundedSender<OutgoingRequest>,
    plans: UnboundedSender<(EffectId, MovesWanted)>,
    clock: Clock,
    last_observed: Time,
    /// Number of informers that have not synced.
    unsynced_informers: usize,
    snapshots: Snapshots,
    copies: Copies,
    relists: Relists,
    recorder: Option<Recorder>,
    wall_offset: WallOffset,
    leading: Arc<SetOnce<()>>,
    election_log: ElectionLog,
    failure_log: FailureLog,
    heartbeat: Arc<Heartbeat>,
    /// Time at which the loop ends even if requests are in flight; set by [`LoopEvent::Stop`].
    drain_deadline: Option<Time>,
}

/// The owners of the ports of the engine.
struct Environment<O> {
    extenders: Extenders,
    observer: O,
}

impl<O: Observer> Environment<O> {
    /// Borrows the ports for one call into the engine.
    const fn ports(&mut self) -> Ports<'_> {
        Ports { extenders: &mut self.extenders, probe: &mut self.observer }
    }
}

impl<O: Observer> SchedulingLoop<O> {
    /// Creates a loop.
    pub fn new(parts: LoopParts<O>) -> Self {
        let LoopParts {
            scheduler,
            extenders,
            events,
            requests,
            plans,
            clock,
            observer,
            informers,
            leading,
            heartbeat,
            relists,
            recorder,
        } = parts;
        Self {
            election_log: ElectionLog::new(scheduler.leader_elector()),
            failure_log: FailureLog::default(),
            scheduler,
            environment: Environment { extenders, observer },
            events,
            requests,
            plans,
            clock,
            last_observed: Time::ZERO,
            unsynced_informers: informers,
            snapshots: Snapshots::default(),
            copies: Copies::default(),
            leading,
            heartbeat,
            relists,
            recorder,
            wall_offset: WallOffset::default(),
            drain_deadline: None,
        }
    }

    /// Runs until the loop is stopped and the requests in flight have ended, or until the scheduler
    /// loses its Lease.
    pub fn run(mut self) -> Outcome {
        loop {
            self.heartbeat.beat();
            let is_up_to_date = self.handle_waiting_events();
            let now = self.clock.now();
            self.follow_wall_clock();
            self.scheduler.tick(now, &mut self.environment.ports());
            // A pod that backs off is popped early only if no change that may help it waits here.
            let may_pop = is_up_to_date || self.scheduler.engine().queue().has_active();
            let attempt = may_pop
                .then(|| self.scheduler.schedule_one(now, &mut self.environment.ports()))
                .flatten();
            if attempt.is_some() {
                self.environment.observer.attempted(self.scheduler.engine());
            }
            self.send_requests();
            self.snapshots.advance(&self.scheduler, now);
            self.copies.advance(&self.scheduler, now);
            let is_idle = is_up_to_date
                && attempt.is_none()
                && self.snapshots.is_idle()
                && self.copies.is_idle()
                && self.recorder.as_ref().is_none_or(Recorder::is_idle);
            attempt.iter().for_each(|own| log_attempt(own, &mut self.failure_log, now));
            self.hand_over_recorded(now);
            if let Some(outcome) = self.outcome() {
                if let (Some(recorder), Some((_, encoder))) =
                    (self.recorder, self.scheduler.recording())
                {
                    recorder.finish(encoder);
                }
                return outcome;
            }
            if is_idle {
                self.wait();
            }
            if now.since(self.last_observed) >= OBSERVE_INTERVAL {
                self.observe(now);
            }
        }
    }

    /// Hands over what was recorded of the engine. A recording that cannot go on ends.
    fn hand_over_recorded(&mut self, now: Time) {
        let (Some(recorder), Some((engine, encoder))) =
            (&mut self.recorder, self.scheduler.recording())
        else {
            return;
        };
        if !recorder.advance(engine, encoder, now) {
            self.recorder = None;
            self.scheduler.end_recording();
        }
    }

    /// Notes a correction of the wall clock. Two readings of it always differ by a little.
    fn follow_wall_clock(&mut self) {
        let shown = self.clock.wall_offset();
        if is_corrected(self.wall_offset, shown) {
            self.wall_offset = shown;
            self.scheduler.set_wall_offset(shown);
        }
    }

    /// Returns how the loop ended, if it has. A scheduler whose requests in flight do not end in
    /// time keeps its Lease until it expires, because these requests may still be carried out.
    fn outcome(&self) -> Option<Outcome> {
        let is_overdue = self.drain_deadline.is_some_and(|deadline| self.clock.now() >= deadline);
        self.scheduler.outcome().or(is_overdue.then_some(Outcome::Stopped))
    }

    /// Handles the events in the channel, up to a limit. Returns whether the channel is empty.
    fn handle_waiting_events(&mut self) -> bool {
        for _ in 0..MAX_EVENTS_PER_ROUND {
            let Ok(event) = self.events.try_recv() else { return true };
            self.handle_event(event);
        }
        false
    }

    fn handle_event(&mut self, event: LoopEvent) {
        self.heartbeat.beat();
        let now = self.clock.now();
        match event {
            LoopEvent::Updates(updates, _place) => {
                for update in updates {
                    let Update { change, object } = update;
                    self.environment.extenders.see(&change, object);
                    self.scheduler.apply(change, now, &mut self.environment.ports());
                }
            }
            LoopEvent::Synced => self.handle_synced(now),
            LoopEvent::Relisted(relist) => {
                if self.relists.is_complete(relist) {
                    self.scheduler.handle_relisted(relist);
                }
            }
            LoopEvent::Reply(source, id, reply) => {
                let ports = &mut self.environment.ports();
                self.scheduler.handle_reply(source, id, reply, now, ports);
            }
            LoopEvent::ExtenderProbed(extender, outcome) => {
                let ports = &mut self.environment.ports();
                self.scheduler.handle_extender_probed(extender, outcome, now, ports);
            }
            LoopEvent::Planned(effect, answer) => {
                let ports = &mut self.environment.ports();
                self.scheduler.handle_planned(effect, answer, now, ports);
            }
            LoopEvent::Snapshot(receiver) => self.snapshots.request(receiver),
            LoopEvent::Question(question) => self.copies.ask(question, &self.scheduler, now),
            LoopEvent::LeaseEvent(event) => self.scheduler.handle_lease_event(&event, now),
            LoopEvent::Note(LeaseNote { event_type, reason, note }) => {
                self.scheduler.record_on_lease(event_type, reason, note, now);
            }
            LoopEvent::Stop => {
                self.scheduler.stop(now);
                self.drain_deadline = Some(now + DRAIN_TIMEOUT);
            }
            LoopEvent::Own(never) => match never {},
        }
    }

    fn handle_synced(&mut self, now: Time) {
        self.unsynced_informers = self.unsynced_informers.saturating_sub(1);
        if self.unsynced_informers == 0 {
            self.scheduler.set_synced(now, &mut self.environment.ports());
            self.environment.observer.synced();
            info!("Handlers synced");
        }
    }

    fn send_requests(&mut self) {
        for notice in self.scheduler.take_notices() {
            self.election_log.log(&notice, self.clock.now());
            if notice == Notice::StartedLeading {
                // A scheduler starts to lead once.
                let _ = self.leading.set(());
            }
        }
        self.scheduler.take_takeover_notices().iter().for_each(log_takeover);
        for relist in self.scheduler.take_relists() {
            self.relists.request(relist);
        }
        for event in self.scheduler.take_events() {
            log_event(&event);
        }
        for (source, request) in self.scheduler.take_requests() {
            // The receiver is only gone if its task has panicked, which ends the process.
            let _ = self.requests.send(OutgoingRequest { source, request });
        }
        for wanted in self.scheduler.take_wanted_moves() {
            let _ = self.plans.send(wanted);
        }
        for call in self.scheduler.take_failed_calls() {
            self.failure_log.log_call(&call, self.clock.now());
        }
    }

    /// Waits for an event or the next deadline.
    fn wait(&mut self) {
        let now = self.clock.now();
        self.observe(now);
        let deadline = self.scheduler.next_deadline().into_iter().chain(self.drain_deadline).min();
        let wait = deadline.map_or(OBSERVE_INTERVAL, |deadline| self.clock.until(deadline));
        match self.events.recv_timeout(wait.clamp(MIN_WAIT, OBSERVE_INTERVAL)) {
            Ok(event) => self.handle_event(event),
            Err(RecvTimeoutError::Timeout) => {}
            // All senders are gone, so no event can arrive.
            Err(RecvTimeoutError::Disconnected) => self.drain_deadline = Some(now),
        }
    }

    fn observe(&mut self, now: Time) {
        self.last_observed = now;
        self.failure_log.end_windows(now);
        let waiting_updates = self.events.waiting_updates();
        self.environment.observer.observe(&self.scheduler, now, waiting_updates);
    }
}

/// Whether two offsets of the wall clock differ by more than two readings of it do.
fn is_corrected(known: WallOffset, shown: WallOffset) -> bool {
    let [known, shown] = [known, shown].map(|offset| offset.wall_time(Time::ZERO));
    known.since(shown).max(shown.since(known)) >= LEAST_CORRECTION
}
