//! The clock of the daemon.

use std::time::{Duration, Instant, SystemTime};

use framework::{Time, WallOffset};

/// A monotonic clock that starts at the wall time.
///
/// Corrections of the wall clock after the start do not affect it, so that they do not disturb
/// backoffs, timeouts and the authority of a leader. Time stamps for others add the
/// [offset of the wall clock](Self::wall_offset).
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall_at_start: Time,
    started: Instant,
    read_wall: fn() -> Time,
}

impl Clock {
    /// Starts a clock at the current wall time.
    pub fn start() -> Self {
        Self::with_wall(wall_time)
    }

    #[expect(clippy::disallowed_methods, reason = "the daemon reads the monotonic time here")]
    fn with_wall(read_wall: fn() -> Time) -> Self {
        Self { wall_at_start: read_wall(), started: Instant::now(), read_wall }
    }

    /// Returns a clock that has run for so long.
    #[cfg(test)]
    pub(crate) fn started_before(elapsed: Duration) -> Self {
        let clock = Self::start();
        Self { started: clock.started.checked_sub(elapsed).unwrap_or(clock.started), ..clock }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.wall_at_start + self.started.elapsed()
    }

    /// Returns how far the wall clock is ahead of this clock now.
    pub fn wall_offset(&self) -> WallOffset {
        WallOffset::between(self.now(), (self.read_wall)())
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

#[expect(clippy::disallowed_methods, reason = "the daemon reads the wall time here")]
fn wall_time() -> Time {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::ZERO + wall
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn corrected_wall_clock_changes_the_offset_and_not_the_time() {
        static WALL: AtomicI64 = AtomicI64::new(1_000_000);
        let clock = Clock::with_wall(|| Time::from_secs(WALL.load(Ordering::Relaxed)));
        for corrected in [2_000_000, 500_000] {
            WALL.store(corrected, Ordering::Relaxed);
            let elapsed = clock.elapsed();
            let now = clock.now();
            assert!(now.since(Time::from_secs(1_000_000)) >= elapsed, "{now} after {elapsed:?}");
            let stamp = clock.wall_offset().wall_time(now);
            assert!(now.since(Time::from_secs(1_000_000)) < Duration::from_hours(1), "{now}");
            let ahead = stamp.since(Time::from_secs(corrected - 3600));
            assert!(ahead <= Duration::from_hours(1), "{stamp}");
        }
    }
}
