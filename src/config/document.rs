//! The configuration as text: the output of `--write-config-to` and `config show`.

use engine::profile::{Profile as BuiltProfile, Profiles};
use framework::ExtensionPoint;
use plugins::catalogue;
use serde::Serialize;
use serde_json::Value;

use super::configuration::{Configuration, PluginConfig, Profile};
use super::{BuildError, emit};

/// The configuration in YAML, as kube-scheduler writes it: arguments only of plugins in use, sorted
/// by name.
///
/// # Errors
/// A profile lacks the plugin that must ignore resources of extenders.
pub fn write_config(config: &Configuration) -> Result<String, BuildError> {
    let mut written = config.clone().with_ignored_resources()?;
    for profile in &mut written.profiles {
        profile.plugin_config = used_config(profile);
    }
    Ok(emit::yaml(&written.to_value()))
}

fn used_config(profile: &Profile) -> Vec<PluginConfig> {
    let is_used = |entry: &&PluginConfig| {
        let mut sets = profile.plugins.all();
        entry.args.is_some() && sets.any(|set| set.enabled(&entry.name).is_some())
    };
    let mut used: Vec<_> = profile.plugin_config.iter().filter(is_used).cloned().collect();
    used.sort_by(|one, other| one.name.cmp(&other.name));
    used
}

/// The plugins of each profile by extension point.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expansion {
    /// Profiles in the order of the configuration.
    pub profiles: Vec<ExpandedProfile>,
}

/// One profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpandedProfile {
    /// Scheduler name by which pods select the profile.
    pub scheduler_name: String,
    /// Share of nodes to score, in percent; 0 leaves the choice to the scheduler.
    pub percentage_of_nodes_to_score: i32,
    /// The extension points with at least one plugin.
    pub extension_points: Vec<ExpandedPoint>,
    /// The arguments in effect.
    pub arguments: Vec<InEffect>,
    /// Plugins in use that are not built.
    pub not_built: Vec<String>,
}

/// The plugins of one extension point, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpandedPoint {
    /// Name of the extension point.
    pub extension_point: &'static str,
    /// The plugins.
    pub plugins: Vec<ExpandedPlugin>,
}

/// A plugin at an extension point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpandedPlugin {
    /// Plugin name.
    pub name: String,
    /// Weight of its scores, for Score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// `false` if the plugin is not built, else absent.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub built: bool,
}

/// The arguments of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InEffect {
    /// Plugin name.
    pub name: String,
    /// The arguments, with defaults.
    pub args: Value,
}

impl Expansion {
    /// Returns the profiles of a configuration after they were built.
    pub fn of(config: &Configuration, built: &Profiles) -> Self {
        let profiles = config.profiles.iter().filter_map(|profile| {
            Some(ExpandedProfile::of(config, profile, built.get(&profile.scheduler_name)?))
        });
        Self { profiles: profiles.collect() }
    }
}

impl ExpandedProfile {
    fn of(config: &Configuration, profile: &Profile, built: &BuiltProfile) -> Self {
        let own = profile.percentage_of_nodes_to_score;
        let points = ExtensionPoint::OF_GROUPS.iter().chain(ExtensionPoint::OF_ATTEMPT);
        let points = points.map(|point| ExpandedPoint::of(*point, built));
        let in_use = built.plugins.keys().filter(|name| !is_built(name));
        Self {
            scheduler_name: profile.scheduler_name.clone(),
            percentage_of_nodes_to_score: own.unwrap_or(config.percentage_of_nodes_to_score),
            extension_points: points.filter(|point| !point.plugins.is_empty()).collect(),
            arguments: arguments(profile, built),
            not_built: in_use.map(ToString::to_string).collect(),
        }
    }
}

impl ExpandedPoint {
    fn of(point: ExtensionPoint, built: &BuiltProfile) -> Self {
        let plugins = built.plugins_at(point).iter().map(|name| ExpandedPlugin {
            name: name.to_string(),
            weight: built.weight_at(point, name),
            built: is_built(name),
        });
        Self { extension_point: point.config_name(), plugins: plugins.collect() }
    }
}

/// Whether a plugin is built; out-of-tree plugins always are.
fn is_built(plugin: &str) -> bool {
    catalogue::get(plugin).is_none_or(catalogue::Entry::is_built)
}

/// The arguments of every plugin in use. A plugin may report more than the configuration has.
fn arguments(profile: &Profile, built: &BuiltProfile) -> Vec<InEffect> {
    let in_use = built.plugins.values().filter_map(|plugin| {
        let configured = || profile.args_of(&plugin.name).map(super::Arguments::to_value);
        let args = plugin.args.clone().or_else(configured)?;
        Some(InEffect { name: plugin.name.to_string(), args })
    });
    in_use.collect()
}
