//! What the scheduler reads of objects other than nodes and pods: one type a kind, and its decoder.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PodDisruptionBudget;
use ::api::device::{
    DEVICE_TAINT_RULES, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice,
};
use ::api::storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use ::api::{
    COSCHEDULING_POD_GROUPS, ControllerKind, ELASTIC_QUOTAS, ElasticQuota, EventResource,
    LabelSelector, Labels, ObjectKey, PodGroup, QuotaFault, api,
};

/// Declares the kinds that are decoded into types. A row: the type, the part of the cluster that
/// reads it, the kinds, and the decoder, which gets the key and the JSON of an object.
macro_rules! typed_kinds {
    ($($type:ident in $part:ident: $($kind:pat_param)|+ $(if $guard:expr)? => $decode:expr;)*) => {
        /// An object, decoded into the type of its kind.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub enum ObjectState {
            $(
                #[doc = concat!("A [`", stringify!($type), "`].")]
                $type(Arc<$type>),
            )*
            /// An object of a kind that only plugins read, which has no type here.
            Untyped,
        }

        impl ObjectState {
            /// Decodes an object.
            pub(super) fn decode(key: &ObjectKey, object: &Value) -> Result<Self, DecodeError> {
                Ok(match &key.kind {
                    $(
                        $($kind)|+ $(if $guard(&key.kind))? => {
                            Self::$type(Arc::new($decode(key, object)?))
                        }
                    )*
                    _ => Self::Untyped,
                })
            }

            /// Returns the part of the cluster that reads the object.
            pub(super) const fn part(&self) -> Part {
                match self {
                    $(Self::$type(_) => Part::$part,)*
                    Self::Untyped => Part::None,
                }
            }
        }

        $(
            impl TypedObject for $type {
                const NAME: &'static str = stringify!($type);

                fn of(state: &ObjectState) -> Option<&Self> {
                    match state {
                        ObjectState::$type(object) => Some(object),
                        _ => None,
                    }
                }
            }
        )*
    };
}

/// The parts of the cluster that read objects other than nodes and pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Namespaces, Services and controllers, which relate pods.
    Related,
    Budgets,
    PodGroups,
    Quotas,
    Storage,
    Devices,
    /// No part: only plugins read the object.
    None,
}

/// The type of a kind.
pub trait TypedObject: Sized {
    /// Its name.
    const NAME: &'static str;

    /// Returns the object if it is of this type.
    fn of(state: &ObjectState) -> Option<&Self>;
}

typed_kinds! {
    Namespace in Related: EventResource::Namespace => Namespace::decode;
    Service in Related: EventResource::Service => Service::decode;
    ControllerSelector in Related: EventResource::ReplicationController
        | EventResource::ReplicaSet
        | EventResource::StatefulSet => ControllerSelector::decode;
    PodDisruptionBudget in Budgets: EventResource::PodDisruptionBudget => PodDisruptionBudget::decode;
    PodGroup in PodGroups: EventResource::PodGroup | EventResource::Custom(_) if is_pod_group
        => decode_pod_group;
    ElasticQuota in Quotas: EventResource::Custom(_) if is_elastic_quota => decode_elastic_quota;
    PersistentVolumeClaim in Storage: EventResource::PersistentVolumeClaim
        => from_api(PersistentVolumeClaim::from_api);
    PersistentVolume in Storage: EventResource::PersistentVolume => from_api(PersistentVolume::from_api);
    StorageClass in Storage: EventResource::StorageClass => from_api(StorageClass::from_api);
    CsiNode in Storage: EventResource::CsiNode => from_api(CsiNode::from_api);
    CsiDriver in Storage: EventResource::CsiDriver => from_api(CsiDriver::from_api);
    CsiStorageCapacity in Storage: EventResource::CsiStorageCapacity => from_api(CsiStorageCapacity::from_api);
    VolumeAttachment in Storage: EventResource::VolumeAttachment => from_api(VolumeAttachment::from_api);
    ResourceClaim in Devices: EventResource::ResourceClaim => from_api(ResourceClaim::from_api);
    ResourceSlice in Devices: EventResource::ResourceSlice => from_api(ResourceSlice::from_api);
    DeviceClass in Devices: EventResource::DeviceClass => from_api(DeviceClass::from_api);
    DeviceTaintRule in Devices: EventResource::Custom(_) if is_taint_rule
        => from_api(DeviceTaintRule::from_api);
}

/// The labels of a Namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Its labels.
    pub labels: Labels,
}

/// The pods that a Service selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its selector; `None` for a Service that selects no pod.
    pub selector: Option<LabelSelector>,
}

/// The pods that a controller selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerSelector {
    /// Its kind.
    pub kind: ControllerKind,
    /// Its selector; `None` for a controller that selects no pod.
    pub selector: Option<LabelSelector>,
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

fn is_taint_rule(kind: &EventResource) -> bool {
    matches!(kind, EventResource::Custom(kind) if **kind == *DEVICE_TAINT_RULES)
}

fn is_pod_group(kind: &EventResource) -> bool {
    match kind {
        EventResource::Custom(kind) => **kind == *COSCHEDULING_POD_GROUPS,
        kind => *kind == EventResource::PodGroup,
    }
}

fn is_elastic_quota(kind: &EventResource) -> bool {
    matches!(kind, EventResource::Custom(kind) if **kind == *ELASTIC_QUOTAS)
}

fn decode_elastic_quota(_: &ObjectKey, object: &Value) -> Result<ElasticQuota, DecodeError> {
    ElasticQuota::from_api(&decode(object, "")?)
        .map_err(|QuotaFault { path, reason }| DecodeError { path, reason })
}

fn decode_pod_group(key: &ObjectKey, object: &Value) -> Result<PodGroup, DecodeError> {
    match key.kind {
        EventResource::Custom(_) => from_api(PodGroup::from_coscheduling)(key, object),
        _ => from_api(PodGroup::from_api)(key, object),
    }
}

/// Returns a decoder of an object of the API, which is then converted.
fn from_api<A: DeserializeOwned, T>(
    convert: impl FnOnce(&A) -> T,
) -> impl FnOnce(&ObjectKey, &Value) -> Result<T, DecodeError> {
    |_, object| decode(object, "").map(|object| convert(&object))
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

impl Namespace {
    fn decode(_: &ObjectKey, object: &Value) -> Result<Self, DecodeError> {
        let labels: Option<BTreeMap<String, String>> =
            decode(&object["metadata"]["labels"], "metadata.labels")?;
        Ok(Self { labels: Labels::from(&labels.unwrap_or_default()) })
    }
}

impl Service {
    fn decode(_: &ObjectKey, object: &Value) -> Result<Self, DecodeError> {
        Ok(Self { selector: equality_selector(object)? })
    }
}

impl ControllerSelector {
    fn decode(key: &ObjectKey, object: &Value) -> Result<Self, DecodeError> {
        let kind = match key.kind {
            EventResource::ReplicationController => ControllerKind::ReplicationController,
            EventResource::ReplicaSet => ControllerKind::ReplicaSet,
            _ => ControllerKind::StatefulSet,
        };
        let selector = match kind {
            ControllerKind::ReplicationController => equality_selector(object)?,
            _ => set_selector(object)?,
        };
        Ok(Self { kind, selector })
    }
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
    use crate::Object;

    #[test]
    fn field_that_does_not_decode_is_named_for_any_kind() {
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
            (EventResource::Custom(COSCHEDULING_POD_GROUPS.into()), odd_spec(), "spec: "),
            (EventResource::PodGroup, odd_spec(), "spec: "),
            (EventResource::Custom(ELASTIC_QUOTAS.into()), odd_spec(), "spec: "),
            (EventResource::PodDisruptionBudget, odd_spec(), "spec: "),
            (EventResource::StorageClass, json!({"provisioner": 7}), "provisioner: "),
            (EventResource::CsiStorageCapacity, json!({"capacity": []}), "capacity: "),
            (EventResource::Namespace, json!({"metadata": {"labels": 7}}), "metadata.labels: "),
            (EventResource::Service, json!({"spec": {"selector": {"a": 1}}}), "spec.selector.a: "),
        ];
        for (kind, object, expected) in rows {
            let key = ObjectKey::cluster_scoped(kind.clone(), "x".into());
            let error = Object::decode(key.clone(), object).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{kind:?}: {error}");
            assert!(Object::decode(key, json!({"metadata": {"name": "x"}})).is_ok(), "{kind:?}");
        }
    }
}
