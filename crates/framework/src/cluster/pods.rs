//! Placed pods by dense id.

use std::sync::Arc;

use super::NodeIx;
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
    pub(super) slot: usize,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pods {
    table: Vec<Option<PlacedPod>>,
    free: Vec<PodIx>,
}

impl Pods {
    pub(super) const fn len(&self) -> usize {
        self.table.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, pod: PlacedPod) -> PodIx {
        match self.free.pop() {
            Some(ix) => {
                self.table[ix.0 as usize] = Some(pod);
                ix
            }
            None => {
                self.table.push(Some(pod));
                PodIx(u32::try_from(self.table.len() - 1).expect("fewer than 2^32 pods"))
            }
        }
    }

    pub(super) fn remove(&mut self, ix: PodIx) -> PlacedPod {
        let placed = self.table[ix.0 as usize].take().expect("an id of a placed pod");
        self.free.push(ix);
        placed
    }

    pub(super) fn get(&self, ix: PodIx) -> &PlacedPod {
        self.table[ix.0 as usize].as_ref().expect("an id of a placed pod")
    }

    pub(super) fn get_mut(&mut self, ix: PodIx) -> &mut PlacedPod {
        self.table[ix.0 as usize].as_mut().expect("an id of a placed pod")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PlacedPod> {
        self.table.iter().flatten()
    }
}
