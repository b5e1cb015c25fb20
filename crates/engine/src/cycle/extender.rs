//! Filter and prioritize calls to extenders.

use std::collections::BTreeMap;

use framework::{NodeIx, Status, Verdicts};

use super::subject::Subject;
use crate::extender::Extender;
use crate::ports::{ExtenderCall, Filtered};
use crate::profile::MAX_NODE_SCORE;

/// Highest score an extender gives.
const MAX_EXTENDER_PRIORITY: i64 = 10;

/// Keeps in `nodes` the nodes that pass every extender, and records the verdicts on the others.
pub(crate) fn filter_by_extenders(
    subject: &mut Subject<'_, '_>,
    nodes: &mut Vec<NodeIx>,
    verdicts: &mut Verdicts,
) -> Result<(), Status> {
    for (place, extender) in subject.settings.extenders.iter().enumerate() {
        if nodes.is_empty() {
            break;
        }
        if !extender.filter || !extender.is_interested(subject.pod) {
            continue;
        }
        match filter_by(subject, place, nodes, verdicts) {
            Err(text) if extender.ignorable => subject.cx.extenders.skipped(place, &text),
            Err(text) => return Err(Status::error(text)),
            Ok(kept) => *nodes = kept,
        }
    }
    Ok(())
}

fn filter_by(
    subject: &mut Subject<'_, '_>,
    extender: usize,
    nodes: &[NodeIx],
    verdicts: &mut Verdicts,
) -> Result<Vec<NodeIx>, String> {
    let cluster = subject.cluster();
    let by_name: BTreeMap<&str, NodeIx> =
        nodes.iter().map(|node| (&**cluster.node_name(*node), *node)).collect();
    let call = call(subject, extender, nodes);
    let (answer, now) = subject.cx.extenders.filter(&call, subject.cx.now);
    subject.cx.now = now;
    let Filtered { nodes: kept, failed, failed_and_unresolvable } = answer?;
    let asked = &subject.settings.extenders[extender].name;
    let find = |name: &String| {
        by_name.get(name.as_str()).copied().ok_or_else(|| {
            format!(
                "extender {asked:?} claims a filtered node {name:?} which is not found in the \
                 input node list"
            )
        })
    };
    let mut kept = kept.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    kept.sort_unstable();
    kept.dedup();
    for (name, reason) in failed {
        if let Some(node) = by_name.get(name.as_str()) {
            verdicts.record(*node, Status::unschedulable(reason));
        }
    }
    for (name, reason) in failed_and_unresolvable {
        if let Some(node) = by_name.get(name.as_str()) {
            verdicts.record(*node, Status::unresolvable(reason));
        }
    }
    Ok(kept)
}

/// Adds the scores of the extenders; errors are ignored.
pub(super) fn prioritize_by_extenders(
    subject: &mut Subject<'_, '_>,
    nodes: &[NodeIx],
    totals: &mut [i64],
) {
    let (cluster, pod) = (subject.cluster(), subject.pod);
    let all = subject.settings.extenders.iter().enumerate();
    let called: Vec<(usize, &Extender)> =
        all.filter(|(_, extender)| extender.prioritize && extender.is_interested(pod)).collect();
    if called.is_empty() {
        return;
    }
    let calls: Vec<_> = called.iter().map(|(place, _)| call(subject, *place, nodes)).collect();
    let (answers, now) = subject.cx.extenders.prioritize(calls, subject.cx.now);
    subject.cx.now = now;
    let places: BTreeMap<&str, usize> =
        nodes.iter().zip(0..).map(|(node, place)| (&**cluster.node_name(*node), place)).collect();
    for ((_, extender), answer) in called.iter().zip(answers) {
        let factor = extender.weight.saturating_mul(MAX_NODE_SCORE / MAX_EXTENDER_PRIORITY);
        for (name, score) in answer.unwrap_or_default() {
            if let Some(place) = places.get(name.as_str()) {
                totals[*place] = totals[*place].saturating_add(score.saturating_mul(factor));
            }
        }
    }
}

fn call<'a>(subject: &Subject<'a, '_>, extender: usize, nodes: &[NodeIx]) -> ExtenderCall<'a> {
    let cluster = subject.cluster();
    let nodes = nodes.iter().map(|node| &**cluster.node_name(*node)).collect();
    ExtenderCall { extender, pod: subject.pod, nodes }
}
