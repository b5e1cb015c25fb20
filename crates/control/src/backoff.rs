//! Delays between retries: exponential, with jitter and a reset.

use std::time::Duration;

use framework::Time;

/// An exponential backoff.
///
/// Each delay is `factor` times the delay before it, up to `cap`. A random share of up to `jitter`
/// times the delay is added, so that clients that fail together do not retry together. The delays
/// start over when two failures lie further apart than `reset_after`.
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    factor: f64,
    cap: Duration,
    jitter: f64,
    reset_after: Duration,
    delay: Duration,
    last_failure: Option<Time>,
}

impl Backoff {
    /// Creates a backoff whose first delay is `initial`.
    pub const fn new(
        initial: Duration,
        factor: f64,
        cap: Duration,
        jitter: f64,
        reset_after: Duration,
    ) -> Self {
        Self { initial, factor, cap, jitter, reset_after, delay: initial, last_failure: None }
    }

    /// Returns the delay after a failure at `now`.
    pub fn next(&mut self, now: Time, rng: &mut fastrand::Rng) -> Duration {
        if self.last_failure.is_some_and(|last| now.since(last) > self.reset_after) {
            self.reset();
        }
        self.last_failure = Some(now);
        let delay = self.delay.min(self.cap);
        self.delay = multiply(delay, self.factor).min(self.cap);
        delay.saturating_add(multiply(delay, self.jitter * rng.f64()))
    }

    /// Starts over with the initial delay.
    pub const fn reset(&mut self) {
        self.delay = self.initial;
        self.last_failure = None;
    }
}

/// Multiplies a duration; saturates on overflow.
fn multiply(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_jitter() -> Backoff {
        Backoff::new(
            Duration::from_millis(800),
            2.0,
            Duration::from_secs(30),
            0.0,
            Duration::from_secs(120),
        )
    }

    /// The delays after failures at these times, in milliseconds.
    fn delays(backoff: &mut Backoff, failures: &[i64]) -> Vec<u128> {
        let mut rng = fastrand::Rng::with_seed(1);
        let delay = |&second: &i64| backoff.next(Time::from_secs(second), &mut rng).as_millis();
        failures.iter().map(delay).collect()
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        assert_eq!(
            delays(&mut without_jitter(), &[0, 1, 3, 6, 13, 26, 52, 82]),
            [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]
        );
    }

    #[test]
    fn delays_start_over_after_two_minutes_without_a_failure() {
        assert_eq!(delays(&mut without_jitter(), &[0, 1, 121, 242]), [800, 1600, 3200, 800]);
    }

    #[test]
    fn reset_starts_the_delays_over() {
        let mut backoff = without_jitter();
        delays(&mut backoff, &[0, 1]);
        backoff.reset();
        assert_eq!(delays(&mut backoff, &[2]), [800]);
    }

    #[test]
    fn jitter_adds_up_to_its_share() {
        let mut rng = fastrand::Rng::with_seed(7);
        let drawn: Vec<Duration> = (0..1000)
            .map(|_| Backoff { jitter: 1.0, ..without_jitter() }.next(Time::ZERO, &mut rng))
            .collect();
        let (least, most) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
        assert!((800..900).contains(&least.as_millis()), "{least:?}");
        assert!((1500..1600).contains(&most.as_millis()), "{most:?}");
    }

    #[test]
    fn overflowing_delay_saturates() {
        let long = Duration::MAX;
        let mut backoff = Backoff::new(long, 1e300, long, 1.0, Duration::ZERO);
        assert_eq!(delays(&mut backoff, &[0]), [Duration::MAX.as_millis()]);
    }
}
