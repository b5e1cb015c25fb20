//! Where a volume can be made: the topologies its class allows, and the room CSI drivers report.

use framework::storage::{CsiStorageCapacity, StorageClass, StorageSize};
use framework::{Cluster, NodeBits, NodeView};

use super::claims::DelayedClaim;
use crate::node_sets::{retain_any_term, retain_labelled};

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

/// Keeps in `nodes` those on which volumes of the class are made.
pub(super) fn retain_allowed_topologies(
    class: &StorageClass,
    cluster: &Cluster,
    nodes: &mut NodeBits,
) {
    match class.allowed_topologies.terms() {
        _ if !class.provisions() => nodes.clear(),
        Some(terms) => retain_any_term(terms.iter().map(|term| &**term), cluster, nodes),
        None => {}
    }
}

/// Keeps in `nodes` those for which there is room for a volume.
pub(super) fn retain_with_room(delayed: &DelayedClaim, cluster: &Cluster, nodes: &mut NodeBits) {
    let Some(size) = size_to_check(delayed, cluster) else { return };
    let (mut left, mut served) = (nodes.clone(), NodeBits::with_len(cluster.table_len()));
    let mut reached = NodeBits::default();
    for capacity in sufficient(&delayed.class, size, cluster) {
        if let Some(Ok(topology)) = &capacity.node_topology {
            reached.copy_from(&left);
            retain_labelled(topology, cluster, &mut reached);
            left.subtract(&reached);
            served.union(&reached);
        }
        if left.is_empty() {
            break;
        }
    }
    nodes.intersect(&served);
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
    let capacities = cluster.storage_capacities(&class.name);
    capacities.filter(move |own| own.limit.is_some_and(|limit| limit.to_bytes() >= size))
}
