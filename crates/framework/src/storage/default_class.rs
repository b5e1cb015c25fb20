//! Admission of claims without a class: they get the default one.

use std::cmp::Reverse;

use framework::storage::BETA_STORAGE_CLASS;
use serde_json::Value;

use crate::metadata::name;
use crate::object::{put, text};

/// Whether a StorageClass is the default, in the words of its annotation.
pub(crate) fn is_default(class: &Value) -> bool {
    class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
}

/// The name of the default class for a claim that says nothing of a class, not even that it wants
/// none: the newest, and of equally new ones the first by name.
pub(crate) fn class_for<'a>(
    classes: impl Iterator<Item = &'a Value>,
    claim: &Value,
) -> Option<&'a str> {
    let says_nothing = claim["spec"]["storageClassName"].is_null()
        && claim["metadata"]["annotations"].get(BETA_STORAGE_CLASS).is_none();
    let created = |class: &Value| text(class, "/metadata/creationTimestamp").to_owned();
    let defaults = classes.filter(|class| says_nothing && is_default(class));
    defaults.min_by_key(|class| (Reverse(created(class)), name(class))).map(name)
}

/// Gives a claim the default class, if it is one for it.
pub(crate) fn admit<'a>(classes: impl Iterator<Item = &'a Value>, claim: &mut Value) {
    if let Some(class) = class_for(classes, claim) {
        set(claim, class);
    }
}

/// Gives a claim this class.
pub(crate) fn set(claim: &mut Value, class: &str) {
    put(claim, &["spec", "storageClassName"], class.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, is_default: &str, created: &str) -> Value {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": is_default});
        json!({"metadata": {"name": name, "creationTimestamp": created,
            "annotations": annotations}})
    }

    #[test]
    fn only_a_claim_that_says_nothing_gets_the_newest_default_class() {
        let classes = [
            class("old", "true", "2026-01-01T00:00:00Z"),
            class("b", "true", "2026-01-02T00:00:00Z"),
            class("a", "true", "2026-01-02T00:00:00Z"),
            class("no", "false", "2026-01-03T00:00:00Z"),
        ];
        let beta = json!({"annotations": {BETA_STORAGE_CLASS: "mine"}});
        for (metadata, spec, expected) in [
            (json!({}), json!({}), json!("a")),
            (json!({}), json!({"storageClassName": ""}), json!("")),
            (json!({}), json!({"storageClassName": "mine"}), json!("mine")),
            (beta, json!({}), Value::Null),
        ] {
            let mut claim = json!({"metadata": metadata, "spec": spec});
            admit(classes.iter(), &mut claim);
            assert_eq!(claim["spec"]["storageClassName"], expected);
        }
        let mut claim = json!({"spec": {}});
        admit(classes[3..].iter(), &mut claim);
        assert!(claim["spec"]["storageClassName"].is_null(), "there is no default class");
    }
}
