//! Checks of rankings: a full pass makes a decision again.

use framework::NodeIx;

use crate::cycle::{Chosen, FitError, FullPass, Prepared, ScheduleError, Scratch, Subject};
use crate::ports::Count;

/// Whether a full pass finds as many best nodes, and this one among them. The plugins start without
/// what they have kept.
pub(super) fn is_confirmed(
    best: &Chosen,
    subject: &mut Subject<'_, '_>,
    scratch: &mut Scratch,
) -> bool {
    let ties = full_pass(subject, scratch);
    let agrees = ties.is_ok_and(|ties| ties.len() == best.ties && ties.contains(&best.node));
    subject.cx.probe.count(Count::RankingCheck { pod: &subject.pod.key, agrees });
    agrees
}

/// Whether a full pass finds the same verdicts. The plugins start without what they have kept.
pub(super) fn is_rejection_confirmed(
    error: &ScheduleError,
    subject: &mut Subject<'_, '_>,
    scratch: &mut Scratch,
) -> bool {
    let full = full_pass(subject, scratch);
    let agrees = match (error, full) {
        (ScheduleError::Fit(own), Err(ScheduleError::Fit(full))) => are_equal(subject, own, &full),
        _ => false,
    };
    subject.cx.probe.count(Count::RankingCheck { pod: &subject.pod.key, agrees });
    agrees
}

/// Returns the best nodes by a full pass.
fn full_pass(
    subject: &mut Subject<'_, '_>,
    scratch: &mut Scratch,
) -> Result<Vec<NodeIx>, ScheduleError> {
    let subject = &mut subject.afresh();
    let prepared = &Prepared::unmeasured(subject)?;
    let pass = FullPass { prepared, own: None, next_start: &mut 0, report: None };
    let scored = scratch.full_pass(subject, pass)?;
    Ok(scored.best().1.collect())
}

fn are_equal(subject: &Subject<'_, '_>, own: &FitError, full: &FitError) -> bool {
    let (own, full) = (&own.diagnosis, &full.diagnosis);
    let mut nodes = subject.cluster().nodes().iter();
    own.unschedulable_plugins == full.unschedulable_plugins
        && own.pending_plugins == full.pending_plugins
        && own.verdicts.explicit_count() == full.verdicts.explicit_count()
        && nodes.all(|node| own.verdicts.get(node) == full.verdicts.get(node))
}
