//! Extended resources that devices provide.
//!
//! A DeviceClass can provide an extended resource on nodes whose kubelet does not offer it. Scores
//! count the devices of the class there: all of them as allocatable, the allocated ones as
//! requested.

use framework::{Cluster, CycleState, NodeIx, NodeView};
use structured::{Allocated, Allocator, CountedClass, DeviceCount, Gates, Overlay};

use super::{Column, DenseColumn, Resource, Usage};
use crate::dynamic_resources::{SelectorsAt, allocated_beyond_watch};

/// The devices of the cluster as the attempt of a pod sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Devices<'a> {
    cluster: &'a Cluster,
    /// `None` if devices provide no extended resources.
    selectors: Option<SelectorsAt<'a>>,
    /// The allocations that the watch does not show.
    overlay: Option<&'a Overlay>,
}

/// An extended resource that a class provides, on the nodes to score.
#[derive(Debug)]
pub(super) struct DeviceColumn {
    resource: Resource,
    allocatable: Vec<i64>,
    requested: Vec<i64>,
}

impl<'a> Devices<'a> {
    pub(super) fn new(
        selectors: Option<SelectorsAt<'a>>,
        state: &'a CycleState,
        cluster: &'a Cluster,
    ) -> Self {
        Self { cluster, selectors, overlay: allocated_beyond_watch(state) }
    }

    /// Returns the amounts of a resource on a node that does not offer it itself; `None` if no
    /// class provides it.
    pub(super) fn usage(&self, resource: &Resource, node: &NodeView<'_>) -> Option<Usage> {
        let class = self.class_of(resource)?;
        Some(usage_of(self.allocator().count(&class, node)))
    }

    /// Returns the amounts of a resource on these nodes; `None` if no class provides it.
    pub(super) fn column(&self, resource: &Resource, nodes: &[NodeIx]) -> Option<DeviceColumn> {
        let mut class = self.class_of(resource)?;
        let own = match resource {
            Resource::Scalar(name) => self.cluster.scalar(name).map(Column::Scalar),
            _ => None,
        };
        let allocator = self.allocator();
        let by_shape = allocator.nodes_by_shape();
        let none = || vec![0; self.cluster.table_len()];
        let (mut allocatable, mut requested) = (none(), none());
        for node in nodes {
            let mut usage = own.map_or_else(Usage::default, |column| column.usage(*node));
            if usage.allocatable == 0 {
                usage = usage_of(allocator.count_once(&mut class, &by_shape, *node));
            }
            (allocatable[node.index()], requested[node.index()]) =
                (usage.allocatable, usage.requested);
        }
        Some(DeviceColumn { resource: resource.clone(), allocatable, requested })
    }

    fn class_of(&self, resource: &Resource) -> Option<CountedClass> {
        let Resource::Scalar(name) = resource else { return None };
        let mut selectors = self.selectors?;
        let class = self.cluster.device_class_of_resource(name)?;
        Some(CountedClass::new(class, self.cluster, &mut selectors))
    }

    fn allocator(&self) -> Allocator<'a> {
        let base = self.cluster.allocated_devices();
        let allocated = Allocated { base, overlay: self.overlay };
        let gates = self.selectors.map_or_else(Gates::default, |own| own.gates());
        Allocator::new(self.cluster, gates, allocated)
    }
}

const fn usage_of(count: DeviceCount) -> Usage {
    Usage { allocatable: count.devices, requested: count.allocated }
}

impl DeviceColumn {
    pub(super) fn is_of(&self, resource: &Resource) -> bool {
        self.resource == *resource
    }

    pub(super) fn column(&self) -> Column<'_> {
        let Self { allocatable, requested, .. } = self;
        Column::Dense(DenseColumn { allocatable, requested })
    }
}

#[cfg(test)]
mod tests;
