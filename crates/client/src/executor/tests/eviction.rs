//! Evictions: a status patch, then a deletion, both of the one pod that is meant.

use engine::Eviction;

use super::*;

fn evict(condition_message: Option<&str>) -> EffectKind {
    EffectKind::Evict(Eviction {
        pod: PodKey::new("ns", "v"),
        uid: UID.into(),
        preemptor: PodKey::new("ns", "p"),
        observed_generation: 3,
        condition_message: condition_message.map(str::to_owned),
    })
}

#[test]
fn the_condition_is_patched_before_the_pod_is_deleted() {
    let mut rig = rig();
    rig.submit(evict(Some("room is needed")));
    let patch = rig.request();
    assert_eq!(line(&patch), "PATCH /api/v1/namespaces/ns/pods/v/status");
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "room is needed", "observedGeneration": 3, "lastProbeTime": null,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let expected = json!({ "metadata": { "uid": UID }, "status": { "conditions": [condition] } });
    assert_eq!(body(&patch), expected);

    rig.reply(&patch, ok());
    assert_eq!(rig.answers(), []);
    let delete = rig.request();
    assert_eq!(line(&delete), "DELETE /api/v1/namespaces/ns/pods/v");
    let expected = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": UID },
    });
    assert_eq!(body(&delete), expected);
    rig.reply(&delete, ok());
    assert_eq!(rig.answers(), [Answer::ok()]);
    assert_eq!(rig.executor.unfinished(), 0);
}

#[test]
fn a_pod_that_has_the_condition_is_only_deleted() {
    let mut rig = rig();
    rig.submit(evict(None));
    let request = rig.request();
    assert_eq!(request.method.as_str(), "DELETE");
    rig.reply(&request, ok());
    assert_eq!(rig.answers(), [Answer::ok()]);
}

#[test]
fn a_pod_that_is_gone_or_replaced_needs_no_eviction_and_no_line_in_the_log() {
    let replies = || {
        [
            refused(404, "pods \"v\" not found"),
            refused(409, "Precondition failed: UID in precondition: a, UID in object meta: b"),
            refused(409, "the UID in the precondition (a) does not match the UID in record (b)"),
        ]
    };
    for reply in replies() {
        let mut rig = rig();
        rig.submit(evict(Some("m")));
        assert!(matches!(&rig.exchange(reply)[..], [Answer::Gone(_)]));
        assert_eq!((rig.lines().len(), rig.executor.failures().len()), (0, 0));
    }
    for reply in replies() {
        let mut rig = rig();
        rig.submit(evict(None));
        assert!(matches!(&rig.exchange(reply)[..], [Answer::Gone(_)]));
    }
}

#[test]
fn a_condition_that_cannot_be_patched_spares_the_pod() {
    let mut rig = rig();
    rig.submit(evict(Some("m")));
    assert_eq!(rig.exchange(refused(403, "no")), [Answer::Forbidden("no".to_owned())]);
    assert_eq!(rig.lines(), [""; 0]);
    assert_eq!(rig.executor.failures()[0].what, "evicting");
}

#[test]
fn each_step_is_tried_a_few_times_whatever_came() {
    let mut rig = rig();
    rig.submit(evict(Some("m")));
    for _ in 0..3 {
        assert_eq!(rig.exchange(Reply::Lost("no answer".into())), []);
        rig.wait_for_deadline();
    }
    assert_eq!(rig.exchange(ok()), []);
    for reply in [refused(500, "boom"), throttled(2), refused(500, "boom")] {
        assert_eq!(rig.exchange(reply), []);
        rig.wait_for_deadline();
    }
    assert_eq!(rig.exchange(refused(500, "boom")), [Answer::Error("boom".to_owned())]);
}
