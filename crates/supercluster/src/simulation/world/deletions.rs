//! Originals that are deleted. Their finalizer keeps them until a mirror has released them.

use framework::Uid;

use super::{Event, World};
use crate::simulation::management::ManagementOperation;

impl World {
    /// Number of originals that are deleted, and kept by their finalizer.
    pub fn terminating(&self) -> usize {
        self.management.pods.values().filter(|pod| pod.pod.terminating).count()
    }

    /// Number of originals.
    pub fn originals(&self) -> usize {
        self.management.pods.len()
    }

    pub(super) fn delete_some_pod(&mut self) {
        self.plan(self.settings.faults.deletions, Event::Deletion);
        if self.settings.faults.deletions.is_none() {
            return;
        }
        let living = self.management.pods.iter().filter(|(_, pod)| !pod.pod.terminating);
        let living: Vec<Uid> = living.map(|(uid, _)| uid.clone()).collect();
        if let Some(uid) = self.rng.choice(&living).cloned() {
            self.manage(&ManagementOperation::Delete { uid });
        }
    }
}
