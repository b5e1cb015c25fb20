//! Metadata of objects.

use serde_json::{Map, Value};

use crate::resources::Resource;

/// Returns `metadata.name`, empty if unset.
pub(crate) fn name(object: &Value) -> &str {
    field(object, "name")
}

/// Returns `metadata.namespace`, empty if unset.
pub(crate) fn namespace(object: &Value) -> &str {
    field(object, "namespace")
}

/// Returns `metadata.uid`, empty if unset.
pub(crate) fn uid(object: &Value) -> &str {
    field(object, "uid")
}

/// Returns `metadata.resourceVersion`, empty if unset.
pub(crate) fn resource_version(object: &Value) -> &str {
    field(object, "resourceVersion")
}

/// Returns `metadata.generation`, if set.
pub(crate) fn generation(object: &Value) -> Option<i64> {
    object.get("metadata")?.get("generation")?.as_i64()
}

/// Returns whether the object has finalizers.
pub(crate) fn has_finalizers(object: &Value) -> bool {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    finalizers.and_then(Value::as_array).is_some_and(|finalizers| !finalizers.is_empty())
}

/// Returns the fields of the object; any other value becomes an empty object.
pub(crate) fn fields_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    object.as_object_mut().expect("made an object just now")
}

/// Returns the metadata of the object, created if missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    fields_mut(fields_mut(object).entry("metadata").or_insert(Value::Null))
}

/// Sets a field of the metadata.
pub(crate) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    metadata_mut(object).insert(field.to_owned(), value.into());
}

/// Writes `kind` and `apiVersion` of the resource.
pub(crate) fn set_kind(object: &mut Value, resource: &Resource) {
    let fields = fields_mut(object);
    fields.insert("kind".to_owned(), resource.kind.into());
    fields.insert("apiVersion".to_owned(), resource.api_version().into());
}

fn field<'a>(object: &'a Value, name: &str) -> &'a str {
    let metadata = object.get("metadata");
    metadata.and_then(|metadata| metadata.get(name)?.as_str()).unwrap_or_default()
}
