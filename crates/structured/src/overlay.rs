//! The allocations that the watch does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use framework::Cluster;
use framework::device::{AllocatedState, Allocation, DeviceUse, PoolKey, Seen};

/// A device of a node with allocations that the watch does not show: the number of the pool, that
/// of the device in the pool, and the allocations.
pub(crate) type Overlaid = (usize, usize, DeviceUse);

/// The allocations that the watch does not show, and the nodes that have their devices.
///
/// It follows allocations and slices: [`update`](Self::update) costs as much as has changed since.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    allocated: AllocatedState,
    /// The devices with such allocations of each node, in the order of the search. The name of a
    /// pool is not part of it, so that nodes that look alike have equal devices.
    nodes: BTreeMap<Arc<str>, Arc<[Overlaid]>>,
    /// These nodes by the pools that name them.
    nodes_of: HashMap<PoolKey, BTreeSet<Arc<str>>>,
    /// The changes of allocations and slices that `nodes` follows.
    seen: [Seen; 2],
}

/// Overlays are equal if their allocations and nodes are, whatever changed before.
impl PartialEq for Overlay {
    fn eq(&self, other: &Self) -> bool {
        self.allocated == other.allocated && self.nodes == other.nodes
    }
}

impl Eq for Overlay {}

impl Overlay {
    /// Counts the devices of an allocation. [`update`](Self::update) finds their nodes.
    pub fn add(&mut self, allocation: &Allocation) {
        self.allocated.add(allocation);
    }

    /// Takes the devices of an allocation off.
    pub fn remove(&mut self, allocation: &Allocation) {
        self.allocated.remove(allocation);
    }

    /// Returns the allocations.
    pub const fn allocated(&self) -> &AllocatedState {
        &self.allocated
    }

    /// Returns whether the nodes are up to date with the allocations and the slices of the cluster.
    pub fn is_current(&self, cluster: &Cluster) -> bool {
        let [allocations, slices] = &self.seen;
        self.allocated.changes().is_at(allocations)
            && cluster.device_pools().changes().is_at(slices)
    }

    /// Finds the nodes of the pools whose allocations or slices have changed.
    pub fn update(&mut self, cluster: &Cluster) {
        if self.is_current(cluster) {
            return;
        }
        let pools = cluster.device_pools();
        let changed: Option<BTreeSet<PoolKey>> = self.changed(cluster);
        let mut nodes = BTreeSet::new();
        match changed {
            Some(changed) => {
                for key in &changed {
                    nodes.extend(self.nodes_of.remove(key).unwrap_or_default());
                    pools.add_nodes_of(key, &mut nodes);
                }
            }
            None => {
                self.nodes.clear();
                self.nodes_of.clear();
                self.allocated
                    .pools()
                    .into_iter()
                    .for_each(|key| pools.add_nodes_of(key, &mut nodes));
            }
        }
        nodes.into_iter().for_each(|node| self.set_node(node, cluster));
        self.seen = [self.allocated.changes().seen(), cluster.device_pools().changes().seen()];
    }

    /// Returns the pools whose allocations or slices have changed; `None` if that is not known, or
    /// if it is faster to look at all allocations.
    fn changed(&self, cluster: &Cluster) -> Option<BTreeSet<PoolKey>> {
        if self.allocated.is_empty() {
            return None;
        }
        let allocations = self.allocated.changes().since(&self.seen[0])?;
        let slices = cluster.device_pools().changes().since(&self.seen[1])?;
        Some(allocations.chain(slices).cloned().collect())
    }

    /// Finds the devices of a node that have allocations.
    fn set_node(&mut self, node: Arc<str>, cluster: &Cluster) {
        let all = cluster.device_pools();
        let mut devices: Vec<Overlaid> = Vec::new();
        for (number, key) in all.pools_naming(&node).enumerate() {
            let Some(used) = self.allocated.pool(key) else { continue };
            let of_pool = all.slices(key).flat_map(|slice| &slice.devices).enumerate();
            devices.extend(of_pool.filter_map(|(place, device)| {
                Some((number, place, used.get(&device.name)?.clone()))
            }));
        }
        for key in all.pools_naming(&node) {
            if !devices.is_empty() {
                self.nodes_of.entry(key.clone()).or_default().insert(node.clone());
            } else if let Some(nodes) = self.nodes_of.get_mut(key) {
                nodes.remove(&node);
                if nodes.is_empty() {
                    self.nodes_of.remove(key);
                }
            }
        }
        match devices.is_empty() {
            true => drop(self.nodes.remove(&node)),
            false => drop(self.nodes.insert(node, devices.into())),
        }
    }

    /// Returns the nodes with their devices, by name.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<[Overlaid]>)> {
        self.nodes.iter()
    }
}
