//! The search for the cheapest moves.

mod any_moves;
mod movables;
mod one_node;

use std::sync::Arc;

use engine::ports::Ports;
use engine::{Engine, Supposition, Trial};
use framework::{NodeBits, NodeIx, Pod, Time};

pub(crate) use self::movables::{Decisions, Exhausted, Movables, Step};
use crate::budgets::Budgets;
use crate::{Answer, Cost, Movable, Plan};

/// The limits of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of moves of a plan.
    pub moves: usize,
    /// Maximum number of decisions that are tried.
    pub decisions: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { moves: 10, decisions: 50_000 }
    }
}

/// For which pod room is to be made, and which pods may be moved.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// The pod without a node.
    pub pod: &'q Arc<Pod>,
    /// The pods that may be moved.
    pub movable: &'q [Movable],
    /// The limits of the search.
    pub limits: Limits,
}

/// Looks for the cheapest moves after which the pod fits. Afterwards the engine is as before.
///
/// First it tries for each node what has to leave it, the cheapest nodes first. Then it tries moves
/// of any pods in the order of their cost, up to the cost of the plan that it has, so that it finds
/// moves that make room for other moves and knows whether the plan is the cheapest.
pub fn make_room(engine: &mut Engine, question: &Question<'_>, now: Time) -> Answer {
    let budgets = Budgets::of(engine, question.movable);
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    if let Some(status) = engine.gate(question.pod, now, ports) {
        return Answer::Undecided(status.message());
    }
    engine.suppose(now, ports, |supposed| Search::new(question, budgets, supposed).run(supposed))
}

/// A plan that is found.
#[derive(Debug, Clone)]
struct Found {
    steps: Vec<Step>,
    node: NodeIx,
    cost: Cost,
}

struct Search<'q> {
    question: &'q Question<'q>,
    budgets: Budgets,
    pods: Movables<'q>,
    decisions: Decisions,
}

impl<'q> Search<'q> {
    fn new(
        question: &'q Question<'q>,
        budgets: Budgets,
        supposed: &Supposition<'_, '_, '_>,
    ) -> Self {
        let pods = Movables::new(question.movable, |pod| budgets.allow([pod]), supposed);
        let decisions = Decisions::new(question.limits.decisions);
        Self { question, budgets, pods, decisions }
    }

    fn run(mut self, supposed: &mut Supposition<'_, '_, '_>) -> Answer {
        match supposed.suppose(|supposed| supposed.place(self.question.pod)) {
            None => return Answer::Undecided("no profile is responsible for it".into()),
            Some(Trial::Fits { node, .. }) => {
                return Answer::Fits(supposed.cluster().node_name(node).clone());
            }
            Some(Trial::Failed(status)) => return Answer::Undecided(status.message()),
            Some(_) => {}
        }
        let found = self.moves_of_one_node(supposed);
        let limit = found.as_ref().ok().and_then(|found| found.as_ref()).map(|own| own.cost);
        let cheaper = match found {
            Ok(_) => self.any_moves(limit, supposed),
            Err(Exhausted) => Err(Exhausted),
        };
        let is_certain = cheaper.is_ok();
        let best = cheaper.ok().flatten().or(found.ok().flatten());
        match best {
            Some(found) => Answer::Plan(self.plan(&found, is_certain, supposed)),
            None => Answer::NoPlan { is_certain },
        }
    }

    /// Supposes that a pod is moved to one of these nodes, and returns it; `None` if it fits on
    /// none of them.
    fn move_within(
        &mut self,
        pod: usize,
        within: &NodeBits,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<NodeIx>, Exhausted> {
        self.decisions.count()?;
        Ok(self.pods.move_within(pod, within, supposed))
    }

    /// Whether the pod fits on one of these nodes now.
    fn fits_within(
        &mut self,
        within: &NodeBits,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<NodeIx>, Exhausted> {
        self.decisions.count()?;
        let pod = self.question.pod;
        Ok(node_of(supposed.suppose(|supposed| supposed.place_within(pod, within))))
    }

    fn plan(&self, found: &Found, is_cheapest: bool, supposed: &Supposition<'_, '_, '_>) -> Plan {
        let moves = found.steps.iter().map(|step| self.pods.shown(*step, supposed));
        Plan {
            moves: moves.collect(),
            node: supposed.cluster().node_name(found.node).clone(),
            cost: found.cost,
            is_cheapest,
        }
    }
}

fn node_of(trial: Option<Trial>) -> Option<NodeIx> {
    match trial {
        Some(Trial::Fits { node, .. }) => Some(node),
        _ => None,
    }
}

fn only(node: NodeIx, nodes: usize) -> NodeBits {
    let mut bits = NodeBits::with_len(nodes);
    bits.insert(node);
    bits
}
