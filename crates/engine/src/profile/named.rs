//! Plugins under their names.

use std::sync::Arc;

use framework::{Attempt, Dependence, Filter, FilterScope, Plugin, PluginName};

/// A plugin at an extension point.
pub struct Named<T: ?Sized> {
    /// Plugin name.
    pub name: PluginName,
    /// The plugin.
    pub plugin: Arc<T>,
    /// All that the plugin implements and registers.
    pub registered: Arc<Plugin>,
    /// The weight of its scores; 0 at points without weights.
    pub weight: i64,
}

impl<T: ?Sized> Clone for Named<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            plugin: self.plugin.clone(),
            registered: self.registered.clone(),
            weight: self.weight,
        }
    }
}

impl Named<dyn Filter> {
    /// Returns what the verdicts of the plugin depend on: what it says, or else what follows from
    /// what it registered.
    pub(crate) fn dependence(&self, attempt: &Attempt<'_>) -> Dependence<FilterScope> {
        let said = self.plugin.dependence(attempt);
        said.unwrap_or_else(|| self.registered.inferred_dependence())
    }
}
