//! Which devices are allocated, and how much of the shared ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Allocation, ChangeLog, PoolKey};

/// The allocations of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct DeviceUse {
    /// The number of allocations of the whole device. Allocations for administration do not count.
    pub dedicated: i64,
    /// The number of allocations that share the device.
    pub shares: i64,
    /// The number of shares that consume capacity.
    pub consuming: i64,
    /// The sum of consumed capacity by name, in billionths. A state has no sum that is 0.
    pub consumed: BTreeMap<Arc<str>, i128>,
}

impl DeviceUse {
    fn is_empty(&self) -> bool {
        self.dedicated == 0 && self.shares == 0 && self.consuming == 0 && self.consumed.is_empty()
    }

    /// Adds the allocations of `other`.
    pub fn add(&mut self, other: &Self) {
        self.dedicated += other.dedicated;
        self.shares += other.shares;
        self.consuming += other.consuming;
        for (name, amount) in &other.consumed {
            let sum = self.consumed.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }
}

/// The allocated devices of one pool, by name.
pub type PoolUse = FxHashMap<Arc<str>, DeviceUse>;

/// The allocated devices of claims, counted as claims are allocated and deallocated.
///
/// A state that counts only differences, some of them negative, is an overlay for another one.
#[derive(Debug, Clone, Default)]
pub struct AllocatedState {
    pools: FxHashMap<PoolKey, PoolUse>,
    log: ChangeLog<PoolKey>,
}

/// States are equal if they count the same, whatever changed before.
impl PartialEq for AllocatedState {
    fn eq(&self, other: &Self) -> bool {
        self.pools == other.pools
    }
}

impl Eq for AllocatedState {}

impl AllocatedState {
    /// Counts the devices of an allocation.
    pub fn add(&mut self, allocation: &Allocation) {
        self.count(allocation, 1);
    }

    /// Takes the devices of an allocation off.
    pub fn remove(&mut self, allocation: &Allocation) {
        self.count(allocation, -1);
    }

    fn count(&mut self, allocation: &Allocation, sign: i64) {
        for result in &allocation.results {
            if result.is_for_administration() {
                continue;
            }
            let key = PoolKey { driver: result.id.driver.clone(), pool: result.id.pool.clone() };
            let pool = self.pools.entry(key.clone()).or_default();
            let device = pool.entry(result.id.device.clone()).or_default();
            if result.share_id.is_some() {
                device.shares += sign;
                device.consuming += sign * i64::from(!result.consumed_capacity.is_empty());
                for (name, amount) in &result.consumed_capacity {
                    let sum = device.consumed.entry(name.clone()).or_default();
                    *sum = sum.saturating_add(amount.nanos().saturating_mul(i128::from(sign)));
                    if *sum == 0 {
                        device.consumed.remove(name);
                    }
                }
            } else {
                device.dedicated += sign;
            }
            if device.is_empty() {
                pool.remove(&result.id.device);
                if pool.is_empty() {
                    self.pools.remove(&key);
                }
            }
            let kept = self.pools.len();
            self.log.push(key, kept);
        }
    }

    /// Returns the allocated devices of a pool.
    pub fn pool(&self, key: &PoolKey) -> Option<&PoolUse> {
        self.pools.get(key)
    }

    /// Returns whether no device is counted.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Returns the pools with allocated devices, in no particular order.
    pub fn pool_keys(&self) -> impl Iterator<Item = &PoolKey> {
        self.pools.keys()
    }

    /// Returns the pools with allocated devices, sorted.
    pub fn pools(&self) -> Vec<&PoolKey> {
        let mut pools: Vec<_> = self.pools.keys().collect();
        pools.sort_unstable();
        pools
    }

    /// Returns the latest changes by pool.
    pub const fn changes(&self) -> &ChangeLog<PoolKey> {
        &self.log
    }
}
