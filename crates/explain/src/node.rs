//! The answer about one node.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use framework::{Cluster, NodeIx, Taint};

use crate::answer::{NodeAnswer, PendingCause};
use crate::group::{Templates, waiting};
use crate::lab::Lab;
use crate::now::NOW;
use crate::quantity;

/// Number of pods that a cause names.
const NAMES: usize = 10;

/// Answers what a node offers and why pending pods do not run there. Returns `None` if the node does not exist.
pub fn explain_node(lab: &mut Lab<'_>, name: &str) -> Option<NodeAnswer> {
    let cluster = lab.cluster();
    let node = cluster.node_named(name)?;
    let view = cluster.node(node);
    let repelling = |taint: &&Taint| taint.effect.forbids_scheduling();
    let mut answer = NodeAnswer {
        as_of: NOW.to_owned(),
        node: name.to_owned(),
        unschedulable: view.is_unschedulable(),
        taints: view.taints().iter().filter(repelling).map(crate::help::taint_text).collect(),
        pods: (view.pod_count(), view.allowed_pods()),
        resources: resources(cluster, node),
        ..NodeAnswer::default()
    };
    let evaluated = Templates::of(waiting(lab)).evaluate(lab);
    answer.is_incomplete = evaluated.is_incomplete;
    let mut causes: BTreeMap<String, PendingCause> = BTreeMap::new();
    for (findings, pods) in &evaluated.templates {
        answer.pending += pods.len();
        let check = findings.check(lab.cluster(), name);
        if check.feasible {
            answer.fitting += pods.len();
            continue;
        }
        let cause = match &findings.gate {
            Some(gate) => format!("gated: {}", gate.message()),
            None => check.reasons.join(", "),
        };
        let own = causes
            .entry(cause.clone())
            .or_insert_with(|| PendingCause { cause, ..PendingCause::default() });
        own.count += pods.len();
        let room = NAMES.saturating_sub(own.pods.len());
        own.pods.extend(pods.iter().take(room).map(|pod| pod.key.to_string()));
    }
    answer.rejections = causes.into_values().collect();
    answer.rejections.sort_by_key(|cause| Reverse(cause.count));
    Some(answer)
}

/// Returns requested and allocatable amounts.
fn resources(cluster: &Cluster, node: NodeIx) -> BTreeMap<String, (String, String)> {
    let view = cluster.node(node);
    let (requested, allocatable) = (view.requested(), view.allocatable());
    let mut rows = vec![
        ("cpu".to_owned(), requested.milli_cpu, allocatable.milli_cpu),
        ("memory".to_owned(), requested.memory, allocatable.memory),
        (
            "ephemeral-storage".to_owned(),
            requested.ephemeral_storage,
            allocatable.ephemeral_storage,
        ),
    ];
    let scalars = cluster.to_node(node).allocatable.scalars;
    rows.extend(
        scalars
            .iter()
            .map(|(name, amount)| (name.to_string(), view.scalar(name).requested, *amount)),
    );
    let texts = rows.into_iter().map(|(name, requested, allocatable)| {
        let (requested, allocatable) =
            (quantity::text(&name, requested), quantity::text(&name, allocatable));
        (name, (requested, allocatable))
    });
    texts.collect()
}
