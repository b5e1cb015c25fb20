//! Fields of objects.

use serde_json::{Map, Value, json};

/// Returns a text; an absent one is empty.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the fields of an object in a field, which is made if it is absent; `None` if it is
/// something else.
pub(super) fn ensure<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let place = object.as_object_mut()?.entry(field).or_insert(Value::Null);
    if place.is_null() {
        *place = json!({});
    }
    place.as_object_mut()
}

/// Sets a field of the spec.
pub(super) fn set(pod: &mut Value, field: &str, value: Value) {
    if let Some(spec) = ensure(pod, "spec") {
        spec.insert(field.to_owned(), value);
    }
}

/// Returns the list in a field of the spec, or an empty one.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
