//! NodeResourceTopology objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::Quantity;
use serde::Deserialize;

use super::demand::Request;

/// The kind, as `<plural>.<version>.<group>`.
pub(super) const KIND: &str = "noderesourcetopologies.v1alpha2.topology.node.k8s.io";

const FINGERPRINT: &str = "nodeTopologyPodsFingerprint";
const FINGERPRINT_ANNOTATION: &str = "topology.node.k8s.io/fingerprint";
const FINGERPRINT_METHOD: &str = "nodeTopologyPodsFingerprintMethod";
const ONLY_EXCLUSIVE: &str = "with-exclusive-resources";

/// Number of NUMA nodes that the kubelet handles unless it is configured otherwise.
const DEFAULT_MAX_NUMA: u32 = 8;
const MAX_NUMA: u32 = 1024;

/// Whom the topology manager of a kubelet aligns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Container,
    Pod,
}

/// The policy of the topology manager of a kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    None,
    BestEffort,
    Restricted,
    SingleNumaNode,
}

impl Policy {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "best-effort" => Some(Self::BestEffort),
            "restricted" => Some(Self::Restricted),
            "single-numa-node" => Some(Self::SingleNumaNode),
            _ => None,
        }
    }
}

/// The configuration of the topology manager of a kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) scope: Scope,
    pub(super) policy: Policy,
    pub(super) max_numa: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { scope: Scope::Container, policy: Policy::None, max_numa: DEFAULT_MAX_NUMA }
    }
}

/// A resource of a NUMA node: CPU in thousandths, others in units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ZoneResource {
    pub(super) name: Arc<str>,
    pub(super) capacity: i64,
    pub(super) available: i64,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) id: u32,
    pub(super) resources: Vec<ZoneResource>,
    /// Distances to other NUMA nodes.
    pub(super) costs: BTreeMap<u32, i64>,
}

impl Zone {
    pub(super) fn resource(&self, name: &str) -> Option<&ZoneResource> {
        self.resources.iter().find(|own| *own.name == *name)
    }

    /// Whether so much of each resource is in use that a part of a pod may lie here.
    pub(super) fn may_hold(&self, part: &[Request]) -> bool {
        part.iter().all(|request| {
            self.resource(&request.name)
                .is_some_and(|own| own.capacity.saturating_sub(own.available) >= request.amount)
        })
    }

    /// Gives an amount back.
    pub(super) fn add(&mut self, name: &str, amount: i64) {
        if let Some(own) = self.resources.iter_mut().find(|own| *own.name == *name) {
            own.available = own.available.saturating_add(amount);
        }
    }

    /// Takes an amount away, down to 0.
    pub(super) fn subtract(&mut self, name: &str, amount: i64) {
        if let Some(own) = self.resources.iter_mut().find(|own| *own.name == *name) {
            own.available = own.available.saturating_sub(amount).max(0);
        }
    }
}

/// The pods that an object accounts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) text: String,
    /// Whether pods without exclusive resources are left out.
    pub(super) only_exclusive: bool,
}

/// A NodeResourceTopology.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Raw")]
pub(super) struct Topology {
    pub(super) config: Config,
    /// The NUMA nodes, by id.
    pub(super) zones: Vec<Zone>,
    pub(super) fingerprint: Option<Fingerprint>,
}

impl Topology {
    /// Whether a NUMA node lists the resource.
    pub(super) fn lists(&self, name: &str) -> bool {
        self.zones.iter().any(|zone| zone.resource(name).is_some())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    topology_policies: Vec<String>,
    #[serde(default)]
    attributes: Vec<Attribute>,
    #[serde(default)]
    zones: Vec<RawZone>,
}

#[derive(Debug, Default, Deserialize)]
struct RawMetadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Attribute {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Debug, Deserialize)]
struct RawZone {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    costs: Vec<RawCost>,
    #[serde(default)]
    resources: Vec<RawResource>,
}

#[derive(Debug, Deserialize)]
struct RawCost {
    name: String,
    value: i64,
}

#[derive(Debug, Deserialize)]
struct RawResource {
    name: String,
    #[serde(default)]
    capacity: Option<RawQuantity>,
    #[serde(default)]
    available: Option<RawQuantity>,
}

/// A quantity: a text or a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawQuantity {
    Text(String),
    Number(serde_json::Number),
}

impl RawQuantity {
    fn amount(&self, name: &str) -> Result<i64, String> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        };
        let quantity: Quantity = text
            .parse()
            .map_err(|error| format!("cannot read {text:?} of {name} as a quantity: {error}"))?;
        Ok(if name == "cpu" { quantity.milli_value() } else { quantity.value() })
    }
}

/// Returns the id of the NUMA node that a zone is named for.
fn numa_id(name: &str) -> Option<u32> {
    name.strip_prefix("node-")?.parse().ok()
}

impl TryFrom<Raw> for Topology {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let mut zones = Vec::new();
        for zone in raw.zones.iter().filter(|zone| zone.kind == "Node") {
            let Some(id) = numa_id(&zone.name) else { continue };
            let mut resources = Vec::new();
            for RawResource { name, capacity, available } in &zone.resources {
                let amount = |quantity: &Option<RawQuantity>| {
                    quantity.as_ref().map_or(Ok(0), |quantity| quantity.amount(name))
                };
                let (capacity, available) = (amount(capacity)?, amount(available)?);
                let name = Arc::from(&**name);
                resources.push(ZoneResource { name, capacity, available });
            }
            let costs = zone.costs.iter();
            let costs = costs.filter_map(|cost| Some((numa_id(&cost.name)?, cost.value)));
            zones.push(Zone { id, resources, costs: costs.collect() });
        }
        zones.sort_by_key(|zone| zone.id);
        zones.dedup_by_key(|zone| zone.id);
        let attribute = |name: &str| {
            let own = raw.attributes.iter().find(|own| own.name == name);
            own.map(|own| &*own.value)
        };
        let only_exclusive = attribute(FINGERPRINT_METHOD) == Some(ONLY_EXCLUSIVE);
        let annotation = || raw.metadata.annotations.get(FINGERPRINT_ANNOTATION).map(|own| &**own);
        let fingerprint = attribute(FINGERPRINT).or_else(annotation);
        Ok(Self {
            config: config(&raw),
            zones,
            fingerprint: fingerprint
                .map(|text| Fingerprint { text: text.to_owned(), only_exclusive }),
        })
    }
}

/// Returns the configuration: the defaults, the deprecated policy, then the attributes. Values that
/// are not known are ignored.
fn config(raw: &Raw) -> Config {
    let mut config = Config::default();
    if let Some(name) = raw.topology_policies.first() {
        let parts =
            [("PodLevel", Scope::Pod), ("ContainerLevel", Scope::Container), ("", config.scope)];
        let (name, scope) = parts
            .iter()
            .find_map(|(suffix, scope)| Some((name.strip_suffix(suffix)?, *scope)))
            .unwrap_or((name, config.scope));
        let policy = match name {
            "SingleNUMANode" => Some(Policy::SingleNumaNode),
            "Restricted" => Some(Policy::Restricted),
            "BestEffort" => Some(Policy::BestEffort),
            _ => None,
        };
        if let Some(policy) = policy {
            config = Config { scope, policy, ..config };
        }
    }
    for Attribute { name, value } in &raw.attributes {
        match &**name {
            "topologyManagerScope" => match &**value {
                "pod" => config.scope = Scope::Pod,
                "container" => config.scope = Scope::Container,
                _ => {}
            },
            "topologyManagerPolicy" => {
                config.policy = Policy::named(value).unwrap_or(config.policy);
            }
            "topologyManagerMaxNUMANodes" => {
                if let Some(max) = value.parse().ok().filter(|max| *max > 1) {
                    config.max_numa = MAX_NUMA.min(max);
                }
            }
            _ => {}
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(object: Value) -> Topology {
        Topology::deserialize(object).unwrap()
    }

    #[test]
    fn configuration_comes_from_the_policy_and_the_attributes() {
        let config = |policies: Value, attributes: Value| {
            let attributes = attributes.as_object().unwrap().iter();
            let attributes: Vec<_> =
                attributes.map(|(name, value)| json!({"name": name, "value": value})).collect();
            read(json!({"topologyPolicies": policies, "attributes": attributes, "zones": []}))
                .config
        };
        let of = |scope, policy, max_numa| Config { scope, policy, max_numa };
        let (pod, container) = (Scope::Pod, Scope::Container);
        for (policies, attributes, expected) in [
            (json!([]), json!({}), of(container, Policy::None, 8)),
            (json!(["SingleNUMANodePodLevel"]), json!({}), of(pod, Policy::SingleNumaNode, 8)),
            (json!(["SingleNUMANode"]), json!({}), of(container, Policy::SingleNumaNode, 8)),
            (json!(["RestrictedContainerLevel"]), json!({}), of(container, Policy::Restricted, 8)),
            (json!(["BestEffort"]), json!({}), of(container, Policy::BestEffort, 8)),
            (json!(["Other"]), json!({}), of(container, Policy::None, 8)),
            (
                json!(["BestEffortPodLevel"]),
                json!({"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "?"}),
                of(pod, Policy::SingleNumaNode, 8),
            ),
            (
                json!([]),
                json!({"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod",
                    "topologyManagerMaxNUMANodes": "16"}),
                of(pod, Policy::Restricted, 16),
            ),
            (json!([]), json!({"topologyManagerMaxNUMANodes": "1"}), Config::default()),
            (
                json!([]),
                json!({"topologyManagerMaxNUMANodes": "4000"}),
                of(container, Policy::None, 1024),
            ),
        ] {
            assert_eq!(config(policies.clone(), attributes), expected, "{policies}");
        }
    }

    #[test]
    fn zones_of_other_types_are_left_out() {
        let zone = |name: &str, kind: &str| {
            json!({"name": name, "type": kind, "costs": [{"name": "node-0", "value": 10}],
                "resources": [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "1500m"},
                    {"name": "memory", "capacity": "1Gi", "available": 1024}]})
        };
        let zones =
            json!([zone("node-70", "Node"), zone("node-1", "Node"), zone("socket-0", "Socket")]);
        let topology = read(json!({"metadata": {"annotations": {FINGERPRINT_ANNOTATION: "pfp"}},
            "attributes": [{"name": FINGERPRINT_METHOD, "value": ONLY_EXCLUSIVE}], "zones": zones}));
        let ids: Vec<_> = topology.zones.iter().map(|zone| zone.id).collect();
        assert_eq!(ids, [1, 70]);
        let cpu = topology.zones[0].resource("cpu").unwrap();
        assert_eq!((cpu.capacity, cpu.available), (4000, 1500));
        assert_eq!(topology.zones[0].resource("memory").unwrap().available, 1024);
        assert_eq!(topology.zones[0].costs, [(0, 10)].into());
        let fingerprint = Fingerprint { text: "pfp".to_owned(), only_exclusive: true };
        assert_eq!(topology.fingerprint, Some(fingerprint));
    }

    #[test]
    fn unreadable_quantity_is_a_problem() {
        let resources = json!([{"name": "cpu", "available": "many"}]);
        let zones = json!([{"name": "node-0", "type": "Node", "resources": resources}]);
        let error = Topology::deserialize(json!({"zones": zones})).unwrap_err().to_string();
        assert!(error.contains("cannot read \"many\" of cpu"), "{error}");
    }
}
