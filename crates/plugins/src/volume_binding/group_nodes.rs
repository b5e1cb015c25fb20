//! The nodes on which groups of free volumes can be used.

use framework::{Cluster, FreeVolumes, NodeBits, NodeIx, VolumeGroupIx};

use super::affinity::{allows, retain_allowed};

/// Calls `visit` for every group of `free` with the nodes among `nodes` that can use it. A group
/// under several labels is visited once for each.
pub(super) fn for_each_group(
    free: &FreeVolumes,
    nodes: &NodeBits,
    cluster: &Cluster,
    mut visit: impl FnMut(VolumeGroupIx, &mut dyn Iterator<Item = NodeIx>),
) {
    for (key, values) in free.labelled() {
        let topology = cluster.topology_at(key);
        for (domain, groups) in values {
            for ix in groups {
                let group = free.group(*ix);
                let is_allowed = |node: &NodeIx| {
                    nodes.contains(*node)
                        && (group.label_decides()
                            || allows(group.node_selector(), &cluster.node(*node)))
                };
                visit(*ix, &mut topology.nodes(domain).iter().filter(is_allowed));
            }
        }
    }
    for ix in free.unlabelled() {
        let mut allowed = nodes.clone();
        retain_allowed(free.group(*ix).node_selector(), cluster, &mut allowed);
        visit(*ix, &mut allowed.iter());
    }
}
