//! The nodes of a ranking within a set of nodes.

use std::cmp::Reverse;

use framework::{NodeIx, NodeTier};

use super::draw::distinct_below;

/// The nodes of a set that are not rejected by themselves, and their tiers.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// A node of each tier, and the number of its nodes in the set.
    pub(crate) tiers: Vec<NodeTier>,
    /// In the order of the nodes.
    pub(super) nodes: Vec<Member>,
}

/// A node of a set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) node: NodeIx,
    /// The place of its tier in the list of tiers.
    pub(super) tier: usize,
    /// Its local score.
    pub(super) score: i64,
}

/// The feasible nodes of a set with their totals, in the order of the nodes.
#[derive(Debug)]
pub(crate) struct Totals(Vec<(NodeIx, i64)>);

impl Members {
    /// Returns the feasible nodes, given what is added to the scores of each tier; `None` for a
    /// tier that is not feasible.
    pub(crate) fn totals(self, added: &[Option<i64>]) -> Totals {
        let total = |own: Member| Some((own.node, own.score + added[own.tier]?));
        Totals(self.nodes.into_iter().filter_map(total).collect())
    }
}

impl Totals {
    /// Number of feasible nodes.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the highest total, and the nodes that have it.
    pub(crate) fn best(&self) -> Option<(i64, Vec<NodeIx>)> {
        let best = self.0.iter().map(|(_, total)| *total).max()?;
        let tied = self.0.iter().filter(|(_, total)| *total == best);
        Some((best, tied.map(|(node, _)| *node).collect()))
    }

    /// Returns the `count` nodes with the highest totals, with these, the highest first. Draws
    /// among equally good nodes if not all of them are wanted.
    pub(crate) fn top(mut self, count: usize, rng: &mut fastrand::Rng) -> Vec<(NodeIx, i64)> {
        self.0.sort_by_key(|(_, total)| Reverse(*total));
        let mut top = Vec::new();
        for level in self.0.chunk_by(|one, other| one.1 == other.1) {
            let wanted = level.len().min(count - top.len());
            let places = distinct_below(level.len(), wanted, rng);
            top.extend(places.into_iter().map(|place| level[place]));
        }
        top
    }
}
