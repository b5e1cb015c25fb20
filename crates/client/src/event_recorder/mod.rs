//! Writes events of the `events.k8s.io/v1` API, like the event broadcaster of client-go.
//!
//! Events are best effort: they are dropped when too many are waiting or when the server rejects
//! them. Scheduling does not wait for events.
//!
//! The first occurrence of an event creates an object. The second one patches it into a series.
//! Later ones are only counted until the series is refreshed or finishes (see [`EventRecorder`]).

mod event_cache;
mod event_object;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::Event;
use framework::Time;

use self::event_cache::EventCache;
use self::event_object::{EventObject, EventSeries};
use crate::api_dispatcher::{CallCounts, CallState, CallType};
use crate::failed_call::{FailedCall, FailedCalls};
use crate::request::{Destination, Method, Reply, Request, RequestId, RequestIds, Response, Tried};
use crate::request_limiter::RequestLimiter;

pub use self::event_object::ObjectKind;

/// Maximum number of tries of a write.
const MAX_TRIES: u32 = 12;

/// Delay between two tries, before up to a quarter of it is added.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Pause of all requests after one that could not be sent.
const NOT_SENT_PAUSE: Duration = Duration::from_secs(1);

/// The identity and the limits of an event recorder.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Name of the host. The reporting instance of events is `<scheduler name>-<hostname>`.
    pub hostname: String,
    /// Maximum number of waiting events. Further events are dropped.
    pub max_waiting: usize,
    /// Maximum number of events cached to recognize repeated ones, a few hundred bytes each. A full
    /// cache evicts the event whose last occurrence is the oldest; the next occurrence of that event
    /// creates a new object.
    pub max_cached: usize,
    /// Maximum number of requests in flight.
    pub max_in_flight: usize,
    /// Maximum rate of requests per second. `None`, or a value that is not positive, means no limit.
    pub qps: Option<f32>,
    /// Maximum number of requests at once after idle time, where `qps` is set.
    pub burst: u32,
    /// Time to wait for the reply to a request.
    pub request_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hostname: String::new(),
            max_waiting: 10_000,
            max_cached: 20_000,
            max_in_flight: 16,
            qps: None,
            burst: 100,
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// An event recorder: it takes events and replies and returns requests.
///
/// Two events belong to one series if their type, action, reason, reporting controller and pod (with
/// its UID) are equal; the note may differ. kube-scheduler also compares the resource version of the
/// pod, so each update of the pod's condition starts a new event. Here events carry no resource
/// version, and the repeated failures of a pod are one object, which saves writes.
///
/// Every 30 minutes all series are patched with their counts. Every 6 minutes events without an
/// occurrence in the last 6 minutes are removed from the cache, series after a last patch.
#[derive(Debug)]
pub struct EventRecorder {
    options: Options,
    limiter: RequestLimiter,
    rng: fastrand::Rng,
    ids: RequestIds,
    cache: EventCache,
    /// Writes in the order in which they are sent.
    ready: VecDeque<EventWrite>,
    /// Writes that back off, by the time of the next try and the id of the last request.
    backing_off: BTreeMap<(Time, RequestId), EventWrite>,
    in_flight: BTreeMap<RequestId, EventWrite>,
    requests: Vec<Request>,
    failed_calls: FailedCalls,
    /// The stamp in the name of the last event.
    last_stamp: i64,
    dropped: u64,
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
        Self {
            limiter: RequestLimiter::new(options.max_in_flight, options.qps, options.burst),
            cache: EventCache::new(options.max_cached),
            options,
            rng: fastrand::Rng::with_seed(seed),
            ids: RequestIds::default(),
            ready: VecDeque::new(),
            backing_off: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            requests: Vec::new(),
            failed_calls: FailedCalls::default(),
            last_stamp: 0,
            dropped: 0,
            is_stopped: false,
        }
    }

    /// Records an event about a pod that occurred at `now`.
    pub fn record(&mut self, event: Event, now: Time) {
        self.record_about(ObjectKind::Pod, event, now);
    }

    /// Records an event that occurred at `now`, about an object of this kind.
    pub fn record_about(&mut self, kind: ObjectKind, event: Event, now: Time) {
        if self.is_stopped {
            return;
        }
        if let Some((object, series)) = self.cache.count(&event, now) {
            // The count of later occurrences is written when the series is refreshed or finishes.
            if series.count == 2 {
                self.enqueue(object, Some(series), now);
            }
        } else if self.waiting() < self.options.max_waiting {
            let object = Arc::new(EventObject::new(kind, event, self.new_stamp(now), now));
            if object.can_repeat() {
                self.cache.add(object.clone());
            }
            self.enqueue(object, None, now);
        } else {
            self.dropped += 1;
        }
        self.send_ready(now);
    }

    /// Handles the reply to a request. Ignores requests that are unknown or already have a reply.
    pub fn handle_reply(&mut self, id: RequestId, reply: Reply, now: Time) {
        let Some(mut write) = self.in_flight.remove(&id) else { return };
        self.limiter.release();
        write.tries += 1;
        let tried = reply.as_tried();
        match self.next_step(&write, reply, now) {
            NextStep::Finish => {}
            NextStep::Create => {
                (write.creates, write.ready_at) = (true, now);
                self.ready.push_front(write);
            }
            NextStep::Retry { delay, .. } if write.tries < MAX_TRIES && !self.is_stopped => {
                (write.ready_at, write.retry_of) = (now + delay, Some(tried));
                self.backing_off.insert((now + delay, id), write);
            }
            NextStep::Retry { error, .. } | NextStep::Drop { error } => {
                let object = write.object.event.regarding.to_string();
                self.failed_calls.add("writing an event", object, error);
            }
        }
        self.tick(now);
    }

    /// Sends the writes that are due.
    pub fn tick(&mut self, now: Time) {
        while let Some(entry) = self.backing_off.first_entry()
            && entry.key().0 <= now
        {
            self.ready.push_back(entry.remove());
        }
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
        let backoff_ends = self.backing_off.first_key_value().map(|((until, _), _)| *until);
        let next_accept = self.limiter.next_accept().filter(|_| !self.ready.is_empty());
        let next_check = self.cache.next_check().filter(|_| !self.is_stopped);
        backoff_ends.into_iter().chain(next_accept).chain(next_check).min()
    }

    /// Returns the number of events that were dropped because too many were waiting.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of writes that have not finished.
    pub fn unfinished(&self) -> usize {
        self.waiting() + self.in_flight.len()
    }

    /// Returns the numbers of unfinished writes.
    pub fn call_counts(&self) -> CallCounts {
        CallCounts::from([
            ((CallType::Event, CallState::Waiting), self.ready.len()),
            ((CallType::Event, CallState::BackingOff), self.backing_off.len()),
            ((CallType::Event, CallState::InFlight), self.in_flight.len()),
        ])
    }

    /// Stops taking events and retrying writes. Writes that wait for their first try can still be
    /// sent.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.backing_off.clear();
        self.cache.clear();
    }

    fn waiting(&self) -> usize {
        self.ready.len() + self.backing_off.len()
    }

    fn enqueue(&mut self, object: Arc<EventObject>, series: Option<EventSeries>, now: Time) {
        if self.waiting() >= self.options.max_waiting {
            self.dropped += 1;
            return;
        }
        self.ready.push_back(EventWrite {
            object,
            creates: series.is_none(),
            series,
            tries: 0,
            ready_at: now,
            retry_of: None,
        });
    }

    /// Returns a unique number for the name of an event: the time, or the next number that is free.
    fn new_stamp(&mut self, now: Time) -> i64 {
        self.last_stamp = now.as_nanos().max(self.last_stamp.saturating_add(1));
        self.last_stamp
    }

    /// Returns the next step of a write after a reply. A write is retried if the server could not be
    /// reached or asked for a pause, and dropped if the server rejected it.
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
            // An earlier try created the object, or a patch of the series that overtook the creation.
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

    /// Sends the ready writes that the limits allow.
    fn send_ready(&mut self, now: Time) {
        while !self.ready.is_empty() && self.limiter.try_accept(now) {
            let Some(mut write) = self.ready.pop_front() else { return };
            let request = self.request(&mut write, now);
            self.in_flight.insert(request.id, write);
            self.requests.push(request);
        }
    }

    fn request(&mut self, write: &mut EventWrite, now: Time) -> Request {
        let EventWrite { object, series, .. } = &*write;
        let (method, path, content_type, body) = match (write.creates, series) {
            (false, Some(series)) => (
                Method::Patch,
                object.path(),
                "application/strategic-merge-patch+json",
                series.to_patch(),
            ),
            _ => (
                Method::Post,
                object.collection_path(),
                "application/json",
                object.to_json(&self.options.hostname, *series),
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
