//! Finds the volumes of a pod on one node (`FindPodVolumes` of Kubernetes).

use std::sync::Arc;

use framework::storage::{PersistentVolume, PersistentVolumeClaim, StorageSize};
use framework::{Cluster, Code, NodeView, Status};

use super::affinity::allows_translated;
use super::assumed::AssumedObjects;
use super::capacity::Provisioning;
use super::claims::{DelayedClaim, PodVolumeClaims};
use super::matching::{Demand, Supply, demands, match_volumes, sets_on};

/// The reasons a node cannot have the volumes of a pod, in the order of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConflictReason {
    /// A bound volume cannot be used on the node.
    NodeConflict,
    /// An unbound claim has no matching volume, and none can be provisioned.
    BindConflict,
    /// The storage capacity is too small to provision a volume.
    NotEnoughSpace,
    /// A claim is bound to a volume that does not exist.
    VolumeMissing,
}

impl ConflictReason {
    const fn text(self) -> &'static str {
        match self {
            Self::NodeConflict => "node(s) didn't match PersistentVolume's node affinity",
            Self::BindConflict => "node(s) didn't find available persistent volumes to bind",
            Self::NotEnoughSpace => "node(s) did not have enough free storage",
            Self::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
        }
    }

    /// Returns the status of a node with these reasons.
    pub(super) fn status(mut reasons: Vec<Self>) -> Status {
        reasons.sort_unstable();
        let texts = reasons.into_iter().map(|reason| reason.text().into()).collect();
        Status::with_reasons(Code::UnschedulableAndUnresolvable, texts)
    }
}

/// The volumes for the claims of a pod on a node.
#[derive(Debug, Default)]
pub(super) struct PodVolumes {
    /// Existing volumes and their claims.
    pub(super) static_bindings: Vec<StaticBinding>,
    /// Claims whose volumes are provisioned.
    pub(super) dynamic_provisions: Vec<DynamicProvision>,
}

/// An existing volume for a claim.
#[derive(Debug)]
pub(super) struct StaticBinding {
    pub(super) volume: Arc<PersistentVolume>,
    pub(super) claim: Arc<PersistentVolumeClaim>,
}

/// A claim whose volume is provisioned.
#[derive(Debug)]
pub(super) struct DynamicProvision {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    /// The capacity of the storage, if the driver reports it.
    pub(super) capacity: Option<StorageSize>,
}

/// Finds the volumes of a pod on a node, or the reasons the node cannot have them.
///
/// # Errors
/// Returns the status of the pod if a claim or a volume is invalid.
pub(super) fn find_pod_volumes(
    claims: &PodVolumeClaims,
    node: &NodeView<'_>,
    assumed: &AssumedObjects,
) -> Result<Result<PodVolumes, Vec<ConflictReason>>, Status> {
    let conflict = check_bound_claims(&claims.bound, node)?;
    let supply = Supply { cluster: node.cluster(), assumed };
    Ok(match (conflict, find_for_delayed(&claims.delayed, node, supply)?) {
        (None, Ok(volumes)) => Ok(volumes),
        (conflict, unbound) => Err(conflict.into_iter().chain(unbound.err()).collect()),
    })
}

/// Checks the bound claims up to the first one whose volume is missing or cannot be used on the
/// node.
fn check_bound_claims(
    claims: &[Arc<PersistentVolumeClaim>],
    node: &NodeView<'_>,
) -> Result<Option<ConflictReason>, Status> {
    for claim in claims {
        let Some(volume) = volume_of(claim, node.cluster()) else {
            return Ok(Some(ConflictReason::VolumeMissing));
        };
        if !allows_translated(volume, node).map_err(Status::error)? {
            return Ok(Some(ConflictReason::NodeConflict));
        }
    }
    Ok(None)
}

/// Returns the volume that the claim is bound to. Reads no assumed version, because no assumed
/// change affects the nodes.
pub(super) fn volume_of<'a>(
    claim: &PersistentVolumeClaim,
    cluster: &'a Cluster,
) -> Option<&'a Arc<PersistentVolume>> {
    cluster.volume(claim.volume_name.as_deref()?)
}

/// Finds volumes for unbound claims: existing volumes first, otherwise provisioned ones.
fn find_for_delayed(
    claims: &[DelayedClaim],
    node: &NodeView<'_>,
    supply: Supply<'_>,
) -> Result<Result<PodVolumes, ConflictReason>, Status> {
    let (mut to_provision, to_match): (Vec<_>, Vec<_>) =
        claims.iter().partition(|delayed| delayed.claim.selected_node.is_some());
    let is_here =
        |delayed: &&DelayedClaim| delayed.claim.selected_node.as_ref() == Some(node.name());
    if !to_provision.iter().all(is_here) {
        return Ok(Err(ConflictReason::BindConflict));
    }
    let mut volumes = PodVolumes::default();
    let demands = demands(to_match.into_iter(), supply)?;
    for (demand, volume) in demands.iter().zip(match_on_node(&demands, node, supply)) {
        match volume {
            Some(volume) => {
                let claim = demand.delayed.claim.clone();
                volumes.static_bindings.push(StaticBinding { volume, claim });
            }
            None => to_provision.push(demand.delayed),
        }
    }
    Ok(provision(&to_provision, node).map(|provisions| {
        volumes.dynamic_provisions = provisions;
        volumes
    }))
}

/// Checks provisioning up to the first claim that cannot be provisioned on the node.
fn provision(
    claims: &[&DelayedClaim],
    node: &NodeView<'_>,
) -> Result<Vec<DynamicProvision>, ConflictReason> {
    let provision = |delayed: &&DelayedClaim| match Provisioning::of(delayed, node) {
        Provisioning::Possible(capacity) => {
            Ok(DynamicProvision { claim: delayed.claim.clone(), capacity })
        }
        Provisioning::Impossible => Err(ConflictReason::BindConflict),
        Provisioning::NoRoom => Err(ConflictReason::NotEnoughSpace),
    };
    claims.iter().map(provision).collect()
}

/// Finds a volume for each of `demands`, which may have several classes.
fn match_on_node(
    demands: &[Demand<'_>],
    node: &NodeView<'_>,
    supply: Supply<'_>,
) -> Vec<Option<Arc<PersistentVolume>>> {
    let mut volumes = vec![None; demands.len()];
    for places in by_class(demands) {
        let own: Vec<_> = places.iter().map(|place| &demands[*place]).collect();
        let sets = own[0].free.map(|free| sets_on(free, node)).unwrap_or_default();
        let mut matched = Vec::new();
        match_volumes(&own, &sets, node, supply, &mut matched);
        for (place, volume) in places.into_iter().zip(matched) {
            volumes[place] = volume.cloned();
        }
    }
    volumes
}

/// Sorts the indexes of the demands by class. A volume fits only claims of its class.
pub(super) fn by_class(demands: &[Demand<'_>]) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for (place, demand) in demands.iter().enumerate() {
        let same = |places: &&mut Vec<usize>| {
            demands[places[0]].delayed.class.name == demand.delayed.class.name
        };
        match classes.iter_mut().find(same) {
            Some(places) => places.push(place),
            None => classes.push(vec![place]),
        }
    }
    classes
}
