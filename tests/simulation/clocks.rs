//! The clocks of the machines on which processes run.

use fastrand::Rng;
use framework::{Time, WallOffset};

/// Maximum difference between the wall clock of a machine and the time of the world, in
/// nanoseconds.
const MOST_WRONG: i64 = 600_000_000_000;

/// The clocks of a machine. The wall clock is corrected at any time, forwards or back. The clock of
/// a process begins at the wall time and then passes evenly.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Nanoseconds by which the wall clock is ahead of the world.
    wall: i64,
    /// Nanoseconds by which the clock of the process is ahead of the world.
    process: i64,
}

impl Clock {
    /// Creates a wall clock that is wrong by minutes.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let wall = rng.i64(-MOST_WRONG..MOST_WRONG);
        Self { wall, process: wall }
    }

    /// Sets the wall clock to another wrong time.
    pub(crate) fn correct(&mut self, rng: &mut Rng) {
        self.wall = rng.i64(-MOST_WRONG..MOST_WRONG);
    }

    /// Starts the clock of a process.
    pub(crate) const fn start(&mut self) {
        self.process = self.wall;
    }

    /// Returns how far the wall clock is ahead of the clock of the process.
    pub(crate) const fn wall_offset(&self) -> WallOffset {
        WallOffset::between(Time::from_nanos(self.process), Time::from_nanos(self.wall))
    }

    /// Returns the time on the wall clock.
    pub(crate) const fn wall(&self, world: Time) -> Time {
        Time::from_nanos(world.as_nanos() + self.wall)
    }

    /// Returns the time on the clock of the process.
    pub(crate) const fn now(&self, world: Time) -> Time {
        Time::from_nanos(world.as_nanos() + self.process)
    }
}
