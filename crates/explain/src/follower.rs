//! An engine that follows the cluster from copy to copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::ports::Ports;
use engine::{Change, Engine, EngineConfig, Input};
use framework::{Object, ObjectKey, Pod, PodKey, Time, Uid};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::copy::{ClusterCopy, CopiedNodes, Row};

/// An engine of one's own that knows the last copy of the cluster.
///
/// The next copy, and the engine that takes it over, cost only its differences: a node whose
/// generation is the same and whose pods are the same allocations has not changed.
pub struct Follower {
    engine: Engine,
    nodes: Arc<CopiedNodes>,
    /// The places of nodes by name.
    places: FxHashMap<Arc<str>, usize>,
    pending: BTreeMap<PodKey, Arc<Pod>>,
    objects: BTreeMap<ObjectKey, Object>,
}

/// Pods that differ from the last copy.
#[derive(Default)]
struct ChangedPods {
    /// The ends of pods that are gone or differ.
    gone: Vec<Change>,
    gone_uids: FxHashSet<Uid>,
    /// The pods that are new or differ.
    changed: Vec<Arc<Pod>>,
}

impl ChangedPods {
    fn end(&mut self, pod: &Pod) {
        if self.gone_uids.insert(pod.uid.clone()) {
            self.gone.push(Change::PodDeleted { key: pod.key.clone(), uid: pod.uid.clone() });
        }
    }
}

impl Follower {
    /// Creates an engine that knows nothing.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            engine: Engine::new(config),
            nodes: Arc::default(),
            places: FxHashMap::default(),
            pending: BTreeMap::new(),
            objects: BTreeMap::new(),
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

    /// Returns what the next copy compares with.
    pub const fn known(&self) -> &Arc<CopiedNodes> {
        &self.nodes
    }

    /// Brings the engine to the state of the copy. Its queue differs from the queue of the
    /// original. Returns the number of objects that differ from the last copy; `None` if the copy
    /// was made for another follower or before the last one.
    pub fn follow(&mut self, copy: ClusterCopy, now: Time) -> Option<usize> {
        let is_own = |base: &Arc<CopiedNodes>| Arc::ptr_eq(base, &self.nodes);
        if copy.base.as_ref().is_some_and(|base| !is_own(base)) {
            return None;
        }
        let ClusterCopy { base, mut rows, pending, objects, .. } = copy;
        if base.is_none() {
            // The table of another engine may be shorter.
            let rest = rows.len()..self.nodes.rows.len();
            rows.extend(rest.map(|place| (place, Row::default())));
        }
        drop(base);
        self.engine.step(
            Input::WallOffset(copy.wall_offset),
            Time::ZERO,
            &mut Ports { extenders: &mut (), probe: &mut () },
        );
        let ChangedPods { gone, changed, .. } = self.pods_that_differ(&rows, pending);
        let (lost_nodes, nodes) = self.nodes_that_differ(&rows);
        let objects = match copy.has_known_objects {
            true => Vec::new(),
            false => self.objects_that_differ(objects),
        };
        self.keep(rows, copy.objects_version);
        // One at a time: all copies at once would take fresh memory, which costs more than the
        // copies.
        let placed = changed.into_iter();
        let placed = placed.map(|pod| Change::Pod(Box::new(Arc::unwrap_or_clone(pod))));
        let mut count = 0;
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        for change in gone.into_iter().chain(objects).chain(lost_nodes).chain(nodes).chain(placed) {
            self.engine.step(Input::Change(change), now, ports);
            count += 1;
        }
        // Nothing is carried out.
        self.engine.take_effects();
        Some(count)
    }

    /// Compares the pods. A pod that the copy has twice was placed or moved while the copy was
    /// made, and counts as last seen.
    fn pods_that_differ(&mut self, rows: &[(usize, Row)], pending: Vec<Arc<Pod>>) -> ChangedPods {
        let mut pods = ChangedPods::default();
        // Pods that are not at the same place of the same row.
        let mut moved: Vec<&Arc<Pod>> = Vec::new();
        let mut left: Vec<(&Arc<str>, &Arc<Pod>)> = Vec::new();
        for (place, row) in rows {
            let known = self.nodes.rows.get(*place).map_or(&[][..], |known| &known.pods);
            for slot in 0..known.len().max(row.pods.len()) {
                match (known.get(slot), row.pods.get(slot)) {
                    (Some(known), Some(pod)) if Arc::ptr_eq(known, pod) => {}
                    (known, pod) => {
                        moved.extend(pod);
                        left.extend(known.and_then(|own| Some((own.node_name.as_ref()?, own))));
                    }
                }
            }
        }
        let placed: FxHashMap<&Uid, &Arc<Pod>> = moved.iter().map(|pod| (&pod.uid, *pod)).collect();
        let mut same: FxHashSet<&Uid> = FxHashSet::default();
        for (node, known) in left {
            match placed.get(&known.uid) {
                Some(pod) if Arc::ptr_eq(pod, known) || *pod == known => {
                    same.insert(&known.uid);
                }
                Some(_) => pods.end(known),
                // Another row may have the pod by now.
                None if self.node_of(&known.uid).is_some_and(|own| own == node) => pods.end(known),
                None => {}
            }
        }
        let mut known_pending = std::mem::take(&mut self.pending);
        for pod in pending {
            let is_placed = placed.contains_key(&pod.uid)
                || (self.node_of(&pod.uid).is_some() && !pods.gone_uids.contains(&pod.uid));
            if is_placed {
                continue;
            }
            let known = known_pending.remove(&pod.key);
            match known {
                Some(known) if Arc::ptr_eq(&known, &pod) || known == pod => {}
                known => {
                    known.iter().for_each(|known| pods.end(known));
                    pods.changed.push(pod.clone());
                }
            }
            self.pending.insert(pod.key.clone(), pod);
        }
        known_pending.values().for_each(|known| pods.end(known));
        let is_last_seen = |pod: &&Arc<Pod>| {
            placed.get(&pod.uid).is_some_and(|last| Arc::ptr_eq(last, pod))
                && !same.contains(&pod.uid)
        };
        pods.changed.extend(moved.iter().copied().filter(is_last_seen).cloned());
        pods
    }

    /// Returns the name of the node on which the engine has the pod.
    fn node_of(&self, pod: &Uid) -> Option<&Arc<str>> {
        let world = self.engine.world();
        world.placed(pod).map(|placed| world.cluster().node_name(placed.node))
    }

    fn nodes_that_differ(&self, rows: &[(usize, Row)]) -> (Vec<Change>, Vec<Change>) {
        let names: FxHashSet<&Arc<str>> =
            rows.iter().filter_map(|(_, row)| Some(&row.node.as_ref()?.name)).collect();
        let (mut lost, mut changed) = (Vec::new(), Vec::new());
        for (place, row) in rows {
            let known = self.nodes.rows.get(*place).and_then(|known| known.node.as_ref());
            if let Some(known) = known
                && !names.contains(&known.name)
                && self.places.get(&known.name) == Some(place)
            {
                lost.push(Change::NodeDeleted(known.name.clone()));
            }
            if let Some(node) = &row.node
                && known != Some(node)
            {
                changed.push(Change::Node(node.clone()));
            }
        }
        (lost, changed)
    }

    /// Keeps the copied rows for the next comparison.
    fn keep(&mut self, rows: Vec<(usize, Row)>, objects: u64) {
        let nodes = Arc::make_mut(&mut self.nodes);
        nodes.objects = objects;
        let length = rows.last().map_or(0, |(place, _)| place + 1);
        if nodes.rows.len() < length {
            nodes.rows.resize(length, Row::default());
        }
        for (place, row) in &rows {
            if let Some(known) = &nodes.rows[*place].node
                && row.node.as_ref().is_none_or(|node| node.name != known.name)
                && self.places.get(&known.name) == Some(place)
            {
                self.places.remove(&known.name);
            }
        }
        for (place, row) in rows {
            if let Some(node) = &row.node {
                self.places.insert(node.name.clone(), place);
            }
            nodes.rows[place] = row;
        }
    }

    fn objects_that_differ(&mut self, objects: Vec<Object>) -> Vec<Change> {
        let mut old = std::mem::take(&mut self.objects);
        let mut changed = Vec::new();
        for object in objects {
            let key = object.key().clone();
            if old.remove(&key).as_ref() != Some(&object) {
                changed.push(Change::Object(Box::new(object.clone())));
            }
            self.objects.insert(key, object);
        }
        old.into_keys().map(Change::ObjectDeleted).chain(changed).collect()
    }
}
