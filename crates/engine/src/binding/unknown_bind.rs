//! A bind of unknown outcome.

use std::time::Duration;

use framework::Time;

/// Time after a bind by an extender at which it is given up. An API server ends a request after a
/// minute (`--request-timeout`), so this covers an extender whose own request was sent at once.
const EXTENDER_WAIT: Duration = Duration::from_secs(90);

/// Time after a bind whose fence was refused at which it is given up: ten times as long as an API
/// server takes for a request, for a request that something on the way holds up.
const REFUSED_FENCE_WAIT: Duration = Duration::from_mins(10);

/// A bind whose outcome is unknown.
#[derive(Debug, Clone)]
pub(super) struct UnknownBind {
    /// The error in place of the answer.
    pub(super) error: String,
    /// The extenders from this index on may bind the pod next.
    pub(super) extender: usize,
    /// Whether a write of the pod stops every bind that may still be under way.
    pub(super) fenced: bool,
    /// The time at which the request was sent.
    pub(super) sent: Time,
    /// Whether an extender bound the pod.
    pub(super) by_extender: bool,
}

impl UnknownBind {
    /// Returns whether the request may still be under way.
    pub(super) fn may_arrive(&self, now: Time) -> bool {
        let longest = if self.by_extender { EXTENDER_WAIT } else { REFUSED_FENCE_WAIT };
        now.since(self.sent) < longest
    }
}
