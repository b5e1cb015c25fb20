//! The objects extenders are sent, as the API server has them.

use std::collections::HashMap;
use std::sync::Arc;

use engine::Change;
use framework::{Pod, PodKey};
use serde_json::value::RawValue;

use crate::wire::Update;

/// Pods and nodes in JSON, as far as they are kept. They are what the engine knows, in the same
/// versions, because both take in the same updates.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pods: HashMap<PodKey, Box<RawValue>>,
    nodes: HashMap<Arc<str>, Box<RawValue>>,
}

impl Objects {
    /// Takes the object out of an update, and gives the rest.
    pub(super) fn take(&mut self, update: Update) -> Change {
        let Update { change, object } = update;
        match (&change, object) {
            (Change::Pod(pod), Some(object)) => {
                self.pods.insert(pod.key.clone(), object);
            }
            (Change::Pod(pod), None) => {
                self.pods.remove(&pod.key);
            }
            (Change::PodDeleted { key, .. }, _) => {
                self.pods.remove(key);
            }
            (Change::Node(node), Some(object)) => {
                self.nodes.insert(node.name.clone(), object);
            }
            (Change::NodeDeleted(name), _) => {
                self.nodes.remove(name);
            }
            _ => {}
        }
        change
    }

    pub(super) fn pod(&self, pod: &Pod) -> Result<&RawValue, String> {
        let object = self.pods.get(&pod.key);
        object.map(|object| &**object).ok_or_else(|| format!("pod {} is gone", pod.key))
    }

    pub(super) fn node(&self, name: &str) -> Result<&RawValue, String> {
        let object = self.nodes.get(name);
        object.map(|object| &**object).ok_or_else(|| format!("node {name:?} is gone"))
    }
}
