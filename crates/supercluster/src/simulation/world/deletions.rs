//! Originals that are deleted. Their finalizer keeps them until a mirror has released them.

use framework::{PodKey, Uid};

use super::{Event, World};
use crate::simulation::servers::{ManagementOperation, ManagementWrite};

impl World {
    /// Number of originals that are deleted, and kept by their finalizer.
    pub fn terminating(&self) -> usize {
        self.originals.values().filter(|own| own.is_terminating()).count()
    }

    /// Number of originals.
    pub fn originals(&self) -> usize {
        self.originals.len()
    }

    pub(super) fn delete_some_pod(&mut self) {
        self.plan(self.settings.faults.deletions, Event::Deletion);
        if self.settings.faults.deletions.is_none() {
            return;
        }
        let living = self.originals.iter().filter(|(_, own)| !own.is_terminating());
        let living: Vec<(Uid, PodKey)> =
            living.map(|(uid, own)| (uid.clone(), own.key().clone())).collect();
        if let Some((uid, pod)) = self.rng.choice(&living).cloned() {
            let operation = ManagementOperation::Delete;
            self.manage(ManagementWrite { pod, uid, operation }, None);
        }
    }
}
