//! The utilisation of nodes.

use std::collections::BTreeMap;

use framework::{Cluster, NodeIx, POOL_LABELS, Taint};
use serde::Deserialize;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::Value;

/// The requested and allocatable amount of a resource. CPU is in cores, memory and storage in
/// bytes, all other resources in units.
///
/// The JSON form adds `percent`, which is `null` if the allocatable amount is 0. Whole numbers have
/// no decimals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct Usage {
    /// Sum of the requests of all pods.
    pub requested: f64,
    /// Allocatable amount.
    pub allocatable: f64,
}

impl Usage {
    /// Returns the requested amount in percent of the allocatable; `None` if that is 0.
    pub fn percent(self) -> Option<f64> {
        (self.allocatable > 0.0).then(|| self.requested * 100.0 / self.allocatable)
    }

    fn add(&mut self, other: Self) {
        self.requested += other.requested;
        self.allocatable += other.allocatable;
    }
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Usage", 3)?;
        fields.serialize_field("requested", &shortest(self.requested))?;
        fields.serialize_field("allocatable", &shortest(self.allocatable))?;
        let percent = self.percent().map(|percent| (percent * 100.0).round() / 100.0);
        fields.serialize_field("percent", &percent)?;
        fields.end()
    }
}

/// Formats whole numbers without a point, if a float represents them exactly, and others to the
/// thousandth, the resolution of CPU.
pub(crate) fn shortest(number: f64) -> Value {
    const EXACT: f64 = (1_u64 << 53) as f64;
    let number = if number.abs() < EXACT { (number * 1000.0).round() / 1000.0 } else { number };
    if number.fract() == 0.0 && number.abs() < EXACT {
        (number as i64).into()
    } else {
        number.into()
    }
}

/// The utilisation of a node.
#[derive(Debug, Clone, PartialEq, serde::Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsage {
    /// Name.
    pub name: String,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// The taints, as `key=value:effect`.
    pub taints: Vec<String>,
    /// The zone; empty without a zone label.
    pub zone: String,
    /// The pool: the label of the provider or autoscaler, or else the instance type; empty without
    /// one.
    #[serde(default)]
    pub pool: String,
    /// All resources that the node has or its pods request.
    pub resources: BTreeMap<String, Usage>,
}

impl NodeUsage {
    /// Returns the number of pods on the node.
    pub fn pods(&self) -> f64 {
        self.resources.get("pods").map_or(0.0, |usage| usage.requested)
    }
}

const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns the usage of every node, sorted by name.
pub(super) fn of_nodes(cluster: &Cluster) -> Vec<NodeUsage> {
    let mut nodes: Vec<NodeUsage> = cluster.nodes().iter().map(|ix| of_node(cluster, ix)).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

/// Returns the sum over nodes.
pub(super) fn total(nodes: &[NodeUsage]) -> BTreeMap<String, Usage> {
    let mut total: BTreeMap<String, Usage> = BTreeMap::new();
    for (name, usage) in nodes.iter().flat_map(|node| &node.resources) {
        total.entry(name.clone()).or_default().add(*usage);
    }
    total
}

fn of_node(cluster: &Cluster, ix: NodeIx) -> NodeUsage {
    let node = cluster.node(ix);
    NodeUsage {
        name: node.name().to_string(),
        unschedulable: node.is_unschedulable(),
        taints: node.taints().iter().map(taint_text).collect(),
        zone: node.label(ZONE).unwrap_or_default().to_owned(),
        pool: POOL_LABELS
            .into_iter()
            .find_map(|key| node.label(key))
            .unwrap_or_default()
            .to_owned(),
        resources: resources_of(cluster, ix),
    }
}

/// Formats a taint like `kubectl taint`.
fn taint_text(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect.as_str())
}

fn resources_of(cluster: &Cluster, ix: NodeIx) -> BTreeMap<String, Usage> {
    let node = cluster.node(ix);
    let (own, used) = (node.allocatable(), node.requested());
    let usage = |requested: i64, allocatable: i64, unit: f64| Usage {
        requested: requested as f64 / unit,
        allocatable: allocatable as f64 / unit,
    };
    let mut resources = BTreeMap::from([
        ("cpu".to_owned(), usage(used.milli_cpu, own.milli_cpu, 1000.0)),
        ("memory".to_owned(), usage(used.memory, own.memory, 1.0)),
        ("pods".to_owned(), usage(node.pod_count(), node.allowed_pods(), 1.0)),
    ]);
    let storage = usage(used.ephemeral_storage, own.ephemeral_storage, 1.0);
    if storage != Usage::default() {
        resources.insert("ephemeral-storage".to_owned(), storage);
    }
    for (name, _) in &cluster.to_node(ix).allocatable.scalars {
        let amount = node.scalar(name);
        resources.insert(name.to_string(), usage(amount.requested, amount.allocatable, 1.0));
    }
    resources
}
