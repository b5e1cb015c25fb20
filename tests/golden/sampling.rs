//! Sampling: the number of nodes that a search visits, and which ones.

use std::sync::Arc;

use engine::EngineConfig;
use engine::cycle::{Form, Sampling, num_feasible_nodes_to_find};
use serde_json::{Value, json};

use super::compare::{Comparison, Outcome};
use super::decision;
use super::forms;
use super::setting::{DEFAULT_SCHEDULER, Setting};
use super::world::{self, World};

/// Runs a case with every form.
pub(crate) fn run(case: &Value) -> Outcome {
    let mut comparison = Comparison::default();
    let mut computed = Value::Null;
    for &(form, name) in forms(case).iter().rev() {
        comparison.set_prefix(name);
        match search(case, form) {
            Ok(actual) => {
                compare(&case["expected"], &actual, &mut comparison);
                computed = actual;
            }
            Err(message) => return Outcome::failed(message),
        }
    }
    comparison.finish(computed)
}

fn search(case: &Value, form: Form) -> Result<Value, String> {
    let setting = Setting::of(case)?;
    let global = case["percentageOfNodesToScore"].as_i64().unwrap_or(0);
    let global = i32::try_from(global).map_err(|error| error.to_string())?;
    let profile = setting.profiles.get(DEFAULT_SCHEDULER);
    let of_profile = profile.and_then(|profile| profile.percentage_of_nodes_to_score);
    let mut world = World::with(EngineConfig {
        percentage_of_nodes_to_score: global,
        adaptive_sampling: true,
        ..EngineConfig::new(setting.profiles.clone())
    });
    world.apply_all(&case["objects"])?;
    let pod = Arc::new(world::pod(&case["pod"])?);
    let start = case["startIndex"].as_u64().and_then(|start| usize::try_from(start).ok());
    let evaluation = world.evaluate(&pod, form, Some(start.unwrap_or(0)))?;
    let cluster = world.cluster();
    let nodes = cluster.node_count();
    let limit = match Sampling::of(of_profile, global, true) {
        Sampling::All => nodes,
        Sampling::Percentage(percentage) => num_feasible_nodes_to_find(nodes, percentage),
    };
    let feasible = evaluation.feasible.iter().map(|(node, _)| *node);
    let actual = json!({
        "numFeasibleNodesToFind": limit,
        "nodeOrder": decision::names(world.engine().world().node_order().iter().copied(), cluster),
        "feasible": decision::names(feasible, cluster),
        "evaluated": evaluation.feasible.len() + evaluation.verdicts.explicit_count(),
        "nextStartIndex": evaluation.next_start,
        "best": decision::best(&evaluation, cluster),
    });
    Ok(actual)
}

fn compare(expected: &Value, actual: &Value, comparison: &mut Comparison) {
    for (entry, recorded) in expected.as_object().into_iter().flatten() {
        comparison.equal(entry, recorded, &actual[entry]);
    }
}
