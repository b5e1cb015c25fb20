//! Writing a pod back: the object as it was read, on its node, as `kubectl create` takes it.

use serde_json::{Value, json};

/// What the API server fills in and does not accept, or does not want to see, in a new object.
const SERVER_OWNED: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];

/// The pod with `spec.nodeName` set, without its status and what belongs to one life of the object.
/// Everything else stays as it was, known to Loadmaster or not.
pub(crate) fn placed_pod(raw: &Value, node: &str) -> Value {
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
    fn the_pod_is_whole_but_for_what_the_server_owns() {
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
