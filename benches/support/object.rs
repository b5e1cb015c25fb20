//! API objects, for the benchmarks.

use engine::Change;
use framework::{EventResource, ObjectKey};
use serde_json::{Value, json};

/// Returns an object of any kind.
pub(crate) fn object(
    kind: EventResource,
    namespace: &str,
    name: &str,
    mut object: Value,
) -> Change {
    let metadata = object.as_object_mut().expect("an object").entry("metadata");
    let metadata = metadata.or_insert_with(|| json!({}));
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(namespace);
    metadata["uid"] = json!(format!("uid-{name}"));
    metadata["resourceVersion"] = json!("1");
    let key = ObjectKey::namespaced(kind, namespace.into(), name.into());
    Change::decode(key, Some(object)).expect("the object decodes")
}
