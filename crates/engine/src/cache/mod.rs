//! The scheduler cache: nodes, and pods that run or are assumed to run on them.
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
//! An assumed pod stays assumed until the watch confirms it, it is forgotten, or it is deleted: there is
//! no timeout.

mod node_tree;

use std::collections::HashMap;
use std::sync::Arc;

use framework::preemption::FruitlessPreemptions;
use framework::{
    Cluster, EventResource, Node, NodeChange, NodeIx, PlacedPod, Pod, PodIx, PodKey, PodPool,
    PodQuery, Uid,
};

use serde_json::Value;

use self::node_tree::NodeTree;

/// A step that the state of the pod does not allow. The texts are those of kube-scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what is wrong")]
pub enum CacheError {
    #[error("pod {uid}({key}) is in the cache, so can't be assumed")]
    AlreadyKnown { uid: Uid, key: PodKey },
    #[error("pod {uid}({key}) wasn't assumed so cannot be forgotten")]
    NotAssumed { uid: Uid, key: PodKey },
}

#[derive(Debug, Clone, Copy)]
struct PodState {
    placed: PodIx,
    assumed: bool,
}

/// Nodes and placed pods.
#[derive(Debug, Default)]
pub struct Cache {
    cluster: Cluster,
    pods: HashMap<Uid, PodState>,
    assumed: usize,
    tree: NodeTree,
    pool: PodPool,
}

impl Cache {
    /// The nodes and what is on them.
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// All nodes, taken in turn from each zone.
    pub fn node_order(&self) -> &[NodeIx] {
        self.tree.order()
    }

    /// Number of pods that are assumed and not yet confirmed.
    pub const fn assumed_count(&self) -> usize {
        self.assumed
    }

    /// Shares the parts of `pod` that other pods have too.
    pub fn share(&mut self, pod: &mut Pod) {
        self.pool.share(pod);
    }

    /// The placed pod of this UID.
    pub fn placed(&self, uid: &Uid) -> Option<&PlacedPod> {
        self.pods.get(uid).map(|state| self.cluster.pod(state.placed))
    }

    /// Whether the pod is assumed and not yet confirmed.
    pub fn is_assumed(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|state| state.assumed)
    }

    /// Places the pod on `node` before the API server knows; returns the pod as placed, with its node.
    ///
    /// # Errors
    /// The pod is known already.
    pub fn assume(&mut self, pod: &Pod, node: &Arc<str>) -> Result<Arc<Pod>, CacheError> {
        if self.pods.contains_key(&pod.uid) {
            return Err(CacheError::AlreadyKnown { uid: pod.uid.clone(), key: pod.key.clone() });
        }
        let pod = Arc::new(Pod { node_name: Some(node.clone()), ..pod.clone() });
        self.place(pod.clone(), node, true);
        Ok(pod)
    }

    /// Takes an assumed pod off its node; returns it, or `None` if it is not known any more.
    ///
    /// # Errors
    /// The pod is not only assumed.
    pub fn forget(&mut self, uid: &Uid) -> Result<Option<Arc<Pod>>, CacheError> {
        match self.pods.get(uid) {
            None => Ok(None),
            Some(PodState { assumed: true, .. }) => Ok(self.remove(uid)),
            Some(PodState { placed, .. }) => {
                let key = self.cluster.pod(*placed).pod.key.clone();
                Err(CacheError::NotAssumed { uid: uid.clone(), key })
            }
        }
    }

    /// The watch shows the pod on `node`: confirms, corrects or updates what is known. Returns the pod
    /// as it was placed before.
    pub fn apply(&mut self, pod: Arc<Pod>, node: &Arc<str>) -> Option<Arc<Pod>> {
        let known = self.pods.get_mut(&pod.uid);
        if let Some(state) = known
            && let placed = self.cluster.pod(state.placed)
            && self.cluster.node_name(placed.node) == node
        {
            let before = placed.pod.clone();
            self.assumed -= usize::from(std::mem::take(&mut state.assumed));
            self.cluster.update_pod(state.placed, pod);
            return Some(before);
        }
        let before = self.take_off(&pod.uid);
        self.place(pod, node, false);
        before
    }

    /// The pod is gone; returns it as it was placed.
    pub fn remove(&mut self, uid: &Uid) -> Option<Arc<Pod>> {
        let pod = self.take_off(uid)?;
        // A status of its budgets may have counted its end already, and none may follow.
        self.cluster.cancel_eviction(uid);
        Some(pod)
    }

    fn take_off(&mut self, uid: &Uid) -> Option<Arc<Pod>> {
        let state = self.pods.remove(uid)?;
        self.assumed -= usize::from(state.assumed);
        Some(self.cluster.remove_pod(state.placed).pod)
    }

    fn place(&mut self, pod: Arc<Pod>, node: &str, assumed: bool) {
        let uid = pod.uid.clone();
        let placed = self.cluster.place_pod(pod, node);
        self.pods.insert(uid, PodState { placed, assumed });
        self.assumed += usize::from(assumed);
    }

    /// The node called `name`, as far as the cluster keeps it.
    pub fn node(&self, name: &str) -> Option<Node> {
        self.cluster.node_named(name).map(|ix| self.cluster.to_node(ix))
    }

    /// Adds or updates a node; returns what has changed about it.
    pub fn set_node(&mut self, node: &Node) -> NodeChange {
        let (ix, change) = self.cluster.set_node(node);
        self.tree.set(ix, &node.labels);
        change
    }

    /// Removes a node; returns it as it was. Its pods keep counting, should it come back.
    pub fn remove_node(&mut self, name: &str) -> Option<Node> {
        let ix = self.cluster.node_named(name)?;
        let before = self.cluster.to_node(ix);
        self.tree.remove(ix);
        self.cluster.remove_node(name);
        Some(before)
    }

    /// Adds, replaces or (with `None`) removes an object of another kind; returns the one before.
    pub fn set_object(
        &mut self,
        kind: &EventResource,
        namespace: &str,
        name: &str,
        object: Option<Arc<Value>>,
    ) -> Option<Arc<Value>> {
        let before = self.cluster.set_object(kind, namespace, name, object);
        if *kind == EventResource::PodDisruptionBudget {
            self.settle_evictions(namespace, name);
        }
        before
    }

    /// What has changed about a PodDisruptionBudget may be that it counts evicted pods that end.
    fn settle_evictions(&mut self, namespace: &str, name: &str) {
        let runs = |uid: &Uid| self.placed(uid).is_some_and(|placed| !placed.pod.terminating);
        let evicting = self.cluster.evicting(namespace, name);
        let ended: Vec<Uid> = evicting.filter(|uid| !runs(uid)).cloned().collect();
        self.cluster.settle_evictions(namespace, name, &ended);
    }

    /// Notes that the scheduler evicts `pod`: PodDisruptionBudgets count that from now on.
    pub fn begin_eviction(&mut self, pod: &Pod) {
        self.cluster.begin_eviction(pod);
    }

    /// Notes that the scheduler does not evict the pod after all.
    pub fn cancel_eviction(&mut self, pod: &Uid) {
        self.cluster.cancel_eviction(pod);
    }

    /// Notes that the evictions of victims of this pod begin.
    pub fn begin_preemption(&mut self, preemptor: &Uid) {
        self.cluster.begin_preemption(preemptor);
    }

    /// Notes that the last victim of this pod is being evicted, or none will be.
    pub fn end_preemption(&mut self, preemptor: &Uid) {
        self.cluster.end_preemption(preemptor);
    }

    /// Preemptions that have led to no binding, to change them.
    pub const fn fruitless_preemptions_mut(&mut self) -> &mut FruitlessPreemptions {
        self.cluster.fruitless_preemptions_mut()
    }

    /// Keeps the answer to `query` up to date from now on, see [`Cluster::stand`].
    pub fn stand(&mut self, query: &PodQuery) {
        self.cluster.stand(query);
    }

    /// Brings [`node_order`](Self::node_order) up to date.
    pub fn refresh_order(&mut self) {
        self.tree.refresh();
    }
}

#[cfg(test)]
mod tests;
