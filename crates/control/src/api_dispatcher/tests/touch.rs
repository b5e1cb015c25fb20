//! Tests of the patches that stop earlier binds.

use super::*;

pub(super) fn touch(resource_version: u64, has_condition: bool) -> EffectKind {
    let (pod, uid) = (PodKey::new("ns", "a"), UID.into());
    let observed_generation = 3;
    EffectKind::TouchPod { pod, uid, observed_generation, resource_version, has_condition }
}

fn pod(version: &str, node: &str, conditions: &Value) -> Value {
    json!({
        "metadata": { "namespace": "ns", "name": "a", "uid": UID, "resourceVersion": version },
        "spec": { "nodeName": node },
        "status": { "conditions": conditions },
    })
}

/// The answer to a touch: the metadata of the pod in this version.
fn metadata(version: &str) -> Answer {
    let metadata =
        json!({ "namespace": "ns", "name": "a", "uid": UID, "resourceVersion": version });
    Answer::Ok(Some(json!({ "metadata": metadata })))
}

#[test]
fn touch_touches_the_condition_and_keeps_it() {
    let mut harness = harness();
    harness.add(touch(5, true));
    let request = harness.request();
    assert_eq!(line(&request), "PATCH /api/v1/namespaces/ns/pods/a/status");
    let probed = "2026-01-01T00:00:00Z";
    let expected = json!({
        "metadata": { "uid": UID, "resourceVersion": "5" },
        "status": { "conditions": [{ "type": "PodScheduled", "lastProbeTime": probed }] },
    });
    assert_eq!(body(&request), expected);
    let patched = pod("6", "", &json!([]));
    harness.reply(&request, answered(200, &patched));
    assert_eq!(harness.answers(), [metadata("6")]);
}

#[test]
fn touch_of_a_pod_that_was_never_tried_says_so_and_wakes_no_autoscaler() {
    let mut harness = harness();
    harness.add(touch(5, false));
    let condition = body(&harness.request())["status"]["conditions"][0].clone();
    assert_eq!(condition["reason"], "SchedulerStarted");
    assert_eq!(
        (&condition["status"], &condition["observedGeneration"]),
        (&json!("False"), &json!(3))
    );
    assert!(condition["message"].as_str().unwrap().contains("has not tried"));
}

#[test]
fn touch_that_changed_nothing_is_sent_again_with_another_time() {
    let mut harness = harness();
    harness.add(touch(5, true));
    assert_eq!(harness.exchange(answered(200, &pod("5", "", &json!([])))), []);
    let request = harness.request();
    let probed = &body(&request)["status"]["conditions"][0]["lastProbeTime"];
    assert_eq!(probed, "2025-12-31T23:59:59Z");
    harness.reply(&request, answered(200, &pod("6", "", &json!([]))));
    assert_eq!(harness.answers().len(), 1);
}

#[test]
fn touch_of_a_pod_that_changed_reads_it_first() {
    // The node of the pod when it is read, and the next request.
    for (node, next) in [("", 1), ("n1", 0)] {
        let mut harness = harness();
        harness.add(touch(5, false));
        assert_eq!(harness.exchange(rejected(409, "the object has been modified")), []);
        let read = harness.request();
        assert_eq!(line(&read), "GET /api/v1/namespaces/ns/pods/a");
        let found = pod("8", node, &json!([{ "type": "PodScheduled", "status": "False" }]));
        harness.reply(&read, answered(200, &found));
        let requests = harness.dispatcher.take_requests();
        assert_eq!(requests.len(), next);
        match requests.first() {
            Some(patch) => {
                assert_eq!(body(patch)["metadata"]["resourceVersion"], "8");
                let conditions = &body(patch)["status"]["conditions"];
                assert_eq!(conditions[0].as_object().unwrap().len(), 2, "it has a condition now");
            }
            None => {
                let Answer::Ok(Some(mut bound)) = metadata("8") else { unreachable!() };
                bound["spec"] = json!({ "nodeName": node });
                assert_eq!(harness.answers(), [Answer::Ok(Some(bound))], "it is bound");
            }
        }
    }
}

#[test]
fn touch_of_a_pod_that_is_gone_or_refused_is_answered() {
    for (reply, is_gone) in [(rejected(404, "gone"), true), (rejected(403, "no"), false)] {
        let mut harness = harness();
        harness.add(touch(5, true));
        let answers = harness.exchange(reply);
        assert_eq!(answers.len(), 1);
        assert_eq!(matches!(answers[0], Answer::Gone(_)), is_gone);
    }
}
