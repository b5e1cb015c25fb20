//! The devices allocated to a claim.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::description::amounts;
use super::{Amounts, DeviceId, DeviceToleration, NodeRestriction, shared};
use crate::{Time, api};

/// The devices allocated to a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocation {
    /// One entry a device.
    pub results: Box<[AllocatedDevice]>,
    /// Configuration of the devices.
    pub config: Box<[AllocationConfig]>,
    /// The nodes on which the devices can be used; `None` for all.
    pub node_selector: Option<Arc<NodeRestriction>>,
    /// The time of the allocation as written (RFC 3339); it starts the wait for binding conditions.
    pub timestamp: Option<Arc<str>>,
}

/// A device allocated for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatedDevice {
    /// The request, or request and subrequest with a slash.
    pub request: Arc<str>,
    /// The device.
    pub id: DeviceId,
    /// Access for administration; `None` if not asked for.
    pub admin_access: Option<bool>,
    /// Tolerations of the request.
    pub tolerations: Box<[DeviceToleration]>,
    /// Conditions that must be true before the pod is bound.
    pub binding_conditions: Box<[Arc<str>]>,
    /// Conditions that fail the binding.
    pub binding_failure_conditions: Box<[Arc<str>]>,
    /// Identity of the share of a shared device.
    pub share_id: Option<Arc<str>>,
    /// The capacity of a shared device that the request consumes. An amount that cannot be read
    /// is left out.
    pub consumed_capacity: Amounts,
}

/// Where a configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ConfigSource {
    /// The DeviceClass.
    Class,
    /// The claim.
    Claim,
    /// An unknown source, as written.
    Other(Arc<str>),
}

impl ConfigSource {
    fn as_str(&self) -> &str {
        match self {
            Self::Class => "FromClass",
            Self::Claim => "FromClaim",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for ConfigSource {
    fn from(text: &str) -> Self {
        match text {
            "FromClass" => Self::Class,
            "FromClaim" => Self::Claim,
            other => Self::Other(other.into()),
        }
    }
}

/// Configuration of allocated devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationConfig {
    /// Where it comes from.
    pub source: ConfigSource,
    /// The requests; all if empty.
    pub requests: Box<[Arc<str>]>,
    /// Parameters for a driver, as written.
    pub opaque: Option<Arc<Value>>,
}

impl Allocation {
    /// Converts the API object.
    pub fn from_api(allocation: &api::AllocationResult) -> Self {
        let selector = allocation.node_selector.as_ref();
        let config = allocation.devices.config.iter().map(|raw| AllocationConfig {
            source: raw.source.as_str().into(),
            requests: shared(&raw.requests),
            opaque: raw.opaque.clone().map(Arc::new),
        });
        Self {
            results: allocation.devices.results.iter().map(AllocatedDevice::from_api).collect(),
            config: config.collect(),
            node_selector: selector.map(|raw| Arc::new(NodeRestriction::from_api(raw))),
            timestamp: allocation.allocation_timestamp.as_deref().map(Into::into),
        }
    }

    /// Returns the time of the allocation, if it is known and can be read.
    pub fn allocated_at(&self) -> Option<Time> {
        Time::parse_rfc3339(self.timestamp.as_deref()?).ok()
    }

    /// Returns the JSON that kube-scheduler writes to `status.allocation`.
    pub fn to_json(&self) -> Value {
        let mut devices = Map::new();
        if !self.results.is_empty() {
            let results = self.results.iter().map(AllocatedDevice::to_json);
            devices.insert("results".to_owned(), results.collect());
        }
        if !self.config.is_empty() {
            let config = self.config.iter().map(AllocationConfig::to_json);
            devices.insert("config".to_owned(), config.collect());
        }
        let mut json = json!({ "devices": devices });
        if let Some(selector) = &self.node_selector {
            json["nodeSelector"] = selector_json(&selector.raw);
        }
        if let Some(timestamp) = &self.timestamp {
            json["allocationTimestamp"] = Value::from(&**timestamp);
        }
        json
    }
}

impl AllocatedDevice {
    fn from_api(raw: &api::DeviceRequestAllocationResult) -> Self {
        let id = DeviceId {
            driver: raw.driver.as_str().into(),
            pool: raw.pool.as_str().into(),
            device: raw.device.as_str().into(),
        };
        let consumed = raw.consumed_capacity.iter().filter_map(|(name, text)| {
            Some(amounts([(name, text)].into_iter()).ok()?.into_iter().next())
        });
        Self {
            request: raw.request.as_str().into(),
            id,
            admin_access: raw.admin_access,
            tolerations: raw.tolerations.iter().map(DeviceToleration::from_api).collect(),
            binding_conditions: shared(&raw.binding_conditions),
            binding_failure_conditions: shared(&raw.binding_failure_conditions),
            share_id: raw.share_id.as_deref().map(Into::into),
            consumed_capacity: consumed.flatten().collect(),
        }
    }

    /// Returns whether the device was allocated for administration, which does not make it used.
    pub fn is_for_administration(&self) -> bool {
        self.admin_access == Some(true)
    }

    fn to_json(&self) -> Value {
        let mut json = json!({
            "request": &*self.request,
            "driver": &*self.id.driver,
            "pool": &*self.id.pool,
            "device": &*self.id.device,
        });
        if let Some(access) = self.admin_access {
            json["adminAccess"] = Value::from(access);
        }
        if !self.tolerations.is_empty() {
            json["tolerations"] = self.tolerations.iter().map(toleration_json).collect();
        }
        set_texts(&mut json, "bindingConditions", &self.binding_conditions);
        set_texts(&mut json, "bindingFailureConditions", &self.binding_failure_conditions);
        if let Some(share) = &self.share_id {
            json["shareID"] = Value::from(&**share);
        }
        if !self.consumed_capacity.is_empty() {
            let consumed = self.consumed_capacity.iter();
            let consumed: Map<_, _> = consumed
                .map(|(name, amount)| (name.to_string(), Value::from(amount.to_string())))
                .collect();
            json["consumedCapacity"] = Value::Object(consumed);
        }
        json
    }
}

impl AllocationConfig {
    fn to_json(&self) -> Value {
        let mut json = json!({ "source": self.source.as_str() });
        set_texts(&mut json, "requests", &self.requests);
        if let Some(opaque) = &self.opaque {
            json["opaque"] = (**opaque).clone();
        }
        json
    }
}

fn set_texts(json: &mut Value, field: &str, texts: &[Arc<str>]) {
    if !texts.is_empty() {
        json[field] = texts.iter().map(|text| Value::from(&**text)).collect();
    }
}

fn toleration_json(toleration: &DeviceToleration) -> Value {
    let DeviceToleration { key, operator, value, effect, toleration_seconds } = toleration;
    let mut json = Map::new();
    for (field, text) in
        [("key", key), ("operator", operator), ("value", value), ("effect", effect)]
    {
        if !text.is_empty() {
            json.insert(field.to_owned(), Value::from(&**text));
        }
    }
    if let Some(seconds) = toleration_seconds {
        json.insert("tolerationSeconds".to_owned(), Value::from(*seconds));
    }
    Value::Object(json)
}

fn selector_json(selector: &api::NodeSelector) -> Value {
    let requirements = |list: &[api::SelectorRequirement]| -> Value {
        let one = |raw: &api::SelectorRequirement| {
            let mut json = json!({ "key": raw.key, "operator": raw.operator });
            if !raw.values.is_empty() {
                json["values"] = Value::from(raw.values.clone());
            }
            json
        };
        list.iter().map(one).collect()
    };
    let terms = selector.node_selector_terms.iter().map(|term| {
        let mut json = Map::new();
        if !term.match_expressions.is_empty() {
            json.insert("matchExpressions".to_owned(), requirements(&term.match_expressions));
        }
        if !term.match_fields.is_empty() {
            json.insert("matchFields".to_owned(), requirements(&term.match_fields));
        }
        Value::Object(json)
    });
    json!({ "nodeSelectorTerms": terms.collect::<Value>() })
}
