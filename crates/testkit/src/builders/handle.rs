use std::collections::BTreeMap;
use std::sync::Arc;

use framework::preemption::PreemptionProgress;
use framework::{Cluster, Commands, Handle, PendingPods, Pod, Time, WaitingPods, WallOffset};

/// The owner of the data that a [`Handle`] shows beside the cluster. By default there are no pods
/// of any kind, no preemptions, and the time is [`Time::ZERO`].
#[derive(Debug, Default)]
pub struct HandleParts {
    /// Pods waiting in Permit.
    pub waiting: WaitingPods,
    /// Pods without a node.
    pub pending: PendingPods,
    /// Nominated pods, by node.
    pub nominated: BTreeMap<Arc<str>, Vec<Arc<Pod>>>,
    /// Preemptions in progress, and the preemptions that led to no binding.
    pub preemptions: PreemptionProgress,
    /// The time of the call.
    pub now: Time,
    /// How far the wall clock is ahead of it.
    pub wall_offset: WallOffset,
    /// The commands given.
    pub commands: Commands,
}

impl HandleParts {
    /// Returns a handle that shows these parts and `cluster`.
    pub fn handle<'a>(&'a self, cluster: &'a Cluster) -> Handle<'a> {
        Handle {
            cluster,
            waiting: &self.waiting,
            pending: &self.pending,
            nominated: &self.nominated,
            preemptions: &self.preemptions,
            now: self.now,
            wall_offset: self.wall_offset,
            commands: &self.commands,
        }
    }
}

/// A handle that shows `cluster`, and otherwise what [`HandleParts`] shows by default. Its commands
/// are discarded.
pub fn handle(cluster: &Cluster) -> Handle<'_> {
    thread_local! {
        static PARTS: &'static HandleParts = Box::leak(Box::default());
    }
    let parts = PARTS.with(|parts| *parts);
    parts.commands.take();
    parts.handle(cluster)
}
