//! The profile of a case, with and without plugins that are not built.

use std::sync::{Arc, LazyLock};

use engine::profile::{PluginConfig, PluginRef, Profile, Profiles, SchedulerProfile};
use framework::{ExtensionPoint, Level, PluginGates};
use loadmaster::config::{self, Gates};
use plugins::catalogue;
use serde_json::{Value, json};

use super::level_of;
use super::levels::DERIVED;

/// Name of the default profile.
pub(crate) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Whether `plugin` is in the catalogue and not built.
pub(crate) fn is_unbuilt(plugin: &str) -> bool {
    catalogue::get(plugin).is_some_and(|entry| !entry.is_built())
}

/// The shape that the configuration gives VolumeBinding at the derived level.
pub(crate) static DEFAULT_SHAPE: LazyLock<Value> = LazyLock::new(|| {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration";
    let loaded = config::load(text, &Gates::at(DERIVED)).expect("an empty configuration");
    let written = loaded.config.to_value();
    let mut arguments = written["profiles"][0]["pluginConfig"].as_array().into_iter().flatten();
    let own = arguments.find(|own| own["name"] == VOLUME_BINDING).expect("its arguments");
    own["args"]["shape"].clone()
});

/// The plugin whose arguments have another default at the derived level.
pub(crate) const VOLUME_BINDING: &str = "VolumeBinding";

/// Gives VolumeBinding the shape that the configuration would give it, unless it has one.
fn complete_volume_binding(profile: &mut SchedulerProfile) {
    let known = profile.plugin_config.iter_mut().find(|own| own.name == VOLUME_BINDING);
    let args = match known {
        Some(own) => own.args.get_or_insert_with(|| json!({})),
        None => {
            let own = PluginConfig { name: VOLUME_BINDING.to_owned(), args: Some(json!({})) };
            profile.plugin_config.push(own);
            let last = profile.plugin_config.last_mut().and_then(|own| own.args.as_mut());
            last.expect("it was given arguments")
        }
    };
    if args["shape"].is_null() {
        args["shape"] = DEFAULT_SHAPE.clone();
    }
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
        if level >= DERIVED {
            complete_volume_binding(&mut profile);
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
