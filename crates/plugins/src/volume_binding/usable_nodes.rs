//! The nodes on which sets of free volumes can be used.

use framework::{Cluster, FreeVolumes, NodeBits, NodeIx, VolumeSetIx};

use super::affinity::{allows, retain_allowed};

/// Calls `visit` for every set of `free` with the nodes among `nodes` that can use it. A set
/// under several labels is visited once for each.
pub(super) fn for_each_set(
    free: &FreeVolumes,
    nodes: &NodeBits,
    cluster: &Cluster,
    mut visit: impl FnMut(VolumeSetIx, &mut dyn Iterator<Item = NodeIx>),
) {
    for (key, values) in free.labelled() {
        let topology = cluster.topology_at(key);
        for (domain, sets) in values {
            for ix in sets {
                let set = free.get(*ix);
                let is_allowed = |node: &NodeIx| {
                    nodes.contains(*node)
                        && (set.label_decides()
                            || allows(set.node_selector(), &cluster.node(*node)))
                };
                visit(*ix, &mut topology.nodes(domain).iter().filter(is_allowed));
            }
        }
    }
    for ix in free.unlabelled() {
        let mut allowed = nodes.clone();
        retain_allowed(free.get(*ix).node_selector(), cluster, &mut allowed);
        visit(*ix, &mut allowed.iter());
    }
}
