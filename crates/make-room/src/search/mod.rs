//! The search for the cheapest moves.

mod any_moves;
mod bounds;
mod movables;
mod one_node;

use std::sync::Arc;

use engine::ports::Ports;
use engine::{Engine, Supposition, Trial};
use framework::{NodeBits, NodeIx, Pod, Time};

use self::bounds::{Bounds, Leaving, Rooms};
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
/// First it tries for each node what has to leave it, the nodes with the lowest bounds of that cost
/// first, until the bounds exceed the cost of the plan that it has. Then it tries moves of any pods
/// that may lead to a cheaper plan, so that it finds moves that make room for other moves and knows
/// whether the plan is the cheapest.
pub fn make_room(engine: &mut Engine, question: &Question<'_>, now: Time) -> Answer {
    make_room_until(engine, question, now, &|| false)
}

/// Looks for the cheapest moves, as [`make_room`] does. The search ends early once `is_over`
/// answers true; it is asked before each decision.
pub fn make_room_until(
    engine: &mut Engine,
    question: &Question<'_>,
    now: Time,
    is_over: &dyn Fn() -> bool,
) -> Answer {
    let Question { pod, movable, limits } = *question;
    let budgets = Budgets::of(engine, movable);
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    if let Some(status) = engine.gate(pod, now, ports) {
        return Answer::Undecided(status.message());
    }
    let mut decisions = Decisions::new(limits.decisions, is_over);
    engine.suppose(now, ports, |supposed| {
        let pods = Movables::new(movable, &[], supposed);
        let quest = Quest { pod, within: None, moved: &[], moves: limits.moves, others: 0 };
        match find(quest, &pods, &budgets, &mut decisions, supposed) {
            Finding::Fits(node) => Answer::Fits(supposed.cluster().node_name(node).clone()),
            Finding::Moves { found: Found { steps, node, cost }, is_cheapest } => {
                let moves = steps.iter().map(|step| pods.shown(*step, supposed)).collect();
                let node = supposed.cluster().node_name(node).clone();
                Answer::Plan(Plan { moves, node, cost, is_cheapest })
            }
            Finding::Nothing { is_certain } => Answer::NoPlan { is_certain },
            Finding::Undecided(reason) => Answer::Undecided(reason),
        }
    })
}

/// A pod that is to fit after moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quest<'q> {
    pub(crate) pod: &'q Arc<Pod>,
    /// The nodes on which it may be; `None` for all.
    pub(crate) within: Option<&'q NodeBits>,
    /// The pods that have moved, which do not move again, and count for their budgets.
    pub(crate) moved: &'q [usize],
    /// Maximum number of further moves.
    pub(crate) moves: usize,
    /// Number of further pods like this one. The nodes that are cheapest for them take no moved
    /// pods, if others do.
    pub(crate) others: usize,
}

/// What a search has found.
#[derive(Debug, Clone)]
pub(crate) enum Finding {
    /// The pod fits on this node without a move.
    Fits(NodeIx),
    /// The pod fits after moves.
    Moves { found: Found, is_cheapest: bool },
    /// No moves were found.
    Nothing { is_certain: bool },
    /// The pod cannot be decided, for this reason.
    Undecided(String),
}

/// A plan that is found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) steps: Vec<Step>,
    pub(crate) node: NodeIx,
    pub(crate) cost: Cost,
}

/// A node for the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    /// A bound of the cost of what has to leave it.
    bound: Cost,
    node: NodeIx,
}

struct Search<'q, 'd> {
    quest: Quest<'q>,
    pods: &'q Movables<'q>,
    budgets: &'q Budgets,
    decisions: &'q mut Decisions<'d>,
    /// The nodes on which the pod may be.
    goal: NodeBits,
    bounds: Bounds,
    rooms: Rooms,
    /// The nodes that take moved pods only if no other node does.
    spared: NodeBits,
}

/// Looks for the cheapest moves of these pods.
pub(crate) fn find(
    quest: Quest<'_>,
    pods: &Movables<'_>,
    budgets: &Budgets,
    decisions: &mut Decisions<'_>,
    supposed: &mut Supposition<'_, '_, '_>,
) -> Finding {
    let goal = quest.within.unwrap_or(supposed.cluster().nodes()).clone();
    let tried = supposed.suppose(|supposed| supposed.place_within(quest.pod, &goal));
    let fit = match tried {
        None => return Finding::Undecided("no profile is responsible for it".into()),
        Some(Trial::Fits { node, .. }) => return Finding::Fits(node),
        Some(Trial::Failed(status) | Trial::Gated(status)) => {
            return Finding::Undecided(status.message());
        }
        Some(Trial::Preempts(_)) => return Finding::Nothing { is_certain: false },
        Some(Trial::Rejected(fit)) => fit,
    };
    let verdicts = &fit.diagnosis.verdicts;
    // A pod with affinity may fit on another node once other pods have moved there.
    let helpful = match quest.pod.spec.pod_affinity {
        Some(_) => goal.clone(),
        None => verdicts.unschedulable(&goal),
    };
    let bounds = Bounds::new(quest.pod, verdicts, quest.moves);
    let spared = NodeBits::default();
    let rooms = bounds.rooms(supposed.cluster());
    let mut search = Search { quest, pods, budgets, decisions, goal, bounds, rooms, spared };
    let direct = search.targets(&helpful, |pod| search.may_leave(pod), supposed);
    if quest.others > 0 {
        let spared = direct.iter().take(quest.others.saturating_add(1));
        search.spared = spared.map(|target| target.node).collect();
    }
    let mut best = None;
    let searched = search.moves_of_one_node(&direct, &mut best, supposed).and_then(|()| {
        let targets = search.targets(&helpful, |_| true, supposed);
        let limit = best.as_ref().map(|own: &Found| own.cost);
        let cheaper = search.any_moves(&targets, limit, supposed)?;
        cheaper.into_iter().for_each(|own| best = Some(own));
        Ok(())
    });
    let is_certain = searched.is_ok();
    match best {
        Some(found) => Finding::Moves { found, is_cheapest: is_certain },
        None => Finding::Nothing { is_certain },
    }
}

impl Search<'_, '_> {
    /// Returns the nodes where moves of these pods may make room, the cheapest first.
    fn targets(
        &self,
        nodes: &NodeBits,
        may_leave: impl Fn(usize) -> bool,
        supposed: &Supposition<'_, '_, '_>,
    ) -> Vec<Target> {
        // The pod fits nowhere, so that some pod has to move.
        let Some(least) = self.pods.least_cost() else { return Vec::new() };
        let targets = nodes.iter().filter_map(|node| {
            let pods: Vec<usize> =
                self.pods.on(node).iter().copied().filter(|pod| may_leave(*pod)).collect();
            let leaving = Leaving { node, pods: &pods, gone: None };
            let bound = self.bounds.cost(leaving, self.pods, supposed.cluster())?;
            Some(Target { bound: bound.max(least), node })
        });
        let mut targets: Vec<Target> = targets.collect();
        targets.sort_unstable();
        targets
    }

    /// Whether a pod may be moved off its node first of all: its budget allows it, and another node
    /// may have room for it now. The profile of the asked pod says which requests count.
    fn may_leave(&self, pod: usize) -> bool {
        let own = self.pods.pod(pod);
        let is_like = own.spec.scheduler_name == self.quest.pod.spec.scheduler_name;
        !(is_like && self.rooms.lack(own, self.pods.node(pod))) && self.may_move([pod])
    }

    /// Whether all of these pods may be evicted, beside those that have moved.
    fn may_move(&self, pods: impl IntoIterator<Item = usize>) -> bool {
        self.budgets.allow(self.quest.moved.iter().copied().chain(pods))
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
        let pod = self.quest.pod;
        Ok(node_of(supposed.suppose(|supposed| supposed.place_within(pod, within))))
    }
}

pub(crate) fn node_of(trial: Option<Trial>) -> Option<NodeIx> {
    match trial {
        Some(Trial::Fits { node, .. }) => Some(node),
        _ => None,
    }
}

pub(crate) fn only(node: NodeIx, nodes: usize) -> NodeBits {
    let mut bits = NodeBits::with_len(nodes);
    bits.insert(node);
    bits
}
