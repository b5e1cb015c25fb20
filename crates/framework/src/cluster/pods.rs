//! Placed pods by dense id.

use std::sync::Arc;

use super::NodeIx;
use super::classes::Membership;
use super::slab::Slab;
use crate::Pod;

/// The dense id of a placed pod. Ids of pods that are gone are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIx(u32);

/// A pod and where it is.
#[derive(Debug, Clone)]
pub struct PlacedPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The node it is on.
    pub node: NodeIx,
    /// Its place in the list of the node.
    pub(super) slot: u32,
    /// Its place among the pods of its labels.
    pub(super) membership: Membership,
}

/// Whether two versions of a placed pod count alike: they differ at most in what the cluster keeps no
/// count of, such as conditions, the nomination, the start time and the version of the object.
pub(super) fn count_alike(old: &Pod, new: &Pod) -> bool {
    // Parts that the template decides are shared, so most comparisons are of addresses.
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
