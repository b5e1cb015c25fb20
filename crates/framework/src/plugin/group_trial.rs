//! Trials: whether a pod group fits once other pods are gone.

use std::sync::Arc;

use crate::{Handle, MemberNomination, PodGroupKey, QueuedPod, Status, Uid};

/// Decides about a pod group as if other pods were gone. All changes are undone at the end.
pub trait PodGroupTrial {
    /// Returns the group.
    fn group(&self) -> &PodGroupKey;

    /// Returns the members that wait for a node, in the order in which they are placed.
    fn members(&self) -> &[QueuedPod];

    /// Returns the views, without the pods that are taken off, and the place for commands.
    fn handle(&self) -> Handle<'_>;

    /// Takes a pod off its node. Ignores a pod that has none.
    fn remove_pod(&mut self, pod: &Uid);

    /// Puts a pod that was taken off back on its node. Ignores other pods.
    fn add_pod(&mut self, pod: &Uid);

    /// Decides about the group. Returns the nodes of the members that fit, if they are enough. No
    /// member stays on its node.
    ///
    /// # Errors
    /// The group is rejected, or a plugin fails.
    fn decide(&mut self) -> Result<Vec<MemberNomination>, Status>;

    /// Decides about the group, and leaves the members on their nodes for
    /// [`filter_on`](Self::filter_on).
    ///
    /// # Errors
    /// As for [`decide`](Self::decide). No member is then on a node.
    fn place(&mut self) -> Result<Vec<MemberNomination>, Status>;

    /// Filters the nodes of [placed](Self::place) members again, each member for its own node:
    /// those on one of `nodes`, or all if `nodes` is `None`.
    fn filter_on(&mut self, nodes: Option<&[Arc<str>]>) -> Status;
}
