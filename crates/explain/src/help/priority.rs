//! A priority with which evictions make room.

use std::collections::BTreeSet;

use engine::Change;
use framework::{Code, NodeIx, Pod};

use super::{Proposal, are_siblings, size, suggestion, verified, with_spec};
use crate::answer::Suggestion;
use crate::lab::Lab;
use crate::now::Findings;

/// Number of siblings with a node whose priority is tried, too.
const SIBLINGS: usize = 256;

/// Returns the lowest priority with which the pod gets room, or that it may preempt if its policy
/// forbids that.
pub(super) fn search(lab: &mut Lab<'_>, findings: &Findings) -> Option<Suggestion> {
    let pod = &findings.pod;
    if !pod.spec.may_preempt {
        let changed = with_spec(pod, |spec| spec.may_preempt = true);
        let text = "let the pod preempt others (preemptionPolicy: PreemptLowerPriority)".to_owned();
        let mut proposal = Proposal::of_pod("preemptionPolicy", 0.0, text, changed);
        proposal.size = size::OTHER_POD - 0.1;
        return verified(lab, pod, proposal);
    }
    let own = pod.priority();
    let cluster = lab.cluster();
    let verdicts = &findings.evaluation.verdicts;
    let may_help = |node: &NodeIx| verdicts.get(*node).code() == Code::Unschedulable;
    let nodes = cluster.nodes().iter().filter(may_help);
    let placed = nodes.flat_map(|node| cluster.node(node).pods());
    // A template has one priority: the siblings get it, too, and are not victims.
    let (siblings, placed): (Vec<_>, Vec<_>) =
        placed.cloned().partition(|placed| are_siblings(pod, placed));
    if siblings.len() > SIBLINGS {
        return None;
    }
    let higher: BTreeSet<i32> =
        placed.iter().map(|pod| pod.priority()).filter(|found| *found >= own).collect();
    let with_priority = |priority: i32| -> Vec<Change> {
        let changed = |pod: &Pod| with_spec(pod, |spec| spec.priority = priority);
        let all = siblings.iter().chain([pod]);
        all.map(|pod| Change::Pod(Box::new(changed(pod)))).collect()
    };
    let priorities: Vec<i32> = higher.iter().filter_map(|found| found.checked_add(1)).collect();
    // A higher priority can evict every pod that a lower one can.
    let (mut low, mut high) = (0, priorities.len());
    let mut verified_at = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let trial = lab.try_with(pod, &with_priority(priorities[middle]))?;
        match trial.succeeds() {
            true => (high, verified_at) = (middle, Some(trial)),
            false => low = middle + 1,
        }
    }
    let priority = *priorities.get(low)?;
    let text = format!(
        "a priority of at least {priority} (it is {own}), with which the pod evicts others"
    );
    let proposal = Proposal::new("priority", size::PRIORITY, text, with_priority(priority));
    suggestion(proposal, &verified_at?)
}
