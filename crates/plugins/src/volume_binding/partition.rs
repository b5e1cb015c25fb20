//! Partitions of nodes that have the same choice of volumes.

use framework::{Cluster, FreeVolumes, NodeBits, NodeIx, VolumeSetIx};

use super::affinity::retain_allowed;
use super::matching::Demand;
use super::usable_nodes::for_each_set;

/// A partition of a set of nodes. The nodes of a part can use the same free volumes of a class and
/// the same volumes reserved for the claims of a pod.
#[derive(Debug)]
pub(super) struct Partition {
    part_of: Vec<u32>,
    parts: Vec<Part>,
    splits: u32,
}

/// A part that was split off another part.
#[derive(Debug, Clone, Copy)]
struct Part {
    parent: u32,
    /// The set that the nodes of this part can use and the other nodes of its parent cannot.
    set: Option<VolumeSetIx>,
    /// The last split of this part, and the part that was split off.
    last_split: (u32, u32),
}

impl Part {
    const fn of(parent: u32, set: Option<VolumeSetIx>) -> Self {
        Self { parent, set, last_split: (0, 0) }
    }
}

/// The nodes that can use no volume of the class.
const ROOT: u32 = 0;

impl Partition {
    /// Partitions `nodes` by the free volumes of a class and by the volumes reserved for claims of
    /// the class.
    pub(super) fn of(
        nodes: &NodeBits,
        free: Option<&FreeVolumes>,
        demands: &[&Demand<'_>],
        cluster: &Cluster,
    ) -> Self {
        let mut partition = Self {
            part_of: vec![ROOT; cluster.table_len()],
            parts: vec![Part::of(ROOT, None)],
            splits: 0,
        };
        let reserved = demands.iter().flat_map(|demand| &demand.reserved);
        for selector in reserved.filter_map(|volume| volume.node_selector.as_deref()) {
            let mut allowed = nodes.clone();
            retain_allowed(Some(selector), cluster, &mut allowed);
            partition.split(None, allowed.iter());
        }
        if let Some(free) = free {
            let split = |set, nodes: &mut dyn Iterator<Item = NodeIx>| {
                partition.split(Some(set), nodes);
            };
            for_each_set(free, nodes, cluster, split);
        }
        partition
    }

    /// Splits `nodes`, which can use `set`, off all parts.
    fn split(&mut self, set: Option<VolumeSetIx>, nodes: impl Iterator<Item = NodeIx>) {
        self.splits += 1;
        for node in nodes {
            let parent = self.part_of[node.index()];
            let (split, half) = self.parts[parent as usize].last_split;
            self.part_of[node.index()] = match split == self.splits {
                true => half,
                false => self.split_off(parent, set),
            };
        }
    }

    fn split_off(&mut self, parent: u32, set: Option<VolumeSetIx>) -> u32 {
        let half = u32::try_from(self.parts.len()).expect("fewer parts than nodes and sets");
        self.parts.push(Part::of(parent, set));
        self.parts[parent as usize].last_split = (self.splits, half);
        half
    }

    /// Returns the number of parts, including empty ones.
    pub(super) const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns the part of a node of the set.
    pub(super) fn part_of(&self, node: NodeIx) -> usize {
        self.part_of[node.index()] as usize
    }

    /// Returns the sets of volumes that the nodes of a part can use. A set may repeat.
    pub(super) fn sets(&self, part: usize) -> impl Iterator<Item = VolumeSetIx> {
        let parts = std::iter::successors(Some(part), |part| {
            Some(self.parts[*part].parent as usize).filter(|_| *part != ROOT as usize)
        });
        parts.filter_map(|part| self.parts[part].set)
    }
}
