//! Nodes whose pods all fit elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::ports::Ports;
use engine::{Engine, Supposition};
use framework::{NodeBits, NodeIx, PodKey, Time};

use crate::budgets::Budgets;
use crate::search::{Decisions, Exhausted, Movables, Step};
use crate::{Cost, Movable, Move};

/// Which nodes are to be emptied, and which pods may be moved.
#[derive(Debug, Clone, Copy)]
pub struct Drains<'q> {
    /// The pods that may be moved.
    pub movable: &'q [Movable],
    /// Nodes with a pod that has to stay.
    pub held: &'q BTreeSet<Arc<str>>,
    /// Maximum number of decisions that are tried.
    pub decisions: u32,
}

/// A node that can be emptied after those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyNode {
    /// Its name.
    pub node: Arc<str>,
    /// The moves of its pods, in their order; none if it has no pod that moves.
    pub moves: Vec<Move>,
    /// The sum of the costs.
    pub cost: Cost,
}

/// The nodes that can be emptied one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmptyNodes {
    /// The nodes, in the order in which they are to be emptied.
    pub nodes: Vec<EmptyNode>,
    /// The nodes that stay although no pod has to stay on them.
    pub staying: BTreeMap<Arc<str>, Stays>,
    /// Whether every node was tried. False if the search ended early.
    pub is_complete: bool,
}

/// Why a node stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stays {
    /// This pod fits on no other node, or its budget does not allow its eviction.
    Keeps(PodKey),
    /// This pod is moved there from a node that is emptied.
    Takes(PodKey),
}

/// Empties one node after the other, those with the cheapest moves first, as long as all of a
/// node's pods fit on nodes that stay. Afterwards the engine is as before.
///
/// The profile of a pod decides where it goes, and the node that takes it stays, so that no pod is
/// moved twice. The room only shrinks, so each node is tried once. Budgets count for the pods of
/// one node: its pods are ready elsewhere before the next node is begun.
pub fn empty_nodes(engine: &mut Engine, drains: &Drains<'_>, now: Time) -> EmptyNodes {
    empty_nodes_until(engine, drains, now, &|| false)
}

/// Empties nodes, as [`empty_nodes`] does. The search ends early once `is_over` answers true; it is
/// asked before each decision.
pub fn empty_nodes_until(
    engine: &mut Engine,
    drains: &Drains<'_>,
    now: Time,
    is_over: &dyn Fn() -> bool,
) -> EmptyNodes {
    let budgets = Budgets::of(engine, drains.movable);
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    let decisions = Decisions::new(drains.decisions, is_over);
    engine.suppose(now, ports, |supposed| {
        Drain::new(drains, budgets, decisions, supposed).run(supposed)
    })
}

struct Drain<'q> {
    pods: Movables<'q>,
    budgets: Budgets,
    decisions: Decisions<'q>,
    /// The nodes that stay.
    staying: NodeBits,
    /// The nodes to try and the cost of their moves, the cheapest first.
    order: Vec<(Cost, NodeIx)>,
}

impl<'q> Drain<'q> {
    fn new(
        drains: &Drains<'q>,
        budgets: Budgets,
        decisions: Decisions<'q>,
        supposed: &Supposition<'_, '_, '_>,
    ) -> Self {
        let cluster = supposed.cluster();
        let pods = Movables::new(drains.movable, &[], supposed);
        let staying = cluster.nodes().clone();
        let free = staying.iter().filter(|node| !drains.held.contains(cluster.node_name(*node)));
        let mut order: Vec<_> = free.map(|node| (pods.cost_of(pods.on(node)), node)).collect();
        order.sort_unstable();
        Self { pods, budgets, decisions, staying, order }
    }

    fn run(mut self, supposed: &mut Supposition<'_, '_, '_>) -> EmptyNodes {
        let mut found = EmptyNodes { is_complete: true, ..EmptyNodes::default() };
        for (cost, node) in std::mem::take(&mut self.order) {
            let name = supposed.cluster().node_name(node).clone();
            if found.staying.contains_key(&name) {
                continue;
            }
            self.staying.remove(node);
            let moved = supposed.suppose(|supposed| self.vacate(node, supposed));
            match moved {
                Ok(Ok(steps)) => {
                    steps.iter().for_each(|step| self.pods.make(*step, supposed));
                    let moves = steps.iter().map(|step| self.pods.shown(*step, supposed));
                    let moves: Vec<Move> = moves.collect();
                    let taken = moves.iter().map(|own| (own.to.clone(), own.pod.clone()));
                    found.staying.extend(taken.map(|(node, pod)| (node, Stays::Takes(pod))));
                    found.nodes.push(EmptyNode { node: name, moves, cost });
                }
                Ok(Err(stuck)) => {
                    self.staying.insert(node);
                    found.staying.insert(name, Stays::Keeps(self.pods.key(stuck).clone()));
                }
                Err(Exhausted) => {
                    found.is_complete = false;
                    break;
                }
            }
        }
        found
    }

    /// Moves the pods of a node to nodes that stay, the largest first. Returns the moves, or the
    /// pod that cannot go.
    fn vacate(
        &mut self,
        node: NodeIx,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Result<Vec<Step>, usize>, Exhausted> {
        let mut steps: Vec<Step> = Vec::new();
        for pod in self.pods.largest_first(self.pods.on(node)) {
            if !self.budgets.allow(steps.iter().map(|step| step.pod).chain([pod])) {
                return Ok(Err(pod));
            }
            self.decisions.count()?;
            match self.pods.move_within(pod, &self.staying, supposed) {
                Some(to) => steps.push(Step { pod, to }),
                None => return Ok(Err(pod)),
            }
        }
        Ok(Ok(steps))
    }
}
