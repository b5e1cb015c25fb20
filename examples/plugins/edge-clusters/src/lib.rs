//! Plugins for clusters at the edge: one for each of the three pipelines of a scheduler over many
//! clusters.
//!
//! | Plugin | Pipeline | What it does |
//! |---|---|---|
//! | `zones-in-turn` | sampling | draws nodes from all zones of a cluster alike |
//! | GeoDistance | decision | asks only clusters near the place that a pod names, and prefers the nearest |
//! | BatteryLevel | binding | refuses a node whose battery is too low at the time of the commit |

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{
    Cluster, CycleState, MAX_NODE_SCORE, NodeBits, NodeIx, PluginArgs, RegistryError, Status,
};
use serde::Deserialize;
use supercluster::agent::{CheckConflicts, CommitView, DrawNodes, SamplingStrategy, Source};
use supercluster::message::{Conflict, ConflictCode};
use supercluster::registry::PipelineRegistry;
use supercluster::scheduler::{self, DecisionNode, DecisionPlugin, DecisionPod};

/// Adds the plugins to `registry`.
///
/// # Errors
/// A name is registered already.
pub fn register(registry: &mut PipelineRegistry) -> Result<(), RegistryError> {
    registry.register_strategy("zones-in-turn", |args| {
        let ZonesArgs { label } = args.decode()?;
        Ok(Arc::new(ZonesInTurn { label }))
    })?;
    registry.register_decision("GeoDistance", |args| Ok(Arc::new(geo_distance(args)?)))?;
    registry.register_check("BatteryLevel", |args| {
        let BatteryArgs { label, lowest } = args.decode()?;
        match lowest {
            0..=100 => Ok(Arc::new(BatteryLevel { label, lowest })),
            _ => Err(format!("lowest: {lowest} is not from 0 to 100")),
        }
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ZonesArgs {
    /// The label that names the zone of a node.
    label: String,
}

impl Default for ZonesArgs {
    fn default() -> Self {
        Self { label: "topology.kubernetes.io/zone".to_owned() }
    }
}

/// Draws a node of each zone in turn, so that a small sample does not miss a small zone.
struct ZonesInTurn {
    label: String,
}

impl SamplingStrategy for ZonesInTurn {
    fn start(&self, seed: u64) -> Source<'_> {
        Source::Draw(Box::new(Draw { label: &self.label, seed }))
    }
}

/// The draws of one sample.
struct Draw<'a> {
    label: &'a str,
    /// Moves the beginning within each zone, so that samples differ.
    seed: u64,
}

impl DrawNodes for Draw<'_> {
    fn draw(&mut self, cluster: &Cluster, missing: usize, seen: &NodeBits, drawn: &mut NodeBits) {
        let mut zones: BTreeMap<&str, Vec<NodeIx>> = BTreeMap::new();
        for node in cluster.nodes().iter().filter(|node| !seen.contains(*node)) {
            let zone = cluster.node(node).label(self.label).unwrap_or_default();
            zones.entry(zone).or_default().push(node);
        }
        for nodes in zones.values_mut() {
            let first = usize::try_from(self.seed % nodes.len() as u64).unwrap_or(0);
            nodes.rotate_left(first);
        }
        let longest = zones.values().map(Vec::len).max().unwrap_or(0);
        let in_turn =
            (0..longest).flat_map(|turn| zones.values().filter_map(move |own| own.get(turn)));
        for node in in_turn.take(missing) {
            drawn.insert(*node);
        }
    }
}

/// Annotation of a pod: latitude and longitude in degrees, for example `48.2,16.4`.
pub const NEAR: &str = "edge.example.com/near";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct GeoArgs {
    /// The property of clusters with their place, in the form of the annotation.
    property: String,
    /// Greatest distance of a cluster in kilometres.
    max_km: f64,
}

impl Default for GeoArgs {
    fn default() -> Self {
        Self { property: "location".to_owned(), max_km: 500.0 }
    }
}

/// Asks only clusters near the place in the annotation [`NEAR`] of the pod, and prefers the
/// nearest.
struct GeoDistance(GeoArgs);

fn geo_distance(args: &PluginArgs) -> Result<GeoDistance, String> {
    let args: GeoArgs = args.decode()?;
    match args.max_km.is_finite() && args.max_km > 0.0 {
        true => Ok(GeoDistance(args)),
        false => Err(format!("maxKm: {} is not over 0", args.max_km)),
    }
}

/// A place on Earth, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    latitude: f64,
    longitude: f64,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (latitude, longitude) = text.split_once(',')?;
        let degrees =
            |text: &str| text.trim().parse().ok().filter(|value: &f64| value.abs() <= 180.0);
        Some(Self { latitude: degrees(latitude)?, longitude: degrees(longitude)? })
    }

    /// Returns the length of the great circle in kilometres.
    fn km_to(self, other: Self) -> f64 {
        const RADIUS_KM: f64 = 6_371.0;
        let (a, b) = (self.latitude.to_radians(), other.latitude.to_radians());
        let along = (other.longitude - self.longitude).to_radians();
        let half = |angle: f64| (angle / 2.0).sin().powi(2);
        let chord = half(b - a) + a.cos() * b.cos() * half(along);
        2.0 * RADIUS_KM * chord.sqrt().min(1.0).asin()
    }
}

impl GeoDistance {
    fn km(&self, state: &CycleState, cluster: &scheduler::Cluster) -> Option<f64> {
        let there = Place::parse(cluster.properties.get(&*self.0.property)?)?;
        Some(state.read::<Place>()?.km_to(there))
    }
}

impl DecisionPlugin for GeoDistance {
    fn name(&self) -> &'static str {
        "GeoDistance"
    }

    fn pre_filter(&self, state: &mut CycleState, pod: &DecisionPod<'_>) -> Status {
        let Some(text) = pod.object.annotation(NEAR) else { return Status::success() };
        match Place::parse(text) {
            Some(place) => {
                state.write(place);
                Status::success()
            }
            None => Status::unresolvable(format!("annotation {NEAR}: {text:?} is no place")),
        }
    }

    fn filter_cluster(
        &self,
        state: &CycleState,
        _: &DecisionPod<'_>,
        cluster: &scheduler::Cluster,
    ) -> Status {
        if state.read::<Place>().is_none() {
            return Status::success();
        }
        match self.km(state, cluster) {
            Some(km) if km <= self.0.max_km => Status::success(),
            Some(km) => Status::unresolvable(format!("it is {km:.0} km away")),
            None => Status::unresolvable(format!("it has no property {:?}", self.0.property)),
        }
    }

    fn score(&self, state: &CycleState, _: &DecisionPod<'_>, node: &DecisionNode<'_>) -> i64 {
        match self.km(state, node.cluster) {
            Some(km) => ((1.0 - km / self.0.max_km) * MAX_NODE_SCORE as f64) as i64,
            None => MAX_NODE_SCORE,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct BatteryArgs {
    /// The label of a node with the level of its battery in percent. A node without it has no
    /// battery.
    label: String,
    /// Lowest level of a node that takes pods.
    lowest: i64,
}

impl Default for BatteryArgs {
    fn default() -> Self {
        Self { label: "edge.example.com/battery".to_owned(), lowest: 20 }
    }
}

/// Refuses nodes whose battery is low at the time of the commit.
struct BatteryLevel {
    label: String,
    lowest: i64,
}

impl CheckConflicts for BatteryLevel {
    fn check(&self, commit: &CommitView<'_>) -> Result<(), Conflict> {
        let node = commit.cluster.node_named(commit.node);
        let level = node.and_then(|node| commit.cluster.node(node).label(&self.label));
        match level.and_then(|level| level.parse::<i64>().ok()) {
            Some(level) if level < self.lowest => Err(Conflict {
                code: ConflictCode::Other,
                message: format!("BatteryLevel: node {} has {level} %", commit.node),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
