//! Claims that a pod owns, when its controller makes the pod again.
//!
//! In a cluster, the claims end with the pod, and controllers make new ones from the templates in
//! the object of the pod. Where only the compact form of the pod is known, the new claims are the
//! old ones without what they were bound to.

use framework::{EventResource, Pod, PodClaimSource, PodVolumeSource, Uid};
use serde_json::{Value, json};

use crate::workloads::template::put;

/// The annotations that the volume controller and the scheduler write.
const BOUND: [&str; 3] = [
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
];

/// Returns kind and name of the claims that the pod owns.
pub(crate) fn owned_claims(pod: &Pod) -> Vec<(EventResource, String)> {
    let volumes = pod.spec.volumes.iter();
    let volumes = volumes.filter(|volume| volume.source == PodVolumeSource::Ephemeral);
    let volumes = volumes.filter_map(|volume| {
        let name = volume.claim_name(&pod.key.name)?.into_owned();
        Some((EventResource::PersistentVolumeClaim, name))
    });
    let entries = pod.spec.resource_claims.iter();
    let entries = entries.filter(|entry| entry.source == PodClaimSource::Template);
    let devices = entries.filter_map(|entry| {
        let made = pod.generated_claims()?.claim(&entry.name)??;
        Some((EventResource::ResourceClaim, made.to_string()))
    });
    volumes.chain(devices).collect()
}

/// Whether a PodGroup controls a claim, which its pods share.
pub(crate) fn is_of_group(claim: &Value) -> bool {
    let mut owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["controller"] == true && owner["kind"] == "PodGroup")
}

/// Returns the claim that a controller makes for the next pod of the name.
pub(crate) fn renewed(kind: &EventResource, claim: &Value, owner: &Uid) -> Value {
    let mut claim = claim.clone();
    for reference in claim["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
        if reference["controller"] == true {
            reference["uid"] = json!(owner.to_string());
        }
    }
    let uid = format!("{}-again", claim["metadata"]["uid"].as_str().unwrap_or_default());
    put(&mut claim, &["metadata", "uid"], json!(uid));
    if let Some(fields) = claim.as_object_mut() {
        fields.remove("status");
    }
    if *kind == EventResource::PersistentVolumeClaim {
        if let Some(annotations) = claim["metadata"]["annotations"].as_object_mut() {
            annotations.retain(|key, _| !BOUND.contains(&key.as_str()));
        }
        if let Some(spec) = claim["spec"].as_object_mut() {
            spec.remove("volumeName");
        }
    }
    claim
}
