//! The claims of a pod, classified by how they get their volumes (`GetPodVolumeClaims` of
//! Kubernetes).

use std::sync::Arc;

use framework::storage::{PersistentVolumeClaim, StorageClass};
use framework::{Cluster, Pod, PodVolume, PodVolumeSource, Status};

use super::assumed::AssumedObjects;
use crate::lookup;

const UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

/// The claims of a pod that Filter can handle.
#[derive(Debug, Default)]
pub(super) struct PodVolumeClaims {
    /// Claims that are bound.
    pub(super) bound: Vec<Arc<PersistentVolumeClaim>>,
    /// Claims with delayed binding that are not bound.
    pub(super) delayed: Vec<DelayedClaim>,
}

/// A claim with delayed binding: it gets its volume after the pod has a node.
#[derive(Debug, Clone)]
pub(super) struct DelayedClaim {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    pub(super) class: Arc<StorageClass>,
}

/// The class of a claim.
enum Sorted {
    Bound,
    Delayed(Arc<StorageClass>),
    Immediate,
}

impl PodVolumeClaims {
    /// Classifies the claims of the pod; `None` if it has none.
    ///
    /// # Errors
    /// Returns the status that rejects the pod.
    pub(super) fn of(
        pod: &Pod,
        cluster: &Cluster,
        assumed: &AssumedObjects,
    ) -> Result<Option<Self>, Status> {
        let stored = stored_claims(pod, cluster)?;
        if stored.is_empty() {
            return Ok(None);
        }
        let (mut claims, mut immediate) = (Self::default(), false);
        for claim in stored.into_iter().map(|claim| assumed.claims.latest(claim)) {
            match sort(&claim, cluster)? {
                Sorted::Bound => claims.bound.push(claim.clone()),
                Sorted::Delayed(class) => {
                    claims.delayed.push(DelayedClaim { claim: claim.clone(), class });
                }
                Sorted::Immediate => immediate = true,
            }
        }
        if immediate {
            return Err(Status::unresolvable(UNBOUND_IMMEDIATE));
        }
        claims.check_sizes()?;
        Ok(Some(claims))
    }

    /// Checks the requested sizes. The API server admits no claim whose size does not parse.
    fn check_sizes(&self) -> Result<(), Status> {
        for DelayedClaim { claim, .. } in &self.delayed {
            if let Some(problem) = &claim.problem {
                let name = &claim.name;
                let text = format!("persistentvolumeclaim {name:?} cannot be read: {problem}");
                return Err(Status::unresolvable(text));
            }
        }
        Ok(())
    }
}

/// Returns the stored claims of the pod, in the order of its volumes.
fn stored_claims<'a>(
    pod: &Pod,
    cluster: &'a Cluster,
) -> Result<Vec<&'a Arc<PersistentVolumeClaim>>, Status> {
    let mut claims = Vec::new();
    for volume in &pod.spec.volumes {
        if let Some(name) = volume.claim_name(&pod.key.name) {
            let claim = stored_claim(pod, volume, &name, cluster).map_err(Status::unresolvable)?;
            claims.push(claim);
        }
    }
    Ok(claims)
}

fn stored_claim<'a>(
    pod: &Pod,
    volume: &PodVolume,
    name: &str,
    cluster: &'a Cluster,
) -> Result<&'a Arc<PersistentVolumeClaim>, String> {
    let ephemeral = volume.source == PodVolumeSource::Ephemeral;
    let claim = lookup::claim(cluster, &pod.key.namespace, name);
    let claim = claim.map_err(|missing| match ephemeral {
        true => format!(
            "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
        ),
        false => missing,
    })?;
    if claim.lost {
        let volume = claim.volume_name.as_deref().unwrap_or_default();
        return Err(format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        ));
    }
    if claim.terminating {
        return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
    }
    if ephemeral && !claim.is_made_for(pod) {
        return Err(lookup::not_made_for(claim, pod));
    }
    Ok(claim)
}

/// Classifies a claim. A claim that names a volume but is not bound to it counts as immediate,
/// whatever its class.
fn sort(claim: &PersistentVolumeClaim, cluster: &Cluster) -> Result<Sorted, Status> {
    if claim.is_fully_bound() {
        return Ok(Sorted::Bound);
    }
    let Some(class) = cluster.storage_class(&claim.class) else {
        return Ok(Sorted::Immediate);
    };
    if class.binding_mode.is_none() {
        let name = &class.name;
        let text = format!("VolumeBindingMode not set for StorageClass {name:?}");
        return Err(Status::error(text));
    }
    match class.waits_for_first_consumer() && claim.volume_name.is_none() {
        true => Ok(Sorted::Delayed(class.clone())),
        false => Ok(Sorted::Immediate),
    }
}
