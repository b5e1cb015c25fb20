//! The cluster as the scheduler sees it: a table of nodes and the pods placed on them.
//!
//! Nodes are rows with dense ids. Numbers that every decision reads are columns. Labels, taints,
//! host ports, images and features index sets of nodes. Every change of a node or pod updates the
//! counts, so a decision never scans pods.
//!
//! A pod may be placed on a node that the cluster does not know. The row of such a node is a
//! *ghost*: it counts pods, but it is in no set and no list of nodes until the node is added.

mod attached_volumes;
mod bits;
mod budgets;
mod chunked_map;
mod columns;
mod csi_volumes;
mod decoders;
mod device_shapes;
mod devices;
mod free_volumes;
mod holds;
mod id_table;
mod images;
mod label_sets;
mod labels;
mod listed;
mod node_change;
mod object;
mod object_state;
mod objects;
mod pod_groups;
mod pod_query;
mod pods;
mod posting;
mod queries;
mod quotas;
mod related;
mod row;
mod selector_index;
mod short_set;
mod slab;
mod storage;
mod sums;
mod tentative;
mod terms;
#[cfg(test)]
pub mod testing;
mod texts;
mod view;

#[cfg(test)]
extern crate self as cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

pub use self::attached_volumes::{AttachedCounts, VolumeUses};
pub use self::bits::NodeBits;
pub use self::budgets::{BudgetIx, DisruptionBudget, PodDisruptionBudget};
pub use self::columns::{
    CpuMemoryColumns, NodeColumn, ResourceColumns, ScalarAmount, ScalarColumn,
};
pub use self::csi_volumes::{CsiVolume, UncountableVolume};
pub use self::decoders::Decoders;
pub use self::device_shapes::{CountedDevices, DeviceShapes};
pub use self::devices::DevicePools;
pub use self::free_volumes::{FreeVolumes, VolumeKind, VolumeSet, VolumeSetIx};
pub use self::holds::{Hold, Holder, Holds, Purpose, stays_with_its_node};
pub use self::id_table::IdTable;
pub use self::images::ImageState;
pub use self::labels::{DomainIx, LabelKeyIx, Topology};
pub use self::node_change::NodeChange;
pub use self::object::{Object, ObjectUpdate};
pub use self::object_state::{
    ControllerSelector, DecodeError, Namespace, ObjectState, Service, TypedObject,
};
pub use self::objects::ObjectName;
pub use self::pod_groups::{PodGroupState, pod_group_key};
pub use self::pod_query::{Namespaces, PodQuery};
pub use self::pods::{PlacedPod, PodIx};
pub use self::posting::Posting;
pub use self::queries::PodCount;
pub use self::quotas::quota_key;
pub use self::sums::PodSums;
pub use self::tentative::{TentativePlacing, TentativeRemoval};
pub use self::terms::{AffinityTermKind, CarriedTerm};
pub use self::view::{NodeView, Overlay};
pub use ::quota;

use self::attached_volumes::{AttachedVolumes, CountChange};
use self::budgets::DisruptionBudgets;
use self::columns::Scalars;
use self::devices::Devices;
use self::images::ImageIndex;
use self::label_sets::{LabelSets, Membership};
use self::labels::LabelIndex;
use self::node_change::remove_from;
use self::object::Indexed;
use self::object_state::Part;
use self::objects::Objects;
use self::pod_groups::PodGroups;
use self::pods::Pods;
use self::queries::Queries;
use self::related::Related;
use self::row::{Row, RowKind};
use self::storage::Storage;
use self::terms::Terms;
use ::quota::Books;
use api::storage::InTreePlugin;
use api::{
    EventResource, HostPort, Labels, Node, ObjectKey, Pod, PodSpec, PodVolume, Protocol, Shared,
    Taint,
};

/// The dense id of a node. Ids of removed nodes are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(u32);

impl NodeIx {
    /// Returns the node with this index in every column.
    ///
    /// # Panics
    /// Panics if the index is 2^32 or higher.
    #[inline]
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 nodes"))
    }

    /// Returns the index into columns.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the indexes of `nodes` if each follows on the one before, as most do in a cluster in
    /// which most nodes are feasible.
    #[inline]
    pub fn run(nodes: &[Self]) -> Option<Range<usize>> {
        let first = nodes.first()?;
        // Without a branch for each node, the processor compares several at once.
        let expected = |place: usize| first.0.wrapping_add(place as u32);
        let differing = |bits, (place, node): (usize, &Self)| bits | (node.0 ^ expected(place));
        let is_run = nodes.iter().enumerate().fold(0, differing) == 0;
        is_run.then(|| first.index()..first.index() + nodes.len())
    }
}

/// The devices of a node and which of them are in use, apart from their names. The number of a
/// shape is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceShape(u64);

/// The nodes, the pods placed on them, and the counts and indexes over both.
///
/// Plugins read it through `&Cluster`; only the engine changes it.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    by_name: IdTable<NodeIx>,
    rows: Vec<Row>,
    kinds: Shared<RowKind>,
    free: Vec<NodeIx>,
    nodes: NodeBits,
    node_count: usize,
    allocatable: ResourceColumns,
    requested: ResourceColumns,
    non_zero_requested: CpuMemoryColumns,
    allowed_pods: Vec<i64>,
    pod_counts: Vec<i64>,
    scalars: Scalars,
    unschedulable: NodeBits,
    labels: LabelIndex,
    taints: BTreeMap<Taint, Posting>,
    features: BTreeMap<Arc<str>, Posting>,
    ports: BTreeMap<(Protocol, i32), Posting>,
    disks: BTreeMap<(InTreePlugin, Arc<str>), Posting>,
    images: ImageIndex,
    pods: Pods,
    label_sets: LabelSets,
    queries: Queries,
    terms: Terms,
    related: Related,
    storage: Storage,
    devices: Devices,
    attached: AttachedVolumes,
    storage_changes: u64,
    disruption_budgets: DisruptionBudgets,
    pod_groups: PodGroups,
    quotas: Books,
    holds: Holds,
    generations: Vec<u64>,
    last_generation: u64,
    objects: Objects,
    /// Kinds whose objects have the names of the nodes that they describe.
    node_kinds: BTreeSet<Arc<str>>,
}

/// Read access.
impl Cluster {
    /// Returns the number of nodes, without ghosts.
    pub const fn node_count(&self) -> usize {
        self.node_count
    }

    /// Returns one more than the highest index of any node: the length of every column.
    pub fn table_len(&self) -> usize {
        self.rows.len()
    }

    /// Returns all nodes, without ghosts.
    pub const fn nodes(&self) -> &NodeBits {
        &self.nodes
    }

    /// Returns the node with this name, if it exists and is not a ghost.
    pub fn node_named(&self, name: &str) -> Option<NodeIx> {
        self.row_of(name).filter(|node| self.nodes.contains(*node))
    }

    /// Returns the node or ghost with this name.
    fn row_of(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name, |ix| &self.rows[ix.index()].name)
    }

    /// Returns the view of one node.
    ///
    /// # Panics
    /// Panics if the id is not in use.
    #[inline]
    pub fn node(&self, node: NodeIx) -> NodeView<'_> {
        NodeView::new(self, node)
    }

    /// Returns the name of a node.
    #[inline]
    pub fn node_name(&self, node: NodeIx) -> &Arc<str> {
        &self.rows[node.index()].name
    }

    /// Returns the allocatable resources of each node.
    pub const fn allocatable(&self) -> &ResourceColumns {
        &self.allocatable
    }

    /// Returns the sum of the requests of the pods on each node.
    pub const fn requested(&self) -> &ResourceColumns {
        &self.requested
    }

    /// Returns the sum of the requests for scoring, where a container without requests counts with
    /// a default.
    pub const fn non_zero_requested(&self) -> &CpuMemoryColumns {
        &self.non_zero_requested
    }

    /// Maximum number of pods of each node.
    pub fn allowed_pods(&self) -> &[i64] {
        &self.allowed_pods
    }

    /// Returns the number of pods on each node.
    pub fn pod_counts(&self) -> &[i64] {
        &self.pod_counts
    }

    /// Returns the scalar resource with this name, if a node has it or a pod requests it.
    pub fn scalar(&self, name: &str) -> Option<&ScalarColumn> {
        self.scalars.get(name)
    }

    /// Returns the cordoned nodes.
    pub const fn unschedulable(&self) -> &NodeBits {
        &self.unschedulable
    }

    /// Returns every distinct taint and the nodes that carry it.
    pub fn taints(&self) -> impl Iterator<Item = (&Taint, &Posting)> {
        self.taints.iter()
    }

    /// Returns the nodes that declare `feature`.
    pub fn declaring(&self, feature: &str) -> Option<&Posting> {
        self.features.get(feature)
    }

    /// Returns the nodes on which a pod uses this host port, on any address.
    pub fn using_port(&self, port: &HostPort) -> Option<&Posting> {
        self.ports.get(&(port.protocol.clone(), port.port))
    }

    /// Returns the nodes on which a pod has an inline volume of the same disk, if disks of this
    /// plugin can conflict.
    pub fn using_disk(&self, volume: &PodVolume) -> Option<&Posting> {
        let (plugin, name) = volume.disk()?;
        self.disks.get(&(plugin, name.into()))
    }

    /// Returns the image with this name, if a node has it.
    pub fn image(&self, name: &str) -> Option<&ImageState> {
        self.images.get(name)
    }

    /// Returns the nodes that carry the label `key`, with any value.
    pub fn with_label_key(&self, key: &str) -> Option<&Posting> {
        self.labels.with_key(key)
    }

    /// Returns the nodes that carry the label `key` with exactly `value`.
    pub fn with_label(&self, key: &str, value: &str) -> Option<&Posting> {
        self.labels.with_value(key, value)
    }

    /// Returns the nodes grouped by their value of the label `key`, if a node carries it.
    pub fn topology(&self, key: &str) -> Option<Topology<'_>> {
        self.labels.topology(key)
    }

    /// Returns the nodes grouped by their value of the label key with this id.
    ///
    /// # Panics
    /// Panics if the id is not in use.
    #[inline]
    pub fn topology_at(&self, key: LabelKeyIx) -> Topology<'_> {
        self.labels.topology_at(key)
    }

    /// Adds to `bits` the nodes for whose value of the label `key` `wanted` returns true. Calls
    /// `wanted` once per distinct value.
    pub fn union_labelled_into(
        &self,
        key: &str,
        wanted: impl Fn(&str) -> bool,
        bits: &mut NodeBits,
    ) {
        self.labels.union_values_into(key, wanted, bits);
    }

    /// Returns the placed pods in ascending order of id, including pods on ghosts.
    pub fn pods(&self) -> impl Iterator<Item = &PlacedPod> {
        self.pods.iter()
    }

    /// Returns the number of placed pods.
    pub const fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Returns a placed pod.
    ///
    /// # Panics
    /// Panics if the id is not in use.
    pub fn pod(&self, pod: PodIx) -> &PlacedPod {
        self.pods.get(pod)
    }

    /// Returns a node as an object, for comparing it with an update. The object has no images,
    /// because the cluster keeps only their names and first sizes.
    pub fn to_node(&self, node: NodeIx) -> Node {
        let row = &self.rows[node.index()];
        let mut allocatable = self.allocatable.get(node);
        let scalars = row.kind.scalars.iter();
        allocatable.scalars = scalars
            .map(|name| {
                let amount = self.scalars.get(name).map(|column| column.get(node).allocatable);
                (name.clone(), amount.unwrap_or_default())
            })
            .collect();
        Node {
            name: row.name.clone(),
            labels: self
                .labels
                .pairs(node, &row.kind.labels)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            taints: row.kind.taints.clone(),
            unschedulable: self.unschedulable.contains(node),
            allocatable,
            allowed_pods: self.allowed_pods[node.index()],
            images: Box::default(),
            declared_features: row.kind.declared_features.clone(),
            conditions: row.conditions,
            annotations: row.annotations,
            extra: row.extra.clone(),
        }
    }
}

/// Copies of nodes.
impl Cluster {
    /// Returns a node as an object that stands for it in another cluster. Each name of an image is
    /// an image of its own there, with the size on record.
    pub fn copy_of_node(&self, node: NodeIx) -> Node {
        let images = self.images.of(&self.rows[node.index()].images);
        Node { images, ..self.to_node(node) }
    }
}

/// Changes, for the engine and for tests that build a cluster.
impl Cluster {
    /// Places `pod` on the node with this name. An unknown node becomes a ghost.
    pub fn place_pod(&mut self, pod: Arc<Pod>, node: &str) -> PodIx {
        let ix = self.row_for(node);
        self.count_requests(ix, &pod, 1);
        self.place_on_row(pod, ix)
    }

    /// Returns the row with this name, which may be a new ghost.
    fn row_for(&mut self, node: &str) -> NodeIx {
        self.row_of(node).unwrap_or_else(|| self.add_row(node.into()))
    }

    /// Places a pod whose requests are counted.
    fn place_on_row(&mut self, pod: Arc<Pod>, ix: NodeIx) -> PodIx {
        self.touch(ix);
        for port in &pod.spec.host_ports {
            self.ports.entry((port.protocol.clone(), port.port)).or_default().insert(ix);
        }
        for (plugin, name) in pod.spec.volumes.iter().filter_map(PodVolume::disk) {
            self.disks.entry((plugin, name.into())).or_default().insert(ix);
        }
        self.terms.add(&pod, ix);
        let pods = &mut self.rows[ix.index()].pods;
        let slot = u32::try_from(pods.len()).expect("fewer than 2^32 pods");
        let membership = Membership::default();
        let placed = self.pods.insert(PlacedPod { pod, node: ix, slot, membership });
        pods.push(placed);
        self.pod_groups.set_placed(&self.pods.get(placed).pod, Some(placed));
        self.quotas.set_placed(&self.pods.get(placed).pod, true);
        self.storage.add_claim_user(placed, &self.pods.get(placed).pod);
        self.count_volumes_of_pod(placed, CountChange::Add);
        self.add_to_label_set(placed);
        placed
    }

    /// Adds a placed pod to the label set of its labels.
    fn add_to_label_set(&mut self, ix: PodIx) {
        let placed = self.pods.get_mut(ix);
        let (set, is_new) = self.label_sets.intern(&placed.pod.key.namespace, &placed.pod.labels);
        if is_new {
            let queries = self.queries.matching(self.label_sets.get(set)).collect();
            let budgets = self.disruption_budgets.matching(self.label_sets.get(set)).collect();
            let set = self.label_sets.get_mut(set);
            (set.queries, set.budgets) = (queries, budgets);
        }
        placed.membership = self.label_sets.add(set, ix);
        let queries = &self.label_sets.get(set).queries;
        self.queries.add_pod(queries, &placed.pod, placed.node);
    }

    /// Removes a pod that has left the table from the label set of its labels.
    fn remove_from_label_set(&mut self, placed: &PlacedPod) {
        let queries = &self.label_sets.get(placed.membership.set).queries;
        self.queries.remove_pod(queries, &placed.pod, placed.node);
        if let Some(moved) = self.label_sets.remove(placed.membership) {
            self.pods.get_mut(moved).membership = placed.membership;
        }
    }

    /// Replaces the object of a placed pod, which keeps its node and its id. Returns whether a
    /// value that the cluster counts has changed. If not, only the object is replaced, and the
    /// [generation](NodeView::generation) of the node stays the same.
    ///
    /// # Panics
    /// Panics if the id is not in use.
    pub fn update_pod(&mut self, ix: PodIx, pod: Arc<Pod>) -> bool {
        let placed = self.pods.get_mut(ix);
        if pods::count_alike(&placed.pod, &pod) {
            placed.pod = pod;
            return false;
        }
        let node = placed.node;
        let node = self.node_name(node).clone();
        self.remove_pod(ix);
        let again = self.place_pod(pod, &node);
        debug_assert_eq!(again, ix, "the id that was freed last is used first");
        true
    }

    /// Removes a placed pod from its node.
    ///
    /// # Panics
    /// Panics if the id is not in use.
    pub fn remove_pod(&mut self, pod: PodIx) -> PlacedPod {
        let placed = self.take_off_row(pod);
        self.count_requests(placed.node, &placed.pod, -1);
        self.drop_if_empty_ghost(placed.node);
        placed
    }

    /// Removes a pod whose requests still count.
    fn take_off_row(&mut self, pod: PodIx) -> PlacedPod {
        self.count_volumes_of_pod(pod, CountChange::Remove);
        let placed = self.pods.remove(pod);
        self.touch(placed.node);
        let pods = &mut self.rows[placed.node.index()].pods;
        pods.swap_remove(placed.slot as usize);
        if let Some(moved) = pods.get(placed.slot as usize) {
            self.pods.get_mut(*moved).slot = placed.slot;
        }
        self.remove_from_label_set(&placed);
        self.terms.remove(&placed.pod, placed.node);
        self.pod_groups.set_placed(&placed.pod, None);
        self.quotas.set_placed(&placed.pod, false);
        self.storage.remove_claim_user(pod, &placed.pod);
        for port in &placed.pod.spec.host_ports {
            self.forget_port(placed.node, port);
        }
        for disk in placed.pod.spec.volumes.iter().filter_map(PodVolume::disk) {
            self.forget_disk(placed.node, disk.0, disk.1);
        }
        placed
    }

    /// Adds or replaces an object of another kind.
    pub fn set_object(&mut self, mut object: Object) -> ObjectUpdate {
        let old = self.objects.get(&object.key);
        if old.as_ref() == Some(&object) {
            return ObjectUpdate { new: old.clone(), old };
        }
        self.objects.share_namespace(&mut object.key);
        if let ObjectState::ResourceSlice(slice) = &mut object.state {
            self.devices.pools.share(&object.key.name, slice);
        }
        self.index(Indexed { key: &object.key, state: &object.state, is_there: true });
        if let Some(node) = self.described_node(&object.key) {
            self.touch(node);
        }
        self.objects.set(object.clone());
        ObjectUpdate { old, new: Some(object) }
    }

    /// Removes an object of another kind.
    pub fn remove_object(&mut self, key: &ObjectKey) -> ObjectUpdate {
        let old = self.objects.remove(key);
        if let Some(old) = &old {
            self.index(Indexed { key, state: &old.state, is_there: false });
            if let Some(node) = self.described_node(key) {
                self.touch(node);
            }
        }
        ObjectUpdate { old, new: None }
    }

    /// Sets the kinds, as `<plural>.<version>.<group>`, whose objects have the names of the nodes
    /// that they describe. A change of such an object gives its node a new
    /// [generation](NodeView::generation). For the engine and for tests.
    pub fn set_node_kinds(&mut self, kinds: BTreeSet<Arc<str>>) {
        self.node_kinds = kinds;
    }

    /// Returns the node that an object describes, if it is of such a [kind](Self::set_node_kinds).
    pub fn described_node(&self, object: &ObjectKey) -> Option<NodeIx> {
        let EventResource::Custom(kind) = &object.kind else { return None };
        self.node_kinds.contains(kind).then(|| self.node_named(&object.name))?
    }

    /// Adds an object to the part of the cluster that reads its kind, or removes it from there.
    fn index(&mut self, object: Indexed<'_>) {
        match object.state.part() {
            Part::None => {}
            Part::Budgets => self.disruption_budgets.set(object, &mut self.label_sets),
            Part::PodGroups => self.pod_groups.set(object),
            Part::Quotas => self.set_quota(object),
            Part::Related => self.related.set(object),
            Part::Storage => self.set_storage(object),
            Part::Devices => {
                self.set_claim_of_quotas(object);
                self.devices.set(object);
                let row_of = |name: &str| self.by_name.get(name, |ix| &self.rows[ix.index()].name);
                self.devices.shapes.update_column(row_of);
            }
        }
    }

    fn touch(&mut self, ix: NodeIx) {
        self.last_generation += 1;
        self.generations[ix.index()] = self.last_generation;
    }

    /// Adds a row for a name that no row has.
    fn add_row(&mut self, name: Arc<str>) -> NodeIx {
        let ix = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            let len = self.rows.len();
            self.allocatable.grow(len);
            self.requested.grow(len);
            self.non_zero_requested.grow(len);
            self.allowed_pods.resize(len, 0);
            self.pod_counts.resize(len, 0);
            self.generations.resize(len, 0);
            NodeIx::new(len - 1)
        });
        self.devices.shapes.add_row(ix, &name);
        self.rows[ix.index()].name = name;
        self.by_name.insert(ix, &*self.rows[ix.index()].name);
        self.add_attached_row(ix);
        ix
    }

    fn drop_if_empty_ghost(&mut self, ix: NodeIx) {
        if self.rows[ix.index()].pods.is_empty() && !self.nodes.contains(ix) {
            self.remove_attached_row(ix);
            let name = self.node_name(ix).clone();
            self.by_name.remove(&name, |ix| &self.rows[ix.index()].name);
            self.rows[ix.index()] = Row::default();
            self.free.push(ix);
        }
    }

    /// Whether a sum of the node has reached the limit of 64 bits, so that its requests are
    /// recounted when a pod leaves it.
    fn is_saturated(&self, ix: NodeIx) -> bool {
        let saturated = |amount: i64| amount == i64::MAX || amount == i64::MIN;
        let sums = self.requested.get(ix);
        saturated(sums.memory) || saturated(sums.milli_cpu)
    }

    fn count_requests(&mut self, ix: NodeIx, pod: &Pod, sign: i64) {
        if sign < 0 && self.is_saturated(ix) {
            return self.recount_requests(ix);
        }
        let requests = &pod.requests;
        self.requested.add(ix, &requests.placed, sign);
        self.non_zero_requested.add(ix, requests.placed_non_zero, sign);
        self.pod_counts[ix.index()] += sign;
        for (name, amount) in &requests.placed.scalars {
            self.change_scalar(ix, name, |scalar| {
                columns::add(&mut scalar.requested, *amount, sign)
            });
        }
    }

    /// Recomputes the requests of a node whose running sum reached the limit of 64 bits.
    fn recount_requests(&mut self, ix: NodeIx) {
        self.requested.set(ix, &api::Resources::default());
        self.non_zero_requested.set(ix, api::CpuMemory::default());
        self.pod_counts[ix.index()] = 0;
        self.scalars
            .values_mut()
            .for_each(|column| column.change(ix, |scalar| scalar.requested = 0));
        let pods = self.rows[ix.index()].pods.clone();
        for pod in pods {
            let pod = self.pods.get(pod).pod.clone();
            self.count_requests(ix, &pod, 1);
        }
    }

    /// Removes a port from the index unless another pod of the node uses it.
    ///
    /// kube-scheduler removes the port with the first pod that leaves, and could then assign it
    /// again.
    fn forget_port(&mut self, ix: NodeIx, port: &HostPort) {
        let same = |other: &HostPort| other.protocol == port.protocol && other.port == port.port;
        let mut others = self.rows[ix.index()].pods.iter();
        if !others.any(|pod| self.pods.get(*pod).pod.spec.host_ports.iter().any(same)) {
            remove_from(&mut self.ports, &(port.protocol.clone(), port.port), ix);
        }
    }

    /// Removes a disk from the index unless another pod of the node uses it.
    fn forget_disk(&mut self, ix: NodeIx, plugin: InTreePlugin, name: &str) {
        let mut others = self.rows[ix.index()].pods.iter().map(|pod| &self.pods.get(*pod).pod.spec);
        let used = |spec: &PodSpec| {
            spec.volumes.iter().any(|volume| volume.disk() == Some((plugin, name)))
        };
        if !others.any(|spec| used(spec)) {
            remove_from(&mut self.disks, &(plugin, name.into()), ix);
        }
    }
}

/// Labels of a row as an object, for views.
impl Cluster {
    fn row(&self, ix: NodeIx) -> &Row {
        &self.rows[ix.index()]
    }

    fn label(&self, ix: NodeIx, key: &str) -> Option<&str> {
        self.labels.get(ix, key).map(AsRef::as_ref)
    }

    fn labels_of(&self, ix: NodeIx) -> Labels {
        let pairs = self.labels.pairs(ix, &self.row(ix).kind.labels);
        pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
