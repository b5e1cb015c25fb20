//! Placed pods by dense id.

use std::sync::Arc;

use super::NodeIx;
use super::label_sets::Membership;
use super::slab::Slab;
use api::Pod;

/// The dense id of a placed pod. Ids of removed pods are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIx(u32);

/// A pod and its node.
#[derive(Debug, Clone)]
pub struct PlacedPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The node of the pod.
    pub node: NodeIx,
    /// The position of the pod in the list of the node.
    pub(super) slot: u32,
    /// The position of the pod in its label set.
    pub(super) membership: Membership,
}

/// Returns whether two versions of a placed pod have the same counts. Such versions differ at most
/// in fields that the cluster does not count, such as conditions, the nomination, the start time
/// and the resource version.
pub(super) fn count_alike(old: &Pod, new: &Pod) -> bool {
    // Pods of one template share these parts, so most comparisons compare addresses.
    old.uid == new.uid
        && old.key == new.key
        && old.terminating == new.terminating
        && old.labels == new.labels
        && old.requests == new.requests
        && old.spec == new.spec
        && old.extra == new.extra
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pods(Slab<PlacedPod>);

impl Pods {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn insert(&mut self, pod: PlacedPod) -> PodIx {
        PodIx(self.0.insert(pod))
    }

    pub(super) fn remove(&mut self, ix: PodIx) -> PlacedPod {
        self.0.remove(ix.0)
    }

    pub(super) fn get(&self, ix: PodIx) -> &PlacedPod {
        self.0.get(ix.0)
    }

    pub(super) fn get_mut(&mut self, ix: PodIx) -> &mut PlacedPod {
        self.0.get_mut(ix.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PlacedPod> {
        self.0.iter().map(|(_, pod)| pod)
    }
}
