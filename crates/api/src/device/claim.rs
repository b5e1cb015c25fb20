//! ResourceClaims.

use std::sync::Arc;

use serde_json::Value;

use super::description::amounts;
use super::{
    Allocation, Amounts, DeviceId, DeviceSelector, DeviceToleration, EXTENDED_RESOURCE_CLAIM,
    FINALIZER, shared,
};
use crate::{Pod, PodGroup, Uid, api};

/// A ResourceClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceClaim {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Uid,
    /// Version of the object.
    pub resource_version: Arc<str>,
    /// The finalizers, in the order of the object.
    pub finalizers: Box<[Arc<str>]>,
    /// The object that owns the claim and manages it.
    pub controller: Option<ClaimController>,
    /// Whether the claim is being deleted.
    pub terminating: bool,
    /// Why no version of the claim could be decoded. Of such a claim only the devices are known
    /// that it holds.
    pub undecodable: Option<Arc<str>>,
    /// Whether a scheduler created the claim for the extended resources of a pod.
    pub is_for_extended_resources: bool,
    /// What is asked for.
    pub spec: Arc<ClaimSpec>,
    /// The allocated devices.
    pub allocation: Option<Arc<Allocation>>,
    /// The users of the claim.
    pub reserved_for: Box<[ClaimConsumer]>,
    /// What drivers report about the devices.
    pub devices: Box<[AllocatedDeviceStatus]>,
}

/// The controller of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimController {
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Uid,
}

/// What a claim asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimSpec {
    /// Requests.
    pub requests: Box<[DeviceRequest]>,
    /// Constraints over several devices.
    pub constraints: Box<[DeviceConstraint]>,
    /// Configuration of the devices.
    pub config: Box<[DeviceConfig]>,
}

/// A request for devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequest {
    /// Name within the claim.
    pub name: Arc<str>,
    /// What is asked for.
    pub kind: RequestKind,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKind {
    /// Exactly this.
    Exactly(RequestBody),
    /// The first of these that can be allocated; not empty.
    FirstAvailable(Box<[RequestBody]>),
    /// A request of an unknown kind.
    Unknown,
}

/// A request or one of several alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestBody {
    /// The name of the request, or of the alternative within the request.
    pub name: Arc<str>,
    /// The DeviceClass; empty for a request of an unknown kind.
    pub class: Arc<str>,
    /// Conditions on the devices, besides those of the class.
    pub selectors: Box<[DeviceSelector]>,
    /// How many devices.
    pub mode: AllocationMode,
    /// Access for administration; `None` if absent.
    pub admin_access: Option<bool>,
    /// Tolerations of device taints.
    pub tolerations: Box<[DeviceToleration]>,
    /// Requested capacity; `None` if absent.
    pub capacity: Option<CapacityRequest>,
}

impl RequestBody {
    /// Returns whether access for administration is asked for.
    pub fn wants_admin_access(&self) -> bool {
        self.admin_access == Some(true)
    }
}

/// The capacity that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityRequest {
    /// Amounts by capacity, sorted; an error describes the first amount that is not a quantity. No
    /// device can be allocated for such a request.
    pub amounts: Result<Amounts, Arc<str>>,
}

/// How many devices a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllocationMode {
    /// This number.
    ExactCount(i64),
    /// All that match.
    All,
    /// An unknown mode, as written.
    Other(Arc<str>),
}

impl AllocationMode {
    /// Applies the defaults of the API server: one device.
    fn of(mode: &str, count: i64) -> Self {
        match mode {
            "" | "ExactCount" => Self::ExactCount(if count == 0 { 1 } else { count }),
            "All" => Self::All,
            other => Self::Other(other.into()),
        }
    }
}

/// A constraint over several devices of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConstraint {
    /// The requests, or requests and subrequests with a slash; all if empty.
    pub requests: Box<[Arc<str>]>,
    /// The rule.
    pub rule: AttributeRule,
}

/// What devices have in common, or not. The name of the attribute is fully qualified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AttributeRule {
    /// All devices have the same value.
    Match(Arc<str>),
    /// All devices have different values.
    Distinct(Arc<str>),
    /// A constraint of an unknown kind.
    Unknown,
}

/// Configuration of the devices of some requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The requests, or requests and subrequests with a slash; all if empty.
    pub requests: Box<[Arc<str>]>,
    /// Parameters for a driver, as written.
    pub opaque: Option<Arc<Value>>,
}

/// A user of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimConsumer {
    /// API group; empty for the core group.
    pub api_group: Arc<str>,
    /// Plural name of the resource.
    pub resource: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Uid,
    /// The entry as written, for writes of the whole list; `null` for an entry made here.
    pub raw: Arc<Value>,
}

/// What a driver reports about an allocated device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatedDeviceStatus {
    /// The device.
    pub id: DeviceId,
    /// Identity of the share of a shared device.
    pub share_id: Option<Arc<str>>,
    /// Conditions.
    pub conditions: Box<[DeviceCondition]>,
}

/// A condition of an allocated device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCondition {
    /// Type.
    pub kind: Arc<str>,
    /// Whether the status is `True`.
    pub is_true: bool,
    /// Reason.
    pub reason: Arc<str>,
    /// Message.
    pub message: Arc<str>,
}

impl ResourceClaim {
    /// Converts the API object.
    pub fn from_api(claim: &api::ResourceClaim) -> Self {
        let api::ResourceClaim { metadata, spec, status, undecodable } = claim;
        let controller = metadata.owner_references.iter().find(|owner| owner.controller);
        let annotation = metadata.annotations.get(EXTENDED_RESOURCE_CLAIM);
        Self {
            namespace: metadata.namespace.as_str().into(),
            name: metadata.name.as_str().into(),
            uid: metadata.uid.as_str().into(),
            resource_version: metadata.resource_version.as_str().into(),
            finalizers: shared(&metadata.finalizers),
            controller: controller.map(|owner| ClaimController {
                kind: owner.kind.as_str().into(),
                name: owner.name.as_str().into(),
                uid: owner.uid.as_str().into(),
            }),
            terminating: metadata.deletion_timestamp.is_some(),
            undecodable: undecodable.as_deref().map(Arc::from),
            is_for_extended_resources: annotation.is_some_and(|value| value == "true"),
            spec: Arc::new(ClaimSpec::from_api(&spec.devices)),
            allocation: status.allocation.as_ref().map(|raw| Arc::new(Allocation::from_api(raw))),
            reserved_for: status.reserved_for.iter().map(ClaimConsumer::from_api).collect(),
            devices: status.devices.iter().map(AllocatedDeviceStatus::from_api).collect(),
        }
    }

    /// Returns whether the claim has the [finalizer](FINALIZER) of allocated claims.
    pub fn is_protected(&self) -> bool {
        self.finalizers.iter().any(|own| **own == *FINALIZER)
    }

    /// Returns whether the pod controls the claim.
    pub fn is_made_for(&self, pod: &Pod) -> bool {
        self.controller.as_ref().is_some_and(|owner| owner.uid == pod.uid)
    }

    /// Returns whether the PodGroup controls the claim.
    pub fn is_made_for_group(&self, group: &PodGroup) -> bool {
        self.controller.as_ref().is_some_and(|owner| owner.uid == group.uid)
    }

    /// Returns whether the claim is reserved for the pod or PodGroup with this UID.
    pub fn is_reserved_for(&self, user: &Uid) -> bool {
        self.reserved_for.iter().any(|own| own.uid == *user)
    }
}

impl ClaimSpec {
    /// Converts the API object. Absent fields get the defaults of the API server.
    pub fn from_api(spec: &api::DeviceClaim) -> Self {
        let requests = spec.requests.iter().map(DeviceRequest::from_api);
        let constraints = spec.constraints.iter().map(DeviceConstraint::from_api);
        Self {
            requests: requests.collect(),
            constraints: constraints.collect(),
            config: spec.config.iter().map(DeviceConfig::from_api).collect(),
        }
    }
}

impl DeviceRequest {
    fn from_api(raw: &api::DeviceRequest) -> Self {
        let name: Arc<str> = raw.name.as_str().into();
        let kind = match (&raw.first_available[..], &raw.exactly) {
            ([], Some(exactly)) => RequestKind::Exactly(RequestBody {
                name: name.clone(),
                class: exactly.device_class_name.as_str().into(),
                selectors: DeviceSelector::list(&exactly.selectors),
                mode: AllocationMode::of(&exactly.allocation_mode, exactly.count),
                admin_access: exactly.admin_access,
                tolerations: exactly.tolerations.iter().map(DeviceToleration::from_api).collect(),
                capacity: exactly.capacity.as_ref().map(CapacityRequest::from_api),
            }),
            ([], None) => RequestKind::Unknown,
            (alternatives, _) => {
                let alternatives = alternatives.iter().map(|own| RequestBody {
                    name: own.name.as_str().into(),
                    class: own.device_class_name.as_str().into(),
                    selectors: DeviceSelector::list(&own.selectors),
                    mode: AllocationMode::of(&own.allocation_mode, own.count),
                    admin_access: None,
                    tolerations: own.tolerations.iter().map(DeviceToleration::from_api).collect(),
                    capacity: own.capacity.as_ref().map(CapacityRequest::from_api),
                });
                RequestKind::FirstAvailable(alternatives.collect())
            }
        };
        Self { name, kind }
    }

    /// Returns the request itself or its alternatives, in order.
    pub fn bodies(&self) -> &[RequestBody] {
        match &self.kind {
            RequestKind::Exactly(body) => std::slice::from_ref(body),
            RequestKind::FirstAvailable(bodies) => bodies,
            RequestKind::Unknown => &[],
        }
    }
}

impl CapacityRequest {
    fn from_api(raw: &api::CapacityRequirements) -> Self {
        Self { amounts: amounts(raw.requests.iter()) }
    }
}

impl DeviceConstraint {
    fn from_api(raw: &api::DeviceConstraint) -> Self {
        let rule = match (&raw.match_attribute, &raw.distinct_attribute) {
            (Some(name), _) => AttributeRule::Match(name.as_str().into()),
            (None, Some(name)) => AttributeRule::Distinct(name.as_str().into()),
            (None, None) => AttributeRule::Unknown,
        };
        Self { requests: shared(&raw.requests), rule }
    }
}

impl DeviceConfig {
    /// Converts the API object.
    pub fn from_api(raw: &api::DeviceClaimConfiguration) -> Self {
        Self { requests: shared(&raw.requests), opaque: raw.opaque.clone().map(Arc::new) }
    }
}

impl ClaimConsumer {
    /// Returns a pod as the user of a claim.
    pub fn pod(pod: &Pod) -> Self {
        let (name, uid) = (pod.key.name.clone(), pod.uid.clone());
        Self { api_group: "".into(), resource: "pods".into(), name, uid, raw: Arc::default() }
    }

    /// Returns a PodGroup of `scheduling.k8s.io` as the user of a claim.
    pub fn pod_group(name: &Arc<str>, group: &PodGroup) -> Self {
        Self {
            api_group: "scheduling.k8s.io".into(),
            resource: "podgroups".into(),
            name: name.clone(),
            uid: group.uid.clone(),
            raw: Arc::default(),
        }
    }

    fn from_api(raw: &Value) -> Self {
        let text = |field: &str| raw[field].as_str().unwrap_or_default();
        Self {
            api_group: text("apiGroup").into(),
            resource: text("resource").into(),
            name: text("name").into(),
            uid: text("uid").into(),
            raw: Arc::new(raw.clone()),
        }
    }
}

impl AllocatedDeviceStatus {
    fn from_api(raw: &api::AllocatedDeviceStatus) -> Self {
        let conditions = raw.conditions.iter().map(|condition| DeviceCondition {
            kind: condition.type_.as_str().into(),
            is_true: condition.status == "True",
            reason: condition.reason.as_str().into(),
            message: condition.message.as_str().into(),
        });
        Self {
            id: DeviceId {
                driver: raw.driver.as_str().into(),
                pool: raw.pool.as_str().into(),
                device: raw.device.as_str().into(),
            },
            share_id: raw.share_id.as_deref().map(Into::into),
            conditions: conditions.collect(),
        }
    }
}
