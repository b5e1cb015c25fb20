//! Sequences and histories: pods scheduled one after the other in a changing cluster.

use std::sync::Arc;

use engine::cycle::Form;
use framework::Pod;
use serde_json::Value;

use super::compare::{Comparison, Outcome};
use super::setting::Setting;
use super::world::{self, World};
use super::{decision, forms, ranked};

/// Runs a case with every form.
pub(crate) fn run(case: &Value) -> Outcome {
    let mut comparison = Comparison::default();
    let mut steps = Vec::new();
    for &(form, name) in forms(case) {
        comparison.set_prefix(name);
        match replay(case, form, name, &mut comparison) {
            Ok(actual) => steps.push(actual),
            Err(message) => return Outcome::failed(message),
        }
    }
    let [set, one_node] = &steps[..] else {
        return Outcome { actual: steps.swap_remove(0).into(), ..Outcome::default() };
    };
    comparison.set_prefix("the set form, held to the one-node form");
    for (place, pair) in std::iter::zip(set, one_node).enumerate() {
        if pair.0 != pair.1 {
            comparison.equal(&place.to_string(), pair.1, pair.0);
        }
    }
    let set = steps.swap_remove(0);
    match replay_ranked(case, &set, &mut comparison) {
        Ok(ranked) => Outcome { ranked, ..comparison.finish(set.into()) },
        Err(message) => Outcome::failed(message),
    }
}

/// Carries out the steps by rankings, and holds each decision to that of the set form. Returns the
/// number of decisions without a full pass.
fn replay_ranked(
    case: &Value,
    set_form: &[Value],
    comparison: &mut Comparison,
) -> Result<u64, String> {
    let mut world = World::ranked(&Setting::of(case)?);
    world.apply_all(&case["objects"])?;
    let mut decided = 0;
    for step in steps(case) {
        let pod = match step {
            Step::Schedule(pod) => world::pod(pod)?,
            Step::Delete(step) => {
                world.delete(step);
                continue;
            }
            Step::Apply(object) => {
                world.apply(object)?;
                continue;
            }
        };
        let (own, recorded) = (&set_form[decided], &case["expected"][decided]);
        comparison.set_prefix(format!("rankings, held to the set form.{decided} ({})", pod.key));
        ranked::warm_up(&mut world, &pod);
        ranked::compare(&mut world, &pod, own, recorded, comparison);
        let chosen = recorded["chosen"].as_str().or(own["chosen"].as_str());
        if let Some(node) = chosen.filter(|node| !node.is_empty()) {
            world.apply_pod(Pod { node_name: Some(node.into()), ..pod });
        }
        decided += 1;
    }
    Ok(world.engine().ranked_decisions())
}

/// Carries out the steps; returns the decision of each `schedule` step.
fn replay(
    case: &Value,
    form: Form,
    form_name: &str,
    comparison: &mut Comparison,
) -> Result<Vec<Value>, String> {
    let setting = Setting::of(case)?;
    let mut world = World::new(&setting);
    world.apply_all(&case["objects"])?;
    let mut decided = Vec::new();
    for step in steps(case) {
        let pod = match step {
            Step::Schedule(pod) => pod,
            Step::Delete(step) => {
                world.delete(step);
                continue;
            }
            Step::Apply(object) => {
                world.apply(object)?;
                continue;
            }
        };
        let pod = Arc::new(world::pod(pod)?);
        let evaluation = world.evaluate(&pod, form, None)?;
        let actual = decision::describe_step(&pod.key.to_string(), &evaluation, world.cluster());
        let expected = &case["expected"][decided.len()];
        if !expected.is_null() {
            let place = decided.len().to_string();
            comparison.set_prefix(format!("{form_name}.{place} ({})", pod.key));
            compare(expected, &actual, comparison);
        }
        let chosen = expected["chosen"].as_str().or(actual["chosen"].as_str());
        if let Some(node) = chosen.filter(|node| !node.is_empty()) {
            world.apply_pod(Pod { node_name: Some(node.into()), ..(*pod).clone() });
        }
        decided.push(actual);
    }
    Ok(decided)
}

/// A step of a history.
enum Step<'a> {
    Schedule(&'a Value),
    Delete(&'a Value),
    Apply(&'a Value),
}

/// Returns the steps of a history, or of a sequence, which has only pods.
fn steps(case: &Value) -> impl Iterator<Item = Step<'_>> {
    let list = |key: &str| case[key].as_array().into_iter().flatten();
    let pods = list("pods").map(Step::Schedule);
    pods.chain(list("steps").map(|step| match step["op"].as_str() {
        Some("delete") => Step::Delete(step),
        Some("apply") => Step::Apply(&step["object"]),
        _ => Step::Schedule(&step["pod"]),
    }))
}

/// Compares a step.
fn compare(expected: &Value, actual: &Value, comparison: &mut Comparison) {
    for entry in ["pod", "feasible", "message", "totals", "best", "chosen"] {
        comparison.equal(entry, &expected[entry], &actual[entry]);
    }
}
