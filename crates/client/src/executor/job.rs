//! One effect on its way: what to send next, and what a reply makes of it.

use std::time::Duration;

use engine::{EffectId, Eviction};
use framework::{Answer, Binding, PodKey, StatusPatch, Time, Uid, Write};
use serde_json::Value;

use super::call::{self, Call};
use super::object::Object;
use super::outcome::{Outcome, refusal};
use super::pace;
use crate::backoff::Backoff;
use crate::extender;

/// How often a status patch is tried.
const STATUS_TRIES: u32 = 4;

/// Pause before a pod is read again that the scheduler may not read: people have to help first.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(30);

/// Pauses of one job never start over.
const NEVER: Duration = Duration::MAX;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    Bind(Binding),
    ExtenderBind {
        extender: usize,
        binding: Binding,
    },
    Write(Write),
    ReadPod(PodKey),
    PatchPodStatus(StatusUpdate),
    /// First the condition is patched, then the pod is deleted.
    Evict(Eviction),
}

/// A status patch of a pod.
#[derive(Debug)]
pub(super) struct StatusUpdate {
    pub(super) pod: PodKey,
    pub(super) uid: Uid,
    pub(super) observed_generation: i64,
    pub(super) patch: StatusPatch,
}

/// What a reply makes of a job.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// It is over.
    Finished(Answer),
    /// Something is done, and the next thing is to be sent.
    Next,
    /// It is to be tried again after a pause, because of this.
    Again { pause: Duration, text: String },
}

/// An effect that is not finished.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: EffectId,
    pub(super) work: Work,
    /// The end of the pause before the next try.
    pub(super) not_before: Option<Time>,
    tries: u32,
    backoff: Backoff,
    /// When a request that the server would not take or could not be sent is given up.
    patience_ends: Option<Time>,
}

impl Job {
    pub(super) const fn new(id: EffectId, work: Work) -> Self {
        let backoff = match &work {
            // As kube-scheduler does.
            Work::PatchPodStatus(_) | Work::Evict(_) => {
                Backoff::new(Duration::from_millis(10), 5.0, Duration::from_secs(10), 0.1, NEVER)
            }
            Work::Bind(_) | Work::ExtenderBind { .. } | Work::Write(_) => {
                Backoff::new(Duration::from_millis(100), 2.0, Duration::from_secs(5), 0.5, NEVER)
            }
            Work::ReadPod(_) => pace::backoff(),
        };
        Self { id, work, not_before: None, tries: 0, backoff, patience_ends: None }
    }

    pub(super) fn object(&self) -> Object {
        match &self.work {
            Work::Bind(Binding { pod, .. })
            | Work::ExtenderBind { binding: Binding { pod, .. }, .. }
            | Work::ReadPod(pod)
            | Work::Evict(Eviction { pod, .. })
            | Work::PatchPodStatus(StatusUpdate { pod, .. }) => Object::Pod(pod.clone()),
            Work::Write(write) => Object::of_write(write),
        }
    }

    /// What is being done, for the log.
    pub(super) const fn what(&self) -> &'static str {
        match &self.work {
            Work::Bind(_) => "binding",
            Work::ExtenderBind { .. } => "binding through an extender",
            Work::Write(_) => "patching",
            Work::ReadPod(_) => "reading",
            Work::PatchPodStatus(_) => "patching the status",
            Work::Evict(_) => "evicting",
        }
    }

    /// Whether it is tried for as long as it takes.
    pub(super) const fn is_endless(&self) -> bool {
        matches!(self.work, Work::ReadPod(_))
    }

    /// Whether it counts against what the API server is asked at once and over time. An extender
    /// that hangs must not keep others from the server.
    pub(super) const fn takes_room(&self) -> bool {
        !matches!(self.work, Work::ExtenderBind { .. })
    }

    pub(super) const fn is_status_patch(&self) -> bool {
        matches!(self.work, Work::PatchPodStatus(_))
    }

    /// Whether it has no object any more, and no sense, where the pod is gone.
    pub(super) const fn is_about_living_pod(&self) -> bool {
        matches!(self.work, Work::PatchPodStatus(_) | Work::Evict(_))
    }

    /// Takes in a later status patch of the same pod, if this is one; gives back anything else.
    pub(super) fn join(&mut self, later: Self) -> Option<Self> {
        match (&mut self.work, later.work) {
            (Work::PatchPodStatus(update), Work::PatchPodStatus(later))
                if update.uid == later.uid =>
            {
                update.join(later);
                self.tries = 0;
                None
            }
            (_, work) => Some(Self { work, ..later }),
        }
    }

    /// What to send next.
    pub(super) fn call(&self, now: Time) -> Call {
        match &self.work {
            Work::Bind(binding) => call::bind(binding),
            Work::ExtenderBind { extender, binding } => call::bind_by_extender(*extender, binding),
            Work::Write(write) => call::write(write),
            Work::ReadPod(pod) => call::read(pod),
            Work::PatchPodStatus(StatusUpdate { pod, uid, observed_generation, patch }) => {
                call::patch_status(pod, uid, *observed_generation, patch, now)
            }
            Work::Evict(eviction) => match &eviction.condition_message {
                Some(message) => call::patch_disruption_target(eviction, message, now),
                None => call::delete(eviction),
            },
        }
    }

    /// Takes what came of what was sent.
    pub(super) fn replied(
        &mut self,
        outcome: Outcome,
        patience: Duration,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> Step {
        self.tries += 1;
        match &self.work {
            Work::Bind(_) => self.written(outcome, |_| None, patience, now, rng),
            Work::ExtenderBind { .. } => Step::Finished(bound_by_extender(outcome)),
            Work::Write(_) => self.written(outcome, parse, patience, now, rng),
            Work::PatchPodStatus(_) => self.repeatable(outcome, now, rng),
            Work::Evict(_) => self.evicted(outcome, now, rng),
            Work::ReadPod(_) => self.read(outcome, now, rng),
        }
    }

    /// A write that must not happen twice: only what was not carried out for certain is sent again.
    fn written(
        &mut self,
        outcome: Outcome,
        object: impl FnOnce(&[u8]) -> Option<Value>,
        patience: Duration,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> Step {
        let (pause, text, give_up): (_, _, fn(String) -> Answer) = match outcome {
            Outcome::Done(body) => return Step::Finished(Answer::Ok(object(&body))),
            Outcome::Refused { status, text } => return Step::Finished(refusal(status, text)),
            Outcome::Unknown(text) => return Step::Finished(Answer::Unknown(text)),
            Outcome::Throttled { pause, text } => (pause, text, Answer::Throttled),
            Outcome::NotSent(text) => (Duration::ZERO, text, Answer::Error),
        };
        let pause = pause.max(self.backoff.next(now, rng));
        match now + pause <= *self.patience_ends.get_or_insert(now + patience) {
            true => Step::Again { pause, text },
            false => Step::Finished(give_up(text)),
        }
    }

    /// Nothing but the pod itself, or its absence, is an answer: the room on its node depends on
    /// it. Everything else is asked again, for as long as it takes.
    fn read(&mut self, outcome: Outcome, now: Time, rng: &mut fastrand::Rng) -> Step {
        let (pause, text) = match outcome {
            Outcome::Done(body) => match parse(&body) {
                Some(pod) => return Step::Finished(Answer::Ok(Some(pod))),
                None => (Duration::ZERO, "the answer is not JSON".to_owned()),
            },
            Outcome::Refused { status: 404, text } => return Step::Finished(Answer::Gone(text)),
            Outcome::Refused { status: 401 | 403, text } => (FORBIDDEN_PAUSE, text),
            Outcome::Throttled { pause, text } => (pause, text),
            Outcome::Refused { text, .. } | Outcome::NotSent(text) | Outcome::Unknown(text) => {
                (Duration::ZERO, text)
            }
        };
        Step::Again { pause: pause.max(self.backoff.next(now, rng)), text }
    }

    /// A step of an eviction. The pod is named with its UID, so both steps may happen twice.
    fn evicted(&mut self, outcome: Outcome, now: Time, rng: &mut fastrand::Rng) -> Step {
        let step = self.repeatable(outcome, now, rng);
        if let (Step::Finished(Answer::Ok(_)), Work::Evict(eviction)) = (&step, &mut self.work)
            && eviction.condition_message.take().is_some()
        {
            self.tries = 0;
            return Step::Next;
        }
        step
    }

    /// What may happen twice is tried again whatever came, a few times.
    fn repeatable(&mut self, outcome: Outcome, now: Time, rng: &mut fastrand::Rng) -> Step {
        let (pause, text) = match outcome {
            Outcome::Done(_) => return Step::Finished(Answer::ok()),
            Outcome::Refused { status, text } if is_another_pod(status, &text) => {
                return Step::Finished(Answer::Gone(text));
            }
            Outcome::Refused { status, text } if status != 409 => {
                return Step::Finished(refusal(status, text));
            }
            Outcome::Throttled { pause, text } => (pause, text),
            Outcome::Refused { text, .. } | Outcome::NotSent(text) | Outcome::Unknown(text) => {
                (Duration::ZERO, text)
            }
        };
        match self.tries < STATUS_TRIES {
            true => Step::Again { pause: pause.max(self.backoff.next(now, rng)), text },
            false => Step::Finished(Answer::Error(text)),
        }
    }
}

impl StatusUpdate {
    /// What is said later counts.
    fn join(&mut self, later: Self) {
        self.observed_generation = later.observed_generation;
        let (patch, later) = (&mut self.patch, later.patch);
        patch.condition = later.condition.or(patch.condition.take());
        patch.nominated_node_name = later.nominated_node_name.or(patch.nominated_node_name.take());
    }
}

/// What an extender says of a bind is final, as in kube-scheduler: it is not asked again before the pod
/// has been tried anew. Only where it may be at work still the outcome is unknown.
fn bound_by_extender(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Done(body) => match extender::binding_result(&body) {
            Ok(()) => Answer::ok(),
            Err(text) => Answer::Error(text),
        },
        Outcome::Unknown(text) => Answer::Unknown(text),
        Outcome::Refused { text, .. }
        | Outcome::Throttled { text, .. }
        | Outcome::NotSent(text) => Answer::Error(text),
    }
}

/// Whether the pod is not there, or another has its name: a UID in a patch is a precondition, which
/// the server calls a conflict (of a patch in other words than of a deletion) or an invalid change of
/// the UID.
fn is_another_pod(status: u16, text: &str) -> bool {
    match status {
        404 => true,
        409 => text.contains("UID in precondition") || text.contains("UID in the precondition"),
        422 => text.contains("metadata.uid"),
        _ => false,
    }
}

fn parse(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok()
}
