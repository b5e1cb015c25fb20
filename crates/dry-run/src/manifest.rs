//! Writes a scheduled pod: the object as it was read, with its node, in a form that `kubectl
//! create` accepts.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A placed pod, to be written.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The pod as it was read.
    pub(crate) raw: Arc<RawValue>,
    /// Its node.
    pub(crate) node: Arc<str>,
}

impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object: Value =
            serde_json::from_str(self.raw.get()).map_err(serde::ser::Error::custom)?;
        placed_pod(&object, &self.node).serialize(serializer)
    }
}

/// Fields that the API server fills in and refuses or ignores in a new object.
const SERVER_OWNED: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];

/// Returns the pod with `spec.nodeName`, without its status and its server-side metadata. All other
/// fields stay unchanged, whether or not Loadmaster knows them.
fn placed_pod(raw: &Value, node: &str) -> Value {
    let mut pod = raw.as_object().cloned().unwrap_or_default();
    pod.remove("status");
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !SERVER_OWNED.contains(&field.as_str()));
    }
    let spec = pod.entry("spec").or_insert_with(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("nodeName".to_owned(), node.into());
    }
    Value::Object(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_keeps_all_fields_that_the_server_does_not_own() {
        let raw = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "uid": "1", "resourceVersion": "7", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [],
                "ownerReferences": [{"name": "rs"}], "annotations": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "fieldOfTheFuture": {"x": [1]}}]},
            "status": {"phase": "Pending"},
        });
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "ownerReferences": [{"name": "rs"}],
                "annotations": {"a": "b"}},
            "spec": {"nodeName": "n1",
                "containers": [{"name": "c", "image": "i", "fieldOfTheFuture": {"x": [1]}}]},
        });
        assert_eq!(placed_pod(&raw, "n1"), expected);
    }
}
