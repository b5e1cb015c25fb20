//! The registry: factories of the plugins of the three pipelines, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use framework::{PluginArgs, RegistryError};

use crate::agent::{CheckConflicts, SamplingStrategy, Strategies};
use crate::scheduler::{DecisionPlugin, plugins};

/// Makes a plugin from its arguments. Its error names the argument at fault.
type Factory<T> = Arc<dyn Fn(&PluginArgs) -> Result<Arc<T>, String> + Send + Sync>;

/// The plugins of one pipeline.
struct Factories<T: ?Sized> {
    /// The name of its kind of plugin, for errors.
    what: &'static str,
    by_name: BTreeMap<Arc<str>, Factory<T>>,
}

impl<T: ?Sized> Clone for Factories<T> {
    fn clone(&self) -> Self {
        Self { what: self.what, by_name: self.by_name.clone() }
    }
}

impl<T: ?Sized> Factories<T> {
    const fn new(what: &'static str) -> Self {
        Self { what, by_name: BTreeMap::new() }
    }

    fn register(&mut self, name: &str, factory: Factory<T>) -> Result<(), RegistryError> {
        if self.by_name.contains_key(name) {
            return Err(RegistryError(name.into()));
        }
        self.by_name.insert(name.into(), factory);
        Ok(())
    }

    /// Makes a plugin. The error begins with the field at fault, `name` or `args`.
    fn make(&self, name: &str, args: &PluginArgs) -> Result<Arc<T>, String> {
        let Some(factory) = self.by_name.get(name) else {
            let names: Vec<&str> = self.by_name.keys().map(AsRef::as_ref).collect();
            let known = match names.is_empty() {
                true => "none is registered".to_owned(),
                false => format!("one of {}", names.join(", ")),
            };
            return Err(format!("name: {name:?} is no {}; {known}", self.what));
        };
        factory(args).map_err(|error| format!("args: {error}"))
    }
}

/// The plugins of the three pipelines. It begins with those in the tree; a program adds its own.
#[derive(Clone)]
pub struct PipelineRegistry {
    strategies: Factories<dyn SamplingStrategy>,
    decisions: Factories<dyn DecisionPlugin>,
    checks: Factories<dyn CheckConflicts>,
}

impl Default for PipelineRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PipelineRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineRegistry")
            .field("strategies", &self.strategies.by_name.keys())
            .field("decisions", &self.decisions.by_name.keys())
            .field("checks", &self.checks.by_name.keys())
            .finish()
    }
}

impl PipelineRegistry {
    /// Creates a registry with the plugins in the tree.
    pub fn new() -> Self {
        let mut own = Self {
            strategies: Factories::new("sampling strategy"),
            decisions: Factories::new("plugin of the decision pipeline"),
            checks: Factories::new("CheckConflicts plugin"),
        };
        for (name, strategy) in Strategies::IN_TREE {
            let make = move |args: &PluginArgs| no_args(args).map(|()| strategy());
            own.strategies.by_name.insert(name.into(), Arc::new(make));
        }
        for (name, factory) in plugins::IN_TREE {
            own.decisions.by_name.insert(name.into(), Arc::new(factory));
        }
        own
    }

    /// Adds a sampling strategy. The factory is called once in an agent that serves it.
    ///
    /// # Errors
    /// The name is registered already.
    pub fn register_strategy(
        &mut self,
        name: &str,
        factory: impl Fn(&PluginArgs) -> Result<Arc<dyn SamplingStrategy>, String>
        + Send
        + Sync
        + 'static,
    ) -> Result<(), RegistryError> {
        self.strategies.register(name, Arc::new(factory))
    }

    /// Adds a plugin of the decision pipeline. The factory is called once for each entry of the
    /// configuration.
    ///
    /// # Errors
    /// The name is registered already.
    pub fn register_decision(
        &mut self,
        name: &str,
        factory: impl Fn(&PluginArgs) -> Result<Arc<dyn DecisionPlugin>, String> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        self.decisions.register(name, Arc::new(factory))
    }

    /// Adds a plugin of the binding pipeline. The factory is called once for each entry of the
    /// configuration.
    ///
    /// # Errors
    /// The name is registered already.
    pub fn register_check(
        &mut self,
        name: &str,
        factory: impl Fn(&PluginArgs) -> Result<Arc<dyn CheckConflicts>, String> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        self.checks.register(name, Arc::new(factory))
    }

    /// Makes a sampling strategy.
    ///
    /// # Errors
    /// The field at fault, `name` or `args`, and the reason.
    pub fn strategy(
        &self,
        name: &str,
        args: &PluginArgs,
    ) -> Result<Arc<dyn SamplingStrategy>, String> {
        self.strategies.make(name, args)
    }

    /// Makes a plugin of the decision pipeline.
    ///
    /// # Errors
    /// The field at fault, `name` or `args`, and the reason.
    pub fn decision(
        &self,
        name: &str,
        args: &PluginArgs,
    ) -> Result<Arc<dyn DecisionPlugin>, String> {
        self.decisions.make(name, args)
    }

    /// Makes a plugin of the binding pipeline.
    ///
    /// # Errors
    /// The field at fault, `name` or `args`, and the reason.
    pub fn check(&self, name: &str, args: &PluginArgs) -> Result<Arc<dyn CheckConflicts>, String> {
        self.checks.make(name, args)
    }
}

/// Refuses arguments of a plugin that has none.
pub(crate) fn no_args(args: &PluginArgs) -> Result<(), String> {
    #[derive(Default, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoArgs {}
    args.decode().map(|NoArgs {}| ())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plugins_are_made_by_name_with_their_arguments() {
        let registry = PipelineRegistry::new();
        let none = PluginArgs::default();
        for name in ["random", "round-robin", "all", "best"] {
            assert!(registry.strategy(name, &none).is_ok(), "{name}");
        }
        for name in ["ClusterAffinity", "ClusterSpread", "ClusterLoad", "DataLocality"] {
            assert_eq!(
                registry.decision(name, &none).map(|own| own.name().to_owned()),
                Ok(name.to_owned())
            );
        }
        let given = |args| registry.decision("ClusterCost", &PluginArgs::new(args)).map(|_| ());
        assert_eq!(given(json!({"property": "price"})), Ok(()));
        assert_eq!(given(json!({})), Err("args: property: is missing".to_owned()));
        let error = given(json!({"property": "price", "propety": 1})).unwrap_err();
        assert!(error.starts_with("args: unknown field `propety`"), "{error}");
        let args = PluginArgs::new(json!({"share": 1}));
        let error = registry.strategy("random", &args).map(|_| ()).unwrap_err();
        assert!(error.starts_with("args: unknown field `share`"), "{error}");
        let error = registry.decision("Cheap", &none).map(|_| ()).unwrap_err();
        assert!(
            error.starts_with(
                "name: \"Cheap\" is no plugin of the decision pipeline; one of ClusterAffinity, "
            ),
            "{error}"
        );
        let error = registry.check("Batteries", &none).map(|_| ()).unwrap_err();
        assert_eq!(error, "name: \"Batteries\" is no CheckConflicts plugin; none is registered");
    }

    #[test]
    fn name_is_registered_once() {
        let mut registry = PipelineRegistry::new();
        let error = registry.register_strategy("random", |_| Err("never made".to_owned()));
        assert_eq!(error, Err(RegistryError("random".into())));
        registry.register_check("random", |_| Err("never made".to_owned())).unwrap();
    }
}
