//! What a verdict or a score depends on, for pods of one [template](crate::Template). The scheduler keeps
//! what has not changed for the next pod of the template.

use crate::NodeIx;

/// What the verdict of a Filter plugin on a node depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FilterScope {
    /// The whole cluster. Every attempt filters every node.
    #[default]
    Cluster,
    /// The node and the pods on it.
    Node,
    /// The node and the pods on it, and other objects whose state has this number. All verdicts are dropped when the
    /// number changes.
    NodeAsOf(u64),
    /// The [key](crate::Filter::key_set) of the node, and the rest of the cluster. Nodes with equal keys
    /// have equal verdicts. The key changes only with the node and the pods on it, or if the plugin calls
    /// [`CycleState::regroup`](crate::CycleState::regroup).
    Group,
}

/// What the score of a node depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScoreScope {
    /// The whole cluster. Every attempt scores every node.
    #[default]
    Cluster,
    /// The node and the pods on it. If the plugin normalises, the result further depends on which scores
    /// the feasible nodes have, but not on how many nodes have a score.
    Node,
    /// The [key](crate::Score::key_set) of the node, which changes only with the node and the pods on it,
    /// and the rest of the cluster. Nodes with equal keys have equal scores. If the plugin normalises,
    /// the result further depends on which keys the feasible nodes have, but not on how many nodes have
    /// a key.
    Key,
    /// The key of the node, the rest of the cluster, and the groups of feasible nodes with equal keys, from
    /// which [`PreScore::pre_score_groups`](crate::PreScore::pre_score_groups) prepares the scores. The key
    /// changes only with the node and the pods on it, or if the plugin calls
    /// [`CycleState::regroup`](crate::CycleState::regroup). It is asked before PreScore.
    Group,
}

/// The part of a pod that decides about a verdict or a score of the scope `Node`. Pods whose plugins read
/// equal parts share what the scheduler keeps for the nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodPart {
    /// Anything that pods of one [template](crate::Template) have in common.
    #[default]
    Template,
    /// The [requests](crate::PodRequests).
    Requests,
}

/// Feasible nodes that have equal keys for every plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeGroup {
    /// One of the nodes.
    pub node: NodeIx,
    /// Number of nodes.
    pub len: usize,
}
