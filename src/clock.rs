//! The clock of the daemon.

use std::time::{Duration, Instant, SystemTime};

use framework::Time;

/// A monotonic clock that starts at the wall time.
///
/// Corrections of the wall clock after the start do not affect it, so that they do not disturb
/// backoffs and timeouts. Time stamps may differ from the wall time by these corrections.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall_at_start: Time,
    started: Instant,
}

impl Clock {
    /// Starts a clock at the current wall time.
    #[expect(clippy::disallowed_methods, reason = "the daemon reads the wall time here")]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { wall_at_start: Time::ZERO + wall, started: Instant::now() }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.wall_at_start + self.started.elapsed()
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the duration until `time`, zero if it is past.
    pub fn until(&self, time: Time) -> Duration {
        time.since(self.now())
    }
}
