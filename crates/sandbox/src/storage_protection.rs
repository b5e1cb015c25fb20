//! Protection of claims and volumes that are in use (StorageObjectInUseProtection): all of them get
//! a finalizer at admission, which their controller takes away once they are free to go.

use serde_json::Value;

use crate::metadata::metadata_mut;
use crate::resources::{PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, Resource};

/// The finalizer of claims and of volumes; `None` for any other kind.
fn finalizer(resource: &Resource) -> Option<&'static str> {
    match resource {
        _ if resource == PERSISTENTVOLUMECLAIMS => Some("kubernetes.io/pvc-protection"),
        _ if resource == PERSISTENTVOLUMES => Some("kubernetes.io/pv-protection"),
        _ => None,
    }
}

/// Protects a new claim or volume.
pub(crate) fn admit(resource: &Resource, object: &mut Value) {
    let Some(own) = finalizer(resource) else { return };
    let finalizers = metadata_mut(object).entry("finalizers").or_insert(Value::Null);
    match finalizers {
        Value::Array(others) if others.iter().any(|other| other == own) => {}
        Value::Array(others) => others.push(own.into()),
        none => *none = vec![own].into(),
    }
}

/// Lets a claim or volume go.
pub(crate) fn release(resource: &Resource, object: &mut Value) {
    let finalizers = metadata_mut(object).get_mut("finalizers").and_then(Value::as_array_mut);
    if let Some((finalizers, own)) = finalizers.zip(finalizer(resource)) {
        finalizers.retain(|finalizer| finalizer != own);
    }
}
