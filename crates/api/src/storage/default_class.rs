//! The default StorageClass of claims without a class, set at admission or later.

use std::cmp::Reverse;

use serde_json::Value;

use super::BETA_STORAGE_CLASS;

/// The annotations that mark a default class; either is enough.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Returns whether this StorageClass is a default class.
pub fn is_default(class: &Value) -> bool {
    let annotations = &class["metadata"]["annotations"];
    IS_DEFAULT.iter().any(|annotation| annotations[annotation] == "true")
}

/// Returns the name of the default class for a claim that does not set a class. A claim that sets
/// an empty class gets none. Of several default classes it returns the newest, and of equally new
/// ones the first by name.
pub fn class_for<'a>(classes: impl Iterator<Item = &'a Value>, claim: &Value) -> Option<&'a str> {
    let has_no_class = claim["spec"]["storageClassName"].is_null()
        && claim["metadata"]["annotations"].get(BETA_STORAGE_CLASS).is_none();
    let defaults = classes.filter(|class| has_no_class && is_default(class));
    let by_age =
        |class: &&'a Value| (Reverse(text(class, "creationTimestamp")), text(class, "name"));
    defaults.min_by_key(by_age).map(|class| text(class, "name"))
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, is_default: &str, created: &str) -> Value {
        let annotations = json!({IS_DEFAULT[0]: is_default});
        json!({"metadata": {"name": name, "creationTimestamp": created,
            "annotations": annotations}})
    }

    #[test]
    fn only_claim_without_class_gets_the_newest_default_class() {
        let classes = [
            class("old", "true", "2026-01-01T00:00:00Z"),
            class("b", "true", "2026-01-02T00:00:00Z"),
            class("a", "true", "2026-01-02T00:00:00Z"),
            class("no", "false", "2026-01-03T00:00:00Z"),
        ];
        let beta = json!({"annotations": {BETA_STORAGE_CLASS: "mine"}});
        for (metadata, spec, expected) in [
            (json!({}), json!({}), Some("a")),
            (json!({}), json!({"storageClassName": ""}), None),
            (json!({}), json!({"storageClassName": "mine"}), None),
            (beta, json!({}), None),
        ] {
            let claim = json!({"metadata": metadata, "spec": spec});
            assert_eq!(class_for(classes.iter(), &claim), expected, "{claim}");
        }
        let beta = json!({"metadata": {"annotations": {IS_DEFAULT[1]: "true"}}});
        assert!(is_default(&beta) && !is_default(&classes[3]));
        assert_eq!(class_for(classes[3..].iter(), &json!({"spec": {}})), None, "no class is");
    }
}
