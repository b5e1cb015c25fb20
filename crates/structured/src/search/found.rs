//! The devices of a node.

use std::borrow::Cow;
use std::sync::Arc;

use framework::Behaviours;
use framework::device::{Device, DeviceUse, ResourceSlice};
use smallvec::SmallVec;

use crate::Gates;
use crate::capacity::Sums;
use crate::pools::AllocatedInPool;

/// A device of the node, in the order of the search.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// The number of the pool.
    pub(crate) pool: usize,
    pub(crate) slice: &'a Arc<ResourceSlice>,
    pub(crate) device: &'a Device,
    /// Whether the whole device is allocated.
    pub(super) allocated: bool,
    pub(super) allocations: Option<Cow<'a, DeviceUse>>,
    /// The claims for which the whole device is picked.
    pub(super) picked_for: SmallVec<[usize; 2]>,
    /// The capacity of picked shares.
    pub(super) picked_capacity: Sums,
    /// The number of picked shares.
    pub(super) picked_shares: usize,
    /// Whether a request for all devices needs it.
    pub(super) is_of_all: bool,
}

impl<'a> Found<'a> {
    pub(super) fn new(
        pool: usize,
        slice: &'a Arc<ResourceSlice>,
        device: &'a Device,
        in_pool: AllocatedInPool<'a>,
        gates: Gates,
    ) -> Self {
        let allocations = in_pool.device(&device.name);
        let keeps_whole = gates.behaviours.shares_keep_the_whole_device
            && !device.description.allows_multiple_allocations;
        let is_whole = !gates.consumable_capacity || keeps_whole;
        let allocated =
            allocations.as_ref().is_some_and(|own| own.dedicated > 0 || is_whole && own.shares > 0);
        Self {
            pool,
            slice,
            device,
            allocated,
            allocations,
            picked_for: SmallVec::new(),
            picked_capacity: Sums::new(),
            picked_shares: 0,
            is_of_all: false,
        }
    }

    /// Returns whether the whole device is allocated or picked.
    pub(super) fn is_in_use(&self) -> bool {
        self.allocated || !self.picked_for.is_empty()
    }

    /// Returns whether the counters of the device are charged for a share that is allocated or
    /// picked.
    pub(super) fn is_charged(&self, behaviours: Behaviours) -> bool {
        let is_charged = |own: &DeviceUse| {
            own.consuming > 0 || behaviours.shares_charge_counters_once && own.shares > 0
        };
        self.picked_shares > 0 || self.allocations.as_deref().is_some_and(is_charged)
    }

    pub(super) fn is_used_like(&self, other: &Self) -> bool {
        self.allocated == other.allocated
            && self.allocations == other.allocations
            && self.picked_for == other.picked_for
            && self.picked_capacity == other.picked_capacity
            && self.picked_shares == other.picked_shares
    }
}
