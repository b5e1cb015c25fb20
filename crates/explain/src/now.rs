//! Every node for a pod, on the cluster as it is.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use engine::Evaluation;
use engine::cycle::NodeScores;
use framework::{Cluster, NodeBits, NodeIx, Pod, Status};
use plugins::catalogue::{self, Entry};

use crate::answer::{
    Best, Constraint, Detail, NodeCheck, Now, PluginScore, Preemption, Rejection, Without,
};
use crate::facts::of_status;
use crate::lab::Lab;

/// The label of everything that is computed for an answer.
pub(crate) const NOW: &str = "now";
/// Plugins that keep pods from nodes on purpose, whatever room there is.
const POLICY: [&str; 4] = ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity"];
const SPREAD: &str = "PodTopologySpread";
/// Number of nodes whose scores are listed.
const BEST: usize = 5;
/// Number of nodes that a rejection names.
const NAMES: usize = 20;

/// The evaluation of a pod, with what its answer and the search for help read.
pub(crate) struct Findings {
    pub(crate) pod: Arc<Pod>,
    pub(crate) evaluation: Evaluation,
    /// The status of the PreEnqueue plugin that gates the pod.
    pub(crate) gate: Option<Status>,
}

impl Findings {
    /// Evaluates a pod; `None` if no profile is responsible for it.
    pub(crate) fn of(lab: &mut Lab<'_>, pod: &Arc<Pod>) -> Option<Self> {
        let gate = lab.gate(pod);
        Some(Self { pod: pod.clone(), evaluation: lab.evaluate(pod)?, gate })
    }

    /// The status with which PreFilter rejected the pod.
    pub(crate) fn pre_filter(&self) -> Option<&Status> {
        let fit = self.evaluation.fit_error.as_ref()?;
        Some(&fit.diagnosis.pre_filter).filter(|status| !status.is_success())
    }

    /// Returns the nodes that the plugin rejects.
    pub(crate) fn rejected_by(&self, plugin: &str, cluster: &Cluster) -> NodeBits {
        let passes = self.evaluation.passes.iter().find(|(name, _)| **name == *plugin);
        passes.map_or_else(NodeBits::default, |(_, passes)| {
            let mut rejected = cluster.nodes().clone();
            rejected.subtract(passes);
            rejected
        })
    }

    /// Returns the nodes that only these plugins reject.
    pub(crate) fn rejected_only_by(&self, plugins: &[&str], cluster: &Cluster) -> NodeBits {
        let mut only = NodeBits::default();
        for plugin in plugins {
            only.union(&self.rejected_by(plugin, cluster));
        }
        for (name, passes) in &self.evaluation.passes {
            if !plugins.contains(&name.as_ref()) {
                only.intersect(passes);
            }
        }
        only
    }

    /// Returns the nodes that the pod is meant for: neither closed, nor tainted, nor left out by
    /// its affinity.
    fn home(&self, cluster: &Cluster) -> NodeBits {
        let mut home = cluster.nodes().clone();
        for (name, passes) in &self.evaluation.passes {
            if POLICY.contains(&name.as_ref()) {
                home.intersect(passes);
            }
        }
        home
    }

    /// Whether a node that the pod is meant for lacks something. An uneven spread is no lack: it
    /// counts other nodes, too.
    pub(crate) fn is_short_at_home(&self, cluster: &Cluster) -> bool {
        let mut short = self.home(cluster);
        short.subtract(&self.rejected_only_by(&[SPREAD], cluster));
        !self.evaluation.passes.is_empty() && !short.is_empty()
    }

    /// Returns the names of the plugins that reject a node.
    pub(crate) fn rejecting(&self, node: NodeIx) -> Vec<String> {
        let rejecting = self.evaluation.passes.iter().filter(|(_, passes)| !passes.contains(node));
        rejecting.map(|(name, _)| name.to_string()).collect()
    }

    /// Returns the part of the answer about all nodes.
    pub(crate) fn now(&self, cluster: &Cluster) -> Now {
        let evaluation = &self.evaluation;
        let constraint = |(name, passes): &(framework::PluginName, NodeBits)| Constraint {
            plugin: name.to_string(),
            rejects: cluster.node_count() - passes.count(),
            alone: self.rejected_only_by(&[name.as_ref()], cluster).count(),
        };
        let constraints = evaluation.passes.iter().map(constraint);
        Now {
            as_of: NOW.to_owned(),
            gate: self.gate.as_ref().map(Status::message),
            nodes: cluster.node_count(),
            feasible: evaluation.feasible.len(),
            rejections: rejections(cluster, evaluation),
            constraints: constraints.filter(|constraint| constraint.rejects > 0).collect(),
            best: best(cluster, evaluation),
            without: without(cluster, evaluation),
            preemption: self.preemption().map(|preemption| Preemption {
                node: preemption.node.to_string(),
                victims: preemption.victims.iter().map(|pod| pod.key.to_string()).collect(),
            }),
            message: evaluation.fit_error.as_ref().map(engine::cycle::FitError::message),
            error: evaluation.error.as_ref().map(Status::message),
        }
    }

    /// Returns the evictions that the next attempt would ask for.
    pub(crate) fn preemption(&self) -> Option<&framework::preemption::Preemption> {
        self.evaluation.post_filter.as_ref()?.preemption.as_ref()
    }

    /// Returns the answer about one node.
    pub(crate) fn check(&self, cluster: &Cluster, name: &str) -> NodeCheck {
        let mut check = NodeCheck {
            as_of: NOW.to_owned(),
            node: name.to_owned(),
            exists: false,
            feasible: false,
            reasons: Vec::new(),
            rejecting: Vec::new(),
            scores: Vec::new(),
            total: None,
            better: None,
        };
        let Some(node) = cluster.node_named(name) else { return check };
        check.exists = true;
        let feasible = &self.evaluation.feasible;
        if let Some((_, total)) = feasible.iter().find(|(other, _)| *other == node) {
            check.feasible = true;
            check.total = *total;
            check.scores = scores(&self.evaluation, node);
            check.better =
                total.map(|own| feasible.iter().filter(|(_, total)| *total > Some(own)).count());
            return check;
        }
        let status = self.evaluation.verdicts.get(node);
        check.reasons = status.reasons().iter().map(ToString::to_string).collect();
        if check.reasons.is_empty() && self.evaluation.passed.contains(node) {
            check
                .reasons
                .push("the pod is nominated to another node, which can take it".to_owned());
        }
        check.rejecting = self.rejecting(node);
        check
    }
}

/// Returns every distinct rejection with its nodes.
fn rejections(cluster: &Cluster, evaluation: &Evaluation) -> Vec<Rejection> {
    let rejection = |(status, nodes): (&Status, NodeBits)| Rejection {
        count: nodes.count(),
        nodes: names(cluster, &nodes),
        details: details(evaluation, status, &nodes),
        ..of_status(status)
    };
    evaluation.rejections(cluster.nodes()).into_iter().map(rejection).collect()
}

fn details(evaluation: &Evaluation, status: &Status, nodes: &NodeBits) -> Vec<Detail> {
    let own = evaluation.details.iter().filter(|(plugin, _)| status.plugin() == Some(plugin));
    let details = own.map(|(_, detail)| {
        let mut nodes = nodes.clone();
        nodes.intersect(&detail.nodes);
        Detail { text: detail.text.clone(), count: nodes.count() }
    });
    let mut details: Vec<_> = details.filter(|detail| detail.count > 0).collect();
    details.sort_by_key(|detail| Reverse(detail.count));
    details
}

/// Returns the first names, sorted.
pub(crate) fn names(cluster: &Cluster, nodes: &NodeBits) -> Vec<String> {
    let mut names: Vec<_> = nodes.iter().map(|node| cluster.node_name(node)).collect();
    names.sort_unstable();
    names.into_iter().take(NAMES).map(ToString::to_string).collect()
}

fn best(cluster: &Cluster, evaluation: &Evaluation) -> Vec<Best> {
    let of_node = |(node, total): (NodeIx, Option<i64>)| Best {
        node: cluster.node_name(node).to_string(),
        total,
        scores: scores(evaluation, node),
    };
    evaluation.best_first(cluster).into_iter().take(BEST).map(of_node).collect()
}

/// Returns the scores of a node, without plugins that are not built.
fn scores(evaluation: &Evaluation, node: NodeIx) -> Vec<PluginScore> {
    let is_built = |name: &str| catalogue::get(name).is_none_or(Entry::is_built);
    let of_plugin = |scores: &NodeScores| {
        let (_, weighted) = scores.weighted.iter().find(|(other, _)| *other == node)?;
        let raw = scores.raw.iter().flatten().find(|(other, _)| *other == node);
        let raw = raw.map(|(_, raw)| *raw);
        let parts = scores.parts.get(&node).cloned();
        Some(PluginScore { plugin: scores.plugin.to_string(), raw, weighted: *weighted, parts })
    };
    let shown = evaluation.scores.iter().filter(|scores| is_built(&scores.plugin));
    shown.filter_map(of_plugin).collect()
}

/// Returns the score plugins without which none of the best nodes would win, with the node that
/// would.
fn without(cluster: &Cluster, evaluation: &Evaluation) -> Vec<Without> {
    let best = evaluation.best();
    let mut without = Vec::new();
    for scores in &evaluation.scores {
        let own: HashMap<NodeIx, i64> = scores.weighted.iter().copied().collect();
        let totals = evaluation.feasible.iter().filter_map(|(node, total)| {
            Some((*node, (*total)? - own.get(node).copied().unwrap_or_default()))
        });
        let totals: Vec<(NodeIx, i64)> = totals.collect();
        let Some(highest) = totals.iter().map(|(_, total)| *total).max() else { continue };
        let winners =
            || totals.iter().filter(|(_, total)| *total == highest).map(|(node, _)| *node);
        if winners().any(|node| best.contains(&node)) {
            continue;
        }
        let name = winners().map(|node| cluster.node_name(node)).min();
        without.extend(
            name.map(|name| Without { plugin: scores.plugin.to_string(), node: name.to_string() }),
        );
    }
    without
}
