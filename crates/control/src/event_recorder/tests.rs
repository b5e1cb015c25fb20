//! Tests of the requests that the recorder sends and the events it drops.

use std::collections::BTreeSet;

use engine::{EventSubject, EventType, ObjectRef};
use framework::PodKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const UID: &str = "6a0f2f1e-3f2b-4c9e-9d43-0d2c5f1e7a11";

struct Harness {
    recorder: EventRecorder,
    now: Time,
}

fn harness() -> Harness {
    with(Options::default())
}

fn with(options: Options) -> Harness {
    let now = Time::parse_rfc3339("2026-01-01T00:00:00.123456789Z").unwrap();
    let options = Options { hostname: "host".into(), ..options };
    Harness { recorder: EventRecorder::new(options, 7), now }
}

impl Harness {
    fn record(&mut self, event: Event) {
        self.recorder.record(event, self.now);
    }

    /// Takes the requests to send and checks that there is one.
    fn request(&mut self) -> Request {
        let mut requests = self.recorder.take_requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    fn reply(&mut self, request: &Request, reply: Reply) {
        self.recorder.handle_reply(request.id, reply, self.now);
    }

    /// Takes the one request to send and replies to it.
    fn exchange(&mut self, reply: Reply) -> Request {
        let request = self.request();
        self.reply(&request, reply);
        request
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.recorder.tick(self.now);
    }

    fn wait_minutes(&mut self, minutes: u64) {
        self.wait(Duration::from_mins(minutes));
    }
}

fn failed(pod: &str) -> Event {
    Event {
        subject: EventSubject::Pod,
        regarding: PodKey::new("ns", pod),
        uid: UID.into(),
        related: None,
        event_type: EventType::Warning,
        reason: "FailedScheduling".into(),
        action: "Scheduling".into(),
        note: "no room".into(),
        reporting_controller: "loadmaster".into(),
    }
}

fn scheduled(pod: &str) -> Event {
    Event {
        event_type: EventType::Normal,
        reason: "Scheduled".into(),
        action: "Binding".into(),
        ..failed(pod)
    }
}

fn answered(status: u16) -> Reply {
    Reply::Answered(Response { status, retry_after: None, body: Vec::new() })
}

fn wants_pause(status: u16, seconds: u64) -> Reply {
    let retry_after = Some(Duration::from_secs(seconds));
    Reply::Answered(Response { status, retry_after, body: Vec::new() })
}

fn ok() -> Reply {
    answered(201)
}

fn lost() -> Reply {
    Reply::Lost("connection reset".into())
}

fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn name(request: &Request) -> String {
    body(request)["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn events_carry_the_corrected_time() {
    let mut harness = harness();
    harness.record(failed("a"));
    harness.exchange(ok());
    let wall = Time::parse_rfc3339("2026-02-03T04:00:00Z").unwrap();
    harness.recorder.set_wall_offset(WallOffset::between(harness.now, wall));
    harness.record(failed("a"));
    let repeated = body(&harness.exchange(ok()));
    assert_eq!(repeated["series"]["lastObservedTime"], "2026-02-03T04:00:00.000000Z");
    harness.record(scheduled("b"));
    assert_eq!(body(&harness.request())["eventTime"], "2026-02-03T04:00:00.000000Z");
}

/// Returns a recorder that gathers writes for 50 ms.
fn gathering() -> Harness {
    with(Options { gather_time: Duration::from_millis(50), ..Options::default() })
}

#[test]
fn event_after_a_pause_is_written_at_once() {
    let mut harness = gathering();
    for pod in ["a", "b"] {
        harness.record(scheduled(pod));
        harness.exchange(ok());
        harness.wait(Duration::from_millis(50));
    }
}

#[test]
fn events_that_follow_closely_are_written_together() {
    let mut harness = gathering();
    harness.record(scheduled("first"));
    harness.exchange(ok());
    let begun = harness.now;
    for pod in ["a", "b", "c"] {
        harness.wait(Duration::from_millis(10));
        harness.record(scheduled(pod));
        assert_eq!(harness.recorder.take_requests(), []);
    }
    let due = harness.recorder.next_deadline();
    assert_eq!(due, Some(begun + Duration::from_millis(50)));
    harness.wait(due.unwrap().since(harness.now));
    assert_eq!(harness.recorder.take_requests().len(), 3);
}

#[test]
fn many_events_do_not_wait_for_more() {
    let mut harness = gathering();
    harness.record(scheduled("first"));
    harness.exchange(ok());
    let requests = (0..MAX_GATHERED).map(|pod| {
        harness.record(scheduled(&pod.to_string()));
        harness.recorder.take_requests().len()
    });
    let requests: Vec<usize> = requests.collect();
    let (last, others) = requests.split_last().unwrap();
    assert_eq!((others.iter().sum::<usize>(), *last), (0, MAX_GATHERED));
}

#[test]
fn gathered_events_are_written_when_the_recorder_stops() {
    let mut harness = gathering();
    harness.record(scheduled("first"));
    harness.exchange(ok());
    harness.record(scheduled("a"));
    assert_eq!(harness.recorder.take_requests(), []);
    harness.recorder.stop(harness.now);
    harness.exchange(ok());
}

#[test]
fn event_is_created_in_the_namespace_of_its_pod() {
    let mut harness = harness();
    harness.record(scheduled("a"));
    let request = harness.request();
    assert_eq!(request.method, Method::Post);
    assert_eq!(request.path, "/apis/events.k8s.io/v1/namespaces/ns/events");
    let expected = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": format!("a.{:x}", harness.now.as_nanos()), "namespace": "ns" },
        "eventTime": "2026-01-01T00:00:00.123456Z",
        "reportingController": "loadmaster",
        "reportingInstance": "loadmaster-host",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding":
            { "apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "a", "uid": UID },
        "note": "no room",
        "type": "Normal",
    });
    assert_eq!(body(&request), expected);
}

#[test]
fn scheduled_event_names_the_trace_of_its_pod() {
    let traced = |per_million| {
        let trace_ids = Some(TraceIds::new(per_million));
        let mut harness = with(Options { trace_ids, ..Options::default() });
        harness.record(scheduled("a"));
        let annotations = body(&harness.exchange(ok()))["metadata"]["annotations"].clone();
        harness.record(failed("b"));
        assert_eq!(body(&harness.request())["metadata"]["annotations"], Value::Null);
        annotations
    };
    let id = TraceIds::new(1_000_000).of(&UID.into()).unwrap().to_string();
    assert_eq!(traced(1_000_000), json!({"loadmaster.io/trace-id": id}));
    assert_eq!(traced(0), Value::Null);
}

#[test]
fn event_can_have_a_related_pod() {
    let mut harness = harness();
    let related = ObjectRef { pod: PodKey::new("other", "p"), uid: "u-2".into() };
    harness.record(Event { related: Some(related), ..failed("a") });
    let expected = json!(
        { "apiVersion": "v1", "kind": "Pod", "namespace": "other", "name": "p", "uid": "u-2" }
    );
    assert_eq!(body(&harness.request())["related"], expected);
}

#[test]
fn second_occurrence_is_patched_and_later_ones_are_counted() {
    let mut harness = harness();
    harness.record(failed("a"));
    let first = harness.exchange(ok());
    harness.wait(Duration::from_secs(1));
    harness.record(failed("a"));
    let second = harness.exchange(ok());
    assert_eq!(second.method, Method::Patch);
    assert_eq!(second.path, format!("{}/{}", first.path, name(&first)));
    assert_eq!(second.content_type, "application/strategic-merge-patch+json");
    let series = json!({ "count": 2, "lastObservedTime": "2026-01-01T00:00:01.123456Z" });
    assert_eq!(body(&second), json!({ "series": series }));
    harness.record(failed("a"));
    assert_eq!(harness.recorder.take_requests(), []);
}

/// A failed attempt with this note.
fn failed_because(pod: &str, note: &str) -> Event {
    Event { note: note.into(), ..failed(pod) }
}

#[test]
fn changed_note_starts_a_new_event() {
    let mut harness = harness();
    let mut names = BTreeSet::new();
    for note in ["no room", "no disk", "no room"] {
        harness.record(failed_because("a", note));
        let request = harness.exchange(ok());
        assert_eq!((request.method, &body(&request)["note"]), (Method::Post, &json!(note)));
        assert!(names.insert(name(&request)), "the API server refuses to change a note");
    }
}

#[test]
fn changed_note_finishes_the_series() {
    let mut harness = harness();
    harness.record(failed("a"));
    let first = harness.exchange(ok());
    harness.record(failed("a"));
    harness.exchange(ok());
    (0..3).for_each(|_| harness.record(failed("a")));
    harness.record(failed_because("a", "no disk"));
    let [finished, created] = harness.recorder.take_requests().try_into().unwrap();
    assert_eq!(finished.path, format!("{}/{}", first.path, name(&first)));
    assert_eq!(body(&finished)["series"]["count"], 5);
    assert_eq!(body(&created)["note"], "no disk");
}

/// A recorder with one request in flight, which keeps other writes waiting.
fn busy(options: Options) -> (Harness, Request) {
    let mut harness = with(Options { max_in_flight: 1, ..options });
    harness.record(scheduled("first"));
    let request = harness.request();
    (harness, request)
}

#[test]
fn occurrences_are_merged_into_the_event_that_waits() {
    let (mut harness, first) = busy(Options::default());
    for _ in 0..4 {
        harness.record(failed("a"));
    }
    assert_eq!(harness.recorder.unfinished(), 2);
    harness.reply(&first, ok());
    let created = harness.exchange(ok());
    assert_eq!((created.method, &body(&created)["series"]["count"]), (Method::Post, &json!(4)));
    assert_eq!(harness.recorder.unfinished(), 0);
}

#[test]
fn failure_that_waits_is_superseded_by_the_next_one_of_its_pod() {
    let (mut harness, first) = busy(Options::default());
    for note in ["1 of 3", "2 of 3", "3 of 3"] {
        harness.record(failed_because("a", note));
        harness.record(failed_because("b", note));
    }
    harness.reply(&first, ok());
    let notes = [(); 2].map(|()| body(&harness.exchange(ok()))["note"].clone());
    assert_eq!(notes, ["3 of 3", "3 of 3"]);
    assert_eq!(harness.recorder.unfinished(), 0);
    assert_eq!(harness.recorder.dropped(), &DroppedEvents::new(), "the present cause is written");
}

#[test]
fn series_that_is_counted_while_its_creation_fails_is_created_with_its_count() {
    let mut harness = with(Options { max_in_flight: 1, ..Options::default() });
    harness.record(failed("a"));
    let created = harness.request();
    harness.record(failed("a"));
    harness.reply(&created, lost());
    assert_eq!(harness.recorder.unfinished(), 1);
    harness.wait(Duration::from_secs(13));
    let again = harness.exchange(ok());
    assert_eq!((again.method, &body(&again)["series"]["count"]), (Method::Post, &json!(2)));
}

#[test]
fn events_that_differ_in_more_than_the_note_are_separate() {
    let others = [
        failed("b"),
        Event { uid: "other".into(), ..failed("a") },
        Event { event_type: EventType::Normal, ..failed("a") },
        Event { reason: "Other".into(), ..failed("a") },
        Event { action: "Other".into(), ..failed("a") },
        Event { reporting_controller: "other".into(), ..failed("a") },
    ];
    let mut harness = harness();
    harness.record(failed("a"));
    let mut names = BTreeSet::from([name(&harness.exchange(ok()))]);
    for event in others {
        harness.record(event);
        let request = harness.exchange(ok());
        assert_eq!(request.method, Method::Post);
        assert!(names.insert(name(&request)), "names are unique within a nanosecond");
    }
}

#[test]
fn series_is_refreshed_every_half_hour() {
    let mut harness = harness();
    harness.record(failed("a"));
    harness.exchange(ok());
    for minute in 1..=30 {
        harness.wait_minutes(1);
        harness.record(failed("a"));
        match minute {
            1 => drop(harness.exchange(ok())),
            30 => {}
            _ => assert_eq!(harness.recorder.take_requests(), [], "minute {minute}"),
        }
    }
    assert_eq!(body(&harness.request())["series"]["count"], 30);
}

#[test]
fn finished_series_is_patched_and_removed_from_the_cache() {
    let mut harness = harness();
    harness.record(failed("a"));
    harness.exchange(ok());
    harness.record(failed("a"));
    assert_eq!(body(&harness.exchange(ok()))["series"]["count"], 2);
    (0..3).for_each(|_| harness.record(failed("a")));
    harness.wait_minutes(6);
    assert_eq!(harness.recorder.take_requests(), [], "not idle for more than 6 minutes");
    harness.wait_minutes(6);
    assert_eq!(body(&harness.request())["series"]["count"], 5);
    assert_eq!(harness.recorder.next_deadline(), None, "the cache is empty");
    harness.record(failed("a"));
    assert_eq!(harness.request().method, Method::Post);
}

#[test]
fn finished_single_event_is_removed_without_a_patch() {
    let mut harness = harness();
    harness.record(failed("a"));
    harness.exchange(ok());
    harness.wait_minutes(6);
    harness.wait_minutes(6);
    assert_eq!(
        (harness.recorder.take_requests(), harness.recorder.next_deadline()),
        (vec![], None)
    );
    harness.record(failed("a"));
    assert_eq!(harness.request().method, Method::Post);
}

#[test]
fn scheduled_event_is_not_cached() {
    let mut harness = harness();
    harness.record(scheduled("a"));
    harness.exchange(ok());
    assert_eq!(harness.recorder.next_deadline(), None);
}

#[test]
fn full_cache_evicts_the_oldest_event() {
    let mut harness = with(Options { max_cached: 2, ..Options::default() });
    for pod in ["a", "b", "a", "c"] {
        harness.wait(Duration::from_secs(1));
        harness.record(failed(pod));
    }
    harness.recorder.take_requests();
    harness.record(failed("a"));
    assert_eq!(harness.recorder.take_requests(), [], "a is still cached");
    harness.record(failed("b"));
    assert_eq!(harness.request().method, Method::Post);
}

#[test]
fn deleted_event_of_a_series_is_created_again() {
    let mut harness = harness();
    harness.record(failed("a"));
    let first = harness.exchange(ok());
    harness.record(failed("a"));
    harness.exchange(answered(404));
    let again = harness.exchange(ok());
    assert_eq!((again.method, name(&again)), (Method::Post, name(&first)));
    assert_eq!(body(&again)["series"]["count"], 2);
}

#[test]
fn write_without_response_is_tried_twelve_times() {
    for reply in [lost(), Reply::NotSent("connection refused".into())] {
        let mut harness = harness();
        harness.record(scheduled("a"));
        for _ in 0..11 {
            harness.exchange(reply.clone());
            harness.wait(Duration::from_millis(9_999));
            assert_eq!(harness.recorder.take_requests(), [], "too early");
            harness.wait(Duration::from_millis(2_501));
        }
        assert_eq!(harness.recorder.take_failed_calls(), []);
        harness.exchange(reply);
        assert_eq!(
            (harness.recorder.unfinished(), harness.recorder.take_failed_calls().len()),
            (0, 1)
        );
    }
}

#[test]
fn conflict_after_a_retry_counts_as_success() {
    let mut harness = harness();
    harness.record(scheduled("a"));
    harness.exchange(lost());
    harness.wait(Duration::from_secs(13));
    harness.exchange(answered(409));
    assert_eq!((harness.recorder.unfinished(), harness.recorder.take_failed_calls()), (0, vec![]));
}

#[test]
fn series_is_patched_into_an_event_that_a_lost_request_created() {
    let mut harness = harness();
    harness.record(failed("a"));
    harness.exchange(lost());
    harness.record(failed("a"));
    harness.recorder.pod_deleted(&PodKey::new("ns", "a"), &UID.into(), harness.now);
    harness.wait(Duration::from_secs(13));
    assert_eq!(harness.exchange(answered(409)).method, Method::Post);
    let patch = harness.exchange(ok());
    assert_eq!((patch.method, &body(&patch)["series"]["count"]), (Method::Patch, &json!(2)));
    assert_eq!(harness.recorder.unfinished(), 0);
}

#[test]
fn series_that_is_counted_during_a_write_follows_it() {
    let mut harness = harness();
    harness.record(failed("a"));
    let creation = harness.request();
    (0..3).for_each(|_| harness.record(failed("a")));
    assert!(harness.recorder.take_requests().is_empty(), "one write of an object at a time");
    harness.reply(&creation, ok());
    let patch = harness.exchange(ok());
    assert_eq!((patch.method, &body(&patch)["series"]["count"]), (Method::Patch, &json!(4)));
    assert_eq!(harness.recorder.unfinished(), 0);
}

#[test]
fn creation_that_is_retried_has_the_series_that_was_counted_meanwhile() {
    let mut harness = harness();
    harness.record(failed("a"));
    let creation = harness.request();
    harness.record(failed("a"));
    harness.reply(&creation, wants_pause(503, 3));
    harness.wait(Duration::from_secs(3));
    let creation = harness.exchange(ok());
    assert_eq!((creation.method, &body(&creation)["series"]["count"]), (Method::Post, &json!(2)));
    assert_eq!(harness.recorder.unfinished(), 0);
}

#[test]
fn series_of_an_event_that_is_given_up_is_still_written() {
    let mut harness = harness();
    harness.record(failed("a"));
    let creation = harness.request();
    harness.record(failed("a"));
    harness.reply(&creation, answered(500));
    assert_eq!(harness.exchange(answered(404)).method, Method::Patch);
    let creation = harness.exchange(ok());
    assert_eq!((creation.method, &body(&creation)["series"]["count"]), (Method::Post, &json!(2)));
}

#[test]
fn retry_after_of_the_server_is_respected() {
    for status in [429, 503] {
        let mut harness = harness();
        harness.record(scheduled("a"));
        harness.exchange(wants_pause(status, 3));
        assert_eq!(harness.recorder.next_deadline(), Some(harness.now + Duration::from_secs(3)));
        harness.wait(Duration::from_secs(3));
        harness.exchange(ok());
        assert_eq!(harness.recorder.unfinished(), 0, "{status}");
    }
}

#[test]
fn rejected_event_is_dropped() {
    for status in [400, 403, 404, 422, 500, 503] {
        let mut harness = harness();
        harness.record(scheduled("a"));
        harness.exchange(answered(status));
        let failures = harness.recorder.take_failed_calls();
        assert_eq!((harness.recorder.unfinished(), failures.len()), (0, 1), "{status}");
        assert_eq!(failures[0].error, format!("the server responded with status {status}"));
    }
}

#[test]
fn event_in_a_terminating_namespace_is_not_a_failure() {
    let status = json!({
        "kind": "Status",
        "message": "forbidden",
        "details": { "causes": [{ "reason": "NamespaceTerminating" }] },
    });
    let body = status.to_string().into_bytes();
    let mut harness = harness();
    harness.record(scheduled("a"));
    harness.exchange(Reply::Answered(Response { status: 403, retry_after: None, body }));
    assert_eq!((harness.recorder.unfinished(), harness.recorder.take_failed_calls()), (0, vec![]));
}

/// Replies to all requests, one after the other. Returns reason and pod of the written events.
fn written(harness: &mut Harness) -> Vec<String> {
    let mut written = Vec::new();
    while harness.recorder.unfinished() > 0 {
        let body = body(&harness.exchange(ok()));
        let [reason, pod] = [&body["reason"], &body["regarding"]["name"]];
        written.push(format!("{} {}", reason.as_str().unwrap(), pod.as_str().unwrap()));
    }
    written
}

/// Returns the dropped events as `reason cause number`.
fn dropped(harness: &Harness) -> Vec<String> {
    let dropped = harness.recorder.dropped().iter();
    dropped.map(|((reason, cause), number)| format!("{reason} {} {number}", cause.name())).collect()
}

#[test]
fn oldest_failures_are_dropped_first_and_scheduled_and_preempted_last() {
    let (mut harness, first) = busy(Options { max_waiting: 3, ..Options::default() });
    let named = |reason: &'static str, pod| Event { reason: reason.into(), ..failed(pod) };
    for event in [failed("a"), failed("b"), failed("c"), failed("d"), named("Waiting", "e")] {
        harness.record(event);
    }
    assert_eq!(dropped(&harness), ["FailedScheduling backlog 2"]);
    harness.record(named("Preempted", "f"));
    harness.record(scheduled("g"));
    assert_eq!(dropped(&harness), ["FailedScheduling backlog 4"]);
    harness.record(scheduled("h"));
    harness.record(failed("i"));
    harness.record(scheduled("j"));
    assert_eq!(
        dropped(&harness),
        ["FailedScheduling backlog 5", "Preempted backlog 1", "Waiting backlog 1"]
    );
    harness.reply(&first, ok());
    assert_eq!(written(&mut harness), ["Scheduled g", "Scheduled h", "Scheduled j"]);
    harness.record(failed("a"));
    assert_eq!(harness.request().method, Method::Post, "a dropped event is not cached");
}

#[test]
fn rejected_events_and_those_whose_tries_fail_are_counted() {
    let mut harness = harness();
    harness.record(scheduled("a"));
    harness.exchange(answered(403));
    harness.record(failed("b"));
    for _ in 0..12 {
        harness.exchange(lost());
        harness.wait(Duration::from_secs(13));
    }
    assert_eq!(dropped(&harness), ["FailedScheduling retries 1", "Scheduled rejected 1"]);
}

/// Records the bindings of pods at this pace, against a server that answers after `latency`.
/// Returns how many events are written when the last pod is bound, and the largest number of
/// requests in flight.
fn written_with_the_last_binding(pods: u64, pace: Duration, latency: Duration) -> (u64, usize) {
    let (mut harness, mut answers) = (harness(), BTreeMap::new());
    let (start, mut written, mut in_flight) = (harness.now, 0, 0);
    for pod in 0..pods {
        let bound = start + pace * u32::try_from(pod).unwrap();
        while let Some(entry) = answers.first_entry()
            && entry.key() <= &(bound, u64::MAX)
        {
            let ((at, _), request) = entry.remove_entry();
            harness.now = at;
            harness.reply(&request, ok());
            written += 1;
            answers.extend(sent(&mut harness, latency, pods + written));
        }
        harness.now = bound;
        harness.record(scheduled(&format!("p{pod}")));
        answers.extend(sent(&mut harness, latency, pod));
        in_flight = in_flight.max(answers.len());
    }
    (written, in_flight)
}

/// Takes the requests to send, by the time of their answers.
fn sent(harness: &mut Harness, latency: Duration, number: u64) -> Vec<((Time, u64), Request)> {
    let at = harness.now + latency;
    let requests = harness.recorder.take_requests().into_iter();
    requests.zip(0..).map(|(request, nth)| ((at, number * 1000 + nth), request)).collect()
}

#[test]
fn events_keep_up_with_the_bindings_on_a_server_that_takes_them() {
    // 4,000 bindings a second; an answer takes 20 ms.
    let (pace, latency) = (Duration::from_micros(250), Duration::from_millis(20));
    let (written, in_flight) = written_with_the_last_binding(10_000, pace, latency);
    assert!(written >= 9_800, "{written} of 10000 events are written");
    assert!((80..=256).contains(&in_flight), "{in_flight} requests in flight");
}

#[test]
fn overloaded_server_gets_fewer_requests_at_once() {
    for reply in [wants_pause(429, 1), answered(503), answered(504), lost()] {
        let mut harness = harness();
        (0..100).for_each(|pod| harness.record(scheduled(&format!("p{pod}"))));
        let requests = harness.recorder.take_requests();
        assert_eq!(requests.len(), 16);
        requests.iter().for_each(|request| harness.reply(request, reply.clone()));
        harness.wait(Duration::from_secs(1));
        assert_eq!(harness.recorder.take_requests().len(), 8, "{reply:?}");
    }
}

#[test]
fn long_pod_name_is_truncated() {
    for cut in [".", "-"] {
        let mut harness = harness();
        harness.record(scheduled(&format!("{}{cut}b{}", "a".repeat(235), "c".repeat(16))));
        let name = name(&harness.request());
        assert!(name.len() <= 253 && name.starts_with(&format!("{}.", "a".repeat(235))), "{name}");
        assert!(!name.contains(".."), "{name}");
    }
}

#[test]
fn long_hostname_is_truncated() {
    let mut recorder =
        EventRecorder::new(Options { hostname: "h".repeat(200), ..Options::default() }, 7);
    recorder.record(scheduled("a"), Time::ZERO);
    let instance = &body(&recorder.take_requests()[0])["reportingInstance"];
    assert_eq!(instance.as_str().unwrap().len(), 128);
}

#[test]
fn stopped_recorder_sends_waiting_writes_and_ignores_new_events() {
    let mut harness = with(Options { max_in_flight: 1, ..Options::default() });
    harness.record(failed("a"));
    harness.exchange(lost());
    harness.record(scheduled("b"));
    harness.record(scheduled("c"));
    harness.recorder.stop(harness.now);
    harness.record(scheduled("d"));
    harness.exchange(ok());
    harness.exchange(lost());
    assert_eq!((harness.recorder.unfinished(), harness.recorder.next_deadline()), (0, None));
}

#[derive(Debug, Clone)]
enum Action {
    Record(u8),
    Reply(usize, Reply),
    Wait(u64),
}

fn action() -> impl Strategy<Value = Action> {
    let statuses = [200, 403, 404, 409, 429, 500];
    let reply = prop_oneof![
        prop::sample::select(statuses.to_vec()).prop_map(answered),
        Just(wants_pause(503, 2)),
        Just(lost()),
        Just(Reply::NotSent("connection refused".into())),
    ];
    prop_oneof![
        4 => (0_u8..8).prop_map(Action::Record),
        2 => (any::<usize>(), reply).prop_map(|(which, reply)| Action::Reply(which, reply)),
        1 => (0_u64..400).prop_map(Action::Wait),
    ]
}

proptest! {
    /// For any events and replies, the limits hold and all writes finish.
    #[test]
    fn limits_hold_and_all_writes_finish(
        actions in prop::collection::vec(action(), 0..200),
    ) {
        let options = Options { max_in_flight: 3, max_waiting: 5, max_cached: 4, ..Options::default() };
        let (mut harness, mut in_flight) = (with(options), Vec::new());
        for action in actions {
            match action {
                Action::Record(pod) => harness.record(failed(&format!("p{pod}"))),
                Action::Reply(which, reply) if !in_flight.is_empty() => {
                    let request: Request = in_flight.remove(which % in_flight.len());
                    harness.reply(&request, reply);
                }
                Action::Reply(..) => {}
                Action::Wait(seconds) => harness.wait(Duration::from_secs(seconds)),
            }
            in_flight.extend(harness.recorder.take_requests());
            prop_assert!(in_flight.len() <= 3, "{} requests are in flight", in_flight.len());
            // Requests in flight may have to be retried while the queue is full.
            prop_assert!(harness.recorder.unfinished() <= 5 + 3);
        }
        while harness.recorder.next_deadline().is_some() || !in_flight.is_empty() {
            match in_flight.pop() {
                Some(request) => harness.reply(&request, ok()),
                None => harness.wait_minutes(1),
            }
            in_flight.extend(harness.recorder.take_requests());
        }
        prop_assert_eq!(harness.recorder.unfinished(), 0);
    }
}

#[test]
fn events_about_a_deleted_pod_are_forgotten() {
    let (mut harness, pod) = (harness(), PodKey::new("ns", "a"));
    harness.record(failed("b"));
    harness.exchange(ok());
    for _ in 0..2 {
        harness.record(failed("a"));
        harness.exchange(ok());
    }
    harness.record(failed("a"));
    harness.recorder.pod_deleted(&pod, &UID.into(), harness.now);
    let patch = harness.exchange(ok());
    assert_eq!(body(&patch)["series"]["count"], 3, "the count is written");
    assert_eq!(harness.recorder.cache.len(), 1, "the event of the other pod is left");
    // A bind that was under way fails.
    harness.recorder.record_last(failed("a"), harness.now);
    assert_eq!(harness.exchange(ok()).method, Method::Post);
    assert_eq!(harness.recorder.cache.len(), 1);
}
