//! Rankings: the nodes of a class of pods in the order of their scores, kept from one pod to the next.
//!
//! The pods of one template and profile are a class. As long as the verdicts and scores of their plugins
//! depend only on the [node or its group](framework::FilterScope), only the nodes in the change log have to
//! be looked at again. The decision is that of a full pass: the same best nodes, in the same order for the
//! seeded draw. A class also holds what its plugins [keep](framework::Kept).
//!
//! * `local` has the scores of plugins that look at each node by itself. Classes with equal requests share them.
//! * `nodes` has the order of one class: its nodes by group and local score.
//! * `grouping` finds nodes with equal keys, for many at once.
//! * `cells` finds the n-th of the nodes that are equally good; `blocks` has the cell of each node.
//! * `parts` divides the nodes among threads that filter, score and rank all of them.
//! * `rejections` has the verdicts on the nodes of a class that fits nowhere.
//!
//! `cycle/ranked.rs` decides by a ranking, `cycle/node_pass.rs` repairs it; `cycle/rejected.rs` answers by verdicts.

mod blocks;
mod cells;
mod failures;
mod grouping;
mod local;
mod nodes;
mod parts;
mod rejections;

use std::collections::VecDeque;
use std::sync::Arc;

use framework::{Kept, Pod, Template};
use rustc_hash::FxHashMap;

use self::failures::Failures;
pub(crate) use self::local::{LocalKey, LocalScore, LocalScores};
pub(crate) use self::nodes::{Basis, Ranking, Reads};
pub(crate) use self::parts::{divide, ranges};
pub(crate) use self::rejections::{FilterScopes, GroupKey, Rejections};

use crate::profile::Profile;
use crate::world::LogReader;

/// Maximum number of classes that are remembered. One more forgets the half that was used least recently.
const MAX_CLASSES: usize = 4096;
/// Maximum number of bytes that all classes hold together: those of 1,000 rankings of a million nodes.
const MAX_BYTES: usize = 3 << 30;
/// Maximum number of local scores that classes share. One more forgets those that were used least recently.
const MAX_LOCALS: usize = 256;
/// Number of classes that hold something after their first pod. Many pods are the only ones of their class.
const MAX_NEW: usize = 16;
/// Number of pods of a class without a ranking after one that could not be made.
const PODS_AFTER_REFUSAL: u32 = 1000;

/// A score, or a number of groups and scores, that a ranking has no room for.
#[derive(Debug)]
pub(crate) struct Overflow;

/// The pods of one template and profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Class {
    scheduler_name: Arc<str>,
    template: Template,
}

impl Class {
    /// Returns the class of `pod`; `None` if its template does not say all about it.
    pub(crate) fn of(profile: &Profile, pod: &Pod) -> Option<Self> {
        let scheduler_name = profile.scheduler_name.clone();
        Template::describes(pod).then(|| Self { scheduler_name, template: Template::of(pod) })
    }
}

/// What the classes that were used last hold.
#[derive(Debug, Default)]
pub(crate) struct Rankings {
    classes: FxHashMap<Class, Known>,
    locals: FxHashMap<LocalKey, Local>,
    /// The classes that had their first pod last.
    new: VecDeque<Class>,
    /// Number of uses.
    clock: u64,
    /// Number of bytes that all classes hold.
    bytes: usize,
    /// Number of decisions.
    decisions: u64,
    /// Number of failed attempts among them.
    repeated_rejections: u64,
}

/// What is known of a class.
#[derive(Debug, Default)]
pub(crate) struct Known {
    last_used: u64,
    is_new: bool,
    /// Number of pods that are still decided without a ranking.
    waits: u32,
    ranking: Option<Ranking>,
    pub(crate) failures: Failures,
    kept: Kept,
    /// Number of bytes that ranking and kept values take, as of the end of the last attempt.
    bytes: usize,
    /// The state of the change log that the kept values show.
    state: Option<u64>,
}

/// Local scores, and when they were used.
#[derive(Debug, Default)]
struct Local {
    last_used: u64,
    scores: LocalScores,
}

impl Known {
    fn measure(&mut self) {
        let of_plugins = size_of::<u64>() * self.kept.size();
        let ranking = self.ranking.as_ref().map_or(0, Ranking::bytes);
        self.bytes = ranking + self.failures.bytes() + of_plugins;
    }

    /// Begins an attempt: returns what the plugins have kept, with the nodes that have changed since.
    pub(crate) fn resume(&mut self, log: &mut LogReader<'_>) -> Kept {
        let shown = self.state.replace(log.state()).filter(|_| !self.kept.is_empty());
        let changed = shown.and_then(|state| log.changed_since(state));
        std::mem::take(&mut self.kept).next_attempt(changed)
    }

    /// Keeps the values of plugins for the next attempt. Forgets the ranking if its groups have changed in an
    /// attempt that did not use it.
    pub(crate) fn suspend(&mut self, mut kept: Kept) {
        if kept.take_regrouped() {
            self.drop_keys();
        }
        self.kept = kept;
    }

    /// Takes out the ranking, which may be empty; `None` if the class goes without one for this pod.
    pub(crate) fn take_ranking(&mut self) -> Option<Ranking> {
        if self.waits > 0 {
            self.waits -= 1;
            return None;
        }
        Some(self.ranking.take().unwrap_or_default())
    }

    /// Puts back the ranking.
    pub(crate) fn keep_ranking(&mut self, ranking: Ranking) {
        self.ranking = Some(ranking);
    }

    /// Forgets all that is sorted by the keys of nodes, which have changed.
    pub(crate) fn drop_keys(&mut self) {
        self.ranking = None;
        self.failures.drop_verdicts();
    }

    /// Notes that the class cannot be ranked.
    pub(crate) fn refuse(&mut self) {
        self.ranking = None;
        self.waits = PODS_AFTER_REFUSAL;
    }

    /// Forgets everything, because a full pass has decided otherwise.
    pub(crate) fn distrust(&mut self) {
        self.refuse();
        self.forget();
    }

    fn forget(&mut self) {
        let Self { last_used, is_new, waits, .. } = *self;
        *self = Self { last_used, is_new, waits, ..Self::default() };
    }
}

/// Classes.
impl Rankings {
    /// Takes out what is known of a class, until it is [put back](Self::put_back).
    pub(crate) fn take(&mut self, class: &Class) -> Known {
        self.clock += 1;
        let last_used = self.clock;
        if let Some(known) = self.classes.get_mut(class) {
            let known = std::mem::take(known);
            self.bytes -= known.bytes;
            return Known { last_used, is_new: false, ..known };
        }
        if self.classes.len() == MAX_CLASSES {
            self.forget_half();
        }
        self.classes.insert(class.clone(), Known::default());
        Known { last_used, is_new: true, ..Known::default() }
    }

    /// Returns what is known of a class beside a [use](Self::take) of it. Its memory is counted at the next use.
    pub(crate) fn known_mut(&mut self, class: &Class) -> Option<&mut Known> {
        self.classes.get_mut(class)
    }

    /// Puts back what is known of a class.
    pub(crate) fn put_back(&mut self, class: &Class, mut known: Known) {
        let Some(place) = self.classes.get_mut(class) else { return };
        let is_new = known.is_new;
        known.measure();
        self.bytes += known.bytes;
        *place = known;
        if is_new {
            self.new.push_back(class.clone());
            self.drop_oldest_new();
        }
        self.limit();
    }

    /// Forgets what a class holds that has had no second pod for long.
    fn drop_oldest_new(&mut self) {
        if self.new.len() <= MAX_NEW {
            return;
        }
        let oldest = self.new.pop_front().and_then(|class| self.classes.get_mut(&class));
        if let Some(oldest) = oldest.filter(|known| known.is_new) {
            self.bytes -= oldest.bytes;
            oldest.forget();
        }
    }

    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.classes.values().map(|known| known.last_used).collect();
        let (_, middle, _) = uses.select_nth_unstable(MAX_CLASSES / 2);
        let middle = *middle;
        self.classes.retain(|_, known| known.last_used > middle);
        let of_classes: usize = self.classes.values().map(|known| known.bytes).sum();
        let of_locals: usize = self.locals.values().map(|local| local.scores.bytes()).sum();
        self.bytes = of_classes + of_locals;
    }

    /// Counts a decision by a ranking; returns the number of decisions.
    pub(crate) const fn count_decision(&mut self) -> u64 {
        self.decisions += 1;
        self.decisions
    }

    /// Counts a failed attempt that was answered from what is known of its class.
    pub(crate) const fn count_repeated_rejection(&mut self) {
        self.repeated_rejections += 1;
    }

    /// Returns the number of failed attempts that were answered from what is known of their classes.
    pub(crate) const fn repeated_rejections(&self) -> u64 {
        self.repeated_rejections
    }

    /// Returns the number of decisions.
    pub(crate) const fn decisions(&self) -> u64 {
        self.decisions
    }
}

/// Local scores.
impl Rankings {
    /// Takes out the scores of a key, until they are [put back](Self::put_back_local).
    pub(crate) fn take_local(&mut self, key: &LocalKey) -> LocalScores {
        let Some(local) = self.locals.get_mut(key) else { return LocalScores::default() };
        self.bytes -= local.scores.bytes();
        std::mem::take(&mut local.scores)
    }

    /// Puts back the scores of a key.
    pub(crate) fn put_back_local(&mut self, key: &LocalKey, scores: LocalScores) {
        self.bytes += scores.bytes();
        let local = Local { last_used: self.clock, scores };
        match self.locals.get_mut(key) {
            Some(own) => *own = local,
            None => drop(self.locals.insert(key.clone(), local)),
        }
        if self.locals.len() > MAX_LOCALS {
            self.drop_oldest_local();
        }
        self.limit();
    }

    fn oldest_local(&self) -> Option<(&LocalKey, &Local)> {
        self.locals.iter().min_by_key(|(_, local)| local.last_used)
    }

    fn drop_oldest_local(&mut self) {
        let key = self.oldest_local().map(|(key, _)| key.clone());
        let local = key.and_then(|key| self.locals.remove(&key));
        self.bytes -= local.map_or(0, |local| local.scores.bytes());
    }
}

/// The limit of memory.
impl Rankings {
    /// Forgets what was used least recently, until all classes hold little enough.
    fn limit(&mut self) {
        while self.bytes > MAX_BYTES {
            let local = self.oldest_local().map(|(_, local)| local.last_used);
            let holding = self.classes.values_mut().filter(|known| known.bytes > 0);
            match holding.min_by_key(|known| known.last_used) {
                Some(oldest) if local.is_none_or(|used| oldest.last_used < used) => {
                    self.bytes -= oldest.bytes;
                    oldest.forget();
                }
                _ if local.is_some() => self.drop_oldest_local(),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
