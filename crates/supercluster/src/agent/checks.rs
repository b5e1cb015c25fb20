//! Conflict checks at the commit.

use std::sync::Arc;

use framework::{Cluster, Pod, Status};

use crate::message::{CommitTarget, Conflict, ConflictCode, Snapshot};

/// A decision, and the present state of the cluster.
#[derive(Debug)]
pub struct CommitView<'a> {
    /// The pod.
    pub pod: &'a Arc<Pod>,
    /// The decision.
    pub target: &'a CommitTarget,
    /// The node on which the delegate is to run.
    pub node: &'a str,
    /// The snapshot that the decision rests on.
    pub snapshot: &'a Snapshot,
    /// The nodes, and the pods that run or are assumed to run on them.
    pub cluster: &'a Cluster,
}

/// A plugin of the binding pipeline: checks a decision against the present state of the cluster.
///
/// The Filter plugins of the agent's profile have passed before. The room of the pod is not taken
/// yet; the agent takes it before it decides on another commit.
pub trait CheckConflicts: Send + Sync {
    /// Returns an error if the state does not allow the decision.
    ///
    /// # Errors
    /// The conflict.
    fn check(&self, commit: &CommitView<'_>) -> Result<(), Conflict>;
}

/// A plugin of the binding pipeline with its name.
#[derive(Clone)]
pub struct NamedCheck {
    /// The name.
    pub name: Arc<str>,
    /// The plugin.
    pub plugin: Arc<dyn CheckConflicts>,
}

/// Returns the conflict that a Filter plugin of the profile has found.
pub(super) fn conflict_of(status: &Status) -> Conflict {
    let code = status.plugin().map_or(ConflictCode::Other, |name| ConflictCode::of_plugin(name));
    Conflict { code, message: status.message() }
}
