//! The devices of a node.

use std::borrow::Cow;
use std::sync::Arc;

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
    /// The capacity of picked shares; `None` if the device is not picked.
    pub(super) picked_capacity: Option<Sums>,
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
        let allocated = allocations
            .as_ref()
            .is_some_and(|own| own.dedicated > 0 || !gates.consumable_capacity && own.shares > 0);
        Self {
            pool,
            slice,
            device,
            allocated,
            allocations,
            picked_for: SmallVec::new(),
            picked_capacity: None,
            is_of_all: false,
        }
    }

    /// Returns whether the whole device is allocated or picked.
    pub(super) fn is_in_use(&self) -> bool {
        self.allocated || !self.picked_for.is_empty()
    }

    /// Returns whether a share of the device is allocated or picked.
    pub(super) fn has_capacity_in_use(&self) -> bool {
        self.picked_capacity.is_some()
            || self.allocations.as_ref().is_some_and(|allocations| allocations.consuming > 0)
    }

    pub(super) fn is_used_like(&self, other: &Self) -> bool {
        self.allocated == other.allocated
            && self.allocations == other.allocations
            && self.picked_for == other.picked_for
            && self.picked_capacity == other.picked_capacity
    }
}
