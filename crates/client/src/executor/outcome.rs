//! What a reply says about the request, whatever was asked.

use std::time::Duration;

use framework::Answer;

use crate::request::{Reply, Response};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Carried out; the body of the answer.
    Done(Vec<u8>),
    /// Not carried out, and asking again would not help. Extenders refuse without a status.
    Refused { status: u16, text: String },
    /// Not carried out: the server wants a pause (429).
    Throttled { pause: Duration, text: String },
    /// Not carried out: the server never saw it.
    NotSent(String),
    /// Carried out or not, now or even later: the request may lie in a proxy, or in a server that
    /// is cut off from its store.
    Unknown(String),
}

impl Outcome {
    pub(super) fn of(reply: Reply) -> Self {
        match reply {
            Reply::Answered(response) => Self::of_response(response),
            Reply::Refused(text) => Self::Refused { status: 0, text },
            Reply::NotSent(text) => Self::NotSent(text),
            Reply::Lost(text) => Self::Unknown(text),
        }
    }

    fn of_response(response: Response) -> Self {
        if response.is_success() {
            return Self::Done(response.body);
        }
        let text = response.text();
        match response.status {
            429 => Self::Throttled { pause: response.pause(), text },
            // A proxy may say so of a server that acted, and a server of itself.
            500.. => Self::Unknown(text),
            status => Self::Refused { status, text },
        }
    }
}

/// The answer to an effect whose request was refused.
pub(super) fn refusal(status: u16, text: String) -> Answer {
    match status {
        401 => Answer::Forbidden(format!("{text} (check the credentials of the scheduler)")),
        403 => Answer::Forbidden(text),
        404 => Answer::Gone(text),
        409 => Answer::Conflict(text),
        _ => Answer::Error(text),
    }
}
