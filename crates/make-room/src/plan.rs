//! The answer.

use std::sync::Arc;

use framework::{PodKey, Uid};

use crate::Cost;

/// A move of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The pod that ends. Its successor has another name, unless a StatefulSet makes it.
    pub pod: PodKey,
    /// Its UID.
    pub uid: Uid,
    /// The node that it leaves.
    pub from: Arc<str>,
    /// The node of its successor.
    pub to: Arc<str>,
    /// The cost of the move.
    pub cost: Cost,
}

/// Moves after which the pod fits, in the order in which they are to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The moves.
    pub moves: Vec<Move>,
    /// The node of the pod after the moves.
    pub node: Arc<str>,
    /// The sum of the costs.
    pub cost: Cost,
    /// Whether no plan within the limit of moves costs less. False if the search ended early.
    pub is_cheapest: bool,
}

/// What the search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The pod fits on this node without a move.
    Fits(Arc<str>),
    /// The pod fits after moves.
    Plan(Plan),
    /// No plan was found.
    NoPlan {
        /// Whether there is none within the limit of moves. False if the search ended early.
        is_certain: bool,
    },
    /// The pod cannot be decided, with the reason: a plugin gates it, or no profile is responsible.
    Undecided(String),
}
