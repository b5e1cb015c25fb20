//! Strategic merge patch: a merge patch that merges some lists by key, with directives.
//!
//! Directives: `$patch` (`replace`, `delete`, `merge`) in an object or a list item, `$retainKeys`
//! in an object, `$deleteFromPrimitiveList/FIELD` and `$setElementOrder/FIELD` beside a list.

use serde_json::{Map, Value};

use super::schema::{self, List};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Why a strategic merge patch does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum StrategicError {
    /// An item lacks the key of its list.
    #[error("map: {item} does not contain declared merge key: {key}")]
    KeyMissing { item: String, key: &'static str },
    /// The value of `$patch` is unknown.
    #[error("unknown patch type found: {0}")]
    Directive(String),
    /// The value of a directive has the wrong type.
    #[error("invalid patch format of {0}: a list is needed")]
    Shape(String),
    /// The patch sets a field that its `$retainKeys` removes.
    #[error("the field {0} is set but not in $retainKeys")]
    NotRetained(String),
}

type Object = Map<String, Value>;

/// Merges `patch` into the object `target`.
pub(super) fn merge(target: &mut Object, patch: &Object) -> Result<(), StrategicError> {
    merge_object(target, patch, "")
}

/// Merges into the object in the field `parent`.
fn merge_object(target: &mut Object, patch: &Object, parent: &str) -> Result<(), StrategicError> {
    match directive(patch)? {
        Some(Directive::Delete) => {
            target.clear();
            return Ok(());
        }
        Some(Directive::Replace) => {
            *target = patch.clone();
            target.remove(DIRECTIVE);
            return Ok(());
        }
        None => retain_keys(target, patch)?,
    }
    for (field, value) in patch {
        if let Some(list) = field.strip_prefix(DELETE_FROM_LIST) {
            delete_from_list(target, list, items(field, value)?);
        } else if !field.starts_with('$') {
            merge_field(target, field, value, parent)?;
        }
    }
    for (field, order) in patch {
        if let Some(list) = field.strip_prefix(ELEMENT_ORDER) {
            set_element_order(target, list, items(field, order)?, parent);
        }
    }
    Ok(())
}

fn merge_field(
    target: &mut Object,
    field: &str,
    patch: &Value,
    parent: &str,
) -> Result<(), StrategicError> {
    match patch {
        Value::Null => {
            target.remove(field);
        }
        Value::Object(patch) => {
            let deleted = matches!(directive(patch)?, Some(Directive::Delete));
            let current = target.entry(field).or_insert_with(|| Value::Object(Map::new()));
            if !current.is_object() {
                *current = Value::Object(Map::new());
            }
            if let Value::Object(current) = current {
                merge_object(current, patch, field)?;
            }
            if deleted {
                target.remove(field);
            }
        }
        Value::Array(patch) => {
            let current = target.entry(field).or_insert_with(|| Value::Array(Vec::new()));
            if !current.is_array() {
                *current = Value::Array(Vec::new());
            }
            if let Value::Array(current) = current {
                merge_list(current, patch, parent, field)?;
            }
        }
        scalar => {
            target.insert(field.to_owned(), scalar.clone());
        }
    }
    Ok(())
}

fn merge_list(
    current: &mut Vec<Value>,
    patch: &[Value],
    parent: &str,
    field: &str,
) -> Result<(), StrategicError> {
    match schema::list(parent, field) {
        List::Set => {
            let former = current.clone();
            for item in patch {
                if !current.contains(item) {
                    current.push(item.clone());
                }
            }
            put_patched_first(current, patch, &former, |item| Some(item));
            Ok(())
        }
        List::Map(keys) => match keys.strategic {
            Some(key) => merge_items(current, patch, field, key),
            None => replace(current, patch),
        },
        List::Atomic => replace(current, patch),
    }
}

fn replace(current: &mut Vec<Value>, patch: &[Value]) -> Result<(), StrategicError> {
    *current = patch.to_vec();
    Ok(())
}

/// Merges items by the value of `key`.
fn merge_items(
    current: &mut Vec<Value>,
    patch: &[Value],
    field: &str,
    key: &'static str,
) -> Result<(), StrategicError> {
    let former = current.clone();
    let mut merging = Vec::new();
    for item in patch {
        let Value::Object(object) = item else { return replace(current, patch) };
        match directive(object)? {
            // An item with `$patch: replace` alone clears the list.
            Some(Directive::Replace) if object.len() == 1 => current.clear(),
            Some(Directive::Delete) => {
                let name = key_of(item, key)?;
                current.retain(|other| other.get(key) != Some(name));
            }
            _ => merging.push(object),
        }
    }
    for patch in merging {
        let name = patch.get(key).ok_or_else(|| missing_key(patch, key))?;
        match current.iter_mut().find(|other| other.get(key) == Some(name)) {
            Some(Value::Object(existing)) => merge_object(existing, patch, field)?,
            _ => {
                let mut item = Map::new();
                merge_object(&mut item, patch, field)?;
                current.push(Value::Object(item));
            }
        }
    }
    put_patched_first(current, patch, &former, |item| item.get(key));
    Ok(())
}

/// Puts the items of a patch into its order, each before the other items that followed it in
/// `former`; new items go before all others.
fn put_patched_first(
    current: &mut Vec<Value>,
    patch: &[Value],
    former: &[Value],
    key: impl for<'b> Fn(&'b Value) -> Option<&'b Value>,
) {
    let position = |list: &[Value], item: &Value| {
        list.iter().position(|other| key(other).is_some() && key(other) == key(item))
    };
    let items = std::mem::take(current);
    let items = items.into_iter().map(|item| (position(former, &item).unwrap_or(0), item));
    let (mut patched, others): (Vec<_>, Vec<_>) =
        items.partition(|(_, item)| position(patch, item).is_some());
    patched.sort_by_key(|(_, item)| position(patch, item));
    *current = interleave(patched, others);
}

fn key_of<'a>(item: &'a Value, key: &'static str) -> Result<&'a Value, StrategicError> {
    item.get(key).ok_or_else(|| StrategicError::KeyMissing { item: item.to_string(), key })
}

fn missing_key(item: &Object, key: &'static str) -> StrategicError {
    StrategicError::KeyMissing { item: Value::Object(item.clone()).to_string(), key }
}

enum Directive {
    Replace,
    Delete,
}

/// Returns the `$patch` of an object, `None` for the default `merge`.
fn directive(patch: &Object) -> Result<Option<Directive>, StrategicError> {
    match patch.get(DIRECTIVE) {
        None => Ok(None),
        Some(Value::String(text)) if text == "merge" => Ok(None),
        Some(Value::String(text)) if text == "replace" => Ok(Some(Directive::Replace)),
        Some(Value::String(text)) if text == "delete" => Ok(Some(Directive::Delete)),
        Some(other) => Err(StrategicError::Directive(other.to_string())),
    }
}

fn items<'a>(directive: &str, value: &'a Value) -> Result<&'a [Value], StrategicError> {
    let items = value.as_array().map(Vec::as_slice);
    items.ok_or_else(|| StrategicError::Shape(directive.to_owned()))
}

/// Removes the fields that `$retainKeys` does not name. This keeps one member of a union.
fn retain_keys(target: &mut Object, patch: &Object) -> Result<(), StrategicError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keys = items(RETAIN_KEYS, keys)?;
    let retained = |field: &str| keys.iter().any(|key| key == field);
    if let Some(field) = patch.keys().find(|field| !field.starts_with('$') && !retained(field)) {
        return Err(StrategicError::NotRetained(field.clone()));
    }
    target.retain(|field, _| retained(field));
    Ok(())
}

fn delete_from_list(target: &mut Object, field: &str, deleted: &[Value]) {
    if let Some(Value::Array(current)) = target.get_mut(field) {
        current.retain(|item| !deleted.contains(item));
    }
}

/// Sorts the named items into that order. Other items keep their place relative to them.
fn set_element_order(target: &mut Object, field: &str, order: &[Value], parent: &str) {
    let Some(Value::Array(current)) = target.get_mut(field) else { return };
    let key = match schema::list(parent, field) {
        List::Map(keys) => keys.strategic,
        List::Set | List::Atomic => None,
    };
    let same = |item: &Value, wanted: &Value| match key {
        Some(key) => wanted.get(key).is_some() && item.get(key) == wanted.get(key),
        None => item == wanted,
    };
    let rank = |item: &Value| order.iter().position(|wanted| same(item, wanted));
    let items = std::mem::take(current).into_iter().enumerate();
    let (mut ordered, others): (Vec<_>, Vec<_>) = items.partition(|(_, item)| rank(item).is_some());
    ordered.sort_by_key(|(_, item)| rank(item));
    *current = interleave(ordered, others);
}

/// Merges two lists of (former index, item). An item of `second` goes first if its index is
/// smaller.
fn interleave(first: Vec<(usize, Value)>, second: Vec<(usize, Value)>) -> Vec<Value> {
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let mut second = second.into_iter().peekable();
    for (index, item) in first {
        while let Some((_, other)) = second.next_if(|(other, _)| *other < index) {
            merged.push(other);
        }
        merged.push(item);
    }
    merged.extend(second.map(|(_, item)| item));
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(target: Value, patch: Value) -> Result<Value, StrategicError> {
        let (Value::Object(mut target), Value::Object(patch)) = (target, patch) else {
            panic!("objects are patched with objects");
        };
        merge(&mut target, &patch).map(|()| Value::Object(target))
    }

    #[track_caller]
    fn check(target: Value, patch: Value, expected: Value) {
        assert_eq!(merged(target, patch), Ok(expected));
    }

    #[test]
    fn conditions_merge_by_type() {
        check(
            json!({"status": {"conditions": [{"type": "A", "status": "True", "reason": "r"}]}}),
            json!({"status": {"conditions": [{"type": "B"}, {"type": "A", "status": "False"}]}}),
            json!({"status": {"conditions": [
                {"type": "B"}, {"type": "A", "status": "False", "reason": "r"},
            ]}}),
        );
    }

    #[test]
    fn new_items_go_first_and_others_keep_their_order() {
        let list =
            |names: [&str; 4]| json!({"containers": names.map(|name| json!({"name": name}))});
        check(
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"containers": [{"name": "new"}, {"name": "b"}]}),
            list(["new", "a", "b", "c"]),
        );
    }

    #[test]
    fn container_ports_merge_by_container_port_and_service_ports_by_port() {
        check(
            json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}),
            json!({"spec": {"containers": [{"name": "c", "ports": [
                {"containerPort": 80, "hostPort": 8080}, {"containerPort": 81},
            ]}]}}),
            json!({"spec": {"containers": [{"name": "c", "ports": [
                {"containerPort": 80, "hostPort": 8080}, {"containerPort": 81},
            ]}]}}),
        );
        check(
            json!({"spec": {"ports": [{"port": 80, "name": "http"}]}}),
            json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
            json!({"spec": {"ports": [{"port": 80, "name": "http", "targetPort": 8080}]}}),
        );
    }

    /// kubectl taint and kubectl cordon.
    #[test]
    fn taints_and_tolerations_are_replaced() {
        for field in ["taints", "tolerations"] {
            check(
                json!({"spec": {field: [{"key": "a"}], "x": 1}}),
                json!({"spec": {field: [{"key": "b"}], "unschedulable": true}}),
                json!({"spec": {field: [{"key": "b"}], "x": 1, "unschedulable": true}}),
            );
        }
        check(
            json!({"spec": {"taints": [{"key": "a"}]}}),
            json!({"spec": {"taints": null}}),
            json!({"spec": {}}),
        );
    }

    #[test]
    fn items_are_deleted_by_key() {
        check(
            json!({"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"schedulingGates": [{"$patch": "delete", "name": "a"}]}}),
            json!({"spec": {"schedulingGates": [{"name": "b"}]}}),
        );
    }

    #[test]
    fn lists_and_objects_can_be_replaced() {
        check(
            json!({"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"volumes": [{"$patch": "replace"}, {"name": "c"}]}}),
            json!({"spec": {"volumes": [{"name": "c"}]}}),
        );
        check(
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}}),
            json!({"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        );
        check(
            json!({"spec": {"affinity": {"nodeAffinity": {}}}}),
            json!({"spec": {"affinity": {"$patch": "delete"}}}),
            json!({"spec": {}}),
        );
    }

    #[test]
    fn retain_keys_removes_the_other_members_of_a_union() {
        check(
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [
                {"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/"}},
            ]}}),
            json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
        );
    }

    #[test]
    fn finalizers_are_added_and_removed_one_by_one() {
        check(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {
                "finalizers": ["c", "b"],
                "$deleteFromPrimitiveList/finalizers": ["a"],
                "$setElementOrder/finalizers": ["c", "b"],
            }}),
            json!({"metadata": {"finalizers": ["c", "b"]}}),
        );
    }

    #[test]
    fn element_order_leaves_other_items_in_place() {
        check(
            json!({"spec": {"containers": [
                {"name": "x"}, {"name": "a"}, {"name": "y"}, {"name": "b"},
            ]}}),
            json!({"spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "n"}, {"name": "a"}],
                "containers": [{"name": "n"}],
            }}),
            json!({"spec": {"containers": [
                {"name": "x"}, {"name": "y"}, {"name": "b"}, {"name": "n"}, {"name": "a"},
            ]}}),
        );
    }

    #[test]
    fn malformed_patches_are_refused() {
        let refused = |patch| merged(json!({}), patch).unwrap_err();
        assert_eq!(
            refused(json!({"spec": {"containers": [{"image": "i"}]}})).to_string(),
            r#"map: {"image":"i"} does not contain declared merge key: name"#
        );
        assert_eq!(
            refused(json!({"spec": {"$patch": "nope"}})),
            StrategicError::Directive(r#""nope""#.to_owned())
        );
        assert_eq!(
            refused(json!({"$setElementOrder/x": 1})),
            StrategicError::Shape("$setElementOrder/x".to_owned())
        );
    }

    proptest! {
        #[test]
        fn a_patch_applied_twice_changes_nothing_more(
            target in pod(), patch in pod(),
        ) {
            let once = merged(target, patch.clone()).unwrap();
            prop_assert_eq!(merged(once.clone(), patch), Ok(once));
        }

        #[test]
        fn an_object_merged_with_itself_stays(target in pod()) {
            prop_assert_eq!(merged(target.clone(), target.clone()), Ok(target));
        }
    }

    /// Returns pods with lists of several kinds and distinct keys.
    fn pod() -> impl Strategy<Value = Value> {
        let names = || proptest::collection::btree_set("[a-c]", 0..3);
        (names(), names(), names(), 0..3i64).prop_map(|(containers, finalizers, tolerations, n)| {
            let container = |name| json!({"name": name, "image": n.to_string()});
            json!({
                "metadata": {"finalizers": finalizers},
                "spec": {
                    "containers": containers.into_iter().map(container).collect::<Vec<_>>(),
                    "tolerations": tolerations,
                    "priority": n,
                },
            })
        })
    }
}
