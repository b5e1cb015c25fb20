//! `matchLabelKeys` and `mismatchLabelKeys` of pod affinity. The API server merges them into the
//! label selectors of a new pod. (The scheduler itself merges those of topology spread
//! constraints.)

use std::collections::BTreeMap;

use framework::api;

type Labels = BTreeMap<String, String>;

/// Merges the keys into the selectors, unless an API server has done so already.
pub(super) fn merge(pod: &mut api::Pod) {
    let Some(affinity) = &mut pod.spec.affinity else { return };
    for side in [&mut affinity.pod_affinity, &mut affinity.pod_anti_affinity].into_iter().flatten()
    {
        let preferred = side.preferred.iter_mut().map(|weighted| &mut weighted.pod_affinity_term);
        for term in side.required.iter_mut().chain(preferred) {
            merge_term(term, &pod.metadata.labels);
        }
    }
}

/// A term without a selector selects no pod, and stays unchanged.
fn merge_term(term: &mut api::PodAffinityTerm, labels: &Labels) {
    let Some(selector) = &mut term.label_selector else { return };
    let keys = [("In", &term.match_label_keys), ("NotIn", &term.mismatch_label_keys)];
    for (operator, key) in keys.into_iter().flat_map(|(op, keys)| keys.iter().map(move |k| (op, k)))
    {
        let Some(value) = labels.get(key) else { continue };
        let requirement = api::SelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: vec![value.clone()],
        };
        if !selector.match_expressions.contains(&requirement) {
            selector.match_expressions.push(requirement);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn merged(term: Value) -> Vec<String> {
        let preferred = json!([{"weight": 1, "podAffinityTerm": term}]);
        let mut pod: api::Pod = serde_json::from_value(json!({
            "metadata": {"labels": {"app": "web", "pod-template-hash": "5f"}},
            "spec": {"affinity": {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
            }},
        }))
        .unwrap();
        merge(&mut pod);
        merge(&mut pod);
        let affinity = pod.spec.affinity.unwrap();
        let required = affinity.pod_affinity.unwrap().required.remove(0);
        let preferred = affinity.pod_anti_affinity.unwrap().preferred.remove(0).pod_affinity_term;
        assert_eq!(required, preferred, "every term is treated alike");
        let selector = required.label_selector.unwrap_or_default();
        let told = |one: api::SelectorRequirement| {
            format!("{} {} {:?}", one.key, one.operator, one.values)
        };
        selector.match_expressions.into_iter().map(told).collect()
    }

    #[test]
    fn label_keys_are_merged_into_the_selector_once() {
        let rows = [
            (
                json!({
                    "labelSelector": {"matchLabels": {"app": "web"}},
                    "matchLabelKeys": ["pod-template-hash", "absent"],
                }),
                vec!["pod-template-hash In [\"5f\"]"],
            ),
            (
                json!({"labelSelector": {}, "mismatchLabelKeys": ["app"]}),
                vec!["app NotIn [\"web\"]"],
            ),
            (json!({"matchLabelKeys": ["app"]}), vec![]),
            (json!({"labelSelector": {}}), vec![]),
        ];
        for (term, expected) in rows {
            assert_eq!(merged(term.clone()), expected, "{term}");
        }
    }
}
