//! What the recorder writes, and what it gives up.

use std::collections::BTreeSet;

use engine::{EventType, ObjectRef};
use framework::PodKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const UID: &str = "6a0f2f1e-3f2b-4c9e-9d43-0d2c5f1e7a11";

struct Rig {
    recorder: Recorder,
    now: Time,
}

fn rig() -> Rig {
    with(Options::default())
}

fn with(options: Options) -> Rig {
    let now = Time::parse_rfc3339("2026-01-01T00:00:00.123456789Z").unwrap();
    let options = Options { hostname: "host".into(), ..options };
    Rig { recorder: Recorder::new(options, 7), now }
}

impl Rig {
    fn record(&mut self, event: Event) {
        self.recorder.record(event, self.now);
    }

    /// The only request there is to send.
    fn request(&mut self) -> Request {
        let mut requests = self.recorder.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    fn reply(&mut self, request: &Request, reply: Reply) {
        self.recorder.reply(request.id, reply, self.now);
    }

    /// Sends the only request there is and takes the reply to it.
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
        regarding: PodKey::new("ns", pod),
        uid: UID.into(),
        related: None,
        event_type: EventType::Warning,
        reason: "FailedScheduling",
        action: "Scheduling",
        note: "no room".into(),
        reporting_controller: "loadmaster".into(),
    }
}

fn scheduled(pod: &str) -> Event {
    Event { event_type: EventType::Normal, reason: "Scheduled", action: "Binding", ..failed(pod) }
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
fn an_event_is_created_in_the_namespace_of_its_pod() {
    let mut rig = rig();
    rig.record(scheduled("a"));
    let request = rig.request();
    assert_eq!(request.method, Method::Post);
    assert_eq!(request.path, "/apis/events.k8s.io/v1/namespaces/ns/events");
    let expected = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": format!("a.{:x}", rig.now.as_nanos()), "namespace": "ns" },
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
fn an_event_may_name_a_second_pod() {
    let mut rig = rig();
    let related = ObjectRef { pod: PodKey::new("other", "p"), uid: "u-2".into() };
    rig.record(Event { related: Some(related), ..failed("a") });
    let expected = json!(
        { "apiVersion": "v1", "kind": "Pod", "namespace": "other", "name": "p", "uid": "u-2" }
    );
    assert_eq!(body(&rig.request())["related"], expected);
}

#[test]
fn the_second_occurrence_is_patched_and_later_ones_are_counted() {
    let mut rig = rig();
    rig.record(failed("a"));
    let first = rig.exchange(ok());
    rig.wait(Duration::from_secs(1));
    rig.record(Event { note: "another note".into(), ..failed("a") });
    let second = rig.exchange(ok());
    assert_eq!(second.method, Method::Patch);
    assert_eq!(second.path, format!("{}/{}", first.path, name(&first)));
    assert_eq!(second.content_type, "application/strategic-merge-patch+json");
    let series = json!({ "count": 2, "lastObservedTime": "2026-01-01T00:00:01.123456Z" });
    assert_eq!(body(&second), json!({ "series": series }));
    rig.record(failed("a"));
    assert_eq!(rig.recorder.requests(), []);
}

#[test]
fn what_differs_in_more_than_the_note_is_another_event() {
    let others = [
        failed("b"),
        Event { uid: "other".into(), ..failed("a") },
        Event { event_type: EventType::Normal, ..failed("a") },
        Event { reason: "Other", ..failed("a") },
        Event { action: "Other", ..failed("a") },
        Event { reporting_controller: "other".into(), ..failed("a") },
    ];
    let mut rig = rig();
    rig.record(failed("a"));
    let mut names = BTreeSet::from([name(&rig.exchange(ok()))]);
    for event in others {
        rig.record(event);
        let request = rig.exchange(ok());
        assert_eq!(request.method, Method::Post);
        assert!(names.insert(name(&request)), "names are unique within a nanosecond");
    }
}

#[test]
fn a_series_is_refreshed_every_half_hour() {
    let mut rig = rig();
    rig.record(failed("a"));
    rig.exchange(ok());
    for minute in 1..=30 {
        assert_eq!(rig.recorder.requests().len(), usize::from(minute == 2), "minute {minute}");
        rig.wait_minutes(1);
        rig.record(failed("a"));
    }
    assert_eq!(body(&rig.request())["series"]["count"], 30);
}

#[test]
fn a_series_that_is_over_is_told_a_last_time_and_forgotten() {
    let mut rig = rig();
    for _ in 0..5 {
        rig.record(failed("a"));
    }
    assert_eq!(rig.recorder.requests().len(), 2);
    rig.wait_minutes(6);
    assert_eq!(rig.recorder.requests(), [], "it is not idle for more than 6 minutes");
    rig.wait_minutes(6);
    assert_eq!(body(&rig.request())["series"]["count"], 5);
    assert_eq!(rig.recorder.next_deadline(), None, "nothing is left to look after");
    rig.record(failed("a"));
    assert_eq!(rig.request().method, Method::Post);
}

#[test]
fn a_single_event_is_forgotten_without_a_word() {
    let mut rig = rig();
    rig.record(failed("a"));
    rig.exchange(ok());
    rig.wait_minutes(6);
    rig.wait_minutes(6);
    assert_eq!((rig.recorder.requests(), rig.recorder.next_deadline()), (vec![], None));
    rig.record(failed("a"));
    assert_eq!(rig.request().method, Method::Post);
}

#[test]
fn a_pod_is_bound_once_so_that_needs_no_memory() {
    let mut rig = rig();
    rig.record(scheduled("a"));
    rig.exchange(ok());
    assert_eq!(rig.recorder.next_deadline(), None);
}

#[test]
fn the_event_seen_longest_ago_is_forgotten_for_a_new_one() {
    let mut rig = with(Options { series: 2, ..Options::default() });
    for pod in ["a", "b", "a", "c"] {
        rig.wait(Duration::from_secs(1));
        rig.record(failed(pod));
    }
    rig.recorder.requests();
    rig.record(failed("a"));
    assert_eq!(rig.recorder.requests(), [], "a is counted still");
    rig.record(failed("b"));
    assert_eq!(rig.request().method, Method::Post);
}

#[test]
fn a_series_whose_event_is_gone_is_created_again() {
    let mut rig = rig();
    rig.record(failed("a"));
    let first = rig.exchange(ok());
    rig.record(failed("a"));
    rig.exchange(answered(404));
    let again = rig.exchange(ok());
    assert_eq!((again.method, name(&again)), (Method::Post, name(&first)));
    assert_eq!(body(&again)["series"]["count"], 2);
}

#[test]
fn what_does_not_get_through_is_tried_twelve_times() {
    for reply in [lost(), Reply::NotSent("connection refused".into())] {
        let mut rig = rig();
        rig.record(scheduled("a"));
        for _ in 0..11 {
            rig.exchange(reply.clone());
            rig.wait(Duration::from_millis(9_999));
            assert_eq!(rig.recorder.requests(), [], "too early");
            rig.wait(Duration::from_millis(2_501));
        }
        assert_eq!(rig.recorder.failures(), []);
        rig.exchange(reply);
        assert_eq!((rig.recorder.unfinished(), rig.recorder.failures().len()), (0, 1));
    }
}

#[test]
fn an_event_that_is_there_already_was_created_by_an_earlier_try() {
    let mut rig = rig();
    rig.record(scheduled("a"));
    rig.exchange(lost());
    rig.wait(Duration::from_secs(13));
    rig.exchange(answered(409));
    assert_eq!((rig.recorder.unfinished(), rig.recorder.failures()), (0, vec![]));
}

#[test]
fn a_server_that_wants_a_pause_gets_it() {
    for status in [429, 503] {
        let mut rig = rig();
        rig.record(scheduled("a"));
        rig.exchange(wants_pause(status, 3));
        assert_eq!(rig.recorder.next_deadline(), Some(rig.now + Duration::from_secs(3)));
        rig.wait(Duration::from_secs(3));
        rig.exchange(ok());
        assert_eq!(rig.recorder.unfinished(), 0, "{status}");
    }
}

#[test]
fn an_event_the_server_does_not_want_is_dropped() {
    for status in [400, 403, 404, 422, 500, 503] {
        let mut rig = rig();
        rig.record(scheduled("a"));
        rig.exchange(answered(status));
        let failures = rig.recorder.failures();
        assert_eq!((rig.recorder.unfinished(), failures.len()), (0, 1), "{status}");
        assert_eq!(failures[0].text, format!("the server answered {status}"));
    }
}

#[test]
fn a_namespace_that_is_being_deleted_is_no_failure() {
    let status = json!({
        "kind": "Status",
        "message": "forbidden",
        "details": { "causes": [{ "reason": "NamespaceTerminating" }] },
    });
    let body = status.to_string().into_bytes();
    let mut rig = rig();
    rig.record(scheduled("a"));
    rig.exchange(Reply::Answered(Response { status: 403, retry_after: None, body }));
    assert_eq!((rig.recorder.unfinished(), rig.recorder.failures()), (0, vec![]));
}

#[test]
fn what_finds_the_queue_full_is_dropped_and_counted() {
    let mut rig = with(Options { in_flight: 1, queue: 2, ..Options::default() });
    for pod in ["a", "b", "c", "d", "e"] {
        rig.record(failed(pod));
    }
    assert_eq!((rig.recorder.unfinished(), rig.recorder.dropped()), (3, 2));
    for _ in 0..3 {
        rig.exchange(ok());
    }
    rig.record(failed("e"));
    assert_eq!(rig.request().method, Method::Post, "a dropped event has not happened");
}

#[test]
fn a_long_name_of_a_pod_is_cut() {
    let mut rig = rig();
    rig.record(scheduled(&format!("{}.b{}", "a".repeat(235), "c".repeat(16))));
    let name = name(&rig.request());
    assert!(name.len() <= 253 && name.starts_with(&format!("{}.", "a".repeat(235))), "{name}");
    assert!(!name.contains(".."), "{name}");
}

#[test]
fn a_long_name_of_a_host_is_cut() {
    let mut recorder =
        Recorder::new(Options { hostname: "h".repeat(200), ..Options::default() }, 7);
    recorder.record(scheduled("a"), Time::ZERO);
    let instance = &body(&recorder.requests()[0])["reportingInstance"];
    assert_eq!(instance.as_str().unwrap().len(), 128);
}

#[test]
fn who_stops_writes_what_waits_and_takes_no_more() {
    let mut rig = with(Options { in_flight: 1, ..Options::default() });
    rig.record(failed("a"));
    rig.exchange(lost());
    rig.record(scheduled("b"));
    rig.record(scheduled("c"));
    rig.recorder.stop(rig.now);
    rig.record(scheduled("d"));
    rig.exchange(ok());
    rig.exchange(lost());
    assert_eq!((rig.recorder.unfinished(), rig.recorder.next_deadline()), (0, None));
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
    /// Whatever is replied: limits are kept, and in the end nothing is left to do.
    #[test]
    fn limits_are_kept_and_everything_comes_to_an_end(
        actions in prop::collection::vec(action(), 0..200),
    ) {
        let options = Options { in_flight: 3, queue: 5, series: 4, ..Options::default() };
        let (mut rig, mut out) = (with(options), Vec::new());
        for action in actions {
            match action {
                Action::Record(pod) => rig.record(failed(&format!("p{pod}"))),
                Action::Reply(which, reply) if !out.is_empty() => {
                    let request: Request = out.remove(which % out.len());
                    rig.reply(&request, reply);
                }
                Action::Reply(..) => {}
                Action::Wait(seconds) => rig.wait(Duration::from_secs(seconds)),
            }
            out.extend(rig.recorder.requests());
            prop_assert!(out.len() <= 3, "{} are out", out.len());
            // What was out may come back on top of a full queue.
            prop_assert!(rig.recorder.unfinished() <= 5 + 3);
        }
        while rig.recorder.next_deadline().is_some() || !out.is_empty() {
            match out.pop() {
                Some(request) => rig.reply(&request, ok()),
                None => rig.wait_minutes(1),
            }
            out.extend(rig.recorder.requests());
        }
        prop_assert_eq!(rig.recorder.unfinished(), 0);
    }
}
