//! Writes events of the `events.k8s.io/v1` API, like the event broadcaster of client-go.
//!
//! Events are best effort: they are dropped when too many are waiting or when the server rejects
//! them. Scheduling does not wait for events. The number of requests in flight follows the answers:
//! it grows while the server keeps up, and halves when it does not. Events that follow each other
//! closely are written together ([`Options::gather_time`]).
//!
//! The first occurrence of an event creates an object. The second one patches it into a series.
//! Later ones are only counted until the series is refreshed or finishes (see [`EventRecorder`]).
//! An event with another note starts a new object, because the API server refuses to change a note.

mod event_cache;
mod event_object;
#[cfg(test)]
mod tests;
mod waiting;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::Event;
use framework::{PodKey, Time, Uid, WallOffset};

use self::event_cache::EventCache;
use self::event_object::{EventObject, EventSeries, Importance, Stamp};
use self::waiting::WaitingWrites;
use crate::api_dispatcher::{CallCounts, CallState, CallType};
use crate::failed_call::{FailedCall, FailedCalls};
use crate::request::{Destination, Method, Reply, Request, RequestId, RequestIds, Response, Tried};
use crate::request_limiter::RequestLimiter;
use crate::trace_ids::TraceIds;
use crate::window::Window;

/// Maximum number of tries of a write.
const MAX_TRIES: u32 = 12;

/// Delay between two tries, before up to a quarter of it is added.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Pause of all requests after one that could not be sent.
const NOT_SENT_PAUSE: Duration = Duration::from_secs(1);

/// Number of requests in flight at first.
const INITIAL_WINDOW: usize = 16;

/// Number of waiting writes that are sent although the time to gather more has not passed.
const MAX_GATHERED: usize = 16;

/// Why an event was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// Too many events were waiting.
    Backlog,
    /// The server rejected it.
    Rejected,
    /// Every try failed.
    Retries,
}

impl DropCause {
    /// All causes.
    pub const ALL: [Self; 3] = [Self::Backlog, Self::Rejected, Self::Retries];

    /// Returns the value of the `cause` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Rejected => "rejected",
            Self::Retries => "retries",
        }
    }
}

/// Numbers of events that were not written, by their reason (`Scheduled`) and why.
pub type DroppedEvents = BTreeMap<(Cow<'static, str>, DropCause), u64>;

/// The identity and the limits of an event recorder.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Name of the host. The reporting instance of events is `<scheduler name>-<hostname>`.
    pub hostname: String,
    /// Maximum number of waiting events. Of more events the oldest `FailedScheduling` are dropped
    /// first, `Scheduled` and `Preempted` last.
    pub max_waiting: usize,
    /// Maximum number of events cached to recognize repeated ones, a few hundred bytes each. A full
    /// cache evicts the event whose last occurrence is the oldest; the next occurrence of that
    /// event creates a new object.
    pub max_cached: usize,
    /// Maximum number of requests in flight, to which the answers of the server raise their number.
    pub max_in_flight: usize,
    /// Maximum rate of requests per second. `None`, or a value that is not positive, means no
    /// limit.
    pub qps: Option<f32>,
    /// Maximum number of requests at once after idle time, where `qps` is set.
    pub burst: u32,
    /// Time after a write in which further writes wait, to be sent together: up to 16. Each request
    /// that is sent alone wakes threads, on the way there and back. With zero no write waits.
    pub gather_time: Duration,
    /// Time to wait for the reply to a request.
    pub request_timeout: Duration,
    /// The traces that `Scheduled` events name, if pods are traced.
    pub trace_ids: Option<TraceIds>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hostname: String::new(),
            max_waiting: 10_000,
            max_cached: 20_000,
            max_in_flight: 256,
            qps: None,
            burst: 100,
            gather_time: Duration::ZERO,
            request_timeout: Duration::from_secs(30),
            trace_ids: None,
        }
    }
}

/// An event recorder: it takes events and replies and returns requests.
///
/// Two events belong to one series if their type, action, reason, reporting controller, note and
/// pod (with its UID) are equal, and no event with another note came between them. kube-scheduler
/// also compares the resource version of the pod, so each update of the pod starts a new event.
/// Here events carry no resource version, and failures of a pod for the same cause are one object,
/// which saves writes.
///
/// At most one write of an object waits or is under way, so that no older count replaces a newer
/// one. Later occurrences are merged into a write that waits, and follow one that is under way. A
/// `FailedScheduling` that waits is superseded by the next one of its pod.
///
/// Every 30 minutes all series are patched with their counts. Every 6 minutes events without an
/// occurrence in the last 6 minutes are removed from the cache, series after a last patch.
#[derive(Debug)]
pub struct EventRecorder {
    options: Options,
    limiter: RequestLimiter,
    window: Window,
    rng: fastrand::Rng,
    ids: RequestIds,
    cache: EventCache,
    waiting: WaitingWrites,
    /// Writes with a request in flight, and when it was sent.
    in_flight: BTreeMap<RequestId, (EventWrite, Time)>,
    /// The objects of these writes, with the series to be written after them.
    under_way: BTreeMap<Stamp, Option<EventSeries>>,
    requests: Vec<Request>,
    failed_calls: FailedCalls,
    /// The time until which few writes wait for more.
    gathers_until: Time,
    /// The stamp in the name of the last event.
    last_stamp: Stamp,
    dropped: DroppedEvents,
    wall_offset: WallOffset,
    is_stopped: bool,
}

/// A write of an event that has not finished.
#[derive(Debug)]
struct EventWrite {
    object: Arc<EventObject>,
    /// The series, if the event occurred more than once.
    series: Option<EventSeries>,
    /// Whether the write creates the object instead of patching it.
    creates: bool,
    tries: u32,
    /// The time from which only the limits hold the write back.
    ready_at: Time,
    /// The last try, if the next request retries it.
    retry_of: Option<Tried>,
}

/// The next step of a write after a reply.
enum NextStep {
    Finish,
    /// Creates the object with its series, because it does not exist any more.
    Create,
    /// Patches the series into the object, because it exists already.
    Patch,
    /// Sends the write again after the delay.
    Retry {
        delay: Duration,
        error: String,
    },
    /// Drops the write, because the server rejected it.
    Drop {
        error: String,
    },
}

impl EventRecorder {
    /// Creates a recorder without events. The seed determines the jitter of delays.
    pub fn new(options: Options, seed: u64) -> Self {
        let window = Window::new(INITIAL_WINDOW, options.max_in_flight);
        Self {
            limiter: RequestLimiter::new(window.size(), options.qps, options.burst),
            window,
            cache: EventCache::new(options.max_cached),
            waiting: WaitingWrites::new(options.max_waiting),
            options,
            rng: fastrand::Rng::with_seed(seed),
            ids: RequestIds::default(),
            in_flight: BTreeMap::new(),
            under_way: BTreeMap::new(),
            requests: Vec::new(),
            failed_calls: FailedCalls::default(),
            gathers_until: Time::ZERO,
            last_stamp: 0,
            dropped: DroppedEvents::new(),
            wall_offset: WallOffset::default(),
            is_stopped: false,
        }
    }

    /// Sets the offset of the wall clock, for the times in events.
    pub const fn set_wall_offset(&mut self, offset: WallOffset) {
        self.wall_offset = offset;
    }

    /// Records an event about a pod that is gone, for example the failure of a bind that was under
    /// way. It is not compared with other events.
    pub fn record_last(&mut self, event: Event, now: Time) {
        if !self.is_stopped {
            let object = EventObject::new(event, self.new_stamp(now), now);
            self.enqueue(Arc::new(object), None, now);
            self.send_ready(now);
        }
    }

    /// Forgets the events about a pod that is gone. Series are patched with their counts; events
    /// that wait are still written.
    pub fn pod_deleted(&mut self, pod: &PodKey, uid: &Uid, now: Time) {
        for (object, series) in self.cache.take_about(pod, uid) {
            if series.count > 2 {
                self.enqueue(object, Some(series), now);
            }
        }
        self.send_ready(now);
    }

    /// Records an event that occurred at `now`.
    pub fn record(&mut self, event: Event, now: Time) {
        if self.is_stopped {
            return;
        }
        if let Some((object, series)) = self.cache.count(&event, now) {
            // The count of later occurrences is written when the series is refreshed or finishes.
            let follows = matches!(self.under_way.get(&object.stamp), Some(Some(_)));
            if series.count == 2 || follows || self.waiting.get_mut(object.stamp).is_some() {
                self.enqueue(object, Some(series), now);
            }
        } else {
            let object = Arc::new(EventObject::new(event, self.new_stamp(now), now));
            if object.can_repeat()
                && let Some((before, series)) = self.cache.add(object.clone())
            {
                self.finish(before, series, now);
            }
            self.enqueue(object, None, now);
        }
        self.send_ready(now);
    }

    /// Finishes a series after which the note has changed. A failed attempt that waits to be
    /// written says nothing about the present.
    fn finish(&mut self, object: Arc<EventObject>, series: EventSeries, now: Time) {
        if object.importance() == Importance::Repeated
            && self.waiting.get_mut(object.stamp).is_some_and(|write| write.creates)
        {
            self.waiting.remove(object.stamp);
        } else if series.count > 2 {
            self.enqueue(object, Some(series), now);
        }
    }

    /// Handles the reply to a request. Ignores requests that are unknown or already have a reply.
    pub fn handle_reply(&mut self, id: RequestId, reply: Reply, now: Time) {
        let Some((mut write, sent)) = self.in_flight.remove(&id) else { return };
        let later = self.under_way.remove(&write.object.stamp).flatten();
        self.pace(&reply, sent, now);
        write.tries += 1;
        let tried = reply.as_tried();
        match self.next_step(&write, reply, now) {
            NextStep::Finish => self.follow(write.object, later, now),
            step @ (NextStep::Create | NextStep::Patch) => {
                (write.creates, write.ready_at) = (matches!(step, NextStep::Create), now);
                self.wait(EventWrite { series: later.or(write.series), ..write }, now);
            }
            NextStep::Retry { delay, .. } if write.tries < MAX_TRIES && !self.is_stopped => {
                (write.ready_at, write.retry_of) = (now + delay, Some(tried));
                self.wait(EventWrite { series: later.or(write.series), ..write }, now);
            }
            NextStep::Retry { error, .. } => {
                self.give_up(&write, DropCause::Retries, error);
                self.follow(write.object, later, now);
            }
            NextStep::Drop { error } => {
                self.give_up(&write, DropCause::Rejected, error);
                self.follow(write.object, later, now);
            }
        }
        self.tick(now);
    }

    /// Frees the slot of a request, and adapts the number of requests in flight to its reply.
    fn pace(&mut self, reply: &Reply, sent: Time, now: Time) {
        let is_overloaded = match reply {
            Reply::Answered(response) => matches!(response.status, 429 | 503 | 504),
            Reply::NotSent(_) | Reply::Lost(_) => true,
            Reply::Rejected(_) => false,
        };
        match is_overloaded {
            true => self.window.overloaded(sent, now),
            false => self.window.answered(self.limiter.in_flight()),
        }
        self.limiter.release();
        self.limiter.set_max_in_flight(self.window.size());
    }

    /// Writes the series that was counted while the last write of its object was under way, if
    /// there is one.
    fn follow(&mut self, object: Arc<EventObject>, later: Option<EventSeries>, now: Time) {
        if later.is_some() {
            self.enqueue(object, later, now);
        }
    }

    fn give_up(&mut self, write: &EventWrite, cause: DropCause, error: String) {
        let event = &write.object.event;
        self.failed_calls.add("writing an event", event.regarding.to_string(), error);
        self.count_drop(write, cause);
    }

    fn count_drop(&mut self, write: &EventWrite, cause: DropCause) {
        let reason = write.object.event.reason.clone();
        *self.dropped.entry((reason, cause)).or_default() += 1;
    }

    /// Sends the writes that are due.
    pub fn tick(&mut self, now: Time) {
        self.waiting.tick(now);
        for (object, series) in self.cache.take_due_series(now) {
            self.enqueue(object, Some(series), now);
        }
        self.send_ready(now);
    }

    /// Takes the requests to send now.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Takes the failed calls, for the log; at most the first hundred since the last call.
    pub fn take_failed_calls(&mut self) -> Vec<FailedCall> {
        self.failed_calls.take()
    }

    /// Returns the time at which [`tick`](Self::tick) is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let backoff_ends = self.waiting.next_ready();
        let next_accept = self.limiter.next_accept().filter(|_| self.waiting.ready() > 0);
        let gathers = self.waits_for_more().then_some(self.gathers_until);
        let next_accept = next_accept.map(|accept| accept.max(gathers.unwrap_or(accept)));
        let next_check = self.cache.next_check().filter(|_| !self.is_stopped);
        backoff_ends.into_iter().chain(next_accept).chain(next_check).min()
    }

    /// Returns the numbers of events that were not written.
    pub const fn dropped(&self) -> &DroppedEvents {
        &self.dropped
    }

    /// Returns the number of writes that have not finished.
    pub fn unfinished(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    /// Returns the numbers of unfinished writes.
    pub fn call_counts(&self) -> CallCounts {
        CallCounts::from([
            ((CallType::Event, CallState::Waiting), self.waiting.ready()),
            ((CallType::Event, CallState::BackingOff), self.waiting.backing_off()),
            ((CallType::Event, CallState::InFlight), self.in_flight.len()),
        ])
    }

    /// Stops taking events and retrying writes. Writes that wait for their first try are still
    /// sent, and wait for no more.
    pub fn stop(&mut self, now: Time) {
        self.is_stopped = true;
        self.waiting.clear_backing_off();
        self.cache.clear();
        self.send_ready(now);
    }

    fn enqueue(&mut self, object: Arc<EventObject>, series: Option<EventSeries>, now: Time) {
        if let Some(write) = self.waiting.get_mut(object.stamp) {
            write.series = series;
            return;
        }
        if let Some(later) = self.under_way.get_mut(&object.stamp) {
            *later = series;
            return;
        }
        let creates = series.is_none();
        let write = EventWrite { object, creates, series, tries: 0, ready_at: now, retry_of: None };
        self.wait(write, now);
    }

    /// Lets a write wait for its turn, and drops the least important one if too many wait.
    fn wait(&mut self, write: EventWrite, now: Time) {
        if let Some(dropped) = self.waiting.add(write, now) {
            if dropped.creates {
                self.cache.forget(&dropped.object);
            }
            self.count_drop(&dropped, DropCause::Backlog);
        }
    }

    /// Returns a unique number for the name of an event: the time, or the next number that is free.
    fn new_stamp(&mut self, now: Time) -> Stamp {
        self.last_stamp = now.as_nanos().max(self.last_stamp.saturating_add(1));
        self.last_stamp
    }

    /// Returns the next step of a write after a reply. A write is retried if the server could not
    /// be reached or asked for a pause, and dropped if the server rejected it.
    fn next_step(&mut self, write: &EventWrite, reply: Reply, now: Time) -> NextStep {
        let response = match reply {
            Reply::Answered(response) => response,
            Reply::NotSent(error) => {
                self.limiter.pause(NOT_SENT_PAUSE, now);
                return NextStep::Retry { delay: self.retry_delay(), error };
            }
            Reply::Lost(error) => return NextStep::Retry { delay: self.retry_delay(), error },
            Reply::Rejected(error) => return NextStep::Drop { error },
        };
        let retry = |response: &Response| NextStep::Retry {
            delay: response.retry_delay(),
            error: response.error_message(),
        };
        match response.status {
            _ if response.is_success() => NextStep::Finish,
            404 if !write.creates => NextStep::Create,
            // An earlier try created the object without the series.
            409 if write.creates && write.series.is_some() && write.tries < MAX_TRIES => {
                NextStep::Patch
            }
            // An earlier try created the object.
            409 if write.creates => NextStep::Finish,
            429 => {
                self.limiter.pause(response.retry_delay(), now);
                retry(&response)
            }
            403 if is_namespace_terminating(&response) => NextStep::Finish,
            500.. if response.retry_after.is_some() => retry(&response),
            _ => NextStep::Drop { error: response.error_message() },
        }
    }

    fn retry_delay(&mut self) -> Duration {
        RETRY_DELAY.mul_f64(1.0 + 0.25 * self.rng.f64())
    }

    /// Sends the ready writes that the limits allow, unless few of them wait for more.
    fn send_ready(&mut self, now: Time) {
        if now < self.gathers_until && self.waits_for_more() {
            return;
        }
        while self.waiting.ready() > 0 && self.limiter.try_accept(now) {
            let Some(mut write) = self.waiting.take_ready() else { return };
            let request = self.request(&mut write, now);
            self.under_way.insert(write.object.stamp, None);
            self.in_flight.insert(request.id, (write, now));
            self.requests.push(request);
            self.gathers_until = now + self.options.gather_time;
        }
    }

    /// Whether the ready writes are so few that they wait for more.
    fn waits_for_more(&self) -> bool {
        self.waiting.ready() < MAX_GATHERED && !self.is_stopped
    }

    fn request(&mut self, write: &mut EventWrite, now: Time) -> Request {
        let EventWrite { object, series, .. } = &*write;
        let (method, path, content_type, body) = match (write.creates, series) {
            (false, Some(series)) => (
                Method::Patch,
                object.path(),
                "application/strategic-merge-patch+json",
                series.to_patch(self.wall_offset),
            ),
            _ => (
                Method::Post,
                object.collection_path(),
                "application/json",
                object.to_json(&self.options, *series, self.wall_offset),
            ),
        };
        Request {
            id: self.ids.next(),
            destination: Destination::ApiServer,
            method,
            path,
            content_type,
            body,
            timeout: self.options.request_timeout,
            not_after: None,
            waited: now.since(write.ready_at),
            retry_of: write.retry_of.take(),
        }
    }
}

/// Returns whether the server rejected the event because its namespace is being deleted.
fn is_namespace_terminating(response: &Response) -> bool {
    response.has_cause("NamespaceTerminating")
}
