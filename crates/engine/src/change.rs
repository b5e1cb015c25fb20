//! Changes: the state of API objects as the watches show it.

use std::sync::Arc;

use framework::{DecodeError, EventResource, Node, Object, ObjectKey, Pod, PodKey, Uid};
use serde_json::Value;

/// The new state of an API object, however it came about.
#[derive(Debug, Clone)]
pub enum Change {
    /// A node was added or changed.
    Node(Node),
    /// A node is gone.
    NodeDeleted(Arc<str>),
    /// A pod was added or changed.
    Pod(Box<Pod>),
    /// A pod is gone.
    PodDeleted {
        /// Namespace and name.
        key: PodKey,
        /// UID of the pod.
        uid: Uid,
    },
    /// An object of another kind was added or changed.
    Object(Box<Object>),
    /// An object of another kind is gone.
    ObjectDeleted(ObjectKey),
}

impl Change {
    /// Decodes the new state of an object of a kind other than node and pod; `None` if it is gone.
    ///
    /// # Errors
    /// A field that the scheduler reads has another shape.
    pub fn decode(
        key: ObjectKey,
        object: Option<impl Into<Arc<Value>>>,
    ) -> Result<Self, DecodeError> {
        Ok(match object {
            Some(json) => Self::Object(Box::new(Object::decode(key, json)?)),
            None => Self::ObjectDeleted(key),
        })
    }

    /// Returns the key of the object.
    pub(crate) fn object(&self) -> ObjectKey {
        match self {
            Self::Node(node) => ObjectKey::cluster_scoped(EventResource::Node, node.name.clone()),
            Self::NodeDeleted(name) => ObjectKey::cluster_scoped(EventResource::Node, name.clone()),
            Self::Pod(pod) => ObjectKey::pod(&pod.key),
            Self::PodDeleted { key, .. } => ObjectKey::pod(key),
            Self::Object(object) => object.key().clone(),
            Self::ObjectDeleted(key) => key.clone(),
        }
    }

    /// Returns the pod whose room is freed, now or after a while: a pod that is gone, has ended, or
    /// terminates on its node.
    pub(crate) fn ending_pod(&self) -> Option<&Uid> {
        match self {
            Self::Pod(pod) => {
                let ends = pod.terminal || (pod.lingers() && pod.node_name.is_some());
                ends.then_some(&pod.uid)
            }
            Self::PodDeleted { uid, .. } => Some(uid),
            _ => None,
        }
    }

    /// Returns the pod whose removal from its node is the next change of it.
    pub(crate) fn pod_to_be_removed(&self) -> Option<&Uid> {
        match self {
            Self::Pod(pod) if pod.removal_follows && !pod.terminal => Some(&pod.uid),
            _ => None,
        }
    }
}
