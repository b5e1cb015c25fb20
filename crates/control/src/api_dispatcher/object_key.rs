//! The object of an API call.

use std::fmt;
use std::sync::Arc;

use framework::{PodKey, Write};

use super::flow::Flow;

/// The key of the object that an API call reads or writes. Calls with equal keys run one at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ObjectKey {
    Pod(PodKey),
    Other { resource: Arc<str>, namespace: Arc<str>, name: Arc<str> },
}

impl ObjectKey {
    pub(super) fn of_write(write: &Write) -> Self {
        let Write { api_version, resource, namespace, name, .. } = write;
        let (namespace, name) = (namespace.clone(), name.clone());
        match (&**api_version, &**resource) {
            ("v1", "pods") => Self::Pod(PodKey { namespace, name }),
            _ => Self::Other { resource: resource.clone(), namespace, name },
        }
    }

    /// Returns the flow of calls on the object, or the part of it with this name.
    pub(super) fn flow(&self, part: Arc<str>) -> Flow {
        match self {
            Self::Pod(pod) => {
                Flow::Objects { resource: "pods".into(), namespace: pod.namespace.clone(), part }
            }
            Self::Other { resource, namespace, .. } => {
                let (resource, namespace) = (resource.clone(), namespace.clone());
                Flow::Objects { resource, namespace, part }
            }
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => key.fmt(f),
            Self::Other { resource, namespace, name } if namespace.is_empty() => {
                write!(f, "{resource} {name}")
            }
            Self::Other { resource, namespace, name } => {
                write!(f, "{resource} {namespace}/{name}")
            }
        }
    }
}
