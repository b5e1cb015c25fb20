//! PostFilter: plugins that try to help a pod that no node can take.

use framework::{Code, ExtensionPoint, NominatingInfo, PostFilterResult, Status, Verdicts};

use super::{NodeFilters, Panics, PreemptingExtenders, ProfileDryRun, Settings, Subject};
use crate::context::Context;
use crate::plugin_call::call_plugin;
use crate::world::View;

/// The PostFilter plugins of one attempt.
pub(crate) struct PostFilter<'a> {
    pub(crate) view: &'a View,
    pub(crate) settings: &'a Settings,
    pub(crate) rng: &'a mut fastrand::Rng,
    /// Whether the verdict on each node depends only on the node and the pods on it.
    pub(crate) are_local: bool,
}

impl PostFilter<'_> {
    /// Runs the plugins. The first that succeeds, fails or answers UnschedulableAndUnresolvable decides;
    /// otherwise the reasons of all are collected, and the last nomination counts.
    pub(crate) fn run(
        &mut self,
        subject: &mut Subject<'_>,
        verdicts: &Verdicts,
        cx: &mut Context<'_>,
    ) -> PostFilterResult {
        let Subject { profile, pod, state } = subject;
        let mut collected = PostFilterResult::default();
        let mut reasons = Vec::new();
        for plugin in &profile.post_filter {
            let handle = self.view.handle(cx.now);
            let mut dry_run = ProfileDryRun {
                filters: NodeFilters::new(profile, handle, pod, state),
                rng: &mut *self.rng,
                tie_break: self.settings.tie_break,
                are_local: self.are_local,
                extenders: PreemptingExtenders {
                    all: &self.settings.extenders,
                    client: &mut cx.extenders,
                    now: &mut cx.now,
                },
                panics: Panics::default(),
            };
            let result = call_plugin(ExtensionPoint::PostFilter, &plugin.name, cx.probe, || {
                plugin.plugin.post_filter(state, pod, verdicts, &mut dry_run, &handle)
            });
            dry_run.panics.report(cx.probe);
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
}
