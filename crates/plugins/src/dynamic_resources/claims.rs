//! The ResourceClaims of a pod, and whom they are reserved for.
//!
//! A pod shares a claim of its PodGroup by an entry that is equal to one of the group: the same
//! name, and the same claim or template. The shared claim is reserved for the group. If it is made
//! from a template, the status of the pod names it, like a claim of the pod itself.

use std::sync::Arc;

use framework::device::{ClaimConsumer, ResourceClaim};
use framework::{
    Cluster, Pod, PodClaimSource, PodGroup, PodGroupKey, PodGroupSource, PodResourceClaim,
};

use super::tracker::TrackedClaims;

/// Finds the PodGroups whose claims pods share.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupClaims {
    /// The gate DRAWorkloadResourceClaims.
    pub(super) are_shared: bool,
}

impl GroupClaims {
    /// Returns the PodGroup of a pod, if its pods share claims.
    fn group_of<'a>(
        self,
        pod: &Pod,
        cluster: &'a Cluster,
    ) -> Option<(PodGroupKey, &'a Arc<PodGroup>)> {
        let found = cluster.pod_group_of(pod).filter(|_| self.are_shared)?;
        (found.0.source == PodGroupSource::Kubernetes).then_some(found)
    }

    /// Returns whom a claim of the pod is reserved for: its PodGroup or the pod itself.
    pub(super) fn user_of(
        self,
        claim: &ResourceClaim,
        pod: &Pod,
        cluster: &Cluster,
    ) -> ClaimConsumer {
        let Some((key, group)) = self.group_of(pod, cluster) else {
            return ClaimConsumer::pod(pod);
        };
        let names = |entry: &&PodResourceClaim| match &entry.source {
            PodClaimSource::Claim(name) => *name == claim.name,
            _ => false,
        };
        let mut named = pod.spec.resource_claims.iter().filter(names);
        match claim.is_made_for_group(group) || named.any(|entry| group.claims.contains(entry)) {
            true => ClaimConsumer::pod_group(&key.name, group),
            false => ClaimConsumer::pod(pod),
        }
    }
}

/// Returns the claims of the pod in the order of its spec, in their latest known version.
///
/// # Errors
/// Returns the reason that a claim cannot be used: it does not exist, cannot be decoded, is being
/// deleted, or was made for another pod.
pub(super) fn claims_of(
    pod: &Pod,
    cluster: &Cluster,
    tracked: &TrackedClaims,
    groups: GroupClaims,
) -> Result<Vec<Arc<ResourceClaim>>, String> {
    let mut claims = Vec::with_capacity(pod.spec.resource_claims.len());
    for entry in &pod.spec.resource_claims {
        if let Some(name) = claim_name(pod, entry)? {
            let claim = usable_claim(pod, name, cluster, tracked)?;
            if entry.source == PodClaimSource::Template {
                check_owner(&claim, pod, groups.group_of(pod, cluster))?;
            }
            claims.push(claim);
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

fn usable_claim(
    pod: &Pod,
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
    Ok(claim.clone())
}

/// Checks that a claim from a template was made for the pod or its PodGroup.
fn check_owner(
    claim: &ResourceClaim,
    pod: &Pod,
    group: Option<(PodGroupKey, &Arc<PodGroup>)>,
) -> Result<(), String> {
    if claim.is_made_for(pod) {
        return Ok(());
    }
    let (owner, fault) = match group {
        Some((_, group)) if claim.is_made_for_group(group) => return Ok(()),
        Some((key, _)) => (format!(" or PodGroup {key}"), "neither Pod nor PodGroup is the owner"),
        None => (String::new(), "Pod is not owner"),
    };
    let ResourceClaim { namespace, name, .. } = claim;
    Err(format!(
        "ResourceClaim {namespace}/{name} was not created for Pod {}{owner} ({fault})",
        pod.key
    ))
}
