//! Fields of objects of any shape: reading a missing field returns nothing, writing one creates its
//! parents.

use framework::Time;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Decodes the object; `None` if it has another shape.
pub(crate) fn read<T: DeserializeOwned>(object: &Value) -> Option<T> {
    T::deserialize(object).ok()
}

/// Returns the value at a JSON pointer. Unlike `Value::pointer` it makes no copy of names without
/// escapes.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return object.pointer(pointer);
    }
    let Some(names) = pointer.strip_prefix('/') else {
        return pointer.is_empty().then_some(object);
    };
    names.split('/').try_fold(object, |value, name| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(entries) => entries.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Returns the text at a JSON pointer, empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number at a JSON pointer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    at(object, pointer).and_then(Value::as_i64)
}

/// Returns the entries of the list at a JSON pointer.
pub(crate) fn entries<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    at(object, pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns whether the object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Sets the field at `path`; values of another type on the way are replaced by objects.
pub(crate) fn put(object: &mut Value, path: &[&str], value: Value) {
    *place(object, path) = value;
}

/// Removes the field `key` of the object at `path`.
pub(crate) fn remove(object: &mut Value, path: &[&str], key: &str) {
    if let Some(fields) = place(object, path).as_object_mut() {
        fields.remove(key);
    }
}

fn place<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(object, |place, &key| {
        if !place.is_object() {
            *place = json!({});
        }
        &mut place[key]
    })
}

/// Returns the reference to `owner` as a controller.
pub(crate) fn controller_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns the reference to the controller that manages `object`, if there is one.
pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    entries(object, "/metadata/ownerReferences").find(|owner| owner["controller"] == true)
}

/// Returns the status of a condition, for example `True`; empty if there is none of this type.
pub(crate) fn condition_status<'a>(object: &'a Value, of_type: &str) -> &'a str {
    let mut conditions = entries(object, "/status/conditions");
    conditions.find(|own| own["type"] == of_type).map_or("", |own| text(own, "/status"))
}

/// Sets the condition of the same `type`. `lastTransitionTime` becomes now if the status changes.
pub(crate) fn set_condition(object: &mut Value, mut condition: Value, now: Time) {
    let conditions = place(object, &["status", "conditions"]);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(list) = conditions else { return };
    let old = list.iter_mut().find(|own| own["type"] == condition["type"]);
    let same = old.as_ref().filter(|own| own["status"] == condition["status"]);
    condition["lastTransitionTime"] = match same.and_then(|own| own.get("lastTransitionTime")) {
        Some(time) if !time.is_null() => time.clone(),
        _ => json!(timestamp(now)),
    };
    match old {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}

/// Formats a time like `metav1.Time`: whole seconds.
pub(crate) fn timestamp(time: Time) -> String {
    time.floor_to_second().to_string()
}

/// Formats a time like `metav1.MicroTime`.
pub(crate) fn micro_timestamp(time: Time) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_find_what_those_of_json_find() {
        let object = json!({"a": [{"b": 1}, null], "x/y": {"~": 2}, "": {"": 3}});
        for pointer in
            ["", "a", "/a", "/a/0/b", "/a/1", "/a/2", "/a/b", "/x~1y/~0", "/", "//", "/z/z"]
        {
            assert_eq!(at(&object, pointer), object.pointer(pointer), "{pointer}");
        }
    }

    #[test]
    fn writing_a_field_creates_its_parents() {
        for mut object in [json!({}), json!(null), json!({"status": "odd"}), json!([1])] {
            put(&mut object, &["status", "phase"], json!("Running"));
            assert_eq!(object, json!({"status": {"phase": "Running"}}));
            remove(&mut object, &["status"], "phase");
            assert_eq!(object, json!({"status": {}}));
        }
    }

    #[test]
    fn conditions_keep_their_transition_time_until_their_status_changes() {
        let mut pod = json!({});
        let ready = |status: &str| json!({"type": "Ready", "status": status});
        let since = |pod: &Value| text(pod, "/status/conditions/0/lastTransitionTime").to_owned();
        set_condition(&mut pod, ready("True"), Time::from_secs(10));
        set_condition(&mut pod, ready("True"), Time::from_secs(20));
        assert_eq!(since(&pod), "1970-01-01T00:00:10Z");
        set_condition(&mut pod, ready("False"), Time::from_secs(30));
        assert_eq!(since(&pod), "1970-01-01T00:00:30Z");
        assert_eq!(condition_status(&pod, "Ready"), "False");
        assert_eq!(condition_status(&pod, "Other"), "");
        assert_eq!(pod["status"]["conditions"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn micro_timestamps_have_six_digits() {
        assert_eq!(micro_timestamp(Time::from_nanos(1_500_000_000)), "1970-01-01T00:00:01.500000Z");
    }
}
