//! Arguments and weights without effect.

use engine::profile::Profiles;
use framework::Registry;
use plugins::catalogue;

use super::configuration::Configuration;
use super::v1::KubeSchedulerConfiguration;

impl Configuration {
    /// Returns a warning for each entry of `pluginConfig` whose plugin does not exist, or is not
    /// enabled in its profile, and for what plugins say about their arguments. kube-scheduler
    /// ignores such entries silently. `profiles` are the profiles of this configuration.
    pub fn unused_plugin_config(&self, profiles: &Profiles, registry: &Registry) -> Vec<String> {
        let mut warnings = Vec::new();
        for (place, profile) in self.profiles.iter().enumerate() {
            let built = profiles.get(&profile.scheduler_name);
            for (entry, config) in profile.plugin_config.iter().enumerate() {
                let name = config.name.as_str();
                let exists = registry.get(name).is_some() || catalogue::get(name).is_some();
                let reason = match exists {
                    false => "does not exist",
                    true if built.is_some_and(|built| built.plugins.contains_key(name)) => continue,
                    true => "is not enabled in this profile",
                };
                warnings.push(format!(
                    "profiles[{place}].pluginConfig[{entry}]: the plugin {name:?} {reason}, so its \
                     arguments have no effect"
                ));
            }
            for plugin in built.iter().flat_map(|built| built.plugins.values()) {
                let name = &plugin.name;
                warnings.extend(
                    plugin.notes.iter().map(|note| format!("profiles[{place}]: {name}: {note}")),
                );
            }
        }
        warnings
    }
}

impl KubeSchedulerConfiguration {
    /// Returns a warning for each plugin whose weight is written as 0, which counts as a weight
    /// that is not given.
    pub fn zero_weights(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (place, profile) in self.profiles.iter().enumerate() {
            let Some(plugins) = &profile.plugins else { continue };
            for (point, set) in [("score", &plugins.score), ("multiPoint", &plugins.multi_point)] {
                let zero = set.enabled.iter().filter(|plugin| plugin.weight == Some(0));
                warnings.extend(zero.map(|plugin| {
                    format!(
                        "profiles[{place}].plugins.{point}: the weight 0 of {:?} counts as not given, so its scores have \
                         the default weight; to ignore them, list it in plugins.score.disabled",
                        plugin.name
                    )
                }));
            }
        }
        warnings
    }
}
