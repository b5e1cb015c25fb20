//! The node that a pod is nominated to.

use framework::{NodeIx, Status, Verdicts};

use super::error::ScheduleError;
use super::extender::filter_by_extenders;
use super::filter::verdict_on;
use super::subject::Subject;

/// The result of filtering the node that the pod is nominated to.
#[derive(Default)]
pub(crate) enum NominatedNode {
    /// The pod is nominated to none of the nodes in question, or an extender gave no reason.
    #[default]
    Unknown,
    Rejected(NodeIx, Status),
    Feasible(NodeIx),
}

impl NominatedNode {
    /// Filters the node that the pod is nominated to. If it passes, no other node is considered.
    pub(crate) fn of(subject: &mut Subject<'_, '_>) -> Result<Self, ScheduleError> {
        let named = subject.pod.nominated_node_name();
        let node = named.and_then(|name| subject.cluster().node_named(name));
        let is_asked = |node: &NodeIx| subject.within.is_none_or(|within| within.contains(*node));
        let Some(node) = node.filter(is_asked) else { return Ok(Self::Unknown) };
        let status = verdict_on(subject, node)?;
        if !status.is_success() {
            return Ok(Self::Rejected(node, status));
        }
        let (mut nodes, mut verdicts) = (vec![node], Verdicts::default());
        filter_by_extenders(subject, &mut nodes, &mut verdicts).map_err(ScheduleError::Error)?;
        if nodes.is_empty() {
            let status = verdicts.explicit(node).cloned();
            return Ok(status.map_or(Self::Unknown, |status| Self::Rejected(node, status)));
        }
        Ok(Self::Feasible(node))
    }
}
