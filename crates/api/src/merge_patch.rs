//! JSON merge patch, RFC 7396.

use serde_json::{Map, Value};

/// Merges `patch` into `target`: objects field by field, `null` removes a field, any other value
/// replaces the target.
///
/// An API server applies a `Write` of `framework` in this way.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (field, value) in patch {
        if value.is_null() {
            target.remove(field);
        } else {
            merge_patch(target.entry(field.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(target: Value, patch: &Value) -> Value {
        let mut target = target;
        merge_patch(&mut target, patch);
        target
    }

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn examples_of_the_rfc_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (target, patch, expected) in cases {
            assert_eq!(merged(target.clone(), &patch), expected, "{target} with {patch}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), "[a-c]{0,2}".prop_map(Value::from)];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Value::from),
                btree_map("[a-c]", inner, 0..4).prop_map(|fields| json!(fields)),
            ]
        })
    }

    proptest! {
        #[test]
        fn patch_is_idempotent(
            target in value(),
            patch in value(),
        ) {
            let once = merged(target, &patch);
            prop_assert_eq!(merged(once.clone(), &patch), once);
        }

        #[test]
        fn patched_object_has_no_null_from_the_patch(patch in value()) {
            fn has_null(value: &Value) -> bool {
                let fields = value.as_object().into_iter().flatten();
                fields.map(|(_, field)| field).any(|field| field.is_null() || has_null(field))
            }
            let merged = merged(json!({}), &patch);
            prop_assert!(!has_null(&merged), "{}", merged);
        }
    }
}
