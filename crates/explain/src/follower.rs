//! An engine that follows the cluster from copy to copy.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use engine::ports::Ports;
use engine::{Change, Engine, EngineConfig};
use framework::{EventResource, Node, ObjectName, Pod, StoredObject, Time, Uid};
use rustc_hash::FxHashMap;

use crate::copy::ClusterCopy;

/// An engine of one's own that knows the last copy of the cluster.
///
/// The next copy costs only its differences: pods of a running engine that have not changed are the same
/// allocation in both copies.
pub struct Follower {
    engine: Engine,
    pods: FxHashMap<Uid, Known>,
    nodes: BTreeMap<Arc<str>, Node>,
    objects: BTreeMap<(EventResource, ObjectName), StoredObject>,
    /// Number of the last copy.
    copy: u64,
}

/// A pod, and the last copy that had it.
struct Known {
    pod: Arc<Pod>,
    copy: u64,
}

impl Follower {
    /// Creates an engine that knows nothing.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            engine: Engine::new(config),
            pods: FxHashMap::default(),
            nodes: BTreeMap::new(),
            objects: BTreeMap::new(),
            copy: 0,
        }
    }

    /// Returns the engine. A caller that changes it takes its changes back.
    pub const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the engine alone.
    pub(crate) fn into_engine(self) -> Engine {
        self.engine
    }

    /// Brings the engine to the state of the copy. Its queue is not that of the original. Returns the number of
    /// objects that differ from the last copy.
    pub fn follow(&mut self, copy: ClusterCopy, now: Time) -> usize {
        let ClusterCopy { nodes, pods, objects, wall_offset, .. } = copy;
        self.engine.set_wall_offset(wall_offset);
        let (gone, placed) = self.pods_that_differ(pods);
        let (lost_nodes, nodes) = self.nodes_that_differ(nodes);
        let objects = self.objects_that_differ(objects);
        // One at a time: all copies at once would take fresh memory, which costs more than the copies.
        let placed = placed.into_iter();
        let placed = placed.map(|pod| Change::Pod(Box::new(Arc::unwrap_or_clone(pod))));
        let mut count = 0;
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        for change in gone.into_iter().chain(objects).chain(lost_nodes).chain(nodes).chain(placed) {
            self.engine.apply(change, now, ports);
            count += 1;
        }
        // Nothing is carried out.
        self.engine.take_effects();
        count
    }

    /// Returns the ends of pods that are gone or differ, and the pods that are new or differ. A pod that the copy has
    /// twice was placed while the copy was made, and counts as last seen.
    fn pods_that_differ(&mut self, pods: Vec<Arc<Pod>>) -> (Vec<Change>, Vec<Arc<Pod>>) {
        self.copy += 1;
        self.pods.reserve(pods.len().saturating_sub(self.pods.len()));
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        for pod in pods.into_iter().rev() {
            match self.pods.entry(pod.uid.clone()) {
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    if std::mem::replace(&mut known.copy, self.copy) == self.copy {
                        continue;
                    }
                    if Arc::ptr_eq(&known.pod, &pod) || known.pod == pod {
                        continue;
                    }
                    gone.push(end_of(&known.pod));
                    known.pod = pod.clone();
                }
                Entry::Vacant(entry) => {
                    entry.insert(Known { pod: pod.clone(), copy: self.copy });
                }
            }
            changed.push(pod);
        }
        let copy = self.copy;
        let ended = self.pods.extract_if(|_, known| known.copy != copy);
        let mut ended: Vec<Arc<Pod>> = ended.map(|(_, known)| known.pod).collect();
        ended.sort_unstable_by(|a, b| (&a.key, &a.uid).cmp(&(&b.key, &b.uid)));
        gone.extend(ended.iter().map(|pod| end_of(pod)));
        changed.reverse();
        (gone, changed)
    }

    fn nodes_that_differ(&mut self, nodes: Vec<Node>) -> (Vec<Change>, Vec<Change>) {
        let mut old = std::mem::take(&mut self.nodes);
        let mut changed = Vec::new();
        for node in nodes {
            if old.remove(&node.name).as_ref() != Some(&node) {
                changed.push(Change::Node(node.clone()));
            }
            self.nodes.insert(node.name.clone(), node);
        }
        (old.into_keys().map(Change::NodeDeleted).collect(), changed)
    }

    fn objects_that_differ(&mut self, objects: Vec<StoredObject>) -> Vec<Change> {
        let mut old = std::mem::take(&mut self.objects);
        let mut changed = Vec::new();
        for object in objects {
            let key = (object.kind.clone(), object.name.clone());
            if !old.remove(&key).is_some_and(|known| known.is_same(&object)) {
                changed.push(object_change(&key, object.json()));
            }
            self.objects.insert(key, object);
        }
        old.keys().map(|key| object_change(key, None)).chain(changed).collect()
    }
}

fn end_of(pod: &Pod) -> Change {
    Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() }
}

pub(crate) fn object_change(
    (kind, name): &(EventResource, ObjectName),
    object: Option<Arc<serde_json::Value>>,
) -> Change {
    let ObjectName { namespace, name } = name.clone();
    Change::Object { kind: kind.clone(), namespace, name, object }
}
