//! Plugins by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::Plugin;

/// The name of a plugin, as profiles, statuses and metrics use it.
pub type PluginName = Arc<str>;

/// Arguments of a plugin from `pluginConfig`, undecoded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginArgs(Option<serde_json::Value>);

impl PluginArgs {
    /// Arguments as given in the configuration.
    pub const fn new(args: serde_json::Value) -> Self {
        Self(Some(args))
    }

    /// Decodes into `T`; absent arguments are `T::default()`. Declare `T` with
    /// `#[serde(deny_unknown_fields)]` to refuse what it does not know; `apiVersion` and `kind` are
    /// taken out before.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub fn decode<T: DeserializeOwned + Default>(&self) -> Result<T, String> {
        let Some(args) = &self.0 else { return Ok(T::default()) };
        let mut args = args.clone();
        if let Some(fields) = args.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        serde_json::from_value(args).map_err(|error| error.to_string())
    }
}

/// Makes a plugin from its arguments; once per profile that enables it.
pub type Factory = Arc<dyn Fn(&PluginArgs) -> Result<Plugin, String> + Send + Sync>;

/// Factories by plugin name.
#[derive(Clone, Default)]
pub struct Registry {
    factories: BTreeMap<PluginName, Factory>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// A name was registered before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a plugin named {0} already exists")]
pub struct RegistryError(pub PluginName);

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin under `name`.
    ///
    /// # Errors
    /// The name is taken.
    pub fn register(
        &mut self,
        name: &str,
        factory: impl Fn(&PluginArgs) -> Result<Plugin, String> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        let name: PluginName = name.into();
        if self.factories.contains_key(&name) {
            return Err(RegistryError(name));
        }
        self.factories.insert(name, Arc::new(factory));
        Ok(())
    }

    /// Adds every plugin of `other`.
    ///
    /// # Errors
    /// A name is in both.
    pub fn merge(&mut self, other: Self) -> Result<(), RegistryError> {
        for (name, factory) in other.factories {
            if self.factories.contains_key(&name) {
                return Err(RegistryError(name));
            }
            self.factories.insert(name, factory);
        }
        Ok(())
    }

    /// The factory of the plugin called `name`.
    pub fn get(&self, name: &str) -> Option<&Factory> {
        self.factories.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &PluginName> {
        self.factories.keys()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Args {
        weight: i64,
    }

    #[test]
    fn arguments_are_decoded_strictly() {
        let args = |value| PluginArgs::new(value).decode::<Args>();
        assert_eq!(PluginArgs::default().decode(), Ok(Args { weight: 0 }));
        assert_eq!(args(serde_json::json!({"kind": "XArgs", "weight": 2})), Ok(Args { weight: 2 }));
        let error = args(serde_json::json!({"wieght": 2})).unwrap_err();
        assert!(error.contains("unknown field `wieght`"), "{error}");
    }

    #[test]
    fn a_name_is_registered_once() {
        let mut registry = Registry::new();
        let factory = |_: &PluginArgs| Err("never made".to_owned());
        registry.register("A", factory).unwrap();
        assert_eq!(registry.register("A", factory), Err(RegistryError("A".into())));
        assert_eq!(registry.merge(registry.clone()), Err(RegistryError("A".into())));
    }
}
