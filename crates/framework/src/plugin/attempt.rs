//! One attempt to schedule a pod, as a plugin sees it.

use crate::{CycleState, Handle, Pod};

/// An attempt to schedule a pod, for extension points that read the [`CycleState`].
///
/// ```
/// use loadmaster_framework::{Attempt, Filter, NodeView, Status};
///
/// struct OwnNamespace;
///
/// impl Filter for OwnNamespace {
///     fn filter(&self, attempt: &Attempt<'_>, node: &NodeView<'_>) -> Status {
///         match node.label("tenant") {
///             Some(tenant) if *tenant != *attempt.pod.key.namespace => {
///                 Status::unresolvable("the node belongs to another tenant")
///             }
///             _ => Status::success(),
///         }
///     }
/// }
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The data that the plugins have written in this attempt.
    pub state: &'a CycleState,
    /// The pod.
    pub pod: &'a Pod,
    /// The views of the scheduler, and a place for commands.
    pub handle: &'a Handle<'a>,
}

impl<'a> Attempt<'a> {
    /// Creates an attempt at `pod`.
    pub const fn new(state: &'a CycleState, pod: &'a Pod, handle: &'a Handle<'a>) -> Self {
        Self { state, pod, handle }
    }
}

/// An attempt to schedule a pod, for extension points that change the [`CycleState`].
#[non_exhaustive]
pub struct AttemptMut<'a> {
    /// The data that the plugins have written in this attempt.
    pub state: &'a mut CycleState,
    /// The pod.
    pub pod: &'a Pod,
    /// The views of the scheduler, and a place for commands.
    pub handle: &'a Handle<'a>,
}

impl<'a> AttemptMut<'a> {
    /// Creates an attempt at `pod`.
    pub const fn new(state: &'a mut CycleState, pod: &'a Pod, handle: &'a Handle<'a>) -> Self {
        Self { state, pod, handle }
    }

    /// Returns the same attempt, to be read.
    pub const fn as_ref(&self) -> Attempt<'_> {
        Attempt { state: self.state, pod: self.pod, handle: self.handle }
    }

    /// Returns the same attempt, to be passed on and used again afterwards.
    pub const fn reborrow(&mut self) -> AttemptMut<'_> {
        AttemptMut { state: self.state, pod: self.pod, handle: self.handle }
    }
}
