//! Lookup of storage objects. Errors about missing objects have the texts of the Kubernetes
//! listers.

use std::sync::Arc;

use framework::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use framework::{Cluster, Pod};

/// Returns the claim of this name.
///
/// # Errors
/// Returns an error if the claim is missing.
pub(crate) fn claim<'a>(
    cluster: &'a Cluster,
    namespace: &str,
    name: &str,
) -> Result<&'a Arc<PersistentVolumeClaim>, String> {
    cluster.claim(namespace, name).ok_or_else(|| no_claim(name))
}

/// Returns the error text for a missing claim.
pub(crate) fn no_claim(name: &str) -> String {
    not_found("persistentvolumeclaim", name)
}

/// Returns the volume of this name.
///
/// # Errors
/// Returns an error if the volume is missing.
pub(crate) fn volume<'a>(
    cluster: &'a Cluster,
    name: &str,
) -> Result<&'a Arc<PersistentVolume>, String> {
    cluster.volume(name).ok_or_else(|| not_found("persistentvolume", name))
}

/// Returns the class of this name.
///
/// # Errors
/// Returns an error if the class is missing.
pub(crate) fn storage_class<'a>(
    cluster: &'a Cluster,
    name: &str,
) -> Result<&'a Arc<StorageClass>, String> {
    cluster.storage_class(name).ok_or_else(|| not_found("storageclass.storage.k8s.io", name))
}

/// Returns the error text for a claim that has the name of a generic ephemeral volume of this pod
/// but another owner.
pub(crate) fn not_made_for(claim: &PersistentVolumeClaim, pod: &Pod) -> String {
    let PersistentVolumeClaim { namespace, name, .. } = claim;
    format!("PVC {namespace}/{name} was not created for pod {} (pod is not owner)", pod.key)
}

fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} \"{name}\" not found")
}
