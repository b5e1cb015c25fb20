//! A copy of the cluster that an engine knows, made in slices.

use std::ops::Bound;
use std::sync::Arc;

use engine::{Change, Engine, EngineConfig};
use framework::{Node, NodeIx, Pod, PodKey, StoredObject, Time, WallOffset};

use crate::follower::{Follower, object_change};

/// Number of objects copied in one slice. A node is copied with all its pods.
const SLICE: usize = 256;
/// Number of images of a node that take as long as another object.
const IMAGES: usize = 4;

/// The objects that an engine knows, at slightly different times.
///
/// It has what decides about pods: nodes, pods with the node that they have or that
/// they are assumed on, nominations, and objects of all other kinds. Writes of plugins that are under way are not
/// in it.
#[derive(Debug, Default)]
pub struct ClusterCopy {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) objects: Vec<StoredObject>,
    /// The last object that was taken.
    last_taken: Option<StoredObject>,
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

    /// Returns the copied pod of this name; of two, the one without a node.
    pub fn pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        self.pods.iter().find(|pod| pod.key == *key)
    }

    /// Returns nodes, pods and other objects. A pod that was placed while the copy was made is there twice, without
    /// its node first.
    pub fn into_parts(self) -> (Vec<Node>, Vec<Arc<Pod>>, Vec<StoredObject>) {
        (self.nodes, self.pods, self.objects)
    }

    /// Takes what was copied since the last call, as changes that add it.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let nodes = self.nodes.drain(..).map(Change::Node);
        let pods = self.pods.drain(..);
        let pods = pods.map(|pod| Change::Pod(Box::new(Arc::unwrap_or_clone(pod))));
        let mut changes: Vec<Change> = nodes.chain(pods).collect();
        changes.extend(
            self.objects
                .iter()
                .map(|own| object_change(&(own.kind.clone(), own.name.clone()), own.json())),
        );
        self.last_taken = self.objects.pop().or(self.last_taken.take());
        self.objects.clear();
        changes
    }

    /// Number of copied objects.
    pub fn len(&self) -> usize {
        self.nodes.len() + self.pods.len() + self.objects.len()
    }

    /// Whether nothing was copied.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn copy_pending(&mut self, engine: &Engine, now: Time) {
        let handle = engine.handle(now);
        self.wall_offset = handle.wall_offset;
        let start = self.last_pending.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = handle.pending.range((start, Bound::Unbounded));
        let mut last = None;
        for (key, pod) in rest.by_ref().take(SLICE) {
            let nominated = engine.nominator().node_of(&pod.uid);
            let same = pod.nominated_node_name() == nominated;
            self.pods.push(match same {
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
        let cluster = engine.cache().cluster();
        let mut copied = 0;
        while copied < SLICE && self.next_node < cluster.table_len() {
            let node = NodeIx::new(self.next_node);
            let view = cluster.node(node);
            if cluster.nodes().contains(node) {
                let node = cluster.copy_of_node(node);
                copied += node.images.len() / IMAGES;
                self.nodes.push(node);
            }
            let name = cluster.node_name(node);
            for pod in view.pods() {
                copied += 1;
                self.pods.push(match pod.node_name.as_ref() == Some(name) {
                    true => pod.clone(),
                    false => Arc::new(Pod { node_name: Some(name.clone()), ..Pod::clone(pod) }),
                });
            }
            copied += 1;
            self.next_node += 1;
        }
        if self.next_node >= cluster.table_len() {
            self.step = Step::Objects;
        }
    }

    fn copy_objects(&mut self, engine: &Engine) {
        let cluster = engine.cache().cluster();
        let before = self.objects.len();
        let last = self.objects.last().or(self.last_taken.as_ref());
        let slice: Vec<_> = cluster.stored_objects_after(last).take(SLICE).collect();
        self.objects.extend(slice);
        if self.objects.len() < before + SLICE {
            self.step = Step::Complete;
        }
    }

    /// Builds an engine that knows the copy. Its queue is not that of the original.
    pub fn engine(self, config: EngineConfig, now: Time) -> Engine {
        let mut follower = Follower::new(config);
        follower.follow(self, now);
        follower.into_engine()
    }
}
