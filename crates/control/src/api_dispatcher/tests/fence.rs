//! Tests of the write that stops a bind of unknown outcome.

use super::*;

fn fence() -> EffectKind {
    EffectKind::Fence {
        pod: PodKey::new("ns", "a"),
        uid: UID.into(),
        observed_generation: 3,
        resource_version: 7,
        condition: ScheduledCondition {
            status: false,
            reason: "SchedulerError".into(),
            message: "the outcome is unknown".into(),
        },
    }
}

#[test]
fn fence_patches_the_version_that_was_read_and_returns_the_pod() {
    let mut harness = harness();
    harness.add(fence());
    let request = harness.request();
    assert_eq!(line(&request), "PATCH /api/v1/namespaces/ns/pods/a/status");
    let sent = body(&request);
    assert_eq!(sent["metadata"], json!({ "uid": UID, "resourceVersion": "7" }));
    assert_eq!(sent["status"]["conditions"][0]["message"], "the outcome is unknown");
    let pod = json!({ "metadata": { "uid": UID, "resourceVersion": "8" } });
    harness.reply(&request, answered(200, &pod));
    assert_eq!(harness.answers(), [Answer::Ok(Some(pod))]);
}

/// The engine reads the pod instead, because only its state is a proof.
#[test]
fn failed_fence_is_answered_and_not_repeated() {
    let gone = "Precondition failed: UID in precondition: x, UID in object meta: y";
    let rows = [
        (rejected(409, CONFLICT), Answer::Conflict(CONFLICT.into())),
        (rejected(409, gone), Answer::Gone(gone.into())),
        (rejected(404, "not found"), Answer::Gone("not found".into())),
        (rejected(403, "no"), Answer::Forbidden("no".into())),
        (not_sent(), Answer::Error("connection refused".into())),
        (lost(), Answer::Unknown("connection reset".into())),
    ];
    for (reply, expected) in rows {
        let mut harness = harness();
        harness.add(fence());
        assert_eq!(harness.exchange(reply), [expected]);
        assert_eq!((harness.dispatcher.unfinished(), harness.lines().len()), (0, 0));
    }
}

#[test]
fn status_patch_after_a_fence_names_its_version() {
    let mut harness = harness();
    harness.add(fence());
    harness.exchange(pod_of("8", 1));
    harness.add(patch_at(7, condition("gave up")));
    assert_eq!(body(&harness.request())["metadata"]["resourceVersion"], "8");
}
