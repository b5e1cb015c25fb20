//! The cluster in the world: nodes, and pods that run or are assumed to run on them (the cache of
//! kube-scheduler).
//!
//! A pod is in one of these states, by UID:
//!
//! ```text
//!            assume              add (the watch shows it bound)
//!   unknown ───────▶ Assumed ──────────────────────────▶ Added ⟲ update
//!      ▲  ╲             │ forget, remove                  │ remove
//!      │   ╲────────────┼─────────── add ────────────────▶│
//!      └────────────────┴─────────────────────────────────┘
//! ```
//!
//! An assumed pod stays assumed until the watch confirms it, it is forgotten, or it is deleted:
//! there is no timeout.

use std::sync::Arc;

use framework::{
    Cluster, EventResource, Node, NodeChange, NodeIx, Object, ObjectKey, ObjectUpdate, PlacedPod,
    Pod, PodIx, TentativePlacing, Uid,
};

use super::World;
use super::placed::{AssumeError, NodeUpdate, Placement, Removed};

/// Looking in.
impl World {
    /// Returns the nodes and what is on them.
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns all nodes, taken in turn from each zone.
    pub fn node_order(&self) -> &[NodeIx] {
        self.tree.order()
    }

    /// Returns the number of pods that are assumed and not yet confirmed.
    pub fn assumed_count(&self) -> usize {
        self.placed.assumed.len()
    }

    /// Returns the placed pod of this UID.
    pub fn placed(&self, uid: &Uid) -> Option<&PlacedPod> {
        self.id_of(uid).map(|placed| self.cluster.pod(placed))
    }

    /// Returns where the pod is placed.
    pub fn placement(&self, uid: &Uid) -> Option<Placement> {
        let ix = self.id_of(uid)?;
        Some(Placement { node: self.cluster.pod(ix).node, ix })
    }

    /// Returns whether the pod is assumed and not yet confirmed.
    pub fn is_assumed(&self, uid: &Uid) -> bool {
        self.id_of(uid).is_some_and(|placed| self.placed.assumed.contains(&placed))
    }

    /// Returns whether the pod is placed and not terminating.
    pub fn is_running(&self, uid: &Uid) -> bool {
        self.placed(uid).is_some_and(|placed| !placed.pod.terminating)
    }

    /// Returns the node on which the watch shows the pod.
    pub(crate) fn confirmed_node(&self, uid: &Uid) -> Option<&Arc<str>> {
        let placed = self.placed(uid).filter(|_| !self.is_assumed(uid))?;
        Some(self.cluster.node_name(placed.node))
    }

    /// Returns the node called `name`, with the fields that the cluster keeps.
    pub fn node(&self, name: &str) -> Option<Node> {
        self.cluster.node_named(name).map(|ix| self.cluster.to_node(ix))
    }

    fn id_of(&self, uid: &Uid) -> Option<PodIx> {
        self.placed.by_uid.get(uid, |placed| uid_of(&self.cluster, placed))
    }
}

/// Placed pods.
impl World {
    /// Replaces the parts of `pod` that equal parts of other pods, or of its node, by shared ones,
    /// which saves memory.
    pub(super) fn share(&mut self, pod: &mut Pod) {
        if pod.requests.by_container.is_some() {
            Arc::make_mut(&mut pod.requests).follow(self.profiles.behaviours());
        }
        self.pool.share(pod);
        let Some(name) = &mut pod.node_name else { return };
        match self.cluster.node_named(name) {
            Some(node) => name.clone_from(self.cluster.node_name(node)),
            None => self.pool.share_text(name),
        }
    }

    /// Places the pod on `node` before the API server knows. Returns the pod with its node.
    pub(super) fn place_assumed(
        &mut self,
        pod: &Pod,
        node: &Arc<str>,
    ) -> Result<Arc<Pod>, AssumeError> {
        let pod = self.assumed(pod, node)?;
        self.attach(pod.clone(), node, true);
        Ok(pod)
    }

    /// Returns the pod with its node.
    fn assumed(&self, pod: &Pod, node: &Arc<str>) -> Result<Arc<Pod>, AssumeError> {
        if self.placed(&pod.uid).is_some() {
            return Err(AssumeError::AlreadyKnown { uid: pod.uid.clone(), key: pod.key.clone() });
        }
        Ok(Arc::new(Pod { node_name: Some(node.clone()), ..pod.clone() }))
    }

    /// Handles that the watch shows the pod on `node`: confirms an assumed pod, moves it to the
    /// right node, adds it or updates it. Returns the pod as it was placed before, and whether a
    /// property changed that plugins can see.
    pub(super) fn place_shown(
        &mut self,
        pod: Arc<Pod>,
        node: &Arc<str>,
    ) -> (Option<Arc<Pod>>, bool) {
        if let Some(ix) = self.id_of(&pod.uid)
            && let placed = self.cluster.pod(ix)
            && self.cluster.node_name(placed.node) == node
        {
            let before = placed.pod.clone();
            self.placed.assumed.remove(&ix);
            let changed = self.cluster.update_pod(ix, pod);
            return (Some(before), changed);
        }
        let before = self.detach(&pod.uid);
        self.attach(pod, node, false);
        (before.map(|(pod, _)| pod), true)
    }

    /// Removes a pod that is gone. Returns it and where it was placed.
    pub(super) fn remove_placed(&mut self, uid: &Uid) -> Option<(Arc<Pod>, Placement)> {
        let removed = self.detach(uid)?;
        // A status of its budgets may count its end already. No later status may come.
        self.cluster.cancel_eviction(uid);
        Some(removed)
    }

    fn detach(&mut self, uid: &Uid) -> Option<(Arc<Pod>, Placement)> {
        let ix = self.placed.by_uid.remove(uid, |placed| uid_of(&self.cluster, placed))?;
        self.placed.assumed.remove(&ix);
        let PlacedPod { pod, node, .. } = self.cluster.remove_pod(ix);
        Some((pod, Placement { node, ix }))
    }

    fn attach(&mut self, pod: Arc<Pod>, node: &str, assumed: bool) {
        let placed = self.cluster.place_pod(pod, node);
        self.index(placed, assumed);
    }

    fn index(&mut self, placed: PodIx, assumed: bool) {
        self.placed.by_uid.insert(placed, uid_of(&self.cluster, placed));
        if assumed {
            self.placed.assumed.insert(placed);
        }
    }

    /// Returns whether the pod was assumed.
    fn unindex(&mut self, ix: PodIx) -> bool {
        let uid = uid_of(&self.cluster, ix);
        self.placed.by_uid.remove(uid, |placed| uid_of(&self.cluster, placed));
        self.placed.assumed.remove(&ix)
    }
}

/// Placed pods inside a savepoint.
impl World {
    /// Places a pod as [`place_assumed`](Self::place_assumed) does, until that is
    /// [undone](Self::undo_assuming).
    pub(super) fn place_tentatively(
        &mut self,
        pod: &Pod,
        node: &Arc<str>,
    ) -> Result<TentativePlacing, AssumeError> {
        let pod = self.assumed(pod, node)?;
        let placing = self.cluster.place_pod_tentatively(pod, node);
        self.index(placing.ix, true);
        Ok(placing)
    }

    /// Places a pod on its own node, until that is [undone](Self::undo_assuming). Returns `None` if
    /// it has a place.
    pub(super) fn put_back_tentatively(&mut self, pod: Arc<Pod>) -> Option<TentativePlacing> {
        let node = pod.node_name.clone().filter(|_| self.placed(&pod.uid).is_none())?;
        let placing = self.cluster.place_pod_tentatively(pod, &node);
        self.index(placing.ix, true);
        Some(placing)
    }

    /// Undoes the last change, which placed a pod.
    pub(super) fn undo_assuming(&mut self, placing: TentativePlacing) {
        self.unindex(placing.ix);
        self.cluster.undo_placing(placing);
    }

    /// Removes a pod, placed or assumed, until that is [undone](Self::undo_removing). Its eviction,
    /// if it has one, still counts.
    pub(super) fn remove_tentatively(&mut self, uid: &Uid) -> Option<Removed> {
        let ix = self.id_of(uid)?;
        let was_assumed = self.unindex(ix);
        Some(Removed { removal: self.cluster.remove_pod_tentatively(ix), was_assumed })
    }

    /// Undoes the last change, which removed a pod.
    pub(super) fn undo_removing(&mut self, Removed { removal, was_assumed }: Removed) {
        let ix = removal.ix;
        self.cluster.undo_removing(removal);
        self.index(ix, was_assumed);
    }

    /// Stops counting the eviction of a pod that was removed for a while, and is still gone.
    pub(super) fn forget_eviction(&mut self, pod: &Uid) {
        if self.placed(pod).is_none() {
            self.cluster.cancel_eviction(pod);
        }
    }
}

/// Nodes and other objects.
impl World {
    /// Adds or updates a node. Returns `None` if nothing that the scheduler reads changed.
    pub(super) fn update_node(&mut self, node: &Node) -> Option<NodeUpdate> {
        if self.cluster.has_node(node) {
            return None;
        }
        let old = self.node(&node.name);
        let (ix, change) = self.cluster.set_node(node);
        self.tree.set(ix, &node.labels);
        (!change.is_empty()).then_some(NodeUpdate { node: ix, old, change })
    }

    /// Removes a node. Its pods keep counting, in case the node comes back.
    pub(super) fn remove_node(&mut self, name: &str) -> Option<NodeUpdate> {
        let node = self.cluster.node_named(name)?;
        let old = Some(self.cluster.to_node(node));
        self.tree.remove(node);
        self.cluster.remove_node(name);
        Some(NodeUpdate { node, old, change: NodeChange::REMOVED })
    }

    /// Brings the [order of the nodes](Self::node_order) for sampled searches up to date.
    pub fn refresh_node_order(&mut self) {
        self.tree.refresh();
    }

    /// Adds or replaces an object of another kind.
    pub(super) fn set_object(&mut self, object: Object) -> ObjectUpdate {
        let key = object.key().clone();
        let update = self.cluster.set_object(object);
        if key.kind == EventResource::PodDisruptionBudget {
            self.confirm_evictions(&key.namespace, &key.name);
        }
        update
    }

    /// Removes an object of another kind.
    pub(super) fn remove_object(&mut self, key: &ObjectKey) -> ObjectUpdate {
        self.cluster.remove_object(key)
    }

    /// Handles a change of a PodDisruptionBudget, whose status may now count the evicted pods that
    /// have ended.
    fn confirm_evictions(&mut self, namespace: &str, name: &str) {
        let evicting = self.cluster.evicting(namespace, name);
        let ended: Vec<Uid> = evicting.filter(|uid| !self.is_running(uid)).cloned().collect();
        self.cluster.confirm_evictions(namespace, name, &ended);
    }

    /// Counts the eviction of `victim` against its PodDisruptionBudgets.
    pub fn begin_eviction(&mut self, victim: &Pod) {
        self.cluster.begin_eviction(victim);
    }

    /// Stops counting the eviction of a pod that is not evicted after all.
    pub fn cancel_eviction(&mut self, victim: &Uid) {
        self.cluster.cancel_eviction(victim);
    }
}

fn uid_of(cluster: &Cluster, placed: PodIx) -> &Uid {
    &cluster.pod(placed).pod.uid
}

#[cfg(test)]
mod tests;
