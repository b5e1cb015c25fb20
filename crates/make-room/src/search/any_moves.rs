//! Moves of any pods, those first that may lead to the cheapest plan.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use engine::Supposition;
use framework::{NodeBits, NodeIx};

use super::bounds::Leaving;
use super::{Exhausted, Found, Search, Step, Target};
use crate::Cost;

/// Moves that are possible one after the other, and perhaps one more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// A bound of what a plan with these moves costs.
    bound: Cost,
    cost: Cost,
    steps: Vec<Step>,
    /// A pod that moves next, to nodes that are not known yet.
    next: Option<usize>,
}

/// The nodes on which a plan may end.
struct Goals<'t> {
    /// The nodes, sorted by their bounds.
    targets: &'t [Target],
    nodes: NodeBits,
    /// The cost of a plan that is known.
    limit: Option<Cost>,
}

impl Goals<'_> {
    fn are_beyond(&self, cost: Cost) -> bool {
        self.limit.is_some_and(|limit| cost >= limit)
    }
}

impl State {
    /// Returns the same for all orders of the same moves.
    fn key(&self) -> (Vec<Step>, Option<usize>) {
        let mut steps = self.steps.clone();
        steps.sort_unstable();
        (steps, self.next)
    }

    fn moves(&self, pod: usize) -> bool {
        self.steps.iter().any(|step| step.pod == pod)
    }
}

impl Search<'_, '_> {
    /// Returns the cheapest plan that costs less than `limit` and ends on one of these nodes, which
    /// are sorted by their bounds; each pod moves once at most. `None` if there is no such plan.
    pub(super) fn any_moves(
        &mut self,
        targets: &[Target],
        limit: Option<Cost>,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<Found>, Exhausted> {
        let is_cheap = |target: &Target| limit.is_none_or(|limit| target.bound < limit);
        let targets = &targets[..targets.partition_point(is_cheap)];
        let Some(first) = targets.first() else { return Ok(None) };
        let mut nodes = NodeBits::default();
        for target in targets {
            nodes.insert(target.node);
        }
        let goals = Goals { targets, nodes, limit };
        let start = State { bound: first.bound, cost: Cost::default(), steps: vec![], next: None };
        let mut states = BinaryHeap::from([Reverse(start)]);
        let mut seen = BTreeSet::new();
        while let Some(Reverse(state)) = states.pop() {
            if goals.are_beyond(state.bound) {
                break;
            }
            let next = supposed.suppose(|supposed| self.next_states(&state, &goals, supposed))?;
            match next {
                Next::Found(node) => {
                    let State { cost, steps, .. } = state;
                    return Ok(Some(Found { steps, node, cost }));
                }
                Next::States(next) => {
                    let next = next.into_iter().filter(|state| seen.insert(state.key()));
                    states.extend(next.map(Reverse));
                }
            }
        }
        Ok(None)
    }

    /// Makes the moves of a state, and finds out whether the pod fits then. If not, returns the
    /// states with a move more.
    fn next_states(
        &mut self,
        state: &State,
        goals: &Goals<'_>,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Next, Exhausted> {
        for step in &state.steps {
            let within = super::only(step.to, supposed.cluster().table_len());
            if self.move_within(step.pod, &within, supposed)?.is_none() {
                return Ok(Next::States(Vec::new()));
            }
        }
        if let Some(pod) = state.next {
            let Some(from) = self.pods.node(pod) else { return Ok(Next::States(Vec::new())) };
            let cost = state.cost + self.pods.cost(pod);
            let to = self.nodes_for(pod, from, supposed)?;
            let next = to.into_iter().map(|to| State {
                cost,
                steps: state.steps.iter().copied().chain([Step { pod, to }]).collect(),
                next: None,
                ..*state
            });
            return Ok(Next::States(next.collect()));
        }
        let goal = self.goal.clone();
        self.decisions.count_large(goal.count() + self.pods.count())?;
        if let Some(node) = self.fits_within(&goal, supposed)? {
            return Ok(Next::Found(node));
        }
        if state.steps.len() == self.quest.moves {
            return Ok(Next::States(Vec::new()));
        }
        Ok(Next::States(self.with_a_move_more(state, goals, supposed)))
    }

    /// Returns the states in which one pod more moves.
    fn with_a_move_more(
        &self,
        state: &State,
        goals: &Goals<'_>,
        supposed: &Supposition<'_, '_, '_>,
    ) -> Vec<State> {
        let ends = |step: &Step| self.pods.node(step.pod).into_iter().chain([step.to]);
        let mut touched: Vec<NodeIx> = state.steps.iter().flat_map(ends).collect();
        touched.sort_unstable();
        let is_touched = |node: NodeIx| touched.binary_search(&node).is_ok();
        let bound = |node: NodeIx, gone: Option<usize>| {
            let left = self.pods.on(node).iter().copied();
            let left: Vec<usize> =
                left.filter(|pod| !state.moves(*pod) && Some(*pod) != gone).collect();
            let leaving = Leaving { node, pods: &left, gone };
            self.bounds.cost(leaving, self.pods, supposed.cluster())
        };
        // The cheapest nodes after the moves of the state. One of two is not that of a pod.
        let others = goals.targets.iter().filter(|own| !is_touched(own.node)).take(2).copied();
        let changed = touched.iter().filter(|node| goals.nodes.contains(**node));
        let changed =
            changed.filter_map(|node| Some(Target { bound: bound(*node, None)?, node: *node }));
        let mut cheapest: Vec<Target> = changed.chain(others).collect();
        cheapest.sort_unstable();
        let mut next = Vec::new();
        for (from, pods) in self.pods.by_node() {
            let elsewhere = cheapest.iter().find(|own| own.node != from).map(|own| own.bound);
            for pod in pods {
                let cost = state.cost + self.pods.cost(*pod);
                if state.moves(*pod) || goals.are_beyond(cost) {
                    continue;
                }
                let here = goals.nodes.contains(from).then(|| bound(from, Some(*pod))).flatten();
                let Some(left) = here.into_iter().chain(elsewhere).min() else { continue };
                let moved = state.steps.iter().map(|step| step.pod).chain([*pod]);
                if goals.are_beyond(cost + left) || !self.may_move(moved) {
                    continue;
                }
                let steps = state.steps.clone();
                next.push(State { bound: cost + left, cost: state.cost, steps, next: Some(*pod) });
            }
        }
        next
    }

    /// Returns the nodes to which a pod can move.
    fn nodes_for(
        &mut self,
        pod: usize,
        from: NodeIx,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Vec<NodeIx>, Exhausted> {
        let mut left = supposed.cluster().nodes().clone();
        left.remove(from);
        let mut nodes = Vec::new();
        loop {
            self.decisions.count_large(left.count())?;
            let moved = supposed.suppose(|supposed| self.move_within(pod, &left, supposed))?;
            let Some(node) = moved else { return Ok(nodes) };
            left.remove(node);
            nodes.push(node);
        }
    }
}

enum Next {
    /// The pod fits on this node.
    Found(NodeIx),
    /// It does not; the states with a move more.
    States(Vec<State>),
}
