//! Conversion of Events between `v1` and `events.k8s.io/v1`. They are stored as `v1`.

use serde_json::{Map, Value, json};

use crate::metadata::fields_mut;

/// Fields with different names: the name in `v1`, then that in `events.k8s.io/v1`.
const RENAMED: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
];

/// Returns the Event in the form of `v1`.
pub(crate) fn to_core(mut event: Value) -> Value {
    let fields = fields_mut(&mut event);
    for (core, new) in RENAMED {
        rename(fields, new, core);
    }
    fields.insert("apiVersion".to_owned(), "v1".into());
    fields.entry("source").or_insert_with(|| json!({}));
    for field in ["firstTimestamp", "lastTimestamp"] {
        fields.entry(field).or_insert(Value::Null);
    }
    event
}

/// Returns the Event in the form of `events.k8s.io/v1`.
pub(crate) fn from_core(event: &Value) -> Value {
    let mut event = event.clone();
    let fields = fields_mut(&mut event);
    for (core, new) in RENAMED {
        rename(fields, core, new);
    }
    fields.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
    event
}

/// Returns the name in `events.k8s.io/v1` of a field of `v1`.
pub(crate) fn name_from_core(field: &str) -> &str {
    RENAMED.iter().find(|(core, _)| *core == field).map_or(field, |(_, new)| new)
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_their_fields_through_both_forms() {
        let event = json!({
            "kind": "Event", "apiVersion": "events.k8s.io/v1", "reason": "Scheduled",
            "note": "assigned", "regarding": {"name": "p0"}, "reportingController": "loadmaster",
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null,
            "deprecatedLastTimestamp": null,
        });
        let core = to_core(event.clone());
        assert_eq!(core["message"], "assigned");
        assert_eq!(core["involvedObject"]["name"], "p0");
        assert_eq!(core["reportingComponent"], "loadmaster");
        assert_eq!(from_core(&core), event);
    }
}
