//! Removal of fields that a schema does not know.

use serde_json::Value;

use super::schema::{Schema, is_object_header};
use yaml::known_fields::Path;

/// Removes unknown fields of an object and returns their paths. `apiVersion`, `kind` and `metadata`
/// are left alone.
pub(super) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let Some(fields) = object.as_object_mut() else { return unknown };
    fields.retain(|name, value| {
        is_object_header(name) || retain(schema, name, value, &Path::Root, &mut unknown)
    });
    unknown
}

/// Returns whether an object of this schema keeps the field; prunes the value if so.
fn retain(
    schema: &Schema,
    name: &str,
    value: &mut Value,
    parent: &Path<'_>,
    unknown: &mut Vec<String>,
) -> bool {
    let path = Path::Field(parent, name);
    match schema.field(name) {
        Some(schema) => prune_value(schema, value, &path, unknown),
        None if schema.keeps(name) => {}
        None => {
            unknown.push(path.to_string());
            return false;
        }
    }
    true
}

fn prune_value(schema: &Schema, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| retain(schema, name, value, path, unknown));
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(schema, item, &Path::Item(path, index), unknown);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pruned(schema: Value, mut object: Value) -> (Value, Vec<String>) {
        let schema: Schema = serde_json::from_value(schema).unwrap();
        let unknown = prune(&schema, &mut object);
        (object, unknown)
    }

    #[test]
    fn unknown_fields_are_removed_at_every_depth() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"list": {"type": "array", "items": {"type": "object", "properties":
                {"a": {"type": "string"}}}}},
        }}});
        let object = json!({"kind": "K", "metadata": {"any": 1}, "x": 1,
            "spec": {"list": [{"a": "1", "b": "2"}], "y": {}}});
        let (object, unknown) = pruned(schema, object);
        assert_eq!(
            object,
            json!({"kind": "K", "metadata": {"any": 1}, "spec": {"list": [{"a": "1"}]}})
        );
        assert_eq!(unknown, ["spec.list[0].b", "spec.y", "x"]);
    }

    #[test]
    fn preserving_schemas_and_maps_keep_unknown_fields() {
        let preserving = json!({"x-kubernetes-preserve-unknown-fields": true, "properties":
            {"known": {"type": "object", "properties": {"a": {}}}}});
        let schema = json!({"properties": {
            "any": preserving,
            "map": {"additionalProperties": {"type": "object", "properties": {"a": {}}}},
            "free": {"additionalProperties": true},
            "embedded": {"x-kubernetes-embedded-resource": true},
        }});
        let (object, unknown) = pruned(
            schema,
            json!({
                "any": {"other": {"b": 1}, "known": {"a": 1, "b": 1}},
                "map": {"key": {"a": 1, "b": 1}},
                "free": {"key": {"b": 1}},
                "embedded": {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
            }),
        );
        assert_eq!(
            object,
            json!({
                "any": {"other": {"b": 1}, "known": {"a": 1}},
                "map": {"key": {"a": 1}},
                "free": {"key": {"b": 1}},
                "embedded": {"kind": "Pod", "metadata": {"name": "p"}},
            })
        );
        assert_eq!(unknown, ["any.known.b", "embedded.spec", "map.key.b"]);
    }
}
