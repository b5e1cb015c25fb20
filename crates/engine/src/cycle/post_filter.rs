//! PostFilter: plugins that try to help a pod that no node can take.

use framework::{
    AttemptMut, Code, ExtensionPoint, NominatingInfo, PostFilterResult, Status, Verdicts,
};

use super::dry_run::{NodeFilters, Panics, ProfileDryRun};
use super::extender_preemption::PreemptingExtenders;
use super::subject::Subject;
use crate::plugin_call::call_plugin;

/// Runs the PostFilter plugins. The first that succeeds, fails or answers
/// UnschedulableAndUnresolvable decides; otherwise the reasons of all are collected, and the last
/// nomination counts. `are_local` says whether the verdict on each node depends only on the node,
/// the pods on it and those nominated to it.
pub(crate) fn run_post_filter(
    subject: &mut Subject<'_, '_>,
    verdicts: &Verdicts,
    are_local: bool,
    rng: &mut fastrand::Rng,
) -> PostFilterResult {
    let mut collected = PostFilterResult::default();
    let mut reasons = Vec::new();
    for plugin in &subject.profile.post_filter {
        let handle = subject.handle();
        let (profile, settings, pod) = (subject.profile, subject.settings, subject.pod);
        let mut dry_run = ProfileDryRun {
            filters: NodeFilters::new(profile, handle, pod, &subject.state),
            rng: &mut *rng,
            tie_break: settings.tie_break,
            are_local,
            own_nomination: subject.own_nomination(),
            extenders: PreemptingExtenders {
                all: &settings.extenders,
                client: &mut subject.cx.extenders,
                now: &mut subject.cx.now,
            },
            panics: Panics::default(),
        };
        let attempt = AttemptMut::new(&mut subject.state, pod, &handle);
        let result =
            call_plugin(ExtensionPoint::PostFilter, &plugin.name, subject.cx.probe, || {
                plugin.plugin.post_filter(attempt, verdicts, &mut dry_run)
            });
        dry_run.panics.report(subject.cx.probe);
        let result = match result {
            Ok(result) => result,
            Err(status) => PostFilterResult { status, ..PostFilterResult::default() },
        };
        match result.status.code() {
            Code::Success | Code::UnschedulableAndUnresolvable => return result,
            Code::Unschedulable | Code::Pending => {
                reasons.extend_from_slice(result.status.reasons());
                if result.nominating != NominatingInfo::Noop {
                    collected.nominating = result.nominating;
                }
            }
            _ => return PostFilterResult { status: result.status, ..Default::default() },
        }
    }
    collected.status = Status::with_reasons(Code::Unschedulable, reasons);
    collected
}
