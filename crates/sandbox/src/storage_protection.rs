//! The StorageObjectInUseProtection admission plugin: claims and volumes get a finalizer, which a
//! controller removes once they are not in use.

use serde_json::Value;

use crate::metadata::metadata_mut;
use crate::resources::{PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, Resource};

/// Returns the finalizer of claims or of volumes; `None` for any other kind.
fn finalizer(resource: &Resource) -> Option<&'static str> {
    match resource {
        _ if resource == PERSISTENTVOLUMECLAIMS => Some("kubernetes.io/pvc-protection"),
        _ if resource == PERSISTENTVOLUMES => Some("kubernetes.io/pv-protection"),
        _ => None,
    }
}

/// Adds the finalizer to a new claim or volume.
pub(crate) fn admit(resource: &Resource, object: &mut Value) {
    let Some(own) = finalizer(resource) else { return };
    let finalizers = metadata_mut(object).entry("finalizers").or_insert(Value::Null);
    match finalizers {
        Value::Array(others) if others.iter().any(|other| other == own) => {}
        Value::Array(others) => others.push(own.into()),
        none => *none = vec![own].into(),
    }
}

/// Removes the finalizer of a claim or volume.
pub(crate) fn release(resource: &Resource, object: &mut Value) {
    let finalizers = metadata_mut(object).get_mut("finalizers").and_then(Value::as_array_mut);
    if let Some((finalizers, own)) = finalizers.zip(finalizer(resource)) {
        finalizers.retain(|finalizer| finalizer != own);
    }
}
