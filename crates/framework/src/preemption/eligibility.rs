//! Whether a pod may preempt other pods.

use std::borrow::Cow;

use super::FailedAttempt;
use super::units::priority_of;
use crate::Code;

/// Decides whether a pod may preempt others, as DefaultPreemption does
/// (`PodEligibleToPreemptOthers`). It may not with `preemptionPolicy: Never`, nor while victims
/// terminate on its nominated node, unless the pod cannot use that node any more.
///
/// # Errors
/// The reason it may not.
pub fn pod_eligible_to_preempt_others(
    attempt: &FailedAttempt<'_>,
) -> Result<(), Cow<'static, str>> {
    let FailedAttempt { pod, verdicts, .. } = attempt;
    let cluster = attempt.cluster();
    if !pod.spec.may_preempt {
        return Err("not eligible due to preemptionPolicy=Never.".into());
    }
    let nominated = pod.nominated_node_name().and_then(|name| cluster.node_named(name));
    let Some(node) = nominated else { return Ok(()) };
    if verdicts.get(node).code() == Code::UnschedulableAndUnresolvable {
        return Ok(());
    }
    let makes_room = cluster.node(node).pods().any(|other| {
        other.terminating && other.preempted && priority_of(cluster, other) < pod.priority()
    });
    match makes_room {
        true => Err("not eligible due to a terminating pod on the nominated node.".into()),
        false => Ok(()),
    }
}
