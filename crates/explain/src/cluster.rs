//! The answer about the cluster.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use framework::{Cluster, NodeBits, NodeIx, Pod};

use crate::answer::{ClusterAnswer, Constraint, Stranded};
use crate::group::{Evaluated, Templates, waiting};
use crate::lab::Lab;
use crate::now::NOW;
use crate::quantity;

/// Answers which pods wait and why, which free amounts they cannot use, and what each constraint
/// costs.
pub fn explain_cluster(lab: &mut Lab<'_>) -> ClusterAnswer {
    let pending = waiting(lab);
    let count = pending.len();
    let evaluated = Templates::of(pending).evaluate(lab);
    let causes = evaluated.causes(lab);
    let cluster = lab.cluster();
    ClusterAnswer {
        as_of: NOW.to_owned(),
        nodes: cluster.node_count(),
        placed: cluster.pod_count(),
        pending: count,
        causes,
        stranded: stranded(cluster, &evaluated),
        constraints: constraints(cluster, &evaluated),
        templates: evaluated.templates.len(),
        is_incomplete: evaluated.is_incomplete,
        notes: Vec::new(),
    }
}

/// Sums what each plugin rejects over the templates.
fn constraints(cluster: &Cluster, evaluated: &Evaluated) -> Vec<Constraint> {
    let mut sums: BTreeMap<String, Constraint> = BTreeMap::new();
    for (findings, _) in &evaluated.templates {
        for own in findings.now(cluster).constraints {
            let sum = sums.entry(own.plugin.clone()).or_insert_with(|| Constraint {
                plugin: own.plugin.clone(),
                rejects: 0,
                alone: 0,
            });
            sum.rejects += own.rejects;
            sum.alone += own.alone;
        }
    }
    let mut sums: Vec<_> = sums.into_values().collect();
    sums.sort_by_key(|own| Reverse((own.alone, own.rejects)));
    sums
}

/// Returns the free amounts, and the part of them on nodes that can take no pending pod. A pod that
/// is larger than every node, even an empty one, says nothing about free amounts. Without other
/// pending pods nothing is stranded.
fn stranded(cluster: &Cluster, evaluated: &Evaluated) -> Vec<Stranded> {
    let templates = evaluated.templates.iter();
    let templates: Vec<_> =
        templates.filter(|(findings, _)| is_for_some_node(cluster, &findings.pod)).collect();
    if templates.is_empty() {
        return Vec::new();
    }
    let mut usable = NodeBits::default();
    for (findings, _) in templates {
        for (node, _) in &findings.evaluation.feasible {
            usable.insert(*node);
        }
    }
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for node in cluster.nodes().iter() {
        for (resource, free) in free(cluster, node) {
            let (all, stranded) = sums.entry(resource).or_default();
            *all = all.saturating_add(free);
            if !usable.contains(node) {
                *stranded = stranded.saturating_add(free);
            }
        }
    }
    let rows = sums.into_iter().filter(|(_, (all, _))| *all > 0);
    rows.map(|(resource, (all, stranded))| Stranded {
        free: quantity::text(&resource, all),
        stranded: quantity::text(&resource, stranded),
        percent: percent(stranded, all),
        resource,
    })
    .collect()
}

/// Whether some node, if it were empty, would have what the pod requests.
fn is_for_some_node(cluster: &Cluster, pod: &Pod) -> bool {
    let requests = &pod.requests.fit;
    cluster.nodes().iter().any(|node| {
        let view = cluster.node(node);
        let all = view.allocatable();
        let scalars = requests.scalars.iter();
        requests.milli_cpu <= all.milli_cpu
            && requests.memory <= all.memory
            && requests.ephemeral_storage <= all.ephemeral_storage
            && scalars.into_iter().all(|(name, amount)| *amount <= view.scalar(name).allocatable)
    })
}

fn free(cluster: &Cluster, node: NodeIx) -> Vec<(String, i64)> {
    let view = cluster.node(node);
    let (requested, allocatable) = (view.requested(), view.allocatable());
    let rows = [
        ("cpu", allocatable.milli_cpu - requested.milli_cpu),
        ("memory", allocatable.memory - requested.memory),
    ];
    let rows = rows.into_iter().map(|(name, free)| (name.to_owned(), free.max(0)));
    let scalars = cluster.to_node(node).allocatable.scalars;
    let scalars = scalars
        .iter()
        .map(|(name, amount)| (name.to_string(), (amount - view.scalar(name).requested).max(0)));
    rows.chain(scalars.collect::<Vec<_>>()).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn percent(part: i64, whole: i64) -> f64 {
    (part as f64 * 1000.0 / whole.max(1) as f64).round() / 10.0
}
