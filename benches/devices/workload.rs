//! Clusters with devices, and pods that claim them.

use std::sync::Arc;

use engine::{Engine, EngineConfig};
use framework::{EventResource, Pod, PodClaimSource, PodResourceClaim, PodSpec};
use serde_json::{Value, json};

use crate::object::object;
use crate::{support, templates};

/// The DRA driver of all devices, and the name of their class.
pub(crate) const DRIVER: &str = "gpu.example.com";
const CLASS: &str = "gpu";
/// The number of devices of a node.
const DEVICES: usize = 8;

/// What the pods claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Nothing,
    /// A device of a model with some memory.
    Selector,
    /// The same, but each claim asks for another amount of memory, so no answer is kept.
    New,
    /// Eight devices on one board.
    Match,
    /// A partition of a device, whose partitions share counters.
    Partition,
    /// A share of the memory of a device.
    Capacity,
    /// The first of three alternatives, of which no node has the first.
    FirstAvailable,
    /// Eight devices on one board, where most nodes have only seven. The selector reads an
    /// attribute that is different for each device, so no two nodes look alike, and it is different
    /// for each claim.
    Adversarial,
    /// The same with a selector that calls a function of the text of the attribute, which would
    /// fail for another type, so it is evaluated for each device.
    AdversarialCall,
    /// Eight devices on eight boards, each by a request of its own, where most nodes have seven
    /// boards. Only a search through the permutations shows it, and no two nodes look alike.
    Distinct,
    /// A device by a selector that costs almost as much as is allowed, for each device.
    Costly,
}

impl Wanted {
    const fn is_adversarial(self) -> bool {
        matches!(self, Self::Adversarial | Self::AdversarialCall)
    }
}

/// The shape of pods and cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) wanted: Wanted,
    /// Whether the nodes have devices.
    has_devices: bool,
    /// Whether DynamicResources is in the profile.
    pub(crate) has_plugin: bool,
    /// The number of pods whose allocations are not written yet.
    pub(crate) in_flight: usize,
}

const CLAIM: Shape = Shape {
    name: "selector",
    wanted: Wanted::Selector,
    has_devices: true,
    has_plugin: true,
    in_flight: 0,
};

impl Shape {
    pub(crate) const ALL: [Self; 14] = [
        Self { name: "no-plugin", wanted: Wanted::Nothing, has_plugin: false, ..CLAIM },
        Self { name: "no-devices", wanted: Wanted::Nothing, has_devices: false, ..CLAIM },
        Self { name: "no-claims", wanted: Wanted::Nothing, ..CLAIM },
        CLAIM,
        Self { name: "new-selector", wanted: Wanted::New, ..CLAIM },
        Self { name: "in-flight-500", in_flight: 500, ..CLAIM },
        Self { name: "match-8", wanted: Wanted::Match, ..CLAIM },
        Self { name: "partition", wanted: Wanted::Partition, ..CLAIM },
        Self { name: "capacity", wanted: Wanted::Capacity, ..CLAIM },
        Self { name: "first-of-3", wanted: Wanted::FirstAvailable, ..CLAIM },
        Self { name: "adversarial", wanted: Wanted::Adversarial, ..CLAIM },
        Self { name: "adversarial-call", wanted: Wanted::AdversarialCall, ..CLAIM },
        Self { name: "distinct", wanted: Wanted::Distinct, ..CLAIM },
        Self { name: "costly", wanted: Wanted::Costly, ..CLAIM },
    ];
}

/// A cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) shape: Shape,
    pub(crate) nodes: usize,
    /// The share of devices that are allocated, in percent.
    pub(crate) allocated: usize,
}

/// Returns whether no device of the node is allocated, so that every pod fits somewhere.
const fn is_free(node: usize) -> bool {
    node % 50 == 12
}

impl Workload {
    /// Creates an engine with the cluster.
    pub(crate) fn engine(&self, config: EngineConfig) -> Engine {
        let (mut engine, _) = templates::engine(config, self.nodes);
        if self.shape.has_devices {
            let selector =
                json!({ "cel": { "expression": format!("device.driver == '{DRIVER}'") } });
            let class = json!({ "spec": { "selectors": [selector] } });
            support::apply(&mut engine, object(EventResource::DeviceClass, "", CLASS, class));
            for node in 0..self.nodes {
                self.equip(node, &mut engine);
            }
        }
        engine
    }

    /// Adds the devices of a node, and the claim for those that are allocated.
    fn equip(&self, node: usize, engine: &mut Engine) {
        let name = support::node_name(node);
        let has_counters = self.shape.wanted == Wanted::Partition;
        let pool = json!({ "name": name, "generation": 1,
            "resourceSliceCount": 1 + usize::from(has_counters) });
        let slice = |more: Value| {
            let mut spec = json!({ "driver": DRIVER, "nodeName": name, "pool": pool });
            spec.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
            json!({ "spec": spec })
        };
        let devices: Value = (0..DEVICES).map(|number| self.device(node, number)).collect();
        let devices = slice(json!({ "devices": devices }));
        support::apply(engine, object(EventResource::ResourceSlice, "", &name, devices));
        if has_counters {
            let counters = json!({ "memory": { "value": "80Gi" }, "slices": { "value": "8" } });
            let sets = json!([{ "name": "gpu-0", "counters": counters }]);
            let counters = slice(json!({ "sharedCounters": sets }));
            let slice_name = format!("{name}-counters");
            support::apply(engine, object(EventResource::ResourceSlice, "", &slice_name, counters));
        }
        // Spreads the allocated devices evenly, in different patterns.
        let is_allocated = |device: &usize| {
            !is_free(node) && (node * DEVICES + device) * 7919 % 1009 * 100 / 1009 < self.allocated
        };
        let results: Vec<Value> =
            (0..DEVICES).filter(is_allocated).map(|device| self.result(&name, device)).collect();
        if !results.is_empty() {
            let allocation = json!({ "devices": { "results": results } });
            let claim = json!({ "spec": {}, "status": { "allocation": allocation } });
            let name = format!("placed-{name}");
            support::apply(engine, object(EventResource::ResourceClaim, "placed", &name, claim));
        }
    }

    fn result(&self, pool: &str, device: usize) -> Value {
        let mut result = json!({ "request": "r", "driver": DRIVER, "pool": pool,
            "device": format!("gpu-{device}") });
        if self.shape.wanted == Wanted::Capacity {
            result["shareID"] = json!("a671734a-e8e5-11e4-8fde-42010af09327");
            result["consumedCapacity"] = json!({ "memory": "70Gi" });
        }
        result
    }

    fn device(&self, node: usize, number: usize) -> Value {
        let model = if node.is_multiple_of(2) { "a100" } else { "l4" };
        let is_odd = number == DEVICES - 1 && !is_free(node);
        let board = match self.shape.wanted {
            Wanted::Distinct => {
                if is_odd {
                    0
                } else {
                    number
                }
            }
            wanted => usize::from(wanted.is_adversarial() && is_odd),
        };
        let mut device = json!({
            "name": format!("gpu-{number}"),
            "attributes": {
                "model": { "string": model },
                "uuid": { "string": format!("gpu-{node}-{number}") },
                "board": { "int": board },
                "index": { "int": number },
                "driverVersion": { "version": "570.86.15" },
            },
            "capacity": { "memory": { "value": "80Gi" } },
        });
        match self.shape.wanted {
            Wanted::Partition => {
                let counters = json!({ "memory": { "value": "10Gi" }, "slices": { "value": "1" } });
                device["consumesCounters"] =
                    json!([{ "counterSet": "gpu-0", "counters": counters }]);
            }
            Wanted::Capacity => device["allowMultipleAllocations"] = json!(true),
            _ => {}
        }
        device
    }

    /// Returns a pending pod, and its claim.
    pub(crate) fn pod(&self, number: usize) -> (Pod, Option<Value>) {
        let pod = templates::pod(number);
        let mut key = pod.key.clone();
        key.name = format!("new-{}", key.name).into();
        let uid = format!("new-{}", pod.uid).as_str().into();
        let pod = Pod { key, uid, ..pod };
        let Some(devices) = self.devices(number) else { return (pod, None) };
        let name = format!("claim-{number}");
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "namespace": &*pod.key.namespace, "name": name, "uid": name,
                "resourceVersion": (2 * number + 1).to_string(),
                "finalizers": [framework::device::FINALIZER],
            },
            "spec": { "devices": devices },
        });
        let source = PodClaimSource::Claim(name.into());
        let resource_claims = [PodResourceClaim { name: "gpus".into(), source }].into();
        let spec = PodSpec { resource_claims, ..PodSpec::clone(&pod.spec) };
        (Pod { spec: Arc::new(spec), ..pod }, Some(claim))
    }

    /// Returns the requests of a claim.
    fn devices(&self, number: usize) -> Option<Value> {
        let selectors = |expression: String| json!([{ "cel": { "expression": expression } }]);
        let request = |selectors: Value, count: usize| json!({ "deviceClassName": CLASS, "selectors": selectors, "count": count });
        let has_model =
            |model: &str| selectors(format!("device.attributes['{DRIVER}'].model == '{model}'"));
        let larger = |more: usize| {
            selectors(format!(
                "device.attributes['{DRIVER}'].model == 'a100' && device.capacity['{DRIVER}'].memory\
                 .compareTo(quantity('{}Ki')) >= 0",
                (40 << 20) + more
            ))
        };
        let large = || larger(0);
        let exactly = |body: Value| json!([{ "name": "r", "exactly": body }]);
        let same_board = json!([{ "matchAttribute": format!("{DRIVER}/board") }]);
        Some(match self.shape.wanted {
            Wanted::Nothing => return None,
            Wanted::Selector => json!({ "requests": exactly(request(large(), 1)) }),
            Wanted::New => json!({ "requests": exactly(request(larger(number), 1)) }),
            Wanted::Match => json!({
                "requests": exactly(request(large(), DEVICES)), "constraints": same_board,
            }),
            Wanted::Partition => json!({ "requests": exactly(request(json!([]), 1)) }),
            Wanted::Capacity => {
                let mut body = request(large(), 1);
                body["capacity"] = json!({ "requests": { "memory": "10Gi" } });
                json!({ "requests": exactly(body) })
            }
            Wanted::FirstAvailable => {
                let [mut first, mut second, mut third] = [
                    request(has_model("h200"), 1),
                    request(has_model("a100"), 2),
                    request(json!([]), 4),
                ];
                let names = [(&mut first, "h"), (&mut second, "a"), (&mut third, "any")];
                names.into_iter().for_each(|(body, name)| body["name"] = json!(name));
                json!({ "requests": [{ "name": "r", "firstAvailable": [first, second, third] }] })
            }
            Wanted::Distinct => {
                let other = format!("device.attributes['{DRIVER}'].uuid != 'other-{number}'");
                let request = |index: usize| json!({ "name": format!("r{index}"), "exactly": request(selectors(other.clone()), 1) });
                json!({
                    "requests": (0..DEVICES).map(request).collect::<Vec<_>>(),
                    "constraints": [{ "distinctAttribute": format!("{DRIVER}/board") }],
                })
            }
            Wanted::Costly => {
                let numbers: Vec<usize> = (0..80).collect();
                let costly = format!(
                    "{numbers:?}.all(a, {numbers:?}.all(b, (a + b) * 2 < 1000 - {number})) && \
                     device.attributes['{DRIVER}'].uuid == 'none'"
                );
                json!({ "requests": exactly(request(selectors(costly), 1)) })
            }
            Wanted::Adversarial | Wanted::AdversarialCall => {
                let uuid = format!("device.attributes['{DRIVER}'].uuid");
                let other = match self.shape.wanted {
                    Wanted::Adversarial => format!("{uuid} != 'other-{number}'"),
                    _ => format!("!{uuid}.startsWith('other-{number}')"),
                };
                json!({
                    "requests": exactly(request(selectors(other), DEVICES)),
                    "constraints": same_board,
                })
            }
        })
    }
}
