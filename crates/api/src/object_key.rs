use std::sync::Arc;

use crate::{EventResource, PodKey};

/// A reference to an object by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind; [`EventResource::Pod`] for every pod.
    pub kind: EventResource,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Returns the key of an object in a namespace.
    pub const fn namespaced(kind: EventResource, namespace: Arc<str>, name: Arc<str>) -> Self {
        Self { kind, namespace, name }
    }

    /// Returns the key of a cluster-scoped object.
    pub fn cluster_scoped(kind: EventResource, name: Arc<str>) -> Self {
        Self { kind, namespace: "".into(), name }
    }

    /// Returns the key of a pod.
    pub fn pod(key: &PodKey) -> Self {
        Self::namespaced(EventResource::Pod, key.namespace.clone(), key.name.clone())
    }
}
