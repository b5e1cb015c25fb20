//! ResourceSlices.

use std::fmt;
use std::sync::Arc;

use super::description::counters;
use super::{Amounts, DeviceDescription, DeviceId, DeviceTaint, NodeRestriction, find, shared};
use crate::{NodeFields, SelectorError, api};

/// The identity of a pool of devices. The order is the one in which pools are searched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolKey {
    /// The driver.
    pub driver: Arc<str>,
    /// The name of the pool.
    pub pool: Arc<str>,
}

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

/// The pool of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePool {
    /// Driver and name.
    pub key: PoolKey,
    /// Generation; slices of older generations are obsolete.
    pub generation: i64,
    /// The number of slices of the pool in this generation.
    pub slice_count: i64,
}

/// The nodes that can use a device, or the devices of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeScope {
    /// The node with this name, which is not empty.
    Node(Arc<str>),
    /// All nodes.
    All,
    /// The nodes that match.
    Selector(Arc<NodeRestriction>),
    /// Each device names its nodes; only for slices.
    PerDevice,
    /// No node.
    None,
}

impl NodeScope {
    fn of(
        node_name: Option<&str>,
        all_nodes: Option<bool>,
        selector: Option<&api::NodeSelector>,
    ) -> Self {
        match (node_name.filter(|name| !name.is_empty()), all_nodes, selector) {
            (Some(name), ..) => Self::Node(name.into()),
            (None, Some(true), _) => Self::All,
            (None, _, Some(selector)) => {
                Self::Selector(Arc::new(NodeRestriction::from_api(selector)))
            }
            _ => Self::None,
        }
    }

    /// Returns whether the node can use the devices; `false` for [`PerDevice`](Self::PerDevice).
    ///
    /// # Errors
    /// The node selector cannot be compiled.
    pub fn includes(&self, node: &impl NodeFields) -> Result<bool, SelectorError> {
        match self {
            Self::Node(name) => Ok(**name == *node.name()),
            Self::All => Ok(true),
            Self::Selector(selector) => selector.matches(node),
            Self::PerDevice | Self::None => Ok(false),
        }
    }
}

/// The counters of a set that a device consumes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CounterConsumption {
    /// The set.
    pub set: Arc<str>,
    /// Amounts by counter, sorted.
    pub counters: Amounts,
}

/// A named set of counters, which the devices of a pool share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CounterSet {
    /// Name within the pool.
    pub name: Arc<str>,
    /// Amounts by counter, sorted.
    pub counters: Amounts,
}

impl CounterSet {
    /// Returns whether the set has the counter.
    pub fn has(&self, counter: &str) -> bool {
        find(&self.counters, counter).is_some()
    }
}

/// A device of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name within the pool.
    pub name: Arc<str>,
    /// What selectors read.
    pub description: Arc<DeviceDescription>,
    /// Consumed counters.
    pub consumes_counters: Box<[CounterConsumption]>,
    /// The nodes that can use the device, if the slice leaves it to the device.
    pub scope: NodeScope,
    /// Taints.
    pub taints: Box<[DeviceTaint]>,
    /// Whether the allocation is bound to the chosen node.
    pub binds_to_node: bool,
    /// Conditions that must be true before the pod is bound.
    pub binding_conditions: Box<[Arc<str>]>,
    /// Conditions that fail the binding.
    pub binding_failure_conditions: Box<[Arc<str>]>,
    /// The error of the first field that could not be read. A device with an error is never
    /// allocated.
    pub problem: Option<Arc<str>>,
}

impl Device {
    fn from_api(driver: &Arc<str>, device: &api::Device) -> Self {
        let (description, mut problem) = DeviceDescription::read(driver, device);
        let consumes = device.consumes_counters.iter().map(|raw| {
            let read = counters(&raw.counters).unwrap_or_else(|error| {
                let error = format!("consumesCounters {}: {error}", raw.counter_set);
                problem = problem.clone().and(Err(error.into()));
                Amounts::default()
            });
            CounterConsumption { set: raw.counter_set.as_str().into(), counters: read }
        });
        let (name, selector) = (device.node_name.as_deref(), device.node_selector.as_ref());
        Self {
            name: device.name.as_str().into(),
            consumes_counters: consumes.collect(),
            description: Arc::new(description),
            scope: NodeScope::of(name, device.all_nodes, selector),
            taints: device.taints.iter().map(DeviceTaint::from_api).collect(),
            binds_to_node: device.binds_to_node,
            binding_conditions: shared(&device.binding_conditions),
            binding_failure_conditions: shared(&device.binding_failure_conditions),
            problem: problem.err(),
        }
    }
}

/// A ResourceSlice: some of the devices of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSlice {
    /// Name.
    pub name: Arc<str>,
    /// The pool and its driver.
    pub pool: DevicePool,
    /// The nodes that can use the devices.
    pub scope: NodeScope,
    /// Whether the field `perDeviceNodeSelection` is set, with any value.
    pub sets_per_device_node_selection: bool,
    /// The devices, in the order of the object.
    pub devices: Box<[Device]>,
    /// Counters that the devices of the pool share. A slice has either counters or devices.
    pub shared_counters: Box<[CounterSet]>,
}

impl ResourceSlice {
    /// Converts the API object. A shared counter that cannot be read is left out; the pool is then
    /// invalid if a device consumes it.
    pub fn from_api(slice: &api::ResourceSlice) -> Self {
        let spec = &slice.spec;
        let key =
            PoolKey { driver: spec.driver.as_str().into(), pool: spec.pool.name.as_str().into() };
        let (name, selector) = (spec.node_name.as_deref(), spec.node_selector.as_ref());
        let scope = match NodeScope::of(name, spec.all_nodes, selector) {
            NodeScope::None if spec.per_device_node_selection == Some(true) => NodeScope::PerDevice,
            scope => scope,
        };
        let sets = spec.shared_counters.iter().map(|set| CounterSet {
            name: set.name.as_str().into(),
            counters: set
                .counters
                .iter()
                .filter_map(|(name, counter)| {
                    Some((name.as_str().into(), super::Amount::read(&counter.value).ok()?))
                })
                .collect(),
        });
        Self {
            name: slice.metadata.name.as_str().into(),
            scope,
            sets_per_device_node_selection: spec.per_device_node_selection.is_some(),
            devices: spec.devices.iter().map(|raw| Device::from_api(&key.driver, raw)).collect(),
            shared_counters: sets.collect(),
            pool: DevicePool {
                key,
                generation: spec.pool.generation,
                slice_count: spec.pool.resource_slice_count,
            },
        }
    }

    /// Returns the identity of a device of the slice.
    pub fn id_of(&self, device: &Device) -> DeviceId {
        DeviceId {
            driver: self.pool.key.driver.clone(),
            pool: self.pool.key.pool.clone(),
            device: device.name.clone(),
        }
    }
}
