//! The clock of the daemon.

use std::time::{Duration, Instant, SystemTime};

use framework::Time;

/// Tells the time: that of the wall at the start, moved on by a clock that never jumps.
///
/// Backoffs and timeouts must not follow corrections of the wall clock; time stamps are for people and
/// may be off by what it was corrected since.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall: Time,
    started: Instant,
}

impl Clock {
    /// A clock that is right now.
    #[expect(clippy::disallowed_methods, reason = "this is where the daemon learns the time")]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { wall: Time::ZERO + wall, started: Instant::now() }
    }

    /// The time, in nanoseconds since 1970.
    pub fn now(&self) -> Time {
        self.wall + self.started.elapsed()
    }

    /// How long ago it was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long it takes until `time`; nothing if it is past.
    pub fn until(&self, time: Time) -> Duration {
        time.since(self.now())
    }
}
