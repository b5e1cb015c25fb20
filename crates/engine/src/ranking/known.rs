//! The memory of one lane.

use framework::Kept;

use super::failures::Failures;
use super::local::LocalScores;
use super::nodes::Ranking;
use crate::world::LogReader;

/// Number of pods of a lane without a ranking after one that could not be made.
pub(super) const PODS_AFTER_REFUSAL: u32 = 1000;

/// The memory of a lane.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The number of the last use.
    pub(super) last_used: u64,
    /// Whether the lane has had one pod only.
    pub(super) is_new: bool,
    /// Number of pods that are still decided without a ranking.
    waits: u32,
    /// Boxed, because most lanes hold nothing.
    ranking: Option<Box<Ranking>>,
    /// The local scores, if the lane does not share them.
    local: LocalScores,
    pub(crate) failures: Failures,
    kept: Kept,
    /// Number of bytes that all this takes, as of the end of the last attempt.
    pub(super) bytes: usize,
    /// The state of the change log that the kept values show.
    state: Option<u64>,
}

impl Known {
    /// Of the first pod of a lane.
    pub(super) fn new() -> Self {
        Self { is_new: true, ..Self::default() }
    }

    pub(super) fn measure(&mut self) {
        let of_plugins = size_of::<u64>() * self.kept.size();
        let ranking = self.ranking.as_deref().map_or(0, Ranking::bytes);
        self.bytes = ranking + self.local.bytes() + self.failures.bytes() + of_plugins;
    }

    /// Begins an attempt: returns what the plugins have kept, with the nodes that have changed
    /// since.
    pub(super) fn resume(&mut self, log: &mut LogReader<'_>) -> Kept {
        let shown = self.state.replace(log.revision()).filter(|_| !self.kept.is_empty());
        let changed = shown.and_then(|state| log.changed_since(state));
        std::mem::take(&mut self.kept).next_attempt(changed)
    }

    /// Ends an attempt: keeps the values of plugins for the next one. Forgets the ranking if its
    /// tiers have changed in an attempt that did not use it.
    pub(super) fn suspend(&mut self, mut kept: Kept) {
        if kept.take_rekeyed() {
            self.drop_keys();
        }
        self.kept = kept;
    }

    pub(super) const fn has_ranking(&self) -> bool {
        self.ranking.is_some()
    }

    /// Returns the ranking, which may be empty, and the local scores of the lane; `None` if the
    /// lane goes without a ranking for this pod.
    pub(super) fn ranking_mut(&mut self) -> Option<(&mut Ranking, &mut LocalScores)> {
        if self.waits > 0 {
            self.waits -= 1;
            return None;
        }
        Some((self.ranking.get_or_insert_default(), &mut self.local))
    }

    fn drop_ranking(&mut self) {
        (self.ranking, self.local) = (None, LocalScores::default());
    }

    /// Forgets all that is sorted by the keys of nodes, which have changed.
    pub(super) fn drop_keys(&mut self) {
        self.drop_ranking();
        self.failures.drop_verdicts();
    }

    /// Notes that the lane cannot be ranked.
    pub(super) fn refuse(&mut self) {
        self.drop_ranking();
        self.waits = PODS_AFTER_REFUSAL;
    }

    /// Forgets everything, because a full pass has decided otherwise.
    pub(super) fn distrust(&mut self) {
        self.refuse();
        self.forget();
    }

    /// Forgets everything. Its memory stays counted until the next [measurement](Self::measure).
    pub(super) fn forget(&mut self) {
        let Self { last_used, is_new, waits, bytes, .. } = *self;
        *self = Self { last_used, is_new, waits, bytes, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use framework::{CycleState, NodeIx};

    use super::super::local::LocalScore;
    use super::*;
    use crate::world::ChangeLog;

    fn hold_ranking(known: &mut Known) {
        let (ranking, _) = known.ranking_mut().unwrap();
        ranking.insert(NodeIx::new(9), &[1], LocalScore::of(0).unwrap()).unwrap();
    }

    #[test]
    fn lane_goes_without_a_ranking_after_a_refusal() {
        let mut known = Known::new();
        hold_ranking(&mut known);
        known.refuse();
        let refused = (0..2 * PODS_AFTER_REFUSAL).take_while(|_| known.ranking_mut().is_none());
        assert_eq!(refused.count(), PODS_AFTER_REFUSAL as usize);
        assert!(known.ranking_mut().is_some_and(|(ranking, _)| ranking.is_empty()));
    }

    #[test]
    fn values_of_plugins_are_kept_with_the_nodes_that_changed_since() {
        let (mut known, mut log) = (Known::default(), ChangeLog::default());
        let mut state = CycleState::new();
        state.resume(known.resume(&mut log.reader()));
        state.keep(7_u8, 3);
        known.suspend(state.suspend());
        known.measure();
        assert_eq!(known.bytes, 24);
        for node in [5, 3, 5] {
            log.push_for_test(NodeIx::new(node));
        }
        state.resume(known.resume(&mut log.reader()));
        let (value, changed) = state.take_kept::<u8>().unwrap();
        assert_eq!((value, &*changed.nodes), (7, &[3, 5].map(NodeIx::new)[..]));
        known.suspend(state.suspend());
        state.resume(known.resume(&mut log.reader()));
        assert!(state.take_kept::<u8>().is_none(), "the plugin did not keep it again");
    }

    #[test]
    fn ranking_is_dropped_if_tiers_change_in_an_attempt_that_does_not_use_it() {
        let (mut known, log) = (Known::default(), ChangeLog::default());
        let mut state = CycleState::new();
        for rekeys in [false, true] {
            hold_ranking(&mut known);
            // For example, the pod is nominated to a node, and a Service has changed its
            // constraints.
            state.resume(known.resume(&mut log.reader()));
            if rekeys {
                state.rekey();
            }
            known.suspend(state.suspend());
            let (ranking, _) = known.ranking_mut().unwrap();
            assert_eq!(ranking.is_empty(), rekeys);
        }
    }
}
