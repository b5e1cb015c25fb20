//! Plugins under their names.

use std::sync::Arc;

use framework::{NormalizeScore, PluginName, PreFilter, PreFilterExtensions, Score};

/// A plugin at an extension point.
pub struct Named<T: ?Sized> {
    /// Plugin name.
    pub name: PluginName,
    /// The plugin.
    pub plugin: Arc<T>,
}

impl<T: ?Sized> Clone for Named<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), plugin: self.plugin.clone() }
    }
}

/// A PreFilter plugin with its extensions.
#[expect(missing_docs, reason = "the fields say what they are")]
pub struct PreFilterPlugin {
    pub name: PluginName,
    pub plugin: Arc<dyn PreFilter>,
    pub extensions: Option<Arc<dyn PreFilterExtensions>>,
}

/// A Score plugin with its normaliser and weight.
#[expect(missing_docs, reason = "the fields say what they are")]
pub struct ScorePlugin {
    pub name: PluginName,
    pub plugin: Arc<dyn Score>,
    pub normalize: Option<Arc<dyn NormalizeScore>>,
    pub weight: i64,
}
