//! Pods that are placed or removed for a while, and the records that undo it.
//!
//! A placing or removal updates every column, count and index, as [`Cluster::place_pod`] and
//! [`Cluster::remove_pod`] do. Its record undoes it. Changes are undone in reverse
//! order, with no other change between them. Each pod then has its id, its position on its node and
//! its position in its label set again.

use std::sync::Arc;

use smallvec::SmallVec;

use super::label_sets::Membership;
use super::{Cluster, NodeIx, PlacedPod, PodIx};
use api::{CpuMemory, Pod, Resources};

/// The record of a pod that was [placed for a while](Cluster::place_pod_tentatively).
#[derive(Debug)]
#[must_use = "the record undoes the change"]
pub struct TentativePlacing {
    /// The id of the pod.
    pub ix: PodIx,
    /// The node of the pod.
    pub node: NodeIx,
    before: NodeSums,
}

/// The record of a pod that was [removed for a while](Cluster::remove_pod_tentatively).
#[derive(Debug)]
#[must_use = "the record undoes the change"]
pub struct TentativeRemoval {
    /// The id that the pod had.
    pub ix: PodIx,
    /// The pod, and its node.
    pub placed: PlacedPod,
    /// The name of the node if the cluster does not know it, so that its row may be gone.
    ghost: Option<Arc<str>>,
    before: NodeSums,
}

/// The generation of a node and the sums over its pods. A sum at the limit of 64 bits says too
/// little to undo an addition by a subtraction.
#[derive(Debug)]
struct NodeSums {
    generation: u64,
    requested: Resources,
    non_zero_requested: CpuMemory,
    pod_count: i64,
    /// The requested amounts of the scalar resources that change.
    scalars: SmallVec<[(Arc<str>, i64); 1]>,
}

/// Changes for a while, for the engine.
impl Cluster {
    /// Places `pod` as [`place_pod`](Self::place_pod) does, until the record is
    /// [undone](Self::undo_placing).
    pub fn place_pod_tentatively(&mut self, pod: Arc<Pod>, node: &str) -> TentativePlacing {
        let node = self.row_for(node);
        let before = self.sums_before(node, &pod);
        self.count_requests(node, &pod, 1);
        TentativePlacing { ix: self.place_on_row(pod, node), node, before }
    }

    /// Removes a pod as [`remove_pod`](Self::remove_pod) does, until the record is
    /// [undone](Self::undo_removing).
    ///
    /// # Panics
    /// Panics if the id is not in use.
    pub fn remove_pod_tentatively(&mut self, ix: PodIx) -> TentativeRemoval {
        let PlacedPod { pod, node, .. } = self.pod(ix);
        let ghost = (!self.nodes.contains(*node)).then(|| self.node_name(*node).clone());
        let before = self.sums_before(*node, pod);
        TentativeRemoval { ix, placed: self.remove_pod(ix), ghost, before }
    }

    /// Removes the pod that was placed last. The node gets its generation back, because it is as it
    /// was then.
    ///
    /// # Panics
    /// Panics if the pod is gone.
    pub fn undo_placing(&mut self, placing: TentativePlacing) {
        let placed = self.take_off_row(placing.ix);
        self.restore_sums(placed.node, placing.before);
        self.drop_if_empty_ghost(placed.node);
    }

    /// Places the pod again that was removed last, and returns it. The node gets its generation
    /// back.
    pub fn undo_removing(&mut self, removal: TentativeRemoval) -> &PlacedPod {
        let PlacedPod { pod, node, slot, membership } = removal.placed;
        let row = removal.ghost.map_or(node, |name| self.row_for(&name));
        debug_assert_eq!(row, node, "the row that was freed last is used first");
        let ix = self.place_on_row(pod, row);
        debug_assert_eq!(ix, removal.ix, "the id that was freed last is used first");
        self.move_on_node(ix, slot);
        self.move_in_label_set(ix, membership);
        self.restore_sums(row, removal.before);
        self.pod(ix)
    }

    /// Exchanges the pod that is last on its node with the one in this position.
    fn move_on_node(&mut self, pod: PodIx, slot: u32) {
        let PlacedPod { node, slot: last, .. } = *self.pods.get(pod);
        let pods = &mut self.rows[node.index()].pods;
        pods.swap(slot as usize, last as usize);
        let other = pods[last as usize];
        self.pods.get_mut(other).slot = last;
        self.pods.get_mut(pod).slot = slot;
    }

    /// Exchanges the pod that is last in its label set with the one in this position.
    fn move_in_label_set(&mut self, pod: PodIx, membership: Membership) {
        let last = self.pods.get(pod).membership;
        debug_assert_eq!(
            last.set, membership.set,
            "the label set that was freed last is used first"
        );
        let pods = &mut self.label_sets.get_mut(last.set).pods;
        pods.swap(membership.place as usize, last.place as usize);
        let other = pods[last.place as usize];
        self.pods.get_mut(other).membership = last;
        self.pods.get_mut(pod).membership = membership;
    }
}

/// Sums.
impl Cluster {
    /// Returns the sums of a node that change when the pod is placed on it or removed from it.
    fn sums_before(&self, node: NodeIx, pod: &Pod) -> NodeSums {
        let requested = |name: &Arc<str>| {
            let column = self.scalars.get(name);
            (name.clone(), column.map_or(0, |column| column.get(node).requested))
        };
        // A recount may change every scalar.
        let scalars = match self.is_saturated(node) {
            true => self.scalars.keys().map(requested).collect(),
            false => pod.requests.placed.scalars.iter().map(|(name, _)| requested(name)).collect(),
        };
        NodeSums {
            generation: self.generations[node.index()],
            requested: self.requested.get(node),
            non_zero_requested: self.non_zero_requested.get(node),
            pod_count: self.pod_counts[node.index()],
            scalars,
        }
    }

    fn restore_sums(&mut self, node: NodeIx, before: NodeSums) {
        let NodeSums { generation, requested, non_zero_requested, pod_count, scalars } = before;
        self.generations[node.index()] = generation;
        self.requested.set(node, &requested);
        self.non_zero_requested.set(node, non_zero_requested);
        self.pod_counts[node.index()] = pod_count;
        for (name, amount) in scalars {
            self.change_scalar(node, &name, |scalar| scalar.requested = amount);
        }
    }
}
