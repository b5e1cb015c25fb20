//! The nodes of a ranking, the best first.

use framework::NodeIx;

use super::nodes::Ranking;
use super::within::Totals;
use crate::cycle::Chosen;

/// The feasible nodes of a ranking that is up to date.
pub(super) enum Order<'k> {
    /// Of so many nodes. `added` is what is added to the scores of each tier; `None` for a tier
    /// that is not feasible.
    OfAll { ranking: &'k Ranking, added: Vec<Option<i64>>, nodes: usize },
    /// Of a set of so many nodes.
    Within { totals: Totals, nodes: usize },
}

impl Order<'_> {
    /// Returns one of the best nodes.
    pub(super) fn best(&self, rng: &mut fastrand::Rng) -> Option<Chosen> {
        match self {
            Self::OfAll { ranking, added, nodes } => {
                let tied = ranking.best(added);
                let ties = tied.count();
                if ties == 0 {
                    return None;
                }
                let node = tied.nth(rng.usize(..ties))?;
                let (total, feasible) = (tied.total(), ranking.feasible_count(added));
                Some(Chosen { node, ties, total, feasible, evaluated: *nodes })
            }
            Self::Within { totals, nodes } => {
                let (total, tied) = totals.best()?;
                let (ties, feasible) = (tied.len(), totals.len());
                let node = tied[rng.usize(..ties)];
                let total = (feasible > 1).then_some(total);
                Some(Chosen { node, ties, total, feasible, evaluated: *nodes })
            }
        }
    }

    /// Returns the `count` best nodes with their totals; `None` if there is one feasible node at
    /// most, which was not scored.
    pub(super) fn top(self, count: usize, rng: &mut fastrand::Rng) -> Option<Vec<(NodeIx, i64)>> {
        match self {
            Self::OfAll { ranking, added, .. } => {
                let is_scored = ranking.feasible_count(&added) > 1;
                is_scored.then(|| ranking.top(&added, count, rng))
            }
            Self::Within { totals, .. } => (totals.len() > 1).then(|| totals.top(count, rng)),
        }
    }
}
