//! From the configured plugin sets to the plugins of each extension point.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use framework::{ExtensionPoint, Plugin, PluginName};

use super::config::{PluginRef, PluginSet, PluginSets};
use super::error::ProfileError;

/// The plugin that others may replace.
const DEFAULT_PREEMPTION: &str = "DefaultPreemption";

/// The default plugins of a profile with the user's set merged in.
///
/// Default entries keep their order; a default the user also enables takes the user's weight in its
/// place, the last one if there are several; what remains of the user's entries follows, duplicates
/// included (they fail later).
pub fn merge_defaults(defaults: &[PluginRef], user: &PluginSet) -> PluginSet {
    let mut enabled = Vec::new();
    let mut replaced = BTreeSet::new();
    if !user.disables_all() {
        for default in defaults.iter().filter(|plugin| !user.disables(&plugin.name)) {
            match user.enabled.iter().rposition(|plugin| plugin.name == default.name) {
                Some(place) => {
                    replaced.insert(place);
                    enabled.push(user.enabled[place].clone());
                }
                None => enabled.push(default.clone()),
            }
        }
    }
    let rest = user.enabled.iter().enumerate().filter(|(place, _)| !replaced.contains(place));
    enabled.extend(rest.map(|(_, plugin)| plugin.clone()));
    let disabled = user.disabled.iter().map(|plugin| PluginRef::new(&plugin.name, 0)).collect();
    PluginSet { enabled, disabled }
}

/// Names of the plugins that run at each point, in order: explicit entries that override a
/// multiPoint plugin, then multiPoint plugins, then the other explicit entries.
///
/// DefaultPreemption is left out where another plugin preempts in its place.
///
/// The explicit entries of every point are checked before multiPoint is looked at, which decides
/// what error is reported when there are several.
pub(super) fn plugins_by_point(
    sets: &PluginSets,
    plugins: &BTreeMap<PluginName, Arc<Plugin>>,
) -> Result<BTreeMap<ExtensionPoint, Vec<PluginName>>, ProfileError> {
    let mut explicit = BTreeMap::new();
    for point in ExtensionPoint::ALL {
        explicit.insert(point, explicit_plugins(point, sets.at(point), plugins)?);
    }
    let mut by_point = BTreeMap::new();
    for point in ExtensionPoint::ALL {
        by_point.insert(point, with_multi_point(point, sets, plugins, &explicit[&point])?);
    }
    for point in [ExtensionPoint::PostFilter, ExtensionPoint::PodGroupPostFilter] {
        let own: &mut Vec<PluginName> = by_point.entry(point).or_default();
        if own.iter().any(|name| plugins[name].replaces_preemption) {
            own.retain(|name| **name != *DEFAULT_PREEMPTION);
        }
    }
    Ok(by_point)
}

/// The entries of the set of one point.
fn explicit_plugins<'a>(
    point: ExtensionPoint,
    set: &'a PluginSet,
    plugins: &BTreeMap<PluginName, Arc<Plugin>>,
) -> Result<Vec<&'a str>, ProfileError> {
    let mut explicit = Vec::new();
    for PluginRef { name, .. } in &set.enabled {
        let made = plugins
            .get(name.as_str())
            .ok_or_else(|| ProfileError::Unknown { point, plugin: name.clone() })?;
        if !made.extends(point) {
            return Err(ProfileError::DoesNotExtend { point, plugin: name.clone() });
        }
        if explicit.contains(&name.as_str()) {
            return Err(ProfileError::Twice { point, plugin: name.clone() });
        }
        explicit.push(name.as_str());
    }
    Ok(explicit)
}

fn with_multi_point(
    point: ExtensionPoint,
    sets: &PluginSets,
    plugins: &BTreeMap<PluginName, Arc<Plugin>>,
    explicit: &[&str],
) -> Result<Vec<PluginName>, ProfileError> {
    let (overriding, multi_point) = match sets.at(point).disables_all() {
        true => (BTreeSet::new(), Vec::new()),
        false => expand_multi_point(point, sets, plugins, explicit)?,
    };
    let (first, last): (Vec<&str>, Vec<&str>) =
        explicit.iter().partition(|name| overriding.contains(*name));
    Ok(first.into_iter().chain(multi_point).chain(last).map(PluginName::from).collect())
}

/// The multiPoint plugins that some explicit entry overrides, and those it does not, in order.
fn expand_multi_point<'a>(
    point: ExtensionPoint,
    sets: &'a PluginSets,
    plugins: &BTreeMap<PluginName, Arc<Plugin>>,
    explicit: &[&str],
) -> Result<(BTreeSet<&'a str>, Vec<&'a str>), ProfileError> {
    let mut overriding = BTreeSet::new();
    let mut expanded = Vec::new();
    for plugin in &sets.multi_point.enabled {
        let name = plugin.name.as_str();
        let made = plugins
            .get(name)
            .ok_or_else(|| ProfileError::Unknown { point, plugin: name.to_owned() })?;
        if !made.extends(point) || sets.at(point).disables(name) {
            continue;
        }
        if explicit.contains(&name) {
            overriding.insert(name);
        } else if expanded.contains(&name) {
            return Err(ProfileError::Twice { point, plugin: name.to_owned() });
        } else {
            expanded.push(name);
        }
    }
    Ok((overriding, expanded))
}
