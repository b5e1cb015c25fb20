//! Where pods are placed, and how that and nodes change.

use foldhash::HashSet;
use framework::{IdTable, Node, NodeChange, NodeIx, PodIx, PodKey, TentativeRemoval, Uid};

/// A step that the state of the pod does not allow. The texts are kube-scheduler's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what is wrong")]
pub enum AssumeError {
    #[error("pod {uid}({key}) is in the cache, so can't be assumed")]
    AlreadyKnown { uid: Uid, key: PodKey },
}

/// Where a pod is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: NodeIx,
    /// The id of the placed pod.
    pub ix: PodIx,
}

/// A pod that was removed for a while.
#[derive(Debug)]
pub(crate) struct Removed {
    pub(crate) removal: TentativeRemoval,
    pub(super) was_assumed: bool,
}

/// How a node object changed.
#[derive(Debug)]
pub(super) struct NodeUpdate {
    /// The node.
    pub(super) node: NodeIx,
    /// The node as it was; `None` if it is new.
    pub(super) old: Option<Node>,
    /// The change.
    pub(super) change: NodeChange,
}

/// The placed pods by UID, and which of them are assumed.
#[derive(Debug, Default)]
pub(super) struct PlacedPods {
    pub(super) by_uid: IdTable<PodIx>,
    pub(super) assumed: HashSet<PodIx>,
}
