/// The feature gates that change what the allocator does.
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
}

impl Default for Gates {
    /// The defaults of Kubernetes 1.36.
    fn default() -> Self {
        Self {
            admin_access: true,
            prioritized_list: true,
            partitionable_devices: true,
            device_taints: true,
            device_taint_rules: false,
            binding_conditions: true,
            consumable_capacity: true,
        }
    }
}
