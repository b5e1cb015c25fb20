//! The part of the world that plugins read.

use framework::preemption::PreemptionProgress;
use framework::{Cluster, Commands, Handle, PendingPods, Time, WaitingPods, WallOffset};

use crate::nominator::Nominator;

/// The part of the world that plugins read, for any thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) waiting: &'a WaitingPods,
    pub(super) pending: &'a PendingPods,
    pub(super) nominator: &'a Nominator,
    pub(super) preemptions: &'a PreemptionProgress,
    pub(super) now: Time,
    pub(super) wall_offset: WallOffset,
}

impl<'a> Shared<'a> {
    /// Returns the handle of plugins whose commands go to `commands`.
    pub(crate) fn handle(self, commands: &'a Commands) -> Handle<'a> {
        let Self { cluster, waiting, pending, nominator, preemptions, now, wall_offset } = self;
        Handle {
            cluster,
            waiting,
            pending,
            nominated: nominator,
            preemptions,
            now,
            wall_offset,
            commands,
        }
    }
}
