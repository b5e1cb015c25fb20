//! Where volumes can be provisioned: the allowed topologies of a class, and the storage capacity
//! that CSI drivers report.

use std::sync::Arc;

use framework::storage::{CsiStorageCapacity, StorageClass, StorageSize};
use framework::{Cluster, NodeBits, NodeView};

use super::claims::DelayedClaim;
use crate::node_sets::{retain_any_term, union_labelled};

/// Whether a volume can be provisioned for a claim on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provisioning {
    /// The class has no provisioner, or its topologies exclude the node.
    Impossible,
    /// The reported capacity is too small.
    NoRoom,
    /// Provisioning is possible. Has the capacity if the driver reports it and it must be checked.
    Possible(Option<StorageSize>),
}

impl Provisioning {
    /// Determines whether a volume can be provisioned for the claim on the node.
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

/// The nodes with enough capacity. Each result is computed once.
pub(super) struct Room<'a> {
    cluster: &'a Cluster,
    /// The nodes with enough capacity, by class and size.
    known: Vec<(Arc<str>, i64, NodeBits)>,
}

impl<'a> Room<'a> {
    pub(super) const fn in_cluster(cluster: &'a Cluster) -> Self {
        Self { cluster, known: Vec::new() }
    }

    /// Retains the nodes that the topologies of the class allow.
    pub(super) fn retain_allowed_topologies(&self, class: &StorageClass, nodes: &mut NodeBits) {
        match class.allowed_topologies.terms() {
            _ if !class.provisions() => nodes.clear(),
            Some(terms) => retain_any_term(terms.iter().map(|term| &**term), self.cluster, nodes),
            None => {}
        }
    }

    /// Retains the nodes with enough capacity for the claim.
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

/// Returns the requested size in bytes if the driver reports its capacity.
fn size_to_check(delayed: &DelayedClaim, cluster: &Cluster) -> Option<i64> {
    let size = delayed.claim.request?;
    let driver = cluster.csi_driver(&delayed.class.provisioner)?;
    driver.storage_capacity.then(|| size.to_bytes())
}

/// Returns the reported capacities that fit a volume of this size. Each claim is checked alone; the
/// sizes of other claims are not subtracted.
fn sufficient<'a>(
    class: &StorageClass,
    size: i64,
    cluster: &'a Cluster,
) -> impl Iterator<Item = &'a CsiStorageCapacity> {
    // A capacity counts in whole bytes, rounded up.
    let too_small = StorageSize::bytes(size.saturating_sub(1));
    let capacities = cluster.storage_capacities(&class.name);
    capacities.filter(move |own| own.limit.is_some_and(|limit| limit > too_small))
}
