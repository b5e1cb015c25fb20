//! Tests of the requests that the dispatcher sends and the answers it returns.

mod effect_ids;
mod eviction;
mod fence;
mod isolation;
mod measure;
mod outcomes;
mod properties;
mod touch;

use std::time::Duration;

use engine::{Effect, EffectId, EffectKind};
use framework::{
    Answer, Binding, PodKey, ScheduledCondition, StatusPatch, Time, Uid, WallOffset, Write,
    WriteAction,
};
use serde_json::{Value, json};

use self::effect_ids::effect_ids;
use super::{ApiDispatcher, Limits};
use crate::failed_call::FailedCall;
use crate::request::{Destination, Reply, Request, Response};

const UID: &str = "6a0f2f1e-3f2b-4c9e-9d43-0d2c5f1e7a11";

struct Harness {
    dispatcher: ApiDispatcher,
    ids: Box<dyn Iterator<Item = EffectId>>,
    now: Time,
}

fn harness() -> Harness {
    with(Limits::default())
}

fn with(limits: Limits) -> Harness {
    let now = Time::parse_rfc3339("2026-01-01T00:00:00.7Z").unwrap();
    Harness { dispatcher: ApiDispatcher::new(limits, 7), ids: Box::new(effect_ids()), now }
}

impl Harness {
    fn add(&mut self, kind: EffectKind) -> EffectId {
        let id = self.ids.next().unwrap();
        self.dispatcher.add(Effect { id, kind }, self.now);
        id
    }

    /// Takes the requests to send and checks that there is one.
    fn request(&mut self) -> Request {
        let mut requests = self.dispatcher.take_requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// Waits until there is a request to send, and takes it.
    fn next_request(&mut self) -> Request {
        loop {
            if let Some(request) = self.dispatcher.take_requests().pop() {
                return request;
            }
            self.wait_for_deadline();
        }
    }

    /// Takes the requests to send, as `METHOD path`.
    fn lines(&mut self) -> Vec<String> {
        self.dispatcher.take_requests().iter().map(line).collect()
    }

    fn reply(&mut self, request: &Request, reply: Reply) {
        self.dispatcher.handle_reply(request.id, reply, self.now);
    }

    /// Takes the one request to send and replies to it. Returns the answers of the dispatcher.
    fn exchange(&mut self, reply: Reply) -> Vec<Answer> {
        let request = self.request();
        self.reply(&request, reply);
        self.answers()
    }

    fn answers(&mut self) -> Vec<Answer> {
        self.dispatcher.take_answers().into_iter().map(|(_, answer)| answer).collect()
    }

    fn failed_calls(&mut self) -> Vec<FailedCall> {
        self.dispatcher.take_failed_calls()
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.dispatcher.tick(self.now);
    }

    /// Advances the time to the next deadline. Returns how long that took.
    fn wait_for_deadline(&mut self) -> Duration {
        let pause = self.dispatcher.next_deadline().unwrap().since(self.now);
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
    let binding = Binding { pod, uid, node: node.into() };
    EffectKind::Bind { binding, decided: Time::ZERO, generation: 1, resource_version: 0 }
}

fn bind(pod: &str) -> EffectKind {
    bind_to(pod, "n1")
}

fn read(pod: &str) -> EffectKind {
    EffectKind::ReadPod { pod: PodKey::new("ns", pod), uid: UID.into() }
}

/// Returns a status patch of a pod whose resourceVersion is not known.
fn patch_of(pod: &str, uid: &str, generation: i64, patch: StatusPatch) -> EffectKind {
    let (pod, uid) = (PodKey::new("ns", pod), Uid::from(uid));
    let (observed_generation, resource_version) = (generation, 0);
    EffectKind::PatchPodStatus { pod, uid, observed_generation, resource_version, patch }
}

/// Returns a status patch of pod `a` as known at this resourceVersion.
fn patch_at(resource_version: u64, patch: StatusPatch) -> EffectKind {
    let (pod, uid) = (PodKey::new("ns", "a"), UID.into());
    let observed_generation = 1;
    EffectKind::PatchPodStatus { pod, uid, observed_generation, resource_version, patch }
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
        flow: "".into(),
        action: WriteAction::MergePatch(json!({ "metadata": { "uid": UID } })),
    })
}

fn answered(status: u16, body: &Value) -> Reply {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into() };
    Reply::Answered(Response { status, retry_after: None, body })
}

fn ok() -> Reply {
    answered(201, &json!({ "kind": "Status", "status": "Success" }))
}

fn rejected(status: u16, message: &str) -> Reply {
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

fn repeat(times: usize, reply: &Reply, harness: &mut Harness) -> Vec<Answer> {
    let mut answers = Vec::new();
    for _ in 0..times {
        answers.extend(harness.exchange(reply.clone()));
        if answers.is_empty() {
            harness.wait_for_deadline();
        }
    }
    answers
}

#[test]
fn bind_posts_a_binding_with_the_uid() {
    let mut harness = harness();
    harness.add(bind("a"));
    let request = harness.request();
    assert_eq!(line(&request), "POST /api/v1/namespaces/ns/pods/a/binding");
    assert_eq!(request.content_type, "application/json");
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": "a", "namespace": "ns", "uid": UID },
        "target": { "kind": "Node", "name": "n1" },
    });
    assert_eq!(body(&request), expected);
    harness.reply(&request, ok());
    harness.reply(&request, ok());
    assert_eq!(harness.answers(), [Answer::ok()], "a second reply is ignored");
    assert_eq!((harness.dispatcher.unfinished(), harness.dispatcher.next_deadline()), (0, None));
}

fn bind_at(resource_version: u64) -> EffectKind {
    let EffectKind::Bind { binding, decided, .. } = bind("a") else { unreachable!() };
    EffectKind::Bind { binding, decided, generation: 1, resource_version }
}

/// The pod as a write returns it.
fn pod_at(resource_version: &str) -> Reply {
    pod_of(resource_version, 1)
}

/// The pod with this `metadata.generation`.
fn pod_of(resource_version: &str, generation: i64) -> Reply {
    let metadata =
        json!({ "uid": UID, "resourceVersion": resource_version, "generation": generation });
    answered(200, &json!({ "metadata": metadata }))
}

#[test]
fn bind_names_the_resource_version_of_the_decision_or_of_our_last_write() {
    let named = |request: &Request| body(request)["metadata"]["resourceVersion"].clone();
    let mut harness = harness();
    harness.add(bind_at(5));
    assert_eq!(named(&harness.request()), "5");

    // Our own patches change the version before the watch shows it, in flight or not.
    for answered_first in [true, false] {
        let mut harness = self::harness();
        harness.add(patch_at(5, condition("no room")));
        let patch = harness.request();
        if answered_first {
            harness.reply(&patch, pod_at("6"));
            harness.add(bind_at(5));
        } else {
            harness.add(bind_at(5));
            harness.reply(&patch, pod_at("6"));
        }
        assert_eq!(named(&harness.request()), "6");
    }

    let mut harness = self::harness();
    harness.add(patch_at(5, condition("no room")));
    harness.exchange(pod_at("6"));
    harness.add(patch_at(5, condition("still no room")));
    assert_eq!(named(&harness.request()), "6", "a patch does not conflict with our own patch");
    let mut harness = self::harness();
    harness.add(write("v1", "pods", "ns", "a"));
    harness.exchange(pod_at("7"));
    harness.add(bind_at(5));
    assert_eq!(named(&harness.request()), "7", "a plugin wrote the pod");
    let mut harness = self::harness();
    harness.add(patch_at(5, condition("no room")));
    harness.exchange(pod_at("6"));
    harness.add(bind_at(9));
    assert_eq!(named(&harness.request()), "9", "the watch was faster");
}

#[test]
fn bind_names_the_version_of_a_touch() {
    let mut harness = harness();
    harness.add(touch::touch(5, true));
    let touch = harness.request();
    harness.add(bind_at(5));
    harness.reply(&touch, pod_at("6"));
    assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], "6");
}

#[test]
fn bind_names_the_version_of_the_condition_of_a_victim_that_stays() {
    let mut harness = harness();
    harness.add(eviction::evict(Some("room is needed")));
    harness.exchange(pod_at("6"));
    harness.exchange(rejected(403, "pods \"v\" is forbidden"));
    harness.add(bind_at(5));
    assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], "6");
}

#[test]
fn bind_does_not_name_a_version_with_another_specification() {
    // The pod changed at version 8, which a patch reads after a conflict and then replaces by 9.
    for (generation, named) in [(1, "9"), (2, "5")] {
        let mut harness = harness();
        harness.add(patch_at(5, condition("no room")));
        harness.exchange(rejected(409, CONFLICT));
        harness.exchange(read_pod(UID, "", "8"));
        harness.exchange(pod_of("9", generation));
        harness.add(bind_at(5));
        assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], named);
    }
}

#[test]
fn bind_does_not_name_a_version_with_another_specification_that_a_plugin_wrote() {
    // The write names no version, and the pod has changed before it.
    for (generation, named) in [(1, "9"), (2, "5")] {
        let mut harness = harness();
        harness.add(write("v1", "pods", "ns", "a"));
        harness.exchange(pod_of("9", generation));
        harness.add(bind_at(5));
        assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], named);
    }
}

#[test]
fn version_that_was_only_read_is_not_named_by_a_bind() {
    let mut harness = harness();
    harness.add(patch_at(5, condition("no room")));
    harness.exchange(rejected(409, CONFLICT));
    harness.exchange(read_pod(UID, "", "8"));
    let patch = harness.request();
    harness.add(bind_at(5));
    harness.reply(&patch, rejected(403, "no"));
    assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], "5");
}

#[test]
fn throttled_bind_names_the_current_version_when_it_is_sent_again() {
    let mut harness = harness();
    harness.add(bind_at(5));
    harness.exchange(throttled(1));
    harness.wait_for_deadline();
    assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], "5");
}

#[test]
fn bind_of_a_pod_that_changed_is_outdated() {
    let text = "Operation cannot be fulfilled on pods \"a\": StorageError: invalid object, Code: 4, \
                Key: /registry/pods/good/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
                failed: ResourceVersion in precondition: 220, ResourceVersion in object meta: 221";
    let other = text.replace("ResourceVersion in precondition", "UID in precondition");
    for (text, answer) in [
        (text, Answer::Outdated as fn(String) -> Answer),
        (&other, Answer::Conflict),
        ("pod a is already assigned to node \"n0\"", Answer::Conflict),
    ] {
        let mut harness = harness();
        harness.add(bind_at(220));
        assert_eq!(harness.exchange(rejected(409, text)), [answer(text.to_owned())]);
    }
}

#[test]
fn status_patch_has_condition_and_nomination() {
    let mut harness = harness();
    let patch = StatusPatch { nominated_node_name: Some("n1".into()), ..condition("no room") };
    harness.add(patch_of("a", UID, 3, patch));
    let request = harness.request();
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
fn conditions_carry_the_corrected_time() {
    let mut harness = harness();
    let wall = Time::parse_rfc3339("2026-02-03T04:00:00.7Z").unwrap();
    harness.dispatcher.set_wall_offset(WallOffset::between(harness.now, wall));
    harness.wait(Duration::from_secs(1));
    harness.add(patch_of("a", UID, 3, condition("no room")));
    let condition = &body(&harness.request())["status"]["conditions"][0];
    assert_eq!(condition["lastTransitionTime"], "2026-02-03T04:00:01Z");
}

#[test]
fn empty_nomination_removes_the_field() {
    let mut harness = harness();
    harness.add(patch_of("a", UID, 3, nomination("")));
    assert_eq!(body(&harness.request())["status"], json!({ "nominatedNodeName": null }));
}

#[test]
fn write_goes_to_the_path_of_its_object() {
    let mut harness = harness();
    let EffectKind::Write(claim) = write("resource.k8s.io/v1", "resourceclaims", "ns", "c") else {
        unreachable!()
    };
    harness.add(write("v1", "persistentvolumes", "", "pv"));
    harness.add(write("v1", "persistentvolumeclaims", "ns", "a:b"));
    harness.add(EffectKind::Write(Write { subresource: Some("status".into()), ..claim }));
    assert_eq!(
        harness.lines(),
        [
            "PATCH /api/v1/persistentvolumes/pv",
            "PATCH /api/v1/namespaces/ns/persistentvolumeclaims/a%3Ab",
            "PATCH /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status",
        ]
    );
}

#[test]
fn each_action_of_a_write_is_its_request() {
    let object = json!({ "metadata": { "name": "c" } });
    let rows = [
        (WriteAction::MergePatch(object.clone()), "PATCH", "/c", "application/merge-patch+json"),
        (
            WriteAction::StrategicMergePatch(object.clone()),
            "PATCH",
            "/c",
            "application/strategic-merge-patch+json",
        ),
        (WriteAction::Create(object), "POST", "", "application/json"),
        (WriteAction::Delete(UID.into()), "DELETE", "/c", "application/json"),
    ];
    for (action, method, path, content_type) in rows {
        let EffectKind::Write(claim) = write("resource.k8s.io/v1", "resourceclaims", "ns", "c")
        else {
            unreachable!()
        };
        let expected = match &action {
            WriteAction::Delete(_) => json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": UID },
            }),
            _ => json!({ "metadata": { "name": "c" } }),
        };
        let mut harness = harness();
        harness.add(EffectKind::Write(Write { action, ..claim }));
        let request = harness.request();
        let root = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims";
        assert_eq!((request.method.as_str(), request.content_type), (method, content_type));
        assert_eq!(request.path, format!("{root}{path}"));
        assert_eq!(body(&request), expected);
    }
}

#[test]
fn write_is_a_merge_patch_answered_with_the_object() {
    let mut harness = harness();
    harness.add(write("v1", "persistentvolumes", "", "pv"));
    let request = harness.request();
    assert_eq!(request.content_type, "application/merge-patch+json");
    assert_eq!(body(&request), json!({ "metadata": { "uid": UID } }));
    harness.reply(&request, answered(200, &json!({ "kind": "PersistentVolume" })));
    assert_eq!(harness.answers(), [Answer::Ok(Some(json!({ "kind": "PersistentVolume" })))]);
}

#[test]
fn rejected_write_is_answered_by_status_and_message() {
    let credentials = "no (check the credentials of the scheduler)";
    let cases = [
        (400, Answer::Error("no".into())),
        (401, Answer::Forbidden(credentials.into())),
        (403, Answer::Forbidden("no".into())),
        (404, Answer::Gone("no".into())),
        (422, Answer::Error("no".into())),
    ];
    for (status, expected) in cases {
        for kind in [bind("a"), write("v1", "persistentvolumes", "", "pv")] {
            let mut harness = harness();
            harness.add(kind);
            assert_eq!(harness.exchange(rejected(status, "no")).pop().as_ref(), Some(&expected));
            assert_eq!(harness.failed_calls().len(), 1, "{status} is logged");
        }
    }
}

#[test]
fn write_without_response_is_not_retried() {
    for kind in [bind("a"), write("v1", "persistentvolumes", "", "pv")] {
        let mut harness = harness();
        harness.add(kind);
        assert_eq!(harness.exchange(lost()), [Answer::Unknown("connection reset".into())]);
        assert_eq!((harness.lines().len(), harness.dispatcher.next_deadline()), (0, None));
    }
}

#[test]
fn unsent_write_is_retried_until_the_retry_period_ends() {
    let mut harness = harness();
    harness.add(bind("a"));
    let start = harness.now;
    let mut answers = Vec::new();
    while answers.is_empty() {
        answers = harness.exchange(not_sent());
        if answers.is_empty() {
            harness.wait_for_deadline();
        }
    }
    assert_eq!(answers, [Answer::Error("connection refused".into())]);
    let took = harness.now.since(start);
    let period = Limits::default().retry_period;
    assert!(took <= period && took > period / 2, "retried for {took:?}");
}

#[test]
fn throttled_request_pauses_all_requests() {
    let mut harness = harness();
    harness.add(bind("a"));
    assert_eq!(harness.exchange(throttled(3)), []);
    harness.add(bind("b"));
    assert!(harness.dispatcher.is_paused(harness.now));
    assert_eq!(harness.lines(), [""; 0]);
    assert_eq!(harness.wait_for_deadline(), Duration::from_secs(3));
    assert!(!harness.dispatcher.is_paused(harness.now));
    assert_eq!(harness.lines().len(), 2);
}

#[test]
fn pause_ends_by_itself_when_nothing_waits_for_it() {
    let mut harness = harness();
    harness.add(bind("a"));
    assert_eq!(harness.exchange(throttled(50)).len(), 1, "longer than binds are retried");
    assert_eq!(harness.dispatcher.unfinished(), 0);
    assert!(harness.dispatcher.is_paused(harness.now));
    assert_eq!(harness.wait_for_deadline(), Duration::from_secs(50));
    assert!(!harness.dispatcher.is_paused(harness.now));
    assert_eq!(harness.dispatcher.next_deadline(), None);
}

#[test]
fn write_that_stays_throttled_is_answered_as_throttled() {
    let mut harness = harness();
    harness.add(bind("a"));
    let answers = repeat(4, &throttled(9), &mut harness);
    assert_eq!(
        answers,
        [Answer::Throttled("the server responded with status 429: slow down".into())]
    );
}

#[test]
fn read_is_retried_until_it_succeeds_or_the_pod_is_gone() {
    let mut harness = harness();
    harness.add(read("a"));
    let nonsense = answered(200, &Value::Null);
    let mut before = Duration::ZERO;
    for reply in [lost(), not_sent(), rejected(500, "no"), rejected(418, "tea"), nonsense] {
        assert_eq!(harness.exchange(reply), []);
        let pause = harness.wait_for_deadline();
        assert!(pause > before, "delays grow");
        before = pause;
    }
    let request = harness.request();
    assert_eq!(
        line(&request),
        "GET /api/v1/namespaces/ns/pods/a",
        "a path without resourceVersion reads from the store"
    );
    harness.reply(&request, rejected(404, "gone"));
    assert_eq!(harness.answers(), [Answer::Gone("gone".into())]);
    assert_eq!(harness.failed_calls().len(), 6, "each failed try is logged");
}

#[test]
fn forbidden_read_is_answered() {
    let mut harness = harness();
    harness.add(read("a"));
    assert_eq!(harness.exchange(rejected(403, "no")), [Answer::Forbidden("no".into())]);
}

#[test]
fn repeated_reads_after_unknown_binds_back_off() {
    let mut harness = harness();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        harness.add(bind("a"));
        harness.exchange(rejected(500, "etcdserver: request timed out"));
        harness.add(read("a"));
        pauses.push(harness.dispatcher.next_deadline().map(|due| due.since(harness.now)));
        if harness.dispatcher.next_deadline().is_some() {
            harness.wait_for_deadline();
        }
        assert_eq!(harness.exchange(pod_on(None)).len(), 1);
    }
    assert_eq!(pauses[0], None, "the first read has no delay");
    assert!(pauses[1] < pauses[2] && pauses[2] < pauses[3], "{pauses:?}");
    assert!(pauses[11] >= Some(Duration::from_secs(30)), "{pauses:?}");
}

#[test]
fn status_patch_is_tried_four_times() {
    for reply in [lost(), not_sent(), rejected(500, "no"), rejected(409, "changed"), throttled(1)] {
        let mut harness = harness();
        harness.add(patch("a"));
        for _ in 0..3 {
            harness.exchange(reply.clone());
            harness.wait_for_deadline();
        }
        assert_eq!(harness.exchange(reply.clone()), [], "status patches have no answer");
        assert_eq!(harness.dispatcher.unfinished(), 0, "{reply:?}");
        let failures = harness.failed_calls();
        assert_eq!((failures.len(), failures[0].action), (1, "patching the status"));
        assert_eq!(failures[0].object, "ns/a");
    }
}

#[test]
fn status_patches_use_the_backoff_of_kube_scheduler() {
    let mut harness = harness();
    harness.add(patch("a"));
    for millis in [10, 50, 250] {
        harness.exchange(lost());
        let pause = harness.wait_for_deadline().as_micros();
        assert!((millis * 1000..=millis * 1100).contains(&pause), "{pause} µs");
    }
}

#[test]
fn status_patch_of_a_deleted_pod_is_not_a_failure() {
    let uid = "Precondition failed: UID in precondition: x, UID in object meta: y";
    for (status, text) in [(404, "not found"), (409, uid), (422, "metadata.uid: immutable")] {
        let mut harness = harness();
        harness.add(patch("a"));
        assert_eq!(harness.exchange(rejected(status, text)), []);
        assert_eq!(
            (harness.dispatcher.unfinished(), harness.failed_calls()),
            (0, vec![]),
            "{text}"
        );
    }
}

/// The pod `a` as read: its UID, node and resourceVersion.
fn read_pod(uid: &str, node: &str, version: &str) -> Reply {
    let metadata = json!({ "uid": uid, "resourceVersion": version });
    answered(200, &json!({ "metadata": metadata, "spec": { "nodeName": node } }))
}

const CONFLICT: &str = "Operation cannot be fulfilled on pods \"a\": the object has been modified; please \
                        apply your changes to the latest version and try again";

#[test]
fn stale_status_patch_of_a_bound_pod_is_dropped() {
    let rows = [read_pod(UID, "n1", "9"), read_pod("new", "", "9"), rejected(404, "not found")];
    for pod in rows {
        let mut harness = harness();
        harness.add(patch_at(7, condition("no room")));
        let request = harness.request();
        assert_eq!(body(&request)["metadata"], json!({ "uid": UID, "resourceVersion": "7" }));
        harness.reply(&request, rejected(409, CONFLICT));
        let request = harness.request();
        assert_eq!(line(&request), "GET /api/v1/namespaces/ns/pods/a");
        harness.reply(&request, pod);
        assert_eq!(harness.lines(), [""; 0]);
        assert_eq!((harness.dispatcher.unfinished(), harness.failed_calls()), (0, vec![]));
    }
}

#[test]
fn stale_status_patch_of_a_pending_pod_is_sent_with_the_current_version() {
    let mut harness = harness();
    harness.add(patch_at(7, condition("no room")));
    harness.exchange(rejected(409, CONFLICT));
    harness.exchange(read_pod(UID, "", "9"));
    let request = harness.request();
    assert_eq!(body(&request)["metadata"], json!({ "uid": UID, "resourceVersion": "9" }));
    assert_eq!(body(&request)["status"]["conditions"][0]["message"], "no room");
    harness.reply(&request, ok());
    assert_eq!((harness.dispatcher.unfinished(), harness.failed_calls()), (0, vec![]));
}

#[test]
fn status_patch_that_keeps_conflicting_is_given_up() {
    let mut harness = harness();
    harness.add(patch_at(7, condition("no room")));
    for version in ["8", "9", "10"] {
        harness.exchange(rejected(409, CONFLICT));
        harness.exchange(read_pod(UID, "", version));
    }
    harness.exchange(rejected(409, CONFLICT));
    assert_eq!(harness.dispatcher.unfinished(), 0);
    assert_eq!(harness.failed_calls().len(), 1);
}

#[test]
fn status_patch_whose_read_failed_once_survives_a_second_conflict() {
    let mut harness = harness();
    harness.add(patch_at(7, condition("no room")));
    harness.exchange(rejected(409, CONFLICT));
    harness.exchange(rejected(504, "timeout"));
    harness.wait_for_deadline();
    harness.exchange(read_pod(UID, "", "8"));
    harness.exchange(rejected(409, CONFLICT));
    harness.exchange(read_pod(UID, "", "9"));
    assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], "9");
}

#[test]
fn read_after_a_conflict_is_tried_four_times_at_most() {
    for reply in [lost(), not_sent(), rejected(500, "no"), answered(200, &Value::Null)] {
        let mut harness = harness();
        harness.add(patch_at(7, condition("no room")));
        harness.exchange(rejected(409, CONFLICT));
        for _ in 0..2 {
            harness.exchange(reply.clone());
            harness.wait_for_deadline();
        }
        harness.exchange(reply.clone());
        assert_eq!((harness.dispatcher.unfinished(), harness.failed_calls().len()), (0, 1));
    }
}

#[test]
fn bind_overtakes_a_status_patch_that_would_be_retried() {
    for reply in [lost(), throttled(1), rejected(409, CONFLICT)] {
        let mut harness = harness();
        harness.add(patch_at(7, condition("no room")));
        let patch = harness.request();
        harness.add(bind("a"));
        harness.reply(&patch, reply);
        harness.wait(Duration::from_secs(1));
        assert_eq!(harness.lines(), ["POST /api/v1/namespaces/ns/pods/a/binding"]);
    }
}

#[test]
fn merged_status_patches_keep_the_latest_version() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind("other"));
    harness.add(patch_at(7, condition("first")));
    harness.add(patch_at(9, nomination("n1")));
    harness.exchange(ok());
    assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], "9");
}

#[test]
fn calls_on_one_object_run_in_order_and_others_concurrently() {
    let mut harness = harness();
    harness.add(patch("a"));
    harness.add(bind("a"));
    harness.add(write("v1", "pods", "ns", "a"));
    harness.add(patch("b"));
    let requests = harness.dispatcher.take_requests();
    let lines: Vec<String> = requests.iter().map(line).collect();
    let [a, b] = ["a", "b"].map(|pod| format!("PATCH /api/v1/namespaces/ns/pods/{pod}/status"));
    assert_eq!(lines, [a, b]);
    harness.reply(&requests[0], ok());
    let request = harness.request();
    assert_eq!(line(&request), "POST /api/v1/namespaces/ns/pods/a/binding");
    harness.reply(&request, ok());
    assert_eq!(harness.lines(), ["PATCH /api/v1/namespaces/ns/pods/a"]);
}

#[test]
fn waiting_status_patches_are_merged() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind("other"));
    harness.add(patch_of("a", UID, 1, condition("first")));
    harness.add(patch_of("a", UID, 2, nomination("n1")));
    harness.add(patch_of("a", UID, 3, condition("last")));
    assert_eq!(harness.dispatcher.unfinished(), 2);
    harness.exchange(ok());
    let status = &body(&harness.request())["status"];
    assert_eq!(status["nominatedNodeName"], "n1");
    assert_eq!(status["conditions"][0]["message"], "last");
    assert_eq!(status["conditions"][0]["observedGeneration"], 3);
}

#[test]
fn last_of_the_nominations_that_go_out_as_one_is_answered_with_the_version() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind("other"));
    harness.add(patch_of("a", UID, 1, nomination("n1")));
    let cleared = harness.add(patch_of("a", UID, 1, nomination("")));
    harness.add(patch_of("a", UID, 1, condition("no room")));
    harness.exchange(ok());
    let request = harness.request();
    let metadata = json!({ "name": "a", "uid": UID, "resourceVersion": "12" });
    harness.reply(&request, answered(200, &json!({ "metadata": metadata })));
    let version = json!({ "metadata": { "resourceVersion": "12" } });
    assert_eq!(harness.dispatcher.take_answers(), [(cleared, Answer::Ok(Some(version)))]);
}

#[test]
fn status_patch_in_flight_is_not_merged() {
    let mut harness = harness();
    harness.add(patch_of("a", UID, 1, condition("first")));
    harness.add(patch_of("a", UID, 1, nomination("n1")));
    let first = harness.request();
    assert_eq!(body(&first)["status"]["conditions"][0]["message"], "first");
    harness.reply(&first, ok());
    assert_eq!(body(&harness.request())["status"], json!({ "nominatedNodeName": "n1" }));
}

#[test]
fn status_patches_of_pods_with_the_same_name_are_not_merged() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind("other"));
    harness.add(patch_of("a", "old", 1, condition("first")));
    harness.add(patch_of("a", "new", 1, condition("last")));
    harness.exchange(ok());
    let first = harness.request();
    assert_eq!(body(&first)["metadata"]["uid"], "old");
    harness.reply(&first, rejected(404, "gone"));
    assert_eq!(body(&harness.request())["metadata"]["uid"], "new");
}

#[test]
fn bind_replaces_waiting_status_patches_of_its_pod() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind("other"));
    harness.add(patch_of("a", UID, 1, nomination("n1")));
    harness.add(patch_of("a", "old", 1, condition("another pod")));
    harness.add(patch_of("a", UID, 1, condition("no room")));
    harness.add(bind("a"));
    assert_eq!(harness.dispatcher.unfinished(), 3);
    harness.exchange(ok());
    let patch = harness.request();
    assert_eq!(body(&patch)["metadata"]["uid"], "old");
    harness.reply(&patch, ok());
    assert_eq!(harness.lines(), ["POST /api/v1/namespaces/ns/pods/a/binding"]);
}

#[test]
fn bind_replaces_a_status_patch_that_backs_off() {
    let mut harness = harness();
    harness.add(patch("a"));
    harness.exchange(not_sent());
    harness.add(bind("a"));
    harness.exchange(ok());
    assert_eq!((harness.dispatcher.unfinished(), harness.dispatcher.next_deadline()), (0, None));
}

#[test]
fn binds_are_sent_before_status_patches_and_oldest_first() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind("first"));
    for kind in [patch("a"), patch("b"), bind("c"), bind("d")] {
        harness.add(kind);
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        let request = harness.request();
        order.push(request.path.split('/').nth(6).unwrap().to_owned());
        harness.reply(&request, ok());
    }
    assert_eq!(order, ["first", "c", "d", "a", "b"]);
}

#[test]
fn status_patch_is_sent_while_binds_hang() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind("first"));
    harness.add(bind("second"));
    harness.add(patch("a"));
    let mut lines = Vec::new();
    for next in ["third", "fourth", "fifth"] {
        let request = harness.request();
        harness.wait(Duration::from_secs(10));
        harness.add(bind(next));
        harness.reply(&request, ok());
        lines.push(request.path);
    }
    assert!(lines[2].ends_with("/pods/a/status"), "{lines:?}");
}

#[test]
fn calls_that_are_retried_do_not_hold_back_status_patches() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    for kind in [bind("first"), bind("second"), patch("a")] {
        harness.add(kind);
    }
    let mut lines = Vec::new();
    for _ in 0..3 {
        let request = harness.request();
        harness.wait(Duration::from_secs(10));
        harness.reply(&request, not_sent());
        harness.wait(Duration::from_secs(1));
        lines.push(request.path);
    }
    assert!(lines[2].ends_with("/pods/a/status"), "{lines:?}");
}

#[test]
fn rate_limit_holds_and_many_waiting_calls_are_a_backlog() {
    let limits = Limits { qps: Some(10.0), burst: 2, max_waiting: 3, ..Limits::default() };
    let mut harness = with(limits);
    for number in 0..6 {
        harness.add(bind(&format!("p{number}")));
    }
    assert_eq!(harness.lines().len(), 2);
    assert!(harness.dispatcher.has_backlog(), "4 calls wait");
    assert_eq!(harness.wait_for_deadline(), Duration::from_millis(100));
    assert_eq!(harness.lines().len(), 1);
    assert!(!harness.dispatcher.has_backlog(), "3 calls wait");
}

fn bind_by(extender: usize) -> EffectKind {
    let EffectKind::Bind { binding, decided, .. } = bind("a") else { unreachable!() };
    EffectKind::ExtenderBind { extender, binding, decided }
}

#[test]
fn extender_bind_is_sent_to_the_extender() {
    let mut harness = harness();
    harness.add(bind_by(3));
    let request = harness.request();
    assert_eq!(request.destination, Destination::Extender(3));
    let binding = json!({"PodName": "a", "PodNamespace": "ns", "PodUID": UID, "Node": "n1"});
    assert_eq!(body(&request), binding);
}

#[test]
fn extender_bind_is_not_retried() {
    let rows = [
        (answered(200, &json!({})), Answer::ok()),
        (answered(200, &json!({"Error": "no licence"})), Answer::Error("no licence".into())),
        (Reply::Rejected("code 500".into()), Answer::Error("code 500".into())),
        (not_sent(), Answer::Error("connection refused".into())),
        (lost(), Answer::Unknown("connection reset".into())),
    ];
    for (reply, expected) in rows {
        let mut harness = harness();
        harness.add(bind_by(0));
        assert_eq!(harness.exchange(reply), [expected]);
        assert_eq!(
            (harness.dispatcher.unfinished(), harness.dispatcher.next_deadline()),
            (0, None)
        );
    }
    let mut harness = harness();
    harness.add(bind_by(0));
    let answers = harness.exchange(answered(200, &json!("done")));
    let [Answer::Error(text)] = &answers[..] else { panic!("{answers:?}") };
    assert!(text.starts_with("cannot decode ExtenderBindingResult: "), "{text}");
}

#[test]
fn extender_bind_is_ordered_and_replaces_status_patches() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind("other"));
    let other = harness.request();
    harness.add(patch("a"));
    harness.add(bind_by(0));
    harness.reply(&other, ok());
    assert_eq!(harness.request().destination, Destination::Extender(0));
    assert_eq!(harness.dispatcher.unfinished(), 1);
}

#[test]
fn hanging_extender_does_not_block_the_api_server() {
    let mut harness = with(Limits { max_in_flight: 1, ..Limits::default() });
    harness.add(bind_by(0));
    let hanging = harness.request();
    harness.add(bind("b"));
    let out = harness.request();
    harness.add(bind("c"));
    harness.reply(&hanging, lost());
    assert_eq!(harness.lines(), [""; 0], "one request is in flight");
    harness.reply(&out, ok());
    assert_eq!(harness.lines().len(), 1);
}

#[test]
fn stopped_dispatcher_drops_waiting_calls_and_finishes_those_in_flight() {
    let mut harness = with(Limits { max_in_flight: 2, ..Limits::default() });
    for kind in [bind("a"), patch("b"), bind("c"), patch("a"), bind("d")] {
        harness.add(kind);
    }
    let requests = harness.dispatcher.take_requests();
    harness.dispatcher.stop();
    assert_eq!(harness.dispatcher.unfinished(), 2);
    harness.add(bind("e"));
    harness.reply(&requests[0], ok());
    harness.reply(&requests[1], not_sent());
    harness.wait(Duration::from_secs(60));
    assert_eq!((harness.answers(), harness.lines()), (vec![Answer::ok()], vec![]));
    assert_eq!((harness.dispatcher.unfinished(), harness.dispatcher.next_deadline()), (0, None));
}

#[test]
fn stopped_dispatcher_takes_back_requests_that_were_not_taken() {
    let mut harness = with(Limits { max_in_flight: 2, ..Limits::default() });
    harness.add(bind("a"));
    let out = harness.request();
    harness.add(bind("b"));
    harness.dispatcher.stop();
    assert_eq!((harness.lines(), harness.dispatcher.unfinished()), (vec![], 1));
    harness.reply(&out, ok());
    assert_eq!((harness.answers(), harness.dispatcher.unfinished()), (vec![Answer::ok()], 0));
}
