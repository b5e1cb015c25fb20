//! The next step of an API call.

use std::time::Duration;

use framework::Answer;

/// The next step of a call after a reply.
#[derive(Debug, PartialEq)]
pub(super) enum NextStep {
    /// The call has finished with this answer.
    Finish(Answer),
    /// The call sends its next request.
    Continue,
    /// The call sends the same request again after the delay.
    Retry { delay: Duration, error: String },
}
