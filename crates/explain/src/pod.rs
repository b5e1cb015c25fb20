//! The answer about one pod.

use std::sync::Arc;

use framework::{Pod, PodKey};

use crate::answer::{PodAnswer, PodFacts};
use crate::help;
use crate::lab::Lab;
use crate::now::Findings;
use crate::pod_group::summary_of;

const FITS_NOW: &str = "nodes can take the pod now, and its last attempt found none: something has changed since and the pod \
                        is tried again soon, or an extender rejected it, which the recorded attempt says";

/// Answers a question about a pod, and about one node for it.
///
/// A pod that has a node is removed for the evaluation, so that its own requests and terms do not
/// count. Returns `None` if the lab does not know the pod.
pub fn explain_pod(lab: &mut Lab<'_>, facts: PodFacts, node: Option<&str>) -> Option<PodAnswer> {
    let key = PodKey::new(&facts.namespace, &facts.name);
    let pending = lab.engine().pending_pod(&key).filter(|_| facts.node.is_none()).cloned();
    let placed = match pending {
        Some(_) => None,
        None => {
            let pod = lab.engine().world().placed(&facts.uid.as_str().into())?.pod.clone();
            lab.take_off(&pod);
            Some(pod)
        }
    };
    let without_node = |pod: &Arc<Pod>| Arc::new(Pod { node_name: None, ..Pod::clone(pod) });
    let pod = pending.or_else(|| placed.as_ref().map(without_node))?;
    let findings = Findings::of(lab, &pod);
    let cluster = lab.cluster();
    let now = findings.as_ref().map(|findings| findings.now(cluster));
    let check = findings.as_ref().zip(node).map(|(findings, node)| findings.check(cluster, node));
    let waits = facts.node.is_none();
    let is_rejected = facts.state == "unschedulable" && facts.history.last().is_some();
    let fits = findings.as_ref().is_some_and(|own| !own.evaluation.feasible.is_empty());
    let group = waits.then(|| summary_of(lab, &pod)).flatten();
    let notes = group.or_else(|| (is_rejected && fits).then(|| FITS_NOW.to_owned()));
    let help = findings.filter(|_| waits).map(|findings| help::search(lab, &findings));
    if let Some(placed) = placed {
        lab.put_back(&placed);
    }
    Some(PodAnswer {
        facts,
        now,
        node: check,
        help_is_incomplete: waits && lab.is_exhausted(),
        help: help.unwrap_or_default(),
        notes: notes.into_iter().collect(),
    })
}
