//! Weights of the plugins that score.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{ExtensionPoint, MAX_NODE_SCORE, Plugin, PluginName};

use super::config::PluginSets;
use super::error::ProfileError;

/// Weights by plugin name.
pub(super) type Weights = BTreeMap<PluginName, i64>;

/// The points whose plugins have weights, and what they are called when weights are wrong.
const WEIGHTED: [(ExtensionPoint, &str); 2] =
    [(ExtensionPoint::Score, "score"), (ExtensionPoint::PlacementScore, "placement score")];

/// The weights at every point that has any.
pub(super) fn by_point(
    sets: &PluginSets,
    plugins: &BTreeMap<PluginName, Arc<Plugin>>,
) -> Result<BTreeMap<ExtensionPoint, Weights>, ProfileError> {
    let weights = WEIGHTED.into_iter().map(|(point, what)| {
        let weights = weights(point, sets, plugins);
        Ok((point, weights.ok_or(ProfileError::WeightOverflow(what))?))
    });
    weights.collect()
}

/// The weights of all plugins that extend `point` and are enabled there or everywhere; an entry of
/// the point goes before one of multiPoint. `None` if their sum could overflow.
///
/// As in kube-scheduler, only the last weight may be negative. Its overflow check wraps around
/// after a negative weight and refuses every later plugin.
fn weights(
    point: ExtensionPoint,
    sets: &PluginSets,
    plugins: &BTreeMap<PluginName, Arc<Plugin>>,
) -> Option<Weights> {
    let mut weights = Weights::new();
    let mut total = 0_i64;
    for entry in sets.at(point).enabled.iter().chain(&sets.multi_point.enabled) {
        let Some(plugin) = plugins.get(entry.name.as_str()) else { continue };
        if !plugin.extends(point) || weights.contains_key(&plugin.name) {
            continue;
        }
        let weight = if entry.weight == 0 { 1 } else { i64::from(entry.weight) };
        let greatest = weight * MAX_NODE_SCORE;
        if greatest > i64::MAX.wrapping_sub(total) {
            return None;
        }
        total += greatest;
        weights.insert(plugin.name.clone(), weight);
    }
    Some(weights)
}
