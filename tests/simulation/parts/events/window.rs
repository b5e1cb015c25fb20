//! How many requests the server shows itself able to take.

use std::collections::BTreeMap;

use control::{Reply, RequestId};
use framework::Time;

/// Number of requests in flight at first.
const FIRST: usize = 16;

/// The number of requests that may be in flight, from the answers alone: as in TCP, a round of
/// answers doubles it up to half of the number at the last overload and adds one to it beyond, and
/// an overload halves it once a round.
#[derive(Debug)]
pub(super) struct Window {
    allowed: usize,
    most: usize,
    slow_from: usize,
    /// Answers of the present round, while growth is slow.
    round: usize,
    last_overload: Option<Time>,
    sent: BTreeMap<RequestId, Time>,
}

impl Window {
    pub(super) fn new(most: usize) -> Self {
        let allowed = FIRST.min(most);
        let sent = BTreeMap::new();
        Self { allowed, most, slow_from: most, round: 0, last_overload: None, sent }
    }

    pub(super) const fn allowed(&self) -> usize {
        self.allowed
    }

    pub(super) fn sends(&mut self, id: RequestId, now: Time) {
        self.sent.insert(id, now);
    }

    pub(super) fn receives(&mut self, id: RequestId, reply: &Reply, now: Time) {
        let is_full = self.sent.len() >= self.allowed;
        let sent = self.sent.remove(&id);
        let is_overload = match reply {
            Reply::Answered(response) => [429, 503, 504].contains(&response.status),
            Reply::NotSent(_) | Reply::Lost(_) => true,
            Reply::Rejected(_) => false,
        };
        if is_overload {
            // Requests that were sent before the last overload say nothing new.
            if self.last_overload.is_none_or(|last| sent.is_some_and(|sent| last < sent)) {
                self.allowed = (self.allowed / 2).max(1);
                (self.slow_from, self.round, self.last_overload) = (self.allowed, 0, Some(now));
            }
        } else if is_full && self.allowed < self.most {
            self.round += 1;
            if self.allowed < self.slow_from || self.round >= self.allowed {
                (self.allowed, self.round) = (self.allowed + 1, 0);
            }
        }
    }
}
