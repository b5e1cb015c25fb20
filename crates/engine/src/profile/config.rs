//! A profile as configured: one entry of `profiles` of a `KubeSchedulerConfiguration`.

use framework::{ExtensionPoint, extension_points};
use serde::{Deserialize, Serialize};

/// One profile before defaulting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SchedulerProfile {
    /// Pods choose the profile by this name.
    pub scheduler_name: String,
    /// How many percent of the nodes are looked at; wins over the global setting.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Changes to the default plugins.
    pub plugins: PluginSets,
    /// Arguments of plugins.
    pub plugin_config: Vec<PluginConfig>,
}

impl SchedulerProfile {
    /// The arguments given for a plugin.
    pub fn args_of(&self, plugin: &str) -> Option<&serde_json::Value> {
        self.plugin_config.iter().find(|config| config.name == plugin)?.args.as_ref()
    }
}

/// Arguments of one plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PluginConfig {
    /// Plugin name.
    pub name: String,
    /// Arguments, decoded by the plugin.
    pub args: Option<serde_json::Value>,
}

macro_rules! plugin_sets {
    (attempt { $($attempt:tt)* } group { $($group:tt)* } $($beside:tt)*) => {
        plugin_sets! { $($attempt)* $($group)* }
    };
    ($($(#[$doc:meta])* $point:ident, $field:ident, $key:literal;)*) => {
        /// The plugins of each extension point.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct PluginSets {
            $($(#[$doc])* #[serde(rename = $key)] pub $field: PluginSet,)*
            /// Plugins enabled at every point they implement.
            #[serde(rename = "multiPoint")]
            pub multi_point: PluginSet,
        }

        impl PluginSets {
            /// The set of one extension point.
            pub const fn at(&self, point: ExtensionPoint) -> &PluginSet {
                match point {
                    $(ExtensionPoint::$point => &self.$field,)*
                }
            }

            /// The set of one extension point, to change it.
            pub const fn at_mut(&mut self, point: ExtensionPoint) -> &mut PluginSet {
                match point {
                    $(ExtensionPoint::$point => &mut self.$field,)*
                }
            }
        }
    };
}

extension_points!(plugin_sets);

impl PluginSets {
    /// Every set, the one for all points last.
    pub fn all(&self) -> impl Iterator<Item = &PluginSet> {
        ExtensionPoint::ALL.into_iter().map(|point| self.at(point)).chain([&self.multi_point])
    }
}

/// Plugins switched on and off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PluginSet {
    /// Switched on, in order.
    pub enabled: Vec<PluginRef>,
    /// Switched off; `*` stands for all defaults.
    pub disabled: Vec<PluginRef>,
}

impl PluginSet {
    /// Whether `name` is switched off by name.
    pub fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|plugin| plugin.name == name)
    }

    /// Whether all defaults are switched off.
    pub fn disables_all(&self) -> bool {
        self.disables("*")
    }

    /// The first entry that switches `name` on.
    pub fn enabled(&self, name: &str) -> Option<&PluginRef> {
        self.enabled.iter().find(|plugin| plugin.name == name)
    }
}

/// A plugin by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginRef {
    /// Plugin name.
    pub name: String,
    /// Weight of its scores; 0 stands for the default, 1.
    pub weight: i32,
}

impl PluginRef {
    /// A plugin with a weight.
    pub fn new(name: &str, weight: i32) -> Self {
        Self { name: name.to_owned(), weight }
    }
}
