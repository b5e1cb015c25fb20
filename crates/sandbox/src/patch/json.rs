//! JSON patch, RFC 6902.

use json_patch::{Patch, patch_unsafe};
use serde_json::{Map, Value};

use super::decode;
use crate::status::Status;

/// Maximum number of operations in one patch.
const MAX_OPERATIONS: usize = 10_000;

/// Applies the operations in order. If one fails, the earlier ones stay applied.
///
/// # Errors
/// 400 for a text that is not a list of objects, 413 for too many operations, 422 for an operation
/// that is invalid or does not apply. Like the API server, it does not report which one.
pub(super) fn apply(target: &mut Value, patch: &[u8]) -> Result<(), Status> {
    let operations: Vec<Map<String, Value>> = decode(patch)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(Status::too_large(MAX_OPERATIONS));
    }
    let operations = operations.into_iter().map(Value::Object).collect();
    let patch: Patch = serde_json::from_value(operations).map_err(|_| Status::unprocessable())?;
    patch_unsafe(target, &patch).map_err(|_| Status::unprocessable())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(target: Value, patch: &Value) -> Result<Value, u16> {
        let mut target = target;
        apply(&mut target, patch.to_string().as_bytes())
            .map(|()| target)
            .map_err(|status| status.code)
    }

    #[test]
    fn operations_apply_in_order() {
        let target = json!({"a": 1, "l": [1, 3], "x/y": null});
        let patch = json!([
            {"op": "test", "path": "/x~1y", "value": null},
            {"op": "remove", "path": "/x~1y"},
            {"op": "add", "path": "/l/1", "value": 2},
            {"op": "add", "path": "/l/-", "value": 4},
            {"op": "replace", "path": "/a", "value": 5},
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "move", "from": "/a", "path": "/c"},
        ]);
        assert_eq!(patched(target, &patch), Ok(json!({"l": [1, 2, 3, 4], "b": 5, "c": 5})));
    }

    #[test]
    fn operations_that_do_not_apply_are_unprocessable() {
        let operations = [
            json!({"op": "remove", "path": "/b"}),
            json!({"op": "replace", "path": "/b", "value": 1}),
            json!({"op": "add", "path": "/b/c", "value": 1}),
            json!({"op": "add", "path": "/l/3", "value": 1}),
            json!({"op": "add", "path": "/l/01", "value": 1}),
            json!({"op": "remove", "path": "/l/-"}),
            json!({"op": "add", "path": "b", "value": 1}),
            json!({"op": "test", "path": "/a", "value": 2}),
            json!({"op": "move", "from": "/a", "path": "/a/b"}),
            json!({"op": "swap", "path": "/a"}),
        ];
        for operation in operations {
            let target = json!({"a": 1, "l": [1, 2]});
            assert_eq!(patched(target, &json!([operation])), Err(422), "{operation}");
        }
    }

    #[test]
    fn text_that_is_not_a_list_of_objects_is_a_bad_request() {
        for patch in [json!({}), json!([1])] {
            assert_eq!(patched(json!({}), &patch), Err(400), "{patch}");
        }
        let operations = vec![json!({"op": "test", "path": "", "value": 1}); MAX_OPERATIONS + 1];
        assert_eq!(patched(json!(1), &operations.into()), Err(413));
    }

    proptest! {
        #[test]
        fn no_path_makes_it_panic(target in crate::patch::testing::value(), path in ".{0,8}") {
            for op in ["add", "remove", "replace", "test"] {
                let _ = patched(target.clone(), &json!([{"op": op, "path": path, "value": 1}]));
            }
        }
    }
}
