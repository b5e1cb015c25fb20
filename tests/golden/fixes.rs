//! Bugs of kube-scheduler 1.36 that a later release fixes, and how cases that show them are
//! compared.
//!
//! Where Loadmaster follows a fix, its decision differs from the recording. The runner then
//! rewrites the case so that the fixed scheduler decides it as 1.36 decides the original, and
//! compares that decision with the recording. So a fix explains nothing but its own effect.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::areas::Runner;
use super::compare::Outcome;
use super::differences;

/// A fix of a later release that Loadmaster follows.
struct Fix {
    /// The entry of docs/differences.toml.
    id: &'static str,
    /// Rewrites a case and returns whether the bug shows in it.
    rewrite: fn(&mut Value) -> bool,
}

const FIXES: [Fix; 3] = [
    Fix { id: "pod-topology-spread-empty-selector", rewrite: select_only_the_pod_itself },
    Fix { id: "preemption-budget-with-empty-selector", rewrite: drop_budgets_of_all_pods },
    Fix { id: "image-locality-image-volumes", rewrite: leave_out_image_locality },
];

/// Runs a case. A case that differs from the recording and shows a bug is run again without the
/// bug.
pub(super) fn run(runner: Runner, case: &Value) -> Outcome {
    let outcome = runner(case);
    if outcome.differences.is_empty() {
        return outcome;
    }
    let mut rewritten = case.clone();
    let applied = FIXES.iter().filter(|fix| (fix.rewrite)(&mut rewritten));
    let applied: BTreeSet<&str> = applied.filter_map(|fix| differences::of_fix(fix.id)).collect();
    if applied.is_empty() {
        return outcome;
    }
    let Outcome { differences, compared, deferred, mut on_purpose, .. } = runner(&rewritten);
    on_purpose.extend(applied);
    Outcome { differences, compared, deferred, on_purpose, ..outcome }
}

/// 1.36 counts no pods for a spread constraint with an empty selector, but matches the pod itself.
/// The rewritten selector matches a label that only this pod has.
fn select_only_the_pod_itself(case: &mut Value) -> bool {
    let mut found = false;
    for pod in pods_to_schedule(case) {
        let name = pod["metadata"]["name"].clone();
        let labels = pod["metadata"]["labels"].clone();
        let constraints = pod["spec"]["topologySpreadConstraints"].as_array_mut();
        let mut selects_all = false;
        for constraint in constraints.into_iter().flatten() {
            let mut keys = constraint["matchLabelKeys"].as_array().into_iter().flatten();
            let narrowed = keys.any(|key| labels.get(key.as_str().unwrap_or_default()).is_some());
            if constraint["labelSelector"] == json!({}) && !narrowed {
                constraint["labelSelector"] = json!({"matchLabels": {"golden/only": name}});
                selects_all = true;
            }
        }
        if selects_all {
            pod["metadata"]["labels"]["golden/only"] = name;
        }
        found |= selects_all;
    }
    found
}

/// 1.36 ignores PodDisruptionBudgets with an empty selector.
fn drop_budgets_of_all_pods(case: &mut Value) -> bool {
    let Some(objects) = case["objects"].as_array_mut() else { return false };
    let before = objects.len();
    objects.retain(|object| {
        object["kind"] != "PodDisruptionBudget" || object["spec"]["selector"] != json!({})
    });
    objects.len() < before
}

/// 1.36 scores image volumes too high in ImageLocality. Both the profile and the recording of the
/// rewritten case do without the plugin.
fn leave_out_image_locality(case: &mut Value) -> bool {
    const PLUGIN: &str = "ImageLocality";
    let volumes = case["pod"]["spec"]["volumes"].as_array();
    let has_image = volumes.into_iter().flatten().any(|volume| volume["image"].is_object());
    if !has_image {
        return false;
    }
    let Some(Value::Object(scores)) = case.pointer_mut("/expected/scores") else { return false };
    let mut totals: Vec<(String, i64)> = Vec::new();
    for (node, scores) in scores.iter_mut() {
        let Some(scores) = scores.as_object_mut() else { continue };
        let Some(own) = scores.remove(PLUGIN).and_then(|own| own.as_i64()) else { continue };
        let total = scores["total"].as_i64().unwrap_or_default() - own;
        scores.insert("total".to_owned(), total.into());
        totals.push((node.clone(), total));
    }
    let most = totals.iter().map(|(_, total)| *total).max();
    totals.retain(|(_, total)| Some(*total) == most);
    let mut best: Vec<String> = totals.into_iter().map(|(node, _)| node).collect();
    best.sort();
    case["expected"]["best"] = best.into();
    let disabled = &mut case["profile"]["plugins"]["score"]["disabled"];
    match disabled.as_array_mut() {
        Some(disabled) => disabled.push(json!({"name": PLUGIN})),
        None => *disabled = json!([{"name": PLUGIN}]),
    }
    true
}

/// The pods that a case schedules, in any form of a case.
fn pods_to_schedule(case: &mut Value) -> impl Iterator<Item = &mut Value> {
    let fields = case.as_object_mut().into_iter().flat_map(|fields| fields.iter_mut());
    fields.flat_map(|(key, value)| match (key.as_str(), value) {
        ("pod", pod) => vec![pod],
        ("pods", Value::Array(pods)) => pods.iter_mut().collect(),
        ("steps", Value::Array(steps)) => {
            steps.iter_mut().filter_map(|step| step.get_mut("pod")).collect()
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fix_is_an_entry_with_its_release() {
        for fix in &FIXES {
            assert_eq!(differences::of_fix(fix.id), Some(fix.id));
        }
    }

    #[test]
    fn a_rewritten_constraint_matches_the_pod_alone() {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"topologySpreadConstraints": [{"labelSelector": {}}]},
        });
        let mut case = json!({"steps": [{"op": "schedule", "pod": pod}, {"op": "delete"}]});
        assert!(select_only_the_pod_itself(&mut case));
        let pod = &case["steps"][0]["pod"];
        assert_eq!(pod["metadata"]["labels"], json!({"golden/only": "p"}));
        let selector = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"];
        assert_eq!(*selector, json!({"matchLabels": {"golden/only": "p"}}));
        assert!(!select_only_the_pod_itself(&mut case), "nothing is left to rewrite");
    }

    #[test]
    fn totals_without_image_locality_decide_anew() {
        let mut case = json!({
            "pod": {"spec": {"volumes": [{"image": {"reference": "data"}}]}},
            "expected": {
                "scores": {
                    "a": {"ImageLocality": 5, "TaintToleration": 3, "total": 8},
                    "b": {"ImageLocality": 0, "TaintToleration": 6, "total": 6},
                },
                "best": ["a"],
            },
        });
        assert!(leave_out_image_locality(&mut case));
        assert_eq!(case["expected"]["scores"]["a"], json!({"TaintToleration": 3, "total": 3}));
        assert_eq!(case["expected"]["best"], json!(["b"]));
        let disabled = json!([{"name": "ImageLocality"}]);
        assert_eq!(case["profile"]["plugins"]["score"]["disabled"], disabled);
    }
}
