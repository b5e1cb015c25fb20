//! The one scheduling loop: a thread that owns the engine.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use client::Request;
use client::scheduler::{Scheduler, Sender};
use engine::ports::{Ports, Probe};
use engine::{Attempt, Event, Outcome};
use framework::Time;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{debug, info, trace, warn};

use super::{Clock, Message};
use crate::extender::Extenders;

/// Messages taken in before the next pod is tried, so that neither keeps the other waiting.
const MESSAGES_A_ROUND: usize = 256;
/// The shortest rest: a deadline that has just passed must not turn into a busy loop.
const SHORTEST_REST: Duration = Duration::from_millis(1);
/// How often the state is shown to the observer while there is no rest.
const OBSERVED_EVERY: Duration = Duration::from_secs(1);
/// How long requests under way are waited for after the order to stop.
const DRAIN: Duration = Duration::from_secs(20);

/// A request to send, and the machine that wants to know what became of it.
#[derive(Debug)]
pub struct Outgoing {
    /// The machine.
    pub sender: Sender,
    /// The request.
    pub request: Request,
}

/// Measures the work, and is shown the state about once a second.
pub trait Observer: Probe {
    /// Looks at the scheduler.
    fn observe(&mut self, scheduler: &Scheduler);

    /// Every watch has told its state: decisions begin.
    fn synced(&mut self);
}

/// The scheduling loop. It blocks its thread, so that must be one of its own.
pub struct SchedulingLoop<O> {
    scheduler: Scheduler,
    extenders: Extenders,
    messages: Receiver<Message>,
    outgoing: UnboundedSender<Outgoing>,
    clock: Clock,
    observer: O,
    observed: Time,
    /// Watches that have not told their whole state yet.
    unsynced: usize,
    /// When to end, come what may.
    ends: Option<Time>,
}

/// The ports of the engine for one call.
macro_rules! ports {
    ($self:expr) => {
        &mut Ports { extenders: &mut $self.extenders, probe: &mut $self.observer }
    };
}

impl<O: Observer> SchedulingLoop<O> {
    /// A loop that decides once `watches` of them have told their state.
    pub const fn new(
        scheduler: Scheduler,
        extenders: Extenders,
        messages: Receiver<Message>,
        outgoing: UnboundedSender<Outgoing>,
        clock: Clock,
        observer: O,
        watches: usize,
    ) -> Self {
        Self {
            scheduler,
            extenders,
            messages,
            outgoing,
            clock,
            observer,
            observed: Time::ZERO,
            unsynced: watches,
            ends: None,
        }
    }

    /// Runs until it is told to stop and all that is under way has ended.
    pub fn run(mut self) {
        while !self.has_ended() {
            self.take_in();
            let now = self.clock.now();
            self.scheduler.tick(now, ports!(self));
            let attempt = self.scheduler.schedule_one(now, ports!(self));
            self.send();
            match attempt {
                Some(attempt) => tell_attempt(&attempt),
                None => self.rest(),
            }
            if now.since(self.observed) >= OBSERVED_EVERY {
                self.observe(now);
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.ends.is_some_and(|end| self.scheduler.is_drained() || self.clock.now() >= end)
    }

    fn take_in(&mut self) {
        for _ in 0..MESSAGES_A_ROUND {
            let Ok(message) = self.messages.try_recv() else { return };
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        let now = self.clock.now();
        match message {
            Message::Changes(changes, _room) => {
                for update in changes {
                    let change = self.extenders.take(update);
                    self.scheduler.apply(change, now, ports!(self));
                }
            }
            Message::Synced => self.synced(),
            Message::Reply(sender, id, reply) => {
                self.scheduler.reply(sender, id, reply, now, ports!(self));
            }
            Message::Stop => {
                self.scheduler.stop(now);
                self.ends = Some(now + DRAIN);
            }
        }
    }

    fn synced(&mut self) {
        self.unsynced = self.unsynced.saturating_sub(1);
        if self.unsynced == 0 {
            self.scheduler.synced();
            self.observer.synced();
            info!("Handlers synced");
        }
    }

    fn send(&mut self) {
        for event in self.scheduler.take_events() {
            tell_event(&event);
        }
        for (sender, request) in self.scheduler.requests() {
            // The receiver lives as long as this loop, but for the very end.
            let _ = self.outgoing.send(Outgoing { sender, request });
        }
        for failure in self.scheduler.take_failures() {
            warn!(object = failure.object, err = failure.text, "{} failed", failure.what);
        }
    }

    /// Waits for a message, or until something is due.
    fn rest(&mut self) {
        let now = self.clock.now();
        self.observe(now);
        let deadline = self.scheduler.next_deadline().into_iter().chain(self.ends).min();
        let received = match deadline {
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => {
                self.messages.recv_timeout(self.clock.until(deadline).max(SHORTEST_REST))
            }
        };
        match received {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody is left who could say anything.
            Err(RecvTimeoutError::Disconnected) => self.ends = Some(now),
        }
    }

    fn observe(&mut self, now: Time) {
        self.observed = now;
        self.observer.observe(&self.scheduler);
    }
}

fn tell_attempt(attempt: &Attempt) {
    let pod = &attempt.pod.key;
    match &attempt.outcome {
        Outcome::Assumed(node) => trace!(%pod, node = &**node, "Assumed pod on node"),
        Outcome::Unschedulable(err) => {
            debug!(%pod, err, "Unable to schedule pod; no fit; waiting");
        }
        Outcome::Error(err) => warn!(%pod, err, "Error scheduling pod; retrying"),
        Outcome::Skipped => debug!(%pod, "Skip schedule deleting pod"),
    }
}

fn tell_event(event: &Event) {
    let (pod, note) = (&event.regarding, event.note.as_str());
    match &*event.reason {
        "Scheduled" => debug!(%pod, note, "Successfully bound pod to node"),
        reason => trace!(%pod, note, "{reason}"),
    }
}
