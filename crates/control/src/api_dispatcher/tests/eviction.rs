//! Tests of evictions: a status patch and then a deletion, both with the UID of the pod.

use engine::Eviction;

use super::*;

pub(super) fn evict(condition_message: Option<&str>) -> EffectKind {
    EffectKind::Evict(Eviction {
        pod: PodKey::new("ns", "v"),
        uid: UID.into(),
        preemptor: PodKey::new("ns", "p"),
        observed_generation: 3,
        condition_message: condition_message.map(str::to_owned),
    })
}

#[test]
fn eviction_patches_the_condition_before_deleting_the_pod() {
    let mut harness = harness();
    harness.add(evict(Some("room is needed")));
    let patch = harness.request();
    assert_eq!(line(&patch), "PATCH /api/v1/namespaces/ns/pods/v/status");
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "room is needed", "observedGeneration": 3, "lastProbeTime": null,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let expected = json!({ "metadata": { "uid": UID }, "status": { "conditions": [condition] } });
    assert_eq!(body(&patch), expected);

    harness.reply(&patch, ok());
    assert_eq!(harness.answers(), []);
    let delete = harness.request();
    assert_eq!(line(&delete), "DELETE /api/v1/namespaces/ns/pods/v");
    let expected = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": UID },
    });
    assert_eq!(body(&delete), expected);
    harness.reply(&delete, ok());
    assert_eq!(harness.answers(), [Answer::ok()]);
    assert_eq!(harness.dispatcher.unfinished(), 0);
}

#[test]
fn pod_with_the_condition_is_only_deleted() {
    let mut harness = harness();
    harness.add(evict(None));
    let request = harness.request();
    assert_eq!(request.method.as_str(), "DELETE");
    harness.reply(&request, ok());
    assert_eq!(harness.answers(), [Answer::ok()]);
}

#[test]
fn deleted_or_replaced_pod_is_not_evicted_and_not_logged() {
    let replies = || {
        [
            rejected(404, "pods \"v\" not found"),
            rejected(409, "Precondition failed: UID in precondition: a, UID in object meta: b"),
            rejected(409, "the UID in the precondition (a) does not match the UID in record (b)"),
        ]
    };
    for reply in replies() {
        let mut harness = harness();
        harness.add(evict(Some("m")));
        assert!(matches!(&harness.exchange(reply)[..], [Answer::Gone(_)]));
        assert_eq!((harness.lines().len(), harness.failed_calls().len()), (0, 0));
    }
    for reply in replies() {
        let mut harness = harness();
        harness.add(evict(None));
        assert!(matches!(&harness.exchange(reply)[..], [Answer::Gone(_)]));
    }
}

#[test]
fn failed_condition_patch_prevents_the_deletion() {
    let mut harness = harness();
    harness.add(evict(Some("m")));
    assert_eq!(harness.exchange(rejected(403, "no")), [Answer::Forbidden("no".to_owned())]);
    assert_eq!(harness.lines(), [""; 0]);
    assert_eq!(harness.failed_calls()[0].action, "evicting");
}

#[test]
fn each_step_is_tried_four_times() {
    let mut harness = harness();
    harness.add(evict(Some("m")));
    for _ in 0..3 {
        assert_eq!(harness.exchange(Reply::Lost("no answer".into())), []);
        harness.wait_for_deadline();
    }
    assert_eq!(harness.exchange(ok()), []);
    for reply in [rejected(500, "boom"), throttled(2), rejected(500, "boom")] {
        let request = harness.next_request();
        harness.reply(&request, reply);
        assert_eq!(harness.answers(), []);
    }
    let request = harness.next_request();
    harness.reply(&request, rejected(500, "boom"));
    assert_eq!(harness.answers(), [Answer::Error("boom".to_owned())]);
}

type IsExpected = fn(&Answer) -> bool;

#[test]
fn eviction_of_a_moved_pod_is_posted_once() {
    let request = |harness: &mut Harness| {
        let (pod, uid) = (PodKey::new("ns", "v"), UID.into());
        harness.add(EffectKind::RequestEviction { pod, uid });
        harness.request()
    };
    let refusal = "Cannot evict pod as it would violate the pod's disruption budget.";
    let rows: [(Reply, IsExpected); 5] = [
        (ok(), |answer| matches!(answer, Answer::Ok(_))),
        (rejected(429, refusal), |answer| matches!(answer, Answer::Throttled(_))),
        (rejected(404, "not found"), |answer| matches!(answer, Answer::Gone(_))),
        (rejected(403, "forbidden"), |answer| matches!(answer, Answer::Forbidden(_))),
        (Reply::Lost("broken".to_owned()), |answer| matches!(answer, Answer::Unknown(_))),
    ];
    for (reply, is_expected) in rows {
        let mut harness = harness();
        let posted = request(&mut harness);
        assert_eq!(line(&posted), "POST /api/v1/namespaces/ns/pods/v/eviction");
        assert_eq!(body(&posted)["deleteOptions"]["preconditions"], json!({ "uid": UID }));
        harness.reply(&posted, reply);
        let answers = harness.answers();
        assert!(matches!(&answers[..], [own] if is_expected(own)), "{answers:?}");
        assert!(!harness.dispatcher.is_paused(harness.now), "a budget asks for no pause");
    }
}
