//! ZoneCost: prefers cheaper nodes.
//!
//! This example of a Score plugin has arguments, a set form and a metric. Prices are set by zone,
//! by instance type, or by both. The currency and period are arbitrary:
//!
//! ```yaml
//! pluginConfig:
//! - name: ZoneCost
//!   args:
//!     zones: {eu-1a: 0.40, eu-1b: 0.44}
//!     instanceTypes: {spot-16: 0.12}
//! ```
//!
//! The price of the instance type takes precedence over the price of the zone. Other nodes cost
//! `defaultPrice`, by default the highest listed price.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{
    Attempt, AttemptMut, Cluster, Counter, Dependence, MAX_NODE_SCORE, NodeView, NormalizeScore,
    PerNode, Plugin, PluginArgs, Registry, RegistryError, Score, ScoreScope, Status,
};
use serde::{Deserialize, Serialize};

/// Plugin name.
pub const NAME: &str = "ZoneCost";

const ZONE: &str = "topology.kubernetes.io/zone";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Highest valid price.
const PRICE_MAX: f64 = 1e6;

/// The arguments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ZoneCostArgs {
    /// Prices by zone, the value of the label `topology.kubernetes.io/zone`.
    pub zones: BTreeMap<String, f64>,
    /// Prices by the label `node.kubernetes.io/instance-type`. They take precedence over zones.
    pub instance_types: BTreeMap<String, f64>,
    /// Price of nodes without a listed price. The default is the highest listed price.
    pub default_price: Option<f64>,
}

/// The ZoneCost plugin.
#[derive(Debug)]
pub struct ZoneCost {
    zones: Prices,
    instance_types: Prices,
    default_price: i64,
    unpriced: Arc<Counter>,
}

/// Prices in millionths by label value. Integers make the scores equal on every machine.
type Prices = BTreeMap<String, i64>;

/// Adds the plugin to `registry`.
///
/// # Errors
/// Returns an error if the name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register(NAME, plugin)
}

/// Makes the plugin from [`ZoneCostArgs`].
///
/// # Errors
/// Returns an error if the arguments do not decode or a price is out of range.
pub fn plugin(args: &PluginArgs) -> Result<Plugin, String> {
    let args = args.decode::<ZoneCostArgs>()?.completed()?;
    let unpriced = Counter::new(
        "zone_cost_unpriced_nodes_total",
        "Nodes that were scored with the default price, as no price is given for them.",
    );
    let plugin = Plugin::new(NAME, ZoneCost::new(&args, unpriced.clone()));
    Ok(plugin.score().normalize_score().args(&args).metric(&unpriced).build())
}

impl ZoneCostArgs {
    /// Validates the arguments and fills in the default.
    fn completed(mut self) -> Result<Self, String> {
        let faults = self.faults();
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        let listed = self.zones.values().chain(self.instance_types.values()).copied();
        self.default_price = self.default_price.or_else(|| listed.reduce(f64::max));
        Ok(self)
    }

    /// Returns the errors of the arguments, field by field.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.zones.is_empty() && self.instance_types.is_empty() {
            faults.push("zones, instanceTypes: at least one price is required".to_owned());
        }
        let zones = self.zones.iter().map(|(zone, price)| (format!("zones[{zone}]"), *price));
        let types = self.instance_types.iter();
        let types = types.map(|(name, price)| (format!("instanceTypes[{name}]"), *price));
        let default = self.default_price.map(|price| ("defaultPrice".to_owned(), price));
        for (field, price) in zones.chain(types).chain(default) {
            if !(0.0..=PRICE_MAX).contains(&price) {
                faults.push(format!("{field}: must be from 0 to {PRICE_MAX}, got {price}"));
            }
        }
        faults
    }
}

impl ZoneCost {
    fn new(args: &ZoneCostArgs, unpriced: Arc<Counter>) -> Self {
        Self {
            zones: in_millionths(&args.zones),
            instance_types: in_millionths(&args.instance_types),
            default_price: args.default_price.map_or(0, millionths),
            unpriced,
        }
    }

    /// Returns the listed price of one node; `None` without one.
    fn price(&self, node: &NodeView<'_>) -> Option<i64> {
        let listed = |prices: &Prices, label| prices.get(node.label(label)?).copied();
        listed(&self.instance_types, INSTANCE_TYPE).or_else(|| listed(&self.zones, ZONE))
    }

    /// Returns the listed price of every node, by [`NodeIx::index`].
    fn price_column(&self, cluster: &Cluster) -> Vec<Option<i64>> {
        let mut column = vec![None; cluster.table_len()];
        for (label, prices) in [(ZONE, &self.zones), (INSTANCE_TYPE, &self.instance_types)] {
            for (value, price) in prices {
                let Some(nodes) = cluster.with_label(label, value) else { continue };
                nodes.iter().for_each(|node| column[node.index()] = Some(*price));
            }
        }
        column
    }

    /// Returns `price`, or the default price, whose uses are counted.
    fn or_default(&self, price: Option<i64>) -> i64 {
        price.unwrap_or_else(|| {
            self.unpriced.inc();
            self.default_price
        })
    }
}

impl Score for ZoneCost {
    /// Returns the price. [`NormalizeScore`] inverts it.
    fn score(&self, _attempt: &Attempt<'_>, node: &NodeView<'_>) -> Result<i64, Status> {
        Ok(self.or_default(self.price(node)))
    }

    /// Iterates over prices instead of nodes: the cluster has an index of nodes by label value.
    fn score_set(&self, attempt: &Attempt<'_>, scores: PerNode<'_>) -> Result<(), Status> {
        let PerNode { nodes, values: scores, .. } = scores;
        let column = self.price_column(attempt.handle.cluster);
        for (node, score) in nodes.iter().zip(scores) {
            *score = self.or_default(column[node.index()]);
        }
        Ok(())
    }

    /// Labels decide.
    fn dependence(&self, _attempt: AttemptMut<'_>) -> Option<Dependence<ScoreScope>> {
        Some(Dependence::on(ScoreScope::Node).without_pods())
    }
}

impl NormalizeScore for ZoneCost {
    /// Maps the cheapest node to 100 and the most expensive to 0, others in proportion.
    fn normalize_score(&self, _attempt: &Attempt<'_>, scores: PerNode<'_>) -> Status {
        let scores = scores.values;
        let lowest = scores.iter().copied().min().unwrap_or(0);
        let highest = scores.iter().copied().max().unwrap_or(0);
        for score in scores {
            *score = match highest - lowest {
                0 => MAX_NODE_SCORE,
                spread => (highest - *score) * MAX_NODE_SCORE / spread,
            };
        }
        Status::success()
    }
}

fn in_millionths(prices: &BTreeMap<String, f64>) -> Prices {
    prices.iter().map(|(value, price)| (value.clone(), millionths(*price))).collect()
}

fn millionths(price: f64) -> i64 {
    (price * 1e6).round() as i64
}

#[cfg(test)]
mod tests;
