//! Room for a PodGroup.

use std::sync::Arc;

use engine::ports::Ports;
use engine::{Engine, PlacedGroup, Supposition};
use framework::{NodeBits, Pod, PodGroupKey, PodKey, QueuedPod, Time};

use crate::budgets::Budgets;
use crate::search::{Decisions, Finding, Found, Movables, Quest, Step, find, node_of, only};
use crate::{Cost, Limits, Movable, Move};

/// For which PodGroup room is to be made, and which pods may be moved.
#[derive(Debug, Clone, Copy)]
pub struct GroupQuestion<'q> {
    /// The group, whose members wait in the queue of the engine.
    pub group: &'q PodGroupKey,
    /// The pods that may be moved.
    pub movable: &'q [Movable],
    /// The limits of the search, for all moves together.
    pub limits: Limits,
}

/// A member of a group on a node, by one decision about the group. The next one may be another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedMember {
    /// The member.
    pub pod: PodKey,
    /// Its node.
    pub node: Arc<str>,
}

/// Moves after which enough members of a group fit, in the order in which they are to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// The moves.
    pub moves: Vec<Move>,
    /// The members that fit after the moves.
    pub members: Vec<PlacedMember>,
    /// The sum of the costs.
    pub cost: Cost,
}

/// What the search found for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupAnswer {
    /// The group fits without a move; the members that fit.
    Fits(Vec<PlacedMember>),
    /// The group fits after moves. Others may cost less.
    Plan(GroupPlan),
    /// No plan was found. There may be one.
    NoPlan,
    /// The group cannot be decided, with the reason.
    Undecided(String),
}

/// Looks for moves after which enough members of a group fit together, by the decision of the
/// engine about the group. Afterwards the engine is as before.
///
/// It tries the placements that the group may have, those with the most room first. In each, it
/// places one member after the other, and makes room for a member that fits nowhere as for a single
/// pod. A plan is proven without the members: its moves are made one after the other, and then the
/// group is decided as a whole. The cheapest proven plan is the answer.
pub fn make_room_for_group(
    engine: &mut Engine,
    question: &GroupQuestion<'_>,
    now: Time,
    is_over: &dyn Fn() -> bool,
) -> GroupAnswer {
    let GroupQuestion { group, movable, limits } = *question;
    if let Some(plugin) = engine.queue().gate_of_group(group) {
        return GroupAnswer::Undecided(format!("{plugin} gates it"));
    }
    let members = engine.queue().members_of(group).to_vec();
    let cluster = engine.cluster();
    let least = cluster.pod_group(group).map_or(1, |known| known.min_count());
    let running = cluster.pod_group_state(group).map_or(0, |state| state.scheduled_count());
    let needed = least.saturating_sub(running).max(1);
    let budgets = Budgets::of(engine, movable);
    let mut decisions = Decisions::new(limits.decisions, is_over);
    let ports = &mut Ports { extenders: &mut (), probe: &mut () };
    engine.suppose(now, ports, |supposed| {
        let mut search = GroupSearch {
            group,
            pods: members.iter().map(|own| own.pod.clone()).collect(),
            members: &members,
            movable,
            budgets: &budgets,
            needed,
            moves: limits.moves,
            decisions: &mut decisions,
        };
        search.run(supposed)
    })
}

struct GroupSearch<'q, 'd> {
    group: &'q PodGroupKey,
    members: &'q [QueuedPod],
    /// The pods of the members.
    pods: Vec<Arc<Pod>>,
    movable: &'q [Movable],
    budgets: &'q Budgets,
    /// Number of members that have to fit.
    needed: u32,
    moves: usize,
    decisions: &'q mut Decisions<'d>,
}

/// Moves that are not proven yet.
#[derive(Debug, Default)]
struct Moves {
    steps: Vec<Step>,
    cost: Cost,
}

impl GroupSearch<'_, '_> {
    fn run(&mut self, supposed: &mut Supposition<'_, '_, '_>) -> GroupAnswer {
        match self.decide(supposed) {
            Ok(Some(members)) => return GroupAnswer::Fits(members),
            Ok(None) => {}
            Err(reason) => return GroupAnswer::Undecided(reason),
        }
        let placements = match supposed.prospects(self.group, &self.pods) {
            Err(status) => return GroupAnswer::Undecided(status.message()),
            Ok(None) => vec![supposed.cluster().nodes().clone()],
            Ok(Some(mut prospects)) => {
                prospects.sort_by_key(|own| std::cmp::Reverse(own.most));
                let nodes =
                    |own: framework::Prospect| own.placement.nodes.iter().copied().collect();
                prospects.into_iter().map(nodes).collect()
            }
        };
        let mut best: Option<GroupPlan> = None;
        for nodes in &placements {
            let limit = best.as_ref().map(|best| best.cost);
            let moves = supposed.suppose(|supposed| self.vacate(nodes, limit, supposed));
            let proven =
                moves.and_then(|own| supposed.suppose(|supposed| self.prove(&own, supposed)));
            proven.into_iter().for_each(|plan| best = Some(plan));
        }
        best.map_or(GroupAnswer::NoPlan, GroupAnswer::Plan)
    }

    /// Decides about the group, and supposes its members on their nodes. Returns them; `None` if
    /// too few fit.
    ///
    /// # Errors
    /// The group cannot be decided, for this reason.
    fn decide(
        &self,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<Vec<PlacedMember>>, String> {
        supposed.suppose(|supposed| match supposed.place_group(self.group, self.members) {
            None => Err("no profile is responsible for it".to_owned()),
            Some(PlacedGroup { status, members }) if status.is_success() => {
                let placed = members.into_iter().map(|(pod, node)| PlacedMember { pod, node });
                Ok(Some(placed.collect()))
            }
            Some(PlacedGroup { status, .. }) if status.is_rejection() => Ok(None),
            Some(PlacedGroup { status, .. }) => Err(status.message()),
        })
    }

    /// Places the members on these nodes, and moves other pods for those that do not fit. Returns
    /// the moves; `None` if they cost as much as `limit`, or there are none.
    fn vacate(
        &mut self,
        nodes: &NodeBits,
        limit: Option<Cost>,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Option<Moves> {
        let (mut moves, mut placed) = (Moves::default(), 0);
        for pod in &self.pods.clone() {
            if self.decisions.count().is_err() {
                return None;
            }
            if node_of(supposed.place_member(pod, Some(nodes))).is_some() {
                placed += 1;
                continue;
            }
            if placed >= self.needed {
                continue;
            }
            let moved: Vec<usize> = moves.steps.iter().map(|step| step.pod).collect();
            let left = Movables::new(self.movable, &moved, supposed);
            let moves_left = self.moves.saturating_sub(moved.len());
            let others = self.needed.saturating_sub(placed + 1);
            let others = usize::try_from(others).unwrap_or(usize::MAX);
            let quest =
                Quest { pod, within: Some(nodes), moved: &moved, moves: moves_left, others };
            let found = find(quest, &left, self.budgets, self.decisions, supposed);
            let Finding::Moves { found: Found { steps, node, cost }, .. } = found else { continue };
            moves.cost = moves.cost + cost;
            if limit.is_some_and(|limit| moves.cost >= limit) {
                return None;
            }
            steps.iter().for_each(|step| left.make(*step, supposed));
            moves.steps.extend(steps);
            supposed.place_member(pod, Some(&only(node, supposed.cluster().table_len())));
            placed += 1;
        }
        (!moves.steps.is_empty()).then_some(moves)
    }

    /// Makes the moves while the members wait, and decides about the group then. Returns the plan;
    /// `None` if a pod does not fit where it goes, or the group does not fit.
    fn prove(&self, moves: &Moves, supposed: &mut Supposition<'_, '_, '_>) -> Option<GroupPlan> {
        let pods = Movables::new(self.movable, &[], supposed);
        let shown = moves.steps.iter().map(|step| pods.shown(*step, supposed)).collect();
        for Step { pod, to } in &moves.steps {
            let here = only(*to, supposed.cluster().table_len());
            pods.move_within(*pod, &here, supposed)?;
        }
        let members = self.decide(supposed).ok().flatten()?;
        Some(GroupPlan { moves: shown, members, cost: moves.cost })
    }
}
