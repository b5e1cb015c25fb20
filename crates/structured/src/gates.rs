use framework::{Behaviours, Level};

/// The feature gates and behaviours that change what the allocator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gates {
    /// DRAAdminAccess.
    pub admin_access: bool,
    /// DRAPrioritizedList.
    pub prioritized_list: bool,
    /// DRAPartitionableDevices.
    pub partitionable_devices: bool,
    /// DRADeviceTaints.
    pub device_taints: bool,
    /// DRADeviceTaintRules, which needs `device_taints`.
    pub device_taint_rules: bool,
    /// DRADeviceBindingConditions together with DRAResourceClaimDeviceStatus.
    pub binding_conditions: bool,
    /// DRAConsumableCapacity.
    pub consumable_capacity: bool,
    /// DRAFractionalCapacityRange.
    pub fractional_capacity_range: bool,
    /// The behaviours of the level.
    pub behaviours: Behaviours,
}

impl Gates {
    /// Returns the defaults of a level.
    pub const fn at(level: Level) -> Self {
        Self {
            admin_access: true,
            prioritized_list: true,
            partitionable_devices: true,
            device_taints: true,
            device_taint_rules: level.is_at_least(Level::V1_37),
            binding_conditions: true,
            consumable_capacity: true,
            fractional_capacity_range: level.is_at_least(Level::V1_38),
            behaviours: Behaviours::of(level),
        }
    }
}

/// The defaults of the default level.
impl Default for Gates {
    fn default() -> Self {
        Self::at(Level::default())
    }
}
