//! Matches claims with existing volumes (`FindMatchingVolume` of Kubernetes).

use std::sync::Arc;

use framework::storage::{PersistentVolume, PersistentVolumeClaim, StorageSize};
use framework::{
    Cluster, FreeVolumes, LabelSelector, NodeBits, NodeView, Status, VolumeKind, VolumeSet,
    VolumeSetIx,
};

use super::affinity::{allows, retain_allowed};
use super::assumed::AssumedObjects;
use super::claims::DelayedClaim;
use super::usable_nodes::for_each_set;

/// A claim that needs an existing volume.
#[derive(Debug)]
pub(super) struct Demand<'a> {
    pub(super) delayed: &'a DelayedClaim,
    /// The free volumes of its class.
    pub(super) free: Option<&'a FreeVolumes>,
    size: StorageSize,
    selector: Option<&'a LabelSelector>,
    /// The volumes that are reserved for the claim and fit it, by name.
    pub(super) reserved: Vec<Arc<PersistentVolume>>,
}

/// The volumes to choose from.
#[derive(Clone, Copy)]
pub(super) struct Supply<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) assumed: &'a AssumedObjects,
}

impl<'a> Demand<'a> {
    /// # Errors
    /// The selector of the claim is invalid.
    pub(super) fn of(delayed: &'a DelayedClaim, supply: Supply<'a>) -> Result<Self, Status> {
        let claim = &delayed.claim;
        let selector = claim.selector.as_ref().map(Result::as_ref).transpose();
        let selector = selector.map_err(|error| {
            let (namespace, name) = (&claim.namespace, &claim.name);
            Status::error(format!(
                "error creating internal label selector for claim: {namespace}/{name}: {error}"
            ))
        })?;
        let mut demand = Self {
            delayed,
            free: supply.cluster.free_volumes(&claim.class),
            size: claim.request.unwrap_or_default(),
            selector,
            reserved: Vec::new(),
        };
        demand.reserved = demand.reserved_in(supply);
        Ok(demand)
    }

    fn claim(&self) -> &PersistentVolumeClaim {
        &self.delayed.claim
    }

    fn reserved_in(&self, Supply { cluster, assumed }: Supply<'_>) -> Vec<Arc<PersistentVolume>> {
        let claim = self.claim();
        let stored = cluster.volumes_reserved_for(&claim.namespace, &claim.name);
        let stored = stored.filter(|volume| assumed.volumes.get(volume).is_none());
        let assumed = assumed.volumes.wanted(cluster, |volume| volume.is_for(claim));
        let volumes = stored.chain(assumed);
        let fits = |volume: &&Arc<PersistentVolume>| {
            volume.is_for(claim)
                && volume.class == claim.class
                && volume.capacity >= self.size
                && volume.volume_mode == claim.volume_mode
                && volume.attributes_class == claim.attributes_class
                && !volume.terminating
        };
        let mut reserved: Vec<_> = volumes.filter(fits).cloned().collect();
        reserved.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        reserved
    }

    /// Chooses the volume for the claim on `node`, which can use the volumes of `sets`. Skips
    /// volumes in `chosen`, which other claims of the pod have.
    ///
    /// The first volume that is reserved for the claim, if any, is the only candidate.
    fn choose(
        &'a self,
        sets: &[VolumeSetIx],
        chosen: &[Option<&Arc<PersistentVolume>>],
        node: &NodeView<'_>,
        supply: Supply<'_>,
    ) -> Option<&'a Arc<PersistentVolume>> {
        let is_left = |volume: &&Arc<PersistentVolume>| {
            chosen.iter().flatten().all(|other| !Arc::ptr_eq(other, volume))
        };
        if let Some(reserved) = self.reserved.iter().find(is_left) {
            return Some(reserved).filter(|own| allows(own.node_selector.as_deref(), node));
        }
        let free = self.free?;
        let sets = sets.iter().map(|set| free.get(*set));
        let smallest = sets.filter_map(|set| self.smallest_in(set, is_left, supply));
        smallest.min_by(|a, b| (a.capacity, &a.name).cmp(&(b.capacity, &b.name)))
    }

    /// Returns the smallest volume of a set that fits the claim and passes `is_left`.
    fn smallest_in(
        &self,
        set: &'a VolumeSet,
        is_left: impl Fn(&&Arc<PersistentVolume>) -> bool,
        supply: Supply<'_>,
    ) -> Option<&'a Arc<PersistentVolume>> {
        let is_suitable = |volume: &&Arc<PersistentVolume>| {
            is_left(volume)
                && self.selector.is_none_or(|selector| selector.matches(&volume.labels))
                && supply.assumed.volumes.get(volume).is_none()
        };
        let suits = self.suits(set.kind());
        suits.then(|| set.at_least(self.size).find(is_suitable)).flatten()
    }

    /// Returns the nodes among `nodes` that have a volume for the claim, if no other claim of the
    /// pod has its class.
    pub(super) fn nodes_with_volume(&self, nodes: &NodeBits, supply: Supply<'_>) -> NodeBits {
        if let Some(reserved) = self.reserved.first() {
            let mut allowed = nodes.clone();
            retain_allowed(reserved.node_selector.as_deref(), supply.cluster, &mut allowed);
            return allowed;
        }
        let mut found = NodeBits::with_len(supply.cluster.table_len());
        if let Some(free) = self.free {
            for_each_set(free, nodes, supply.cluster, |set, nodes| {
                if self.smallest_in(free.get(set), |_| true, supply).is_some() {
                    for node in nodes {
                        found.insert(node);
                    }
                }
            });
        }
        found
    }

    /// Whether free volumes of this kind fit the claim, apart from labels and size.
    fn suits(&self, kind: &VolumeKind) -> bool {
        let claim = self.claim();
        kind.volume_mode == claim.volume_mode
            && kind.attributes_class == claim.attributes_class
            && claim.access_modes.iter().all(|mode| kind.access_modes.contains(mode))
    }
}

/// Adds a volume for each of `demands`, all of one class, to `volumes`. `node` can use the volumes
/// of `sets`.
///
/// The smallest claims come first and get the smallest volumes.
pub(super) fn match_volumes<'a>(
    demands: &[&'a Demand<'a>],
    sets: &[VolumeSetIx],
    node: &NodeView<'_>,
    supply: Supply<'_>,
    volumes: &mut Vec<Option<&'a Arc<PersistentVolume>>>,
) {
    volumes.clear();
    for demand in demands {
        volumes.push(demand.choose(sets, volumes, node, supply));
    }
}

/// Returns the claims that need an existing volume, the smallest first.
///
/// # Errors
/// Returns an error if the selector of a claim is invalid.
pub(super) fn demands<'a>(
    claims: impl Iterator<Item = &'a DelayedClaim>,
    supply: Supply<'a>,
) -> Result<Vec<Demand<'a>>, Status> {
    let mut claims: Vec<_> = claims.collect();
    claims.sort_by_key(|delayed| delayed.claim.request.unwrap_or_default());
    claims.into_iter().map(|delayed| Demand::of(delayed, supply)).collect()
}

/// Returns the sets of free volumes that the node can use. A set may repeat.
pub(super) fn sets_on(free: &FreeVolumes, node: &NodeView<'_>) -> Vec<VolumeSetIx> {
    let topology = |key| node.cluster().topology_at(key);
    let candidates = free.candidates(|key| topology(key).domain_of(node.ix()));
    candidates.filter(|set| allows(free.get(*set).node_selector(), node)).collect()
}
