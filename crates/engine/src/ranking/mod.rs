//! Rankings: the feasible nodes of a class of pods in the order of their scores, kept from one pod to the
//! next.
//!
//! The pods of one template and profile are a class. As long as the verdicts and scores of their plugins
//! depend only on the [node or its group](framework::FilterScope), only the nodes in the change log have to
//! be looked at again. The decision is that of a full pass: the same best nodes, in the same order for the
//! seeded draw. A class also holds what its plugins [keep](framework::Kept).
//!
//! `ranking/nodes.rs` has the order of one class; `cycle/ranked.rs` repairs it and decides by it.

mod nodes;

use std::collections::HashMap;
use std::sync::Arc;

use framework::{Kept, NodeIx, Pod, Template};

pub(crate) use self::nodes::{Basis, Overflow, Ranking};

use crate::profile::Profile;
use crate::world::ChangeLog;

/// Maximum number of classes that are remembered. One more forgets the half that was used least recently.
const MAX_CLASSES: usize = 4096;
/// Maximum number of words that all classes hold together, in rankings and in what plugins keep. A node takes
/// a word in each ranking, and up to 2 bytes in a bitmap.
const MAX_WORDS: usize = 1 << 27;
/// Number of pods of a class without a ranking before its first one. Many pods are the only ones of their
/// class, and a ranking costs more than one full pass.
const PODS_BEFORE_FIRST: u32 = 1;
/// Number of pods of a class without a ranking after one that could not be made.
const PODS_AFTER_REFUSAL: u32 = 1000;

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
    classes: HashMap<Class, Known>,
    /// Number of uses.
    clock: u64,
    /// Number of words that all classes hold.
    words: usize,
    /// Number of decisions.
    decisions: u64,
}

/// What is known of a class that was used.
#[derive(Debug, Default)]
pub(crate) struct Known {
    last_used: u64,
    /// Number of pods that are still decided without a ranking.
    waits: u32,
    ranking: Option<Ranking>,
    kept: Kept,
    /// The state of the change log that the kept values show.
    state: Option<u64>,
}

impl Known {
    fn words(&self) -> usize {
        self.ranking.as_ref().map_or(0, Ranking::table_len) + self.kept.size()
    }

    /// Begins an attempt: returns what the plugins have kept, with the nodes that have changed since.
    pub(crate) fn resume(&mut self, log: &ChangeLog) -> Kept {
        let changed = self.state.and_then(|state| log.since(state)).map(|entries| {
            let mut nodes: Vec<NodeIx> = entries.map(|entry| entry.node).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes.into()
        });
        self.state = Some(log.state());
        std::mem::take(&mut self.kept).next_attempt(changed)
    }

    /// Keeps the values of plugins for the next attempt. Forgets the ranking if its groups have changed in an
    /// attempt that did not use it.
    pub(crate) fn suspend(&mut self, mut kept: Kept) {
        if kept.take_regrouped() {
            self.drop_ranking();
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

    /// Forgets the ranking, whose groups have changed.
    pub(crate) fn drop_ranking(&mut self) {
        self.ranking = None;
    }

    /// Notes that the class cannot be ranked.
    pub(crate) fn refuse(&mut self) {
        self.ranking = None;
        self.waits = PODS_AFTER_REFUSAL;
    }

    /// Forgets everything, because a full pass has decided otherwise.
    pub(crate) fn distrust(&mut self) {
        self.refuse();
        (self.kept, self.state) = (Kept::default(), None);
    }
}

impl Rankings {
    /// Takes out what is known of a class, until it is [put back](Self::put_back); `None` for its first pod.
    pub(crate) fn take(&mut self, class: &Class) -> Option<Known> {
        self.clock += 1;
        let last_used = self.clock;
        if let Some(known) = self.classes.get_mut(class) {
            let known = std::mem::take(known);
            self.words -= known.words();
            return Some(Known { last_used, ..known });
        }
        if self.classes.len() == MAX_CLASSES {
            self.forget_half();
        }
        let known = Known { last_used, waits: PODS_BEFORE_FIRST - 1, ..Known::default() };
        self.classes.insert(class.clone(), known);
        None
    }

    /// Puts back what is known of a class.
    pub(crate) fn put_back(&mut self, class: &Class, known: Known) {
        let Some(place) = self.classes.get_mut(class) else { return };
        self.words += known.words();
        *place = known;
        while self.words > MAX_WORDS {
            self.drop_oldest();
        }
    }

    /// Counts a decision by a ranking; returns the number of decisions.
    pub(crate) const fn count_decision(&mut self) -> u64 {
        self.decisions += 1;
        self.decisions
    }

    /// Returns the number of decisions.
    pub(crate) const fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Forgets what the class that was used least recently holds.
    fn drop_oldest(&mut self) {
        let holding = self.classes.values_mut().filter(|known| known.words() > 0);
        let Some(oldest) = holding.min_by_key(|known| known.last_used) else {
            self.words = 0;
            return;
        };
        self.words -= oldest.words();
        let Known { last_used, waits, .. } = *oldest;
        *oldest = Known { last_used, waits, ..Known::default() };
    }

    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.classes.values().map(|known| known.last_used).collect();
        let (_, middle, _) = uses.select_nth_unstable(MAX_CLASSES / 2);
        let middle = *middle;
        self.classes.retain(|_, known| known.last_used > middle);
        self.words = self.classes.values().map(Known::words).sum();
    }
}

#[cfg(test)]
mod tests;
