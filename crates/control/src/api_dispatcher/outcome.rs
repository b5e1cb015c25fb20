//! The outcome of a request, derived from the reply.

use std::time::Duration;

use framework::Answer;

use crate::request::{Reply, Response};

/// Whether a request was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Carried out; holds the body of the response.
    Succeeded(Vec<u8>),
    /// Not carried out, and a retry would not help. The status is 0 where an extender rejected the
    /// request.
    Rejected { status: u16, message: String },
    /// Not carried out: the server asks for a pause (429).
    Throttled { retry_after: Duration, message: String },
    /// Not carried out: the server did not receive the request, or it is starting or shutting down.
    NotSent(String),
    /// Carried out or not. A proxy, or a server that has lost its store, may still carry it out.
    Unknown(String),
}

impl Outcome {
    pub(super) fn of(reply: Reply) -> Self {
        match reply {
            Reply::Answered(response) => Self::of_response(response),
            Reply::Rejected(message) => Self::Rejected { status: 0, message },
            Reply::NotSent(message) => Self::NotSent(message),
            Reply::Lost(message) => Self::Unknown(message),
        }
    }

    fn of_response(response: Response) -> Self {
        if response.is_success() {
            return Self::Succeeded(response.body);
        }
        let message = response.error_message();
        match response.status {
            _ if is_webhook_denial(&message) => Self::Rejected { status: 403, message },
            429 if is_refusal_of_budget(&message) => Self::Rejected { status: 429, message },
            429 => Self::Throttled { retry_after: response.retry_delay(), message },
            500.. => match Failure::of(&response, &message) {
                Failure::BeforeStorage => Self::Rejected { status: response.status, message },
                Failure::StartingOrStopping => Self::NotSent(message),
                Failure::Unknown => Self::Unknown(message),
            },
            status => Self::Rejected { status, message },
        }
    }
}

/// Returns whether a PodDisruptionBudget does not allow the eviction. The server does not ask for a
/// pause of other requests then.
fn is_refusal_of_budget(message: &str) -> bool {
    message.starts_with("Cannot evict pod as it would violate the pod's disruption budget")
}

/// How far a request came that was answered with a 5xx status.
///
/// | Answer | Source in kube-apiserver 1.36 |
/// |---|---|
/// | reason `InternalError` | admission (webhooks that cannot be called, quota, policies) and checks before it |
/// | `Internal Server Error: "<path>": ...` in plain text | authorization, flow control, audit policy |
/// | reason `ServiceUnavailable`, with one of two [texts](STARTING_OR_STOPPING) | a filter of a server that shuts down (`WithWaitGroup`), or the handler of paths that are not installed yet (`notfoundhandler`) |
/// | another `ServiceUnavailable` | an aggregated API server, or a proxy that imitates a `Status` |
/// | no reason | any error of etcd, also one after the write |
/// | reasons `Timeout`, `ServerTimeout` | a handler that may still be running |
/// | no `Status` | a proxy, or a server that panicked |
enum Failure {
    /// The request was refused before it reached the storage.
    BeforeStorage,
    /// The server does not take requests now. Another server, or the same one later, may.
    StartingOrStopping,
    /// The request may have been carried out.
    Unknown,
}

impl Failure {
    fn of(response: &Response, message: &str) -> Self {
        match response.reason().as_deref() {
            // An error of etcd inside an InternalError has not been seen after a write. It is not
            // trusted.
            Some("InternalError") if !message.contains("etcdserver") => Self::BeforeStorage,
            Some("ServiceUnavailable") if STARTING_OR_STOPPING.contains(&message) => {
                Self::StartingOrStopping
            }
            None if response.body.starts_with(FILTER_ERROR) => Self::BeforeStorage,
            _ => Self::Unknown,
        }
    }
}

/// The messages with which kube-apiserver 1.36 refuses a request before any handler of a resource
/// sees it.
const STARTING_OR_STOPPING: [&str; 2] = [
    "apiserver is shutting down",
    "the request has been made before all known HTTP paths have been installed, please try again",
];

/// The start of the plain text with which the filters in front of the handlers report an error.
const FILTER_ERROR: &[u8] = b"Internal Server Error: \"/";

/// Returns whether an admission webhook denied the request. The webhook chooses the status: its 404
/// does not say that the object is gone, its 429 does not ask for a pause, and its 500 is no
/// failure of the server.
fn is_webhook_denial(message: &str) -> bool {
    message.starts_with("admission webhook \"") && message.contains("\" denied the request")
}

/// Returns whether a Binding that was answered with a conflict was certainly not carried out.
///
/// The API server reports every error of its storage as a conflict of `pods/binding` (`assignPod`),
/// also a timeout of etcd after which the pod may be bound.
pub(super) fn is_refusal_of_bind(message: &str) -> bool {
    const REFUSALS: [&str; 5] = [
        "is already assigned to node",
        "is being deleted, cannot be assigned to a host",
        "has non-empty .spec.schedulingGates",
        "Precondition failed: ",
        "StorageError: invalid object",
    ];
    REFUSALS.iter().any(|refusal| message.contains(refusal))
}

/// Returns the answer to an effect whose request the server rejected with this status.
pub(super) fn rejection(status: u16, message: String) -> Answer {
    match status {
        401 => Answer::Forbidden(format!("{message} (check the credentials of the scheduler)")),
        403 => Answer::Forbidden(message),
        404 => Answer::Gone(message),
        409 => Answer::Conflict(message),
        429 => Answer::Throttled(message),
        _ => Answer::Error(message),
    }
}

/// Returns whether the API server refused a Binding because the pod has another resourceVersion.
pub(super) fn is_outdated(status: u16, message: &str) -> bool {
    status == 409 && message.contains("Precondition failed: ResourceVersion in precondition")
}

/// Returns whether the pod does not exist or another pod has its name. A UID in a request is a
/// precondition. If it fails, the API server reports a conflict, with different messages for a
/// patch and a deletion, or an invalid change of the UID.
pub(super) fn is_pod_gone(status: u16, message: &str) -> bool {
    match status {
        404 => true,
        409 => {
            message.contains("UID in precondition") || message.contains("UID in the precondition")
        }
        422 => message.contains("metadata.uid"),
        _ => false,
    }
}
