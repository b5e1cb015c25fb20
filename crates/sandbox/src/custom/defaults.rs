//! Defaults of a schema.

use serde_json::Value;

use super::schema::Schema;

/// Sets the defaults of absent fields, at every depth. A null where the schema allows none counts
/// as absent.
pub(super) fn set(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, schema) in &schema.properties {
                let absent = match fields.get(name) {
                    None => true,
                    Some(value) => value.is_null() && !schema.nullable,
                };
                match &schema.default {
                    Some(default) if absent => {
                        fields.insert(name.clone(), default.clone());
                    }
                    None if absent => {
                        fields.remove(name);
                    }
                    _ => {}
                }
            }
            for (name, value) in fields {
                if let Some(schema) = schema.field(name) {
                    set(schema, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| set(schema, item));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_fill_absent_fields_and_nulls() {
        let schema = json!({"properties": {
            "mode": {"type": "string", "default": "Auto"},
            "gone": {"type": "string"},
            "null": {"type": "string", "nullable": true, "default": "x"},
            "list": {"items": {"properties": {"weight": {"default": 1}}}},
            "nested": {"default": {}, "properties": {"deep": {"default": true}}},
        }});
        let schema: Schema = serde_json::from_value(schema).unwrap();
        let mut object = json!({"gone": null, "null": null, "list": [{}, {"weight": 2}]});
        set(&schema, &mut object);
        assert_eq!(
            object,
            json!({"mode": "Auto", "null": null, "list": [{"weight": 1}, {"weight": 2}],
                "nested": {"deep": true}})
        );
    }
}
