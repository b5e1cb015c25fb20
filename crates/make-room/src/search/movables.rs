//! The pods that may be moved.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Supposition;
use framework::{NodeBits, NodeIx, Pod, PodKey};

use super::{node_of, only};
use crate::{Cost, Movable, Move};

/// A move of the pod with this place in the list of movable pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    pub(crate) pod: usize,
    pub(crate) to: NodeIx,
}

/// The search ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// The number of decisions that a search may still try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decisions {
    left: u32,
}

impl Decisions {
    pub(crate) const fn new(left: u32) -> Self {
        Self { left }
    }

    pub(crate) const fn count(&mut self) -> Result<(), Exhausted> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Exhausted),
        }
    }
}

/// The pods that may be moved, by their place in the list.
#[derive(Debug)]
pub(crate) struct Movables<'q> {
    pods: &'q [Movable],
    /// The pods as their controllers make them again.
    successors: Vec<Arc<Pod>>,
    /// The pods of each node, those with the most expensive moves first.
    by_node: BTreeMap<NodeIx, Vec<usize>>,
}

impl<'q> Movables<'q> {
    /// Sorts the pods by node, and leaves out pods that are not wanted.
    pub(crate) fn new(
        pods: &'q [Movable],
        is_wanted: impl Fn(usize) -> bool,
        supposed: &Supposition<'_, '_, '_>,
    ) -> Self {
        let mut by_node: BTreeMap<NodeIx, Vec<usize>> = BTreeMap::new();
        for (place, Movable { pod, .. }) in pods.iter().enumerate() {
            let node = pod.node_name.as_ref().and_then(|name| supposed.cluster().node_named(name));
            if let Some(node) = node.filter(|_| is_wanted(place)) {
                by_node.entry(node).or_default().push(place);
            }
        }
        for places in by_node.values_mut() {
            places.sort_by(|a, b| pods[*b].cost.cmp(&pods[*a].cost).then(a.cmp(b)));
        }
        let successors = pods.iter().map(|own| Arc::new(successor_of(&own.pod))).collect();
        Self { pods, successors, by_node }
    }

    /// Returns the pods of each node that has some.
    pub(crate) const fn by_node(&self) -> &BTreeMap<NodeIx, Vec<usize>> {
        &self.by_node
    }

    /// Returns the pods of a node, those with the most expensive moves first.
    pub(crate) fn on(&self, node: NodeIx) -> &[usize] {
        self.by_node.get(&node).map(Vec::as_slice).unwrap_or_default()
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
        node_of(supposed.place_within(&self.successors[pod], within))
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

/// Returns the pod as its controller makes it again.
fn successor_of(pod: &Pod) -> Pod {
    let mut successor = Pod { node_name: None, scheduled_condition: None, ..pod.clone() };
    successor.uncommon = None;
    successor
}
