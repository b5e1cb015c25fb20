//! A view of one node, which the one-node forms of the extension points read.

use std::sync::Arc;

use super::{Cluster, NodeIx, PodIx, ScalarAmount, columns};
use api::{CpuMemory, HostPort, Labels, NodeFields, Pod, Resources, Taint};

/// Hypothetical changes to the pods of a node: pods added and pods removed. Used for nominated pods
/// and preemption.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    added: Vec<Arc<Pod>>,
    removed: Vec<PodIx>,
    requested: Resources,
    scalars: Vec<(Arc<str>, i64)>,
    non_zero_requested: CpuMemory,
    pod_count: i64,
}

impl Overlay {
    /// Adds `pod` to the node.
    pub fn add(&mut self, pod: Arc<Pod>) {
        self.count(&pod, 1);
        self.added.push(pod);
    }

    /// Removes `pod`, which is placed on the node.
    pub fn remove(&mut self, cluster: &Cluster, pod: PodIx) {
        self.count(&cluster.pod(pod).pod, -1);
        self.removed.push(pod);
    }

    /// Restores a [removed](Self::remove) pod; has no effect on other pods.
    pub fn restore(&mut self, cluster: &Cluster, pod: PodIx) {
        if let Some(place) = self.removed.iter().position(|removed| *removed == pod) {
            self.removed.swap_remove(place);
            self.count(&cluster.pod(pod).pod, 1);
        }
    }

    fn count(&mut self, pod: &Pod, sign: i64) {
        let placed = &pod.requests.placed;
        columns::add(&mut self.requested.milli_cpu, placed.milli_cpu, sign);
        columns::add(&mut self.requested.memory, placed.memory, sign);
        columns::add(&mut self.requested.ephemeral_storage, placed.ephemeral_storage, sign);
        let non_zero = pod.requests.placed_non_zero;
        columns::add(&mut self.non_zero_requested.milli_cpu, non_zero.milli_cpu, sign);
        columns::add(&mut self.non_zero_requested.memory, non_zero.memory, sign);
        for (name, amount) in &placed.scalars {
            match self.scalars.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => columns::add(sum, *amount, sign),
                None => self.scalars.push((name.clone(), amount.saturating_mul(sign))),
            }
        }
        self.pod_count += sign;
    }
}

/// A node of the cluster, possibly with an [`Overlay`].
#[derive(Debug, Clone, Copy)]
pub struct NodeView<'a> {
    cluster: &'a Cluster,
    ix: NodeIx,
    overlay: Option<&'a Overlay>,
}

impl<'a> NodeView<'a> {
    #[inline]
    pub(super) const fn new(cluster: &'a Cluster, ix: NodeIx) -> Self {
        Self { cluster, ix, overlay: None }
    }

    /// Returns the same node with the changes of `overlay`.
    #[must_use]
    pub const fn with<'b>(self, overlay: &'b Overlay) -> NodeView<'b>
    where
        'a: 'b,
    {
        NodeView { cluster: self.cluster, ix: self.ix, overlay: Some(overlay) }
    }

    /// Returns the cluster of the node.
    pub const fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// Returns the dense id.
    #[inline]
    pub const fn ix(&self) -> NodeIx {
        self.ix
    }

    /// Returns the name.
    pub fn name(&self) -> &'a Arc<str> {
        self.cluster.node_name(self.ix)
    }

    /// Returns the value of the label `key`.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.cluster.label(self.ix, key)
    }

    /// Returns a copy of all labels.
    pub fn labels(&self) -> Labels {
        self.cluster.labels_of(self.ix)
    }

    /// Returns the taints, in the order of the object.
    pub fn taints(&self) -> &'a [Taint] {
        &self.cluster.row(self.ix).kind.taints
    }

    /// Returns whether the node is cordoned.
    pub fn is_unschedulable(&self) -> bool {
        self.cluster.unschedulable.contains(self.ix)
    }

    /// Returns the features the kubelet declares, in the order of the object.
    pub fn declared_features(&self) -> &'a [Arc<str>] {
        &self.cluster.row(self.ix).kind.declared_features
    }

    /// Returns the field at `pointer`, if a plugin asked for it and the node has it.
    pub fn extra(&self, pointer: &str) -> Option<&'a serde_json::Value> {
        self.cluster.row(self.ix).extra.get(pointer)
    }

    /// Returns a number that is new after every change of the node or of its pods, and is never
    /// reused. A result that a plugin computed for one generation is valid while the node has that
    /// generation. A new version of a pod is a change if its labels, spec, requests, kept fields or
    /// deletion differ. Returns `None` for a node with an [`Overlay`].
    pub fn generation(&self) -> Option<u64> {
        self.overlay.is_none().then(|| self.cluster.generations[self.ix.index()])
    }

    /// Returns the allocatable resources, without scalars.
    pub fn allocatable(&self) -> Resources {
        self.cluster.allocatable.get(self.ix)
    }

    /// Returns the sum of the requests of the pods, without scalars.
    pub fn requested(&self) -> Resources {
        let mut requested = self.cluster.requested.get(self.ix);
        if let Some(overlay) = self.overlay {
            columns::add(&mut requested.milli_cpu, overlay.requested.milli_cpu, 1);
            columns::add(&mut requested.memory, overlay.requested.memory, 1);
            let more = overlay.requested.ephemeral_storage;
            columns::add(&mut requested.ephemeral_storage, more, 1);
        }
        requested
    }

    /// Returns the sum of the requests for scoring, where a container without requests counts with
    /// a default.
    pub fn non_zero_requested(&self) -> CpuMemory {
        let mut requested = self.cluster.non_zero_requested.get(self.ix);
        if let Some(overlay) = self.overlay {
            columns::add(&mut requested.milli_cpu, overlay.non_zero_requested.milli_cpu, 1);
            columns::add(&mut requested.memory, overlay.non_zero_requested.memory, 1);
        }
        requested
    }

    /// Returns the amounts of a scalar resource, zero if the node does not have it.
    pub fn scalar(&self, name: &str) -> ScalarAmount {
        let mut amount = self.cluster.scalar(name).map(|c| c.get(self.ix)).unwrap_or_default();
        if let Some(overlay) = self.overlay {
            let more = overlay.scalars.iter().find(|(known, _)| **known == *name);
            columns::add(&mut amount.requested, more.map_or(0, |(_, sum)| *sum), 1);
        }
        amount
    }

    /// Returns the maximum number of pods.
    pub fn allowed_pods(&self) -> i64 {
        self.cluster.allowed_pods[self.ix.index()]
    }

    /// Returns the number of pods on the node.
    pub fn pod_count(&self) -> i64 {
        self.cluster.pod_counts[self.ix.index()] + self.overlay.map_or(0, |o| o.pod_count)
    }

    /// Returns the pods on the node.
    pub fn pods(&self) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let (cluster, overlay) = (self.cluster, self.overlay);
        let removed = overlay.map_or(&[][..], |overlay| &overlay.removed);
        let added = overlay.map_or(&[][..], |overlay| &overlay.added);
        let placed = cluster.row(self.ix).pods.iter().filter(|pod| !removed.contains(pod));
        placed.map(|pod| &cluster.pod(*pod).pod).chain(added)
    }

    /// Returns the pods that the [`Overlay`] adds.
    pub fn added(&self) -> &'a [Arc<Pod>] {
        self.overlay.map_or(&[], |overlay| &overlay.added)
    }

    /// Returns the placed pods that the [`Overlay`] removes.
    pub fn removed(&self) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let (cluster, removed) = (self.cluster, self.overlay.map(|overlay| &overlay.removed));
        removed.into_iter().flatten().map(|pod| &cluster.pod(*pod).pod)
    }

    /// Returns the pods placed on the node with their ids, without regard to an [`Overlay`].
    pub fn placed(&self) -> impl ExactSizeIterator<Item = (PodIx, &'a Arc<Pod>)> + use<'a> {
        let cluster = self.cluster;
        cluster.row(self.ix).pods.iter().map(|pod| (*pod, &cluster.pod(*pod).pod))
    }

    /// Returns whether a pod on the node uses a host port that conflicts with `wanted`.
    pub fn has_port_conflict(&self, wanted: &HostPort) -> bool {
        let used = self.cluster.using_port(wanted).is_some_and(|nodes| nodes.contains(self.ix));
        (used || self.overlay.is_some_and(|overlay| !overlay.added.is_empty()))
            && self
                .pods()
                .any(|pod| pod.spec.host_ports.iter().any(|port| port.conflicts_with(wanted)))
    }
}

impl NodeFields for NodeView<'_> {
    fn name(&self) -> &str {
        self.cluster.node_name(self.ix)
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.cluster.label(self.ix, key)
    }
}
