//! The effects of a change beyond the world.

use std::sync::Arc;

use framework::{Pod, Uid};

/// An effect of a change that the engine passes on to binding cycles, preemptions and plugins.
#[derive(Debug)]
pub enum Changed {
    /// A pending pod has a node now.
    Bound {
        /// The pod.
        pod: Uid,
        /// The node.
        node: Arc<str>,
    },
    /// A pending pod is gone.
    PendingDeleted(Uid),
    /// A pod that is assumed on a node is being deleted or is gone. Its room is not free yet.
    AssumedDeleted(Uid),
    /// A pod, pending or placed, is gone.
    Deleted(Arc<Pod>),
}
