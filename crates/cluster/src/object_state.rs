//! Objects of kinds other than nodes and pods, from JSON to the form that the cluster keeps.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::DisruptionBudget;
use ::api::device::{
    DEVICE_TAINT_RULES, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice,
};
use ::api::storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use ::api::{ControllerKind, EventResource, LabelSelector, Labels, api};

/// The state of an object; `None` if it is gone.
#[derive(Debug)]
pub(super) enum ObjectState {
    Namespace(Option<Labels>),
    /// The selector; `None` also for a Service that selects no pod.
    Service(Option<LabelSelector>),
    /// The selector; `None` also for a controller that selects no pod.
    Controller(ControllerKind, Option<LabelSelector>),
    /// The budget; `None` also for one that protects no pod.
    PodDisruptionBudget(Option<DisruptionBudget>),
    PersistentVolumeClaim(Option<PersistentVolumeClaim>),
    PersistentVolume(Option<PersistentVolume>),
    StorageClass(Option<StorageClass>),
    CsiNode(Option<CsiNode>),
    CsiDriver(Option<CsiDriver>),
    CsiStorageCapacity(Option<CsiStorageCapacity>),
    VolumeAttachment(Option<VolumeAttachment>),
    ResourceClaim(Option<ResourceClaim>),
    ResourceSlice(Option<ResourceSlice>),
    DeviceClass(Option<DeviceClass>),
    DeviceTaintRule(Option<DeviceTaintRule>),
    /// An object of which the cluster keeps the JSON alone.
    Json,
}

/// An object that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DecodeError {
    /// The path of the field; empty for the object itself.
    path: String,
    reason: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => self.reason.fmt(f),
            false => write!(f, "{}: {}", self.path, self.reason),
        }
    }
}

/// Checks that an object of a kind other than node and pod decodes. [`Cluster::set_object`](super::Cluster::set_object)
/// decodes it in the same way.
///
/// # Errors
/// A field that the scheduler reads has another shape.
pub fn check_object(kind: &EventResource, object: &Value) -> Result<(), DecodeError> {
    ObjectState::decode(kind, "", Some(object)).map(drop)
}

impl ObjectState {
    /// Decodes an object.
    pub(super) fn decode(
        kind: &EventResource,
        namespace: &str,
        object: Option<&Value>,
    ) -> Result<Self, DecodeError> {
        use EventResource as Kind;
        Ok(match kind {
            Kind::Namespace => Self::Namespace(object.map(labels).transpose()?),
            Kind::Service => Self::Service(flat(object, equality_selector)?),
            Kind::ReplicationController => Self::Controller(
                ControllerKind::ReplicationController,
                flat(object, equality_selector)?,
            ),
            Kind::ReplicaSet => {
                Self::Controller(ControllerKind::ReplicaSet, flat(object, set_selector)?)
            }
            Kind::StatefulSet => {
                Self::Controller(ControllerKind::StatefulSet, flat(object, set_selector)?)
            }
            Kind::PodDisruptionBudget => {
                let budget = |object: &Value| DisruptionBudget::decode(&namespace.into(), object);
                Self::PodDisruptionBudget(flat(object, budget)?)
            }
            Kind::Custom(kind) if **kind == *DEVICE_TAINT_RULES => {
                Self::DeviceTaintRule(whole(object, DeviceTaintRule::from_api)?)
            }
            _ => return Self::decode_storage_or_devices(kind, object),
        })
    }

    fn decode_storage_or_devices(
        kind: &EventResource,
        object: Option<&Value>,
    ) -> Result<Self, DecodeError> {
        use EventResource as Kind;
        Ok(match kind {
            Kind::PersistentVolumeClaim => {
                Self::PersistentVolumeClaim(whole(object, PersistentVolumeClaim::from_api)?)
            }
            Kind::PersistentVolume => {
                Self::PersistentVolume(whole(object, PersistentVolume::from_api)?)
            }
            Kind::StorageClass => Self::StorageClass(whole(object, StorageClass::from_api)?),
            Kind::CsiNode => Self::CsiNode(whole(object, CsiNode::from_api)?),
            Kind::CsiDriver => Self::CsiDriver(whole(object, CsiDriver::from_api)?),
            Kind::CsiStorageCapacity => {
                Self::CsiStorageCapacity(whole(object, CsiStorageCapacity::from_api)?)
            }
            Kind::VolumeAttachment => {
                Self::VolumeAttachment(whole(object, VolumeAttachment::from_api)?)
            }
            Kind::ResourceClaim => Self::ResourceClaim(whole(object, ResourceClaim::from_api)?),
            Kind::ResourceSlice => Self::ResourceSlice(whole(object, ResourceSlice::from_api)?),
            Kind::DeviceClass => Self::DeviceClass(whole(object, DeviceClass::from_api)?),
            _ => Self::Json,
        })
    }
}

fn flat<T>(
    object: Option<&Value>,
    decode: impl FnOnce(&Value) -> Result<Option<T>, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    object.map_or(Ok(None), decode)
}

/// Decodes an object of the API, and converts it.
fn whole<A: DeserializeOwned, T>(
    object: Option<&Value>,
    convert: impl FnOnce(&A) -> T,
) -> Result<Option<T>, DecodeError> {
    object.map(|object| decode(object, "").map(|object| convert(&object))).transpose()
}

/// Decodes the field at `path` of an object.
pub(super) fn decode<A: DeserializeOwned>(field: &Value, path: &str) -> Result<A, DecodeError> {
    // Following the path takes time, so it is done only for the error.
    A::deserialize(field).or_else(|_| {
        serde_path_to_error::deserialize(field).map_err(|error| {
            let inner = error.path().to_string();
            let parts = [path, &inner].into_iter().filter(|part| !part.is_empty() && *part != ".");
            let path = parts.collect::<Vec<_>>().join(".");
            DecodeError { path, reason: error.inner().to_string() }
        })
    })
}

fn labels(namespace: &Value) -> Result<Labels, DecodeError> {
    let labels: Option<BTreeMap<String, String>> =
        decode(&namespace["metadata"]["labels"], "metadata.labels")?;
    Ok(Labels::from(&labels.unwrap_or_default()))
}

fn equality_selector(object: &Value) -> Result<Option<LabelSelector>, DecodeError> {
    let selector: Option<BTreeMap<String, String>> = decode(&object["spec"]["selector"], SELECTOR)?;
    Ok(selector.map(|set| LabelSelector::from_set(&set)))
}

fn set_selector(object: &Value) -> Result<Option<LabelSelector>, DecodeError> {
    let selector: Option<api::LabelSelector> = decode(&object["spec"]["selector"], SELECTOR)?;
    let Some(selector) = selector else { return Ok(None) };
    LabelSelector::compile(Some(&selector)).map(Some).map_err(|error| DecodeError {
        path: SELECTOR.to_owned(),
        reason: error.messages().join("; "),
    })
}

const SELECTOR: &str = "spec.selector";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Cluster;

    #[test]
    fn claim_that_becomes_unreadable_keeps_its_devices() {
        let result = json!({"request": "r", "driver": "d", "pool": "p", "device": "x"});
        let claim = |allocation: Value| {
            Some(json!({
                "metadata": {"name": "c", "namespace": "a", "uid": "u"},
                "status": {"allocation": allocation},
            }))
        };
        let mut cluster = Cluster::default();
        let mut is_taken = |object: Option<Value>| {
            let object = object.map(std::sync::Arc::new);
            cluster.set_object(&EventResource::ResourceClaim, "a", "c", object);
            !cluster.allocated_devices().is_empty()
        };
        assert!(is_taken(claim(json!({"devices": {"results": [result]}}))));
        assert!(is_taken(claim(json!({"devices": [result]}))), "the last readable version stays");
        assert!(!is_taken(None));
    }

    #[test]
    fn undecodable_version_of_any_kind_is_ignored_and_its_field_named() {
        let odd_spec = || json!({"metadata": {"name": "x"}, "spec": 7});
        let rows = [
            (EventResource::PersistentVolume, odd_spec(), "spec: "),
            (EventResource::PersistentVolumeClaim, odd_spec(), "spec: "),
            (EventResource::CsiNode, odd_spec(), "spec: "),
            (EventResource::CsiDriver, odd_spec(), "spec: "),
            (EventResource::VolumeAttachment, odd_spec(), "spec: "),
            (EventResource::ResourceClaim, odd_spec(), "spec: "),
            (EventResource::ResourceSlice, odd_spec(), "spec: "),
            (EventResource::DeviceClass, odd_spec(), "spec: "),
            (EventResource::Custom(DEVICE_TAINT_RULES.into()), odd_spec(), "spec: "),
            (EventResource::PodDisruptionBudget, odd_spec(), "spec: "),
            (EventResource::StorageClass, json!({"provisioner": 7}), "provisioner: "),
            (EventResource::CsiStorageCapacity, json!({"capacity": []}), "capacity: "),
            (EventResource::Namespace, json!({"metadata": {"labels": 7}}), "metadata.labels: "),
            (EventResource::Service, json!({"spec": {"selector": {"a": 1}}}), "spec.selector.a: "),
        ];
        for (kind, object, expected) in rows {
            let error = check_object(&kind, &object).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{kind:?}: {error}");
            let mut cluster = Cluster::default();
            let readable = std::sync::Arc::new(json!({"metadata": {"name": "x"}}));
            cluster.set_object(&kind, "", "x", Some(readable.clone()));
            let before = cluster.set_object(&kind, "", "x", Some(object.into()));
            assert_eq!(before.as_ref(), Some(&readable), "{kind:?}");
            assert_eq!(cluster.stored_object(&kind, "", "x").as_ref(), Some(&readable), "{kind:?}");
        }
    }
}
