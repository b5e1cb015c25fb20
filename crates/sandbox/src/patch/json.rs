//! JSON patch, RFC 6902.

use serde::Deserialize;
use serde_json::Value;

/// One operation of a JSON patch.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum Operation {
    /// Inserts into an array, or sets a member of an object.
    Add { path: String, value: Value },
    /// Removes the value.
    Remove { path: String },
    /// Replaces the value.
    Replace { path: String, value: Value },
    /// Removes the value at `from` and adds it at `path`.
    Move { from: String, path: String },
    /// Adds a copy of the value at `from`.
    Copy { from: String, path: String },
    /// Fails unless the value is at the path.
    Test { path: String, value: Value },
}

/// Why a JSON patch does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonPatchError {
    /// The path does not exist.
    #[error("{0}: there is no such value")]
    Missing(String),
    /// The path does not start with a slash.
    #[error("{0}: not a JSON pointer")]
    Pointer(String),
    /// The value of a `test` differs.
    #[error("{0}: the value differs from the one tested for")]
    Test(String),
    /// A value cannot move into itself.
    #[error("{0}: a value cannot move into itself")]
    IntoItself(String),
}

/// Applies the operations in order. If one fails, the earlier ones stay applied.
pub(super) fn apply(target: &mut Value, patch: &[Operation]) -> Result<(), JsonPatchError> {
    patch.iter().try_for_each(|operation| operation.apply(target))
}

impl Operation {
    fn apply(&self, target: &mut Value) -> Result<(), JsonPatchError> {
        match self {
            Self::Add { path, value } => add(target, path, value.clone()),
            Self::Remove { path } => remove(target, path).map(drop),
            Self::Replace { path, value } => {
                *get_mut(target, path)? = value.clone();
                Ok(())
            }
            Self::Move { from, path } if path.starts_with(&format!("{from}/")) => {
                Err(JsonPatchError::IntoItself(path.clone()))
            }
            Self::Move { from, path } => {
                let value = remove(target, from)?;
                add(target, path, value)
            }
            Self::Copy { from, path } => {
                let value = get_mut(target, from)?.clone();
                add(target, path, value)
            }
            Self::Test { path, value } if target.pointer(path) == Some(value) => Ok(()),
            Self::Test { path, .. } => Err(JsonPatchError::Test(path.clone())),
        }
    }
}

fn get_mut<'a>(target: &'a mut Value, path: &str) -> Result<&'a mut Value, JsonPatchError> {
    target.pointer_mut(path).ok_or_else(|| JsonPatchError::Missing(path.to_owned()))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), JsonPatchError> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, last) = split(path)?;
    let missing = || JsonPatchError::Missing(path.to_owned());
    match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.insert(last, value);
        }
        Some(Value::Array(items)) if last == "-" => items.push(value),
        Some(Value::Array(items)) => {
            let index = index(&last).filter(|index| *index <= items.len()).ok_or_else(missing)?;
            items.insert(index, value);
        }
        _ => return Err(missing()),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<Value, JsonPatchError> {
    let (parent, last) = split(path)?;
    let removed = match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.remove(&last),
        Some(Value::Array(items)) => {
            let index = index(&last).filter(|index| *index < items.len());
            index.map(|index| items.remove(index))
        }
        _ => None,
    };
    removed.ok_or_else(|| JsonPatchError::Missing(path.to_owned()))
}

/// Splits a pointer into its parent and its last segment, unescaped.
fn split(path: &str) -> Result<(&str, String), JsonPatchError> {
    let (parent, last) =
        path.rsplit_once('/').ok_or_else(|| JsonPatchError::Pointer(path.to_owned()))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

/// Parses an array index: digits without leading zeros.
fn index(segment: &str) -> Option<usize> {
    let plain = segment == "0" || !segment.starts_with(['0', '+']);
    plain.then(|| segment.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(target: Value, patch: Value) -> Result<Value, JsonPatchError> {
        let mut target = target;
        let patch: Vec<Operation> = serde_json::from_value(patch).unwrap();
        apply(&mut target, &patch).map(|()| target)
    }

    #[test]
    fn operations_follow_the_rfc() {
        let cases = [
            (
                json!({"a": 1}),
                json!([{"op": "add", "path": "/b", "value": 2}]),
                json!({"a": 1, "b": 2}),
            ),
            (json!([1, 3]), json!([{"op": "add", "path": "/1", "value": 2}]), json!([1, 2, 3])),
            (json!([1]), json!([{"op": "add", "path": "/-", "value": 2}]), json!([1, 2])),
            (json!({"a": 1}), json!([{"op": "add", "path": "", "value": 2}]), json!(2)),
            (json!({"a/b": 1}), json!([{"op": "remove", "path": "/a~1b"}]), json!({})),
            (json!([1, 2]), json!([{"op": "remove", "path": "/0"}]), json!([2])),
            (
                json!({"a": 1}),
                json!([{"op": "replace", "path": "/a", "value": 2}]),
                json!({"a": 2}),
            ),
            (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1})),
            (
                json!({"a": 1}),
                json!([{"op": "copy", "from": "/a", "path": "/b"}]),
                json!({"a": 1, "b": 1}),
            ),
            (
                json!({"a": null}),
                json!([{"op": "test", "path": "/a", "value": null}]),
                json!({"a": null}),
            ),
        ];
        for (target, patch, expected) in cases {
            assert_eq!(patched(target.clone(), patch.clone()), Ok(expected), "{target} {patch}");
        }
    }

    #[test]
    fn operations_that_do_not_apply_fail() {
        let missing = |path: &str| JsonPatchError::Missing(path.to_owned());
        let cases = [
            (json!([{"op": "remove", "path": "/b"}]), missing("/b")),
            (json!([{"op": "replace", "path": "/b", "value": 1}]), missing("/b")),
            (json!([{"op": "add", "path": "/b/c", "value": 1}]), missing("/b/c")),
            (json!([{"op": "add", "path": "/l/3", "value": 1}]), missing("/l/3")),
            (json!([{"op": "add", "path": "/l/01", "value": 1}]), missing("/l/01")),
            (json!([{"op": "remove", "path": "/l/-"}]), missing("/l/-")),
            (json!([{"op": "add", "path": "b", "value": 1}]), JsonPatchError::Pointer("b".into())),
            (json!([{"op": "test", "path": "/a", "value": 2}]), JsonPatchError::Test("/a".into())),
            (
                json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
                JsonPatchError::IntoItself("/a/b".into()),
            ),
        ];
        for (patch, expected) in cases {
            let target = json!({"a": 1, "l": [1, 2]});
            assert_eq!(patched(target, patch.clone()), Err(expected), "{patch}");
        }
    }

    proptest! {
        #[test]
        fn what_was_added_is_found_and_can_be_removed_again(
            target in crate::patch::testing::object(),
            key in "[a-z~/]{1,4}X",
            value in crate::patch::testing::value(),
        ) {
            let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
            let back = patched(target.clone(), json!([
                {"op": "add", "path": path, "value": value},
                {"op": "test", "path": path, "value": value},
                {"op": "remove", "path": path},
            ]));
            prop_assert_eq!(back, Ok(target));
        }

        #[test]
        fn no_path_makes_it_panic(target in crate::patch::testing::value(), path in ".{0,8}") {
            for op in ["add", "remove", "replace", "test"] {
                let _ = patched(target.clone(), json!([{"op": op, "path": path, "value": 1}]));
            }
        }
    }
}
