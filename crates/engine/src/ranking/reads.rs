//! What the answers of plugins depend on.

use framework::{FilterScope, PodPart, ScoreScope};

/// What the verdict or the score of a plugin depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reads<S> {
    pub(crate) scope: S,
    /// Whether it depends on the pods of a node.
    pub(crate) pods: bool,
    /// The part of the pod to be scheduled.
    pub(crate) part: PodPart,
}

/// The plugins that took part, by their places in the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// Of each Filter plugin that filters.
    pub(crate) filters: Vec<Option<Reads<FilterScope>>>,
    /// Of each Score plugin that scores.
    pub(crate) scores: Vec<Option<Reads<ScoreScope>>>,
}

/// What each Filter plugin that filters depends on, by its place in the profile.
pub(crate) type FilterScopes = Vec<Option<Reads<FilterScope>>>;
