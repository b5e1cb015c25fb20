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
    /// Not carried out: the server did not receive the request.
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
            429 => Self::Throttled { retry_after: response.retry_delay(), message },
            // A proxy may send such a status although the server behind it carried out the request.
            500.. => Self::Unknown(message),
            status => Self::Rejected { status, message },
        }
    }
}

/// Returns the answer to an effect whose request the server rejected with this status.
pub(super) fn rejection(status: u16, message: String) -> Answer {
    match status {
        401 => Answer::Forbidden(format!("{message} (check the credentials of the scheduler)")),
        403 => Answer::Forbidden(message),
        404 => Answer::Gone(message),
        409 => Answer::Conflict(message),
        _ => Answer::Error(message),
    }
}

/// Returns whether the pod does not exist or another pod has its name. A UID in a request is a
/// precondition. If it fails, the API server reports a conflict, with different messages for a patch
/// and a deletion, or an invalid change of the UID.
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
