//! The set form of `find`: finds the nodes that cannot have the volumes of a pod from indexes of
//! nodes and volumes.

use std::sync::Arc;

use framework::storage::PersistentVolumeClaim;
use framework::{Cluster, NodeBits, Status, Verdicts};

use super::affinity::retain_allowed_translated;
use super::assumed::AssumedObjects;
use super::capacity::Room;
use super::claims::{DelayedClaim, PodVolumeClaims};
use super::find::{ConflictReason, by_class, volume_of};
use super::matching::{Demand, Supply, demands, match_volumes};
use super::partition::Partition;
use crate::node_sets::retain_only;

/// Sets of nodes by conflict reason. A node may be in one of the first two sets and in one of the
/// others.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    node: NodeBits,
    missing: NodeBits,
    bind: NodeBits,
    space: NodeBits,
}

impl Conflicts {
    /// Determines which of `nodes` cannot have the volumes.
    ///
    /// # Errors
    /// Returns the status of the pod if a claim or a volume is invalid.
    pub(super) fn of(
        claims: &PodVolumeClaims,
        nodes: &NodeBits,
        cluster: &Cluster,
        assumed: &AssumedObjects,
    ) -> Result<Self, Status> {
        let mut conflicts = Self::default();
        conflicts.check_bound_claims(&claims.bound, nodes, cluster)?;
        if !claims.delayed.is_empty() {
            let supply = Supply { cluster, assumed };
            conflicts.check_delayed_claims(&claims.delayed, nodes, supply)?;
        }
        Ok(conflicts)
    }

    fn check_bound_claims(
        &mut self,
        claims: &[Arc<PersistentVolumeClaim>],
        nodes: &NodeBits,
        cluster: &Cluster,
    ) -> Result<(), Status> {
        let mut left = nodes.clone();
        for claim in claims {
            let Some(volume) = volume_of(claim, cluster) else {
                self.missing = left;
                return Ok(());
            };
            let mut allowed = left.clone();
            retain_allowed_translated(volume, cluster, &mut allowed).map_err(Status::error)?;
            left.subtract(&allowed);
            self.node.union(&left);
            left = allowed;
        }
        Ok(())
    }

    fn check_delayed_claims(
        &mut self,
        claims: &[DelayedClaim],
        nodes: &NodeBits,
        supply: Supply<'_>,
    ) -> Result<(), Status> {
        let (selected, to_match): (Vec<_>, Vec<_>) =
            claims.iter().partition(|delayed| delayed.claim.selected_node.is_some());
        let mut left = nodes.clone();
        for selected in selected.iter().filter_map(|own| own.claim.selected_node.as_deref()) {
            retain_only(supply.cluster.node_named(selected), &mut left);
        }
        self.bind.copy_from(nodes);
        self.bind.subtract(&left);
        if left.is_empty() {
            return Ok(());
        }
        let demands = demands(to_match.into_iter(), supply)?;
        let unmatched = unmatched(&demands, &left, supply);
        let mut room = Room::in_cluster(supply.cluster);
        for delayed in selected {
            let wanted = left.clone();
            self.provision(delayed, wanted, &mut left, &mut room);
        }
        for (demand, mut wanted) in demands.iter().zip(unmatched) {
            wanted.intersect(&left);
            self.provision(demand.delayed, wanted, &mut left, &mut room);
        }
        Ok(())
    }

    /// Checks the provisioning of a claim on the nodes of `wanted`. Removes the nodes where it is
    /// impossible from `left`.
    fn provision(
        &mut self,
        delayed: &DelayedClaim,
        wanted: NodeBits,
        left: &mut NodeBits,
        room: &mut Room<'_>,
    ) {
        let (mut impossible, mut possible) = (wanted.clone(), wanted);
        room.retain_allowed_topologies(&delayed.class, &mut possible);
        impossible.subtract(&possible);
        let mut full = possible.clone();
        room.retain_sufficient(delayed, &mut possible);
        full.subtract(&possible);
        for (found, reason) in [(impossible, &mut self.bind), (full, &mut self.space)] {
            reason.union(&found);
            left.subtract(&found);
        }
    }

    /// Removes the nodes with conflicts from `nodes`.
    pub(super) fn remove_from(&self, nodes: &mut NodeBits) {
        for found in [&self.node, &self.missing, &self.bind, &self.space] {
            nodes.subtract(found);
        }
    }

    /// Records the conflicts of every node.
    pub(super) fn record(&self, verdicts: &mut Verdicts) {
        use ConflictReason::{BindConflict, NodeConflict, NotEnoughSpace, VolumeMissing};
        let bound = [(&self.node, NodeConflict), (&self.missing, VolumeMissing)];
        let delayed = [(&self.bind, BindConflict), (&self.space, NotEnoughSpace)];
        for (nodes, reason) in bound.into_iter().chain(delayed) {
            verdicts.record_all(nodes, ConflictReason::status(vec![reason]));
        }
        for (nodes, reason) in bound {
            for (others, other) in delayed {
                let mut both = nodes.clone();
                both.intersect(others);
                verdicts.record_all(&both, ConflictReason::status(vec![reason, other]));
            }
        }
    }
}

/// Returns for each of `demands` the nodes among `nodes` that have no volume for it.
fn unmatched(demands: &[Demand<'_>], nodes: &NodeBits, supply: Supply<'_>) -> Vec<NodeBits> {
    let mut unmatched = vec![NodeBits::with_len(supply.cluster.table_len()); demands.len()];
    for places in by_class(demands) {
        match places[..] {
            [place] => {
                unmatched[place].copy_from(nodes);
                unmatched[place].subtract(&demands[place].nodes_with_volume(nodes, supply));
            }
            _ => match_class(demands, &places, nodes, supply, &mut unmatched),
        }
    }
    unmatched
}

/// Adds the unmatched nodes of the demands at `places` to `unmatched`. These demands have the same
/// class and compete for its volumes.
fn match_class(
    demands: &[Demand<'_>],
    places: &[usize],
    nodes: &NodeBits,
    supply: Supply<'_>,
    unmatched: &mut [NodeBits],
) {
    let own: Vec<_> = places.iter().map(|place| &demands[*place]).collect();
    let partition = Partition::of(nodes, own[0].free, &own, supply.cluster);
    // All nodes of a part have the same result, so one node of each part is checked.
    let mut known = vec![None; partition.len()];
    let (mut matched, mut sets, mut volumes) = (Vec::new(), Vec::new(), Vec::new());
    for node in nodes.iter() {
        let part = partition.part_of(node);
        let start = *known[part].get_or_insert_with(|| {
            sets.clear();
            sets.extend(partition.sets(part));
            let view = supply.cluster.node(node);
            match_volumes(&own, &sets, &view, supply, &mut volumes);
            matched.extend(volumes.iter().map(Option::is_some));
            matched.len() - places.len()
        });
        for (place, matched) in places.iter().zip(&matched[start..]) {
            if !*matched {
                unmatched[*place].insert(node);
            }
        }
    }
}
