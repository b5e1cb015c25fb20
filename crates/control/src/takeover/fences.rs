//! The fences of a bounded takeover: some before the first decision, and some beside the decisions.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use engine::{EffectId, Engine};
use framework::{Answer, PodKey, Time};

use super::Unready;
use super::suspects::{Suspect, suspects};
use super::written::Written;
use crate::api_dispatcher::Limits;
use crate::failed_call::FailedCall;

/// Maximum time that fences hold up the first decision. An API server answers them within a few
/// hundred milliseconds; a webhook that hangs would hold up all tenants.
const LONGEST_WAIT: Duration = Duration::from_millis(750);

/// Interval of the fences beside the decisions.
const INTERVAL: Duration = Duration::from_millis(100);

/// The numbers of pods that a bounded takeover fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FenceLimits {
    /// Maximum number before the first decision: as many as a predecessor may have had requests in
    /// flight.
    pub first: usize,
    /// Maximum number in all, unless `first` is more.
    pub most: usize,
    /// At most one in this number of pending pods is fenced, unless `first` is more.
    pub one_in: usize,
}

impl Default for FenceLimits {
    fn default() -> Self {
        Self { first: Limits::default().max_in_flight, most: 1000, one_in: 20 }
    }
}

impl FenceLimits {
    /// Returns the maximum number of fences beside the decisions.
    fn later(&self, pending: usize) -> usize {
        self.most.min(pending / self.one_in.max(1)).saturating_sub(self.first)
    }
}

/// The fences of a bounded takeover.
#[derive(Debug)]
pub(super) struct Fences {
    /// Number of pods fenced before the first decision, and beside the decisions at most.
    planned: (usize, usize),
    /// Time until which the first fences hold up decisions; `None` once they do not.
    hold_until: Option<Time>,
    /// The pods to fence now, not yet taken.
    wanted: Vec<PodKey>,
    /// The first fences without an answer.
    open: BTreeSet<EffectId>,
    /// Pods that the first fences have found bound. The watch has to show them.
    bound: Vec<Written>,
    /// The pods to fence beside the decisions.
    later: VecDeque<Suspect>,
    /// Time of the next of them.
    next_later: Time,
    /// Number of pods fenced beside the decisions, not yet taken for the log.
    later_fenced: Option<usize>,
    /// The fences beside the decisions that have no answer.
    open_later: BTreeSet<EffectId>,
    /// The first fences that were given up, not yet taken for the log.
    given_up: Option<FailedCall>,
}

impl Fences {
    /// Fences the pods that a predecessor was most likely binding. Versions from `own_write` on are
    /// newer than the takeover.
    pub(super) fn begin(limits: FenceLimits, own_write: u64, engine: &Engine, now: Time) -> Self {
        let most = limits.first + limits.later(engine.pending().count());
        let mut first: VecDeque<Suspect> = suspects(engine, own_write).take(most).collect();
        let later = first.split_off(limits.first.min(first.len()));
        Self {
            planned: (first.len(), later.len()),
            hold_until: Some(now + LONGEST_WAIT),
            wanted: first.into_iter().map(|suspect| suspect.pod).collect(),
            open: BTreeSet::new(),
            bound: Vec::new(),
            later_fenced: (!later.is_empty()).then_some(0),
            later,
            next_later: now + INTERVAL,
            open_later: BTreeSet::new(),
            given_up: None,
        }
    }

    /// Returns the number of pods fenced before the first decision, and beside the decisions at
    /// most.
    pub(super) const fn planned(&self) -> (usize, usize) {
        self.planned
    }

    pub(super) fn take_wanted(&mut self) -> Vec<PodKey> {
        std::mem::take(&mut self.wanted)
    }

    /// Notes the effect that fences a wanted pod.
    pub(super) fn touched(&mut self, effect: EffectId) {
        let open = if self.hold_until.is_some() { &mut self.open } else { &mut self.open_later };
        open.insert(effect);
    }

    /// Returns the number of first fences without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.open.len()
    }

    /// Handles an answer. Returns whether it belongs to a fence.
    pub(super) fn answer(&mut self, effect: EffectId, answer: &Answer) -> bool {
        if self.open.remove(&effect) {
            self.bound.extend(Written::of(answer).filter(|written| written.is_bound));
            return true;
        }
        self.open_later.remove(&effect)
    }

    /// Gives up first fences that have taken too long, and wants the next fence beside the
    /// decisions.
    pub(super) fn tick(&mut self, engine: &Engine, now: Time) {
        if self.holds(engine) {
            if self.hold_until.take_if(|until| *until <= now).is_some() && !self.open.is_empty() {
                self.given_up = Some(self.give_up());
            }
            return;
        }
        self.hold_until = None;
        if self.next_later <= now
            && let Some(suspect) = self.next_open(engine)
        {
            self.wanted.push(suspect.pod);
            self.later_fenced = self.later_fenced.map(|fenced| fenced + 1);
            self.next_later = now + INTERVAL;
        }
    }

    /// Removes the next pod whose earlier binds nothing has stopped, and those before it.
    fn next_open(&mut self, engine: &Engine) -> Option<Suspect> {
        std::iter::from_fn(|| self.later.pop_front()).find(|suspect| suspect.is_open(engine))
    }

    fn give_up(&self) -> FailedCall {
        FailedCall {
            action: "stopping earlier binds of",
            object: format!("{} pods", self.open.len()),
            error: format!(
                "their status could not be patched within {LONGEST_WAIT:?}; until it is, a bind of a scheduler that \
                 crashed may still be carried out"
            ),
        }
    }

    /// Whether the first fences hold up decisions.
    fn holds(&self, engine: &Engine) -> bool {
        let is_shown = |written: &Written| written.is_shown(engine);
        self.hold_until.is_some() && !(self.open.is_empty() && self.bound.iter().all(is_shown))
    }

    pub(super) fn unready(&self, engine: &Engine) -> Option<Unready> {
        self.holds(engine).then_some(Unready::Fencing)
    }

    /// Returns whether all fences were sent and answered.
    pub(super) fn is_complete(&self, engine: &Engine) -> bool {
        let is_answered = self.open.is_empty() && self.open_later.is_empty();
        is_answered && self.later.is_empty() && !self.holds(engine)
    }

    /// Returns the time at which [`tick`](Self::tick) is due next.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let next_later = (!self.later.is_empty()).then_some(self.next_later);
        self.hold_until.or(next_later)
    }

    /// Returns the number of pods fenced beside the decisions, once, when the last one has been.
    pub(super) fn take_later_fenced(&mut self) -> Option<usize> {
        self.later_fenced.take_if(|_| self.later.is_empty())
    }

    pub(super) fn take_given_up(&mut self) -> Option<FailedCall> {
        self.given_up.take()
    }
}
