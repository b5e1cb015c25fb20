//! What becomes of a pod whose attempt failed.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{
    Code, NominatingInfo, PluginName, Pod, QueuedPod, ScheduledCondition, Status, StatusPatch, Time,
};

use crate::attempt::Outcome;
use crate::cycle::FitError;
use crate::effect::{EffectKind, Event, EventType, note};
use crate::engine::{Engine, cx};
use crate::ports::{Count, Ports};
use crate::profile::Profile;

/// A failed attempt.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    code: Code,
    message: String,
    unschedulable_plugins: BTreeSet<PluginName>,
    pending_plugins: BTreeSet<PluginName>,
    nominating: NominatingInfo,
    /// The nomination the attempt has asked for, which the object may not show yet.
    asked_for: Option<Arc<str>>,
}

impl Failure {
    /// A failure that no plugin is on record for: the pod comes back after an error backoff.
    pub(crate) fn of(status: Status) -> Self {
        Self {
            code: status.code(),
            message: status.message(),
            unschedulable_plugins: BTreeSet::new(),
            pending_plugins: BTreeSet::new(),
            nominating: Self::clear(),
            asked_for: None,
        }
    }

    /// No node fits: the pod waits for events its rejectors registered.
    pub(crate) fn of_fit(fit: FitError, nominating: NominatingInfo) -> Self {
        Self {
            code: Code::Unschedulable,
            message: fit.message(),
            unschedulable_plugins: fit.diagnosis.unschedulable_plugins,
            pending_plugins: fit.diagnosis.pending_plugins,
            nominating,
            asked_for: None,
        }
    }

    /// The attempt has asked to nominate the pod to this node.
    pub(crate) fn after_asking_for(self, node: Option<Arc<str>>) -> Self {
        Self { asked_for: node, ..self }
    }

    /// Takes the nomination away.
    pub(crate) fn clear() -> NominatingInfo {
        NominatingInfo::Override("".into())
    }

    /// Nothing to tell: the pod goes back without event or condition.
    fn is_silent(&self) -> bool {
        matches!(self.code, Code::Success | Code::Wait | Code::Skip)
    }
}

impl Engine {
    /// Puts the pod back into the queue and tells why: event, condition, nomination.
    pub(crate) fn fail(
        &mut self,
        mut queued: QueuedPod,
        profile: &Profile,
        failure: Failure,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Outcome {
        let rejected = failure.code.is_rejection();
        let result = if rejected { "unschedulable" } else { "error" };
        ports.probe.count(Count::Attempt { result, profile: &profile.scheduler_name });
        queued.unschedulable_plugins.clone_from(&failure.unschedulable_plugins);
        queued.pending_plugins.clone_from(&failure.pending_plugins);
        queued.gating_plugin = None;
        let pod = match self.pending.get(&queued.pod.key).cloned() {
            None => {
                self.queue.done(&queued.pod.uid);
                queued.pod
            }
            Some(known) if known.uid != queued.pod.uid => {
                self.queue.done(&queued.pod.uid);
                return Outcome::Skipped;
            }
            Some(known) => {
                queued.pod = known.clone();
                self.queue
                    .add_unschedulable_if_not_present(queued, &mut cx!(self, now, ports.probe));
                self.queue.nominator_mut().add(known.clone(), &failure.nominating);
                known
            }
        };
        if !failure.is_silent() {
            self.tell(&pod, profile, &failure);
        }
        match rejected {
            true => Outcome::Unschedulable(failure.message),
            false => Outcome::Error(failure.message),
        }
    }

    fn tell(&mut self, pod: &Arc<Pod>, profile: &Profile, failure: &Failure) {
        self.emit(EffectKind::Event(Event {
            regarding: pod.key.clone(),
            uid: pod.uid.clone(),
            related: None,
            event_type: EventType::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: note(&failure.message),
            reporting_controller: profile.scheduler_name.clone(),
        }));
        let reason = if failure.code.is_rejection() { "Unschedulable" } else { "SchedulerError" };
        let condition = ScheduledCondition {
            status: false,
            reason: reason.into(),
            message: failure.message.as_str().into(),
        };
        let patch = StatusPatch {
            condition: (pod.scheduled_condition.as_deref() != Some(&condition))
                .then_some(condition),
            nominated_node_name: changed_nomination(
                pod.nominated_node_name.as_ref().or(failure.asked_for.as_ref()),
                &failure.nominating,
            ),
        };
        self.patch_pod_status(pod, patch);
    }

    /// Patches the status, unless nothing changes.
    pub(crate) fn patch_pod_status(&mut self, pod: &Pod, patch: StatusPatch) {
        if patch == StatusPatch::default() {
            return;
        }
        self.emit(EffectKind::PatchPodStatus {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            observed_generation: pod.generation,
            patch,
        });
    }
}

/// The nomination to write, if it differs from the one that is known.
pub(crate) fn changed_nomination(
    known: Option<&Arc<str>>,
    nominating: &NominatingInfo,
) -> Option<Arc<str>> {
    let NominatingInfo::Override(node) = nominating else { return None };
    (**node != **known.unwrap_or(&"".into())).then(|| node.clone())
}
