//! `matchLabelKeys` and `mismatchLabelKeys`: on creation their effect is written into the label
//! selectors of the pod.

use serde_json::{Value, json};

use super::fill::{Object, get, items};

/// Adds the keys of affinity terms and topology spread constraints to their selectors.
pub(super) fn merge(pod: &mut Object) {
    let labels = pod.get("metadata").and_then(|metadata| metadata.get("labels"));
    let labels = labels.and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(spec) = get(pod, "spec") else { return };
    items(spec, "topologySpreadConstraints").for_each(|constraint| merge_one(constraint, &labels));
    let Some(affinity) = get(spec, "affinity") else { return };
    for side in ["podAffinity", "podAntiAffinity"] {
        let Some(side) = get(affinity, side) else { continue };
        items(side, "requiredDuringSchedulingIgnoredDuringExecution")
            .for_each(|term| merge_one(term, &labels));
        items(side, "preferredDuringSchedulingIgnoredDuringExecution")
            .filter_map(|weighted| get(weighted, "podAffinityTerm"))
            .for_each(|term| merge_one(term, &labels));
    }
}

/// Keys that the pod does not have are ignored, and so are keys without a selector.
fn merge_one(term: &mut Object, labels: &Object) {
    let mut requirements = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(field).and_then(Value::as_array).into_iter().flatten();
        for key in keys.filter_map(Value::as_str) {
            let value = labels.get(key);
            let requirement = |value| json!({"key": key, "operator": operator, "values": [value]});
            requirements.extend(value.map(requirement));
        }
    }
    let Some(selector) = get(term, "labelSelector").filter(|_| !requirements.is_empty()) else {
        return;
    };
    let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(expressions) = expressions.as_array_mut() {
        requirements.retain(|requirement| !expressions.contains(requirement));
        expressions.extend(requirements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the selectors that one term gets in each place of a pod.
    fn merged(term: &Value) -> Value {
        let preferred = json!([{"weight": 1, "podAffinityTerm": term}]);
        let mut pod = json!({
            "metadata": {"labels": {"app": "web", "pod-template-hash": "5f"}},
            "spec": {
                "topologySpreadConstraints": [term],
                "affinity": {
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                    },
                },
            },
        });
        merge(pod.as_object_mut().unwrap());
        let required =
            "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0";
        let preferred = "/spec/affinity/podAntiAffinity/\
                         preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm";
        let found = ["/spec/topologySpreadConstraints/0", required, preferred]
            .map(|path| pod.pointer(path).unwrap()["labelSelector"].clone());
        assert!(found.iter().all(|selector| *selector == found[0]), "{found:?}");
        found[0].clone()
    }

    #[test]
    fn keys_of_the_pod_are_added_to_the_selector() {
        let hash = json!({"key": "pod-template-hash", "operator": "In", "values": ["5f"]});
        let not_web = json!({"key": "app", "operator": "NotIn", "values": ["web"]});
        let web = json!({"app": "web"});
        let rows = [
            (
                json!({
                    "labelSelector": {"matchLabels": web},
                    "matchLabelKeys": ["pod-template-hash", "absent"],
                }),
                json!({"matchLabels": web, "matchExpressions": [hash]}),
            ),
            (
                json!({"labelSelector": {}, "mismatchLabelKeys": ["app"]}),
                json!({"matchExpressions": [not_web]}),
            ),
            (
                json!({
                    "labelSelector": {"matchExpressions": [hash]},
                    "matchLabelKeys": ["pod-template-hash"],
                }),
                json!({"matchExpressions": [hash]}),
            ),
            (json!({"labelSelector": {}, "matchLabelKeys": ["absent"]}), json!({})),
            (json!({"matchLabelKeys": ["app"]}), Value::Null),
        ];
        for (term, expected) in rows {
            assert_eq!(merged(&term), expected, "{term}");
        }
    }
}
