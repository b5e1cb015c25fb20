//! Nodes that volumes do not tell apart.

use std::collections::HashMap;

use framework::{Cluster, NodeBits, NodeIx, VolumeGroupIx};

use super::affinity::{allows, retain_allowed};
use super::matching::Demand;

/// The nodes of a set, divided into parts: the nodes of a part can have the same free volumes of a
/// class, and the same volumes that are reserved for the claims of a pod.
#[derive(Debug)]
pub(super) struct Partition {
    part_of: Vec<u32>,
    parts: Vec<Part>,
}

/// A part, which was split off another.
#[derive(Debug, Clone, Copy)]
struct Part {
    parent: u32,
    /// What its nodes can have and the others of its parent cannot.
    group: Option<VolumeGroupIx>,
}

/// The nodes that nothing tells apart from those without any volume.
const ROOT: u32 = 0;

impl Partition {
    /// Divides `nodes` by the free volumes of a class and by what is reserved for claims of the class.
    pub(super) fn of(
        nodes: &NodeBits,
        class: &str,
        demands: &[&Demand<'_>],
        cluster: &Cluster,
    ) -> Self {
        let root = Part { parent: ROOT, group: None };
        let mut partition = Self { part_of: vec![ROOT; cluster.table_len()], parts: vec![root] };
        let mut splitter = Splitter::default();
        let reserved = demands.iter().flat_map(|demand| &demand.reserved);
        for selector in reserved.filter_map(|volume| volume.node_selector.as_deref()) {
            let mut allowed = nodes.clone();
            retain_allowed(Some(selector), cluster, &mut allowed);
            splitter.split(&mut partition, None, allowed.iter());
        }
        let Some(free) = cluster.free_volumes(class) else { return partition };
        for (key, value, groups) in free.labelled() {
            let Some(labelled) = cluster.with_label(key, value) else { continue };
            for group in groups {
                let selector = free.group(*group).selector();
                let allowed = labelled
                    .iter()
                    .filter(|node| nodes.contains(*node) && allows(selector, &cluster.node(*node)));
                splitter.split(&mut partition, Some(*group), allowed);
            }
        }
        for group in free.unlabelled() {
            let mut allowed = nodes.clone();
            retain_allowed(free.group(*group).selector(), cluster, &mut allowed);
            splitter.split(&mut partition, Some(*group), allowed.iter());
        }
        partition
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
    pub(super) fn groups(&self, part: usize) -> Vec<VolumeGroupIx> {
        let parts = std::iter::successors(Some(part), |part| {
            Some(self.parts[*part].parent as usize).filter(|_| *part != ROOT as usize)
        });
        parts.filter_map(|part| self.parts[part].group).collect()
    }
}

/// Splits the parts of a partition.
#[derive(Default)]
struct Splitter {
    /// The new part of every old one that is being split.
    halves: HashMap<u32, u32>,
}

impl Splitter {
    /// Tells `nodes`, which can have `group`, from all others.
    fn split(
        &mut self,
        partition: &mut Partition,
        group: Option<VolumeGroupIx>,
        nodes: impl Iterator<Item = NodeIx>,
    ) {
        self.halves.clear();
        let Partition { part_of, parts } = partition;
        for node in nodes {
            let part = &mut part_of[node.index()];
            let parent = *part;
            *part = *self.halves.entry(parent).or_insert_with(|| {
                parts.push(Part { parent, group });
                u32::try_from(parts.len() - 1).expect("no more parts than pairs of node and group")
            });
        }
    }
}
