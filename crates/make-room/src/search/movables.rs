//! The pods that may be moved.

use std::cell::OnceCell;
use std::sync::Arc;

use engine::{Supposition, successor_of};
use framework::{NodeBits, NodeIx, Pod, PodKey};

use super::{node_of, only};
use crate::{Cost, Movable, Move};

/// A move of the pod with this place in the list of movable pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    pub(crate) pod: usize,
    pub(crate) to: NodeIx,
}

/// The number of nodes or pods a look at which counts as a decision.
const LOOKED_AT: usize = 16;

/// The search ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// The number of decisions that a search may still try.
#[derive(Clone, Copy)]
pub(crate) struct Decisions<'q> {
    left: u32,
    is_over: &'q dyn Fn() -> bool,
}

impl<'q> Decisions<'q> {
    pub(crate) const fn new(left: u32, is_over: &'q dyn Fn() -> bool) -> Self {
        Self { left, is_over }
    }

    /// Counts a decision.
    ///
    /// # Errors
    /// None is left, or the time is over.
    pub(crate) fn count(&mut self) -> Result<(), Exhausted> {
        match self.left.checked_sub(1).filter(|_| !(self.is_over)()) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Exhausted),
        }
    }

    /// Counts a look at so many nodes or pods as decisions, because it takes as long.
    ///
    /// # Errors
    /// Fewer are left.
    pub(crate) fn count_large(&mut self, looked_at: usize) -> Result<(), Exhausted> {
        let more = u32::try_from(looked_at / LOOKED_AT).unwrap_or(u32::MAX);
        self.left = self.left.checked_sub(more).ok_or(Exhausted)?;
        Ok(())
    }
}

/// The pods that may be moved, by their place in the list.
#[derive(Debug)]
pub(crate) struct Movables<'q> {
    pods: &'q [Movable],
    /// The pods as their controllers make them again.
    successors: Vec<OnceCell<Arc<Pod>>>,
    /// The node of each pod; `None` if it is unknown, or the pod has moved.
    nodes: Vec<Option<NodeIx>>,
    /// The pods by node, those with the most expensive moves first.
    by_node: Vec<usize>,
    /// Where the pods of each node begin.
    starts: Vec<usize>,
}

impl<'q> Movables<'q> {
    /// Sorts the pods by node, without those that have moved.
    pub(crate) fn new(
        pods: &'q [Movable],
        moved: &[usize],
        supposed: &Supposition<'_, '_, '_>,
    ) -> Self {
        let cluster = supposed.cluster();
        let node = |own: &Movable| cluster.node_named(own.pod.node_name.as_ref()?);
        let mut nodes: Vec<Option<NodeIx>> = pods.iter().map(node).collect();
        moved.iter().for_each(|pod| nodes[*pod] = None);
        let mut starts = vec![0; cluster.table_len() + 1];
        nodes.iter().flatten().for_each(|node| starts[node.index() + 1] += 1);
        for place in 1..starts.len() {
            starts[place] += starts[place - 1];
        }
        let mut by_node = vec![0; starts.last().copied().unwrap_or(0)];
        let mut ends = starts.clone();
        for (place, node) in nodes.iter().enumerate() {
            if let Some(node) = node {
                let end = &mut ends[node.index()];
                by_node[*end] = place;
                *end += 1;
            }
        }
        let mut rest = &mut by_node[..];
        for count in starts.windows(2).map(|own| own[1] - own[0]) {
            let (own, others) = rest.split_at_mut(count);
            own.sort_by(|a, b| pods[*b].cost.cmp(&pods[*a].cost).then(a.cmp(b)));
            rest = others;
        }
        let successors = vec![OnceCell::new(); pods.len()];
        Self { pods, successors, nodes, by_node, starts }
    }

    /// Returns each node that has such pods, and the pods.
    pub(crate) fn by_node(&self) -> impl Iterator<Item = (NodeIx, &[usize])> {
        let places = self.starts.windows(2).filter(|own| own[0] < own[1]);
        places.filter_map(|own| {
            let pods = &self.by_node[own[0]..own[1]];
            Some((self.nodes[*pods.first()?]?, pods))
        })
    }

    /// Returns the pods of a node, those with the most expensive moves first.
    pub(crate) fn on(&self, node: NodeIx) -> &[usize] {
        match self.starts.get(node.index()..node.index() + 2) {
            Some(own) => &self.by_node[own[0]..own[1]],
            None => &[],
        }
    }

    pub(crate) fn pod(&self, pod: usize) -> &Pod {
        &self.pods[pod].pod
    }

    /// Returns the node of a pod, if it is known.
    pub(crate) fn node(&self, pod: usize) -> Option<NodeIx> {
        self.nodes[pod]
    }

    pub(crate) fn cost(&self, pod: usize) -> Cost {
        self.pods[pod].cost
    }

    /// Returns the number of pods.
    pub(crate) const fn count(&self) -> usize {
        self.by_node.len()
    }

    /// Returns the cost of the cheapest move; `None` if no pod may move.
    pub(crate) fn least_cost(&self) -> Option<Cost> {
        self.by_node.iter().map(|pod| self.cost(*pod)).min()
    }

    pub(crate) fn cost_of(&self, pods: &[usize]) -> Cost {
        pods.iter().map(|pod| self.pods[*pod].cost).sum()
    }

    pub(crate) fn key(&self, pod: usize) -> &PodKey {
        &self.pods[pod].pod.key
    }

    /// Returns the pods in the order of their CPU and memory, the largest first.
    pub(crate) fn largest_first(&self, pods: &[usize]) -> Vec<usize> {
        let mut order = pods.to_vec();
        order.sort_by_key(|pod| {
            let requests = &self.pods[*pod].pod.requests.fit;
            std::cmp::Reverse([requests.milli_cpu, requests.memory])
        });
        order
    }

    /// Supposes that a pod has gone.
    pub(crate) fn remove(&self, pod: usize, supposed: &mut Supposition<'_, '_, '_>) {
        supposed.remove(&self.pods[pod].pod.uid);
    }

    /// Supposes that a pod is back on its node.
    pub(crate) fn put(&self, pod: usize, supposed: &mut Supposition<'_, '_, '_>) {
        supposed.put(&self.pods[pod].pod);
    }

    /// Supposes that a pod is moved to one of these nodes, and returns it; `None` if it fits on
    /// none of them.
    pub(crate) fn move_within(
        &self,
        pod: usize,
        within: &NodeBits,
        supposed: &mut Supposition<'_, '_, '_>,
    ) -> Option<NodeIx> {
        self.remove(pod, supposed);
        let successor =
            self.successors[pod].get_or_init(|| Arc::new(successor_of(&self.pods[pod].pod)));
        node_of(supposed.place_within(successor, within))
    }

    /// Supposes a move that has been found possible.
    pub(crate) fn make(&self, step: Step, supposed: &mut Supposition<'_, '_, '_>) {
        let here = only(step.to, supposed.cluster().table_len());
        self.move_within(step.pod, &here, supposed);
    }

    pub(crate) fn shown(&self, step: Step, supposed: &Supposition<'_, '_, '_>) -> Move {
        let Movable { pod, cost } = &self.pods[step.pod];
        Move {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            from: pod.node_name.clone().unwrap_or_default(),
            to: supposed.cluster().node_name(step.to).clone(),
            cost: *cost,
        }
    }
}
