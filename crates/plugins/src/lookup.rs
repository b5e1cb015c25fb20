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
    let claim = cluster.claim(namespace, name);
    claim.ok_or_else(|| not_found("persistentvolumeclaim", name))
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

/// Whether a claim made for a generic ephemeral volume was made for this pod.
///
/// # Errors
/// It was not.
pub(crate) fn check_made_for(claim: &PersistentVolumeClaim, pod: &Pod) -> Result<(), String> {
    match claim.controller.as_ref() == Some(&pod.uid) {
        true => Ok(()),
        false => Err(format!(
            "PVC {}/{} was not created for pod {} (pod is not owner)",
            claim.namespace, claim.name, pod.key
        )),
    }
}

fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} \"{name}\" not found")
}
