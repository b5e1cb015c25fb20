//! Limits on the number and the rate of requests.

use std::time::Duration;

use framework::Time;

/// A limiter of requests: a maximum number in flight, a token bucket for the rate, and pauses that
/// the server asks for.
#[derive(Debug)]
pub(crate) struct RequestLimiter {
    in_flight: usize,
    max_in_flight: usize,
    token_bucket: Option<TokenBucket>,
    paused_until: Option<Time>,
}

impl RequestLimiter {
    /// Creates a limiter. Without `qps`, or with one that is not positive, the rate is not limited.
    pub(crate) fn new(max_in_flight: usize, qps: Option<f32>, burst: u32) -> Self {
        let token_bucket = qps.and_then(|qps| TokenBucket::new(qps, burst));
        let max_in_flight = max_in_flight.max(1);
        Self { in_flight: 0, max_in_flight, token_bucket, paused_until: None }
    }

    /// Admits one request if the limits allow it now.
    pub(crate) fn try_accept(&mut self, now: Time) -> bool {
        let is_accepted = self.accepts(now);
        if is_accepted {
            self.accept(now);
        }
        is_accepted
    }

    /// Returns whether the limits allow a request now.
    pub(crate) fn accepts(&self, now: Time) -> bool {
        let has_token = |bucket: &TokenBucket| bucket.next_token() <= now;
        self.free() > 0 && !self.is_paused(now) && self.token_bucket.as_ref().is_none_or(has_token)
    }

    /// Counts a request that the limits [allow](Self::accepts).
    pub(crate) fn accept(&mut self, now: Time) {
        self.in_flight += 1;
        if let Some(bucket) = &mut self.token_bucket {
            bucket.try_take(now);
        }
    }

    /// Returns the number of requests that may be sent before one in flight ends.
    pub(crate) const fn free(&self) -> usize {
        self.max_in_flight.saturating_sub(self.in_flight)
    }

    /// Returns the number of requests in flight.
    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Sets the maximum number of requests in flight. If more are in flight, they end first.
    pub(crate) fn set_max_in_flight(&mut self, max: usize) {
        self.max_in_flight = max.max(1);
    }

    /// Frees the slot of a request that has ended.
    pub(crate) const fn release(&mut self) {
        self.in_flight -= 1;
    }

    /// Admits no requests for this long. A pause that ends later stays in effect.
    pub(crate) fn pause(&mut self, pause: Duration, now: Time) {
        self.paused_until = self.paused_until.max(Some(now + pause));
    }

    /// Returns whether a pause is in effect.
    pub(crate) fn is_paused(&self, now: Time) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// Returns the end of the pause, until [`end_pause`](Self::end_pause) has noticed it.
    pub(crate) const fn pause_ends_at(&self) -> Option<Time> {
        self.paused_until
    }

    /// Forgets a pause that has ended.
    pub(crate) fn end_pause(&mut self, now: Time) {
        self.paused_until.take_if(|until| *until <= now);
    }

    /// Returns the time from which the next request is admitted, or `None` if a request in flight
    /// has to end first.
    pub(crate) fn next_accept(&self) -> Option<Time> {
        let token = self.token_bucket.as_ref().map_or(Time::ZERO, TokenBucket::next_token);
        (self.in_flight < self.max_in_flight).then(|| token.max(self.paused_until.unwrap_or(token)))
    }
}

/// A token bucket, stored as the time at which it is full again.
#[derive(Debug)]
pub struct TokenBucket {
    /// Time between two tokens, in nanoseconds.
    interval: i64,
    /// Maximum distance between now and `full_at` at which a token is left, in nanoseconds.
    depth: i64,
    full_at: Time,
}

impl TokenBucket {
    /// Creates a bucket that gains `qps` tokens per second and holds up to `burst`. Returns `None`
    /// if the rate is not a positive number.
    pub fn new(qps: f32, burst: u32) -> Option<Self> {
        if !(qps.is_finite() && qps > 0.0) {
            return None;
        }
        let interval = (1e9 / f64::from(qps)) as i64;
        let depth = interval.saturating_mul(i64::from(burst.max(1)) - 1);
        Some(Self { interval, depth, full_at: Time::ZERO })
    }

    /// Returns the time from which a token is available.
    pub fn next_token(&self) -> Time {
        Time::from_nanos(self.full_at.as_nanos().saturating_sub(self.depth))
    }

    /// Takes a token if one is available.
    pub fn try_take(&mut self, now: Time) -> bool {
        let is_available = self.next_token() <= now;
        if is_available {
            let from = self.full_at.max(now).as_nanos();
            self.full_at = Time::from_nanos(from.saturating_add(self.interval));
        }
        is_available
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept_all(limiter: &mut RequestLimiter, now: Time) -> usize {
        std::iter::from_fn(|| limiter.try_accept(now).then_some(())).take(1000).count()
    }

    #[test]
    fn number_of_requests_in_flight_is_limited() {
        let mut limiter = RequestLimiter::new(3, None, 1);
        assert_eq!(accept_all(&mut limiter, Time::ZERO), 3);
        assert_eq!(limiter.next_accept(), None);
        limiter.release();
        assert_eq!(accept_all(&mut limiter, Time::ZERO), 1);
    }

    #[test]
    fn burst_is_accepted_at_once_and_further_requests_at_the_rate() {
        let mut limiter = RequestLimiter::new(1000, Some(10.0), 5);
        let start = Time::from_secs(100);
        assert_eq!(accept_all(&mut limiter, start), 5);
        let next = start + Duration::from_millis(100);
        assert_eq!(limiter.next_accept(), Some(next));
        assert_eq!(accept_all(&mut limiter, next), 1);
        let after_idle = start + Duration::from_secs(60);
        assert_eq!(accept_all(&mut limiter, after_idle), 5, "idle time saves up one burst");
    }

    #[test]
    fn missing_or_invalid_rate_does_not_limit() {
        for qps in [None, Some(0.0), Some(-1.0), Some(f32::NAN), Some(f32::INFINITY)] {
            let mut limiter = RequestLimiter::new(1000, qps, 0);
            assert_eq!(accept_all(&mut limiter, Time::ZERO), 1000, "{qps:?}");
        }
    }

    #[test]
    fn paused_limiter_accepts_no_requests() {
        let mut limiter = RequestLimiter::new(10, None, 1);
        let start = Time::from_secs(100);
        limiter.pause(Duration::from_secs(5), start);
        limiter.pause(Duration::from_secs(1), start);
        let end = start + Duration::from_secs(5);
        assert_eq!((limiter.try_accept(start), limiter.next_accept()), (false, Some(end)));
        assert!(!limiter.is_paused(end) && limiter.try_accept(end));
    }
}
