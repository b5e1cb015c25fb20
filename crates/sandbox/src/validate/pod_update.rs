//! Changes of pods.

use serde_json::{Map, Value};

use super::field::{Faults, Field};

const RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
     additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set \
     to 1 if it was previously negative)";
const NODE_AFFINITY: [&str; 2] = ["affinity", "nodeAffinity"];

/// Checks that the spec `new` may replace `old`.
pub(super) fn spec(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    if old.value() == new.value() {
        return;
    }
    for list in ["containers", "initContainers"] {
        if old.child(list).items().count() != new.child(list).items().count() {
            let why = "pod updates may not add or remove containers";
            return faults.forbidden(&new.child(list), why);
        }
    }
    active_deadline(
        &old.child("activeDeadlineSeconds"),
        &new.child("activeDeadlineSeconds"),
        faults,
    );
    tolerations(&old.child("tolerations"), &new.child("tolerations"), faults);
    scheduling_gates(&old.child("schedulingGates"), &new.child("schedulingGates"), faults);
    let gated = !old.child("schedulingGates").is_empty();
    if gated {
        node_selector(&old.child("nodeSelector"), &new.child("nodeSelector"), faults);
        node_affinity(&old.at(&NODE_AFFINITY), &new.at(&NODE_AFFINITY), faults);
    }
    let (before, after) = (fixed_part(old, old, gated), fixed_part(new, old, gated));
    if before != after {
        faults.forbidden(new, &format!("{RULE}\n{}", differences(&before, &after)));
    }
}

/// Checks that containers get other resources only as far as CPU and memory are concerned.
pub(super) fn resources(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let others = |container: &Field<'_>| {
        let mut resources = container.child("resources").value().clone();
        for list in ["requests", "limits"] {
            if let Some(amounts) = resources.get_mut(list).and_then(Value::as_object_mut) {
                amounts.retain(|name, _| name != "cpu" && name != "memory");
            }
        }
        resources
    };
    for list in ["containers", "initContainers"] {
        for (old, new) in old.child(list).items().zip(new.child(list).items()) {
            let (before, after) = (others(&old), others(&new));
            let amounts = |resources: &Value, list: &str| {
                resources.get(list).and_then(Value::as_object).cloned().unwrap_or_default()
            };
            let differs = |list: &&str| amounts(&before, list) != amounts(&after, list);
            if ["requests", "limits"].iter().any(differs) || before["claims"] != after["claims"] {
                faults.forbidden(
                    &new.child("resources"),
                    "only cpu and memory resources are mutable",
                );
            }
        }
    }
}

/// Returns the immutable part of the spec; containers of `new` get the images of `old`.
fn fixed_part(new: &Field<'_>, old: &Field<'_>, gated: bool) -> Map<String, Value> {
    let mut spec = new.value().as_object().cloned().unwrap_or_default();
    for free in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        spec.remove(free);
    }
    for list in ["containers", "initContainers"] {
        let images = old.child(list);
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in containers.zip(images.items()) {
            if let Some(container) = container.as_object_mut() {
                container.insert("image".to_owned(), old.child("image").value().clone());
            }
        }
    }
    let grace = "terminationGracePeriodSeconds";
    let was_negative = old.child(grace).number().is_some_and(|seconds| seconds < 0);
    if was_negative && new.child(grace).number() == Some(1) {
        spec.insert(grace.to_owned(), old.child(grace).value().clone());
    }
    if gated {
        spec.remove("nodeSelector");
        if let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) {
            affinity.remove("nodeAffinity");
        }
        if spec.get("affinity").and_then(Value::as_object).is_some_and(Map::is_empty) {
            spec.remove("affinity");
        }
    }
    spec
}

/// Returns the differing fields, in the format of the API server.
fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> String {
    let added = after.keys().filter(|field| !before.contains_key(*field));
    let differing =
        before.keys().chain(added).filter(|field| before.get(*field) != after.get(*field));
    let line = |sign: char, field: &str, value: Option<&Value>| {
        let mut letters = field.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let name: String = first.into_iter().chain(letters).collect();
        format!("{sign} {name:?}: {},\n", value.unwrap_or(&Value::Null))
    };
    differing
        .map(|field| line('-', field, before.get(field)) + &line('+', field, after.get(field)))
        .collect()
}

/// Checks that a deadline is only set or shortened.
fn active_deadline(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    match (old.number(), new.number()) {
        (Some(_), None) => {
            faults.invalid(new, "must not update from a positive integer to nil value")
        }
        (Some(old), Some(seconds)) if seconds > old => {
            faults.invalid(new, "must be less than or equal to previous value");
        }
        _ => {}
    }
}

/// Checks that tolerations are only added; of existing ones, `tolerationSeconds` may change.
fn tolerations(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let identity = |toleration: &Field<'_>| {
        ["key", "operator", "value", "effect"]
            .map(|field| toleration.child(field).text().to_owned())
    };
    let kept = |old: Field<'_>| new.items().any(|new| identity(&new) == identity(&old));
    if !old.items().all(kept) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        faults.forbidden(new, why);
    }
}

/// Checks that gates are only removed.
fn scheduling_gates(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    for gate in new.items() {
        if !old.items().any(|old| old.value() == gate.value()) {
            let name = gate.child("name");
            let why = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            faults.forbidden(&gate, &why);
        }
    }
}

/// Checks that the node selector of a gated pod only becomes stricter.
fn node_selector(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    if !old.entries().all(|(key, value)| new.value().get(key) == Some(value.value())) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        faults.invalid(new, why);
    }
}

/// Checks that the required node affinity of a gated pod only becomes stricter: each term may gain
/// requirements.
fn node_affinity(old: &Field<'_>, new: &Field<'_>, faults: &mut Faults) {
    let terms = ["requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let (old, new) = (old.at(&terms), new.at(&terms));
    if !old.is_set() {
        return;
    }
    if old.items().count() != new.items().count() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return faults.invalid(&new, why);
    }
    for (old, new) in old.items().zip(new.items()) {
        let keeps = |list: &str| {
            let new = new.child(list);
            old.child(list).items().all(|old| new.items().any(|new| new.value() == old.value()))
        };
        let tightens = keeps("matchExpressions") && keeps("matchFields");
        if !tightens {
            faults.invalid(&new, "only additions are allowed (no mutations or deletions)");
        }
    }
}
