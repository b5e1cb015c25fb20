//! Objects of a test cluster, given as JSON.

use std::sync::Arc;

use api::{EventResource, ObjectKey};
use cluster::{Cluster, Object, ObjectUpdate};
use serde_json::Value;

/// A cluster that takes objects as JSON.
pub trait SetJson {
    /// Adds, replaces or (with `None`) removes an object. One that does not decode is ignored, as
    /// the decoder of the daemon does.
    fn set_json(
        &mut self,
        kind: &EventResource,
        namespace: &str,
        name: &str,
        object: Option<Arc<Value>>,
    ) -> ObjectUpdate;
}

impl SetJson for Cluster {
    fn set_json(
        &mut self,
        kind: &EventResource,
        namespace: &str,
        name: &str,
        object: Option<Arc<Value>>,
    ) -> ObjectUpdate {
        let key = ObjectKey::namespaced(kind.clone(), namespace.into(), name.into());
        let Some(object) = object else { return self.remove_object(&key) };
        match Object::decode(key.clone(), object) {
            Ok(object) => self.set_object(object),
            Err(_) => {
                let known = self.stored_object(&key);
                ObjectUpdate { old: known.clone(), new: known }
            }
        }
    }
}

/// Decodes an object, under the namespace and name in its metadata.
///
/// # Panics
/// The object does not decode.
pub fn object(kind: EventResource, json: impl Into<Arc<Value>>) -> Object {
    let json = json.into();
    let text = |field: &str| json["metadata"][field].as_str().unwrap_or_default().into();
    let key = ObjectKey::namespaced(kind, text("namespace"), text("name"));
    Object::decode(key, json).expect("the object decodes")
}
