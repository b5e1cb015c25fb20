//! The decoded objects that a simulation takes from its caller.

use std::sync::Arc;

use engine::Change;
use framework::{EventResource, ObjectKey, Pod, Time};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object of a kind that a plugin reads, other than nodes and pods.
#[derive(Debug, Clone)]
pub struct Object {
    /// The kind.
    pub kind: EventResource,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The fields that are kept.
    pub object: Arc<Value>,
}

impl Object {
    /// Returns the change that shows the object; `None` if it does not decode, so that no scheduler
    /// would see it.
    pub(crate) fn change(self) -> Option<Change> {
        let Self { kind, namespace, name, object } = self;
        Change::decode(ObjectKey::namespaced(kind, namespace, name), Some(object)).ok()
    }
}

/// An object of a dump, not parsed.
#[derive(Debug, Clone)]
pub struct DumpedObject {
    /// The kind.
    pub kind: EventResource,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The fields that are kept, as text: parsed, they take several times the memory.
    pub raw: Arc<RawValue>,
}

impl DumpedObject {
    pub(crate) fn parsed(self) -> Object {
        let Self { kind, namespace, name, raw } = self;
        let object: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        Object { kind, namespace, name, object: object.into() }
    }
}

/// A pod of a dump, decoded and as it was read.
#[derive(Debug, Clone)]
pub struct DumpedPod {
    /// The fields that scheduling reads.
    pub pod: Pod,
    /// The object as it was read; pending pods need it, and pods whose claims are made from
    /// templates. As text it takes a fraction of the memory.
    pub raw: Option<Arc<RawValue>>,
    /// The creation time.
    pub created: Option<Time>,
    /// The controller.
    pub owner: Option<Owner>,
}

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

impl DumpedPod {
    /// Returns whether the pod waits for a node.
    pub(crate) fn is_pending(&self) -> bool {
        self.pod.node_name.is_none()
    }

    /// Returns the object as it was read.
    pub(crate) fn object(&self) -> Value {
        let raw = self.raw.as_ref();
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}
