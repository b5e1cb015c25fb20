//! Local scores: the sum of the scores of plugins that look at one node at a time.

use std::sync::Arc;

use framework::{ChangedNodes, NodeIx, PodRequests};

use super::parts::{Part, divide_table};
use super::unusable::Overflow;
use crate::world::LogReader;

/// The score of a node, or that the node is rejected, in two bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LocalScore(u16);

impl LocalScore {
    /// Of a node that a filter rejects.
    pub(crate) const REJECTED: Self = Self(0);

    /// Returns the score of a feasible node.
    ///
    /// # Errors
    /// [`Overflow`]: it is negative or above 65,534.
    pub(crate) fn of(score: i64) -> Result<Self, Overflow> {
        let raised = u16::try_from(score).ok().and_then(|score| score.checked_add(1));
        raised.map(Self).ok_or(Overflow)
    }

    /// Returns the score; `None` of a node that is rejected.
    pub(crate) fn get(self) -> Option<i64> {
        (self != Self::REJECTED).then(|| i64::from(self.0) - 1)
    }

    /// Returns the score with this [index](Self::index).
    pub(super) fn at(index: usize) -> Self {
        Self(u16::try_from(index).unwrap_or(u16::MAX))
    }

    /// Returns the index in lists by score.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The requests on which local scores depend, if the plugins read only the requests of the pod.
/// Lanes with equal keys share their scores.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LocalKey {
    /// The name of the profile.
    pub(crate) scheduler_name: Arc<str>,
    /// The Filter plugins, by their places in the profile.
    pub(crate) filters: Vec<usize>,
    /// The Score plugins, by their places in the profile.
    pub(crate) scores: Vec<usize>,
    pub(crate) requests: Arc<PodRequests>,
}

/// The scores of all nodes.
#[derive(Debug, Default)]
pub(crate) struct LocalScores {
    /// The state of the change log that the scores show; `None` if they show none.
    state: Option<u64>,
    /// By index.
    scores: Vec<LocalScore>,
}

impl LocalScores {
    /// Returns the nodes to score again, and counts on the caller to do so; `None` for all nodes.
    pub(crate) fn catch_up(
        &mut self,
        log: &mut LogReader<'_>,
        table_len: usize,
    ) -> Option<Arc<ChangedNodes>> {
        let shown = self.state.replace(log.revision());
        let changed = shown.and_then(|state| log.changed_since(state));
        if changed.is_none() {
            self.scores.clear();
        }
        self.scores.resize(table_len.max(self.scores.len()), LocalScore::REJECTED);
        changed
    }

    /// Sets the score of a node; ignores one beyond the table.
    pub(crate) fn set(&mut self, node: NodeIx, score: LocalScore) {
        if let Some(own) = self.scores.get_mut(node.index()) {
            *own = score;
        }
    }

    /// Returns the scores in parts, for [lists](super::divide) of nodes in the table.
    pub(crate) fn parts(&mut self, lists: &[&[NodeIx]]) -> Vec<Part<'_, LocalScore>> {
        divide_table(&mut self.scores, lists)
    }

    pub(crate) fn get(&self, node: NodeIx) -> LocalScore {
        self.scores.get(node.index()).copied().unwrap_or_default()
    }

    /// Number of bytes that the scores take.
    pub(super) fn bytes(&self) -> usize {
        2 * self.scores.capacity()
    }
}
