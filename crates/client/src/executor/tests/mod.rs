//! What the executor sends, and what it makes of the replies.

mod effect_ids;
mod eviction;
mod properties;

use std::time::Duration;

use engine::{Effect, EffectId, EffectKind};
use framework::{Answer, Binding, PodKey, ScheduledCondition, StatusPatch, Time, Uid, Write};
use serde_json::{Value, json};

use self::effect_ids::effect_ids;
use super::{Executor, Limits};
use crate::request::{Recipient, Reply, Request, Response};

const UID: &str = "6a0f2f1e-3f2b-4c9e-9d43-0d2c5f1e7a11";

struct Rig {
    executor: Executor,
    ids: Box<dyn Iterator<Item = EffectId>>,
    now: Time,
}

fn rig() -> Rig {
    with(Limits::default())
}

fn with(limits: Limits) -> Rig {
    let now = Time::parse_rfc3339("2026-01-01T00:00:00.7Z").unwrap();
    Rig { executor: Executor::new(limits, 7), ids: Box::new(effect_ids(100)), now }
}

impl Rig {
    fn submit(&mut self, kind: EffectKind) -> EffectId {
        let id = self.ids.next().unwrap();
        self.executor.submit(Effect { id, kind }, self.now);
        id
    }

    /// The only request there is to send.
    fn request(&mut self) -> Request {
        let mut requests = self.executor.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// The requests to send, as `METHOD path`.
    fn lines(&mut self) -> Vec<String> {
        self.executor.requests().iter().map(line).collect()
    }

    fn reply(&mut self, request: &Request, reply: Reply) {
        self.executor.reply(request.id, reply, self.now);
    }

    /// Sends the only request there is, and takes what the executor answers to `reply`.
    fn exchange(&mut self, reply: Reply) -> Vec<Answer> {
        let request = self.request();
        self.reply(&request, reply);
        self.answers()
    }

    fn answers(&mut self) -> Vec<Answer> {
        self.executor.answers().into_iter().map(|(_, answer)| answer).collect()
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.executor.tick(self.now);
    }

    /// Waits for what is due next, and tells how long that took.
    fn wait_for_deadline(&mut self) -> Duration {
        let pause = self.executor.next_deadline().unwrap().since(self.now);
        self.wait(pause);
        pause
    }
}

fn line(request: &Request) -> String {
    format!("{} {}", request.method.as_str(), request.path)
}

fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn bind_to(pod: &str, node: &str) -> EffectKind {
    let (pod, uid) = (PodKey::new("ns", pod), UID.into());
    EffectKind::Bind(Binding { pod, uid, node: node.into() })
}

fn bind(pod: &str) -> EffectKind {
    bind_to(pod, "n1")
}

fn read(pod: &str) -> EffectKind {
    EffectKind::ReadPod { pod: PodKey::new("ns", pod), uid: UID.into() }
}

fn patch_of(pod: &str, uid: &str, generation: i64, patch: StatusPatch) -> EffectKind {
    let (pod, uid) = (PodKey::new("ns", pod), Uid::from(uid));
    EffectKind::PatchPodStatus { pod, uid, observed_generation: generation, patch }
}

fn condition(message: &str) -> StatusPatch {
    let condition = ScheduledCondition {
        status: false,
        reason: "Unschedulable".into(),
        message: message.into(),
    };
    StatusPatch { condition: Some(condition), nominated_node_name: None }
}

fn nomination(node: &str) -> StatusPatch {
    StatusPatch { condition: None, nominated_node_name: Some(node.into()) }
}

fn patch(pod: &str) -> EffectKind {
    patch_of(pod, UID, 1, condition("no room"))
}

fn write(api_version: &str, resource: &str, namespace: &str, name: &str) -> EffectKind {
    EffectKind::Write(Write {
        api_version: api_version.into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: None,
        patch: json!({ "metadata": { "uid": UID } }),
    })
}

fn answered(status: u16, body: &Value) -> Reply {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into() };
    Reply::Answered(Response { status, retry_after: None, body })
}

fn ok() -> Reply {
    answered(201, &json!({ "kind": "Status", "status": "Success" }))
}

fn refused(status: u16, message: &str) -> Reply {
    answered(status, &json!({ "kind": "Status", "message": message }))
}

fn throttled(seconds: u64) -> Reply {
    let retry_after = Some(Duration::from_secs(seconds));
    Reply::Answered(Response { status: 429, retry_after, body: b"slow down".into() })
}

fn lost() -> Reply {
    Reply::Lost("connection reset".into())
}

fn not_sent() -> Reply {
    Reply::NotSent("connection refused".into())
}

fn pod_on(node: Option<&str>) -> Reply {
    answered(200, &json!({ "metadata": { "uid": UID }, "spec": { "nodeName": node } }))
}

fn repeat(times: usize, reply: &Reply, rig: &mut Rig) -> Vec<Answer> {
    let mut answers = Vec::new();
    for _ in 0..times {
        answers.extend(rig.exchange(reply.clone()));
        if answers.is_empty() {
            rig.wait_for_deadline();
        }
    }
    answers
}

#[test]
fn a_bind_posts_a_binding_with_the_uid() {
    let mut rig = rig();
    rig.submit(bind("a"));
    let request = rig.request();
    assert_eq!(line(&request), "POST /api/v1/namespaces/ns/pods/a/binding");
    assert_eq!(request.content_type, "application/json");
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": "a", "namespace": "ns", "uid": UID },
        "target": { "kind": "Node", "name": "n1" },
    });
    assert_eq!(body(&request), expected);
    rig.reply(&request, ok());
    rig.reply(&request, ok());
    assert_eq!(rig.answers(), [Answer::ok()], "a second reply is passed over");
    assert_eq!((rig.executor.unfinished(), rig.executor.next_deadline()), (0, None));
}

#[test]
fn a_status_patch_carries_condition_and_nomination() {
    let mut rig = rig();
    let patch = StatusPatch { nominated_node_name: Some("n1".into()), ..condition("no room") };
    rig.submit(patch_of("a", UID, 3, patch));
    let request = rig.request();
    assert_eq!(line(&request), "PATCH /api/v1/namespaces/ns/pods/a/status");
    assert_eq!(request.content_type, "application/strategic-merge-patch+json");
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "observedGeneration": 3,
        "lastProbeTime": null,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "conditions": [condition], "nominatedNodeName": "n1" });
    assert_eq!(body(&request), json!({ "metadata": { "uid": UID }, "status": status }));
}

#[test]
fn an_empty_nomination_takes_the_field_away() {
    let mut rig = rig();
    rig.submit(patch_of("a", UID, 3, nomination("")));
    assert_eq!(body(&rig.request())["status"], json!({ "nominatedNodeName": null }));
}

#[test]
fn a_write_goes_to_the_url_of_its_object() {
    let mut rig = rig();
    let EffectKind::Write(claim) = write("resource.k8s.io/v1", "resourceclaims", "ns", "c") else {
        unreachable!()
    };
    rig.submit(write("v1", "persistentvolumes", "", "pv"));
    rig.submit(write("v1", "persistentvolumeclaims", "ns", "a:b"));
    rig.submit(EffectKind::Write(Write { subresource: Some("status".into()), ..claim }));
    assert_eq!(
        rig.lines(),
        [
            "PATCH /api/v1/persistentvolumes/pv",
            "PATCH /api/v1/namespaces/ns/persistentvolumeclaims/a%3Ab",
            "PATCH /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status",
        ]
    );
}

#[test]
fn a_write_is_a_merge_patch_and_answered_with_the_object() {
    let mut rig = rig();
    rig.submit(write("v1", "persistentvolumes", "", "pv"));
    let request = rig.request();
    assert_eq!(request.content_type, "application/merge-patch+json");
    assert_eq!(body(&request), json!({ "metadata": { "uid": UID } }));
    rig.reply(&request, answered(200, &json!({ "kind": "PersistentVolume" })));
    assert_eq!(rig.answers(), [Answer::Ok(Some(json!({ "kind": "PersistentVolume" })))]);
}

#[test]
fn what_the_server_refuses_is_answered_by_its_code_and_text() {
    let credentials = "no (check the credentials of the scheduler)";
    let cases = [
        (400, Answer::Error("no".into())),
        (401, Answer::Forbidden(credentials.into())),
        (403, Answer::Forbidden("no".into())),
        (404, Answer::Gone("no".into())),
        (409, Answer::Conflict("no".into())),
        (422, Answer::Error("no".into())),
        (500, Answer::Unknown("no".into())),
        (502, Answer::Unknown("no".into())),
        (503, Answer::Unknown("no".into())),
        (504, Answer::Unknown("no".into())),
    ];
    for (status, expected) in cases {
        for kind in [bind("a"), write("v1", "persistentvolumes", "", "pv")] {
            let mut rig = rig();
            rig.submit(kind);
            assert_eq!(rig.exchange(refused(status, "no")).pop().as_ref(), Some(&expected));
            assert_eq!(rig.executor.failures().len(), 1, "{status} is told in the log");
        }
    }
}

#[test]
fn a_lost_write_is_never_sent_again() {
    for kind in [bind("a"), write("v1", "persistentvolumes", "", "pv")] {
        let mut rig = rig();
        rig.submit(kind);
        assert_eq!(rig.exchange(lost()), [Answer::Unknown("connection reset".into())]);
        assert_eq!((rig.lines().len(), rig.executor.next_deadline()), (0, None));
    }
}

#[test]
fn a_write_that_was_not_sent_is_tried_again_until_patience_ends() {
    let mut rig = rig();
    rig.submit(bind("a"));
    let start = rig.now;
    let mut answers = Vec::new();
    while answers.is_empty() {
        answers = rig.exchange(not_sent());
        if answers.is_empty() {
            rig.wait_for_deadline();
        }
    }
    assert_eq!(answers, [Answer::Error("connection refused".into())]);
    let took = rig.now.since(start);
    let patience = Limits::default().patience;
    assert!(took <= patience && took > patience / 2, "gave up after {took:?}");
}

#[test]
fn a_server_that_wants_a_pause_gets_it_from_everyone() {
    let mut rig = rig();
    rig.submit(bind("a"));
    assert_eq!(rig.exchange(throttled(3)), []);
    rig.submit(bind("b"));
    assert!(rig.executor.is_throttled(rig.now));
    assert_eq!(rig.lines(), [""; 0]);
    assert_eq!(rig.wait_for_deadline(), Duration::from_secs(3));
    assert!(!rig.executor.is_throttled(rig.now));
    assert_eq!(rig.lines().len(), 2);
}

#[test]
fn a_write_that_stays_throttled_is_answered_so() {
    let mut rig = rig();
    rig.submit(bind("a"));
    let answers = repeat(4, &throttled(9), &mut rig);
    assert_eq!(answers, [Answer::Throttled("the server answered 429: slow down".into())]);
}

#[test]
fn a_pod_is_read_until_there_is_an_answer() {
    let mut rig = rig();
    rig.submit(read("a"));
    let nonsense = answered(200, &Value::Null);
    let mut before = Duration::ZERO;
    for reply in [lost(), not_sent(), refused(500, "no"), refused(418, "tea"), nonsense] {
        assert_eq!(rig.exchange(reply), []);
        let pause = rig.wait_for_deadline();
        assert!(pause > before, "pauses grow");
        before = pause;
    }
    assert_eq!(rig.exchange(refused(403, "no")), []);
    assert!(rig.wait_for_deadline() >= Duration::from_secs(30), "people have to help first");
    let request = rig.request();
    assert_eq!(line(&request), "GET /api/v1/namespaces/ns/pods/a", "no cache may answer");
    rig.reply(&request, refused(404, "gone"));
    assert_eq!(rig.answers(), [Answer::Gone("gone".into())]);
    assert_eq!(rig.executor.failures().len(), 7, "each of them is told in the log");
}

#[test]
fn a_bind_that_stays_unknown_is_asked_about_ever_more_seldom() {
    let mut rig = rig();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        rig.submit(bind("a"));
        rig.exchange(refused(500, "failed calling webhook"));
        rig.submit(read("a"));
        pauses.push(rig.executor.next_deadline().map(|due| due.since(rig.now)));
        if rig.executor.next_deadline().is_some() {
            rig.wait_for_deadline();
        }
        assert_eq!(rig.exchange(pod_on(None)).len(), 1);
    }
    assert_eq!(pauses[0], None, "the first time at once");
    assert!(pauses[1] < pauses[2] && pauses[2] < pauses[3], "{pauses:?}");
    assert!(pauses[11] >= Some(Duration::from_secs(30)), "{pauses:?}");
}

#[test]
fn a_status_patch_is_tried_four_times() {
    for reply in [lost(), not_sent(), refused(500, "no"), refused(409, "changed"), throttled(1)] {
        let mut rig = rig();
        rig.submit(patch("a"));
        for _ in 0..3 {
            rig.exchange(reply.clone());
            rig.wait_for_deadline();
        }
        assert_eq!(rig.exchange(reply.clone()), [], "nobody waits for it");
        assert_eq!(rig.executor.unfinished(), 0, "{reply:?}");
        let failures = rig.executor.failures();
        assert_eq!((failures.len(), failures[0].what), (1, "patching the status"));
        assert_eq!(failures[0].object, "ns/a");
    }
}

#[test]
fn the_pauses_between_status_patches_are_those_of_kube_scheduler() {
    let mut rig = rig();
    rig.submit(patch("a"));
    for millis in [10, 50, 250] {
        rig.exchange(lost());
        let pause = rig.wait_for_deadline().as_micros();
        assert!((millis * 1000..=millis * 1100).contains(&pause), "{pause} µs");
    }
}

#[test]
fn a_status_patch_of_a_pod_that_is_gone_is_no_failure() {
    let uid = "Precondition failed: UID in precondition: x, UID in object meta: y";
    for (status, text) in [(404, "not found"), (409, uid), (422, "metadata.uid: immutable")] {
        let mut rig = rig();
        rig.submit(patch("a"));
        assert_eq!(rig.exchange(refused(status, text)), []);
        assert_eq!((rig.executor.unfinished(), rig.executor.failures()), (0, vec![]), "{text}");
    }
}

#[test]
fn effects_on_one_object_wait_for_each_other_and_others_do_not() {
    let mut rig = rig();
    rig.submit(patch("a"));
    rig.submit(bind("a"));
    rig.submit(write("v1", "pods", "ns", "a"));
    rig.submit(patch("b"));
    let requests = rig.executor.requests();
    let lines: Vec<String> = requests.iter().map(line).collect();
    let [a, b] = ["a", "b"].map(|pod| format!("PATCH /api/v1/namespaces/ns/pods/{pod}/status"));
    assert_eq!(lines, [a, b]);
    rig.reply(&requests[0], ok());
    let request = rig.request();
    assert_eq!(line(&request), "POST /api/v1/namespaces/ns/pods/a/binding");
    rig.reply(&request, ok());
    assert_eq!(rig.lines(), ["PATCH /api/v1/namespaces/ns/pods/a"]);
}

#[test]
fn status_patches_that_wait_become_one() {
    let mut rig = with(Limits { in_flight: 1, ..Limits::default() });
    rig.submit(bind("other"));
    rig.submit(patch_of("a", UID, 1, condition("first")));
    rig.submit(patch_of("a", UID, 2, nomination("n1")));
    rig.submit(patch_of("a", UID, 3, condition("last")));
    assert_eq!(rig.executor.unfinished(), 2);
    rig.exchange(ok());
    let status = &body(&rig.request())["status"];
    assert_eq!(status["nominatedNodeName"], "n1");
    assert_eq!(status["conditions"][0]["message"], "last");
    assert_eq!(status["conditions"][0]["observedGeneration"], 3);
}

#[test]
fn a_status_patch_that_is_out_is_left_alone() {
    let mut rig = rig();
    rig.submit(patch_of("a", UID, 1, condition("first")));
    rig.submit(patch_of("a", UID, 1, nomination("n1")));
    let first = rig.request();
    assert_eq!(body(&first)["status"]["conditions"][0]["message"], "first");
    rig.reply(&first, ok());
    assert_eq!(body(&rig.request())["status"], json!({ "nominatedNodeName": "n1" }));
}

#[test]
fn status_patches_of_two_pods_of_one_name_stay_apart() {
    let mut rig = with(Limits { in_flight: 1, ..Limits::default() });
    rig.submit(bind("other"));
    rig.submit(patch_of("a", "old", 1, condition("first")));
    rig.submit(patch_of("a", "new", 1, condition("last")));
    rig.exchange(ok());
    let first = rig.request();
    assert_eq!(body(&first)["metadata"]["uid"], "old");
    rig.reply(&first, refused(404, "gone"));
    assert_eq!(body(&rig.request())["metadata"]["uid"], "new");
}

#[test]
fn a_bind_takes_the_place_of_status_patches_of_its_pod() {
    let mut rig = with(Limits { in_flight: 1, ..Limits::default() });
    rig.submit(bind("other"));
    rig.submit(patch_of("a", UID, 1, nomination("n1")));
    rig.submit(patch_of("a", "old", 1, condition("another pod")));
    rig.submit(patch_of("a", UID, 1, condition("no room")));
    rig.submit(bind("a"));
    assert_eq!(rig.executor.unfinished(), 3);
    rig.exchange(ok());
    let patch = rig.request();
    assert_eq!(body(&patch)["metadata"]["uid"], "old");
    rig.reply(&patch, ok());
    assert_eq!(rig.lines(), ["POST /api/v1/namespaces/ns/pods/a/binding"]);
}

#[test]
fn a_bind_does_not_wait_for_the_pause_of_a_status_patch() {
    let mut rig = rig();
    rig.submit(patch("a"));
    rig.exchange(not_sent());
    rig.submit(bind("a"));
    rig.exchange(ok());
    assert_eq!((rig.executor.unfinished(), rig.executor.next_deadline()), (0, None));
}

#[test]
fn binds_go_before_status_patches_and_otherwise_the_oldest_first() {
    let mut rig = with(Limits { in_flight: 1, ..Limits::default() });
    rig.submit(bind("first"));
    for kind in [patch("a"), patch("b"), bind("c"), bind("d")] {
        rig.submit(kind);
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        let request = rig.request();
        order.push(request.path.split('/').nth(6).unwrap().to_owned());
        rig.reply(&request, ok());
    }
    assert_eq!(order, ["first", "c", "d", "a", "b"]);
}

#[test]
fn the_rate_is_kept_and_a_long_backlog_throttles() {
    let limits = Limits { qps: Some(10.0), burst: 2, backlog: 3, ..Limits::default() };
    let mut rig = with(limits);
    for number in 0..6 {
        rig.submit(bind(&format!("p{number}")));
    }
    assert_eq!(rig.lines().len(), 2);
    assert!(rig.executor.is_throttled(rig.now), "4 wait");
    assert_eq!(rig.wait_for_deadline(), Duration::from_millis(100));
    assert_eq!(rig.lines().len(), 1);
    assert!(!rig.executor.is_throttled(rig.now), "3 wait");
}

fn bind_by(extender: usize) -> EffectKind {
    let EffectKind::Bind(binding) = bind("a") else { unreachable!() };
    EffectKind::ExtenderBind { extender, binding }
}

#[test]
fn an_extender_is_told_what_to_bind() {
    let mut rig = rig();
    rig.submit(bind_by(3));
    let request = rig.request();
    assert_eq!(request.to, Recipient::Extender(3));
    let binding = json!({"PodName": "a", "PodNamespace": "ns", "PodUID": UID, "Node": "n1"});
    assert_eq!(body(&request), binding);
}

#[test]
fn what_an_extender_says_of_a_bind_is_final() {
    let rows = [
        (answered(200, &json!({})), Answer::ok()),
        (answered(200, &json!({"Error": "no licence"})), Answer::Error("no licence".into())),
        (Reply::Refused("code 500".into()), Answer::Error("code 500".into())),
        (not_sent(), Answer::Error("connection refused".into())),
        (lost(), Answer::Unknown("connection reset".into())),
    ];
    for (reply, expected) in rows {
        let mut rig = rig();
        rig.submit(bind_by(0));
        assert_eq!(rig.exchange(reply), [expected]);
        assert_eq!((rig.executor.unfinished(), rig.executor.next_deadline()), (0, None));
    }
    let mut rig = rig();
    rig.submit(bind_by(0));
    let answers = rig.exchange(answered(200, &json!("done")));
    let [Answer::Error(text)] = &answers[..] else { panic!("{answers:?}") };
    assert!(text.starts_with("the answer is no ExtenderBindingResult: "), "{text}");
}

#[test]
fn a_bind_by_an_extender_waits_for_its_turn_and_drops_what_it_makes_moot() {
    let mut rig = with(Limits { in_flight: 1, ..Limits::default() });
    rig.submit(bind("other"));
    let other = rig.request();
    rig.submit(patch("a"));
    rig.submit(bind_by(0));
    rig.reply(&other, ok());
    assert_eq!(rig.request().to, Recipient::Extender(0));
    assert_eq!(rig.executor.unfinished(), 1);
}

#[test]
fn extenders_that_hang_keep_nobody_from_the_server() {
    let mut rig = with(Limits { in_flight: 1, ..Limits::default() });
    rig.submit(bind_by(0));
    let hanging = rig.request();
    rig.submit(bind("b"));
    let out = rig.request();
    rig.submit(bind("c"));
    rig.reply(&hanging, lost());
    assert_eq!(rig.lines(), [""; 0], "only one request may be under way");
    rig.reply(&out, ok());
    assert_eq!(rig.lines().len(), 1);
}

#[test]
fn who_stops_sends_nothing_more_and_waits_for_what_is_out() {
    let mut rig = with(Limits { in_flight: 2, ..Limits::default() });
    for kind in [bind("a"), patch("b"), bind("c"), patch("a"), bind("d")] {
        rig.submit(kind);
    }
    let requests = rig.executor.requests();
    rig.executor.stop(rig.now);
    assert_eq!(rig.executor.unfinished(), 2);
    rig.submit(bind("e"));
    rig.reply(&requests[0], ok());
    rig.reply(&requests[1], not_sent());
    rig.wait(Duration::from_secs(60));
    assert_eq!((rig.answers(), rig.lines()), (vec![Answer::ok()], vec![]));
    assert_eq!((rig.executor.unfinished(), rig.executor.next_deadline()), (0, None));
}
