//! Failed attempts (`handleSchedulingFailure` in kube-scheduler).

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{
    Code, NominatingInfo, PluginName, Pod, QueuedPod, ScheduledCondition, Status, StatusPatch, Time,
};

use crate::attempt::Outcome;
use crate::context::{Context, PodEvent};
use crate::counters::REPEATED_REJECTIONS;
use crate::cycle::FitError;
use crate::effect::EffectId;
use crate::ports::Count;
use crate::profile::Profile;
use crate::world::World;

/// A failed attempt.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    code: Code,
    message: String,
    unschedulable_plugins: BTreeSet<PluginName>,
    pending_plugins: BTreeSet<PluginName>,
    template_rejected: bool,
    /// The reason of the condition, if it is not that of the code and the plugins.
    reason: Option<&'static str>,
    nominating: NominatingInfo,
    /// The nomination that the attempt asked to write, which the object may not show yet.
    requested_nomination: Option<Arc<str>>,
}

/// The condition of a failed attempt, and the one that was written before.
struct NewCondition {
    condition: Arc<ScheduledCondition>,
    written: Option<Arc<ScheduledCondition>>,
}

impl Failure {
    /// Returns a failure without rejectors: the pod is retried after an error backoff.
    pub(crate) fn error(status: &Status) -> Self {
        Self {
            code: status.code(),
            message: status.message(),
            unschedulable_plugins: BTreeSet::new(),
            pending_plugins: BTreeSet::new(),
            template_rejected: false,
            reason: None,
            nominating: Self::clear_nomination(),
            requested_nomination: None,
        }
    }

    /// Returns the failure of a pod that no node can take. It waits for events of its rejectors.
    pub(crate) fn fit(fit: &FitError, nominating: NominatingInfo) -> Self {
        Self {
            code: Code::Unschedulable,
            message: fit.message(),
            unschedulable_plugins: fit.diagnosis.unschedulable_plugins.clone(),
            pending_plugins: fit.diagnosis.pending_plugins.clone(),
            template_rejected: false,
            reason: None,
            nominating,
            requested_nomination: None,
        }
    }

    /// Returns the failure of a pod that fits, or was not tried, in a group that is rejected by
    /// these plugins.
    pub(crate) fn of_group(status: &Status, plugins: BTreeSet<PluginName>) -> Self {
        Self { unschedulable_plugins: plugins, ..Self::error(status) }
    }

    /// Sets the reason of the condition.
    pub(crate) fn because(self, reason: Option<&'static str>) -> Self {
        Self { reason, ..self }
    }

    /// Notes whether no node can take any pod of the template.
    pub(crate) fn of_template(self, template_rejected: bool) -> Self {
        Self { template_rejected, ..self }
    }

    /// Reserve or Permit rejected the pod, or failed.
    pub(crate) fn of_chosen_node(status: Status) -> Self {
        match status.is_rejection() {
            true => Self::fit(&FitError::of_chosen_node(status), Self::clear_nomination()),
            false => Self::error(&status),
        }
    }

    /// Notes the nomination that the attempt asked to write.
    pub(crate) fn after_nomination(self, node: Option<Arc<str>>) -> Self {
        Self { requested_nomination: node, ..self }
    }

    /// Nominates the pod, or clears its nomination.
    pub(crate) fn nominating(self, nominating: NominatingInfo) -> Self {
        Self { nominating, ..self }
    }

    pub(crate) fn clear_nomination() -> NominatingInfo {
        NominatingInfo::Override("".into())
    }

    /// Whether the pod goes back without event and condition.
    fn is_silent(&self) -> bool {
        matches!(self.code, Code::Success | Code::Wait | Code::Skip)
    }

    /// Puts the pod back into the queue, and reports the failure as event, condition and
    /// nomination.
    pub(crate) fn handle(
        self,
        mut queued: QueuedPod,
        profile: &Profile,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let condition = self.note(&mut queued, profile, world, cx);
        match world.requeue_failed(queued, &self.nominating, cx) {
            Some(pod) => self.publish(&pod, condition, profile, world, cx),
            None => Outcome::Skipped,
        }
    }

    /// Reports the failure of a member of a group, which is requeued with its group.
    pub(crate) fn handle_member(
        self,
        member: &mut QueuedPod,
        profile: &Profile,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let condition = self.note(member, profile, world, cx);
        match world.fail_member(member, &self.nominating, cx) {
            Some(pod) => self.publish(&pod, condition, profile, world, cx),
            None => Outcome::Skipped,
        }
    }

    /// Counts the failure and notes it in the record of the pod. Returns its condition.
    fn note(
        &self,
        queued: &mut QueuedPod,
        profile: &Profile,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Option<NewCondition> {
        let result = if self.code.is_rejection() { "unschedulable" } else { "error" };
        cx.probe.count(Count::Attempt { result, profile: &profile.scheduler_name });
        self.name_rejectors(queued);
        if let Some(node) = &self.requested_nomination {
            world.nomination_written(&queued.pod, node.clone(), None);
        }
        if self.is_silent() {
            return None;
        }
        let (condition, written) =
            (Arc::new(self.condition(profile)), queued.written_condition.take());
        queued.written_condition = Some(condition.clone());
        Some(NewCondition { condition, written })
    }

    /// Publishes the failure of a pod as last seen: event, condition and nomination.
    fn publish(
        self,
        pod: &Pod,
        condition: Option<NewCondition>,
        profile: &Profile,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Outcome {
        if let Some(NewCondition { condition, written }) = condition {
            let patch = StatusPatch {
                condition: is_to_be_written(&condition, pod, written.as_deref())
                    .then(|| (*condition).clone()),
                nominated_node_name: world.nominator().to_write(pod, &self.nominating),
            };
            let nominated = patch.nominated_node_name.clone();
            let effect = self.report(pod, patch, profile, cx);
            if let Some(node) = nominated {
                world.nomination_written(pod, node, effect);
            }
        }
        match self.code.is_rejection() {
            true => Outcome::Unschedulable(self.message),
            false => Outcome::Error(self.message),
        }
    }

    /// Whether the attempt is a look: the queue may leave it out of account, and the watch shows
    /// its condition, which this scheduler wrote with an event. An attempt that involves a
    /// nomination is none, because it renews or clears the nomination.
    pub(crate) fn is_look(&self, queued: &QueuedPod, world: &World, now: Time) -> bool {
        if !self.code.is_rejection()
            || !world.queue().may_look(&queued.pod.uid, &queued.history, now)
        {
            return false;
        }
        let known = world.pending().get(&queued.pod.key);
        let Some(known) = known.filter(|known| known.uid == queued.pod.uid) else { return false };
        let nominator = world.nominator();
        let is_nominated = nominator.node_of(&known.uid).is_some()
            || nominator.written(known).is_some()
            || known.nominated_node_name().is_some();
        let nominates =
            matches!(&self.nominating, NominatingInfo::Override(node) if !node.is_empty());
        let Some(profile) = world.profile_of(known) else { return false };
        let condition = self.condition(profile);
        !is_nominated
            && !nominates
            && known.scheduled_condition.as_deref() == Some(&condition)
            && queued.written_condition.as_deref() == Some(&condition)
    }

    /// Puts the pod back into the queue after a look.
    pub(crate) fn take_back(
        self,
        mut queued: QueuedPod,
        profile: &Profile,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Outcome {
        cx.probe.count(Count::of(&REPEATED_REJECTIONS, &[&profile.scheduler_name]));
        self.name_rejectors(&mut queued);
        world.put_back(queued, cx);
        Outcome::Repeated(self.message)
    }

    fn name_rejectors(&self, queued: &mut QueuedPod) {
        queued.history.unschedulable_plugins.clone_from(&self.unschedulable_plugins);
        queued.history.pending_plugins.clone_from(&self.pending_plugins);
        queued.history.template_rejected = self.template_rejected;
        queued.history.gating_plugin = None;
    }

    /// Records the event and patches the status. Returns the effect of the patch.
    fn report(
        &self,
        pod: &Pod,
        patch: StatusPatch,
        profile: &Profile,
        cx: &mut Context<'_>,
    ) -> Option<EffectId> {
        let event = PodEvent::warning("FailedScheduling", "Scheduling", &self.message);
        cx.effects.record(pod, &profile.scheduler_name, event);
        cx.effects.patch_pod_status(pod, patch)
    }

    fn condition(&self, profile: &Profile) -> ScheduledCondition {
        let reason = match self.code.is_rejection() {
            true => profile.reason_of_rejection(&self.unschedulable_plugins),
            false => "SchedulerError",
        };
        let reason = self.reason.unwrap_or(reason);
        ScheduledCondition {
            status: false,
            reason: reason.into(),
            message: self.message.as_str().into(),
        }
    }
}

/// Whether `condition` has to be written: the watch shows another condition, or `written`, the
/// condition that was written last, is another one.
fn is_to_be_written(
    condition: &ScheduledCondition,
    pod: &Pod,
    written: Option<&ScheduledCondition>,
) -> bool {
    let shown = pod.scheduled_condition.as_deref();
    shown != Some(condition) || written.is_some_and(|written| written != condition)
}
