//! The driver of scheduler_perf for devices, and allocations without a scheduler.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, bail};
use cel::{AttributeValue, DeviceView, Selector};
use framework::Quantity;
use serde::Deserialize;
use serde_json::{Value, json};

/// Seed of the order in which devices are allocated.
const SEED: u64 = 0;

/// Returns the slice with the devices of a node, as the driver of scheduler_perf publishes it.
pub(crate) fn slice(driver: &str, node: &str, devices: usize) -> Value {
    let device = |number: usize| {
        json!({
            "name": format!("instance-{number}"),
            "attributes": {
                "model": { "string": "A100" },
                "family": { "string": "GPU" },
                "driverVersion": { "version": "1.2.3" },
                "dra.example.com/numa": { "int": number },
            },
            "capacity": { "memory": { "value": "1Gi" } },
        })
    };
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": { "name": node },
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            "devices": (0..devices).map(device).collect::<Vec<_>>(),
        },
    })
}

/// A ResourceSlice.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Slice {
    spec: SliceSpec,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceSpec {
    driver: String,
    pool: Pool,
    node_name: Option<String>,
    node_selector: Option<Value>,
    #[serde(default)]
    devices: Vec<Device>,
    #[serde(default)]
    shared_counters: Vec<CounterSet>,
}

#[derive(Debug, Clone, Deserialize)]
struct Pool {
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Device {
    name: String,
    attributes: BTreeMap<String, Value>,
    capacity: BTreeMap<String, Amount>,
    allow_multiple_allocations: bool,
    consumes_counters: Vec<CounterSet>,
}

/// Counters of a pool, or counters that a device consumes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CounterSet {
    #[serde(alias = "counterSet")]
    name: String,
    counters: BTreeMap<String, Amount>,
}

#[derive(Debug, Clone, Deserialize)]
struct Amount {
    value: String,
}

/// A DeviceClass.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Class {
    metadata: Metadata,
    spec: ClassSpec,
}

#[derive(Debug, Clone, Deserialize)]
struct ClassSpec {
    #[serde(default)]
    selectors: Vec<Cel>,
}

#[derive(Debug, Clone, Deserialize)]
struct Cel {
    cel: Expression,
}

#[derive(Debug, Clone, Deserialize)]
struct Expression {
    expression: String,
}

/// A ResourceClaim.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Claim {
    pub(crate) metadata: Metadata,
    spec: ClaimSpec,
    #[serde(default)]
    status: ClaimStatus,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
}

#[derive(Debug, Clone, Deserialize)]
struct ClaimSpec {
    devices: DeviceClaim,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeviceClaim {
    requests: Vec<Request>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    name: String,
    exactly: Exactly,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Exactly {
    device_class_name: String,
    #[serde(default)]
    selectors: Vec<Cel>,
    /// The default of the API server is the only mode that is supported.
    #[serde(default)]
    allocation_mode: Mode,
    #[serde(default = "one")]
    count: usize,
}

#[derive(Debug, Clone, Default, Deserialize)]
enum Mode {
    #[default]
    ExactCount,
}

fn one() -> usize {
    1
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ClaimStatus {
    allocation: Option<Allocation>,
}

#[derive(Debug, Clone, Deserialize)]
struct Allocation {
    devices: Results,
}

#[derive(Debug, Clone, Deserialize)]
struct Results {
    #[serde(default)]
    results: Vec<DeviceName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct DeviceName {
    driver: String,
    pool: String,
    device: String,
}

/// The devices of a cluster, in the order in which they are allocated.
pub(crate) struct Devices {
    all: Vec<Candidate>,
    classes: HashMap<String, Vec<String>>,
    /// The rest of each counter, by driver, pool, set and name.
    counters: HashMap<[String; 4], i128>,
    /// The verdicts of lists of selectors, by device.
    verdicts: HashMap<Vec<String>, Vec<Option<bool>>>,
}

struct Candidate {
    name: DeviceName,
    device: Device,
    /// The nodes that can use it; all nodes without.
    nodes: Option<Value>,
    is_free: bool,
}

impl Devices {
    /// Returns the devices of these slices, without the devices of allocated claims.
    ///
    /// # Errors
    /// A counter is not a quantity.
    pub(crate) fn new(
        slices: Vec<Slice>,
        classes: Vec<Class>,
        claims: &[Claim],
    ) -> anyhow::Result<Self> {
        let expressions = |class: Class| {
            let selectors = class.spec.selectors.into_iter().map(|own| own.cel.expression);
            (class.metadata.name, selectors.collect())
        };
        let mut devices = Self {
            all: Vec::new(),
            classes: classes.into_iter().map(expressions).collect(),
            counters: HashMap::new(),
            verdicts: HashMap::new(),
        };
        for Slice { spec } in slices {
            let SliceSpec { driver, pool, node_name, node_selector, .. } = spec;
            for set in &spec.shared_counters {
                for (counter, amount) in &set.counters {
                    let key = [&driver, &pool.name, &set.name, counter].map(Clone::clone);
                    devices.counters.insert(key, amount.nanos()?);
                }
            }
            let nodes = node_name.as_deref().map(only).or(node_selector);
            devices.all.extend(spec.devices.into_iter().map(|device| Candidate {
                name: DeviceName {
                    driver: driver.clone(),
                    pool: pool.name.clone(),
                    device: device.name.clone(),
                },
                device,
                nodes: nodes.clone(),
                is_free: true,
            }));
        }
        // As in scheduler_perf, allocations are spread over the nodes at random.
        fastrand::Rng::with_seed(SEED).shuffle(&mut devices.all);
        let at: HashMap<DeviceName, usize> =
            devices.all.iter().enumerate().map(|(at, own)| (own.name.clone(), at)).collect();
        let allocations = claims.iter().filter_map(|claim| claim.status.allocation.as_ref());
        for result in allocations.flat_map(|allocation| &allocation.devices.results) {
            if let Some(at) = at.get(result) {
                devices.take(*at)?;
            }
        }
        Ok(devices)
    }

    /// Allocates devices for a claim and returns its `status.allocation`; `None` for an allocated
    /// claim.
    ///
    /// # Errors
    /// No device is left, or the class or a selector is not valid.
    pub(crate) fn allocate(&mut self, claim: &Claim) -> anyhow::Result<Option<Value>> {
        if claim.status.allocation.is_some() {
            return Ok(None);
        }
        let (mut results, mut nodes) = (Vec::new(), None);
        for request in &claim.spec.devices.requests {
            let Exactly { device_class_name, selectors, allocation_mode: Mode::ExactCount, count } =
                &request.exactly;
            let class = self.classes.get(device_class_name);
            let mut expressions = class
                .with_context(|| format!("the DeviceClass {device_class_name} does not exist"))?
                .clone();
            expressions.extend(selectors.iter().map(|own| own.cel.expression.clone()));
            for _ in 0..*count {
                let at = self.find(&expressions, nodes.as_ref())?;
                self.take(at)?;
                let Candidate { name, nodes: own, .. } = &self.all[at];
                nodes.get_or_insert_with(|| own.clone());
                results.push(json!({
                    "request": request.name,
                    "driver": name.driver,
                    "pool": name.pool,
                    "device": name.device,
                }));
            }
        }
        let mut allocation = json!({ "devices": { "results": results } });
        if let Some(Some(nodes)) = nodes {
            allocation["nodeSelector"] = nodes;
        }
        Ok(Some(allocation))
    }

    /// Returns a free device that matches the expressions and belongs to the nodes of the first
    /// one.
    fn find(
        &mut self,
        expressions: &[String],
        nodes: Option<&Option<Value>>,
    ) -> anyhow::Result<usize> {
        let selectors: Vec<Selector> =
            expressions.iter().map(|own| Selector::compile(own)).collect::<Result<_, _>>()?;
        let none = vec![None; self.all.len()];
        let verdicts = self.verdicts.entry(expressions.to_vec()).or_insert(none);
        for (at, own) in self.all.iter().enumerate() {
            let is_near = nodes.is_none_or(|nodes| *nodes == own.nodes);
            if !own.is_free || !is_near || !own.fits(&self.counters)? {
                continue;
            }
            let verdict = match verdicts[at] {
                Some(verdict) => verdict,
                None => *verdicts[at].insert(own.matches(&selectors)?),
            };
            if verdict {
                return Ok(at);
            }
        }
        bail!("no free device matches its class and selectors")
    }

    fn take(&mut self, at: usize) -> anyhow::Result<()> {
        let own = &mut self.all[at];
        own.is_free = false;
        for (key, amount) in own.consumed() {
            if let Some(left) = self.counters.get_mut(&key) {
                *left -= amount?;
            }
        }
        Ok(())
    }
}

impl Candidate {
    /// Returns the counters that the device consumes.
    fn consumed(&self) -> impl Iterator<Item = ([String; 4], anyhow::Result<i128>)> {
        let DeviceName { driver, pool, .. } = &self.name;
        self.device.consumes_counters.iter().flat_map(move |set| {
            set.counters.iter().map(move |(counter, amount)| {
                ([driver, pool, &set.name, counter].map(Clone::clone), amount.nanos())
            })
        })
    }

    /// Whether the counters of the pool suffice.
    fn fits(&self, counters: &HashMap<[String; 4], i128>) -> anyhow::Result<bool> {
        for (key, amount) in self.consumed() {
            if counters.get(&key).is_none_or(|left| amount.as_ref().is_ok_and(|own| own > left)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn matches(&self, selectors: &[Selector]) -> anyhow::Result<bool> {
        let Device { attributes, capacity, allow_multiple_allocations, .. } = &self.device;
        let mut view = DeviceView::new(&self.name.driver);
        view.set_allow_multiple_allocations(*allow_multiple_allocations);
        for (name, value) in attributes {
            view.add_attribute(name, attribute(value))?;
        }
        for (name, amount) in capacity {
            view.add_capacity(name, &amount.quantity()?);
        }
        for selector in selectors {
            if !selector.matches(&view)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Amount {
    fn quantity(&self) -> anyhow::Result<Quantity> {
        let quantity = self.value.parse();
        quantity.with_context(|| format!("{:?} is not a quantity", self.value))
    }

    fn nanos(&self) -> anyhow::Result<i128> {
        Ok(self.quantity()?.nanos())
    }
}

fn attribute(value: &Value) -> AttributeValue<'_> {
    let text = |field: &str| value[field].as_str();
    let int = value["int"].as_i64().map(AttributeValue::Int);
    let bool = value["bool"].as_bool().map(AttributeValue::Bool);
    let string = text("string").map(AttributeValue::String);
    let version = text("version").map(AttributeValue::Version);
    int.or(bool).or(string).or(version).unwrap_or(AttributeValue::Unsupported)
}

/// Returns the node selector of one node.
fn only(node: &str) -> Value {
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] })
}

/// Decodes a claim.
///
/// # Errors
/// It has fields that allocations without a scheduler do not support.
pub(crate) fn claim(object: Value) -> anyhow::Result<Claim> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let claim = serde_json::from_value(object);
    claim.with_context(|| {
        format!("ResourceClaim {name}: allocResourceClaims supports only requests for a number of devices")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn class() -> Class {
        decoded(json!({
            "metadata": { "name": "gpus" },
            "spec": { "selectors": [{ "cel": { "expression": "device.driver == 'a'" } }] },
        }))
    }

    fn claim_for(count: usize) -> Claim {
        claim(json!({
            "metadata": { "name": "c", "namespace": "default" },
            "spec": { "devices": { "requests": [{
                "name": "req", "exactly": { "deviceClassName": "gpus", "count": count },
            }] } },
        }))
        .unwrap()
    }

    #[test]
    fn devices_are_allocated_once_and_of_one_node() {
        let slices = ["n1", "n2"].map(|node| decoded(slice("a", node, 2)));
        let mut devices = Devices::new(slices.to_vec(), vec![class()], &[]).unwrap();
        let mut used = Vec::new();
        for _ in 0..2 {
            let allocation = devices.allocate(&claim_for(2)).unwrap().unwrap();
            let results = allocation["devices"]["results"].as_array().unwrap();
            assert_eq!(results[0]["pool"], results[1]["pool"]);
            let values =
                &allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"];
            assert_eq!(values, &json!([results[0]["pool"]]));
            used.push(results[0]["pool"].clone());
        }
        assert_ne!(used[0], used[1]);
        let error = devices.allocate(&claim_for(1)).unwrap_err().to_string();
        assert_eq!(error, "no free device matches its class and selectors");
    }

    #[test]
    fn counters_of_a_pool_are_consumed() {
        let consumes = json!([{ "counterSet": "s", "counters": { "c": { "value": "1" } } }]);
        let device = |name: &str| json!({ "name": name, "consumesCounters": consumes });
        let slices: Vec<Slice> = vec![
            decoded(json!({ "spec": {
                "driver": "a", "pool": { "name": "p" },
                "sharedCounters": [{ "name": "s", "counters": { "c": { "value": "1" } } }],
            } })),
            decoded(json!({ "spec": {
                "driver": "a", "pool": { "name": "p" }, "devices": [device("x"), device("y")],
            } })),
        ];
        let mut devices = Devices::new(slices, vec![class()], &[]).unwrap();
        assert!(devices.allocate(&claim_for(1)).unwrap().is_some());
        assert!(devices.allocate(&claim_for(1)).is_err());
    }

    #[test]
    fn other_requests_are_named() {
        let error = claim(json!({
            "metadata": { "name": "c" },
            "spec": { "devices": { "requests": [{ "name": "r", "firstAvailable": [] }] } },
        }));
        assert!(error.unwrap_err().to_string().starts_with("ResourceClaim c: "));
    }
}
