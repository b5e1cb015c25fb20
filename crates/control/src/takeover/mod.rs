//! The takeover: the steps of a scheduler before its first decision, because another one may have
//! worked before it.
//!
//! - Its caches must show everything that happened before it began ([`catch_up`]).
//! - A bind of a process that crashed may still be under way. Each Binding names the
//!   resourceVersion of its pod. If the scheduler changes that version first, the bind is refused,
//!   or it was faster and the pod is seen to be bound. The write patches the status of the pod. It
//!   is called a *fence* ([`EffectKind::TouchPod`](engine::EffectKind)).
//!
//! A predecessor had a limited number of requests in flight. A [bounded](Fencing::Bounded) takeover
//! fences as many pods before the first decision, the pods that it was most likely binding
//! ([`suspects`]), and waits for the answers for less than a second. Some further pods are fenced
//! beside the decisions ([`fences`]). Every bind and every condition that the scheduler writes is a
//! fence of its own pod as well. A [strict](Fencing::Strict) takeover fences every pending pod
//! first.

mod catch_up;
mod fences;
mod suspects;
mod written;

use std::time::Duration;

use engine::{EffectId, Engine};
use framework::{Answer, PodKey, Time};

use self::catch_up::CatchUp;
pub use self::catch_up::Relist;
pub use self::fences::FenceLimits;
use self::fences::Fences;
use crate::failed_call::FailedCall;

/// The pods that a scheduler fences whose predecessor may have crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    /// The pods that the predecessor was most likely binding.
    Bounded(FenceLimits),
    /// All, before the first decision (`--strict-takeover`).
    Strict,
}

impl Default for Fencing {
    fn default() -> Self {
        Self::Bounded(FenceLimits::default())
    }
}

/// The beginning of a takeover.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) fencing: Fencing,
    /// Whether requests of a predecessor may be under way.
    pub(crate) may_have_crashed: bool,
    /// Whether the caches were filled before, so that they may be old.
    pub(crate) were_synced: bool,
}

/// The reason why a takeover holds up decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unready {
    /// Pods are being fenced.
    Fencing,
    /// The caches may be older than the takeover.
    CatchingUp,
}

/// A step of a takeover, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeoverNotice {
    /// The takeover begins.
    Began {
        /// Number of pending pods.
        pending: usize,
        /// Whether requests of a predecessor may be under way.
        may_have_crashed: bool,
    },
    /// The caches are current, and pods are fenced.
    Fences {
        /// Number of pending pods.
        pending: usize,
        /// Number of pods that are fenced before the first decision.
        first: usize,
        /// Number of pods that are fenced beside the decisions.
        later: usize,
    },
    /// Decisions begin.
    Completed {
        /// Time since the beginning.
        took: Duration,
        /// Number of pods that were fenced, or were to be.
        fenced: usize,
        /// Number of fences without an answer. Earlier binds of these pods may still be carried
        /// out.
        unanswered: usize,
    },
    /// The last pod was fenced beside the decisions.
    LaterCompleted {
        /// Time since the beginning of the takeover.
        took: Duration,
        /// Number of pods that were fenced beside the decisions.
        fenced: usize,
    },
}

/// A takeover in progress.
#[derive(Debug)]
pub(crate) struct Takeover {
    stage: Stage,
    began: Time,
    /// Whether the log has been told that decisions begin.
    has_completed: bool,
    notices: Vec<TakeoverNotice>,
}

#[derive(Debug)]
enum Stage {
    CatchingUp {
        catch_up: CatchUp,
        /// The limits of the fences that follow, if any do.
        then: Option<FenceLimits>,
    },
    Fencing(Fences),
}

impl Takeover {
    pub(crate) fn begin(start: &Start, engine: &Engine, now: Time) -> Self {
        let (pending, may_have_crashed) = (engine.pending().count(), start.may_have_crashed);
        let catch_up = CatchUp::begin(start, engine, now);
        let mut notices = vec![TakeoverNotice::Began { pending, may_have_crashed }];
        let then = match start.fencing {
            Fencing::Bounded(limits) => may_have_crashed.then_some(limits),
            Fencing::Strict => {
                let first = catch_up.fenced();
                notices.push(TakeoverNotice::Fences { pending, first, later: 0 });
                None
            }
        };
        let stage = Stage::CatchingUp { catch_up, then };
        Self { stage, began: now, has_completed: false, notices }
    }

    /// Handles a pod that was reported. As long as the caches may be old, it may have to be
    /// fenced.
    pub(crate) fn consider(&mut self, pod: &PodKey, engine: &Engine, now: Time) {
        if let Stage::CatchingUp { catch_up, .. } = &mut self.stage {
            catch_up.consider(pod, engine, now);
        }
    }

    /// Handles an answer. Returns whether it belongs to a fence.
    pub(crate) fn answer(&mut self, effect: EffectId, answer: &Answer) -> bool {
        match &mut self.stage {
            Stage::CatchingUp { catch_up, .. } => catch_up.answer(effect, answer),
            Stage::Fencing(fences) => fences.answer(effect, answer),
        }
    }

    /// Notes that all kinds of a relist have been listed again.
    pub(crate) fn listed(&mut self, relist: Relist) {
        if let Stage::CatchingUp { catch_up, .. } = &mut self.stage {
            catch_up.listed(relist);
        }
    }

    /// Gives up what has taken too long, and wants the fences that are due.
    pub(crate) fn tick(&mut self, engine: &Engine, now: Time) {
        match &mut self.stage {
            Stage::CatchingUp { catch_up, .. } => catch_up.tick(engine, now),
            Stage::Fencing(fences) => fences.tick(engine, now),
        }
    }

    /// Goes on to the fences once the caches are current. Returns whether the fences begin.
    pub(crate) fn begin_fences(&mut self, engine: &Engine, now: Time) -> bool {
        let Stage::CatchingUp { catch_up, then: Some(limits) } = &self.stage else { return false };
        if !catch_up.is_complete(engine) {
            return false;
        }
        let pending = engine.pending().count();
        let fences = Fences::begin(*limits, catch_up.own_write(), engine, now);
        let (first, later) = fences.planned();
        self.notices.push(TakeoverNotice::Fences { pending, first, later });
        self.stage = Stage::Fencing(fences);
        true
    }

    /// Notes for the log what is complete.
    pub(crate) fn note_progress(&mut self, engine: &Engine, now: Time) {
        if !self.has_completed && self.unready(engine).is_none() {
            self.has_completed = true;
            let (fenced, unanswered) = self.fenced();
            let took = now.since(self.began);
            self.notices.push(TakeoverNotice::Completed { took, fenced, unanswered });
        }
        if let Stage::Fencing(fences) = &mut self.stage
            && let Some(fenced) = fences.take_later_fenced()
        {
            let took = now.since(self.began);
            self.notices.push(TakeoverNotice::LaterCompleted { took, fenced });
        }
    }

    /// Takes the pods to fence now. The effect of each is [noted](Self::touched) before anything
    /// else.
    pub(crate) fn take_wanted(&mut self) -> Vec<PodKey> {
        match &mut self.stage {
            Stage::CatchingUp { catch_up, .. } => catch_up.take_wanted(),
            Stage::Fencing(fences) => fences.take_wanted(),
        }
    }

    /// Notes the effect that fences a wanted pod.
    pub(crate) fn touched(&mut self, effect: EffectId) {
        match &mut self.stage {
            Stage::CatchingUp { catch_up, .. } => catch_up.touched(effect),
            Stage::Fencing(fences) => fences.touched(effect),
        }
    }

    /// Returns the number of pods fenced before the first decision, and how many of these fences
    /// have no answer.
    fn fenced(&self) -> (usize, usize) {
        match &self.stage {
            Stage::CatchingUp { catch_up, .. } => (catch_up.fenced(), catch_up.unanswered()),
            Stage::Fencing(fences) => (fences.planned().0, fences.unanswered()),
        }
    }

    /// Returns the time at which [`tick`](Self::tick) is due next.
    pub(crate) fn next_deadline(&self, engine: &Engine) -> Option<Time> {
        match &self.stage {
            Stage::CatchingUp { catch_up, .. } => catch_up.next_deadline(engine),
            Stage::Fencing(fences) => fences.next_deadline(),
        }
    }

    /// Returns why decisions are held up, or `None` if pods may be scheduled.
    pub(crate) fn unready(&self, engine: &Engine) -> Option<Unready> {
        match &self.stage {
            Stage::CatchingUp { catch_up, then } => {
                let fences_follow = then.is_some() && catch_up.is_complete(engine);
                catch_up.unready(engine).or(fences_follow.then_some(Unready::Fencing))
            }
            Stage::Fencing(fences) => fences.unready(engine),
        }
    }

    /// Returns whether the takeover is complete. Without a pod to fence and without a new list it
    /// goes on, because the first pod that comes may be an old one.
    pub(crate) fn is_complete(&self, engine: &Engine) -> bool {
        match &self.stage {
            Stage::CatchingUp { catch_up, then } => then.is_none() && catch_up.is_complete(engine),
            Stage::Fencing(fences) => fences.is_complete(engine),
        }
    }

    pub(crate) fn take_relists(&mut self) -> Vec<Relist> {
        match &mut self.stage {
            Stage::CatchingUp { catch_up, .. } => catch_up.take_relists(),
            Stage::Fencing(_) => Vec::new(),
        }
    }

    pub(crate) fn take_given_up(&mut self) -> Option<FailedCall> {
        match &mut self.stage {
            Stage::CatchingUp { catch_up, .. } => catch_up.take_given_up(),
            Stage::Fencing(fences) => fences.take_given_up(),
        }
    }

    pub(crate) fn take_notices(&mut self) -> Vec<TakeoverNotice> {
        std::mem::take(&mut self.notices)
    }
}
