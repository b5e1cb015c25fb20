//! Cpu, memory and other resources. [`fit`] (NodeResourcesFit) rejects nodes without enough free
//! resources and scores their utilization. [`balanced_allocation`]
//! (NodeResourcesBalancedAllocation) scores how evenly the resources of a node are used.
//! [`tightest_placement`] scores the placements of groups.
//!
//! The arguments list the resources to rate. A score leaves out a resource on nodes that have none
//! of it, and a scalar resource if the pod does not request it.
//!
//! An extended resource that a DeviceClass provides is left to DynamicResources on nodes whose
//! kubelet does not offer it. Scores count the devices there, see `devices`.

mod args;
pub mod balanced_allocation;
mod devices;
pub mod fit;
mod kernels;
mod scoring;
pub mod tightest_placement;

use std::sync::Arc;

use framework::{
    Behaviours, Cluster, CycleState, Node, NodeIx, NodeView, PluginGates, Pod, Resources,
    ScalarColumn, ScoreScope,
};

use self::args::ResourceSpec;
use self::devices::{DeviceColumn, Devices};
use crate::dynamic_resources::{Selectors, SelectorsAt};

/// A resource of a node as the plugins count it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Resource {
    /// The number of pods that the node takes.
    PodSlot,
    Cpu,
    Memory,
    EphemeralStorage,
    /// Any other resource. No node has a resource whose name is unknown.
    Scalar(Arc<str>),
}

/// Which sum over the pods of a node counts as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// The sum of the requests.
    Requested,
    /// The sum of the requests, with a default of cpu and memory for every container without a
    /// request.
    NonZeroRequested,
}

/// The amounts of one resource on one node, in milli-CPU, bytes or units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    allocatable: i64,
    requested: i64,
}

impl Usage {
    /// Returns the free amount; negative on an overcommitted node.
    const fn free(self) -> i64 {
        self.allocatable.saturating_sub(self.requested)
    }

    /// Returns the sum of two usages.
    const fn and(self, other: Self) -> Self {
        Self {
            allocatable: self.allocatable.saturating_add(other.allocatable),
            requested: self.requested.saturating_add(other.requested),
        }
    }

    /// Returns the usage with `request` added.
    const fn with(self, request: i64) -> Self {
        Self { requested: self.requested.saturating_add(request), ..self }
    }
}

impl Resource {
    fn named(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            scalar => Self::Scalar(scalar.into()),
        }
    }

    /// Returns its amount in `resources`. A pod takes one slot.
    fn of(&self, resources: &Resources) -> i64 {
        match self {
            Self::PodSlot => 1,
            Self::Cpu => resources.milli_cpu,
            Self::Memory => resources.memory,
            Self::EphemeralStorage => resources.ephemeral_storage,
            Self::Scalar(name) => resources.scalar(name),
        }
    }

    /// Returns the amount that a pod takes from its node.
    fn taken_by(&self, pod: &Pod, basis: Basis) -> i64 {
        let requests = &pod.requests;
        match (self, basis) {
            (Self::Cpu, Basis::NonZeroRequested) => requests.placed_non_zero.milli_cpu,
            (Self::Memory, Basis::NonZeroRequested) => requests.placed_non_zero.memory,
            _ => self.of(&requests.placed),
        }
    }

    /// Returns its allocatable amount on `node`.
    fn allocatable(&self, node: &Node) -> i64 {
        match self {
            Self::PodSlot => node.allowed_pods,
            _ => self.of(&node.allocatable),
        }
    }

    /// Returns the amounts on `node`.
    fn usage(&self, node: &NodeView<'_>, basis: Basis) -> Usage {
        let requested = match (self, basis) {
            (Self::PodSlot, _) => {
                return Usage { allocatable: node.allowed_pods(), requested: node.pod_count() };
            }
            (Self::Scalar(name), _) => {
                let scalar = node.scalar(name);
                return Usage { allocatable: scalar.allocatable, requested: scalar.requested };
            }
            (Self::Cpu, Basis::NonZeroRequested) => node.non_zero_requested().milli_cpu,
            (Self::Memory, Basis::NonZeroRequested) => node.non_zero_requested().memory,
            _ => self.of(&node.requested()),
        };
        Usage { allocatable: self.of(&node.allocatable()), requested }
    }

    /// Returns the amounts on all nodes; `None` if no node has the resource.
    fn column<'a>(&self, cluster: &'a Cluster, basis: Basis) -> Option<Column<'a>> {
        let (all, requested) = (cluster.allocatable(), cluster.requested());
        let (allocatable, requested) = match (self, basis) {
            (Self::PodSlot, _) => (cluster.allowed_pods(), cluster.pod_counts()),
            (Self::Cpu, Basis::Requested) => (&all.milli_cpu[..], &requested.milli_cpu[..]),
            (Self::Memory, Basis::Requested) => (&all.memory[..], &requested.memory[..]),
            (Self::Cpu, Basis::NonZeroRequested) => {
                (&all.milli_cpu[..], &cluster.non_zero_requested().milli_cpu[..])
            }
            (Self::Memory, Basis::NonZeroRequested) => {
                (&all.memory[..], &cluster.non_zero_requested().memory[..])
            }
            (Self::EphemeralStorage, _) => {
                (&all.ephemeral_storage[..], &requested.ephemeral_storage[..])
            }
            (Self::Scalar(name), _) => return cluster.scalar(name).map(Column::Scalar),
        };
        Some(Column::Dense(DenseColumn { allocatable, requested }))
    }
}

/// The amounts of one resource on all nodes.
#[derive(Debug, Clone, Copy)]
enum Column<'a> {
    Dense(DenseColumn<'a>),
    Scalar(&'a ScalarColumn),
}

/// Amounts by node index.
#[derive(Debug, Clone, Copy)]
struct DenseColumn<'a> {
    allocatable: &'a [i64],
    requested: &'a [i64],
}

impl Column<'_> {
    #[inline]
    fn usage(&self, node: NodeIx) -> Usage {
        match self {
            Self::Dense(column) => column.usage(node.index()),
            Self::Scalar(column) => {
                let scalar = column.get(node);
                Usage { allocatable: scalar.allocatable, requested: scalar.requested }
            }
        }
    }
}

/// The resources a plugin rates, with their weights.
#[derive(Debug)]
struct RatedResources {
    resources: Box<[(Resource, i64)]>,
    basis: Basis,
    /// The compiled selectors of device classes; `None` if devices provide no extended resources.
    selectors: Option<Selectors>,
    behaviours: Behaviours,
}

/// The amounts and weight of a rated resource on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    /// Amounts without the pod.
    usage: Usage,
    /// The request of the pod.
    request: i64,
    weight: i64,
}

/// A rated resource on all nodes, for one pod.
#[derive(Debug, Clone, Copy)]
struct Lane<'a> {
    column: Column<'a>,
    request: i64,
    weight: i64,
}

impl RatedResources {
    fn new(resources: &[ResourceSpec], basis: Basis, gates: PluginGates) -> Self {
        let named = |spec: &ResourceSpec| (Resource::named(&spec.name), spec.weight);
        let resources = resources.iter().map(named).collect();
        let selectors = gates.extended_resources.then(Selectors::default);
        Self { resources, basis, selectors, behaviours: gates.behaviours() }
    }

    /// Returns the selectors at the level.
    fn selectors(&self) -> Option<SelectorsAt<'_>> {
        self.selectors.as_ref().map(|own| SelectorsAt::new(own, self.behaviours))
    }

    /// Whether `requests` contains none of the rated resources.
    fn are_unrequested(&self, requests: &Resources) -> bool {
        self.resources.iter().all(|(resource, _)| resource.of(requests) == 0)
    }

    /// Returns the resources that count for a pod with these requests.
    fn counting(&self, requests: &Resources) -> impl Iterator<Item = (&Resource, i64, i64)> {
        self.resources.iter().filter_map(|(resource, weight)| {
            let request = resource.of(requests);
            let left_out = request == 0 && matches!(resource, Resource::Scalar(_));
            (!left_out).then_some((resource, request, *weight))
        })
    }

    /// Returns what the shares of a node depend on. Devices that provide a resource are allocated
    /// without a change of the node.
    fn scope(&self, requests: &Resources, cluster: &Cluster) -> ScoreScope {
        let mut counting = self.counting(requests);
        let is_of_devices = counting.any(|(resource, ..)| match resource {
            Resource::Scalar(name) => cluster.device_class_of_resource(name).is_some(),
            _ => false,
        });
        if self.selectors.is_some() && is_of_devices {
            ScoreScope::Cluster
        } else {
            ScoreScope::Node
        }
    }

    /// Returns the shares on `node` for a pod with these requests.
    fn shares<'a>(
        &'a self,
        state: &'a CycleState,
        node: &'a NodeView<'a>,
        requests: &'a Resources,
    ) -> impl Iterator<Item = Share> + 'a {
        let devices = Devices::new(self.selectors(), state, node.cluster());
        self.counting(requests).filter_map(move |(resource, request, weight)| {
            let mut usage = resource.usage(node, self.basis);
            if usage.allocatable == 0 {
                usage = devices.usage(resource, node).unwrap_or(usage);
            }
            (usage.allocatable > 0).then_some(Share { usage, request, weight })
        })
    }

    /// Returns the columns on `nodes` of the counting resources that a class provides. Most pods
    /// request none.
    fn device_columns(
        &self,
        state: &CycleState,
        cluster: &Cluster,
        requests: &Resources,
        nodes: &[NodeIx],
    ) -> Vec<DeviceColumn> {
        let devices = Devices::new(self.selectors(), state, cluster);
        let counting = self.counting(requests);
        counting.filter_map(|(resource, ..)| devices.column(resource, nodes)).collect()
    }

    /// Returns the columns of the resources that count for a placement of these pods, with the sum
    /// of what they take. Devices do not count.
    fn lanes_of_placement<'a>(
        &'a self,
        cluster: &'a Cluster,
        pods: &'a [Arc<Pod>],
    ) -> impl Iterator<Item = Lane<'a>> {
        self.resources.iter().filter_map(move |(resource, weight)| {
            let taken = pods.iter().map(|pod| resource.taken_by(pod, self.basis));
            let request = taken.fold(0, i64::saturating_add);
            let left_out = request == 0 && matches!(resource, Resource::Scalar(_));
            let column = resource.column(cluster, self.basis).filter(|_| !left_out)?;
            Some(Lane { column, request, weight: *weight })
        })
    }

    /// Returns the columns of the counting resources for a pod with these requests.
    fn lanes<'a>(
        &self,
        cluster: &'a Cluster,
        requests: &Resources,
        devices: &'a [DeviceColumn],
    ) -> Vec<Lane<'a>> {
        let lane = |(resource, request, weight): (&Resource, i64, i64)| {
            let provided = devices.iter().find(|own| own.is_of(resource));
            let column = match provided {
                Some(provided) => provided.column(),
                None => resource.column(cluster, self.basis)?,
            };
            Some(Lane { column, request, weight })
        };
        self.counting(requests).filter_map(lane).collect()
    }
}

/// Returns the shares on one node of the columns.
fn shares_on(lanes: &[Lane<'_>], node: NodeIx) -> impl Iterator<Item = Share> {
    lanes.iter().filter_map(move |lane| {
        let usage = lane.column.usage(node);
        let Lane { request, weight, .. } = *lane;
        (usage.allocatable > 0).then_some(Share { usage, request, weight })
    })
}

#[cfg(test)]
mod tests;
