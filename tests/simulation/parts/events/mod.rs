//! The event recorder against a count of what has occurred.
//!
//! Events about a few pods are recorded, with pauses of up to hours and with pods that are deleted.
//! Their requests are carried out or not, and answered in any order, with any answer. In the end
//! each occurrence is counted once in the objects that the server has, unless the server has
//! refused a write or events were dropped; each object has the occurrences of one series; and the
//! recorder remembers nothing.

mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::api_dispatcher::{CallState, CallType};
use control::event_recorder::{DropCause, EventRecorder, Options};
use control::{Method, Reply, Request, RequestId, Response};
use engine::{Event, EventSubject, EventType};
use fastrand::Rng;
use framework::{PodKey, Time, Uid, WallOffset};
use serde_json::{Value, json};

use self::window::Window;
use super::super::rules::{Checked, rule};

/// Number of steps of a history.
const STEPS: usize = 40;
/// Number of tries of a write.
const TRIES: u32 = 12;
/// Delay after a write without an answer, at least.
const RETRY: Duration = Duration::from_secs(10);
/// Pause of all writes after one that could not be sent.
const NOT_SENT: Duration = Duration::from_secs(1);
/// Time for which few writes wait for more, where any do.
const GATHER: Duration = Duration::from_millis(700);
/// Number of writes that do not wait for more.
const MANY: usize = 16;
/// Time after which every series was written.
const REFRESH: Duration = Duration::from_mins(31);
/// Time for which an event is remembered at least.
const REMEMBERED: Duration = Duration::from_mins(6);
/// Time after which it is forgotten: the next look at old events comes within six minutes.
const FORGOTTEN: Duration = Duration::from_mins(12);
/// Maximum length of the name of an object.
const LONGEST_NAME: usize = 253;
const REASONS: [&str; 4] = ["FailedScheduling", "Waits", "Scheduled", "Preempted"];

/// What makes two events the same: pod, UID, type, reason and note.
type Kind = (String, String, bool, &'static str, String);

/// What the events of a series have in common, beside the note.
type Series = (String, String, bool, &'static str);

struct History {
    recorder: EventRecorder,
    options: Options,
    /// The names of pods. One of them may be as long as a name can be.
    pods: [String; 2],
    /// Number of reasons and notes that occur. With few of them events repeat often.
    variety: usize,
    window: Window,
    now: Time,
    offset: WallOffset,
    /// The objects of the server by path, and how often each was created.
    objects: BTreeMap<String, Value>,
    /// The bodies of the requests to create objects.
    about: BTreeMap<String, Value>,
    /// Objects that the server may have, or may get by a request in flight.
    may_exist: BTreeSet<String>,
    /// Number of writes that the server has refused, by reason.
    rejected: BTreeMap<String, u64>,
    /// The requests without an answer.
    in_flight: BTreeMap<RequestId, Request>,
    /// The times of occurrences.
    occurred: BTreeMap<Kind, Vec<Time>>,
    /// The last event of each pod, UID, type and reason, and its time.
    last: BTreeMap<Series, (String, Time)>,
    /// Kinds of which a series was certainly not interrupted since the first occurrence.
    unbroken: BTreeSet<Kind>,
    /// Number of series that have certainly begun.
    series: BTreeMap<Kind, usize>,
    /// Failed tries of each object, the time before which it is not tried again, and the status.
    failed: BTreeMap<String, (u32, Time, Option<u16>)>,
    /// Objects of which the server has refused a write.
    refused: BTreeSet<String>,
    /// Objects that were created without an answer.
    mixed: BTreeSet<String>,
    paused_until: Time,
    /// The time until which few writes may wait for more.
    gathers_until: Time,
    is_stopped: bool,
}

/// Lives through one history.
///
/// # Errors
/// A rule is violated.
pub(crate) fn live(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    for _ in 0..STEPS {
        history.step(random, trace)?;
    }
    if random.u8(..8) == 0 {
        history.recorder.stop(history.now);
        history.is_stopped = true;
    }
    history.rest(trace)
}

impl History {
    fn new(random: &mut Rng) -> Self {
        let options = Options {
            hostname: "h".to_owned(),
            max_waiting: [1, 2, 4].get(random.usize(..9)).copied().unwrap_or(1000),
            max_cached: [0, 1, 3].get(random.usize(..9)).copied().unwrap_or(1000),
            max_in_flight: [1, 2, 100][random.usize(..3)],
            qps: (random.u8(..4) == 0).then_some(2.0),
            burst: random.u32(1..3),
            gather_time: [Duration::ZERO, GATHER][usize::from(random.bool())],
            request_timeout: Duration::from_secs(7),
            trace_ids: None,
        };
        let now = Time::parse_rfc3339("2026-01-01T00:00:00.7Z").unwrap_or(Time::ZERO);
        let offset = WallOffset::between(now, now + Duration::from_secs(random.u64(..9)));
        let mut recorder = EventRecorder::new(options.clone(), random.u64(..));
        recorder.set_wall_offset(offset);
        let long = format!("{}a.x", "a-".repeat(random.usize(110..126)));
        let pods =
            [["p0".to_owned(), long][usize::from(random.u8(..4) == 0)].clone(), "p1".to_owned()];
        Self {
            recorder,
            window: Window::new(options.max_in_flight),
            options,
            pods,
            variety: random.usize(1..3),
            about: BTreeMap::new(),
            may_exist: BTreeSet::new(),
            rejected: BTreeMap::new(),
            now,
            offset,
            objects: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            occurred: BTreeMap::new(),
            last: BTreeMap::new(),
            unbroken: BTreeSet::new(),
            series: BTreeMap::new(),
            failed: BTreeMap::new(),
            refused: BTreeSet::new(),
            mixed: BTreeSet::new(),
            paused_until: Time::ZERO,
            gathers_until: Time::ZERO,
            is_stopped: false,
        }
    }

    fn step(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        match random.u8(..16) {
            0..6 => self.record(random, trace),
            6 => (0..random.usize(1..8)).for_each(|_| self.record(random, trace)),
            7 => {
                let (pod, uid) =
                    (self.pods[random.usize(..2)].clone(), format!("u{}", random.u8(..2)));
                trace.push(format!("{:?}: the end of {pod} {uid}", self.now));
                self.recorder.pod_deleted(&PodKey::new("d", &pod), &(&*uid).into(), self.now);
                self.unbroken.retain(|kind| (&kind.0, &kind.1) != (&pod, &uid));
                self.last.retain(|kind, _| (&kind.0, &kind.1) != (&pod, &uid));
            }
            8..13 if !self.in_flight.is_empty() => {
                let number = random.usize(..self.in_flight.len());
                let id = *self.in_flight.keys().nth(number).ok_or("no request")?;
                self.reply(id, random, trace)?;
            }
            _ => {
                let next = self.recorder.next_deadline().filter(|_| random.bool());
                let wait = Duration::from_millis(
                    [1, 600, 5000, 100_000, 500_000, 2_000_000][random.usize(..6)],
                );
                self.wait(next.map_or(wait, |next| next.since(self.now)), trace);
            }
        }
        self.check(trace)
    }

    fn record(&mut self, random: &mut Rng, trace: &mut Vec<String>) {
        let reason = REASONS[random.usize(..2 * self.variety)];
        let pod = self.pods[random.usize(..2)].clone();
        let uid = format!("u{}", u8::from(random.u8(..5) == 0));
        let is_warning = random.u8(..4) == 0;
        let note = ["one", "two"][random.usize(..self.variety)].to_owned();
        let event = Event {
            subject: EventSubject::Pod,
            regarding: PodKey::new("d", &pod),
            uid: Uid::from(&*uid),
            related: None,
            event_type: if is_warning { EventType::Warning } else { EventType::Normal },
            reason: reason.into(),
            action: "Acting".into(),
            note: note.clone(),
            reporting_controller: "s".into(),
        };
        let kind = (pod.clone(), uid.clone(), is_warning, reason, note.clone());
        let is_last = random.u8(..10) == 0;
        trace.push(format!("{:?}: {kind:?}, of a pod that is gone: {is_last}", self.now));
        let times = self.occurred.entry(kind.clone()).or_default();
        times.push(self.now);
        let is_first = times.len() == 1;
        let begun = self.series.entry(kind.clone()).or_default();
        if is_last {
            *begun += 1;
            self.unbroken.remove(&kind);
            return self.recorder.record_last(event, self.now);
        }
        let series = (pod, uid, is_warning, reason);
        let before = self.last.insert(series, (note.clone(), self.now));
        let before = before.filter(|(last, _)| *last == note).map(|(_, at)| at);
        let goes_on = before.is_some_and(|at| self.now.since(at) < REMEMBERED);
        let is_new =
            before.is_none_or(|at| self.now.since(at) > FORGOTTEN) || reason == "Scheduled";
        *begun += usize::from(is_new);
        let is_known = self.keeps_all() && reason != "Scheduled";
        if is_first && is_known {
            self.unbroken.insert(kind);
        } else if !goes_on {
            self.unbroken.remove(&kind);
        }
        self.recorder.record(event, self.now);
    }

    /// Whether no event is dropped or forgotten because there are too many.
    const fn keeps_all(&self) -> bool {
        self.options.max_cached >= 1000 && self.options.max_waiting >= 1000
    }

    fn wait(&mut self, wait: Duration, trace: &mut Vec<String>) {
        self.now = self.now + wait;
        trace.push(format!("{:?}: after {wait:?}", self.now));
        self.recorder.tick(self.now);
    }

    /// Carries out a request or not, and replies.
    fn reply(&mut self, id: RequestId, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        let request = self.in_flight.remove(&id).ok_or("no request")?;
        let seconds = [None, Some(0), Some(4), Some(70)][random.usize(..4)];
        let answered = |status: u16, seconds: Option<u64>, body: Value| {
            let retry_after = seconds.map(Duration::from_secs);
            Reply::Answered(Response { status, retry_after, body: body.to_string().into() })
        };
        let pause = Duration::from_millis(
            seconds.map_or(1000, |seconds| (seconds * 1000).clamp(100, 60_000)),
        );
        let object = object_of(&request);
        let (reply, delay) = match random.u8(..20) {
            0 => (Reply::NotSent("refused".into()), Some(RETRY)),
            1 => (Reply::Lost("lost".into()), Some(RETRY)),
            2 => {
                self.serve(&request);
                (Reply::Lost("lost".into()), Some(RETRY))
            }
            3 | 4 => (
                answered(429, seconds, json!({ "kind": "Status", "message": "later" })),
                Some(pause),
            ),
            5 => match seconds {
                Some(_) => (answered(503, seconds, json!({ "message": "later" })), Some(pause)),
                None => (answered(503, None, json!({ "message": "no" })), None),
            },
            6 => (answered(403, None, json!({ "kind": "Status", "message": "no" })), None),
            7 => {
                let causes = json!([{ "reason": "NamespaceTerminating" }]);
                (
                    answered(
                        403,
                        None,
                        json!({ "kind": "Status", "details": { "causes": causes } }),
                    ),
                    None,
                )
            }
            // An event ends after an hour.
            8..12 if self.objects.contains_key(&object) && request.method == Method::Patch => {
                self.objects.remove(&object);
                (answered(404, None, json!({ "kind": "Status", "message": "not found" })), None)
            }
            _ => (self.serve(&request), None),
        };
        trace.push(format!(
            "{:?}: {id:?} of {object} is answered: {:?}",
            self.now,
            status_of(&reply)
        ));
        let status = status_of(&reply);
        match (&reply, status) {
            (Reply::NotSent(_), _) => {
                self.paused_until = self.paused_until.max(self.now + NOT_SENT)
            }
            (_, Some(429)) => self.paused_until = self.paused_until.max(self.now + pause),
            (_, Some(code @ (403 | 503))) if delay.is_none() => {
                self.refused.insert(object.clone());
                let is_ending = matches!(&reply, Reply::Answered(response)
                    if String::from_utf8_lossy(&response.body).contains("NamespaceTerminating"));
                let reason = self.about[&object]["reason"].as_str().unwrap_or_default();
                let rejected = self.rejected.entry(reason.to_owned()).or_default();
                *rejected += u64::from(code == 503 || !is_ending);
            }
            _ => {}
        }
        // A write that is given up leaves its event remembered.
        let is_refused =
            request.method == Method::Post && delay.is_some() && !matches!(reply, Reply::Lost(_));
        if is_refused && !self.objects.contains_key(&object) {
            self.may_exist.remove(&object);
        }
        self.window.receives(id, &reply, self.now);
        match delay {
            Some(delay) => {
                let tries = self.failed.get(&object).map_or(0, |(tries, ..)| *tries);
                if tries + 1 >= TRIES || self.is_stopped {
                    self.refused.insert(object.clone());
                }
                self.failed.insert(object, (tries + 1, self.now + delay, status));
            }
            None => {
                self.failed.remove(&object);
            }
        }
        self.recorder.handle_reply(id, reply, self.now);
        Ok(())
    }

    fn serve(&mut self, request: &Request) -> Reply {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let path = object_of(request);
        let status = match (request.method, self.objects.get_mut(&path)) {
            (Method::Post, Some(_)) => {
                self.mixed.insert(path);
                409
            }
            (Method::Post, None) => {
                self.objects.insert(path, body);
                201
            }
            (_, Some(object)) => {
                object["series"] = body["series"].clone();
                200
            }
            (_, None) => 404,
        };
        let body = json!({ "kind": "Status", "message": "text" }).to_string().into();
        Reply::Answered(Response { status, retry_after: None, body })
    }

    /// Takes the requests, and checks what holds at all times.
    fn check(&mut self, trace: &mut Vec<String>) -> Checked {
        for request in self.recorder.take_requests() {
            let object = object_of(&request);
            trace.push(format!(
                "{:?}: {:?} {} {object}",
                self.now,
                request.id,
                request.method.as_str()
            ));
            rule(self.now >= self.paused_until, || format!("{object} is written in a pause"))?;
            let mut others = self.in_flight.values();
            rule(others.all(|other| object_of(other) != object), || {
                format!("{object} is written twice at a time")
            })?;
            self.is_about(&request, &object)?;
            self.window.sends(request.id, self.now);
            let failed = self.failed.get(&object);
            let (tries, from, status) = failed.copied().unwrap_or((0, self.now, None));
            let is_mixed = self.mixed.contains(&object) || !self.keeps_all();
            rule(self.now >= from || is_mixed, || format!("{object} is written before {from:?}"))?;
            rule(tries < TRIES || is_mixed, || format!("{object} is written after {tries} tries"))?;
            let repeats = request.retry_of.map(|tried| tried.status);
            rule(is_mixed || repeats == failed.map(|_| status), || {
                format!("{object}: repeats {repeats:?}, not {status:?}")
            })?;
            rule(request.timeout == self.options.request_timeout, || {
                format!("{object} has another timeout")
            })?;
            self.in_flight.insert(request.id, request);
            self.gathers_until = self.now + self.options.gather_time;
            let (in_flight, allowed) = (self.in_flight.len(), self.window.allowed());
            rule(in_flight <= allowed, || {
                format!("{in_flight} requests are in flight instead of {allowed}")
            })?;
        }
        let (in_flight, allowed) = (self.in_flight.len(), self.window.allowed());
        let ready = self.recorder.call_counts()[&(CallType::Event, CallState::Waiting)];
        let gathers = ready < MANY && self.now < self.gathers_until && !self.is_stopped;
        let is_held = self.options.qps.is_some() || self.now < self.paused_until || gathers;
        rule(ready == 0 || in_flight >= allowed || is_held, || {
            format!("{ready} writes wait, while {in_flight} of {allowed} requests are in flight")
        })?;
        for (reason, count) in &self.rejected {
            let shown = self.recorder.dropped().get(&(reason.clone().into(), DropCause::Rejected));
            rule(shown.copied().unwrap_or(0) == *count, || {
                format!("{shown:?} writes about {reason} were rejected, not {count}")
            })?;
        }
        let others = self.recorder.dropped().iter().find(|((reason, cause), _)| {
            *cause == DropCause::Rejected && !self.rejected.contains_key(&**reason)
        });
        rule(others.is_none(), || format!("no write was rejected, but {others:?}"))?;
        let waiting = self.recorder.unfinished() - in_flight;
        rule(waiting <= self.options.max_waiting, || format!("{waiting} events wait"))?;
        let next = self.recorder.next_deadline();
        rule(next.is_none_or(|next| next > self.now), || format!("the next deadline is {next:?}"))?;
        let _ = self.recorder.take_failed_calls();
        Ok(())
    }

    /// Checks what a request writes: an object with a valid name, or one that may exist.
    fn is_about(&mut self, request: &Request, object: &str) -> Checked {
        if request.method == Method::Patch {
            return rule(self.may_exist.contains(object), || {
                format!("{object} is patched, and was not created")
            });
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let is_label = |label: &str| {
            let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            label.starts_with(is_inside)
                && label.ends_with(is_inside)
                && label.chars().all(|c| is_inside(c) || c == '-')
        };
        let is_valid = name.len() <= LONGEST_NAME && name.split('.').all(is_label);
        rule(is_valid, || format!("{name:?} is no name of an object"))?;
        self.about.insert(object.to_owned(), body);
        self.may_exist.insert(object.to_owned());
        Ok(())
    }

    /// Lets every request succeed until all is written.
    fn rest(&mut self, trace: &mut Vec<String>) -> Checked {
        let end = self.now + REFRESH;
        for _ in 0..1000 {
            self.check(trace)?;
            if let Some((id, request)) = self.in_flight.pop_first() {
                let reply = self.serve(&request);
                trace.push(format!("{:?}: {id:?} succeeds", self.now));
                self.failed.remove(&object_of(&request));
                self.window.receives(id, &reply, self.now);
                self.recorder.handle_reply(id, reply, self.now);
                continue;
            }
            match self.recorder.next_deadline() {
                Some(next) if next <= end => self.wait(next.since(self.now), trace),
                _ => return self.is_right(),
            }
        }
        Err("no rest".to_owned())
    }

    /// Whether writes of an event may be lost.
    fn is_lossy(&self, kind: &Kind) -> bool {
        let is_of_kind = |path: &String| self.about.get(path).is_some_and(|body| is_of(body, kind));
        self.refused.iter().any(is_of_kind)
    }

    fn is_right(&self) -> Checked {
        let next = self.recorder.next_deadline();
        rule(next.is_none(), || format!("at rest something is due at {next:?}"))?;
        rule(self.recorder.unfinished() == 0, || {
            format!("{} writes are left", self.recorder.unfinished())
        })?;
        let dropped = self.recorder.dropped();
        let is_dropped =
            |reason: &str| dropped.iter().any(|((own, _), count)| own == reason && *count > 0);
        let retries: u64 = dropped
            .iter()
            .filter(|((_, cause), _)| *cause == DropCause::Retries)
            .map(|(_, count)| count)
            .sum();
        rule(retries == 0 || self.is_stopped || !self.refused.is_empty(), || {
            format!("{retries} writes were given up")
        })?;
        for (kind, times) in &self.occurred {
            let (.., reason, _) = kind;
            let objects: Vec<_> =
                self.objects.values().filter(|object| is_of(object, kind)).collect();
            let counted: u64 =
                objects.iter().map(|object| object["series"]["count"].as_u64().unwrap_or(1)).sum();
            let occurred = times.len() as u64;
            rule(counted <= occurred, || {
                format!("{kind:?} is counted {counted} times instead of {occurred}")
            })?;
            // A failed attempt that was not written yet is not written after another one.
            let may_miss = self.is_stopped
                || is_dropped(reason)
                || !self.keeps_all()
                || *reason == "FailedScheduling"
                || self.is_lossy(kind);
            rule(counted == occurred || may_miss, || {
                format!("{kind:?} is counted {counted} times instead of {occurred}")
            })?;
            rule(objects.len() <= 1 || !self.unbroken.contains(kind), || {
                format!("{kind:?} is more than one series")
            })?;
            if may_miss {
                continue;
            }
            let series = self.series[kind];
            rule(objects.len() >= series, || {
                format!("{kind:?} has {} objects, and {series} series have begun", objects.len())
            })?;
            let times = objects.iter().map(|object| match &object["series"]["lastObservedTime"] {
                Value::Null => object["eventTime"].clone(),
                last => last.clone(),
            });
            let last = times.filter_map(|time| time.as_str().map(ToOwned::to_owned)).max();
            let expected = self.occurred[kind]
                .last()
                .map(|time| format!("{:.6}", self.offset.wall_time(*time)));
            rule(last == expected, || {
                format!("{kind:?} occurred last at {last:?}, not at {expected:?}")
            })?;
        }
        // The last failed attempt is written.
        for ((pod, uid, is_warning, reason), (note, _)) in &self.last {
            let kind = (pod.clone(), uid.clone(), *is_warning, *reason, note.clone());
            let is_written = self.objects.values().any(|object| is_of(object, &kind));
            let may_miss = self.is_stopped || is_dropped(reason) || self.is_lossy(&kind);
            rule(is_written || may_miss, || format!("{reason} {note:?} of {pod} is not written"))?;
        }
        Ok(())
    }
}

/// Whether an object is about an event of this kind.
fn is_of(object: &Value, kind: &Kind) -> bool {
    let (pod, uid, is_warning, reason, note) = kind;
    let is = |field: &str, value: &str| object["regarding"][field] == value;
    is("name", pod)
        && is("uid", uid)
        && object["type"] == if *is_warning { "Warning" } else { "Normal" }
        && object["reason"] == *reason
        && object["note"] == note.as_str()
}

const fn status_of(reply: &Reply) -> Option<u16> {
    match reply {
        Reply::Answered(response) => Some(response.status),
        _ => None,
    }
}

/// Returns the path of the object that a request writes.
fn object_of(request: &Request) -> String {
    if request.method == Method::Patch {
        return request.path.clone();
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    format!("{}/{}", request.path, body["metadata"]["name"].as_str().unwrap_or_default())
}
