//! The object an effect works on.

use std::fmt;
use std::sync::Arc;

use framework::{PodKey, Write};

/// Effects on equal objects are carried out one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Pod(PodKey),
    Other { resource: Arc<str>, namespace: Arc<str>, name: Arc<str> },
}

impl Object {
    pub(super) fn of_write(write: &Write) -> Self {
        let Write { api_version, resource, namespace, name, .. } = write;
        let (namespace, name) = (namespace.clone(), name.clone());
        match (&**api_version, &**resource) {
            ("v1", "pods") => Self::Pod(PodKey { namespace, name }),
            _ => Self::Other { resource: resource.clone(), namespace, name },
        }
    }
}

impl fmt::Display for Object {
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
