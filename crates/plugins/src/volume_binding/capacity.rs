//! Where a volume can be made: the topologies its class allows, and the room CSI drivers report.

use std::sync::Arc;

use framework::storage::{CsiStorageCapacity, StorageClass, StorageSize};
use framework::{Cluster, NodeBits, NodeView};

use super::claims::DelayedClaim;
use crate::node_sets::{retain_any_term, union_labelled};

/// Whether a volume can be made for the claim on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provisioning {
    /// Nobody makes volumes of the class, or not there.
    Impossible,
    /// There is not enough room.
    NoRoom,
    /// It can be made; how much room there is, where that is known and counts.
    Possible(Option<StorageSize>),
}

impl Provisioning {
    /// Whether a volume can be made for the claim on the node.
    pub(super) fn of(delayed: &DelayedClaim, node: &NodeView<'_>) -> Self {
        let DelayedClaim { class, .. } = delayed;
        if !class.provisions() || !class.allowed_topologies.matches_by(|key| node.label(key)) {
            return Self::Impossible;
        }
        let Some(size) = size_to_check(delayed, node.cluster()) else {
            return Self::Possible(None);
        };
        let found = sufficient(class, size, node.cluster()).find(|capacity| {
            let Some(Ok(topology)) = &capacity.node_topology else { return false };
            topology.matches_by(|key| node.label(key))
        });
        found.map_or(Self::NoRoom, |capacity| {
            Self::Possible(Some(capacity.capacity.unwrap_or_default()))
        })
    }
}

/// Where there is room for volumes; each answer is worked out once.
pub(super) struct Room<'a> {
    cluster: &'a Cluster,
    /// The nodes with room for a volume of a class and size.
    known: Vec<(Arc<str>, i64, NodeBits)>,
}

impl<'a> Room<'a> {
    pub(super) const fn in_cluster(cluster: &'a Cluster) -> Self {
        Self { cluster, known: Vec::new() }
    }

    /// Keeps in `nodes` those on which volumes of the class are made.
    pub(super) fn retain_allowed_topologies(&self, class: &StorageClass, nodes: &mut NodeBits) {
        match class.allowed_topologies.terms() {
            _ if !class.provisions() => nodes.clear(),
            Some(terms) => retain_any_term(terms.iter().map(|term| &**term), self.cluster, nodes),
            None => {}
        }
    }

    /// Keeps in `nodes` those for which there is room for the volume of the claim.
    pub(super) fn retain_sufficient(&mut self, delayed: &DelayedClaim, nodes: &mut NodeBits) {
        if nodes.is_empty() {
            return;
        }
        if let Some(size) = size_to_check(delayed, self.cluster) {
            nodes.intersect(self.sufficient(&delayed.class, size));
        }
    }

    fn sufficient(&mut self, class: &StorageClass, size: i64) -> &NodeBits {
        let is_known =
            |(name, known, _): &(Arc<str>, i64, NodeBits)| *name == class.name && *known == size;
        let place = self.known.iter().position(is_known).unwrap_or_else(|| {
            let mut nodes = NodeBits::with_len(self.cluster.table_len());
            for capacity in sufficient(class, size, self.cluster) {
                if let Some(Ok(topology)) = &capacity.node_topology {
                    union_labelled(topology, self.cluster, &mut nodes);
                }
            }
            self.known.push((class.name.clone(), size, nodes));
            self.known.len() - 1
        });
        &self.known[place].2
    }
}

/// The size of the volume to be made, in bytes, where the driver reports how much room there is.
fn size_to_check(delayed: &DelayedClaim, cluster: &Cluster) -> Option<i64> {
    let size = delayed.claim.request?;
    let driver = cluster.csi_driver(&delayed.class.provisioner)?;
    driver.storage_capacity.then(|| size.to_bytes())
}

/// What drivers report of room that a volume of this size fits into. Each claim is looked at alone:
/// nothing is taken off for others.
fn sufficient<'a>(
    class: &StorageClass,
    size: i64,
    cluster: &'a Cluster,
) -> impl Iterator<Item = &'a CsiStorageCapacity> {
    // A limit counts as whole bytes, rounded up.
    let too_small = StorageSize::bytes(size.saturating_sub(1));
    let capacities = cluster.storage_capacities(&class.name);
    capacities.filter(move |own| own.limit.is_some_and(|limit| limit > too_small))
}
