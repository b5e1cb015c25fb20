//! The processes of the scheduler: each has its own clock, and a record of its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::Request;
use control::scheduler::RequestSource;
use fastrand::Rng;
use framework::{Time, Uid};

use super::super::clocks::Clock;
use super::super::devices::Allocations;
use super::super::replica::Replica;
use super::super::volumes::Volumes;
use super::super::writes::Writes;

/// A place for a process. After a process has ended, another one starts in its seat.
pub(super) struct Seat {
    /// The process, while it runs.
    pub(super) replica: Option<Replica>,
    /// Number of the last process that started here, unique among all seats.
    pub(super) life: u32,
    /// Whether an event for the next decision is scheduled.
    pub(super) deciding: bool,
    /// The requests of the last process.
    pub(super) writes: Writes,
    /// Its changes of volumes and claims.
    pub(super) volumes: Volumes,
    /// Its allocations of devices.
    pub(super) allocations: Allocations,
    /// The version of the store at the last look at unused devices.
    pub(super) looked_at: u64,
    /// Requests that it made before it was blocked, and has not sent.
    pub(super) held_back: Vec<(RequestSource, Request)>,
    /// For each pod, the other pods that its watch had shown on the node that it chose.
    pub(super) beside: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Number of the API server that it is connected to.
    pub(super) api_server: usize,
    /// The clocks of its machine.
    clock: Clock,
    /// Time until which no API server can be reached from here.
    pub(super) cut_off_until: Option<Time>,
    /// Time until which the process is stopped by SIGSTOP.
    stopped_until: Option<Time>,
    /// Time at which the process exits at the latest, after SIGTERM.
    exits_by: Option<Time>,
}

/// Time for which the process waits for its requests after SIGTERM.
const DRAIN: Duration = Duration::from_secs(20);

impl Seat {
    fn new(clock: Clock) -> Self {
        Self {
            replica: None,
            life: 0,
            deciding: false,
            writes: Writes::default(),
            volumes: Volumes::default(),
            allocations: Allocations::default(),
            looked_at: 0,
            held_back: Vec::new(),
            beside: BTreeMap::new(),
            api_server: 0,
            clock,
            cut_off_until: None,
            stopped_until: None,
            exits_by: None,
        }
    }

    /// Starts a process.
    pub(super) fn start(&mut self, replica: Replica) {
        self.life = replica.life;
        self.replica = Some(replica);
        self.deciding = false;
        self.writes = Writes::default();
        self.volumes = Volumes::default();
        self.allocations = Allocations::default();
        self.held_back.clear();
        self.beside.clear();
    }

    /// Corrects the wall clock of the machine. The clock of the process goes on, and what it writes
    /// has the corrected time.
    pub(super) fn correct_clock(&mut self, rng: &mut Rng) {
        self.clock.correct(rng);
        if let Some(replica) = &mut self.replica {
            replica.scheduler.set_wall_offset(self.clock.wall_offset());
        }
    }

    /// Returns the time at which a process starts now, on its clock.
    pub(super) const fn start_clock(&mut self, now: Time) -> Time {
        self.clock.start();
        self.clock.now(now)
    }

    /// Ends the process.
    pub(super) fn end(&mut self) -> Option<Replica> {
        self.stopped_until = None;
        self.exits_by = None;
        self.replica.take()
    }

    /// Returns the time on the clock of the process.
    pub(super) fn clock(&self, now: Time) -> Time {
        self.clock.now(now)
    }

    /// Returns the time on the wall clock of the machine.
    pub(super) fn wall(&self, now: Time) -> Time {
        self.clock.wall(now)
    }

    /// Returns the next deadline of the process, or the end of its pause.
    pub(super) fn next_deadline(&self, now: Time) -> Option<Time> {
        let deadline = || {
            let deadline = self.replica.as_ref()?.next_deadline()?;
            Some(now + deadline.since(self.clock(now)))
        };
        let deadline = || deadline().into_iter().chain(self.exits_by).min();
        self.stopped_until.or_else(deadline)
    }

    /// Asks the process to end, as SIGTERM does. Returns whether it was not asked before.
    ///
    /// # Errors
    /// A request that was made before exceeds the limits.
    pub(super) fn terminate(&mut self, now: Time) -> Result<bool, String> {
        let clock = self.clock(now);
        let Some(replica) = self.replica.as_mut().filter(|_| self.exits_by.is_none()) else {
            return Ok(false);
        };
        self.held_back.extend(replica.take_requests(clock)?);
        replica.farewell.asked();
        replica.scheduler.stop(clock);
        self.exits_by = Some(now + DRAIN);
        Ok(true)
    }

    /// Returns whether the process was asked to end and has to exit now.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        self.replica.is_some() && self.exits_by.is_some_and(|end| end <= now)
    }

    /// Stops the process for a while, as SIGSTOP and SIGCONT do. Does nothing if it is stopped
    /// already.
    pub(super) fn pause(&mut self, until: Time) {
        if self.replica.is_some() {
            self.stopped_until.get_or_insert(until);
        }
    }

    /// Continues the process if its pause is over.
    pub(super) fn resume(&mut self, now: Time) {
        self.stopped_until.take_if(|until| *until <= now);
    }

    /// Returns the end of the pause of a stopped process.
    pub(super) const fn stopped_until(&self) -> Option<Time> {
        self.stopped_until
    }
}

/// All seats.
pub(super) struct Seats(Vec<Seat>);

impl Seats {
    /// Creates empty seats on machines with these clocks.
    pub(super) fn new(clocks: impl IntoIterator<Item = Clock>) -> Self {
        Self(clocks.into_iter().map(Seat::new).collect())
    }

    /// Returns the number of seats.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the seats.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Seat> {
        self.0.iter()
    }

    /// Returns the seats.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Seat> {
        self.0.iter_mut()
    }

    /// Returns the seat with this number.
    pub(super) fn at(&mut self, number: usize) -> &mut Seat {
        &mut self.0[number]
    }

    /// Returns the seat whose last process has this number, if no other one has started there.
    pub(super) fn of_life(&mut self, life: u32) -> Option<&mut Seat> {
        self.0.iter_mut().find(|seat| seat.life == life)
    }

    /// Returns the number of the seat of a running process.
    pub(super) fn running(&self, life: u32) -> Option<usize> {
        self.0.iter().position(|seat| seat.life == life && seat.replica.is_some())
    }
}
