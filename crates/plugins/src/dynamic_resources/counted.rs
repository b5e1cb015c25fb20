//! Which claims count with which allocation beyond the watch, and their sum.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::device::{Allocation, Seen};
use framework::{Cluster, Uid};
use structured::Overlay;

/// The claims that count beyond the watch. The tracker decides which do; it asks again only for
/// claims that have changed.
#[derive(Debug, Default)]
pub(super) struct Counted {
    allocations: BTreeMap<Uid, Arc<Allocation>>,
    overlay: Arc<Overlay>,
    /// Tracked claims that have changed since they were counted.
    noted: BTreeSet<Uid>,
    /// The changes of stored claims that are counted.
    seen: Seen,
}

impl Counted {
    /// Notes that a tracked claim has changed.
    pub(super) fn note(&mut self, claim: &Uid) {
        self.noted.insert(claim.clone());
    }

    /// Returns the counted and the tracked claims that have changed since the last call, on the
    /// watch or in the tracker; `None` if any claim may have.
    pub(super) fn changed(
        &mut self,
        cluster: &Cluster,
        is_tracked: impl Fn(&Uid) -> bool,
    ) -> Option<BTreeSet<Uid>> {
        let mut changed = std::mem::take(&mut self.noted);
        let log = cluster.resource_claim_changes();
        let stored = log.since(&self.seen);
        self.seen = log.seen();
        let counts = |uid: &&Uid| self.allocations.contains_key(uid) || is_tracked(uid);
        changed.extend(stored?.filter(counts).cloned());
        Some(changed)
    }

    /// Returns the counted claims.
    pub(super) fn claims(&self) -> impl Iterator<Item = &Uid> {
        self.allocations.keys()
    }

    /// Sets the allocation with which a claim counts; `None` if it does not.
    pub(super) fn set(&mut self, claim: &Uid, allocation: Option<Arc<Allocation>>) {
        if self.allocations.get(claim) == allocation.as_ref() {
            return;
        }
        let overlay = Arc::make_mut(&mut self.overlay);
        if let Some(new) = &allocation {
            overlay.add(new);
        }
        let old = match allocation {
            Some(new) => self.allocations.insert(claim.clone(), new),
            None => self.allocations.remove(claim),
        };
        if let Some(old) = old {
            overlay.remove(&old);
        }
    }

    /// Returns the sum.
    pub(super) fn overlay(&mut self, cluster: &Cluster) -> Arc<Overlay> {
        if !self.overlay.is_current(cluster) {
            Arc::make_mut(&mut self.overlay).update(cluster);
        }
        self.overlay.clone()
    }
}
