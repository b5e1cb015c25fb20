//! Hours in which faults of single places last, and everything else has to go on.

use std::time::Duration;

use control::scheduler::Hold;

use super::super::network::Network;
use super::super::progress::Sight;
use super::super::rules::Violation;
use super::{Event, World};

/// Time between two checks of progress.
const LOOK: Duration = Duration::from_secs(10);
/// Longest time between two actions of users, in milliseconds.
const LONGEST_CHURN_PAUSE: u64 = 40_000;
/// Maximum number of faults at once.
const MOST_TROUBLES: usize = 3;

impl World {
    /// Lives through hours of lasting faults, and checks progress meanwhile.
    pub(crate) fn endure(&mut self) -> Result<(), Violation> {
        self.network = Network::fair(&mut self.rng, &self.emphasis);
        self.endures = true;
        self.troubles.end_all(&mut self.server, self.now);
        let mut churn = self.now;
        let end = self.now + minutes(&mut self.rng, 30, 90);
        while self.now < end {
            self.troubles.end(self.now);
            if self.troubles.len() < MOST_TROUBLES && self.rng.u32(..30) == 0 {
                self.trouble(20, 120);
            }
            if self.rng.u32(..100) == 0 {
                let seat = self.rng.usize(..self.seats.len());
                match self.rng.u32(..3) {
                    0 => self.kill(seat),
                    1 => self.terminate(seat),
                    _ => self.pause(seat),
                }
            }
            if self.rng.u32(..40) == 0 {
                self.fall_behind();
            }
            if self.rng.u32(..120) == 0 {
                self.restart_api_servers();
            }
            while churn < self.now + LOOK {
                self.at(churn.since(self.now), Event::Churn);
                churn = churn + Duration::from_millis(self.rng.u64(..LONGEST_CHURN_PAUSE));
            }
            self.run_until(self.now + LOOK)?;
            self.look()?;
        }
        self.network = Network::calm();
        self.endures = false;
        self.progress.clear();
        Ok(())
    }

    /// Begins a fault that lasts for between these numbers of minutes.
    pub(super) fn trouble(&mut self, shortest: u64, longest: u64) {
        let length = minutes(&mut self.rng, shortest, longest);
        let begun = self.troubles.begin(length, &mut self.rng, &mut self.server, self.now);
        self.say(|| begun);
    }

    /// Checks progress, with the eyes of the leader.
    fn look(&mut self) -> Result<(), Violation> {
        let now = self.now;
        let mut leaders = self.seats.iter().filter_map(|seat| {
            let replica = seat.replica.as_ref()?;
            let clock = seat.clock(now);
            let acts = replica.is_synced() && replica.scheduler.may_act(clock);
            let hold = replica.scheduler.hold(clock);
            let decides = matches!(hold, None | Some(Hold::Throttled | Hold::Backlog));
            acts.then_some((replica, decides))
        });
        let leader = leaders.next();
        let sight = Sight {
            server: &self.server,
            leader: leader.map(|(replica, _)| replica),
            decides: leader.is_some_and(|(_, decides)| decides),
            troubles: &self.troubles,
            now,
        };
        let looked = self.progress.look(&sight);
        looked.map_err(|text| self.violation(&text))
    }
}

fn minutes(rng: &mut fastrand::Rng, shortest: u64, longest: u64) -> Duration {
    Duration::from_secs(rng.u64(60 * shortest..=60 * longest))
}
