//! One API call: the requests it sends and the effect of each reply.

use std::time::Duration;

use engine::{EffectId, Eviction};
use framework::{Answer, Binding, PodKey, Time, Uid, Write, WriteAction};
use serde_json::Value;

use super::flow::Flow;
use super::measure::{CallState, CallType};
use super::next_step::NextStep;
use super::object_key::ObjectKey;
use super::outcome::{Outcome, is_outdated, is_pod_gone, is_refusal_of_bind, rejection};
use super::own_writes::OwnWrites;
use super::pod_status_patch::PodStatusPatch;
use super::pod_touch::PodTouch;
use super::read_backoff;
use super::requests::{self, RequestParts};
use crate::backoff::Backoff;
use crate::extender;
use crate::request::Tried;

/// Maximum number of requests of a status patch, beside the reads that follow conflicts, and of
/// each step of an eviction.
const MAX_TRIES: u32 = 4;

/// The delays of one call never start over.
const NEVER: Duration = Duration::MAX;

/// The operation of an API call.
#[derive(Debug)]
pub(super) enum Operation {
    Bind {
        binding: Binding,
        /// `metadata.generation` of the pod that was decided on.
        generation: i64,
        /// The resourceVersion of the pod; 0 if it is not known.
        resource_version: u64,
    },
    /// The extender sends its own request to the API server, so no resourceVersion protects it.
    ExtenderBind {
        extender: usize,
        binding: Binding,
    },
    Write(Write),
    ReadPod(PodKey),
    PatchPodStatus(PodStatusPatch),
    /// A status patch that is answered with the pod and not retried: the engine reads the pod
    /// instead.
    Fence(PodStatusPatch),
    /// Changes only the resourceVersion of a pending pod.
    Touch(PodTouch),
    /// Patches the condition of the pod, then deletes the pod.
    Evict(Eviction),
    /// Posts an Eviction. A budget that refuses it may allow it at any later time, when the room is
    /// not wanted any more, so it is not retried.
    RequestEviction {
        pod: PodKey,
        uid: Uid,
    },
}

/// An API call that has not finished.
#[derive(Debug)]
pub(super) struct ApiCall {
    pub(super) id: EffectId,
    pub(super) operation: Operation,
    /// The time of the state that a bind was decided on.
    pub(super) decided: Option<Time>,
    /// The time of the next try, while the call backs off.
    pub(super) not_before: Option<Time>,
    /// The time from which only the limits hold the call back; `None` while it is in flight or
    /// waits for another call.
    pub(super) ready_at: Option<Time>,
    /// The time of the first request.
    pub(super) sent_at: Option<Time>,
    /// The last try, if the next request retries it.
    pub(super) retry_of: Option<Tried>,
    tries: u32,
    backoff: Backoff,
    /// The time after which a write that was throttled or not sent is not retried.
    retry_until: Option<Time>,
}

impl ApiCall {
    pub(super) const fn new(id: EffectId, operation: Operation) -> Self {
        let backoff = match &operation {
            // The backoff of kube-scheduler.
            Operation::PatchPodStatus(_)
            | Operation::Fence(_)
            | Operation::Touch(_)
            | Operation::Evict(_) => {
                Backoff::new(Duration::from_millis(10), 5.0, Duration::from_secs(10), 0.1, NEVER)
            }
            Operation::Bind { .. }
            | Operation::ExtenderBind { .. }
            | Operation::RequestEviction { .. }
            | Operation::Write(_) => {
                Backoff::new(Duration::from_millis(100), 2.0, Duration::from_secs(5), 0.5, NEVER)
            }
            Operation::ReadPod(_) => read_backoff::backoff(),
        };
        Self {
            id,
            operation,
            decided: None,
            not_before: None,
            ready_at: None,
            sent_at: None,
            retry_of: None,
            tries: 0,
            backoff,
            retry_until: None,
        }
    }

    /// Returns the call of a bind that was decided on the state at this time.
    pub(super) fn decided(self, at: Time) -> Self {
        Self { decided: Some(at), ..self }
    }

    pub(super) fn object_key(&self) -> ObjectKey {
        match &self.operation {
            Operation::Bind { binding: Binding { pod, .. }, .. }
            | Operation::ExtenderBind { binding: Binding { pod, .. }, .. }
            | Operation::ReadPod(pod)
            | Operation::RequestEviction { pod, .. }
            | Operation::Evict(Eviction { pod, .. })
            | Operation::Fence(PodStatusPatch { pod, .. })
            | Operation::Touch(PodTouch { pod, .. })
            | Operation::PatchPodStatus(PodStatusPatch { pod, .. }) => ObjectKey::Pod(pod.clone()),
            Operation::Write(write) => ObjectKey::of_write(write),
        }
    }

    /// Returns the calls that this call succeeds or fails with.
    pub(super) fn flow(&self) -> Flow {
        match &self.operation {
            Operation::ExtenderBind { extender, .. } => Flow::Extender(*extender),
            Operation::Write(write) => self.object_key().flow(write.flow.clone()),
            // Webhooks and permissions for the status of pods are others than for their bindings.
            Operation::PatchPodStatus(_) | Operation::Fence(_) | Operation::Touch(_) => {
                self.object_key().flow("status".into())
            }
            Operation::RequestEviction { .. } => self.object_key().flow("eviction".into()),
            Operation::Bind { .. } | Operation::ReadPod(_) | Operation::Evict(_) => {
                self.object_key().flow("".into())
            }
        }
    }

    /// Returns the kind of call, for metrics.
    pub(super) const fn call_type(&self) -> CallType {
        match &self.operation {
            Operation::Bind { .. } => CallType::PodBinding,
            Operation::ExtenderBind { .. } => CallType::ExtenderBinding,
            Operation::Write(_) => CallType::ObjectWrite,
            Operation::ReadPod(_) => CallType::PodRead,
            Operation::PatchPodStatus(_) | Operation::Fence(_) | Operation::Touch(_) => {
                CallType::PodStatusPatch
            }
            Operation::Evict(_) | Operation::RequestEviction { .. } => CallType::PodEviction,
        }
    }

    /// Returns the state of a call that is not in flight.
    pub(super) const fn state(&self) -> CallState {
        if self.not_before.is_some() { CallState::BackingOff } else { CallState::Waiting }
    }

    /// Returns what the call does, for the log.
    pub(super) const fn action(&self) -> &'static str {
        match &self.operation {
            Operation::Bind { .. } => "binding",
            Operation::ExtenderBind { .. } => "binding through an extender",
            Operation::Write(write) => match &write.action {
                WriteAction::MergePatch(_) | WriteAction::StrategicMergePatch(_) => "patching",
                WriteAction::Create(_) => "creating",
                WriteAction::Delete(_) => "deleting",
            },
            Operation::ReadPod(_) => "reading",
            Operation::PatchPodStatus(_) | Operation::Fence(_) | Operation::Touch(_) => {
                "patching the status"
            }
            Operation::Evict(_) | Operation::RequestEviction { .. } => "evicting",
        }
    }

    /// Returns whether the call is retried until it succeeds or is forbidden.
    pub(super) const fn is_retried_forever(&self) -> bool {
        matches!(self.operation, Operation::ReadPod(_))
    }

    /// Returns whether the call counts against the limits of requests to the API server. Calls to
    /// extenders do not, because an extender that hangs must not block calls to the API server.
    pub(super) const fn is_limited(&self) -> bool {
        !matches!(self.operation, Operation::ExtenderBind { .. })
    }

    pub(super) const fn is_status_patch(&self) -> bool {
        matches!(self.operation, Operation::PatchPodStatus(_))
    }

    /// Returns the effect that the answer of the call belongs to; `None` if the answer says nothing
    /// that the engine needs.
    pub(super) const fn answered_effect(&self) -> Option<EffectId> {
        match &self.operation {
            Operation::PatchPodStatus(patch) => patch.nominates,
            _ => Some(self.id),
        }
    }

    /// Returns whether a deleted pod makes the call unnecessary instead of failed.
    pub(super) const fn is_moot_without_pod(&self) -> bool {
        let operation = &self.operation;
        matches!(
            operation,
            Operation::PatchPodStatus(_)
                | Operation::Touch(_)
                | Operation::Evict(_)
                | Operation::RequestEviction { .. }
        )
    }

    /// Returns whether the next request reads the pod before it is patched.
    const fn must_read(&self) -> bool {
        match &self.operation {
            Operation::PatchPodStatus(patch) => patch.must_read,
            Operation::Touch(touch) => touch.must_read,
            _ => false,
        }
    }

    /// Returns whether the present request writes the pod, so that a later bind may overtake the
    /// write in the watch. A read is no write, and a pod that was bound needs no other bind.
    pub(super) fn writes_pod(&self) -> bool {
        match &self.operation {
            Operation::PatchPodStatus(patch) | Operation::Fence(patch) => !patch.must_read,
            Operation::Touch(touch) => !touch.must_read,
            // The condition of a victim, which is deleted next. If that fails, the victim may be
            // bound later.
            Operation::Evict(eviction) => eviction.condition_message.is_some(),
            Operation::Write(write) => matches!(ObjectKey::of_write(write), ObjectKey::Pod(_)),
            Operation::Bind { .. }
            | Operation::ExtenderBind { .. }
            | Operation::RequestEviction { .. }
            | Operation::ReadPod(_) => false,
        }
    }

    /// Takes the version that our own last write gave the pod, if it is newer than the known one
    /// and has the specification that the call is about. The watch may not have shown it yet.
    pub(super) fn catch_up_with(&mut self, own_writes: &OwnWrites) {
        let (uid, generation, resource_version) = match &mut self.operation {
            Operation::Bind { binding, generation, resource_version } => {
                (&binding.uid, *generation, resource_version)
            }
            Operation::PatchPodStatus(patch) => {
                (&patch.uid, patch.observed_generation, &mut patch.resource_version)
            }
            Operation::Touch(touch) => {
                (&touch.uid, touch.observed_generation, &mut touch.resource_version)
            }
            _ => return,
        };
        if *resource_version != 0 {
            *resource_version = own_writes.version_of(uid, generation).max(*resource_version);
        }
    }

    /// Merges a later status patch of the same pod into this status patch. Returns any other call.
    pub(super) fn merge(&mut self, later: Self) -> Option<Self> {
        match (&mut self.operation, later.operation) {
            (Operation::PatchPodStatus(patch), Operation::PatchPodStatus(later))
                if patch.uid == later.uid =>
            {
                patch.merge(later);
                self.tries = 0;
                None
            }
            (_, operation) => Some(Self { operation, ..later }),
        }
    }

    /// Returns the next request of the call. Conditions get the wall time `now`.
    pub(super) fn request(&self, now: Time) -> RequestParts {
        match &self.operation {
            Operation::Bind { binding, resource_version, .. } => {
                requests::bind(binding, *resource_version)
            }
            Operation::ExtenderBind { extender, binding } => {
                requests::bind_by_extender(*extender, binding)
            }
            Operation::Write(write) => requests::write(write),
            Operation::ReadPod(pod) => requests::read(pod),
            Operation::PatchPodStatus(patch) if patch.must_read => requests::read(&patch.pod),
            Operation::PatchPodStatus(patch) | Operation::Fence(patch) => {
                requests::patch_status(patch, now)
            }
            Operation::Touch(touch) if touch.must_read => requests::read(&touch.pod),
            Operation::Touch(touch) => requests::touch(touch, now),
            Operation::Evict(eviction) => match &eviction.condition_message {
                Some(message) => requests::patch_disruption_target(eviction, message, now),
                None => requests::delete(eviction),
            },
            Operation::RequestEviction { pod, uid } => requests::evict(pod, uid),
        }
    }

    /// Handles the outcome of the last request.
    pub(super) fn handle_outcome(
        &mut self,
        outcome: Outcome,
        retry_period: Duration,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> NextStep {
        let must_read = self.must_read();
        self.tries += 1;
        let step = self.next_step(outcome, retry_period, now, rng);
        // A read that shows the pod is a part of the next try.
        if must_read && !self.must_read() {
            self.tries -= 1;
        }
        step
    }

    fn next_step(
        &mut self,
        outcome: Outcome,
        retry_period: Duration,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> NextStep {
        match &mut self.operation {
            Operation::Bind { .. } => match outcome {
                Outcome::Rejected { status, message } if is_outdated(status, &message) => {
                    NextStep::Finish(Answer::Outdated(message))
                }
                outcome => self.after_write(of_bind(outcome), |_| None, retry_period, now, rng),
            },
            Operation::ExtenderBind { .. } => NextStep::Finish(extender_bind_answer(outcome)),
            Operation::Write(_) => self.after_write(outcome, parse, retry_period, now, rng),
            Operation::PatchPodStatus(patch) => {
                match patch.handle_outcome(outcome, self.tries < MAX_TRIES) {
                    Ok(step) => step,
                    Err(outcome) => self.after_idempotent_write(outcome, now, rng),
                }
            }
            Operation::Fence(_) | Operation::RequestEviction { .. } => {
                NextStep::Finish(answer_of_one_try(outcome))
            }
            Operation::Touch(touch) => {
                match touch.handle_outcome(outcome, self.tries < MAX_TRIES) {
                    Ok(step) => step,
                    Err(outcome) => self.after_idempotent_write(outcome, now, rng),
                }
            }
            Operation::Evict(_) => self.after_eviction_step(outcome, now, rng),
            Operation::ReadPod(_) => self.after_read(outcome, now, rng),
        }
    }

    /// Handles the outcome of a write that must not be carried out twice. The write is only retried
    /// if the server certainly did not carry it out.
    fn after_write(
        &mut self,
        outcome: Outcome,
        object: impl FnOnce(&[u8]) -> Option<Value>,
        retry_period: Duration,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> NextStep {
        let (retry_after, error, final_answer): (_, _, fn(String) -> Answer) = match outcome {
            Outcome::Succeeded(body) => return NextStep::Finish(Answer::Ok(object(&body))),
            Outcome::Rejected { status, message } => {
                return NextStep::Finish(rejection(status, message));
            }
            Outcome::Unknown(message) => return NextStep::Finish(Answer::Unknown(message)),
            Outcome::Throttled { retry_after, message } => {
                (retry_after, message, Answer::Throttled)
            }
            Outcome::NotSent(message) => (Duration::ZERO, message, Answer::Error),
        };
        let delay = retry_after.max(self.backoff.next(now, rng));
        match now + delay <= *self.retry_until.get_or_insert(now + retry_period) {
            true => NextStep::Retry { delay, error },
            false => NextStep::Finish(final_answer(error)),
        }
    }

    /// Handles the outcome of a read. The answer is the pod, its absence, or that the read is
    /// forbidden, so that the engine has to find out in another way whether the pod uses resources
    /// of its node. Otherwise the read is retried.
    fn after_read(&mut self, outcome: Outcome, now: Time, rng: &mut fastrand::Rng) -> NextStep {
        let (retry_after, error) = match outcome {
            Outcome::Succeeded(body) => match parse(&body) {
                Some(pod) => return NextStep::Finish(Answer::Ok(Some(pod))),
                None => (Duration::ZERO, "the response is not JSON".to_owned()),
            },
            Outcome::Rejected { status: 404, message } => {
                return NextStep::Finish(Answer::Gone(message));
            }
            Outcome::Rejected { status: status @ (401 | 403), message } => {
                return NextStep::Finish(rejection(status, message));
            }
            Outcome::Throttled { retry_after, message } => (retry_after, message),
            Outcome::Rejected { message, .. }
            | Outcome::NotSent(message)
            | Outcome::Unknown(message) => (Duration::ZERO, message),
        };
        NextStep::Retry { delay: retry_after.max(self.backoff.next(now, rng)), error }
    }

    /// Handles the outcome of a step of an eviction. Both steps name the UID of the pod and may be
    /// carried out twice.
    fn after_eviction_step(
        &mut self,
        outcome: Outcome,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> NextStep {
        let step = self.after_idempotent_write(outcome, now, rng);
        if let (NextStep::Finish(Answer::Ok(_)), Operation::Evict(eviction)) =
            (&step, &mut self.operation)
            && eviction.condition_message.take().is_some()
        {
            self.tries = 0;
            return NextStep::Continue;
        }
        step
    }

    /// Handles the outcome of a write that may be carried out twice. It is tried [`MAX_TRIES`]
    /// times, also if the outcome is unknown.
    fn after_idempotent_write(
        &mut self,
        outcome: Outcome,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> NextStep {
        let (retry_after, error) = match outcome {
            Outcome::Succeeded(_) => return NextStep::Finish(Answer::ok()),
            Outcome::Rejected { status, message } if is_pod_gone(status, &message) => {
                return NextStep::Finish(Answer::Gone(message));
            }
            // As kube-scheduler, a conflict and an error inside the server are retried.
            Outcome::Rejected { status, message } if status != 409 && status < 500 => {
                return NextStep::Finish(rejection(status, message));
            }
            Outcome::Throttled { retry_after, message } => (retry_after, message),
            Outcome::Rejected { message, .. }
            | Outcome::NotSent(message)
            | Outcome::Unknown(message) => (Duration::ZERO, message),
        };
        match self.tries < MAX_TRIES {
            true => NextStep::Retry { delay: retry_after.max(self.backoff.next(now, rng)), error },
            false => NextStep::Finish(Answer::Error(error)),
        }
    }
}

/// Returns the answer to a write that is not retried.
fn answer_of_one_try(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Succeeded(body) => Answer::Ok(parse(&body)),
        Outcome::Rejected { status, message } if is_pod_gone(status, &message) => {
            Answer::Gone(message)
        }
        Outcome::Rejected { status, message } => rejection(status, message),
        Outcome::Throttled { message, .. } => Answer::Throttled(message),
        Outcome::NotSent(message) => Answer::Error(message),
        Outcome::Unknown(message) => Answer::Unknown(message),
    }
}

/// Returns the outcome of a bind. A conflict that names no reason of the pod may hide an error of
/// etcd.
fn of_bind(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Rejected { status: 409, message } if !is_refusal_of_bind(&message) => {
            Outcome::Unknown(message)
        }
        outcome => outcome,
    }
}

/// Returns the answer to a bind by an extender. As in kube-scheduler, the bind is not retried: the
/// pod is scheduled again. The outcome is unknown only if the extender may still be binding the
/// pod.
fn extender_bind_answer(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Succeeded(body) => match extender::binding_result(&body) {
            Ok(()) => Answer::ok(),
            Err(message) => Answer::Error(message),
        },
        Outcome::Unknown(message) => Answer::Unknown(message),
        Outcome::Rejected { message, .. }
        | Outcome::Throttled { message, .. }
        | Outcome::NotSent(message) => Answer::Error(message),
    }
}

fn parse(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok()
}
