//! How many requests may go out, and how fast.

use std::time::Duration;

use framework::Time;

/// Lets requests out: so many at once, no faster than the token bucket says, none while the server
/// wants a pause.
#[derive(Debug)]
pub(crate) struct Gate {
    in_flight: usize,
    limit: usize,
    bucket: Option<TokenBucket>,
    held_until: Option<Time>,
}

impl Gate {
    /// No `qps`, or none above zero, means no token bucket.
    pub(crate) fn new(limit: usize, qps: Option<f32>, burst: u32) -> Self {
        let bucket = qps.and_then(|qps| TokenBucket::new(qps, burst));
        Self { in_flight: 0, limit: limit.max(1), bucket, held_until: None }
    }

    /// Lets one request out, if one may go now.
    pub(crate) fn enter(&mut self, now: Time) -> bool {
        let open = self.in_flight < self.limit
            && !self.is_held(now)
            && self.bucket.as_mut().is_none_or(|bucket| bucket.take(now));
        self.in_flight += usize::from(open);
        open
    }

    /// A request that was let out has come to its end.
    pub(crate) const fn leave(&mut self) {
        self.in_flight -= 1;
    }

    /// Lets nothing out for a while. A longer pause that runs already stays.
    pub(crate) fn hold(&mut self, pause: Duration, now: Time) {
        self.held_until = self.held_until.max(Some(now + pause));
    }

    pub(crate) fn is_held(&self, now: Time) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }

    /// When the next request may go; `None` when one that is out has to come back first.
    pub(crate) fn opens_at(&self) -> Option<Time> {
        let token = self.bucket.as_ref().map_or(Time::ZERO, TokenBucket::next);
        (self.in_flight < self.limit).then(|| token.max(self.held_until.unwrap_or(token)))
    }
}

/// A token bucket, kept as the time at which it would be full again.
#[derive(Debug)]
struct TokenBucket {
    /// Time in which one token comes, in nanoseconds.
    interval: i64,
    /// How far `full_at` may lie ahead for a token to be left, in nanoseconds.
    depth: i64,
    full_at: Time,
}

impl TokenBucket {
    fn new(qps: f32, burst: u32) -> Option<Self> {
        if !(qps.is_finite() && qps > 0.0) {
            return None;
        }
        let interval = (1e9 / f64::from(qps)) as i64;
        let depth = interval.saturating_mul(i64::from(burst.max(1)) - 1);
        Some(Self { interval, depth, full_at: Time::ZERO })
    }

    /// When the next token is there.
    fn next(&self) -> Time {
        Time::from_nanos(self.full_at.as_nanos().saturating_sub(self.depth))
    }

    fn take(&mut self, now: Time) -> bool {
        let there = self.next() <= now;
        if there {
            let from = self.full_at.max(now).as_nanos();
            self.full_at = Time::from_nanos(from.saturating_add(self.interval));
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn let_out(gate: &mut Gate, now: Time) -> usize {
        std::iter::from_fn(|| gate.enter(now).then_some(())).take(1000).count()
    }

    #[test]
    fn so_many_are_out_at_once() {
        let mut gate = Gate::new(3, None, 1);
        assert_eq!(let_out(&mut gate, Time::ZERO), 3);
        assert_eq!(gate.opens_at(), None);
        gate.leave();
        assert_eq!(let_out(&mut gate, Time::ZERO), 1);
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let mut gate = Gate::new(1000, Some(10.0), 5);
        let start = Time::from_secs(100);
        assert_eq!(let_out(&mut gate, start), 5);
        let next = start + Duration::from_millis(100);
        assert_eq!(gate.opens_at(), Some(next));
        assert_eq!(let_out(&mut gate, next), 1);
        assert_eq!(let_out(&mut gate, start + Duration::from_secs(60)), 5, "no more than a burst");
    }

    #[test]
    fn a_rate_that_is_none_does_not_limit() {
        for qps in [None, Some(0.0), Some(-1.0), Some(f32::NAN), Some(f32::INFINITY)] {
            assert_eq!(let_out(&mut Gate::new(1000, qps, 0), Time::ZERO), 1000, "{qps:?}");
        }
    }

    #[test]
    fn nothing_goes_out_while_the_server_wants_a_pause() {
        let mut gate = Gate::new(10, None, 1);
        let start = Time::from_secs(100);
        gate.hold(Duration::from_secs(5), start);
        gate.hold(Duration::from_secs(1), start);
        let end = start + Duration::from_secs(5);
        assert_eq!((gate.enter(start), gate.opens_at()), (false, Some(end)));
        assert!(!gate.is_held(end) && gate.enter(end));
    }
}
