//! The ranked form: the engine decides by what it knows of the class of the pod, after changes.
//!
//! A pod like the one of the case is decided when half of the objects are there, so that the class
//! has a ranking, or verdicts if the pod fits nowhere. The other objects then arrive one by one,
//! and the class is repaired.

use std::sync::Arc;

use engine::Outcome as Attempted;
use framework::Pod;
use serde_json::{Value, json};

use super::compare::Comparison;
use super::setting::Setting;
use super::world::World;

/// Number of pods of a class until it has a ranking, or verdicts.
const WARM_UP: usize = 2;

/// Decides about the pod of a case by its class, and holds the decision to that of the set form.
/// Returns the number of decisions without a full pass.
pub(crate) fn hold(
    case: &Value,
    setting: &Setting,
    pod: &Arc<Pod>,
    set_form: &Value,
    comparison: &mut Comparison,
) -> Result<u64, String> {
    if leaves_traces(case) {
        return Ok(0);
    }
    let mut world = World::ranked(setting);
    let objects = case["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let (early, late) = objects.split_at(objects.len() / 2);
    early.iter().try_for_each(|object| world.apply(object))?;
    warm_up(&mut world, pod);
    late.iter().try_for_each(|object| world.apply(object))?;
    warm_up(&mut world, pod);
    compare(&mut world, pod, set_form, &case["expected"], comparison);
    Ok(world.engine().ranked_decisions())
}

/// Whether pods like the one of the case may change what is decided about it: they may take back
/// the nomination of a pod by their own preemption, or allocate a claim.
fn leaves_traces(case: &Value) -> bool {
    let text = case.to_string();
    ["nominatedNodeName", "resourceClaims", "DeviceClass"].iter().any(|name| text.contains(name))
}

/// Decides about pods like this one, which are gone again.
pub(crate) fn warm_up(world: &mut World, pod: &Pod) {
    for number in 0..WARM_UP {
        let mut twin = pod.clone();
        twin.key.name = format!("{}-{number}", pod.key.name).into();
        twin.uid = format!("{:?}-{number}", pod.uid).as_str().into();
        world.decide(&twin);
    }
}

/// Compares a decision about the pod, which is gone again, with that of the set form.
pub(crate) fn compare(
    world: &mut World,
    pod: &Pod,
    set_form: &Value,
    recorded: &Value,
    comparison: &mut Comparison,
) {
    let Some((attempted, nominated)) = world.decide(pod) else { return };
    let or_one_of = |list: &Value, found: &Value| match list.as_array() {
        Some(list) if list.contains(found) => found.clone(),
        _ => list.clone(),
    };
    match attempted {
        Attempted::Assumed(node) => {
            let node = json!(&*node);
            comparison.equal("chosen", &or_one_of(&set_form["best"], &node), &node);
        }
        Attempted::Unschedulable(message)
        | Attempted::Repeated(message)
        | Attempted::Error(message) => {
            // Without the message of PostFilter, which a history does not have.
            let before = set_form["message"].as_str().filter(|text| message.starts_with(text));
            let before = before.map_or_else(|| message.as_str().into(), Value::from);
            let texts = [("fullMessage", message.as_str().into()), ("error", message.into())];
            let known = texts.into_iter().find(|(entry, _)| !set_form[*entry].is_null());
            let (entry, message) = known.unwrap_or(("message", before));
            comparison.equal(entry, &set_form[entry], &message);
        }
        Attempted::Skipped => {}
    }
    let expected = &set_form["preemption"]["nominated"];
    if expected.as_str().is_some_and(|node| !node.is_empty()) {
        let nominated = json!(nominated.as_deref());
        let acceptable = &recorded["preemption"]["acceptableNominations"];
        let is_acceptable = acceptable.as_array().is_some_and(|list| list.contains(&nominated));
        let expected = if is_acceptable { &nominated } else { expected };
        comparison.equal("nominated", expected, &nominated);
    }
}
