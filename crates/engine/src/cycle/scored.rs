//! Scored nodes, and the choice of one of the best.

use framework::{Cluster, NodeIx};

use super::settings::TieBreak;

/// Nodes that can take the pod, with their scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scored<'s> {
    pub(crate) nodes: &'s [NodeIx],
    /// Total score of `nodes[i]`; empty for a single node, which needs no score.
    pub(crate) totals: &'s [i64],
    /// Number of nodes that were looked at.
    pub(crate) evaluated: usize,
}

/// The node that a decision chose, with what the search knows of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) node: NodeIx,
    /// Number of nodes that are as good, this one included.
    pub(crate) ties: usize,
    /// Total score; `None` for a single feasible node, which needs no score.
    pub(crate) total: Option<i64>,
    /// Number of feasible nodes.
    pub(crate) feasible: usize,
    /// Number of nodes that were looked at, or whose verdict the ranking knows.
    pub(crate) evaluated: usize,
}

impl<'s> Scored<'s> {
    /// Returns the highest total, if nodes were scored, and the nodes that have it, in order.
    pub(crate) fn best(self) -> (Option<i64>, impl Iterator<Item = NodeIx> + Clone + 's) {
        let best = self.totals.iter().max();
        let nodes = self.nodes.iter().enumerate().filter_map(move |(place, node)| {
            (best.is_none() || self.totals.get(place) == best).then_some(*node)
        });
        (best.copied(), nodes)
    }

    /// Returns one of the best nodes.
    pub(crate) fn choose(
        self,
        tie_break: TieBreak,
        cluster: &Cluster,
        rng: &mut fastrand::Rng,
    ) -> Chosen {
        let (total, mut ties) = self.best();
        let count = ties.clone().count();
        let node = match tie_break {
            TieBreak::FirstByName => ties.min_by_key(|node| cluster.node_name(*node)),
            TieBreak::Random => ties.nth(rng.usize(..count.max(1))),
        };
        Chosen {
            node: node.expect("a search without error leaves a feasible node"),
            ties: count,
            total,
            feasible: self.nodes.len(),
            evaluated: self.evaluated,
        }
    }
}
