//! Devices as DynamicResources reads them: claims, slices, classes and taint rules of
//! `resource.k8s.io`.
//!
//! The types are compact and are built once, when an object arrives. A field that cannot be read
//! spoils the device or request that has it; other devices, requests and objects stay usable.

mod allocated;
mod allocation;
mod change_log;
mod claim;
mod class;
mod description;
mod node_restriction;
mod semver;
mod slice;
mod taint;
pub mod template;
#[cfg(test)]
mod tests;

pub use self::allocated::{AllocatedState, DeviceUse, PoolUse};
pub use self::allocation::{AllocatedDevice, Allocation, AllocationConfig, ConfigSource};
pub use self::change_log::{ChangeLog, Numbers, Seen};
pub use self::claim::{
    AllocatedDeviceStatus, AllocationMode, AttributeRule, CapacityRequest, ClaimConsumer,
    ClaimController, ClaimSpec, DeviceCondition, DeviceConfig, DeviceConstraint, DeviceRequest,
    RequestBody, RequestKind, ResourceClaim,
};
pub use self::class::{DeviceClass, DeviceSelector};
pub use self::description::{
    Attribute, CapacityPolicy, CapacityRange, DeviceCapacity, DeviceDescription,
};
pub use self::node_restriction::NodeRestriction;
pub use self::semver::{Version, VersionError};
pub use self::slice::{
    CounterConsumption, CounterSet, Device, DevicePool, NodeScope, PoolKey, ResourceSlice,
};
pub use self::taint::{DEVICE_TAINT_RULES, DeviceTaint, DeviceTaintRule, DeviceToleration};

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::api::QuantityText;
use crate::{Format, Quantity};

/// The finalizer that keeps an allocated claim from being removed.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The annotation, with the value `true`, of claims that the scheduler creates for extended
/// resources.
pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";
/// Maximum number of devices of an allocation.
pub const ALLOCATION_RESULTS_MAX: usize = 32;

/// The identity of a device in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The driver.
    pub driver: Arc<str>,
    /// The pool.
    pub pool: Arc<str>,
    /// The name of the device in the pool.
    pub device: Arc<str>,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// An amount of a capacity or counter. Amounts are equal if they have the same value and are
/// printed alike.
#[derive(Debug, Clone)]
pub struct Amount(Quantity);

impl Amount {
    /// Returns a whole number that is printed with this family of suffixes.
    pub fn new(value: i64, format: Format) -> Self {
        Self(Quantity::new(value, format))
    }

    /// Returns the exact number in billionths. Saturates at the limits of `i128`.
    pub fn nanos(&self) -> i128 {
        self.0.nanos()
    }

    /// Returns the number in units, rounded away from zero; see [`Quantity::value`].
    pub fn value(&self) -> i64 {
        self.0.value()
    }

    /// Returns the quantity.
    pub const fn quantity(&self) -> &Quantity {
        &self.0
    }

    /// Parses a quantity; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().map(Self).ok()
    }

    fn read(text: &QuantityText) -> Result<Self, Arc<str>> {
        let parsed = text.0.parse::<Quantity>();
        parsed.map(Self).map_err(|error| format!("{:?}: {error}", text.0).into())
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nanos() == other.nanos() && self.to_string() == other.to_string()
    }
}

impl Eq for Amount {}

impl Hash for Amount {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos().hash(state);
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Amounts by name, sorted.
pub type Amounts = Box<[(Arc<str>, Amount)]>;

fn shared(texts: &[String]) -> Box<[Arc<str>]> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

/// Returns the value of a sorted list of pairs.
fn find<'a, T>(pairs: &'a [(Arc<str>, T)], name: &str) -> Option<&'a T> {
    let place = pairs.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
    Some(&pairs[place].1)
}
