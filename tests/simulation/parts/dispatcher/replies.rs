//! Replies as API servers, proxies, webhooks and extenders give them, and what each of them shows.
//!
//! The texts are those of kube-apiserver 1.36.

use std::time::Duration;

use control::{Reply, Response};
use fastrand::Rng;
use serde_json::{Value, json};

/// What a reply shows of its request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shows {
    /// It was carried out. Holds the body, if that is JSON.
    CarriedOut(Option<Value>),
    /// It was not carried out.
    Refused(Refusal),
    /// It was not carried out, and the server asks for a pause.
    Pause(Duration),
    /// No handler has seen it.
    NotSent,
    /// It may have been carried out.
    Nothing,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The caller, a quota, a policy or a webhook forbids it.
    Forbidden,
    /// The object does not exist.
    NotFound,
    /// Another pod has the name: the precondition does not hold.
    OtherPod,
    /// Another pod has the name: its UID cannot be changed.
    OtherUid,
    /// The object has another resourceVersion.
    Changed,
    /// The pod is bound, gated or going.
    Taken,
    /// The request is invalid.
    Invalid,
    /// Something in front of the storage failed.
    Internal,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Bind,
    ExtenderBind,
    /// Changes an object.
    Write,
    Delete,
    Read,
}

fn status(code: u16, reason: &str, message: &str) -> Reply {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": message, "code": code });
    plain(code, &body.to_string())
}

fn plain(status: u16, body: &str) -> Reply {
    Reply::Answered(Response { status, retry_after: None, body: body.into() })
}

/// Returns the reply to a request that is carried out.
pub(crate) fn carried_out(asked: Asked, pod: &Value) -> (Reply, Shows) {
    let (status, body) = match asked {
        Asked::Bind => (201, json!({ "kind": "Status", "status": "Success", "code": 201 })),
        Asked::ExtenderBind => (200, json!({})),
        Asked::Write | Asked::Delete | Asked::Read => (200, pod.clone()),
    };
    (plain(status, &body.to_string()), Shows::CarriedOut(Some(body)))
}

/// Draws a reply; `pod` is the object as it is after the request.
pub(crate) fn draw(asked: Asked, pod: &Value, random: &mut Rng) -> (Reply, Shows) {
    match random.u8(..20) {
        0 if asked != Asked::ExtenderBind => (plain(200, "done"), Shows::CarriedOut(None)),
        0..8 => carried_out(asked, pod),
        _ if asked == Asked::ExtenderBind => of_extender(random),
        8..12 => unclear(asked, random),
        12..14 => pause(random),
        _ => refused(asked, random),
    }
}

fn of_extender(random: &mut Rng) -> (Reply, Shows) {
    match random.u8(..5) {
        0 => (plain(200, "{\"Error\":\"no licence\"}"), Shows::Refused(Refusal::Invalid)),
        1 => (plain(200, "done"), Shows::Refused(Refusal::Invalid)),
        2 => {
            (Reply::Rejected("the extender answered 500".into()), Shows::Refused(Refusal::Internal))
        }
        3 => (Reply::NotSent("connection refused".into()), Shows::NotSent),
        _ => (Reply::Lost("connection reset".into()), Shows::Nothing),
    }
}

fn pause(random: &mut Rng) -> (Reply, Shows) {
    let seconds = [None, Some(0), Some(1), Some(3), Some(20), Some(90)][random.usize(..6)];
    let body = json!({ "kind": "Status", "reason": "TooManyRequests", "message": "storage is (re)initializing" });
    let reply = Reply::Answered(Response {
        status: 429,
        retry_after: seconds.map(Duration::from_secs),
        body: body.to_string().into(),
    });
    // Without a header a second; else between a tenth of a second and a minute.
    let millis = seconds.map_or(1000, |seconds| (seconds * 1000).clamp(100, 60_000));
    (reply, Shows::Pause(Duration::from_millis(millis)))
}

/// Replies after which the request may have been carried out, or was seen by no handler.
fn unclear(asked: Asked, random: &mut Rng) -> (Reply, Shows) {
    let nothing = |reply| (reply, Shows::Nothing);
    match random.u8(..13) {
        0 => nothing(Reply::Lost("connection reset".into())),
        1 => nothing(status(500, "", "etcdserver: request timed out")),
        2 => nothing(status(
            500,
            "InternalError",
            "Internal error occurred: etcdserver: leader changed",
        )),
        3 => nothing(status(
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout",
        )),
        4 => nothing(plain(500, "This request caused apiserver to panic. Look in the logs.\n")),
        5 => nothing(plain(502, "<h1>Bad Gateway</h1>")),
        6 => nothing(status(503, "ServiceUnavailable", "error trying to reach service: EOF")),
        7 => {
            nothing(plain(500, "{\"reason\":\"InternalError\",\"message\":\"of something else\"}"))
        }
        8 if asked == Asked::Bind => nothing(status(
            409,
            "Conflict",
            "Operation cannot be fulfilled on pods/binding \"p\": etcdserver: request timed out",
        )),
        9 if asked == Asked::Bind => nothing(status(
            409,
            "Conflict",
            "Operation cannot be fulfilled on pods/binding \"p\": context deadline exceeded",
        )),
        10 => (status(503, "ServiceUnavailable", "apiserver is shutting down"), Shows::NotSent),
        11 => (
            status(
                503,
                "ServiceUnavailable",
                "the request has been made before all known HTTP paths have been installed, please try again",
            ),
            Shows::NotSent,
        ),
        _ => (Reply::NotSent("connection refused".into()), Shows::NotSent),
    }
}

fn refused(asked: Asked, random: &mut Rng) -> (Reply, Shows) {
    let denied = "admission webhook \"w.example.com\" denied the request: not on Sundays";
    let storage = "StorageError: invalid object, Code: 4, Key: /registry/pods/a/p, ResourceVersion: 0, \
                   AdditionalErrorMsg: Precondition failed";
    let bind = "Operation cannot be fulfilled on pods/binding \"p\": pod p";
    let (reply, refusal) = match (random.u8(..16), asked) {
        (0, _) => (status(401, "Unauthorized", "Unauthorized"), Refusal::Forbidden),
        (1, _) => (status(403, "Forbidden", "pods \"p\" is forbidden"), Refusal::Forbidden),
        (2, Asked::Bind | Asked::Write | Asked::Delete) => {
            let code = [400, 403, 404, 409, 429, 500, 504][random.usize(..7)];
            (status(code, "", denied), Refusal::Forbidden)
        }
        (3..6, Asked::Bind) => {
            let text = [
                "is already assigned to node \"n9\"",
                "is being deleted, cannot be assigned to a host",
                "has non-empty .spec.schedulingGates",
            ];
            let text = format!("{bind} {}", text[random.usize(..3)]);
            (status(409, "Conflict", &text), Refusal::Taken)
        }
        (6..8, Asked::Bind) => {
            let text = format!("{storage}: UID in precondition: x, UID in object meta: y");
            (status(409, "Conflict", &text), Refusal::OtherPod)
        }
        (8..11, Asked::Bind) => {
            let text = format!(
                "{storage}: ResourceVersion in precondition: 220, ResourceVersion in object meta: 221"
            );
            (status(409, "Conflict", &text), Refusal::Changed)
        }
        (3..5, Asked::Write) => {
            let text = "Operation cannot be fulfilled on pods \"p\": Precondition failed: UID in precondition: x, \
                        UID in object meta: y";
            (status(409, "Conflict", text), Refusal::OtherPod)
        }
        (5, Asked::Write) => {
            let text =
                "Pod \"p\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable";
            (status(422, "Invalid", text), Refusal::OtherUid)
        }
        (3..6, Asked::Delete) => {
            let text = "Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (x) does not match \
                        the UID in record (y). The object might have been deleted and then recreated";
            (status(409, "Conflict", text), Refusal::OtherPod)
        }
        (6..11, Asked::Write | Asked::Delete) => {
            let text = "Operation cannot be fulfilled on pods \"p\": the object has been modified; please apply \
                        your changes to the latest version and try again";
            (status(409, "Conflict", text), Refusal::Changed)
        }
        (11, Asked::Bind | Asked::Write | Asked::Delete) => {
            let text = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request";
            (status(422, "Invalid", text), Refusal::Invalid)
        }
        (12, _) => (
            plain(
                500,
                "Internal Server Error: \"/api/v1/namespaces/a/pods/p\": context deadline exceeded\n",
            ),
            Refusal::Internal,
        ),
        (13, _) => {
            let text = "Internal error occurred: failed calling webhook \"w\": failed to call webhook: EOF";
            (status(500, "InternalError", text), Refusal::Internal)
        }
        _ => (status(404, "NotFound", "pods \"p\" not found"), Refusal::NotFound),
    };
    (reply, Shows::Refused(refusal))
}
