//! Changes: the state of API objects as the watches show it.

use std::sync::Arc;

use framework::{EventResource, Node, ObjectKey, Pod, PodKey, Uid};
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
    /// An object of another kind was added or changed, or is gone.
    Object {
        /// Its kind.
        kind: EventResource,
        /// Its namespace; empty for cluster-scoped objects.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// The object, or `None` if it is gone.
        object: Option<Arc<Value>>,
    },
}

impl Change {
    /// Returns the key of the object.
    pub(crate) fn object(&self) -> ObjectKey {
        match self {
            Self::Node(node) => ObjectKey::cluster_scoped(EventResource::Node, node.name.clone()),
            Self::NodeDeleted(name) => ObjectKey::cluster_scoped(EventResource::Node, name.clone()),
            Self::Pod(pod) => ObjectKey::pod(&pod.key),
            Self::PodDeleted { key, .. } => ObjectKey::pod(key),
            Self::Object { kind, namespace, name, .. } => {
                ObjectKey::namespaced(kind.clone(), namespace.clone(), name.clone())
            }
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
