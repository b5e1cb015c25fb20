//! How long to wait before the next try: exponential, with jitter and a reset.

use std::time::Duration;

use framework::Time;

/// Pauses that grow from failure to failure.
///
/// Each pause is `factor` times the one before, at most `max`; up to `jitter` times itself is added
/// at random, so that clients that failed together do not return together. Failures further apart
/// than `reset_after` have nothing to do with each other: the pauses start over.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    factor: f64,
    max: Duration,
    jitter: f64,
    reset_after: Duration,
    pause: Duration,
    last_failure: Option<Time>,
}

impl Backoff {
    /// A backoff that has seen no failure yet.
    pub const fn new(
        first: Duration,
        factor: f64,
        max: Duration,
        jitter: f64,
        reset_after: Duration,
    ) -> Self {
        Self { first, factor, max, jitter, reset_after, pause: first, last_failure: None }
    }

    /// The pause after a failure at `now`.
    pub fn next(&mut self, now: Time, rng: &mut fastrand::Rng) -> Duration {
        if self.last_failure.is_some_and(|last| now.since(last) > self.reset_after) {
            self.reset();
        }
        self.last_failure = Some(now);
        let pause = self.pause.min(self.max);
        self.pause = times(pause, self.factor).min(self.max);
        pause.saturating_add(times(pause, self.jitter * rng.f64()))
    }

    /// Starts over, after a success.
    pub const fn reset(&mut self) {
        self.pause = self.first;
        self.last_failure = None;
    }
}

/// A multiple of a duration; the longest there is where it overflows.
fn times(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Backoff {
        Backoff::new(
            Duration::from_millis(800),
            2.0,
            Duration::from_secs(30),
            0.0,
            Duration::from_secs(120),
        )
    }

    fn pauses(backoff: &mut Backoff, at: &[i64]) -> Vec<u128> {
        let mut rng = fastrand::Rng::with_seed(1);
        at.iter().map(|&s| backoff.next(Time::from_secs(s), &mut rng).as_millis()).collect()
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        assert_eq!(
            pauses(&mut plain(), &[0, 1, 3, 6, 13, 26, 52, 82]),
            [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]
        );
    }

    #[test]
    fn two_quiet_minutes_start_it_over() {
        assert_eq!(pauses(&mut plain(), &[0, 1, 121, 242]), [800, 1600, 3200, 800]);
    }

    #[test]
    fn a_success_starts_it_over() {
        let mut backoff = plain();
        pauses(&mut backoff, &[0, 1]);
        backoff.reset();
        assert_eq!(pauses(&mut backoff, &[2]), [800]);
    }

    #[test]
    fn jitter_adds_up_to_its_share() {
        let mut rng = fastrand::Rng::with_seed(7);
        let drawn: Vec<Duration> = (0..1000)
            .map(|_| Backoff { jitter: 1.0, ..plain() }.next(Time::ZERO, &mut rng))
            .collect();
        let (least, most) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
        assert!((800..900).contains(&least.as_millis()), "{least:?}");
        assert!((1500..1600).contains(&most.as_millis()), "{most:?}");
    }

    #[test]
    fn no_factor_overflows() {
        let long = Duration::MAX;
        let mut backoff = Backoff::new(long, 1e300, long, 1.0, Duration::ZERO);
        assert_eq!(pauses(&mut backoff, &[0]), [Duration::MAX.as_millis()]);
    }
}
