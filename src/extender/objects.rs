//! The pod and node objects that are sent to extenders.

use std::collections::HashMap;
use std::sync::Arc;

use engine::Change;
use framework::{Pod, PodKey};
use serde_json::value::RawValue;

/// The JSON of pods and nodes, if extenders need it. Objects have the same versions as in the
/// engine, because both see the same changes.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pods: HashMap<PodKey, Box<RawValue>>,
    nodes: HashMap<Arc<str>, Box<RawValue>>,
}

impl Objects {
    /// Keeps the object of a change, or forgets it.
    pub(super) fn see(&mut self, change: &Change, object: Option<Box<RawValue>>) {
        match (change, object) {
            (Change::Pod(pod), Some(object)) => {
                self.keep_pod(pod.key.clone(), object);
            }
            (Change::Pod(pod), None) => {
                self.pods.remove(&pod.key);
            }
            (Change::PodDeleted { key, .. }, _) => {
                self.pods.remove(key);
            }
            (Change::Node(node), Some(object)) => {
                self.keep_node(node.name.clone(), object);
            }
            (Change::NodeDeleted(name), _) => {
                self.nodes.remove(name);
            }
            _ => {}
        }
    }

    /// Keeps the JSON of a pod.
    pub(super) fn keep_pod(&mut self, pod: PodKey, object: Box<RawValue>) {
        self.pods.insert(pod, object);
    }

    /// Keeps the JSON of a node.
    pub(super) fn keep_node(&mut self, name: Arc<str>, object: Box<RawValue>) {
        self.nodes.insert(name, object);
    }

    /// Returns the JSON of a pod.
    ///
    /// # Errors
    /// The pod was deleted.
    pub(super) fn pod(&self, pod: &Pod) -> Result<&RawValue, String> {
        let object = self.pods.get(&pod.key);
        object.map(|object| &**object).ok_or_else(|| format!("pod {} does not exist", pod.key))
    }

    /// Returns the JSON of a node.
    ///
    /// # Errors
    /// The node was deleted.
    pub(super) fn node(&self, name: &str) -> Result<&RawValue, String> {
        let object = self.nodes.get(name);
        object.map(|object| &**object).ok_or_else(|| format!("node {name:?} does not exist"))
    }
}
