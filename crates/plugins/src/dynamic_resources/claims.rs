//! The ResourceClaims of a pod.

use std::sync::Arc;

use framework::device::ResourceClaim;
use framework::{Cluster, Pod, PodClaimSource, PodResourceClaim};

use super::tracker::TrackedClaims;

/// Returns the claims of the pod in the order of its spec, in their latest known version.
///
/// # Errors
/// Returns the reason that a claim cannot be used: it does not exist, cannot be decoded, is being
/// deleted, or was made for another pod.
pub(super) fn claims_of(
    pod: &Pod,
    cluster: &Cluster,
    tracked: &TrackedClaims,
) -> Result<Vec<Arc<ResourceClaim>>, String> {
    let mut claims = Vec::with_capacity(pod.spec.resource_claims.len());
    for entry in &pod.spec.resource_claims {
        if let Some(name) = claim_name(pod, entry)? {
            claims.push(claim(pod, entry, name, cluster, tracked)?);
        }
    }
    Ok(claims)
}

/// Returns the name of the claim for an entry of the pod; `None` if the entry needs none.
fn claim_name<'a>(pod: &'a Pod, entry: &'a PodResourceClaim) -> Result<Option<&'a str>, String> {
    match &entry.source {
        PodClaimSource::Claim(name) => Ok(Some(name)),
        PodClaimSource::Template => {
            let generated = pod.generated_claims();
            match generated.and_then(|generated| generated.claim(&entry.name)) {
                Some(name) => Ok(name.map(AsRef::as_ref)),
                None => {
                    Err(format!("pod {:?}: ResourceClaim not created yet", pod.key.to_string()))
                }
            }
        }
        PodClaimSource::Unknown => Err(format!(
            "pod {:?}, spec.resourceClaim {:?}: none of the supported fields are set",
            pod.key.to_string(),
            &*entry.name
        )),
    }
}

fn claim(
    pod: &Pod,
    entry: &PodResourceClaim,
    name: &str,
    cluster: &Cluster,
    tracked: &TrackedClaims,
) -> Result<Arc<ResourceClaim>, String> {
    let namespace = &pod.key.namespace;
    let claim = tracked.latest(namespace, name, cluster).ok_or_else(|| {
        format!("could not find ResourceClaim {:?}", format!("{namespace}/{name}"))
    })?;
    if let Some(reason) = &claim.undecodable {
        return Err(format!("resourceclaim {name:?} cannot be decoded: {reason}"));
    }
    if claim.terminating {
        return Err(format!("resourceclaim {name:?} is being deleted"));
    }
    if entry.source == PodClaimSource::Template && !claim.is_made_for(pod) {
        return Err(format!(
            "ResourceClaim {namespace}/{name} was not created for Pod {} (Pod is not owner)",
            pod.key
        ));
    }
    Ok(claim.clone())
}
