//! Filling of JSON objects. Values of another type are left for validation.

use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Sets a field if it is absent.
pub(super) fn default(object: &mut Object, field: &str, value: impl Into<Value>) {
    if !object.contains_key(field) {
        object.insert(field.to_owned(), value.into());
    }
}

/// Sets the fields that are absent.
pub(super) fn defaults<const N: usize>(object: &mut Object, fields: [(&str, Value); N]) {
    for (field, value) in fields {
        default(object, field, value);
    }
}

/// Sets the texts that are absent.
pub(super) fn texts<const N: usize>(object: &mut Object, fields: [(&str, &str); N]) {
    fields.into_iter().for_each(|(field, text)| default(object, field, text));
}

/// Returns the object in a field, `None` if there is none.
pub(super) fn get<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    object.get_mut(field)?.as_object_mut()
}

/// Returns the object in a field, which is created if absent; `None` if the field has another type.
pub(super) fn ensure<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    default(object, field, Map::new());
    get(object, field)
}

/// Returns the objects in a list.
pub(super) fn items<'a>(
    object: &'a mut Object,
    field: &str,
) -> impl Iterator<Item = &'a mut Object> + use<'a> {
    let items = object.get_mut(field).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns the text in a field, empty if there is none.
pub(super) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a field is `true`.
pub(super) fn flag(object: &Object, field: &str) -> bool {
    object.get(field).and_then(Value::as_bool).unwrap_or_default()
}
