//! Which answers show that a write was not carried out.

use super::*;

/// What an answer shows of the write.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shows {
    /// The write was refused, and the object stays as it is.
    NotCarriedOut,
    /// The call is sent again by itself, because the server does not take requests now.
    SentAgain,
    /// The write may have been carried out.
    Nothing,
}

use Shows::{NotCarriedOut, Nothing, SentAgain};

/// A `Status` as kube-apiserver writes it.
fn status(code: u16, reason: &str, message: &str) -> Reply {
    let mut body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": code,
    });
    if !reason.is_empty() {
        body["reason"] = reason.into();
    }
    answered(code, &body)
}

fn plain(code: u16, body: &str) -> Reply {
    Reply::Answered(Response { status: code, retry_after: None, body: body.into() })
}

/// Recorded on kube-apiserver 1.36.
const WEBHOOK_DOWN: &str = "Internal error occurred: failed calling webhook \"w.example.com\": failed to \
    call webhook: Post \"https://127.0.0.1:9/x?timeout=1s\": dial tcp 127.0.0.1:9: connect: connection \
    refused";
const POLICY: &str = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'p.example.com' with binding 'p' \
    denied request: n1 is closed";

/// Answers to any write. The texts are those of kube-apiserver.
fn answers_to_any_write() -> Vec<(Reply, Shows)> {
    let hangs = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: \
                 Post \"https://w.default.svc:443/x?timeout=10s\": context deadline exceeded";
    let quota = "Internal error occurred: resource quota evaluation timed out";
    let namespace = "Internal error occurred: etcdserver: request timed out";
    let authorizer =
        "Internal Server Error: \"/api/v1/namespaces/ns/pods/a\": context deadline exceeded\n";
    let panicked = "This request caused apiserver to panic. Look in the logs.\n";
    let starting = "the request has been made before all known HTTP paths have been installed, please try again";
    let handler =
        "Timeout: request did not complete within requested timeout - context deadline exceeded";
    let busy =
        "The update operation against pods could not be completed at this time, please try again.";
    let denied = |code, reason| {
        status(
            code,
            reason,
            "admission webhook \"w.example.com\" denied the request: not on Sundays",
        )
    };
    vec![
        (status(500, "InternalError", WEBHOOK_DOWN), NotCarriedOut),
        (status(500, "InternalError", hangs), NotCarriedOut),
        (status(500, "InternalError", quota), NotCarriedOut),
        (status(422, "Invalid", POLICY), NotCarriedOut),
        (status(403, "Forbidden", "pods \"a\" is forbidden: exceeded quota: q"), NotCarriedOut),
        (status(401, "Unauthorized", "Unauthorized"), NotCarriedOut),
        (
            status(415, "UnsupportedMediaType", "the body of the request was in an unknown format"),
            NotCarriedOut,
        ),
        (denied(400, ""), NotCarriedOut),
        (denied(404, "NotFound"), NotCarriedOut),
        (denied(409, "Conflict"), NotCarriedOut),
        (denied(429, "TooManyRequests"), NotCarriedOut),
        (denied(500, ""), NotCarriedOut),
        (denied(504, "Timeout"), NotCarriedOut),
        (plain(500, authorizer), NotCarriedOut),
        (status(503, "ServiceUnavailable", "apiserver is shutting down"), SentAgain),
        (status(503, "ServiceUnavailable", starting), SentAgain),
        (status(503, "ServiceUnavailable", "error trying to reach service: EOF"), Nothing),
        (status(429, "TooManyRequests", "storage is (re)initializing"), SentAgain),
        (not_sent(), SentAgain),
        (status(500, "", "etcdserver: request timed out"), Nothing),
        (status(500, "", "rpc error: code = Unavailable desc = transport is closing"), Nothing),
        (status(500, "InternalError", namespace), Nothing),
        (status(500, "ServerTimeout", busy), Nothing),
        (status(504, "Timeout", handler), Nothing),
        (plain(500, panicked), Nothing),
        (plain(502, "<h1>Bad Gateway</h1>"), Nothing),
        (plain(503, "no healthy upstream"), Nothing),
        (plain(500, ""), Nothing),
        (
            answered(500, &json!({ "reason": "InternalError", "message": "of something else" })),
            Nothing,
        ),
        (lost(), Nothing),
    ]
}

/// Answers to a Binding. The answers called "recorded" come from kube-apiserver 1.36.
fn answers_to_a_bind() -> Vec<(Reply, Shows)> {
    let conflict = |text: &str| {
        let message = format!("Operation cannot be fulfilled on pods/binding \"a\": {text}");
        status(409, "Conflict", &message)
    };
    let precondition = |text: &str| {
        let storage = "StorageError: invalid object, Code: 4, Key: /registry/pods/ns/a, ResourceVersion: 0, \
                       AdditionalErrorMsg: Precondition failed";
        let message = format!("Operation cannot be fulfilled on pods \"a\": {storage}: {text}");
        status(409, "Conflict", &message)
    };
    let uid = "UID in precondition: x, UID in object meta: y";
    vec![
        // Recorded.
        (conflict("pod a is already assigned to node \"n0\""), NotCarriedOut),
        (conflict("pod a is being deleted, cannot be assigned to a host"), NotCarriedOut),
        (conflict("pod a has non-empty .spec.schedulingGates"), NotCarriedOut),
        (precondition(uid), NotCarriedOut),
        (status(404, "NotFound", "pods \"a\" not found"), NotCarriedOut),
        // Errors of etcd, which `assignPod` turns into conflicts.
        (conflict("etcdserver: request timed out"), Nothing),
        (conflict("etcdserver: leader changed"), Nothing),
        (conflict("context deadline exceeded"), Nothing),
        (conflict("rpc error: code = Unavailable desc = error reading from server: EOF"), Nothing),
    ]
}

/// Sends the write, replies, and returns what the dispatcher concludes.
fn conclusion(kind: EffectKind, reply: &Reply) -> Shows {
    let mut harness = harness();
    harness.add(kind);
    match &harness.exchange(reply.clone())[..] {
        [] => SentAgain,
        [Answer::Unknown(_)] => Nothing,
        [answer] => {
            assert!(answer.failure().is_some(), "{answer:?} after {reply:?}");
            NotCarriedOut
        }
        several => panic!("{several:?}"),
    }
}

#[test]
fn answers_show_whether_a_write_was_carried_out() {
    let volume = || write("v1", "persistentvolumes", "", "pv");
    let claim = || write("v1", "persistentvolumeclaims", "ns", "claim");
    for (reply, expected) in answers_to_any_write() {
        for kind in [bind("a"), volume(), claim()] {
            assert_eq!(conclusion(kind.clone(), &reply), expected, "{kind:?}: {reply:?}");
        }
    }
    for (reply, expected) in answers_to_a_bind() {
        assert_eq!(conclusion(bind("a"), &reply), expected, "{reply:?}");
    }
    let conflict = status(409, "Conflict", CONFLICT);
    assert_eq!(conclusion(volume(), &conflict), NotCarriedOut);
}

#[test]
fn failed_bind_carries_the_message_of_the_server() {
    let mut harness = harness();
    harness.add(bind("a"));
    let answers = harness.exchange(status(500, "InternalError", WEBHOOK_DOWN));
    assert_eq!(answers, [Answer::Error(WEBHOOK_DOWN.into())]);
}

#[test]
fn webhook_of_one_namespace_pauses_no_other() {
    let mut harness = harness();
    harness.add(bind("a"));
    harness.exchange(status(
        429,
        "TooManyRequests",
        "admission webhook \"w\" denied the request: later",
    ));
    assert!(!harness.dispatcher.is_paused(harness.now));
    harness.add(bind("b"));
    assert_eq!(harness.lines().len(), 1);
}

/// The pod exists: the status 404 is the webhook's.
#[test]
fn pod_denied_with_404_is_not_gone() {
    let denied =
        status(404, "NotFound", "admission webhook \"w\" denied the request: no such team");
    for kind in [bind("a"), eviction::evict(None)] {
        let mut harness = harness();
        harness.add(kind);
        let answers = harness.exchange(denied.clone());
        assert!(matches!(answers[..], [Answer::Forbidden(_)]), "{answers:?}");
    }
}

/// As in kube-scheduler (`util.Retriable`), and because both may be carried out twice.
#[test]
fn status_patch_and_eviction_are_tried_again_after_any_error_of_the_server() {
    for (code, reason, message) in
        [(500, "InternalError", WEBHOOK_DOWN), (500, "", "etcdserver: leader changed")]
    {
        for kind in [patch("a"), eviction::evict(Some("preempted")), eviction::evict(None)] {
            let mut harness = harness();
            harness.add(kind.clone());
            repeat(3, &status(code, reason, message), &mut harness);
            assert_eq!(harness.dispatcher.unfinished(), 1, "{kind:?} has a fourth try");
            harness.exchange(status(code, reason, message));
            assert_eq!(harness.dispatcher.unfinished(), 0, "{kind:?}");
        }
    }
}
