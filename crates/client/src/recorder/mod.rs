//! Writes events of the `events.k8s.io/v1` API, as client-go does.
//!
//! Events are lossy by contract: they are dropped when too many wait, and given up when the server
//! does not want them. Nothing waits for an event.
//!
//! The first occurrence is created; the second of the same kind makes it a series, which is
//! patched; later ones are only counted, until the series is refreshed or ends (see [`Recorder`]).

mod record;
mod series;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::Event;
use framework::Time;

use self::record::{Occurrences, Record};
use self::series::SeriesMemory;
use crate::failure::{Failure, Failures};
use crate::gate::Gate;
use crate::request::{Method, Recipient, Reply, Request, RequestId, RequestIds, Response};

/// How often a write is tried.
const TRIES: u32 = 12;

/// Pause between tries, to which up to a quarter is added.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// How long nothing at all is sent where no connection can be made.
const NO_CONNECTION_PAUSE: Duration = Duration::from_secs(1);

/// What the recorder allows itself, and who it says it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Name of this host: events are reported by `<scheduler name>-<hostname>`.
    pub hostname: String,
    /// Events that may wait to be written; further ones are dropped.
    pub queue: usize,
    /// Events that are remembered, to tell when they happen again; a few hundred bytes each. The
    /// one that was seen longest ago is forgotten for a new one: should it happen again, it makes a
    /// new object.
    pub series: usize,
    /// Requests at once.
    pub in_flight: usize,
    /// Requests a second over time; `None` or nothing above zero means no limit.
    pub qps: Option<f32>,
    /// Requests at once after a quiet time, where `qps` limits them.
    pub burst: u32,
    /// How long the reply to one request may take.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hostname: String::new(),
            queue: 10_000,
            series: 20_000,
            in_flight: 16,
            qps: None,
            burst: 100,
            timeout: Duration::from_secs(30),
        }
    }
}

/// The event recorder: events and replies go in, requests come out.
///
/// Events are of one series if type, action, reason, reporter and the pod with its UID are equal,
/// whatever the note says. kube-scheduler compares the resource version of the pod as well, so that
/// each change of its condition starts a new event; here no event carries one, and the repeated
/// failures of a pod are one object, which is kinder to the store.
///
/// Every 30 minutes every series is patched with its count. Every 6 minutes what has not happened
/// for so long is forgotten, series after a last patch.
#[derive(Debug)]
pub struct Recorder {
    options: Options,
    gate: Gate,
    rng: fastrand::Rng,
    ids: RequestIds,
    series: SeriesMemory,
    /// Writes in the order in which they go out.
    ready: VecDeque<Write>,
    /// Writes that are tried again, by when, and by the try that failed.
    paused: BTreeMap<(Time, RequestId), Write>,
    sent: BTreeMap<RequestId, Write>,
    requests: Vec<Request>,
    failures: Failures,
    /// The stamp in the name of the last event.
    last_stamp: i64,
    dropped: u64,
    is_stopped: bool,
}

/// A write of an event to be made.
#[derive(Debug)]
struct Write {
    record: Arc<Record>,
    /// How often it has happened, where that is more than once.
    series: Option<Occurrences>,
    /// Whether the object has to be created.
    creates: bool,
    tries: u32,
}

/// What becomes of a write.
enum Next {
    Done,
    /// The event is gone: it is created again, with its series.
    Create,
    /// It is tried again after a pause.
    Again(Duration, String),
    /// The server does not want it.
    Refused(String),
}

impl Recorder {
    /// A recorder with nothing to write.
    pub fn new(options: Options, seed: u64) -> Self {
        Self {
            gate: Gate::new(options.in_flight, options.qps, options.burst),
            series: SeriesMemory::new(options.series),
            options,
            rng: fastrand::Rng::with_seed(seed),
            ids: RequestIds::default(),
            ready: VecDeque::new(),
            paused: BTreeMap::new(),
            sent: BTreeMap::new(),
            requests: Vec::new(),
            failures: Failures::default(),
            last_stamp: 0,
            dropped: 0,
            is_stopped: false,
        }
    }

    /// Takes an event that happens now.
    pub fn record(&mut self, event: Event, now: Time) {
        if self.is_stopped {
            return;
        }
        if let Some((record, seen)) = self.series.observe(&event, now) {
            // The third and later ones are told when the series is refreshed or ends.
            if seen.count == 2 {
                self.enqueue(record, Some(seen));
            }
        } else if self.waiting() < self.options.queue {
            let record = Arc::new(Record::new(event, self.stamp(now), now));
            if record.may_repeat() {
                self.series.remember(record.clone());
            }
            self.enqueue(record, None);
        } else {
            self.dropped += 1;
        }
        self.dispatch(now);
    }

    /// Takes the reply to a request. What is not known, or replied to already, is passed over.
    pub fn reply(&mut self, id: RequestId, reply: Reply, now: Time) {
        let Some(mut write) = self.sent.remove(&id) else { return };
        self.gate.leave();
        write.tries += 1;
        match self.next(&write, reply, now) {
            Next::Done => {}
            Next::Create => {
                write.creates = true;
                self.ready.push_front(write);
            }
            Next::Again(pause, _) if write.tries < TRIES && !self.is_stopped => {
                self.paused.insert((now + pause, id), write);
            }
            Next::Again(_, text) | Next::Refused(text) => {
                let what = "writing an event";
                self.failures.note(what, write.record.event.regarding.to_string(), text);
            }
        }
        self.tick(now);
    }

    /// Does what has become due.
    pub fn tick(&mut self, now: Time) {
        while let Some(entry) = self.paused.first_entry()
            && entry.key().0 <= now
        {
            self.ready.push_back(entry.remove());
        }
        for (record, seen) in self.series.sweep(now) {
            self.enqueue(record, Some(seen));
        }
        self.dispatch(now);
    }

    /// The requests to send now.
    pub fn requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// What failed since the last call, for the log; the first hundred, where there are more.
    pub fn failures(&mut self) -> Vec<Failure> {
        self.failures.take()
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let paused = self.paused.first_key_value().map(|((until, _), _)| *until);
        let opens_at = self.gate.opens_at().filter(|_| !self.ready.is_empty());
        let sweep = self.series.next_sweep().filter(|_| !self.is_stopped);
        paused.into_iter().chain(opens_at).chain(sweep).min()
    }

    /// Events that were dropped because too many waited.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Number of writes that are not finished.
    pub fn unfinished(&self) -> usize {
        self.waiting() + self.sent.len()
    }

    /// Takes no more events, and tries nothing again. What waits for its first try is still written
    /// as long as somebody sends it.
    pub fn stop(&mut self, _now: Time) {
        self.is_stopped = true;
        self.paused.clear();
        self.series.clear();
    }

    fn waiting(&self) -> usize {
        self.ready.len() + self.paused.len()
    }

    fn enqueue(&mut self, record: Arc<Record>, series: Option<Occurrences>) {
        if self.waiting() >= self.options.queue {
            self.dropped += 1;
            return;
        }
        self.ready.push_back(Write { record, creates: series.is_none(), series, tries: 0 });
    }

    /// A number for the name of an event: the time, unless it was given away already.
    fn stamp(&mut self, now: Time) -> i64 {
        self.last_stamp = now.as_nanos().max(self.last_stamp.saturating_add(1));
        self.last_stamp
    }

    /// What becomes of a write after this reply: a server that cannot be reached is asked again,
    /// one that refuses is not.
    fn next(&mut self, write: &Write, reply: Reply, now: Time) -> Next {
        let response = match reply {
            Reply::Answered(response) => response,
            Reply::NotSent(text) => {
                self.gate.hold(NO_CONNECTION_PAUSE, now);
                return Next::Again(self.retry_pause(), text);
            }
            Reply::Lost(text) => return Next::Again(self.retry_pause(), text),
            Reply::Refused(text) => return Next::Refused(text),
        };
        match response.status {
            _ if response.is_success() => Next::Done,
            404 if !write.creates => Next::Create,
            // An earlier try has created it, or the series was quicker than its first event.
            409 if write.creates => Next::Done,
            429 => {
                self.gate.hold(response.pause(), now);
                Next::Again(response.pause(), response.text())
            }
            403 if namespace_ends(&response) => Next::Done,
            500.. if response.retry_after.is_some() => {
                Next::Again(response.pause(), response.text())
            }
            _ => Next::Refused(response.text()),
        }
    }

    fn retry_pause(&mut self) -> Duration {
        RETRY_PAUSE.mul_f64(1.0 + 0.25 * self.rng.f64())
    }

    /// Sends what may be sent.
    fn dispatch(&mut self, now: Time) {
        while !self.ready.is_empty() && self.gate.enter(now) {
            let Some(write) = self.ready.pop_front() else { return };
            let request = self.request(&write);
            self.sent.insert(request.id, write);
            self.requests.push(request);
        }
    }

    fn request(&mut self, write: &Write) -> Request {
        let Write { record, series, .. } = write;
        let (method, path, content_type, body) = match (write.creates, series) {
            (false, Some(series)) => (
                Method::Patch,
                record.path(),
                "application/strategic-merge-patch+json",
                series.to_patch(),
            ),
            _ => (
                Method::Post,
                record.collection_path(),
                "application/json",
                record.to_json(&self.options.hostname, *series),
            ),
        };
        let (id, timeout) = (self.ids.next(), self.options.timeout);
        Request { id, to: Recipient::ApiServer, method, path, content_type, body, timeout }
    }
}

/// Nothing can be created any more in a namespace that is being deleted, which is nobody's fault.
fn namespace_ends(response: &Response) -> bool {
    response.has_cause("NamespaceTerminating")
}
