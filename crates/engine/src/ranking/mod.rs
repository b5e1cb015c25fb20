//! Rankings: the feasible nodes of a class of pods in the order of their scores, kept from one pod to the
//! next.
//!
//! The pods of one template and profile are a class. As long as the verdicts and scores of their plugins
//! are [local](framework::Filter::is_local), only the nodes in the change log have to be looked at again.
//! The decision is that of a full pass: the same best nodes, in the same order for the seeded draw.
//!
//! `ranking/nodes.rs` has the order of one class; `cycle/ranked.rs` repairs it and decides by it.

mod nodes;

use std::collections::HashMap;
use std::sync::Arc;

use framework::{Pod, Template};

pub(crate) use self::nodes::{Basis, Overflow, Ranking};

use crate::profile::Profile;

/// Maximum number of classes that are remembered. One more forgets the half that was used least recently.
const MAX_CLASSES: usize = 4096;
/// Maximum number of nodes in all rankings together. A node takes 12 bytes in each, and up
/// to 2 in a bitmap.
const MAX_NODES: usize = 1 << 27;
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

/// The rankings of the classes that were used last.
#[derive(Debug, Default)]
pub(crate) struct Rankings {
    classes: HashMap<Class, Known>,
    /// Number of uses.
    clock: u64,
    /// Number of nodes in all rankings.
    nodes: usize,
    /// Number of decisions.
    decisions: u64,
}

/// A class that was used.
#[derive(Debug, Default)]
struct Known {
    last_used: u64,
    /// Number of pods that are still decided without a ranking.
    waits: u32,
    ranking: Option<Ranking>,
}

impl Rankings {
    /// Takes out the ranking of a class, which may be empty; `None` if the class has none yet.
    pub(crate) fn take(&mut self, class: &Class) -> Option<Ranking> {
        self.clock += 1;
        let last_used = self.clock;
        if let Some(known) = self.classes.get_mut(class) {
            known.last_used = last_used;
            if known.waits > 0 {
                known.waits -= 1;
                return None;
            }
            let ranking = known.ranking.take().unwrap_or_default();
            self.nodes -= ranking.table_len();
            return Some(ranking);
        }
        if self.classes.len() == MAX_CLASSES {
            self.forget_half();
        }
        let known = Known { last_used, waits: PODS_BEFORE_FIRST - 1, ranking: None };
        self.classes.insert(class.clone(), known);
        None
    }

    /// Keeps the ranking of a class that was [taken](Self::take) out.
    pub(crate) fn keep(&mut self, class: &Class, ranking: Ranking) {
        let Some(known) = self.classes.get_mut(class) else { return };
        self.nodes += ranking.table_len();
        known.ranking = Some(ranking);
        while self.nodes > MAX_NODES {
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

    /// Notes that a class cannot be ranked.
    pub(crate) fn refuse(&mut self, class: &Class) {
        if let Some(known) = self.classes.get_mut(class) {
            known.waits = PODS_AFTER_REFUSAL;
        }
    }

    fn drop_oldest(&mut self) {
        let ranked = self.classes.values_mut().filter(|known| known.ranking.is_some());
        let oldest = ranked.min_by_key(|known| known.last_used);
        let dropped = oldest.and_then(|known| known.ranking.take());
        self.nodes -= dropped.map_or(self.nodes, |ranking| ranking.table_len());
    }

    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.classes.values().map(|known| known.last_used).collect();
        let (_, middle, _) = uses.select_nth_unstable(MAX_CLASSES / 2);
        let middle = *middle;
        self.classes.retain(|_, known| known.last_used > middle);
        let ranked = self.classes.values().filter_map(|known| known.ranking.as_ref());
        self.nodes = ranked.map(Ranking::table_len).sum();
    }
}

#[cfg(test)]
mod tests;
