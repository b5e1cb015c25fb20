//! The end of each seed: faults and churn cease, and the world has to come to rest.

use std::time::Duration;

use control::scheduler::Hold;

use super::super::network::Network;
use super::super::rules::{self, Violation};
use super::seat::Seat;
use super::{Activity, World};

/// Time without activity before the final checks: longer than the timeout of a stalled watch.
const CALM: Duration = Duration::from_secs(900);
/// Time for the last pods to be bound: longer than the maximum time without an event.
const SETTLED: Duration = Duration::from_secs(400);
/// Time for a rush of pods: pods may take a minute to end, but no pod may need the maximum time
/// without an event.
const PROMPTLY: Duration = Duration::from_secs(200);
/// Maximum time from the end of a process that is asked to end until another one decides: five
/// seconds until it is started again, or until a standby tries to take the Lease, and the time to
/// fill or check the caches.
const HANDED_OVER: Duration = Duration::from_secs(10);
/// Maximum time from the end of a process that is killed until another one decides: a standby sees
/// the last renewal of the Lease up to 5 seconds late, takes it 15 seconds later, and then stops
/// the binds of the last one.
const TAKEN_OVER: Duration = Duration::from_secs(32);
/// Time in which only the driver of devices has faults.
const WITH_DRIVER: Duration = Duration::from_mins(4);
/// Time for which the world must be at rest.
const QUIET: Duration = Duration::from_secs(30);

impl Activity {
    /// Checks that since `before`, at most the conditions of the `waiting` pods were updated, and
    /// ended watches reopened.
    fn is_over(self, before: Self, waiting: usize, informers: usize) -> rules::Checked {
        let (writes, calls) = (self.writes - before.writes, self.calls - before.calls);
        rules::rule(writes <= waiting, || format!("{writes} writes in {QUIET:?} of quiet"))?;
        rules::rule(calls <= 2 * informers, || format!("{calls} calls in {QUIET:?} of quiet"))
    }
}

impl World {
    /// Ends faults and churn, and checks the world at rest; then adds nodes, so that pods can be
    /// placed, and checks again.
    pub(crate) fn calm_down(&mut self) -> Result<(), Violation> {
        self.say(|| "calm".to_owned());
        self.network = Network::calm();
        self.troubles.end_all(&mut self.server, self.now);
        self.is_calm = true;
        self.seats.iter_mut().for_each(|seat| seat.cut_off_until = None);
        self.calm_since = Some(self.now);
        self.server.api_servers.catch_up();
        self.churn.leave(&mut self.server, self.now);
        if self.churn.has_devices() {
            self.run_until(self.now + WITH_DRIVER)?;
            self.server.driver.recover();
        }
        self.rest(CALM)?;
        self.hand_over()?;
        self.rush()?;
        for replica in self.seats.iter_mut().filter_map(|seat| seat.replica.as_mut()) {
            replica.explanations.collect();
        }
        self.churn.end(&mut self.server, self.now);
        self.summary.pending = self.rest(SETTLED)?;
        let explained = rules::pending_pods_are_explained(&self.server);
        explained.map_err(|text| self.violation(&text))?;
        for seat in self.seats.iter() {
            let arrived =
                seat.replica.as_ref().map(|own| own.explanations.have_arrived(&self.server));
            arrived.unwrap_or(Ok(())).map_err(|text| self.violation(&text))?;
            let leader = seat.replica.as_ref();
            let leader = leader.filter(|own| own.scheduler.may_act(seat.clock(self.now)));
            let shown = leader.map_or(Ok(()), |own| own.explanations.are_shown(&self.server));
            shown.map_err(|text| self.violation(&text))?;
        }
        Ok(())
    }

    /// Adds important pods to a full cluster, while the server is sometimes overloaded.
    fn rush(&mut self) -> Result<(), Violation> {
        self.churn.rush(&mut self.server, self.now);
        let begun = self.now + Duration::from_millis(self.rng.u64(..30));
        self.run_until(begun)?;
        match self.rng.u32(..4) {
            0 | 1 => self.hand_over()?,
            2 => self.crash()?,
            _ => {}
        }
        if self.rng.bool() {
            self.network = Network::overloaded();
            self.calm_since = None;
            let over = self.now + Duration::from_millis(self.rng.u64(..60_000));
            self.run_until(over)?;
            self.network = Network::calm();
            self.calm_since = Some(self.now);
        }
        self.rest(PROMPTLY)?;
        Ok(())
    }

    /// Asks the process that decides to end, and checks that another one decides soon. Nothing else
    /// is wrong.
    fn hand_over(&mut self) -> Result<(), Violation> {
        let Some(seat) = self.deciding() else { return Ok(()) };
        self.terminate(seat);
        self.run_until(self.now + HANDED_OVER)?;
        match self.deciding() {
            Some(_) => Ok(()),
            None => Err(self.violation("no process decides after the last one was asked to end")),
        }
    }

    /// Kills the process that decides, and checks that another one decides as soon as the Lease has
    /// expired.
    fn crash(&mut self) -> Result<(), Violation> {
        let Some(seat) = self.deciding() else { return Ok(()) };
        self.kill(seat);
        self.run_until(self.now + TAKEN_OVER)?;
        match self.deciding() {
            Some(_) => Ok(()),
            None => Err(self.violation("no process decides after the last one was killed")),
        }
    }

    /// Returns the seat of a process that decides.
    fn deciding(&self) -> Option<usize> {
        let may_decide = |seat: &Seat| {
            let replica = seat.replica.as_ref();
            let hold = replica.map(|replica| replica.scheduler.hold(seat.clock(self.now)));
            matches!(hold, Some(None | Some(Hold::Throttled | Hold::Backlog)))
        };
        self.seats.iter().position(may_decide)
    }

    /// Waits, and then checks that nothing is left to do. Returns the number of pending pods.
    fn rest(&mut self, pause: Duration) -> Result<usize, Violation> {
        self.run_until(self.now + pause)?;
        let before = self.activity;
        self.run_until(self.now + QUIET)?;
        self.is_at_rest(before).map_err(|text| self.violation(&text))
    }

    fn is_at_rest(&mut self, before: Activity) -> Result<usize, String> {
        let (mut waiting, mut informers) = (0, 0);
        for seat in self.seats.iter_mut() {
            let now = seat.clock(self.now);
            let replica = seat.replica.as_mut().expect("it has been started again by now");
            informers += replica.informers.len();
            seat.writes.are_announced()?;
            replica.counts_are_right(now)?;
            waiting = rules::at_rest(&self.server, replica, now)?;
        }
        self.activity.is_over(before, waiting, informers)?;
        self.gangs.are_whole()?;
        rules::rule(!self.elects || self.leases.is_renewed(self.now), || {
            format!("the lease is not renewed: {:?}", self.leases)
        })?;
        Ok(waiting)
    }
}
