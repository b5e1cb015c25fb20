//! `resource.k8s.io/v1`: claims, slices and classes of devices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{NodeSelector, ObjectMeta, QuantityText, or_default};

api! {
    /// A `resource.k8s.io/v1` ResourceClaim.
    struct ResourceClaim {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: ResourceClaimSpec,
        /// Observed state.
        status: ResourceClaimStatus,
        /// Not of the API: why the claim that this one stands in for could not be decoded.
        undecodable: Option<String>,
    }

    /// `spec` of a ResourceClaim.
    struct ResourceClaimSpec {
        /// The devices.
        devices: DeviceClaim,
    }

    /// The devices that a claim asks for.
    struct DeviceClaim {
        /// Requests.
        requests: Vec<DeviceRequest>,
        /// Constraints over several devices.
        constraints: Vec<DeviceConstraint>,
        /// Configuration of the devices.
        config: Vec<DeviceClaimConfiguration>,
    }

    /// A request for devices.
    struct DeviceRequest {
        /// Name within the claim.
        name: String,
        /// The exact request.
        exactly: Option<ExactDeviceRequest>,
        /// Alternatives in order of preference.
        first_available: Vec<DeviceSubRequest>,
    }

    /// The exact form of a request.
    struct ExactDeviceRequest {
        /// The DeviceClass.
        device_class_name: String,
        /// Conditions on the devices.
        selectors: Vec<DeviceSelector>,
        /// `ExactCount` or `All`.
        allocation_mode: String,
        /// The number of devices for `ExactCount`.
        count: i64,
        /// Access for administration.
        admin_access: Option<bool>,
        /// Tolerations of device taints.
        tolerations: Vec<DeviceToleration>,
        /// Requested capacity.
        capacity: Option<CapacityRequirements>,
    }

    /// One of several alternatives of a request.
    struct DeviceSubRequest {
        /// Name within the request.
        name: String,
        /// The DeviceClass.
        device_class_name: String,
        /// Conditions on the devices.
        selectors: Vec<DeviceSelector>,
        /// `ExactCount` or `All`.
        allocation_mode: String,
        /// The number of devices for `ExactCount`.
        count: i64,
        /// Tolerations of device taints.
        tolerations: Vec<DeviceToleration>,
        /// Requested capacity.
        capacity: Option<CapacityRequirements>,
    }

    /// A condition on a device.
    struct DeviceSelector {
        /// The condition in CEL.
        cel: Option<CelDeviceSelector>,
    }

    /// A condition in CEL.
    struct CelDeviceSelector {
        /// The expression.
        expression: String,
    }

    /// The capacity that a request asks for.
    struct CapacityRequirements {
        /// Name of the capacity to amount.
        requests: BTreeMap<String, QuantityText>,
    }

    /// A toleration of device taints.
    struct DeviceToleration {
        /// Taint key; empty matches every key.
        key: String,
        /// `Equal` (also when empty) or `Exists`.
        operator: String,
        /// Taint value.
        value: String,
        /// Taint effect; empty matches every effect.
        effect: String,
        /// For how long `NoExecute` is tolerated.
        toleration_seconds: Option<i64>,
    }

    /// A constraint over several devices of a claim.
    struct DeviceConstraint {
        /// The requests, all if empty.
        requests: Vec<String>,
        /// The attribute that all devices have in common.
        match_attribute: Option<String>,
        /// The attribute in which all devices differ.
        distinct_attribute: Option<String>,
    }

    /// Configuration of the devices of some requests.
    struct DeviceClaimConfiguration {
        /// The requests, all if empty.
        requests: Vec<String>,
        /// Parameters for a driver, as written.
        opaque: Option<Value>,
    }

    /// `status` of a ResourceClaim.
    struct ResourceClaimStatus {
        /// The allocated devices.
        allocation: Option<AllocationResult>,
        /// The users of the claim: `apiGroup`, `resource`, `name` and `uid`, as written.
        reserved_for: Vec<Value>,
        /// The reports of drivers about the devices.
        devices: Vec<AllocatedDeviceStatus>,
    }

    /// The devices allocated to a claim.
    struct AllocationResult {
        /// The devices.
        devices: DeviceAllocationResult,
        /// The nodes on which the devices can be used.
        node_selector: Option<NodeSelector>,
        /// RFC 3339 time of the allocation.
        allocation_timestamp: Option<String>,
    }

    /// The devices allocated to a claim, and their configuration.
    struct DeviceAllocationResult {
        /// One entry a device.
        results: Vec<DeviceRequestAllocationResult>,
        /// Configuration.
        config: Vec<DeviceAllocationConfiguration>,
    }

    /// A device allocated for a request.
    struct DeviceRequestAllocationResult {
        /// The request, or request and subrequest with a slash.
        request: String,
        /// The driver.
        driver: String,
        /// The pool.
        pool: String,
        /// The device.
        device: String,
        /// Access for administration.
        admin_access: Option<bool>,
        /// Tolerations of the request.
        tolerations: Vec<DeviceToleration>,
        /// Conditions that must be true before the pod is bound.
        binding_conditions: Vec<String>,
        /// Conditions that fail the binding.
        binding_failure_conditions: Vec<String>,
        /// Identity of the share of a shared device.
        #[serde(rename = "shareID")]
        share_id: Option<String>,
        /// The capacity of a shared device that the request consumes.
        consumed_capacity: BTreeMap<String, QuantityText>,
    }

    /// Configuration of allocated devices.
    struct DeviceAllocationConfiguration {
        /// `FromClass` or `FromClaim`.
        source: String,
        /// The requests, all if empty.
        requests: Vec<String>,
        /// Parameters for a driver, as written.
        opaque: Option<Value>,
    }

    /// The report of a driver about an allocated device.
    struct AllocatedDeviceStatus {
        /// The driver.
        driver: String,
        /// The pool.
        pool: String,
        /// The device.
        device: String,
        /// Identity of the share of a shared device.
        #[serde(rename = "shareID")]
        share_id: Option<String>,
        /// Conditions.
        conditions: Vec<DeviceCondition>,
    }

    /// A condition of an allocated device.
    struct DeviceCondition {
        /// Type.
        #[serde(rename = "type")]
        type_: String,
        /// `True`, `False` or `Unknown`.
        status: String,
        /// Reason.
        reason: String,
        /// Message.
        message: String,
    }

    /// A `resource.k8s.io/v1` DeviceClass.
    struct DeviceClass {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: DeviceClassSpec,
    }

    /// `spec` of a DeviceClass.
    struct DeviceClassSpec {
        /// Conditions on the devices of the class.
        selectors: Vec<DeviceSelector>,
        /// Configuration of the devices of the class.
        config: Vec<DeviceClaimConfiguration>,
        /// The extended resource that the class provides.
        extended_resource_name: Option<String>,
    }

    /// A `resource.k8s.io/v1` ResourceSlice.
    struct ResourceSlice {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: ResourceSliceSpec,
    }

    /// `spec` of a ResourceSlice.
    struct ResourceSliceSpec {
        /// The driver.
        driver: String,
        /// The pool.
        pool: ResourcePool,
        /// The node with the devices.
        node_name: Option<String>,
        /// The nodes that can use the devices.
        node_selector: Option<NodeSelector>,
        /// Whether all nodes can use the devices.
        all_nodes: Option<bool>,
        /// Whether each device names its nodes.
        per_device_node_selection: Option<bool>,
        /// The devices.
        devices: Vec<Device>,
        /// Counters shared by the devices of the pool.
        shared_counters: Vec<CounterSet>,
    }

    /// The pool of a slice.
    struct ResourcePool {
        /// Name.
        name: String,
        /// Generation; slices of older generations are obsolete.
        generation: i64,
        /// The number of slices of the pool in this generation.
        resource_slice_count: i64,
    }

    /// A device.
    struct Device {
        /// Name within the pool.
        name: String,
        /// Attributes by name.
        attributes: BTreeMap<String, DeviceAttribute>,
        /// Capacities by name.
        capacity: BTreeMap<String, DeviceCapacity>,
        /// Consumed counters.
        consumes_counters: Vec<DeviceCounterConsumption>,
        /// The node with the device.
        node_name: Option<String>,
        /// The nodes that can use the device.
        node_selector: Option<NodeSelector>,
        /// Whether all nodes can use the device.
        all_nodes: Option<bool>,
        /// Taints.
        taints: Vec<DeviceTaint>,
        /// Whether the allocation is bound to the chosen node.
        binds_to_node: bool,
        /// Conditions that must be true before the pod is bound.
        binding_conditions: Vec<String>,
        /// Conditions that fail the binding.
        binding_failure_conditions: Vec<String>,
        /// Whether several requests can share the device.
        allow_multiple_allocations: Option<bool>,
    }

    /// The value of an attribute; one field is set.
    struct DeviceAttribute {
        /// A number.
        int: Option<i64>,
        /// A truth value.
        bool: Option<bool>,
        /// Text.
        string: Option<String>,
        /// A semantic version.
        version: Option<String>,
        /// Numbers.
        ints: Option<Vec<i64>>,
        /// Truth values.
        bools: Option<Vec<bool>>,
        /// Texts.
        strings: Option<Vec<String>>,
        /// Semantic versions.
        versions: Option<Vec<String>>,
    }

    /// A capacity of a device.
    struct DeviceCapacity {
        /// The amount.
        value: QuantityText,
        /// How requests consume it.
        request_policy: Option<CapacityRequestPolicy>,
    }

    /// How requests consume a capacity.
    struct CapacityRequestPolicy {
        /// The amount for requests that do not name the capacity.
        default: Option<QuantityText>,
        /// The allowed amounts, ascending.
        valid_values: Vec<QuantityText>,
        /// The allowed range.
        valid_range: Option<CapacityRequestPolicyRange>,
    }

    /// The range of amounts that a request can consume.
    struct CapacityRequestPolicyRange {
        /// Lowest amount.
        min: Option<QuantityText>,
        /// Highest amount.
        max: Option<QuantityText>,
        /// Step between amounts.
        step: Option<QuantityText>,
    }

    /// The counters of a set that a device consumes.
    struct DeviceCounterConsumption {
        /// The set.
        counter_set: String,
        /// Amounts by counter.
        counters: BTreeMap<String, Counter>,
    }

    /// A named set of counters.
    struct CounterSet {
        /// Name within the pool.
        name: String,
        /// Amounts by counter.
        counters: BTreeMap<String, Counter>,
    }

    /// A counter.
    struct Counter {
        /// The amount.
        value: QuantityText,
    }

    /// A taint of a device.
    struct DeviceTaint {
        /// Key.
        key: String,
        /// Value.
        value: String,
        /// `None`, `NoSchedule` or `NoExecute`.
        effect: String,
    }

    /// A `resource.k8s.io/v1beta2` DeviceTaintRule.
    struct DeviceTaintRule {
        /// Standard metadata.
        metadata: ObjectMeta,
        /// Desired state.
        spec: DeviceTaintRuleSpec,
    }

    /// `spec` of a DeviceTaintRule.
    struct DeviceTaintRuleSpec {
        /// The devices; all if absent.
        device_selector: Option<DeviceTaintSelector>,
        /// The taint.
        taint: DeviceTaint,
    }

    /// The devices of a DeviceTaintRule.
    struct DeviceTaintSelector {
        /// The driver; any if absent.
        driver: Option<String>,
        /// The pool; any if absent.
        pool: Option<String>,
        /// The device; any if absent.
        device: Option<String>,
    }
}
