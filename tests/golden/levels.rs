//! The derived corpus of level 1.37: the recorded cases, run once more at that level.
//!
//! Nothing is recorded of 1.37. A case has the same result there, unless each value that differs
//! is explained by a rule of the level: a `[[level]]` entry of docs/differences.toml, whose effect
//! is recognized here by what the case contains and what has changed. So the rules also hold for
//! recordings that nobody has listed. For the corpus of the repository the entries list the cases,
//! and a case that differs by another rule, or no longer differs, fails.

use std::collections::BTreeSet;

use framework::{Behaviours, Level, PodRequests, Quantity};
use serde_json::{Value, json};

use super::areas::Runner;
use super::compare::{Comparison, Difference, Outcome};
use super::setting::{DEFAULT_SHAPE, VOLUME_BINDING};
use super::{DERIVED_FIELD, LEVEL_FIELD, differences, level_of, world};

/// The level of the derived corpus.
pub(crate) const DERIVED: Level = Level::V1_37;

/// A rule of the level, and how its effect is recognized.
struct Rule {
    /// The entry of docs/differences.toml.
    id: &'static str,
    /// Whether the rule explains a value that differs.
    explains: fn(&Changed<'_>) -> bool,
}

/// The rules, in order: the first rule that explains a value counts. Rules that may change any value
/// of a case precede rules that may change its scores.
const RULES: [Rule; 13] = [
    Rule { id: "preemption-tells-its-placement", explains: is_told_placement },
    Rule { id: "selector-errors-tell-more", explains: is_told_device },
    Rule { id: "footprint-of-whole-pod", explains: has_other_footprint },
    Rule { id: "selectors-read-lists", explains: has_list_attribute },
    Rule { id: "configuration-once", explains: |own| own.path.contains(".devices.config") },
    Rule { id: "volume-limit-scaling", explains: is_kept_off_nodes_without_driver },
    Rule { id: "storage-capacity-scoring", explains: is_scored_by_capacity },
    Rule {
        id: "device-taint-rules",
        explains: |own| own.is_at("eventsToRegister.DynamicResources"),
    },
    Rule { id: "checked-capacity-ranges", explains: is_rounded_capacity },
    Rule { id: "all-devices-need-capacity", explains: |own| own.names(&["All", SHARED]) },
    Rule { id: "shares-charge-counters-once", explains: |own| own.names(&[SHARED, "counterSet"]) },
    Rule {
        id: "distinct-compares-every-device",
        explains: |own| own.names(&["distinctAttribute"]),
    },
    Rule {
        id: "bind-mount-options-are-required",
        explains: |own| own.names(&["bindMountOptions"]),
    },
];

/// The field of a device that several requests may share.
const SHARED: &str = "allowMultipleAllocations";

/// A value that differs between the levels.
struct Changed<'a> {
    case: &'a Value,
    /// Its path in the results.
    path: &'a str,
    /// The value at the level of the recording.
    recorded: &'a Value,
    /// The value at the derived level.
    derived: &'a Value,
    /// All values of the case at the derived level.
    result: &'a Value,
}

/// The derived result of one case.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    /// The rules that explain the values that differ.
    pub(crate) rules: BTreeSet<&'static str>,
    /// What no rule explains, or what the list of cases does not say.
    pub(crate) differences: Vec<Difference>,
}

/// Runs a case at the derived level and compares the result with that of the recorded level. If
/// `listed`, the rules are also held to the cases that they list.
pub(crate) fn run(runner: Runner, case: &Value, recorded: &Outcome, listed: bool) -> Derived {
    if !case[LEVEL_FIELD].is_null() {
        return Derived::default();
    }
    let mut other = case.clone();
    other[LEVEL_FIELD] = DERIVED.minor().into();
    other[DERIVED_FIELD] = true.into();
    let mut outcome = runner(&other);
    remove_zeros(&mut outcome.actual);
    let mut found = explain(case, &recorded.actual, &outcome.actual);
    if listed {
        hold_to_list(case["id"].as_str().unwrap_or_default(), &mut found);
    }
    found
}

/// Removes the scores of VolumeBinding that are zero. With a shape it scores the nodes of every pod,
/// also of one without volumes to provision, which changes no total.
fn remove_zeros(result: &mut Value) {
    let nodes = result.get_mut("scores").and_then(Value::as_object_mut);
    let nodes = nodes.into_iter().flat_map(|nodes| nodes.values_mut());
    for scores in nodes.filter_map(Value::as_object_mut) {
        if scores.get(VOLUME_BINDING) == Some(&json!(0)) {
            scores.remove(VOLUME_BINDING);
        }
    }
}

fn explain(case: &Value, recorded: &Value, result: &Value) -> Derived {
    let mut found = Derived::default();
    if recorded == result {
        return found;
    }
    let mut comparison = Comparison::default();
    comparison.equal("", recorded, result);
    for difference in comparison.finish(Value::Null).differences {
        let Difference { path, expected, actual } = &difference;
        let changed = Changed { case, path, recorded: expected, derived: actual, result };
        // A case that could not be run has no result.
        let rule = RULES.iter().find(|rule| !result.is_null() && (rule.explains)(&changed));
        match rule.and_then(|rule| differences::of_level(rule.id, DERIVED)) {
            Some(id) => drop(found.rules.insert(id)),
            None => {
                let path = format!("at level {DERIVED}: {path}");
                found.differences.push(Difference { path, ..difference });
            }
        }
    }
    found
}

fn hold_to_list(id: &str, found: &mut Derived) {
    let listed: BTreeSet<&str> = differences::rules_that_list(id, DERIVED).collect();
    if listed != found.rules {
        let path = format!("rules of level {DERIVED} that list the case in docs/differences.toml");
        let (expected, actual) = (json!(listed), json!(found.rules));
        found.differences.push(Difference { path, expected, actual });
    }
}

impl Changed<'_> {
    fn is_at(&self, path: &str) -> bool {
        self.path == path
    }

    /// Whether the case has all these words, as names or values of fields.
    fn names(&self, words: &[&str]) -> bool {
        let text = self.case.to_string();
        words.iter().all(|word| text.contains(&format!("\"{word}\"")))
    }
}

/// The message is the recorded one with the node and the number of victims.
fn is_told_placement(changed: &Changed<'_>) -> bool {
    let (Some(recorded), preemption) = (changed.recorded.as_str(), &changed.result["preemption"])
    else {
        return false;
    };
    let (node, victims) = (preemption["nominated"].as_str(), preemption["victims"].as_array());
    let told = format!(
        "{recorded} preemption: found a potential placement for pod on node {}, preempting {} \
         victims",
        node.unwrap_or_default(),
        victims.map_or(0, Vec::len),
    );
    changed.is_at("fullMessage") && *changed.derived == told
}

/// The error of a selector is the recorded one with the device and where to read more.
fn is_told_device(changed: &Changed<'_>) -> bool {
    const AFTER: &str = ": CEL runtime error:";
    const HINT: &str = r"\n\nSee https://pkg.go.dev/k8s.io/api/resource/v1#CELDeviceSelector for documentation on CEL device selectors and how to handle optional fields.";
    let recorded = changed.recorded.to_string();
    let mut text = changed.derived.to_string().replace(HINT, "");
    while let Some((before, rest)) = text.split_once(" on device ") {
        let Some((_, after)) = rest.split_once(AFTER) else { return false };
        text = format!("{before}{AFTER}{after}");
    }
    text == recorded
}

/// Some device of the case has an attribute that is a list.
fn has_list_attribute(changed: &Changed<'_>) -> bool {
    any(changed.case, &|object| {
        let mut attributes = object["attributes"].as_object().into_iter().flatten();
        let is_list = |value: &Value| {
            ["bools", "ints", "strings", "versions"].iter().any(|kind| !value[*kind].is_null())
        };
        attributes.any(|(_, value)| is_list(value))
    })
}

/// Some pod of the case has another footprint.
fn has_other_footprint(changed: &Changed<'_>) -> bool {
    any(changed.case, &|object| {
        if object["spec"]["containers"].is_null() || object["status"].is_null() {
            return false;
        }
        let Ok(pod) = world::pod(object) else { return false };
        let at = |level| {
            let mut requests = PodRequests::clone(&pod.requests);
            requests.follow(Behaviours::of(level));
            (requests.placed, requests.placed_non_zero)
        };
        at(level_of(changed.case)) != at(DERIVED)
    })
}

/// VolumeBinding has a default shape and scores nodes by the free part of their storage.
fn is_scored_by_capacity(changed: &Changed<'_>) -> bool {
    if let Some(input) = changed.case["in"].as_str() {
        let mut without = changed.derived.clone();
        remove_shapes(&mut without);
        return without == *changed.recorded || input.contains("shape");
    }
    let is_score = ["scores", "rawScores", "best"].iter().any(|own| changed.path.starts_with(own));
    // The results of a history are a list, which is compared as a whole.
    (is_score || changed.result.is_array()) && changed.names(&["PersistentVolumeClaim"])
}

/// Removes the default shape of VolumeBinding.
fn remove_shapes(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(remove_shapes),
        Value::Object(fields) => {
            let is_default = fields.get("shape") == Some(&*DEFAULT_SHAPE);
            if fields.get("kind") == Some(&json!("VolumeBindingArgs")) && is_default {
                fields.remove("shape");
            }
            fields.values_mut().for_each(remove_shapes);
        }
        _ => {}
    }
}

/// Nodes without a driver whose CSIDriver says so take no pod with its volumes.
fn is_kept_off_nodes_without_driver(changed: &Changed<'_>) -> bool {
    let says_so = |object: &Value| object["spec"]["preventPodSchedulingIfMissing"] == true;
    changed.is_at("eventsToRegister.NodeVolumeLimits") || any(changed.case, &says_so)
}

/// The same quantity in another notation, or an amount that leaves the range of 64 bits.
fn is_rounded_capacity(changed: &Changed<'_>) -> bool {
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    match (amount(changed.recorded), amount(changed.derived)) {
        (Some(recorded), Some(derived)) if changed.path.contains(".consumedCapacity.") => {
            recorded.value() == derived.value()
        }
        _ => changed.names(&["validRange", SHARED]),
    }
}

/// Whether the test holds for the value or a value in it.
fn any(value: &Value, test: &dyn Fn(&Value) -> bool) -> bool {
    test(value)
        || match value {
            Value::Array(list) => list.iter().any(|value| any(value, test)),
            Value::Object(fields) => fields.values().any(|value| any(value, test)),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_an_entry_and_every_entry_a_rule() {
        let own: Vec<_> = RULES.iter().map(|rule| Some(rule.id)).collect();
        let entries = RULES.iter().map(|rule| differences::of_level(rule.id, DERIVED));
        assert_eq!(entries.collect::<Vec<_>>(), own);
        assert_eq!(differences::of_the_level(DERIVED).count(), RULES.len());
    }

    #[test]
    fn a_message_is_explained_by_the_node_and_the_victims_alone() {
        let case = json!({"id": "unknown"});
        let recorded = json!({"fullMessage": "2 Insufficient cpu."});
        let at_level = |victims: usize| {
            let told = format!(
                "2 Insufficient cpu. preemption: found a potential placement for pod on node a, \
                 preempting {victims} victims"
            );
            json!({"fullMessage": told, "preemption": {"nominated": "a", "victims": ["p"]}})
        };
        let with_preemption = |mut value: Value| {
            value["preemption"] = at_level(1)["preemption"].clone();
            value
        };
        let recorded = with_preemption(recorded);
        let explained = explain(&case, &recorded, &at_level(1));
        assert_eq!(explained.rules, BTreeSet::from(["preemption-tells-its-placement"]));
        assert!(explained.differences.is_empty());
        let unexplained = explain(&case, &recorded, &at_level(2));
        assert_eq!(unexplained.differences[0].path, "at level 1.37: fullMessage");
    }

    #[test]
    fn listed_cases_have_to_differ_and_others_must_not() {
        let at = |id: &str, rules: &[&'static str]| {
            let rules = rules.iter().copied().collect();
            let mut found = Derived { rules, ..Derived::default() };
            hold_to_list(id, &mut found);
            found.differences.len()
        };
        let tells = "preemption-tells-its-placement";
        assert_eq!(at("preemption-0001", &[tells]), 0);
        assert_eq!(at("preemption-0001", &[]), 1, "it no longer differs");
        assert_eq!(at("dra-0001", &[tells]), 1, "it is not listed");
        assert_eq!(at("dra-0001", &[]), 0);
    }

    #[test]
    fn a_case_that_cannot_be_run_is_explained_by_no_rule() {
        let case = json!({"pod": {"spec": {"bindMountOptions": []}}});
        let found = explain(&case, &json!({"feasible": ["a"]}), &Value::Null);
        assert!(found.rules.is_empty() && found.differences.len() == 1);
    }
}
