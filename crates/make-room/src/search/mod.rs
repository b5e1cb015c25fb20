//! The search for the cheapest moves.

mod any_moves;
mod one_node;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::ports::Ports;
use engine::{Engine, Supposition, Trial};
use framework::{NodeBits, NodeIx, Pod, Time};

use crate::budgets::Budgets;
use crate::{Answer, Cost, Movable, Move, Plan};

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

/// A move of the pod with this place in the list of movable pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    pod: usize,
    to: NodeIx,
}

/// A plan that is found.
#[derive(Debug, Clone)]
struct Found {
    steps: Vec<Step>,
    node: NodeIx,
    cost: Cost,
}

/// The search ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exhausted;

struct Search<'q> {
    question: &'q Question<'q>,
    budgets: Budgets,
    /// The movable pods as their controllers make them again.
    successors: Vec<Arc<Pod>>,
    /// The places of the movable pods of each node, those with the most expensive moves first.
    by_node: BTreeMap<NodeIx, Vec<usize>>,
    decisions_left: u32,
}

impl<'q> Search<'q> {
    fn new(
        question: &'q Question<'q>,
        budgets: Budgets,
        supposed: &Supposition<'_, '_, '_>,
    ) -> Self {
        let movable = question.movable;
        let mut by_node: BTreeMap<NodeIx, Vec<usize>> = BTreeMap::new();
        for (place, Movable { pod, .. }) in movable.iter().enumerate() {
            let node = pod.node_name.as_ref().and_then(|name| supposed.cluster().node_named(name));
            if let Some(node) = node.filter(|_| budgets.allow([place])) {
                by_node.entry(node).or_default().push(place);
            }
        }
        for places in by_node.values_mut() {
            places.sort_by(|a, b| movable[*b].cost.cmp(&movable[*a].cost).then(a.cmp(b)));
        }
        let successors = movable.iter().map(|own| Arc::new(successor_of(&own.pod))).collect();
        let decisions_left = question.limits.decisions;
        Self { question, budgets, successors, by_node, decisions_left }
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

    fn cost_of(&self, pods: &[usize]) -> Cost {
        pods.iter().map(|pod| self.question.movable[*pod].cost).sum()
    }

    /// Supposes that a pod is moved to one of these nodes, and returns it; `None` if it fits on
    /// none of them.
    fn move_within(
        &mut self,
        pod: usize,
        within: &NodeBits,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<NodeIx>, Exhausted> {
        self.count_decision()?;
        supposed.remove(&self.question.movable[pod].pod.uid);
        Ok(node_of(supposed.place_within(&self.successors[pod], within)))
    }

    /// Whether the pod fits on one of these nodes now.
    fn fits_within(
        &mut self,
        within: &NodeBits,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<NodeIx>, Exhausted> {
        self.count_decision()?;
        let pod = self.question.pod;
        Ok(node_of(supposed.suppose(|supposed| supposed.place_within(pod, within))))
    }

    const fn count_decision(&mut self) -> Result<(), Exhausted> {
        match self.decisions_left.checked_sub(1) {
            Some(left) => {
                self.decisions_left = left;
                Ok(())
            }
            None => Err(Exhausted),
        }
    }

    fn plan(&self, found: &Found, is_cheapest: bool, supposed: &Supposition<'_, '_, '_>) -> Plan {
        let cluster = supposed.cluster();
        let moves = found.steps.iter().map(|step| {
            let Movable { pod, cost } = &self.question.movable[step.pod];
            Move {
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                from: pod.node_name.clone().unwrap_or_default(),
                to: cluster.node_name(step.to).clone(),
                cost: *cost,
            }
        });
        Plan {
            moves: moves.collect(),
            node: cluster.node_name(found.node).clone(),
            cost: found.cost,
            is_cheapest,
        }
    }
}

/// Returns the pod as its controller makes it again.
fn successor_of(pod: &Pod) -> Pod {
    let mut successor = Pod { node_name: None, scheduled_condition: None, ..pod.clone() };
    successor.uncommon = None;
    successor
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
