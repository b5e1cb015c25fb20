//! A copy of the cluster that an engine knows, made in slices.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use engine::{Change, Engine, EngineConfig};
use framework::{
    Cluster, Node, NodeIx, Object, ObjectKey, Pod, PodGroupKey, PodKey, Time, WallOffset,
};
use rustc_hash::FxHashSet;

use crate::follower::Follower;

/// Number of objects copied in one slice. A node is copied with all its pods.
const SLICE: usize = 256;
/// Number of pods or rows that are only compared in the time in which an object is copied.
const LOOKS: usize = 16;
/// Number of images of a node that take as long as another object.
const IMAGES: usize = 4;

/// The times at which the first waiting pod of each group entered the queue.
pub type GroupWaits = BTreeMap<PodGroupKey, Time>;

/// The nodes of a copy with the pods on them, by the place of the node in the table of the engine.
///
/// A later copy compares with it and takes only what has changed.
#[derive(Debug, Clone, Default)]
pub struct CopiedNodes {
    pub(crate) rows: Vec<Row>,
    /// The version of the objects of other kinds.
    pub(crate) objects: u64,
}

/// A place in the table of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// The generation of the node.
    generation: Option<u64>,
    /// The node; `None` for a node that is gone and still has pods, and for a place that is not in
    /// use.
    pub(crate) node: Option<Node>,
    pub(crate) pods: Vec<Arc<Pod>>,
}

impl Row {
    /// Copies a row.
    fn of(cluster: &Cluster, node: NodeIx) -> Self {
        let view = cluster.node(node);
        let name = cluster.node_name(node);
        let pods = view.pods().map(|pod| match pod.node_name.as_ref() == Some(name) {
            true => pod.clone(),
            false => Arc::new(Pod { node_name: Some(name.clone()), ..Pod::clone(pod) }),
        });
        Self {
            generation: view.generation(),
            node: cluster.nodes().contains(node).then(|| cluster.copy_of_node(node)),
            pods: pods.collect(),
        }
    }

    /// Whether the row still has the same node with the same versions of the same pods.
    fn is_current(&self, cluster: &Cluster, node: NodeIx) -> bool {
        let view = cluster.node(node);
        // A new version of a pod may leave the generation as it is, so that the pods are compared,
        // too.
        self.generation == view.generation()
            && self.pods.iter().map(Arc::as_ptr).eq(view.pods().map(Arc::as_ptr))
    }

    fn work(&self) -> usize {
        let images = self.node.as_ref().map_or(0, |node| node.images.len());
        LOOKS * (1 + self.pods.len() + images / IMAGES)
    }
}

/// The objects that an engine knows, at slightly different times.
///
/// It has what decides about pods: nodes, pods with the node that they have or that they are
/// assumed on, nominations, and objects of all other kinds. Writes of plugins that are under way
/// are not in it.
#[derive(Debug, Default)]
pub struct ClusterCopy {
    /// The rows that are known already: only rows that differ from them are copied.
    pub(crate) base: Option<Arc<CopiedNodes>>,
    pub(crate) pending: Vec<Arc<Pod>>,
    group_waits: GroupWaits,
    /// Copied rows by their place.
    pub(crate) rows: Vec<(usize, Row)>,
    pub(crate) objects: Vec<Object>,
    /// Whether no object of another kind has changed since the base. None is copied then.
    pub(crate) has_known_objects: bool,
    pub(crate) objects_version: u64,
    /// The last object that was taken.
    last_taken: Option<ObjectKey>,
    last_pending: Option<PodKey>,
    step: Step,
    next_node: usize,
    pub(crate) wall_offset: WallOffset,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Pending pods are copied first, so that a pod that is placed meanwhile is not missed.
    #[default]
    Pending,
    Nodes,
    Objects,
    Complete,
}

impl ClusterCopy {
    /// Starts a copy of what differs from an earlier one, for the follower that knows that one.
    pub fn since(base: Arc<CopiedNodes>) -> Self {
        Self { base: Some(base), ..Self::default() }
    }

    /// Copies a slice. Returns whether the copy is complete.
    pub fn advance(&mut self, engine: &Engine, now: Time) -> bool {
        match self.step {
            Step::Pending => self.copy_pending(engine, now),
            Step::Nodes => self.copy_nodes(engine),
            Step::Objects => self.copy_objects(engine),
            Step::Complete => {}
        }
        self.step == Step::Complete
    }

    /// Copies everything at once.
    pub fn of(engine: &Engine, now: Time) -> Self {
        let mut copy = Self::default();
        while !copy.advance(engine, now) {}
        copy
    }

    /// Returns the pod of this name, copied or known before; of two, the one without a node.
    pub fn pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        let is_it = |pod: &&Arc<Pod>| pod.key == *key;
        let copied = || self.rows.iter().flat_map(|(_, row)| &row.pods);
        if let Some(pod) = self.pending.iter().chain(copied()).find(is_it) {
            return Some(pod);
        }
        let copied: FxHashSet<usize> = self.rows.iter().map(|(place, _)| *place).collect();
        let known = self.base.as_ref()?.rows.iter().enumerate();
        let known = known.filter(|(place, _)| !copied.contains(place));
        known.flat_map(|(_, row)| &row.pods).find(is_it)
    }

    /// Takes the times since which groups wait: the queue itself is not copied.
    pub fn take_group_waits(&mut self) -> GroupWaits {
        std::mem::take(&mut self.group_waits)
    }

    fn note_wait(&mut self, engine: &Engine, pod: &Pod) {
        let Some(group) = pod.pod_group() else { return };
        let Some((_, queued)) = engine.queue().get(&pod.key) else { return };
        let since = queued.history.initial_attempt.unwrap_or(queued.history.timestamp);
        let known = self.group_waits.entry(group).or_insert(since);
        *known = since.min(*known);
    }

    /// Returns the copied nodes, pods and other objects. A pod that was placed while the copy was
    /// made is there twice, without its node first.
    pub fn into_parts(self) -> (Vec<Node>, Vec<Arc<Pod>>, Vec<Object>) {
        let (mut nodes, mut pods) = (Vec::with_capacity(self.rows.len()), self.pending);
        for (_, row) in self.rows {
            nodes.extend(row.node);
            pods.extend(row.pods);
        }
        (nodes, pods, self.objects)
    }

    /// Takes what was copied since the last call, as changes that add it.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let (mut changes, mut pods) = (Vec::new(), std::mem::take(&mut self.pending));
        for (_, row) in self.rows.drain(..) {
            changes.extend(row.node.map(Change::Node));
            pods.extend(row.pods);
        }
        changes
            .extend(pods.into_iter().map(|pod| Change::Pod(Box::new(Arc::unwrap_or_clone(pod)))));
        let last = self.objects.last().map(|object| object.key().clone());
        self.last_taken = last.or(self.last_taken.take());
        let objects = self.objects.drain(..);
        changes.extend(objects.map(|object| Change::Object(Box::new(object))));
        changes
    }

    /// Frees a slice of a copy that is not used. Returns whether nothing is left.
    pub fn discard(&mut self) -> bool {
        if let Some(nodes) = self.base.take().and_then(Arc::into_inner) {
            self.rows.extend(nodes.rows.into_iter().enumerate());
        }
        self.pending.truncate(self.pending.len().saturating_sub(SLICE));
        self.objects.truncate(self.objects.len().saturating_sub(SLICE));
        let mut work = 0;
        while work < SLICE * LOOKS
            && let Some((_, row)) = self.rows.pop()
        {
            work += row.work();
        }
        self.pending.is_empty() && self.objects.is_empty() && self.rows.is_empty()
    }

    fn copy_pending(&mut self, engine: &Engine, now: Time) {
        let handle = engine.handle(now);
        self.wall_offset = handle.wall_offset;
        let start = self.last_pending.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = handle.pending.range((start, Bound::Unbounded));
        let mut last = None;
        for (key, pod) in rest.by_ref().take(SLICE) {
            self.note_wait(engine, pod);
            let nominated = engine.nominator().node_of(&pod.uid);
            let same = pod.nominated_node_name() == nominated;
            self.pending.push(match same {
                true => pod.clone(),
                false => {
                    let mut pod = Pod::clone(pod);
                    pod.set_nominated_node_name(nominated.cloned());
                    Arc::new(pod)
                }
            });
            last = Some(key.clone());
        }
        if rest.next().is_none() {
            self.step = Step::Nodes;
        }
        self.last_pending = last.or(self.last_pending.take());
    }

    fn copy_nodes(&mut self, engine: &Engine) {
        let cluster = engine.cluster();
        let mut work = 0;
        while work < SLICE * LOOKS && self.next_node < cluster.table_len() {
            let node = NodeIx::new(self.next_node);
            let known = self.base.as_ref().and_then(|base| base.rows.get(self.next_node));
            work += 1 + known.map_or(0, |row| row.pods.len());
            if known.is_none_or(|row| !row.is_current(cluster, node)) {
                let row = Row::of(cluster, node);
                work += row.work();
                self.rows.push((self.next_node, row));
            }
            self.next_node += 1;
        }
        if self.next_node >= cluster.table_len() {
            self.step = Step::Objects;
            self.objects_version = cluster.objects_version();
            self.has_known_objects =
                self.base.as_ref().is_some_and(|base| base.objects == self.objects_version);
            if self.has_known_objects {
                self.step = Step::Complete;
            }
        }
    }

    fn copy_objects(&mut self, engine: &Engine) {
        let cluster = engine.cluster();
        let before = self.objects.len();
        let last = self.objects.last().map(Object::key).or(self.last_taken.as_ref());
        let slice: Vec<_> = cluster.stored_objects_after(last).take(SLICE).collect();
        self.objects.extend(slice);
        if self.objects.len() < before + SLICE {
            self.step = Step::Complete;
        }
    }

    /// Builds an engine that knows the copy. Its queue differs from the queue of the original.
    pub fn engine(self, config: EngineConfig, now: Time) -> Engine {
        let mut follower = Follower::new(config);
        follower.follow(self, now);
        follower.into_engine()
    }
}
