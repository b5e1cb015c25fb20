//! Time, and the order of events.

mod calm;
mod endpoints;
mod endurance;
mod seat;
mod transport;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use control::leader_election::{Notice, Outcome};
use control::reflector::{Call, Input};
use control::scheduler::RequestSource;
use control::{Destination, Reply, Request, RequestId};
use engine::Outcome as EngineOutcome;
use fastrand::Rng;
use framework::{Time, Uid};
use loadmaster::wire::Update;

use self::endpoints::Freshness;
use self::seat::{Seat, Seats};
use self::transport::answer_to;
use super::churn::Churn;
use super::clocks::Clock;
use super::coverage::{Coverage, Fault, State, States};
use super::emphasis::{Emphasis, Theme};
use super::extender::{self, Role};
use super::groups::binding::Gangs;
use super::leases::{self, Leases};
use super::network::{Fate, Network};
use super::progress::Progress;
use super::quiet;
use super::recording::Recording;
use super::replica::{Decided, Kind, Replica};
use super::rules::{self, Violation};
use super::server::Server;
use super::times;
use super::trouble::Troubles;
use super::volumes::Held;
use super::wake_ups::WakeUps;
use super::{DEVICES, GENERAL, GROUPS, LASTING, SOURCES, STRICT, WITHOUT_STORAGE_SCORES};

/// The initial time, in seconds since 1970.
const BEGINNING: i64 = 1_790_000_000;
/// Time after the last fault after which nothing waits for its consequences.
const RECOVERY: Duration = Duration::from_mins(2);
/// Maximum number of steps at one point of time; more means an endless loop.
const MOST_AT_ONCE: u32 = 10_000;
/// Number of trace lines in a violation.
const LAST_LINES: usize = 60;
/// Number of decisions between checks of incremental counts.
const RECOUNTS: u32 = 30;
/// Maximum time between the output of a request and its sending, in microseconds.
const MOST_BEFORE_SENDING: u64 = 300;
/// Maximum time after which a request of a killed process arrives, in milliseconds: later than a
/// standby takes over.
const LATEST_ARRIVAL: u64 = 40_000;
/// Maximum time for which a process is stopped, in milliseconds.
const LONGEST_PAUSE: u64 = 40_000;
/// Rate of decisions that are followed by another pod that takes room on the same node, in
/// thousandths.
const ROOM_TAKEN: u32 = 40;
/// Maximum time until it does, in microseconds.
const MOST_UNTIL_TAKEN: u64 = 60_000;

/// A future event. Events of a process that has ended are void, except requests in progress.
enum Event {
    /// The process sends a request.
    Leave { life: u32, source: RequestSource, request: Request },
    /// A request reaches an API server.
    Arrive { life: u32, source: RequestSource, request: Request, fate: Fate, server: usize },
    /// The outcome of a request reaches the scheduler.
    Learn { life: u32, source: RequestSource, id: RequestId, reply: Reply },
    /// A call of a reflector reaches an API server, or no longer waits for its cache.
    Call { life: u32, informer: usize, server: usize, call: Call, freshness: Option<Freshness> },
    /// Inputs about a call reach the reflector.
    Inputs { life: u32, informer: usize, inputs: Vec<Input<Update>> },
    /// The outcome of a call of an extender for which no decision waited reaches the scheduler.
    Probed { life: u32, extender: usize, outcome: Result<(), String> },
    /// The scheduler tries its next pod.
    Decide { life: u32 },
    /// The process is asked to end.
    Terminate { life: u32 },
    /// A user or another component acts.
    Churn,
    /// Another scheduler, or a static pod, takes room on a node.
    TakeRoom { seat: usize, node: Arc<str> },
    /// The kubelet rejects a pod that we bound.
    Reject { uid: String },
    /// A process starts in this seat.
    Start { seat: usize },
    /// An API server ends, and starts again after this time.
    StopApiServer { server: usize, downtime: Duration },
    /// An API server starts.
    StartApiServer { server: usize },
}

impl Event {
    /// Returns the process that acts. Events of a stopped process happen after its pause.
    const fn actor(&self) -> Option<u32> {
        match self {
            Self::Leave { life, .. }
            | Self::Learn { life, .. }
            | Self::Inputs { life, .. }
            | Self::Probed { life, .. }
            | Self::Terminate { life }
            | Self::Decide { life } => Some(*life),
            _ => None,
        }
    }
}

/// A bind that was refused.
struct Refused {
    /// UID of the pod.
    uid: String,
    /// The text of the answer, if it is certain.
    message: Option<String>,
}

/// Statistics of a simulation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary {
    /// Bindings that the server carried out.
    pub(crate) bound: usize,
    /// Processes that were killed.
    pub(crate) crashes: u32,
    /// Times that a process became the leader.
    pub(crate) terms: u32,
    /// Volumes that we reserved for claims or requested.
    pub(crate) given: usize,
    /// Requests with an unknown or misleading outcome for the sender.
    pub(crate) faults: u32,
    /// Bindings of killed processes that were carried out after the next process had started.
    pub(crate) late_binds: u32,
    /// Bindings of killed processes that were refused because their pods had changed.
    pub(crate) fenced_binds: u32,
    /// Pods that the server deleted as victims.
    pub(crate) evicted: usize,
    /// Pods that fit on no node in the end.
    pub(crate) pending: usize,
    /// Pods that changes requeued.
    pub(crate) wake_ups: WakeUps,
    /// Changes that were recorded and replayed.
    pub(crate) changes: u64,
    /// The size of the recordings, in bytes.
    pub(crate) recorded: usize,
    /// Faults and states.
    pub(crate) coverage: Coverage,
    /// A number that tells whether two runs were the same: every event and request went into it.
    pub(crate) fingerprint: u64,
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.bound += other.bound;
        self.crashes += other.crashes;
        self.terms += other.terms;
        self.given += other.given;
        self.faults += other.faults;
        self.late_binds += other.late_binds;
        self.fenced_binds += other.fenced_binds;
        self.evicted += other.evicted;
        self.pending += other.pending;
        self.wake_ups += other.wake_ups;
        self.changes += other.changes;
        self.recorded += other.recorded;
        self.coverage += other.coverage;
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }
}

/// The whole simulation.
pub(crate) struct World {
    seed: u64,
    now: Time,
    steps_at_once: u32,
    rng: Rng,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    network: Network,
    emphasis: Emphasis,
    server: Server,
    churn: Churn,
    seats: Seats,
    /// Whether the processes elect a leader.
    elects: bool,
    /// UIDs of pods that killed processes have bound while another one led, since the last
    /// decision.
    late_binds: BTreeSet<String>,
    /// Number of the process that decided last.
    last_to_decide: u32,
    /// Number of processes that have started.
    lives: u32,
    /// Whether users, nodes and other components do nothing but what they have to.
    is_calm: bool,
    /// Whether faults last, and progress is checked.
    endures: bool,
    /// The time from which a process may be killed or stopped with a bind.
    may_end_from: Time,
    /// The end of the last fault, once they do.
    calm_since: Option<Time>,
    /// The claims of pods that we bound.
    held: Held,
    /// The history of the Lease.
    leases: Leases,
    /// The gangs of the API server.
    gangs: Gangs,
    /// Activity that must have ended at rest.
    activity: Activity,
    /// Faults that last.
    troubles: Troubles,
    /// What the extender does, if there is one.
    extender: Option<Role>,
    /// The versions of pods that it has seen, by process.
    seen_by_extender: BTreeMap<(u32, Uid), u64>,
    progress: Progress,
    /// Binds that were refused and whose answers are under way, with the UIDs of their pods.
    refusals: BTreeMap<(u32, RequestId), Refused>,
    /// The recordings of processes that have ended.
    recordings: Vec<Recording>,
    /// Faults and states so far.
    coverage: Coverage,
    summary: Summary,
    trace: Trace,
}

/// Activity of the scheduler so far.
#[derive(Debug, Clone, Copy, Default)]
struct Activity {
    /// Writes for binding pods.
    writes: usize,
    /// Requested lists and watches.
    calls: usize,
}

/// The trace for violations.
struct Trace {
    print: bool,
    last: VecDeque<String>,
    /// The hash of everything so far.
    hasher: DefaultHasher,
}

impl World {
    /// Creates a world.
    pub(crate) fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let now = Time::from_secs(BEGINNING);
        let api_servers = [1, 2, 2, 3][rng.usize(..4)];
        let mut server = Server::new(rng.u64(..), api_servers, now);
        let emphasis = match seed {
            _ if seed.is_multiple_of(LASTING) || seed % GENERAL == 2 => {
                Emphasis::general(seed % DEVICES == 1)
            }
            _ if seed % GROUPS == 3 => Emphasis::with_groups(&mut rng),
            _ => Emphasis::swarm(&mut rng),
        };
        let mut churn = Churn::new(rng.fork(), emphasis.clone());
        if seed % SOURCES == 4 && !churn.has_devices() && !churn.has_groups() {
            churn.add_sources(seed);
        }
        churn.begin(&mut server, now);
        let replicas = [1, 1, 1, 2, 3][rng.usize(..5)];
        let elects = replicas > 1 || rng.bool();
        let seats = Seats::new((0..replicas).map(|_| Clock::new(&mut rng)));
        let extender = Role::any(&mut rng);
        let mut world = Self {
            seed,
            now,
            steps_at_once: 0,
            network: Network::bad(&mut rng, &emphasis),
            emphasis,
            rng,
            events: BTreeMap::new(),
            sequence: 0,
            server,
            churn,
            seats,
            elects,
            late_binds: BTreeSet::new(),
            last_to_decide: 0,
            lives: 0,
            is_calm: false,
            endures: false,
            may_end_from: now,
            calm_since: None,
            held: Held::default(),
            leases: Leases::default(),
            gangs: Gangs::default(),
            activity: Activity::default(),
            troubles: Troubles::default(),
            extender,
            seen_by_extender: BTreeMap::new(),
            progress: Progress::default(),
            refusals: BTreeMap::new(),
            recordings: Vec::new(),
            coverage: Coverage::default(),
            summary: Summary::default(),
            trace: Trace { print: trace, last: VecDeque::new(), hasher: DefaultHasher::new() },
        };
        for seat in 0..replicas {
            world.at(Duration::ZERO, Event::Start { seat });
        }
        world
    }

    /// Runs `steps` of churn, with faults.
    pub(crate) fn live_through(&mut self, steps: u32) -> Result<(), Violation> {
        for _ in 0..steps {
            let pause = self.churn.pause();
            self.at(pause, Event::Churn);
            let end = self.now + pause;
            self.run_until(end)?;
            if self.happens(Theme::Ends, 20) {
                let seat = self.rng.usize(..self.seats.len());
                match self.rng.u32(..3) {
                    0 => self.kill(seat),
                    1 => self.terminate(seat),
                    _ => self.pause(seat),
                }
            }
            self.troubles.end(self.now);
            if self.rng.u32(..1000) < 10 {
                self.network = Network::bad(&mut self.rng, &self.emphasis);
            }
            if self.happens(Theme::Servers, 5) {
                self.outage()?;
            }
            if self.happens(Theme::Troubles, 7) {
                self.trouble(0, 2);
            }
            if self.happens(Theme::Servers, 25) {
                self.fall_behind();
            }
            if self.happens(Theme::Servers, 4) {
                self.restart_api_servers();
            }
            if self.happens(Theme::Ends, 6) {
                self.cut_off();
            }
            if self.happens(Theme::Clocks, 10) {
                let seat = self.rng.usize(..self.seats.len());
                self.coverage.fired_at(Fault::ClockCorrected, seat);
                self.seats.at(seat).correct_clock(&mut self.rng);
            }
        }
        Ok(())
    }

    /// Decides whether a fault happens that usually does at this rate, in thousandths.
    fn happens(&mut self, theme: Theme, usual: u32) -> bool {
        self.emphasis.happens(theme, &mut self.rng, usual)
    }

    /// Makes the server unreachable or paused, for seconds or minutes.
    fn outage(&mut self) -> Result<(), Violation> {
        let (fault, outage) = match self.rng.bool() {
            true => (Fault::ServerDown, Network::down()),
            false => (Fault::ServerOverloaded, Network::overloaded()),
        };
        self.coverage.fired(fault);
        self.say(|| format!("{outage:?}"));
        let before = std::mem::replace(&mut self.network, outage);
        let longest = [3_000, 30_000, 120_000][self.rng.usize(..3)];
        let end = self.now + Duration::from_millis(self.rng.u64(..longest));
        // Others reach the server meanwhile.
        while self.now < end {
            let pause = self.churn.pause();
            self.at(pause, Event::Churn);
            self.run_until(end.min(self.now + pause))?;
        }
        self.network = before;
        self.say(|| "the network is back".to_owned());
        Ok(())
    }

    fn at(&mut self, pause: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + pause, self.sequence), event);
    }

    fn delay(&mut self) -> Duration {
        self.network.delay(&mut self.rng)
    }

    fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        loop {
            let event = self.events.first_key_value().map(|((time, _), _)| *time);
            let seats = self.seats.iter().filter_map(|seat| seat.next_deadline(self.now)).min();
            let deadlines = [
                event,
                seats,
                self.watches_due(),
                self.server.next_deadline(),
                self.server.api_servers.next_deadline(),
            ];
            let Some(next) = deadlines.into_iter().flatten().min().filter(|next| *next <= end)
            else {
                self.now = end;
                return Ok(());
            };
            self.steps_at_once = if next > self.now { 0 } else { self.steps_at_once + 1 };
            if self.steps_at_once > MOST_AT_ONCE {
                return Err(self.violation("time stands still"));
            }
            self.now = self.now.max(next);
            self.happen()?;
        }
    }

    /// Returns the time at which the server sends the next bookmark, or ends a watch. A stopped
    /// process reads nothing.
    fn watches_due(&self) -> Option<Time> {
        let running = self.seats.iter().filter(|seat| seat.stopped_until().is_none());
        let informers =
            running.filter_map(|seat| seat.replica.as_ref()).flat_map(|it| &it.informers);
        let streams = informers.filter_map(|informer| informer.stream.as_ref());
        streams.filter_map(|stream| self.server.store.watch_deadline(stream.watch)).min()
    }

    /// Runs the next event.
    fn happen(&mut self) -> Result<(), Violation> {
        let latest = self.server.store.resource_version();
        self.server.api_servers.advance(&mut self.rng, latest, self.now);
        self.tick().map_err(|text| self.violation(&text))?;
        if self.events.first_key_value().is_some_and(|((time, _), _)| *time <= self.now) {
            let (_, event) = self.events.pop_first().expect("there is one");
            self.take(event).map_err(|text| self.violation(&text))?;
        }
        self.server.step(self.now);
        for fault in self.server.fired.drain(..) {
            self.coverage.fired(fault);
        }
        self.pass_on().map_err(|text| self.violation(&text))?;
        if self.emphasis.has(Theme::Groups) {
            self.gangs.look(&self.server);
        }
        self.check().map_err(|text| self.violation(&text))
    }

    /// Carries out what is due in each process.
    fn tick(&mut self) -> rules::Checked {
        // A process takes in what waits for it before it looks at the time.
        let due = self.events.range(..=(self.now, u64::MAX));
        let inputs = due.filter(|(_, event)| {
            matches!(event, Event::Learn { .. } | Event::Inputs { .. } | Event::Probed { .. })
        });
        let busy: BTreeSet<u32> = inputs.filter_map(|(_, event)| event.actor()).collect();
        for seat in self.seats.iter_mut() {
            seat.resume(self.now);
            if busy.contains(&seat.life) {
                continue;
            }
            let is_due = seat.next_deadline(self.now).is_some_and(|deadline| deadline <= self.now);
            let now = seat.clock(self.now);
            if let Some(replica) = seat.replica.as_mut().filter(|_| is_due) {
                replica.tick(now)?;
            }
        }
        Ok(())
    }

    /// Checks the rules of every step.
    fn check(&mut self) -> rules::Checked {
        let leads = |seat: &&Seat| {
            let elector = seat.replica.as_ref().and_then(|own| own.scheduler.leader_elector());
            elector.is_some_and(|elector| elector.is_leader(seat.clock(self.now)))
        };
        let leaders: Vec<u32> = self.seats.iter().filter(leads).map(|seat| seat.life).collect();
        rules::rule(leaders.len() <= 1, || format!("processes {leaders:?} lead"))?;
        let has_recovered = self.calm_since.is_some_and(|since| self.now.since(since) > RECOVERY);
        for (number, seat) in self.seats.iter_mut().enumerate() {
            let now = seat.clock(self.now);
            let is_due = seat.next_deadline(self.now).is_some_and(|deadline| deadline <= self.now);
            let is_running = seat.stopped_until().is_none() && !is_due;
            let Some(replica) = &mut seat.replica else {
                self.coverage.see(number, States::default());
                continue;
            };
            self.coverage.see(number, States::of(replica, now));
            let engine = replica.scheduler.engine();
            rules::at_every_step(engine)?;
            replica.counts_agree()?;
            replica.explanations.permits(engine);
            replica.preemptions.no_pause_is_too_long(engine, now)?;
            rules::no_room_is_kept_in_vain(&self.server, engine)?;
            if is_running {
                rules::no_permit_is_overdue(engine, now)?;
                replica.no_call_waits_in_vain(now)?;
            }
            replica.failures.check(engine, is_running, now)?;
            seat.writes.keep_their_room(&self.server, engine)?;
            if is_running {
                seat.writes.are_reckoned_with(&self.server, engine, now)?;
                seat.writes.seek_no_known_outcome(engine, |pod| replica.shows_placed(pod))?;
            }
            if is_running && replica.is_quiet(now) {
                quiet::evictions_are_true(&self.server, replica)?;
                let engine = replica.scheduler.engine();
                quiet::nominations_are_true(&self.server, engine, &seat.writes)?;
                let version = self.server.store.resource_version();
                if seat.looked_at != version && !seat.allocations.are_open(&self.server, now) {
                    seat.looked_at = version;
                    quiet::devices_are_used(&self.server, replica)?;
                }
            }
            replica.no_volumes_are_kept(now)?;
            match has_recovered {
                true => replica.no_binding_waits_in_vain(now)?,
                false => replica.excuse_bindings(),
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        let seat = event.actor().and_then(|life| self.seats.of_life(life));
        if let Some(end) = seat.and_then(|seat| seat.stopped_until()) {
            self.at(end.since(self.now), event);
            return Ok(());
        }
        match event {
            Event::Leave { life, source, request } => self.leave(life, source, request)?,
            Event::Start { seat } => self.start(seat),
            Event::Churn => {
                let done = self.churn.step(&mut self.server, self.now);
                self.say(|| done);
            }
            Event::Arrive { life, source, request, fate, server } => {
                if self.server.api_servers.is_down(server) && !matches!(fate, Fate::Lingers(_)) {
                    let reply = match request.destination {
                        Destination::ApiServer => Reply::Lost("connection reset".to_owned()),
                        Destination::Extender(_) => {
                            answer_to(&request, 503, b"connection reset".to_vec())
                        }
                    };
                    self.at(Duration::ZERO, Event::Learn { life, source, id: request.id, reply });
                } else {
                    self.arrive(life, source, &request, fate)?;
                }
            }
            Event::Learn { life, source, id, reply } => self.learn(life, source, id, reply)?,
            Event::TakeRoom { seat, node } => {
                self.coverage.fired_at(Fault::RoomTaken, seat);
                let done = self.churn.take_room(&mut self.server, &node, self.now);
                self.say(|| done);
            }
            Event::Reject { uid } => {
                let done = self.churn.reject_pod(&mut self.server, &uid, self.now);
                self.say(|| done);
            }
            Event::Call { life, informer, server, call, freshness } => {
                self.call(life, informer, server, call, freshness);
            }
            Event::StopApiServer { server, downtime } => self.stop_api_server(server, downtime),
            Event::StartApiServer { server } => self.start_api_server(server),
            Event::Inputs { life, informer, inputs } => {
                let Some(seat) = self.seats.of_life(life) else { return Ok(()) };
                let now = seat.clock(self.now);
                if let Some(replica) = &mut seat.replica {
                    let informer = &mut replica.informers[informer];
                    for input in inputs {
                        informer.step(input, now)?;
                    }
                }
            }
            Event::Probed { life, extender, outcome } => {
                let Some(seat) = self.seats.of_life(life) else { return Ok(()) };
                let now = seat.clock(self.now);
                if let Some(replica) = &mut seat.replica {
                    replica.extender_probed(extender, outcome, now)?;
                }
            }
            Event::Decide { life } => self.decide(life)?,
            Event::Terminate { life } => self.ask_to_end(life)?,
        }
        Ok(())
    }

    /// Calls extenders for which no decision waits. An error is an answer, too.
    fn probe_extenders(&mut self, life: u32, extenders: Vec<usize>, fault: Option<Fault>) {
        for extender in extenders {
            let (pause, outcome) = match fault {
                Some(Fault::ExtenderHangs) => (extender::TIMEOUT, Err("timeout".to_owned())),
                _ => (self.delay(), Ok(())),
            };
            self.at(pause, Event::Probed { life, extender, outcome });
        }
    }

    fn start(&mut self, seat: usize) {
        self.lives += 1;
        let (life, seed) = (self.lives, self.rng.u64(..));
        self.say(|| format!("process {life} starts in seat {seat}"));
        let found = self.server.placed_pods().collect();
        let has_slots = self.seed.is_multiple_of(LASTING);
        let scores_storage = !self.seed.is_multiple_of(WITHOUT_STORAGE_SCORES);
        let (elects, extender, is_strict) = (self.elects, self.extender, self.is_strict());
        let has_groups = self.emphasis.has(Theme::Groups);
        let has_sources = self.churn.has_sources();
        let kind = Kind {
            elects,
            extender,
            has_slots,
            scores_storage,
            is_strict,
            has_groups,
            has_sources,
        };
        let seat = self.seats.at(seat);
        let now = seat.start_clock(self.now);
        seat.start(Replica::start(life, seed, kind, found, now));
    }

    /// Whether processes fence every pending pod before their first decision.
    const fn is_strict(&self) -> bool {
        self.seed.is_multiple_of(STRICT)
    }

    /// Takes a late bind of a killed process as that of another scheduler, if a bounded takeover
    /// may have given its room away.
    fn note_late_bind(&mut self, uid: &str) {
        let leads = self.seats.iter().any(|seat| {
            let replica = seat.replica.as_ref();
            replica.is_some_and(|own| own.scheduler.may_act(seat.clock(self.now)))
        });
        if leads {
            self.late_binds.insert(uid.to_owned());
        }
    }

    /// Takes late binds as those of another scheduler that a process does not know of while it
    /// decides.
    fn note_unknown_binds(&mut self, number: usize) {
        let Some(replica) = &self.seats.at(number).replica else { return };
        let world = replica.scheduler.engine().world();
        for uid in std::mem::take(&mut self.late_binds) {
            if world.placed(&Uid::from(&*uid)).is_none() {
                self.server.bound_by_us.remove(&uid);
            }
        }
    }

    /// Kills the process in a seat.
    fn kill(&mut self, seat: usize) {
        let life = self.seats.at(seat).life;
        if self.seats.at(seat).replica.is_some() {
            self.summary.crashes += 1;
            self.coverage.fired_at(Fault::ProcessKilled, seat);
            self.end(seat, "is killed");
            self.progress.disturbed(self.now);
            self.hold_up_requests(life);
        }
    }

    /// Lets requests of a killed process arrive late, some of them after the next process has
    /// started to schedule.
    fn hold_up_requests(&mut self, life: u32) {
        let is_theirs = |event: &mut Event| match event {
            Event::Arrive { life: sender, .. } => *sender == life,
            _ => false,
        };
        let held_up: Vec<_> = self.events.extract_if(.., |_, event| is_theirs(event)).collect();
        for (_, event) in held_up {
            let late = Duration::from_millis(self.rng.u64(..LATEST_ARRIVAL));
            self.at(late, event);
        }
    }

    /// Asks the process in a seat to end.
    fn terminate(&mut self, seat: usize) {
        let life = self.seats.at(seat).life;
        self.at(Duration::ZERO, Event::Terminate { life });
    }

    fn ask_to_end(&mut self, life: u32) -> Result<(), String> {
        let now = self.now;
        let Some(number) = self.seats.running(life) else { return Ok(()) };
        if self.seats.at(number).terminate(now)? {
            self.progress.disturbed(now);
            self.coverage.fired_at(Fault::ProcessTerminated, number);
            self.say(|| format!("process {life} is asked to end"));
        }
        Ok(())
    }

    /// Stops the process in a seat for a while.
    fn pause(&mut self, seat: usize) {
        let length = Duration::from_millis(self.rng.u64(..LONGEST_PAUSE));
        let until = self.now + length;
        self.coverage.fired_at(Fault::ProcessStopped, seat);
        self.progress.disturbed(self.now);
        let seat = self.seats.at(seat);
        let life = seat.life;
        seat.pause(until);
        self.say(|| format!("process {life} is stopped for {length:?}"));
    }

    /// Ends the process in a seat. Another one starts soon, while requests of the last one may be
    /// in progress.
    fn end(&mut self, seat: usize, how: &str) {
        let life = self.seats.at(seat).life;
        let Some(replica) = self.seats.at(seat).end() else { return };
        let unfinished = replica.scheduler.api_dispatcher().unfinished();
        self.say(|| format!("process {life} {how}, {unfinished} effects are unfinished"));
        self.gangs.process_ended();
        self.summary.wake_ups += replica.wake_ups;
        for stream in replica.informers.iter().filter_map(|informer| informer.stream.as_ref()) {
            self.server.store.close(stream.watch);
        }
        self.recordings.push(replica.into_recording());
        let pause = Duration::from_millis(1 + self.rng.u64(..5000));
        self.at(pause, Event::Start { seat });
    }

    /// Passes on everything that is ready.
    fn pass_on(&mut self) -> Result<(), String> {
        (0..self.seats.len()).try_for_each(|seat| self.pass_on_from(seat))
    }

    fn pass_on_from(&mut self, number: usize) -> Result<(), String> {
        let seat = self.seats.at(number);
        if seat.stopped_until().is_some() {
            return Ok(());
        }
        let Some(mut replica) = seat.replica.take() else { return Ok(()) };
        let now = seat.clock(self.now);
        let mut calls = Vec::new();
        replica.relist(now)?;
        replica.learn(&mut calls, now)?;
        for (informer, call) in calls {
            self.handle_output(number, &mut replica, informer, call);
        }
        let events = replica.scheduler.take_events();
        replica.explanations.are_told(&events, now)?;
        replica.preemptions.told(&events);
        for event in &events {
            self.seats.at(number).writes.announced(&self.server, event)?;
        }
        let mut requests = std::mem::take(&mut self.seats.at(number).held_back);
        let made = replica.take_requests(now)?;
        let wall = self.seats.at(number).wall(self.now);
        made.iter().try_for_each(|(_, request)| times::are_of_the_wall_clock(request, wall))?;
        requests.extend(made);
        let life = replica.life;
        for (source, request) in requests {
            let pause = Duration::from_micros(self.rng.u64(..MOST_BEFORE_SENDING));
            self.at(pause, Event::Leave { life, source, request });
        }
        for informer in 0..replica.informers.len() {
            self.deliver(&mut replica, informer);
        }
        for notice in replica.scheduler.take_notices() {
            self.summary.terms += u32::from(notice == Notice::StartedLeading);
            self.say(|| format!("{life} {notice:?}"));
        }
        let outcome = replica.scheduler.outcome();
        replica.farewell.is_kept(outcome.is_some())?;
        if outcome == Some(Outcome::Stopped) && self.leases.has_authority(self.now) {
            replica.farewell.leaves(life, leases::stored(&self.server).as_deref())?;
        }
        let has_ready = replica.scheduler.engine().queue().has_ready(now);
        let decides = (has_ready || replica.owes_reports()) && replica.scheduler.can_schedule(now);
        let seat = self.seats.at(number);
        seat.replica = Some(replica);
        if decides && !std::mem::replace(&mut seat.deciding, true) {
            let pause = Duration::from_micros(self.rng.u64(..2000));
            self.at(pause, Event::Decide { life });
        }
        let is_over = outcome.is_some() || self.seats.at(number).is_overdue(self.now);
        if outcome == Some(Outcome::Lost) {
            self.coverage.enter(State::Deposed);
        }
        if is_over {
            self.end(number, &format!("ends: {outcome:?}"));
        }
        Ok(())
    }

    fn decide(&mut self, life: u32) -> Result<(), String> {
        let Some(number) = self.seats.running(life) else { return Ok(()) };
        let seat = self.seats.at(number);
        let now = seat.clock(self.now);
        seat.deciding = false;
        let Some(replica) = &mut seat.replica else { return Ok(()) };
        let decided = replica.decide(self.troubles.of_extender(), now)?;
        let Some(Decided { attempt, preemption, extender, placed, group_victims }) = decided else {
            return Ok(());
        };
        if let Some((pod, version)) = &extender.seen {
            self.seen_by_extender.insert((life, pod.clone()), *version);
        }
        if extender.failures > 0
            && let Some(fault) = extender.fault
        {
            self.coverage.fired_at(fault, number);
        }
        // A pod that is assumed may come up once more and be skipped, in a later specification.
        if matches!(attempt.outcome, EngineOutcome::Assumed(_)) {
            seat.writes.decided(&attempt.pod);
        }
        placed.iter().for_each(|(own, _)| seat.writes.decided(&own.pod));
        if let Some((victims, priority)) = &group_victims {
            seat.writes.group_preempts(victims, *priority);
        }
        self.last_to_decide = life;
        self.note_unknown_binds(number);
        let seat = self.seats.at(number);
        let Some(replica) = &mut seat.replica else { return Ok(()) };
        if let Some(group) = attempt.pod.pod_group().filter(|_| !placed.is_empty()) {
            let cluster = replica.scheduler.engine().cluster();
            self.gangs.decided(&group, cluster.pod_group(&group).map(|known| &**known));
        }
        seat.beside.extend(placed.into_iter().map(|(own, beside)| (own.pod.uid.clone(), beside)));
        match &attempt.outcome {
            EngineOutcome::Assumed(node) => {
                self.progress.attempted(&attempt.pod.uid.to_string());
                if !self.is_calm && self.emphasis.happens(Theme::Foreign, &mut self.rng, ROOM_TAKEN)
                {
                    let soon = Duration::from_micros(self.rng.u64(..MOST_UNTIL_TAKEN));
                    let event = Event::TakeRoom { seat: number, node: node.clone() };
                    self.sequence += 1;
                    self.events.insert((self.now + soon, self.sequence), event);
                }
            }
            _ => self.progress.rejected(&attempt.pod.uid.to_string()),
        }
        seat.volumes.decided(&attempt, &replica.related);
        if let Some(preemption) = preemption {
            seat.writes.preempts(&preemption, attempt.pod.priority());
        }
        rules::before_decisions(&self.server, replica)?;
        if self.rng.u32(..RECOUNTS) == 0 {
            replica.counts_are_right(now)?;
        }
        if !extender.blocked.is_zero() {
            // The requests of the decision count from its beginning, and are sent at its end.
            let requests = replica.take_requests(now)?;
            seat.held_back.extend(requests);
            seat.pause(self.now + extender.blocked);
        }
        self.probe_extenders(life, extender.probed, extender.fault);
        self.say(|| format!("{life} {}: {:?}", attempt.pod.key, attempt.outcome));
        Ok(())
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let elapsed = self.now.since(Time::from_secs(BEGINNING));
        let line = format!("{elapsed:>12.3?} {}", line());
        line.hash(&mut self.trace.hasher);
        if self.trace.print {
            eprintln!("{line}");
        }
        if self.trace.last.len() == LAST_LINES {
            self.trace.last.pop_front();
        }
        self.trace.last.push_back(line);
    }

    /// Replays the recordings of all processes.
    ///
    /// # Errors
    /// An engine that gets the same decides otherwise.
    pub(crate) fn replay_recordings(&mut self) -> Result<(), Violation> {
        for seat in self.seats.iter_mut() {
            if let Some(replica) = seat.end() {
                self.summary.wake_ups += replica.wake_ups;
                self.recordings.push(replica.into_recording());
            }
        }
        for recording in std::mem::take(&mut self.recordings) {
            let changes = recording.replays();
            let changes = changes.map_err(|text| self.violation(&format!("replay: {text}")))?;
            self.summary.changes += changes;
            self.summary.recorded += recording.size();
        }
        Ok(())
    }

    /// Returns what has happened.
    pub(crate) fn into_summary(self) -> Summary {
        let Self { mut summary, coverage, seats, trace, .. } = self;
        for replica in seats.iter().filter_map(|seat| seat.replica.as_ref()) {
            summary.wake_ups += replica.wake_ups;
        }
        Summary { coverage, fingerprint: trace.hasher.finish(), ..summary }
    }

    /// Returns the violation of a rule at this time.
    pub(crate) fn violation(&self, text: &str) -> Violation {
        Violation {
            seed: self.seed,
            text: text.to_owned(),
            trace: self.trace.last.iter().cloned().collect(),
        }
    }
}
