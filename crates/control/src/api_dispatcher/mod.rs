//! Carries out the effects of the engine as API calls, like the API dispatcher of kube-scheduler.
//!
//! Calls on one object run one at a time, in the order of their effects. Calls on different objects
//! run concurrently, with a share of the requests in flight for each namespace. A call that was
//! certainly not carried out is retried. A write that may have been carried out is not: its answer
//! is [`Answer::Unknown`], and the engine then reads the pod.

mod api_call;
mod flow;
mod measure;
mod next_step;
mod object_key;
mod object_queue;
mod outcome;
mod own_writes;
mod pod_status_patch;
mod pod_touch;
mod read_backoff;
mod ready_calls;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{Effect, EffectId, EffectKind};
use framework::{Answer, StatusPatch, Time, WallOffset};

use self::api_call::{ApiCall, Operation};
use self::flow::Flow;
pub use self::measure::{CallCounts, CallState, CallType, FinishedCall};
use self::next_step::NextStep;
use self::object_key::ObjectKey;
use self::object_queue::ObjectQueue;
use self::outcome::Outcome;
use self::own_writes::OwnWrites;
use self::pod_status_patch::PodStatusPatch;
use self::pod_touch::PodTouch;
use self::read_backoff::ReadBackoff;
use self::ready_calls::{ReadyCalls, SendOrder};
use self::requests::RequestParts;
pub(crate) use self::requests::STARTED;
use crate::failed_call::{FailedCall, FailedCalls};
use crate::request::{Reply, Request, RequestId, RequestIds};
use crate::request_limiter::RequestLimiter;

/// The limits of an API dispatcher.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Maximum number of requests in flight to the API server. Writes of one resource in one
    /// namespace use at most as many of them as they leave free.
    pub max_in_flight: usize,
    /// Maximum rate of requests per second. `None`, or a value that is not positive, means no
    /// limit.
    pub qps: Option<f32>,
    /// Maximum number of requests at once after idle time, where `qps` is set.
    pub burst: u32,
    /// Time to wait for the reply to a request.
    pub request_timeout: Duration,
    /// How long a write that is throttled or cannot be sent is retried.
    pub retry_period: Duration,
    /// Number of calls waiting for the API server above which [`ApiDispatcher::has_backlog`] holds.
    pub max_waiting: usize,
}

/// Time for which a status patch lets other calls go first, if not all can be sent.
const STATUS_PATCH_DELAY: Duration = Duration::from_secs(1);

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_in_flight: 256,
            qps: None,
            burst: 100,
            request_timeout: Duration::from_secs(30),
            retry_period: Duration::from_secs(30),
            max_waiting: 1024,
        }
    }
}

/// An API dispatcher: it takes effects and replies and returns requests and answers.
///
/// It answers every effect that needs an answer (see [`EffectKind`]), and of the patches of a
/// nomination that go out as one the last, once, unless
/// [`stop`](Self::stop) drops the effect.
#[derive(Debug)]
pub struct ApiDispatcher {
    limits: Limits,
    limiter: RequestLimiter,
    rng: fastrand::Rng,
    ids: RequestIds,
    queues: BTreeMap<ObjectKey, ObjectQueue>,
    /// Number of calls in all queues.
    unfinished: usize,
    /// Queues whose first call can be sent.
    ready: ReadyCalls,
    /// Queues whose first call backs off.
    backing_off: BTreeMap<(Time, EffectId), ObjectKey>,
    /// Queues whose first call has a request in flight.
    in_flight: BTreeMap<RequestId, (Flow, ObjectKey)>,
    read_backoff: ReadBackoff,
    own_writes: OwnWrites,
    requests: Vec<Request>,
    answers: Vec<(EffectId, Answer)>,
    failed_calls: FailedCalls,
    finished_calls: Vec<FinishedCall>,
    wall_offset: WallOffset,
    is_stopped: bool,
}

impl ApiDispatcher {
    /// Creates a dispatcher without calls. The seed determines the jitter of delays.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limiter: RequestLimiter::new(limits.max_in_flight, limits.qps, limits.burst),
            limits,
            rng: fastrand::Rng::with_seed(seed),
            ids: RequestIds::default(),
            queues: BTreeMap::new(),
            unfinished: 0,
            ready: ReadyCalls::default(),
            backing_off: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            read_backoff: ReadBackoff::default(),
            own_writes: OwnWrites::default(),
            requests: Vec::new(),
            answers: Vec::new(),
            failed_calls: FailedCalls::default(),
            finished_calls: Vec::new(),
            wall_offset: WallOffset::default(),
            is_stopped: false,
        }
    }

    /// Sets the offset of the wall clock, for the times in conditions.
    pub const fn set_wall_offset(&mut self, offset: WallOffset) {
        self.wall_offset = offset;
    }

    /// Adds the API call of an effect. Ignores events, which the
    /// [event recorder](crate::event_recorder) writes.
    pub fn add(&mut self, effect: Effect, now: Time) {
        if self.is_stopped {
            return;
        }
        let Some(call) = self.new_call(effect, now) else { return };
        let key = call.object_key();
        self.dequeue(&key);
        let queue = self.queues.entry(key.clone()).or_default();
        let length = queue.len();
        queue.push(call);
        self.unfinished = self.unfinished + queue.len() - length;
        self.enqueue(key, now);
        self.send_ready(now);
    }

    /// Handles the reply to a request. Ignores requests that are unknown or already have a reply.
    pub fn handle_reply(&mut self, id: RequestId, reply: Reply, now: Time) {
        let Some((flow, key)) = self.in_flight.remove(&id) else { return };
        self.ready.answered(&flow, id, now);
        let Some(queue) = self.queues.get_mut(&key) else { return };
        let is_overtaken = queue.is_overtaken();
        let Some(call) = queue.first_mut() else { return };
        if call.is_limited() {
            self.limiter.release();
        }
        let tried = reply.as_tried();
        let outcome = Outcome::of(reply);
        if let Outcome::Succeeded(body) = &outcome
            && call.writes_pod()
        {
            self.own_writes.record(body, now);
        }
        if let Outcome::Throttled { retry_after, .. } = &outcome {
            self.limiter.pause(*retry_after, now);
        }
        match call.handle_outcome(outcome, self.limits.retry_period, now, &mut self.rng) {
            NextStep::Retry { .. } | NextStep::Continue if is_overtaken => {
                let call = queue.pop();
                self.finish(call, Answer::ok(), now);
            }
            NextStep::Retry { delay, error } => {
                call.not_before = Some(now + delay);
                call.retry_of = Some(tried);
                if call.is_retried_forever() {
                    self.failed_calls.add(call.action(), key.to_string(), error);
                }
            }
            NextStep::Continue => {}
            NextStep::Finish(answer) => {
                let call = queue.pop();
                self.finish(call, answer, now);
            }
        }
        if self.is_stopped {
            self.drop_waiting();
        }
        self.enqueue(key, now);
        self.tick(now);
    }

    /// Sends the calls that are due.
    pub fn tick(&mut self, now: Time) {
        self.limiter.end_pause(now);
        while let Some(entry) = self.backing_off.first_entry()
            && entry.key().0 <= now
        {
            let key = entry.remove();
            self.end_backoff(key, now);
        }
        if self.has_many_ready() {
            self.ready.mark_slow(now);
        }
        self.send_ready(now);
    }

    /// Takes the requests to send now.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Takes the answers to effects.
    pub fn take_answers(&mut self) -> Vec<(EffectId, Answer)> {
        std::mem::take(&mut self.answers)
    }

    /// Takes the failed calls, for the log; at most the first hundred since the last call.
    pub fn take_failed_calls(&mut self) -> Vec<FailedCall> {
        self.failed_calls.take()
    }

    /// Takes the calls that have finished, for metrics.
    pub fn take_finished_calls(&mut self) -> Vec<FinishedCall> {
        std::mem::take(&mut self.finished_calls)
    }

    /// Returns the numbers of unfinished calls. It looks at each of them.
    pub fn call_counts(&self) -> CallCounts {
        let mut counts = CallCounts::new();
        for call in self.queues.values().flat_map(ObjectQueue::states) {
            *counts.entry(call).or_default() += 1;
        }
        counts
    }

    /// Returns the time at which [`tick`](Self::tick) is due next. The end of a pause is due also
    /// if no call waits for it, because the caller may hold back effects until then.
    pub fn next_deadline(&self) -> Option<Time> {
        let backoff_ends = self.backing_off.first_key_value().map(|((until, _), _)| *until);
        let is_sendable = self.ready.has_sendable(self.limiter.free());
        let next_accept = self.limiter.next_accept().filter(|_| is_sendable);
        let next_slow = self.has_many_ready().then(|| self.ready.next_slow()).flatten();
        let deadlines = [backoff_ends, next_accept, next_slow, self.limiter.pause_ends_at()];
        deadlines.into_iter().flatten().min()
    }

    /// Returns the number of calls that have not finished.
    pub const fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Returns whether the API server asked for a pause (429) that has not ended.
    pub fn is_paused(&self, now: Time) -> bool {
        self.limiter.is_paused(now)
    }

    /// Returns whether too many calls wait for the API server, so that a later decision can use
    /// fresher state.
    ///
    /// Calls that back off do not count, nor do those of a namespace or an extender that is slow to
    /// answer: the trouble of one namespace holds up no pod of another. These calls are few per
    /// pod: one bind, or one read, or the writes of its PreBind plugins, and one status patch.
    pub fn has_backlog(&self) -> bool {
        self.has_many_ready() && self.ready.backlog() > self.limits.max_waiting
    }

    const fn has_many_ready(&self) -> bool {
        self.ready.len() > self.limits.max_waiting
    }

    /// Stops sending requests and taking effects. Calls that wait, and those whose request was not
    /// taken, are dropped without an answer: they have changed nothing, and their pods stay pending
    /// for the next scheduler. Replies to requests in flight are still handled.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.take_back_requests();
        self.drop_waiting();
    }

    /// Takes back the requests that were not taken. A leader whose time is over takes none.
    fn take_back_requests(&mut self) {
        for request in std::mem::take(&mut self.requests) {
            let Some((_, key)) = self.in_flight.remove(&request.id) else { continue };
            if let Some(call) = self.queues.get_mut(&key).and_then(ObjectQueue::first_mut)
                && call.is_limited()
            {
                self.limiter.release();
            }
        }
    }

    fn drop_waiting(&mut self) {
        self.ready.clear();
        self.backing_off.clear();
        self.queues.retain(|_, queue| {
            queue.drop_waiting();
            queue.len() > 0
        });
        self.unfinished = self.in_flight.len();
    }

    /// Returns the API call of an effect; `None` for events and plans.
    fn new_call(&mut self, effect: Effect, now: Time) -> Option<ApiCall> {
        let operation = match effect.kind {
            EffectKind::Bind { binding, decided, generation, resource_version } => {
                let operation = Operation::Bind { binding, generation, resource_version };
                return Some(ApiCall::new(effect.id, operation).decided(decided));
            }
            EffectKind::ExtenderBind { extender, binding, decided } => {
                let operation = Operation::ExtenderBind { extender, binding };
                return Some(ApiCall::new(effect.id, operation).decided(decided));
            }
            EffectKind::Write(write) => Operation::Write(write),
            EffectKind::Evict(eviction) => Operation::Evict(eviction),
            EffectKind::RequestEviction { pod, uid } => Operation::RequestEviction { pod, uid },
            EffectKind::ReadPod { pod, uid } => {
                let delay = self.read_backoff.next(&uid, now, &mut self.rng);
                let mut call = ApiCall::new(effect.id, Operation::ReadPod(pod));
                call.not_before = delay.map(|delay| now + delay);
                return Some(call);
            }
            EffectKind::Fence { pod, uid, observed_generation, resource_version, condition } => {
                Operation::Fence(PodStatusPatch {
                    pod,
                    uid,
                    observed_generation,
                    resource_version,
                    patch: StatusPatch { condition: Some(condition), nominated_node_name: None },
                    nominates: None,
                    must_read: false,
                })
            }
            EffectKind::PatchPodStatus {
                pod,
                uid,
                observed_generation,
                resource_version,
                patch,
            } => Operation::PatchPodStatus(PodStatusPatch {
                pod,
                uid,
                observed_generation,
                resource_version,
                nominates: patch.nominated_node_name.is_some().then_some(effect.id),
                patch,
                must_read: false,
            }),
            EffectKind::TouchPod {
                pod,
                uid,
                observed_generation,
                resource_version,
                has_condition,
            } => Operation::Touch(PodTouch {
                pod,
                uid,
                observed_generation,
                resource_version,
                has_condition,
                unchanged: 0,
                must_read: false,
            }),
            EffectKind::Event(_) | EffectKind::PlanMoves(_) => return None,
        };
        Some(ApiCall::new(effect.id, operation))
    }

    /// Records the answer of a finished call.
    fn finish(&mut self, call: Option<ApiCall>, answer: Answer, now: Time) {
        let Some(call) = call else { return };
        self.unfinished -= 1;
        let is_moot = call.is_moot_without_pod() && matches!(answer, Answer::Gone(_));
        let failure = answer.failure().filter(|_| !is_moot);
        let sent_at = call.sent_at.unwrap_or(now);
        self.finished_calls.push(FinishedCall {
            call_type: call.call_type(),
            succeeded: failure.is_none(),
            took: now.since(sent_at),
            decision_age: call.decided.map(|decided| sent_at.since(decided)),
        });
        if let Some(error) = failure {
            let object = call.object_key().to_string();
            self.failed_calls.add(call.action(), object, error.to_owned());
        }
        if let Some(effect) = call.answered_effect() {
            self.answers.push((effect, answer));
        }
    }

    /// Removes a queue from `ready` or `backing_off`, before its first call changes.
    fn dequeue(&mut self, key: &ObjectKey) {
        let Some(call) = self.queues.get(key).and_then(ObjectQueue::waiting) else { return };
        match call.not_before {
            Some(until) => {
                self.backing_off.remove(&(until, call.id));
            }
            None => {
                self.ready.remove(&call.flow(), send_order(call));
            }
        }
    }

    /// Adds a queue to `ready` or `backing_off`, unless its first call is in flight. Removes an
    /// empty queue.
    fn enqueue(&mut self, key: ObjectKey, now: Time) {
        let Some(queue) = self.queues.get_mut(&key) else { return };
        if queue.len() == 0 {
            self.queues.remove(&key);
            return;
        }
        let Some(call) = queue.waiting_mut() else { return };
        // A delay that has ended behind another call is no wait for the limits.
        call.ready_at.get_or_insert(call.not_before.map_or(now, |until| until.max(now)));
        match call.not_before {
            Some(until) => {
                self.backing_off.insert((until, call.id), key);
            }
            None => self.ready.insert(call.flow(), send_order(call), key),
        }
    }

    /// Makes the first call of a queue ready after its backoff.
    fn end_backoff(&mut self, key: ObjectKey, now: Time) {
        if let Some(call) = self.queues.get_mut(&key).and_then(ObjectQueue::first_mut) {
            call.not_before = None;
        }
        self.enqueue(key, now);
    }

    /// Sends the ready calls that the limits allow.
    fn send_ready(&mut self, now: Time) {
        while let Some((flow, key)) = self.ready.pop_of_extender() {
            self.send(flow, key, now);
        }
        while self.limiter.accepts(now)
            && let Some((flow, key)) = self.ready.pop(self.limiter.free())
        {
            self.limiter.accept(now);
            self.send(flow, key, now);
        }
    }

    /// Sends the first call of a queue.
    fn send(&mut self, flow: Flow, key: ObjectKey, now: Time) {
        let queue = self.queues.get_mut(&key);
        let Some(call) = queue.and_then(ObjectQueue::start_first) else { return };
        call.catch_up_with(&self.own_writes);
        let RequestParts { destination, method, path, content_type, body } =
            call.request(self.wall_offset.wall_time(now));
        let id = self.ids.next();
        self.requests.push(Request {
            id,
            destination,
            method,
            path,
            content_type,
            body,
            timeout: self.limits.request_timeout,
            not_after: None,
            waited: now.since(call.ready_at.take().unwrap_or(now)),
            retry_of: call.retry_of.take(),
        });
        call.sent_at.get_or_insert(now);
        self.ready.sent(&flow, id, now);
        self.in_flight.insert(id, (flow, key));
    }
}

/// Returns the order of a call that is ready. A status patch has its turn later than other calls,
/// but not after all of them: calls that hang, or that are retried for hours, would hold it back
/// for as long.
fn send_order(call: &ApiCall) -> SendOrder {
    let ready = call.ready_at.unwrap_or(Time::ZERO);
    let turn = if call.is_status_patch() { ready + STATUS_PATCH_DELAY } else { ready };
    (turn, call.id)
}
