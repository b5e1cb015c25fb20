//! What goes wrong, when and how often: drawn from the seed. Beside short troubles, one member at a
//! time is cut off for longer than its pods stay, if they may be replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fleet::Fleet;
use crate::api_server::Fault;
use crate::proxy::Way;
use crate::replica::Replica;

/// Longest time without new trouble, and longest duration of one, in milliseconds.
const LONGEST_CALM: u64 = 3_000;
const LONGEST_TROUBLE: u64 = 8_000;
/// Duration of a long trouble, and of the calm before it, in milliseconds.
const LONG_TROUBLE: std::ops::Range<u64> = 45_000..75_000;
const LONG_CALM: std::ops::Range<u64> = 8_000..25_000;

/// One kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Kill,
    Terminate,
    Stop,
    KillAllAgents,
    KillAllSchedulers,
    /// Between a process and its API server.
    CutConnections,
    HoldBackRequests,
    DelayConnections,
    /// Between a scheduler and the agents of a member.
    CutLink,
    HoldBackLink,
    DelayLink,
    DelayAllLinks,
    Server(Fault),
    /// A member that no scheduler reaches, for a long time.
    CutOff,
    /// A member whose agents are stopped, for a long time.
    StopAllAgents,
}

const SHORT: [Kind; 12] = [
    Kind::Kill,
    Kind::Terminate,
    Kind::Stop,
    Kind::KillAllAgents,
    Kind::KillAllSchedulers,
    Kind::CutConnections,
    Kind::HoldBackRequests,
    Kind::DelayConnections,
    Kind::CutLink,
    Kind::HoldBackLink,
    Kind::DelayLink,
    Kind::DelayAllLinks,
];
const LONG: [Kind; 2] = [Kind::CutOff, Kind::StopAllAgents];

/// A sequence of troubles of which each ends before the next one begins.
struct Lane {
    /// When the present trouble or the present calm ends.
    until: Duration,
    is_troubled: bool,
}

/// The trouble of a run.
pub(super) struct Trouble {
    rng: fastrand::Rng,
    short: Lane,
    long: Lane,
    /// The member whose agents or API server the short trouble concerns.
    short_of: Option<usize>,
    /// The member that the long trouble concerns.
    lost: Option<(usize, Kind)>,
    /// When agents or API server of a member were in trouble last.
    troubled: Vec<Option<Duration>>,
    counts: BTreeMap<Kind, u32>,
}

impl Trouble {
    pub(super) fn new(seed: u64, members: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let long = Duration::from_millis(rng.u64(LONG_CALM));
        Self {
            rng,
            short: Lane { until: Duration::from_secs(8), is_troubled: false },
            long: Lane { until: long, is_troubled: false },
            short_of: None,
            lost: None,
            troubled: vec![None; members],
            counts: BTreeMap::new(),
        }
    }

    /// Returns when the agents of a member, or its API server, were in trouble last.
    pub(super) fn troubled(&self, member: usize) -> Option<Duration> {
        self.troubled[member]
    }

    /// Begins or ends trouble if it is time to.
    pub(super) fn go_on(&mut self, fleet: &mut Fleet, elapsed: Duration) -> anyhow::Result<()> {
        if elapsed >= self.short.until {
            self.short.is_troubled = !self.short.is_troubled;
            let longest = if self.short.is_troubled {
                let kinds: Vec<Kind> = short_kinds().collect();
                let kind = kinds[self.rng.usize(..kinds.len())];
                self.begin(kind, fleet, elapsed)?;
                LONGEST_TROUBLE
            } else {
                self.end_short(fleet, elapsed);
                LONGEST_CALM
            };
            self.short.until = elapsed + Duration::from_millis(self.rng.u64(100..longest));
        }
        if elapsed >= self.long.until {
            self.long.is_troubled = !self.long.is_troubled;
            let duration = if self.long.is_troubled {
                let kind = LONG[self.rng.usize(..LONG.len())];
                self.begin(kind, fleet, elapsed)?;
                LONG_TROUBLE
            } else {
                self.end_long(fleet, elapsed);
                LONG_CALM
            };
            self.long.until = elapsed + Duration::from_millis(self.rng.u64(duration));
        }
        self.apply_long(fleet, elapsed);
        if let Some(member) = self.short_of {
            self.troubled[member] = Some(elapsed);
        }
        Ok(())
    }

    /// Ends all trouble.
    pub(super) fn cease(&mut self, fleet: &mut Fleet, elapsed: Duration) {
        self.end_short(fleet, elapsed);
        self.end_long(fleet, elapsed);
    }

    /// Ends the short trouble, without a moment of calm for the member that is lost.
    fn end_short(&mut self, fleet: &mut Fleet, elapsed: Duration) {
        for (member, own) in fleet.members.iter_mut().enumerate() {
            if self.lost != Some((member, Kind::CutOff)) {
                own.links.iter().for_each(|link| link.set(Way::Open));
            }
            let is_stopped = self.lost == Some((member, Kind::StopAllAgents));
            own.agents.iter_mut().filter(|_| !is_stopped).for_each(Replica::leave_alone);
        }
        fleet.schedulers.iter_mut().for_each(Replica::leave_alone);
        for server in fleet.servers() {
            // Without a fault nothing can be refused.
            let _ = server.set_fault(None);
        }
        self.short_of = None;
        self.apply_long(fleet, elapsed);
    }

    fn end_long(&mut self, fleet: &mut Fleet, elapsed: Duration) {
        let Some((member, kind)) = self.lost.take() else { return };
        eprintln!(
            "[{:>6.1} s] {kind:?} of {} ends",
            elapsed.as_secs_f64(),
            fleet.members[member].name
        );
        fleet.members[member].links.iter().for_each(|link| link.set(Way::Open));
        fleet.members[member].agents.iter_mut().for_each(Replica::leave_alone);
    }

    /// Keeps the long trouble going: a short one may have begun it and ended it for the same
    /// process.
    fn apply_long(&mut self, fleet: &mut Fleet, elapsed: Duration) {
        let Some((member, kind)) = self.lost else { return };
        let own = &mut fleet.members[member];
        match kind {
            Kind::CutOff => own.links.iter().for_each(|link| link.set(Way::Cut)),
            _ => {
                self.troubled[member] = Some(elapsed);
                let running = own.agents.iter_mut().filter(|agent| !agent.is_stopped);
                running.for_each(|agent| agent.signal("STOP"));
            }
        }
    }

    /// Returns how often each kind occurred.
    pub(super) fn summary(&self) -> String {
        let counts = short_kinds()
            .chain(LONG)
            .map(|kind| format!("{kind:?} {}", self.counts.get(&kind).copied().unwrap_or(0)));
        counts.collect::<Vec<_>>().join(", ")
    }

    fn begin(&mut self, kind: Kind, fleet: &mut Fleet, elapsed: Duration) -> anyhow::Result<()> {
        let member = self.rng.usize(..fleet.members.len());
        let scheduler = self.rng.usize(..fleet.schedulers.len());
        // Half of the troubles of processes and API servers concern a member, the others the
        // schedulers.
        let is_member = self.rng.bool();
        let agent = self.rng.usize(..fleet.members[member].agents.len());
        let delay = Way::Slow(Duration::from_millis(self.rng.u64(50..1500)));
        let own = &mut fleet.members[member];
        let process =
            if is_member { &mut own.agents[agent] } else { &mut fleet.schedulers[scheduler] };
        let mut whom = process.name().to_owned();
        let mut troubles_member = is_member;
        match kind {
            Kind::Kill => process.signal("KILL"),
            Kind::Terminate => process.signal("TERM"),
            Kind::Stop => process.signal("STOP"),
            Kind::CutConnections => process.set_way(Way::Cut),
            Kind::HoldBackRequests => process.set_way(Way::Mute),
            Kind::DelayConnections => process.set_way(delay),
            Kind::KillAllAgents => {
                own.agents.iter_mut().for_each(|agent| agent.signal("KILL"));
                (whom, troubles_member) = (own.name.clone(), true);
            }
            Kind::KillAllSchedulers => {
                fleet.schedulers.iter_mut().for_each(|one| one.signal("KILL"));
                (whom, troubles_member) = (String::new(), false);
            }
            Kind::CutLink | Kind::HoldBackLink | Kind::DelayLink => {
                let way = match kind {
                    Kind::CutLink => Way::Cut,
                    Kind::HoldBackLink => Way::Mute,
                    _ => delay,
                };
                own.links[scheduler].set(way);
                whom = format!("between {} and {}", fleet.schedulers[scheduler].name(), own.name);
                troubles_member = false;
            }
            Kind::DelayAllLinks => {
                let links = fleet.members.iter().flat_map(|member| &member.links);
                links.for_each(|link| link.set(delay));
                (whom, troubles_member) = (String::new(), false);
            }
            Kind::Server(fault) => {
                let server = if is_member { &own.server } else { &fleet.management };
                server.set_fault(Some(fault))?;
                whom = if is_member { own.name.clone() } else { "management".to_owned() };
            }
            Kind::CutOff | Kind::StopAllAgents => {
                self.lost = Some((member, kind));
                whom = own.name.clone();
            }
        }
        if !LONG.contains(&kind) {
            self.short_of = Some(member).filter(|_| troubles_member);
        }
        eprintln!("[{:>6.1} s] {kind:?} {whom}", elapsed.as_secs_f64());
        *self.counts.entry(kind).or_default() += 1;
        Ok(())
    }
}

fn short_kinds() -> impl Iterator<Item = Kind> {
    SHORT.into_iter().chain(Fault::ALL.map(Kind::Server))
}
