//! The profile of a case, with and without plugins that are not built.

use std::sync::Arc;

use engine::profile::{PluginRef, Profile, Profiles, SchedulerProfile};
use framework::{ExtensionPoint, Level, PluginGates};
use plugins::catalogue;
use serde_json::Value;

use super::level_of;

/// Name of the default profile.
pub(crate) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Whether `plugin` is in the catalogue and not built.
pub(crate) fn is_unbuilt(plugin: &str) -> bool {
    catalogue::get(plugin).is_some_and(|entry| !entry.is_built())
}

/// The plugins of a case.
pub(crate) struct Setting {
    /// The deciding profile, without plugins that are not built.
    pub(crate) profiles: Profiles,
    /// The configured profile, with placeholders for plugins that are not built: names and order.
    full: Arc<Profile>,
}

impl Setting {
    /// Returns the setting of a case: its profile at its level.
    pub(crate) fn of(case: &Value) -> Result<Self, String> {
        Self::of_level(level_of(case), &case["profile"])
    }

    /// Returns the setting with this `profile` at a level; null means the default profile.
    pub(crate) fn of_level(level: Level, profile: &Value) -> Result<Self, String> {
        let mut profile: SchedulerProfile = match profile {
            Value::Null => SchedulerProfile::default(),
            given => serde_json::from_value(given.clone())
                .map_err(|error| format!("cannot read the profile: {error}"))?,
        };
        if profile.scheduler_name.is_empty() {
            profile.scheduler_name = DEFAULT_SCHEDULER.to_owned();
        }
        let registry = plugins::registry().with_gates(PluginGates::at(level));
        let mut defaults: Vec<PluginRef> = catalogue::defaults()
            .map(|entry| PluginRef::new(entry.name, entry.default_weight))
            .collect();
        let full = Profile::build(&profile, &defaults, &registry).map_err(|e| e.to_string())?;
        defaults.retain(|plugin| !is_unbuilt(&plugin.name));
        take_out_unbuilt(&mut profile);
        let profiles = Profiles::build(&[profile], &defaults, &registry, false);
        Ok(Self { profiles: profiles.map_err(|error| error.to_string())?, full: Arc::new(full) })
    }

    /// Whether filter plugin `later` runs after `earlier`.
    pub(crate) fn filters_later(&self, later: &str, earlier: &str) -> bool {
        let place =
            |name: &str| self.full.filter.iter().position(|plugin| plugin.name.as_ref() == name);
        place(later) > place(earlier)
    }
}

fn take_out_unbuilt(profile: &mut SchedulerProfile) {
    let sets = &mut profile.plugins;
    for point in ExtensionPoint::OF_ATTEMPT {
        sets.at_mut(*point).enabled.retain(|plugin| !is_unbuilt(&plugin.name));
    }
    sets.multi_point.enabled.retain(|plugin| !is_unbuilt(&plugin.name));
}
