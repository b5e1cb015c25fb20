//! Sets of fields as `fieldsV1` writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::schema::{self, Keys, List};

/// The key of a list item itself, beside its fields.
const ITEM: &str = ".";

/// A tree of fields. Its keys are `f:FIELD`, `k:{KEYS}` for an item of a list that merges by keys,
/// `v:VALUE` for an item of a set, and `.` for the item itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct FieldSet(BTreeMap<String, FieldSet>);

/// The keys that lead to a field.
pub(super) type Path = Vec<String>;

impl FieldSet {
    /// Returns the fields that an object sets, except its identity.
    pub(super) fn of(object: &Value) -> Self {
        let mut fields = object.as_object().map(|object| Self::of_object(object, ""));
        let set = fields.get_or_insert_default();
        for identity in ["apiVersion", "kind"] {
            set.0.remove(&format!("f:{identity}"));
        }
        if let Some(metadata) = set.0.get_mut("f:metadata") {
            for identity in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
                metadata.0.remove(&format!("f:{identity}"));
            }
            if metadata.is_empty() {
                set.0.remove("f:metadata");
            }
        }
        fields.unwrap_or_default()
    }

    fn of_object(object: &Map<String, Value>, parent: &str) -> Self {
        let fields = object.iter();
        let fields = fields
            .map(|(field, value)| (format!("f:{field}"), Self::of_field(value, parent, field)));
        Self(fields.collect())
    }

    fn of_field(value: &Value, parent: &str, field: &str) -> Self {
        match value {
            Value::Object(object) if !schema::is_atomic_object(parent, field) => {
                Self::of_object(object, field)
            }
            Value::Array(items) => match schema::list(parent, field) {
                List::Map(keys) => Self::of_items(items, keys, field),
                List::Set => {
                    Self(items.iter().map(|item| (format!("v:{item}"), Self::default())).collect())
                }
                List::Atomic => Self::default(),
            },
            _ => Self::default(),
        }
    }

    fn of_items(items: &[Value], keys: Keys, field: &str) -> Self {
        let objects = items.iter().filter_map(Value::as_object);
        let items = objects.map(|item| {
            let mut fields = Self::of_object(item, field);
            fields.0.insert(ITEM.to_owned(), Self::default());
            (format!("k:{}", Value::Object(key_of(item, keys))), fields)
        });
        Self(items.collect())
    }

    /// Returns whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the paths to all leaves, an item before its fields.
    pub(super) fn leaves(&self) -> Vec<Path> {
        let mut leaves = Vec::new();
        self.collect_leaves(&mut Vec::new(), &mut leaves);
        leaves
    }

    fn collect_leaves(&self, path: &mut Path, leaves: &mut Vec<Path>) {
        for (element, below) in &self.0 {
            path.push(element.clone());
            if below.is_empty() {
                leaves.push(path.clone());
            }
            below.collect_leaves(path, leaves);
            path.pop();
        }
    }

    /// Returns whether the field at `path` is in the set.
    pub(super) fn contains(&self, path: &[String]) -> bool {
        let mut below = Some(self);
        for element in path {
            below = below.and_then(|set| set.0.get(element));
        }
        below.is_some()
    }

    /// Removes the field at `path` and the parents that become empty.
    pub(super) fn remove(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else { return };
        let Some(below) = self.0.get_mut(first) else { return };
        below.remove(rest);
        if rest.is_empty() || below.is_empty() {
            self.0.remove(first);
        }
    }
}

/// Returns the key of a list item.
pub(super) fn key_of(item: &Map<String, Value>, keys: Keys) -> Map<String, Value> {
    let value =
        |key: &str| item.get(key).cloned().or_else(|| schema::key_default(key).map(Value::from));
    keys.apply.iter().filter_map(|key| Some(((*key).to_owned(), value(key)?))).collect()
}

/// Returns the value at a path.
pub(super) fn get<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().filter(|element| *element != ITEM).try_fold(object, |value, element| {
        match split(element) {
            (Kind::Field, field) => value.get(field),
            (_, wanted) => value.get(position(value, element, wanted)?),
        }
    })
}

/// Removes the value at a path and the parents that become empty.
pub(super) fn remove(object: &mut Value, path: &[String]) {
    let Some((element, rest)) = path.split_first() else { return };
    let last = rest.is_empty() || rest == [ITEM];
    let (kind, wanted) = split(element);
    let index = position(object, element, wanted);
    let below = match kind {
        Kind::Field => object.get_mut(wanted),
        Kind::Key | Kind::Value => index.and_then(|index| object.get_mut(index)),
    };
    let Some(below) = below else { return };
    if !last {
        remove(below, rest);
    }
    if last || is_empty(below) {
        match object {
            Value::Object(fields) => drop(fields.remove(wanted)),
            Value::Array(items) => drop(index.map(|index| items.remove(index))),
            _ => {}
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Field,
    Key,
    Value,
}

fn split(element: &str) -> (Kind, &str) {
    match element.split_once(':') {
        Some(("k", key)) => (Kind::Key, key),
        Some(("v", value)) => (Kind::Value, value),
        Some((_, field)) => (Kind::Field, field),
        None => (Kind::Field, element),
    }
}

/// Returns the index of the list item with this key.
fn position(list: &Value, element: &str, wanted: &str) -> Option<usize> {
    let items = list.as_array()?;
    let wanted: Value = serde_json::from_str(wanted).ok()?;
    items.iter().position(|item| match (split(element).0, &wanted) {
        (Kind::Key, Value::Object(keys)) => keys.iter().all(|(key, value)| match item.get(key) {
            Some(found) => found == value,
            None => schema::key_default(key).is_some_and(|default| value == default),
        }),
        _ => *item == wanted,
    })
}

/// Formats a path like Kubernetes: `.spec.containers[name="c"].image`.
pub(super) fn display(path: &[String]) -> String {
    let mut text = String::new();
    for element in path.iter().filter(|element| *element != ITEM) {
        // Writing to a string does not fail.
        let _ = match split(element) {
            (Kind::Field, field) => write!(text, ".{field}"),
            (Kind::Value, value) => write!(text, "[={value}]"),
            (Kind::Key, keys) => write!(text, "[{}]", display_keys(keys)),
        };
    }
    text
}

fn display_keys(keys: &str) -> String {
    let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
    let keys = keys.iter().map(|(key, value)| format!("{key}={value}"));
    keys.collect::<Vec<_>>().join(",")
}
