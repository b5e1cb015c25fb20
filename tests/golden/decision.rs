//! A decision of the engine in the shape of the recordings.

use std::sync::Arc;

use engine::{Evaluation, PostFilterEvaluation};
use framework::preemption::Candidate;
use framework::{Cluster, NodeIx, Pod, Status};
use serde_json::{Map, Value, json};

/// Returns a decision in the shape of `expected` of the scheduling areas.
pub(crate) fn describe(evaluation: &Evaluation, cluster: &Cluster) -> Value {
    let mut fields = Map::new();
    let mut set = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
    set("feasible", feasible(evaluation, cluster));
    if let Some(error) = &evaluation.error {
        set("error", error.message().into());
        if cluster.node_count() == 0 {
            set("message", error.message().into());
        }
        return fields.into();
    }
    let fit_error = evaluation.fit_error.as_ref();
    match fit_error.map(|error| &error.diagnosis.pre_filter).filter(|status| !status.is_success()) {
        Some(status) => set("preFilter", verdict(status)),
        None => set("nodes", verdicts(evaluation, cluster)),
    }
    if evaluation.feasible.len() > 1 {
        set("scores", scores(evaluation, cluster));
        if evaluation.scores.iter().any(|scores| scores.raw.is_some()) {
            set("rawScores", raw_scores(evaluation, cluster));
        }
    }
    if !evaluation.feasible.is_empty() {
        set("best", best(evaluation, cluster));
    }
    if !evaluation.rejectors.is_empty() {
        let rejectors: Vec<&str> = evaluation.rejectors.iter().map(|name| &**name).collect();
        set("unschedulablePlugins", rejectors.into());
    }
    if let Some(error) = fit_error {
        set("message", error.message_before_post_filter().into());
        if evaluation.post_filter.is_some() {
            set("fullMessage", error.message().into());
        }
        set("preemption", preemption(evaluation.post_filter.as_ref(), cluster));
    }
    fields.into()
}

/// Returns the result of PostFilter.
fn preemption(post_filter: Option<&PostFilterEvaluation>, cluster: &Cluster) -> Value {
    let Some(PostFilterEvaluation { result, preemption, candidates }) = post_filter else {
        return json!({"ran": false, "nominated": "", "victims": [], "message": ""});
    };
    let victims = preemption.as_ref().map_or(&[][..], |preemption| &preemption.victims);
    let mut told = json!({
        "ran": true,
        "code": result.status.code().name(),
        "message": result.status.message(),
        "nominated": preemption.as_ref().map_or("", |preemption| &preemption.node),
        "victims": keys(victims),
    });
    for Candidate { node, victims } in candidates {
        told["candidates"][&**cluster.node_name(*node)] =
            json!({"victims": keys(&victims.pods), "pdbViolations": victims.pdb_violations});
    }
    told
}

fn keys(pods: &[Arc<Pod>]) -> Value {
    sorted(pods.iter().map(|pod| pod.key.to_string()).collect())
}

/// Returns a step of a sequence or history in the shape of its recording.
pub(crate) fn describe_step(pod: &str, evaluation: &Evaluation, cluster: &Cluster) -> Value {
    let mut step = json!({"pod": pod, "feasible": feasible(evaluation, cluster)});
    if evaluation.feasible.len() > 1 {
        step["totals"] = evaluation
            .feasible
            .iter()
            .map(|(node, total)| (cluster.node_name(*node).to_string(), json!(total)))
            .collect::<Map<_, _>>()
            .into();
    }
    let best = best(evaluation, cluster);
    step["chosen"] = best.get(0).cloned().unwrap_or_else(|| "".into());
    if evaluation.feasible.is_empty() {
        step["message"] = match (&evaluation.error, &evaluation.fit_error) {
            (Some(error), _) => error.message().into(),
            (None, fit_error) => {
                fit_error.as_ref().map(|error| error.message_before_post_filter()).into()
            }
        };
    } else {
        step["best"] = best;
    }
    step
}

/// Returns a status in the shape of the recording.
pub(crate) fn verdict(status: &Status) -> Value {
    let mut reasons: Vec<&str> = status.reasons().iter().map(AsRef::as_ref).collect();
    reasons.sort_unstable();
    let mut verdict = json!({"code": status.code().name()});
    if let Some(plugin) = status.plugin() {
        verdict["plugin"] = (**plugin).into();
    }
    if !status.is_success() {
        verdict["reasons"] = reasons.into();
    }
    verdict
}

/// Returns the names of the nodes, in their order.
pub(crate) fn names(nodes: impl IntoIterator<Item = NodeIx>, cluster: &Cluster) -> Value {
    nodes.into_iter().map(|node| cluster.node_name(node).to_string()).collect()
}

/// Returns the best nodes, sorted by name.
pub(crate) fn best(evaluation: &Evaluation, cluster: &Cluster) -> Value {
    sorted(names(evaluation.best(), cluster))
}

fn feasible(evaluation: &Evaluation, cluster: &Cluster) -> Value {
    sorted(names(evaluation.feasible.iter().map(|(node, _)| *node), cluster))
}

fn sorted(names: Value) -> Value {
    let Value::Array(mut names) = names else { return names };
    names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    names.into()
}

fn verdicts(evaluation: &Evaluation, cluster: &Cluster) -> Value {
    let of = |node: NodeIx| match evaluation.passed.contains(node) {
        true => verdict(&Status::success()),
        false => verdict(evaluation.verdicts.get(node)),
    };
    let nodes = cluster.nodes().iter();
    nodes.map(|node| (cluster.node_name(node).to_string(), of(node))).collect::<Map<_, _>>().into()
}

fn scores(evaluation: &Evaluation, cluster: &Cluster) -> Value {
    let mut nodes = json!({});
    for (node, total) in &evaluation.feasible {
        nodes[&**cluster.node_name(*node)] = json!({"total": total});
    }
    for scores in &evaluation.scores {
        for (node, score) in &scores.weighted {
            nodes[&**cluster.node_name(*node)][&*scores.plugin] = json!(score);
        }
    }
    nodes
}

fn raw_scores(evaluation: &Evaluation, cluster: &Cluster) -> Value {
    let mut nodes = json!({});
    for scores in &evaluation.scores {
        for (node, score) in scores.raw.iter().flatten() {
            nodes[&**cluster.node_name(*node)][&*scores.plugin] = json!(score);
        }
    }
    nodes
}
