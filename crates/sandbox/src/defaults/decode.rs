//! Side effects of typed decoding: empty optional fields are dropped, quantities get their
//! canonical form.

use framework::Quantity;
use serde_json::{Map, Value};

/// Brings an object into the form that the API server writes.
pub(super) fn canonicalize(object: &mut Map<String, Value>) {
    canonicalize_all_but(None, object);
}

/// Does the same in all fields but one.
pub(super) fn canonicalize_all_but(kept: Option<&str>, object: &mut Map<String, Value>) {
    for (field, value) in object.iter_mut().filter(|(field, _)| Some(field.as_str()) != kept) {
        match value {
            Value::Object(quantities) if is_quantities(field) => {
                // The `allocatable.count` of a driver in a CSINode is a plain number.
                let quantities = quantities.iter_mut().filter(|(name, _)| *name != "count");
                quantities.for_each(|(_, quantity)| canonicalize_quantities(quantity));
            }
            Value::String(_) if field == "sizeLimit" => canonicalize_quantity(value),
            Value::Object(_) if is_map(field) || field == "selector" => {}
            Value::Object(fields) => canonicalize(fields),
            Value::Array(items) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(canonicalize);
            }
            _ => {}
        }
    }
    // Most objects have no such field, and are not built anew.
    if object.iter().any(|(field, value)| says_nothing(field, value)) {
        object.retain(|field, value| !says_nothing(field, value));
    }
}

/// Brings a quantity into its canonical form; the capacity of a device contains several.
fn canonicalize_quantities(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(canonicalize_quantities),
        Value::Array(items) => items.iter_mut().for_each(canonicalize_quantities),
        quantity => canonicalize_quantity(quantity),
    }
}

fn canonicalize_quantity(value: &mut Value) {
    let canonical = |text: &str| text.parse::<Quantity>().ok().map(|own| own.to_string());
    let canonical = match value {
        Value::String(text) => canonical(text.trim()),
        Value::Number(number) => canonical(&number.to_string()),
        _ => None,
    };
    if let Some(canonical) = canonical {
        *value = Value::String(canonical);
    }
}

/// Maps of a resource name to a quantity.
fn is_quantities(field: &str) -> bool {
    matches!(
        field,
        "limits"
            | "requests"
            | "capacity"
            | "allocatable"
            | "allocatedResources"
            | "overhead"
            | "podFixed"
            | "hard"
            | "used"
            | "counters"
            | "consumedCapacity"
    )
}

/// Maps whose keys are data; their empty values are kept.
fn is_map(field: &str) -> bool {
    matches!(
        field,
        "labels"
            | "annotations"
            | "nodeSelector"
            | "matchLabels"
            | "data"
            | "binaryData"
            | "stringData"
            | "parameters"
            | "volumeAttributes"
            | "options"
            | "attributes"
            | "attachmentMetadata"
            | "fieldsV1"
            | "extra"
    )
}

/// Returns whether a typed field with this value is not written (`omitempty`).
fn says_nothing(field: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && !is_pointer_to_text(field),
        Value::Array(items) => items.is_empty() && !matches!(field, "rules" | "drivers"),
        Value::Object(fields) => fields.is_empty() && (is_map(field) || is_quantities(field)),
        Value::Bool(false) => is_plain_flag(field),
        _ => false,
    }
}

/// Fields where empty text differs from none.
fn is_pointer_to_text(field: &str) -> bool {
    matches!(
        field,
        "storageClassName"
            | "volumeAttributesClassName"
            | "type"
            | "service"
            | "appProtocol"
            | "holderIdentity"
    )
}

/// Fields where `false` equals absent.
fn is_plain_flag(field: &str) -> bool {
    matches!(
        field,
        "unschedulable"
            | "hostNetwork"
            | "hostPID"
            | "hostIPC"
            | "stdin"
            | "stdinOnce"
            | "tty"
            | "readOnly"
            | "paused"
            | "publishNotReadyAddresses"
            | "globalDefault"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical(value: Value) -> Value {
        let Value::Object(mut object) = value else { panic!("an object") };
        canonicalize(&mut object);
        Value::Object(object)
    }

    #[test]
    fn empty_optional_fields_are_dropped_and_data_is_kept() {
        let cases = [
            (json!({"spec": {"unschedulable": false, "taints": []}}), json!({"spec": {}})),
            (json!({"status": {"nominatedNodeName": ""}}), json!({"status": {}})),
            (
                json!({"metadata": {"labels": {"a": ""}}}),
                json!({"metadata": {"labels": {"a": ""}}}),
            ),
            (json!({"metadata": {"labels": {}}}), json!({"metadata": {}})),
            (json!({"spec": {"storageClassName": ""}}), json!({"spec": {"storageClassName": ""}})),
            (json!({"spec": {"selector": {"a": ""}}}), json!({"spec": {"selector": {"a": ""}}})),
            (json!({"spec": {"suspend": false}}), json!({"spec": {"suspend": false}})),
            (json!({"emptyDir": {}}), json!({"emptyDir": {}})),
            (json!({"values": [""]}), json!({"values": [""]})),
        ];
        for (value, expected) in cases {
            assert_eq!(canonical(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn quantities_are_written_canonically() {
        let resources = json!({"requests": {"cpu": 1, "memory": "1024Mi", "x/y": "0.5"}});
        let expected = json!({"requests": {"cpu": "1", "memory": "1Gi", "x/y": "500m"}});
        assert_eq!(canonical(resources), expected);
        let drivers = json!({"drivers": [{"allocatable": {"count": 2}}]});
        assert_eq!(canonical(drivers.clone()), drivers, "the volumes of a CSINode are counted");
        let policy = json!({"default": "1024Mi", "validRange": {"min": 1024, "step": "1Mi"}});
        let device = json!({"capacity": {"memory": {"value": "40960Mi", "requestPolicy": policy}}});
        let policy = json!({"default": "1Gi", "validRange": {"min": "1024", "step": "1Mi"}});
        let expected = json!({"capacity": {"memory": {"value": "40Gi", "requestPolicy": policy}}});
        assert_eq!(canonical(device), expected);
        let broken = json!({"limits": {"cpu": "many"}});
        assert_eq!(canonical(broken.clone()), broken);
    }
}
