//! Moves of any pods, in the order of their cost.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use engine::Supposition;
use framework::NodeIx;

use super::{Exhausted, Found, Search, Step};
use crate::Cost;

/// Moves that are possible one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    cost: Cost,
    steps: Vec<Step>,
}

impl State {
    /// Returns the same for all orders of the same moves.
    fn key(&self) -> Vec<Step> {
        let mut key = self.steps.clone();
        key.sort_unstable();
        key
    }
}

impl Search<'_> {
    /// Returns the cheapest plan that costs less than `limit`; each pod moves once at most. `None`
    /// if there is no such plan.
    pub(super) fn any_moves(
        &mut self,
        limit: Option<Cost>,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Option<Found>, Exhausted> {
        let mut states =
            BinaryHeap::from([Reverse(State { cost: Cost::default(), steps: vec![] })]);
        let mut seen = BTreeSet::new();
        while let Some(Reverse(state)) = states.pop() {
            if limit.is_some_and(|limit| state.cost >= limit) {
                break;
            }
            let next = supposed.suppose(|supposed| self.next_states(&state, limit, supposed))?;
            match next {
                Next::Found(node) => {
                    let State { cost, steps } = state;
                    return Ok(Some(Found { steps, node, cost }));
                }
                Next::States(next) => {
                    states.extend(
                        next.into_iter().filter(|state| seen.insert(state.key())).map(Reverse),
                    );
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
        limit: Option<Cost>,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Result<Next, Exhausted> {
        let nodes = supposed.cluster().nodes().clone();
        for step in &state.steps {
            let within = super::only(step.to, supposed.cluster().table_len());
            if self.move_within(step.pod, &within, supposed)?.is_none() {
                return Ok(Next::States(Vec::new()));
            }
        }
        if let Some(node) = self.fits_within(&nodes, supposed)? {
            return Ok(Next::Found(node));
        }
        let mut next = Vec::new();
        if state.steps.len() == self.question.limits.moves {
            return Ok(Next::States(next));
        }
        let by_node = self.pods.by_node().clone();
        for (from, pods) in &by_node {
            for pod in pods {
                let moved = || state.steps.iter().map(|step| step.pod);
                let cost = state.cost + self.pods.cost_of(&[*pod]);
                let is_too_dear = limit.is_some_and(|limit| cost >= limit);
                let is_moved = moved().any(|own| own == *pod);
                if is_moved || is_too_dear || !self.budgets.allow(moved().chain([*pod])) {
                    continue;
                }
                for to in self.nodes_for(*pod, *from, supposed)? {
                    let step = Step { pod: *pod, to };
                    let steps = state.steps.iter().copied().chain([step]).collect();
                    next.push(State { cost, steps });
                }
            }
        }
        Ok(Next::States(next))
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
        while let Some(node) =
            supposed.suppose(|supposed| self.move_within(pod, &left, supposed))?
        {
            left.remove(node);
            nodes.push(node);
        }
        Ok(nodes)
    }
}

enum Next {
    /// The pod fits on this node.
    Found(NodeIx),
    /// It does not; the states with a move more.
    States(Vec<State>),
}
