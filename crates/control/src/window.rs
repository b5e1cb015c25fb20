//! The number of requests in flight, paced by the answers of the server.

use framework::Time;

/// A congestion window, as in TCP.
///
/// It doubles with each round of answers up to its threshold, and then grows by one request a
/// round, but only while it is full: a window that does not limit shows nothing about the server.
/// An answer that shows overload halves it, once for all requests of the same round.
#[derive(Debug)]
pub(crate) struct Window {
    size: usize,
    max: usize,
    /// The size from which the window grows slowly.
    threshold: usize,
    /// Number of answers since the window grew last, above the threshold.
    answers: usize,
    /// The time of the last overload. Requests that were sent before it belong to the same round.
    shrunk_at: Option<Time>,
}

impl Window {
    /// Creates a window of this size that grows up to `max`. Both are at least one.
    pub(crate) fn new(size: usize, max: usize) -> Self {
        let max = max.max(1);
        Self { size: size.clamp(1, max), max, threshold: max, answers: 0, shrunk_at: None }
    }

    /// Returns the maximum number of requests in flight.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Notes an answer. `in_flight` counts the request that it answers.
    pub(crate) fn answered(&mut self, in_flight: usize) {
        if in_flight < self.size || self.size >= self.max {
            return;
        }
        self.answers += 1;
        if self.size < self.threshold || self.answers >= self.size {
            self.size += 1;
            self.answers = 0;
        }
    }

    /// Notes that the server or the way to it was overloaded by a request that was sent at `sent`.
    pub(crate) fn overloaded(&mut self, sent: Time, now: Time) {
        if self.shrunk_at.is_some_and(|shrunk| sent <= shrunk) {
            return;
        }
        self.size = (self.size / 2).max(1);
        (self.threshold, self.answers, self.shrunk_at) = (self.size, 0, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one round of requests of a full window.
    fn round(window: &mut Window) {
        for _ in 0..window.size() {
            window.answered(window.size());
        }
    }

    fn seconds(seconds: i64) -> Time {
        Time::from_secs(seconds)
    }

    #[test]
    fn full_window_doubles_each_round_up_to_its_bound() {
        let mut window = Window::new(16, 100);
        let sizes: Vec<_> = (0..4)
            .map(|_| {
                round(&mut window);
                window.size()
            })
            .collect();
        assert_eq!(sizes, [32, 64, 100, 100]);
    }

    #[test]
    fn window_that_is_not_full_does_not_grow() {
        let mut window = Window::new(16, 100);
        (0..1000).for_each(|_| window.answered(15));
        assert_eq!(window.size(), 16);
    }

    #[test]
    fn overload_halves_the_window_once_a_round_and_slows_its_growth() {
        let mut window = Window::new(64, 256);
        (0..10).for_each(|_| window.overloaded(seconds(1), seconds(2)));
        assert_eq!(window.size(), 32);
        window.overloaded(seconds(3), seconds(4));
        assert_eq!(window.size(), 16);
        round(&mut window);
        round(&mut window);
        assert_eq!(window.size(), 18);
    }

    #[test]
    fn window_never_closes() {
        let mut window = Window::new(0, 0);
        (1..10).for_each(|second| window.overloaded(seconds(second), seconds(second)));
        assert_eq!(window.size(), 1);
    }
}
