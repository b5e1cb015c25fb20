//! The state on which the answers of plugins depend.

use framework::{Dependence, FilterScope, ScoreScope};

/// The plugins that took part, by their places in the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// Of each Filter plugin that filters.
    pub(crate) filters: Vec<Option<Dependence<FilterScope>>>,
    /// Of each Score plugin that scores.
    pub(crate) scores: Vec<Option<Dependence<ScoreScope>>>,
}

/// The scope of each Filter plugin that filters, by its place in the profile.
pub(crate) type FilterScopes = Vec<Option<Dependence<FilterScope>>>;
