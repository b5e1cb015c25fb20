//! Nodes that volumes do not tell apart.

use framework::{Cluster, FreeVolumes, NodeBits, NodeIx, VolumeGroupIx};

use super::affinity::retain_allowed;
use super::group_nodes::for_each_group;
use super::matching::Demand;

/// The nodes of a set, divided into parts: the nodes of a part can have the same free volumes of a
/// class, and the same volumes that are reserved for the claims of a pod.
#[derive(Debug)]
pub(super) struct Partition {
    part_of: Vec<u32>,
    parts: Vec<Part>,
    splits: u32,
}

/// A part, which was split off another.
#[derive(Debug, Clone, Copy)]
struct Part {
    parent: u32,
    /// What its nodes can have and the others of its parent cannot.
    group: Option<VolumeGroupIx>,
    /// The last split that this part was subject to, and the part that it split off.
    last_split: (u32, u32),
}

impl Part {
    const fn of(parent: u32, group: Option<VolumeGroupIx>) -> Self {
        Self { parent, group, last_split: (0, 0) }
    }
}

/// The nodes that can have no volume of the class.
const ROOT: u32 = 0;

impl Partition {
    /// Divides `nodes` by the free volumes of a class and by what is reserved for claims of the
    /// class.
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
            let split = |group, nodes: &mut dyn Iterator<Item = NodeIx>| {
                partition.split(Some(group), nodes);
            };
            for_each_group(free, nodes, cluster, split);
        }
        partition
    }

    /// Tells `nodes`, which can have `group`, from all others.
    fn split(&mut self, group: Option<VolumeGroupIx>, nodes: impl Iterator<Item = NodeIx>) {
        self.splits += 1;
        for node in nodes {
            let parent = self.part_of[node.index()];
            let (split, half) = self.parts[parent as usize].last_split;
            self.part_of[node.index()] = match split == self.splits {
                true => half,
                false => self.split_off(parent, group),
            };
        }
    }

    fn split_off(&mut self, parent: u32, group: Option<VolumeGroupIx>) -> u32 {
        let half = u32::try_from(self.parts.len()).expect("fewer parts than nodes and groups");
        self.parts.push(Part::of(parent, group));
        self.parts[parent as usize].last_split = (self.splits, half);
        half
    }

    /// Number of parts, empty ones included.
    pub(super) const fn len(&self) -> usize {
        self.parts.len()
    }

    /// The part of a node of the set.
    pub(super) fn part_of(&self, node: NodeIx) -> usize {
        self.part_of[node.index()] as usize
    }

    /// The groups of volumes that the nodes of a part can have. A group may come more than once.
    pub(super) fn groups(&self, part: usize) -> impl Iterator<Item = VolumeGroupIx> {
        let parts = std::iter::successors(Some(part), |part| {
            Some(self.parts[*part].parent as usize).filter(|_| *part != ROOT as usize)
        });
        parts.filter_map(|part| self.parts[part].group)
    }
}
