//! How many devices of a class a node has, and how many of them are allocated.

use std::collections::BTreeSet;

use foldhash::HashMap;
use framework::device::{Device, DeviceClass, DeviceSelector, DeviceUse, NodeScope, PoolKey};
use framework::{Cluster, NodeIx, NodeView};

use crate::memo::Likeness;
use crate::{Allocator, Compiled, Compiler, NodesByShape};

/// A class whose devices are counted on many nodes.
#[derive(Debug)]
pub struct CountedClass {
    /// Without selectors of an unknown kind, which kube-scheduler ignores when it counts.
    selectors: Box<[Compiled]>,
    /// Whether nodes with equal devices have equal counts.
    reads_shapes: bool,
    counts: HashMap<Likeness, DeviceCount>,
}

/// The devices of a class on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCount {
    /// All devices that the selectors of the class match.
    pub devices: i64,
    /// The allocated devices. A device of which a part is allocated is one of them.
    pub allocated: i64,
}

impl CountedClass {
    /// Compiles the selectors of a class.
    pub fn new(class: &DeviceClass, cluster: &Cluster, compiler: &mut dyn Compiler) -> Self {
        let texts = class.selectors.iter().filter_map(|selector| match selector {
            DeviceSelector::Cel(text) => Some(text),
            DeviceSelector::Unknown => None,
        });
        let selectors: Box<[_]> = texts.clone().map(|text| compiler.compile(text)).collect();
        let reads_shapes = selectors.iter().flatten().all(|own| own.names_attributes())
            && !texts.into_iter().any(|text| cluster.names_hidden_attribute(text));
        Self { selectors, reads_shapes, counts: HashMap::default() }
    }

    /// Returns whether the selectors match; `None` if one fails.
    fn has(&self, device: &Device) -> Option<bool> {
        for selector in &self.selectors {
            if !selector.as_ref().ok()?.matches(&device.description, &mut 0).ok()? {
                return Some(false);
            }
        }
        Some(true)
    }
}

impl Allocator<'_> {
    /// Counts the devices of a class on a node. The count is zero if a selector of the class or of
    /// a slice fails.
    ///
    /// As in kube-scheduler, the slices of every generation of a pool count, and so do devices that
    /// cannot be allocated for another reason.
    pub fn count(&self, class: &CountedClass, node: &NodeView<'_>) -> DeviceCount {
        self.try_count(class, node).unwrap_or_default()
    }

    /// Returns [`count`](Self::count), but counts once for nodes whose devices look alike.
    pub fn count_once(
        &self,
        class: &mut CountedClass,
        nodes: &NodesByShape<'_>,
        node: NodeIx,
    ) -> DeviceCount {
        let count = |class: &CountedClass| self.count(class, &self.cluster.node(node));
        if !class.reads_shapes {
            return count(class);
        }
        let likeness = Self::likeness(nodes, node);
        if let Some(known) = class.counts.get(&likeness) {
            return *known;
        }
        let count = count(class);
        if likeness != Likeness::Alone {
            class.counts.insert(likeness, count);
        }
        count
    }

    fn try_count(&self, class: &CountedClass, node: &NodeView<'_>) -> Option<DeviceCount> {
        let all = self.cluster.device_pools();
        let pools: BTreeSet<&PoolKey> =
            all.pools_naming(node.name()).chain(all.pools_for_any_node()).collect();
        let mut count = DeviceCount::default();
        for key in pools {
            let allocated = self.allocated.pool(key);
            for slice in all.slices(key) {
                let is_per_device = slice.scope == NodeScope::PerDevice;
                if !is_per_device && !slice.scope.includes(node).ok()? {
                    continue;
                }
                for device in &slice.devices {
                    let is_here = !is_per_device || device.scope.includes(node).ok()?;
                    if is_here && class.has(device)? {
                        count.devices += 1;
                        let allocations = allocated.device(&device.name);
                        count.allocated += i64::from(allocations.is_some_and(|own| is_used(&own)));
                    }
                }
            }
        }
        Some(count)
    }
}

const fn is_used(allocations: &DeviceUse) -> bool {
    allocations.dedicated > 0 || allocations.shares > 0 || allocations.consuming > 0
}
