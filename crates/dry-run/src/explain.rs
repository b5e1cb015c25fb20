//! Explanations: why a pod fits some nodes and not others, in the current state.

use std::cmp::Reverse;

use engine::Evaluation;
use framework::{Cluster, NodeBits, NodeIx, Pod, PodKey, Status};
use plugins::catalogue::{self, Entry};
use serde::Serialize;

use crate::{State, World};

/// Number of nodes whose scores are listed.
const BEST: usize = 5;

/// The explanation of one pod. It describes the state after the run, not the state when the pod was
/// placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Namespace and name.
    pub pod: String,
    /// Always `now`: evaluated in the state after the run.
    pub as_of: &'static str,
    /// The node of the pod. The evaluation ignores the pod itself on this node.
    pub node: Option<String>,
    /// The message of the PreEnqueue plugin that gates the pod.
    pub gate: Option<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of feasible nodes.
    pub feasible: usize,
    /// Rejections of the other nodes, the most frequent first.
    pub verdicts: Vec<Verdict>,
    /// The best nodes by descending total, and by name among equal totals.
    pub best: Vec<Ranked>,
    /// The error, if the evaluation failed.
    pub error: Option<String>,
}

/// A rejection shared by some nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The plugin that rejected the nodes.
    pub plugin: String,
    /// Its status code.
    pub code: &'static str,
    /// Its reasons.
    pub reasons: Vec<String>,
    /// The nodes, sorted by name.
    pub nodes: Vec<String>,
    /// Details of the plugin about some of the nodes beyond its reasons, the most frequent first.
    pub details: Vec<VerdictDetail>,
}

/// A detail of a plugin about nodes that it rejected, beyond its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictDetail {
    /// The text.
    pub text: String,
    /// The nodes, sorted by name.
    pub nodes: Vec<String>,
}

/// A feasible node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranked {
    /// The node.
    pub node: String,
    /// Sum of the scores; `None` if nodes were not scored, as with only one feasible node.
    pub total: Option<i64>,
    /// Normalised and weighted score by plugin, in the order of the profile.
    pub scores: Vec<PluginScore>,
}

/// The score of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// The plugin.
    pub plugin: String,
    /// The normalised and weighted score.
    pub score: i64,
}

/// Explains a pod that arrived without a node. A placed pod is removed from its node for the
/// evaluation.
pub(super) fn explain(world: &mut World, pod: &Pod) -> Option<Explanation> {
    let node = match &world.history(&pod.key)?.state {
        State::Placed { node, .. } => Some(node.clone()),
        _ => None,
    };
    let gate = world.gate_of(&pod.key);
    let evaluation = match &node {
        None => world.evaluate(pod)?,
        Some(node) => {
            world.hide_pod(pod);
            let evaluation = world.evaluate(pod);
            world.add_pod(Pod { node_name: Some(node.clone()), ..pod.clone() });
            evaluation?
        }
    };
    let cluster = world.engine().cluster();
    let node = node.map(|node| node.to_string());
    Some(Explanation { node, gate, ..of_evaluation(&pod.key, cluster, &evaluation) })
}

fn of_evaluation(pod: &PodKey, cluster: &Cluster, evaluation: &Evaluation) -> Explanation {
    Explanation {
        pod: pod.to_string(),
        as_of: "now",
        node: None,
        gate: None,
        nodes: cluster.node_count(),
        feasible: evaluation.feasible.len(),
        verdicts: verdicts(cluster, evaluation),
        best: best(cluster, evaluation),
        error: evaluation.error.as_ref().map(Status::message),
    }
}

/// Returns every distinct rejection with its nodes.
fn verdicts(cluster: &Cluster, evaluation: &Evaluation) -> Vec<Verdict> {
    let verdict = |(status, nodes): (&Status, NodeBits)| Verdict {
        plugin: status.plugin().map(ToString::to_string).unwrap_or_default(),
        code: status.code().name(),
        reasons: status.reasons().iter().map(ToString::to_string).collect(),
        details: details(cluster, evaluation, status, &nodes),
        nodes: sorted_names(cluster, &nodes),
    };
    evaluation.rejections(cluster.nodes()).into_iter().map(verdict).collect()
}

/// Returns the details of the plugin about nodes that have this verdict.
fn details(
    cluster: &Cluster,
    evaluation: &Evaluation,
    status: &Status,
    nodes: &NodeBits,
) -> Vec<VerdictDetail> {
    let own = evaluation.details.iter().filter(|(plugin, _)| status.plugin() == Some(plugin));
    let details = own.map(|(_, detail)| {
        let mut nodes = nodes.clone();
        nodes.intersect(&detail.nodes);
        VerdictDetail { text: detail.text.clone(), nodes: sorted_names(cluster, &nodes) }
    });
    let mut details: Vec<_> = details.filter(|detail| !detail.nodes.is_empty()).collect();
    details.sort_by_key(|detail| Reverse(detail.nodes.len()));
    details
}

fn sorted_names(cluster: &Cluster, nodes: &NodeBits) -> Vec<String> {
    let mut names: Vec<_> = nodes.iter().map(|node| cluster.node_name(node).to_string()).collect();
    names.sort_unstable();
    names
}

fn best(cluster: &Cluster, evaluation: &Evaluation) -> Vec<Ranked> {
    let of_node = |(node, total): (NodeIx, Option<i64>)| Ranked {
        node: cluster.node_name(node).to_string(),
        total,
        scores: scores(evaluation, node),
    };
    evaluation.best_first(cluster).into_iter().take(BEST).map(of_node).collect()
}

/// Returns the scores of a node, without plugins that are not implemented.
fn scores(evaluation: &Evaluation, node: NodeIx) -> Vec<PluginScore> {
    let is_built = |name: &str| catalogue::get(name).is_none_or(Entry::is_built);
    let of_plugin = |scores: &engine::cycle::NodeScores| {
        let (_, score) = scores.weighted.iter().find(|(other, _)| *other == node)?;
        Some(PluginScore { plugin: scores.plugin.to_string(), score: *score })
    };
    let shown = evaluation.scores.iter().filter(|scores| is_built(&scores.plugin));
    shown.filter_map(of_plugin).collect()
}
