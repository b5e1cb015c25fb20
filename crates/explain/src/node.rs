//! The answer about one node.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Cluster, NodeIx, Pod, Taint};

use crate::answer::{NodeAnswer, NodePod, PendingCause};
use crate::group::{Templates, waiting};
use crate::lab::Lab;
use crate::nodes::amount_texts;
use crate::now::NOW;
use crate::quantity;

/// Number of pods that a cause names.
const NAMES: usize = 10;

/// Answers what a node offers and why pending pods do not run there. Returns `None` if the node
/// does not exist.
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
        resources: amount_texts(cluster, node),
        placed: placed(cluster, node),
        ..NodeAnswer::default()
    };
    let pending = waiting(lab);
    answer.pending = pending.len();
    let evaluated = Templates::of(pending).evaluate(lab);
    answer.is_incomplete = evaluated.is_incomplete;
    let mut causes: BTreeMap<String, PendingCause> = BTreeMap::new();
    for (findings, pods) in &evaluated.templates {
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

/// Returns the pods on a node, those with the highest priority first.
fn placed(cluster: &Cluster, node: NodeIx) -> Vec<NodePod> {
    let mut pods: Vec<_> = cluster.node(node).pods().collect();
    pods.sort_by(|a, b| b.priority().cmp(&a.priority()).then_with(|| a.key.cmp(&b.key)));
    let row = |pod: &Arc<Pod>| NodePod {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
        priority: pod.priority(),
        requests: requests(pod),
    };
    pods.into_iter().map(row).collect()
}

pub(crate) fn requests(pod: &Pod) -> BTreeMap<String, String> {
    let own = &pod.requests.fit;
    let basic = [("cpu", own.milli_cpu), ("memory", own.memory)];
    let scalars = own.scalars.iter().map(|(name, amount)| (&**name, *amount));
    let rows = basic.into_iter().chain(scalars).filter(|(_, amount)| *amount > 0);
    rows.map(|(name, amount)| (name.to_owned(), quantity::text(name, amount))).collect()
}
