//! The requests of one write: when the write is repeated.

use std::time::Duration;

use framework::{Answer, Time};

/// Number of requests after which a write is given up.
const MOST: u32 = 8;
/// The time after the first request after which none is sent.
const LONGEST: Duration = Duration::from_secs(120);

/// The requests of one write.
#[derive(Clone, Copy)]
pub(crate) struct Requests {
    first: Time,
    sent: u32,
    /// Whether the answer to one of them was lost.
    is_lost: bool,
    /// The version of the object that the scheduler knew before the first one.
    pub(crate) base: u64,
}

impl Requests {
    /// Returns the first request.
    pub(crate) const fn first(now: Time, base: u64) -> Self {
        Self { first: now, sent: 1, is_lost: false, base }
    }

    /// Handles the answer to the last request. Returns the pause before the next one; `None` if
    /// there is none.
    pub(crate) fn answered(&mut self, answer: &Answer, now: Time) -> Option<Duration> {
        self.is_lost |= matches!(answer, Answer::Unknown(_));
        let is_unsettled =
            matches!(answer, Answer::Unknown(_) | Answer::Error(_) | Answer::Throttled(_));
        let pause = Duration::from_millis(100) * (1 << (self.sent - 1));
        let repeats = self.is_lost && is_unsettled && self.sent < MOST;
        (repeats && now + pause <= self.first + LONGEST).then_some(pause)
    }

    /// Counts the next request.
    pub(crate) const fn repeated(&mut self) {
        self.sent += 1;
    }
}
