//! Filling in JSON objects. Nothing here minds values of another shape: validation refuses them.

use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Sets a field that is absent.
pub(super) fn default(object: &mut Object, field: &str, value: impl Into<Value>) {
    object.entry(field).or_insert_with(|| value.into());
}

/// Sets those of the fields that are absent.
pub(super) fn defaults<const N: usize>(object: &mut Object, fields: [(&str, Value); N]) {
    for (field, value) in fields {
        default(object, field, value);
    }
}

/// The object in a field, if there is one.
pub(super) fn get<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    object.get_mut(field)?.as_object_mut()
}

/// The object in a field, made if the field is absent; `None` if something else is there.
pub(super) fn ensure<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    object.entry(field).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// The objects in a list.
pub(super) fn items<'a>(
    object: &'a mut Object,
    field: &str,
) -> impl Iterator<Item = &'a mut Object> + use<'a> {
    let items = object.get_mut(field).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The text in a field, empty if there is none.
pub(super) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a field is `true`.
pub(super) fn flag(object: &Object, field: &str) -> bool {
    object.get(field).and_then(Value::as_bool).unwrap_or_default()
}
