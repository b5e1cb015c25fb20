//! Looking up storage objects. What is missing is told in the words of the listers of Kubernetes.

use std::sync::Arc;

use framework::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use framework::{Cluster, Pod};

/// The claim of this name.
///
/// # Errors
/// It is missing.
pub(crate) fn claim<'a>(
    cluster: &'a Cluster,
    namespace: &str,
    name: &str,
) -> Result<&'a Arc<PersistentVolumeClaim>, String> {
    cluster.claim(namespace, name).ok_or_else(|| no_claim(name))
}

/// There is no claim of this name.
pub(crate) fn no_claim(name: &str) -> String {
    not_found("persistentvolumeclaim", name)
}

/// The volume of this name.
///
/// # Errors
/// It is missing.
pub(crate) fn volume<'a>(
    cluster: &'a Cluster,
    name: &str,
) -> Result<&'a Arc<PersistentVolume>, String> {
    cluster.volume(name).ok_or_else(|| not_found("persistentvolume", name))
}

/// The class of this name.
///
/// # Errors
/// It is missing.
pub(crate) fn storage_class<'a>(
    cluster: &'a Cluster,
    name: &str,
) -> Result<&'a Arc<StorageClass>, String> {
    cluster.storage_class(name).ok_or_else(|| not_found("storageclass.storage.k8s.io", name))
}

/// A claim was to be made for a generic ephemeral volume of this pod, but was made for something
/// else.
pub(crate) fn not_made_for(claim: &PersistentVolumeClaim, pod: &Pod) -> String {
    let PersistentVolumeClaim { namespace, name, .. } = claim;
    format!("PVC {namespace}/{name} was not created for pod {} (pod is not owner)", pod.key)
}

fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} \"{name}\" not found")
}
