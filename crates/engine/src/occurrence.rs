//! An event with its objects, kept for as long as a pod in flight may need it.

use std::sync::Arc;

use framework::{ClusterEvent, EventObjects, Node, Pod};
use serde_json::Value;

/// The objects of an event, shared.
#[derive(Debug, Clone)]
pub enum Objects {
    /// A pod before and after.
    Pod(Option<Arc<Pod>>, Option<Arc<Pod>>),
    /// A node before and after.
    Node(Option<Arc<Node>>, Option<Arc<Node>>),
    /// An object of another kind before and after.
    Other(Option<Arc<Value>>, Option<Arc<Value>>),
    /// None.
    None,
}

/// Something that happened in the cluster.
#[derive(Debug, Clone)]
pub struct Occurrence {
    /// What.
    pub event: ClusterEvent,
    /// To which object.
    pub objects: Objects,
}

impl Occurrence {
    /// The objects as hints see them.
    pub fn objects(&self) -> EventObjects<'_> {
        match &self.objects {
            Objects::Pod(old, new) => {
                EventObjects::Pod { old: old.as_deref(), new: new.as_deref() }
            }
            Objects::Node(old, new) => {
                EventObjects::Node { old: old.as_deref(), new: new.as_deref() }
            }
            Objects::Other(old, new) => {
                EventObjects::Other { old: old.as_deref(), new: new.as_deref() }
            }
            Objects::None => EventObjects::None,
        }
    }
}
