//! JSON merge patch, RFC 7396.

use serde_json::{Map, Value};

/// Merges `patch` into `target`: objects field by field, `null` removes, all else replaces.
pub(super) fn merge(target: &mut Value, patch: &Value) {
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
            merge(target.entry(field.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(target: Value, patch: &Value) -> Value {
        let mut target = target;
        merge(&mut target, patch);
        target
    }

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn the_table_of_the_rfc_holds() {
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

    proptest! {
        #[test]
        fn a_patch_applied_twice_changes_nothing_more(
            target in crate::patch::testing::value(),
            patch in crate::patch::testing::value(),
        ) {
            let once = merged(target, &patch);
            prop_assert_eq!(merged(once.clone(), &patch), once);
        }

        #[test]
        fn no_null_of_a_patch_survives_in_an_object(patch in crate::patch::testing::value()) {
            fn has_null(value: &Value) -> bool {
                let fields = value.as_object().into_iter().flatten();
                fields.map(|(_, field)| field).any(|field| field.is_null() || has_null(field))
            }
            let merged = merged(json!({}), &patch);
            prop_assert!(!has_null(&merged), "{}", merged);
        }
    }
}
