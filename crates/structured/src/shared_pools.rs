//! Pools that many nodes use, and the nodes to which they look alike.

use std::cell::RefCell;

use framework::device::{NodeRestriction, NodeScope, PoolKey};
use framework::{Cluster, NodeIx};
use rustc_hash::FxHashMap;

/// The pools with devices for all nodes or for nodes that match a selector, and those that every
/// node considers although they are being updated or contradict themselves.
///
/// Two nodes see them alike if the same selectors match, and if the pools stand at the same places
/// between the pools of the node itself.
#[derive(Debug)]
pub(crate) struct SharedPools<'a> {
    cluster: &'a Cluster,
    /// In the order of the search.
    keys: Vec<&'a PoolKey>,
    /// The distinct node selectors of their slices and devices.
    selectors: Vec<&'a NodeRestriction>,
    kinds: RefCell<Kinds>,
}

/// The kinds of the nodes that were asked for.
#[derive(Debug, Default)]
struct Kinds {
    of_node: FxHashMap<NodeIx, Option<u32>>,
    numbers: FxHashMap<Box<[usize]>, u32>,
}

impl<'a> SharedPools<'a> {
    /// Returns the shared pools of a cluster; `None` if it has none.
    pub(crate) fn of(cluster: &'a Cluster) -> Option<Self> {
        let all = cluster.device_pools();
        let mut keys: Vec<&PoolKey> = all.pools_for_any_node().collect();
        keys.extend(all.unsound_pools_with_counters());
        if keys.is_empty() {
            return None;
        }
        keys.sort_unstable();
        keys.dedup();
        let mut selectors: Vec<&NodeRestriction> = Vec::new();
        for slice in keys.iter().flat_map(|key| all.slices(key)) {
            let of_devices = slice.devices.iter().map(|device| &device.scope);
            for scope in std::iter::once(&slice.scope).chain(of_devices) {
                if let NodeScope::Selector(selector) = scope
                    && !selectors.contains(&&**selector)
                {
                    selectors.push(selector);
                }
            }
        }
        Some(Self { cluster, keys, selectors, kinds: RefCell::default() })
    }

    /// Returns the number of the kind of a node. Nodes of one kind see the shared pools alike.
    /// `None` if a selector cannot be evaluated.
    pub(crate) fn number_of(&self, node: NodeIx) -> Option<u32> {
        let mut kinds = self.kinds.borrow_mut();
        let Kinds { of_node, numbers } = &mut *kinds;
        *of_node.entry(node).or_insert_with(|| {
            let kind = self.kind_of(node)?;
            let next = u32::try_from(numbers.len()).ok()?;
            Some(*numbers.entry(kind).or_insert(next))
        })
    }

    /// Returns what tells kinds apart: for each pool how many pools of the node come before it,
    /// and the numbers of the selectors that match.
    fn kind_of(&self, node: NodeIx) -> Option<Box<[usize]>> {
        let view = self.cluster.node(node);
        let own: Vec<&PoolKey> = self.cluster.device_pools().pools_naming(view.name()).collect();
        let mut kind: Vec<usize> =
            self.keys.iter().map(|key| own.partition_point(|own| own < key)).collect();
        for (number, selector) in self.selectors.iter().enumerate() {
            if selector.matches(&view).ok()? {
                kind.push(number);
            }
        }
        Some(kind.into())
    }
}
