//! Validation of an object by its schema, with the texts of the API server.

use serde_json::{Number, Value};

use super::schema::{Schema, is_object_header};
use crate::status::Cause;
use yaml::known_fields::Path;

/// Returns what is wrong with an object. Its metadata is validated elsewhere.
pub(super) fn validate(schema: &Schema, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    check_required(schema, object, &Path::Root, &mut causes);
    for (name, value) in object.as_object().into_iter().flatten() {
        if let Some(schema) = schema.field(name).filter(|_| !is_object_header(name)) {
            check(schema, value, &Path::Field(&Path::Root, name), &mut causes);
        }
    }
    causes
}

fn check(schema: &Schema, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    if value.is_null() && schema.nullable {
        return;
    }
    if !has_type(schema, value) {
        causes.push(wrong_type(schema, value, path));
        return;
    }
    if !schema.allowed.is_empty() && !schema.allowed.contains(value) {
        causes.push(not_allowed(schema, value, path));
    }
    match value {
        Value::Number(number) => check_number(schema, number, path, causes),
        Value::String(text) => check_text(schema, text, path, causes),
        Value::Array(items) => {
            check_count(schema, items.len(), path, causes);
            for (index, item) in items.iter().enumerate() {
                if let Some(schema) = &schema.items {
                    check(schema, item, &Path::Item(path, index), causes);
                }
            }
        }
        Value::Object(fields) => {
            check_properties(schema, fields.len(), path, causes);
            check_required(schema, value, path, causes);
            for (name, value) in fields {
                if let Some(schema) = schema.field(name) {
                    check(schema, value, &Path::Field(path, name), causes);
                }
            }
        }
        _ => {}
    }
}

fn has_type(schema: &Schema, value: &Value) -> bool {
    if schema.int_or_string {
        return matches!(type_of(value), "integer" | "string");
    }
    match (schema.type_name.as_str(), type_of(value)) {
        ("", _) | ("number", "integer") => true,
        (wanted, found) => wanted == found,
    }
}

/// Returns the type of a value; a number without a fraction is an integer.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() != 0.0) => {
            "number"
        }
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong_type(schema: &Schema, value: &Value, path: &Path<'_>) -> Cause {
    let wanted = if schema.int_or_string { "integer,string" } else { &schema.type_name };
    let found = Value::from(type_of(value));
    let why = format!("{path} in body must be of type {wanted}: {found}");
    Cause { reason: "FieldValueTypeInvalid", ..Cause::invalid(path.to_string(), &found, &why) }
}

fn not_allowed(schema: &Schema, value: &Value, path: &Path<'_>) -> Cause {
    let allowed: Vec<String> = schema
        .allowed
        .iter()
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    Cause::not_supported(path.to_string(), value, &allowed)
}

fn check_required(schema: &Schema, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let absent = schema.required.iter().filter(|name| value.get(name.as_str()).is_none());
    causes.extend(absent.map(|name| Cause::required(Path::Field(path, name).to_string(), "")));
}

fn check_number(schema: &Schema, number: &Number, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let mut refuse = |relation: &str, bound: &Number| {
        let why = format!("{path} in body should be {relation} {bound}");
        causes.push(Cause::invalid(path.to_string(), &number.clone().into(), &why));
    };
    let as_float = |number: &Number| number.as_f64().unwrap_or_default();
    let value = as_float(number);
    if let Some(bound) = &schema.minimum {
        match (value < as_float(bound), schema.exclusive_minimum && value == as_float(bound)) {
            (_, true) => refuse("greater than", bound),
            (true, _) => refuse("greater than or equal to", bound),
            _ => {}
        }
    }
    if let Some(bound) = &schema.maximum {
        match (value > as_float(bound), schema.exclusive_maximum && value == as_float(bound)) {
            (_, true) => refuse("less than", bound),
            (true, _) => refuse("less than or equal to", bound),
            _ => {}
        }
    }
}

fn check_text(schema: &Schema, text: &str, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let length = text.chars().count();
    if let Some(least) = schema.min_length.filter(|least| length < *least) {
        let why = format!("{path} in body should be at least {least} chars long");
        causes.push(Cause::invalid(path.to_string(), &text.into(), &why));
    }
    if let Some(most) = schema.max_length.filter(|most| length > *most) {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {most} bytes"),
            field: path.to_string(),
        });
    }
}

fn check_count(schema: &Schema, count: usize, path: &Path<'_>, causes: &mut Vec<Cause>) {
    if let Some(least) = schema.min_items.filter(|least| count < *least) {
        let why = format!("{path} in body should have at least {least} items");
        causes.push(Cause::invalid(path.to_string(), &count.into(), &why));
    }
    if let Some(most) = schema.max_items.filter(|most| count > *most) {
        causes.push(Cause::too_many(path.to_string(), count, most));
    }
}

fn check_properties(schema: &Schema, count: usize, path: &Path<'_>, causes: &mut Vec<Cause>) {
    if let Some(least) = schema.min_properties.filter(|least| count < *least) {
        let why = format!("{path} in body should have at least {least} properties");
        causes.push(Cause::invalid(path.to_string(), &count.into(), &why));
    }
    if let Some(most) = schema.max_properties.filter(|most| count > *most) {
        causes.push(Cause::too_many(path.to_string(), count, most));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(schema: Value, object: Value) -> Vec<String> {
        let schema: Schema = serde_json::from_value(schema).unwrap();
        validate(&schema, &object).iter().map(Cause::to_string).collect()
    }

    #[test]
    fn every_keyword_has_the_text_of_the_api_server() {
        let schema = json!({"type": "object", "required": ["spec", "absent"], "properties": {
            "spec": {"type": "object", "required": ["a"], "maxProperties": 9, "properties": {
                "weight": {"type": "integer", "minimum": 1},
                "share": {"type": "number", "maximum": 1, "exclusiveMaximum": true},
                "mode": {"type": "string", "enum": ["A", "B"]},
                "name": {"type": "string", "minLength": 2},
                "list": {"type": "array", "maxItems": 1, "items": {"type": "boolean"}},
                "port": {"x-kubernetes-int-or-string": true},
                "null": {"type": "string", "nullable": true},
            }},
        }});
        let object = json!({"kind": "K", "metadata": {}, "spec": {
            "weight": 0, "share": 1, "mode": "C", "name": "x", "list": [true, "no"],
            "port": {}, "null": null,
        }});
        assert_eq!(
            faults(schema, object),
            [
                "absent: Required value",
                "spec.a: Required value",
                "spec.list: Too many: 2: must have at most 1 items",
                "spec.list[1]: Invalid value: \"string\": spec.list[1] in body must be of type \
                 boolean: \"string\"",
                "spec.mode: Unsupported value: \"C\": supported values: \"A\", \"B\"",
                "spec.name: Invalid value: \"x\": spec.name in body should be at least 2 chars long",
                "spec.port: Invalid value: \"object\": spec.port in body must be of type \
                 integer,string: \"object\"",
                "spec.share: Invalid value: 1: spec.share in body should be less than 1",
                "spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal \
                 to 1",
            ]
        );
    }

    #[test]
    fn whole_numbers_of_any_notation_are_integers() {
        let schema = json!({"properties": {"a": {"type": "integer"}, "b": {"type": "number"}}});
        assert!(faults(schema.clone(), json!({"a": 2.0, "b": 2})).is_empty());
        assert_eq!(
            faults(schema, json!({"a": 2.5})),
            ["a: Invalid value: \"number\": a in body must be of type integer: \"number\""]
        );
    }
}
