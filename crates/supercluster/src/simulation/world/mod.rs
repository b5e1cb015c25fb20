//! The world of a simulation: events in virtual time.

mod agents;
mod deletions;
mod measurements;
mod mirror;
mod schedulers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use engine::{Change, EffectId};
use fastrand::Rng;
use framework::{Node, Pod, PodKey, Time, Uid};

use self::mirror::{Deletion, Errand, ErrandAnswer, ErrandId};
use self::schedulers::Note;
use super::checks::Checks;
use super::leases::Leases;
use super::measure::{Costs, Measurement, Report};
use super::originals::{Original, Originals};
use super::servers::{
    ManagementOutcome, ManagementServer, ManagementWrite, MemberAnswer, MemberOperation,
    MemberOutcome, MemberPod, MemberServer, Servers, Work,
};
use super::{AGENT_PROFILE, SCHEDULER_NAME, Settings, engine};
use crate::agent::{self, Agent, AgentConfig, DelegateTable};
use crate::message::{DelegateEvent, DelegateList, Request, Response};
use crate::mirror::Mirror;
use crate::scheduler::{self, LeaseAnswer, LeaseOperation, OriginalPod, Scheduler};

/// Time after which a client takes an answer of an API server as lost.
const API_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time that a bound delegate takes to end.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// Time passes from one tick to the next.
const SHORTEST_TICK: Duration = Duration::from_micros(100);

/// The part of an agent that waits for the answer of the member's API server.
#[derive(Debug, Clone, Copy)]
enum Asker {
    Agent(agent::WriteId),
    Engine(EffectId),
}

/// An asker, and the life of its agent in which it waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    life: u32,
    asker: Asker,
}

/// Where the answer of an agent goes.
#[derive(Debug, Clone)]
enum Caller {
    Scheduler {
        scheduler: usize,
        life: u32,
        call: scheduler::CallId,
    },
    /// A mirror, which seals attempts.
    Mirror(ErrandId),
}

/// The part of a scheduler that waits for the answer of the API server of the management cluster.
#[derive(Debug)]
enum Writer {
    Scheduler { scheduler: usize, life: u32, id: scheduler::WriteId },
    Mirror(ErrandId),
}

/// The state that the watches of an agent show.
#[derive(Debug)]
enum Watched {
    Changed(MemberPod),
    Deleted(MemberPod),
    Event(Uid, DelegateEvent),
}

#[derive(Debug)]
enum Event {
    /// A pod is created.
    Arrival(Pod),
    /// A request arrives at an agent.
    Request {
        cluster: usize,
        caller: Caller,
        request: Request,
    },
    /// A mirror asks an agent for its delegates, and has the answer.
    List {
        scheduler: usize,
        life: u32,
        cluster: usize,
    },
    Listed {
        scheduler: usize,
        life: u32,
        cluster: usize,
        list: Option<DelegateList>,
    },
    /// A mirror may have work to do.
    Look {
        scheduler: usize,
        life: u32,
    },
    /// A mirror writes to the management cluster.
    ErrandWrite {
        id: Option<ErrandId>,
        write: ManagementWrite,
    },
    /// The request of a mirror to delete a delegate arrives at an agent.
    DelegateDeletion {
        cluster: usize,
        id: ErrandId,
        deletion: Deletion,
    },
    /// The answer to a mirror arrives, or is lost.
    Errand {
        id: ErrandId,
        answer: ErrandAnswer,
    },
    /// An answer arrives at a scheduler.
    Response {
        scheduler: usize,
        life: u32,
        call: scheduler::CallId,
        response: Response,
    },
    /// An agent or a scheduler has finished a piece of work.
    AgentFree(usize),
    SchedulerFree(usize),
    /// An operation reaches the API server of a member. `asker` is `None` if its client has given
    /// up.
    Operation {
        cluster: usize,
        life: u32,
        asker: Option<Asker>,
        operation: MemberOperation,
    },
    /// The changes in the API server of a member since `at` are applied.
    Operated {
        cluster: usize,
        at: Time,
        asker: Option<Waiting>,
        work: Work<MemberOutcome>,
    },
    Answer {
        cluster: usize,
        life: u32,
        asker: Asker,
        answer: MemberAnswer,
    },
    Watch {
        cluster: usize,
        life: u32,
        watched: Watched,
    },
    /// The same for the management cluster.
    Write {
        scheduler: usize,
        life: u32,
        id: Option<scheduler::WriteId>,
        write: ManagementWrite,
    },
    Managed {
        at: Time,
        uid: Uid,
        note: Option<Note>,
        writer: Option<Writer>,
        work: Work<ManagementOutcome>,
    },
    Written {
        scheduler: usize,
        life: u32,
        id: scheduler::WriteId,
        answer: scheduler::WriteAnswer,
    },
    Shown {
        scheduler: usize,
        life: u32,
        original: Result<Box<OriginalPod>, (PodKey, Uid)>,
    },
    /// The same for the Leases of clusters.
    LeaseWrite {
        scheduler: usize,
        life: u32,
        id: Option<scheduler::WriteId>,
        cluster: Arc<str>,
        operation: LeaseOperation,
    },
    LeaseAnswered {
        scheduler: usize,
        life: u32,
        id: scheduler::WriteId,
        answer: LeaseAnswer,
    },
    /// The containers of a pod that was deleted have ended.
    Ended {
        cluster: usize,
        pod: PodKey,
        uid: Uid,
    },
    /// Another member is drained, or none.
    Drain,
    /// A member is cut off, or reached again.
    Cut(usize),
    Mend(usize),
    AgentTick {
        cluster: usize,
        life: u32,
    },
    SchedulerTick {
        scheduler: usize,
        life: u32,
    },
    StopAgent(usize),
    StartAgent(usize),
    StopScheduler(usize),
    StartScheduler(usize),
    ForeignPod,
    /// An original is deleted.
    Deletion,
}

struct Entry {
    time: Time,
    number: u64,
    event: Box<Event>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

/// A member cluster.
struct Member {
    nodes: Vec<Node>,
    server: Box<dyn MemberServer>,
    /// The pods as the API server has shown them.
    pods: BTreeMap<PodKey, MemberPod>,
    /// When each lease was renewed, as the agent has stored it.
    renewed: BTreeMap<Arc<str>, Time>,
    /// `None` while the agent is down.
    agent: Option<Agent>,
    life: u32,
    /// Whether no message reaches it or leaves it.
    is_cut: bool,
    /// Requests that wait while the agent works.
    waiting: VecDeque<(Caller, Request)>,
    is_busy: bool,
    /// The requests that the agent answers later.
    callers: HashMap<agent::CallId, Caller>,
    next_call: u64,
    last_shown: Time,
    tick: Option<Time>,
    /// The delegates that the agent's watch has shown.
    delegates: DelegateTable,
}

/// A scheduler.
struct Seat {
    scheduler: Option<Scheduler>,
    mirror: Option<Mirror>,
    /// The answers for which the mirror waits, by pod.
    errands: BTreeMap<Uid, Errand>,
    /// The time at which the mirror looks next.
    look: Option<Time>,
    life: u32,
    waiting: VecDeque<(scheduler::CallId, Response)>,
    is_busy: bool,
    last_shown: Time,
    tick: Option<Time>,
}

/// A pod that is not placed at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its name.
    pub pod: PodKey,
    /// Its condition, or what a scheduler does about it.
    pub explanation: Option<String>,
}

/// Schedulers, agents and API servers.
pub struct World {
    settings: Settings,
    rng: Rng,
    now: Time,
    events: BinaryHeap<Reverse<Entry>>,
    next_event: u64,
    members: Vec<Member>,
    seats: Vec<Seat>,
    management: Box<dyn ManagementServer>,
    /// Time after which the work of an API server is taken in, if the roles go on meanwhile.
    lead: Option<Duration>,
    originals: Originals,
    leases: Leases,
    checks: Checks,
    measurement: Measurement,
    /// Bound pods in the order of their binds.
    bound: VecDeque<(usize, PodKey, Arc<str>)>,
    retired: scheduler::Stats,
    arrivals: usize,
    /// Number of pods that have arrived or are going to.
    planned: usize,
    foreign: u64,
    /// Whether schedulers have mirrors: pods are deleted, or may be replaced.
    has_mirror: bool,
    /// The member that is drained.
    draining: Option<usize>,
    next_errand: u64,
    status_writes: u64,
    writes: u64,
    /// Reads the real time, for measurements.
    stopwatch: Option<fn() -> Duration>,
    costs: Costs,
}

fn with_ports<T>(run: impl FnOnce(&mut Ports<'_>) -> T) -> T {
    run(&mut Ports { extenders: &mut (), probe: &mut () })
}

/// Setting up.
impl World {
    /// Creates clusters with these nodes, models of their API servers, their agents, and the
    /// schedulers.
    pub fn new(settings: Settings, clusters: Vec<Vec<Node>>) -> Self {
        let servers = Servers::models(clusters.len(), settings.mirrors);
        Self::with_servers(settings, clusters, servers)
    }

    /// Creates the same with these API servers, of as many members as there are clusters. They have
    /// no pods.
    pub fn with_servers(settings: Settings, clusters: Vec<Vec<Node>>, servers: Servers) -> Self {
        let mut world = Self {
            rng: Rng::with_seed(settings.seed),
            now: Time::from_secs(1_000),
            events: BinaryHeap::new(),
            next_event: 0,
            members: Vec::new(),
            seats: Vec::new(),
            management: servers.management,
            lead: servers.are_beside.then(|| settings.latencies.shortest_of_servers()),
            originals: Originals::new(),
            leases: Leases::default(),
            checks: Checks::default(),
            measurement: Measurement::default(),
            bound: VecDeque::new(),
            retired: scheduler::Stats::default(),
            arrivals: 0,
            planned: 0,
            foreign: 0,
            has_mirror: settings.mirrors,
            draining: None,
            next_errand: 0,
            status_writes: 0,
            writes: 0,
            stopwatch: None,
            costs: Costs::default(),
            settings,
        };
        for (cluster, (nodes, server)) in clusters.into_iter().zip(servers.members).enumerate() {
            nodes.iter().for_each(|node| world.checks.add_node(cluster, node));
            world.members.push(Member {
                nodes,
                server,
                pods: BTreeMap::new(),
                renewed: BTreeMap::new(),
                agent: None,
                life: 0,
                is_cut: false,
                waiting: VecDeque::new(),
                is_busy: false,
                callers: HashMap::new(),
                next_call: 0,
                last_shown: Time::ZERO,
                tick: None,
                delegates: DelegateTable::default(),
            });
            world.start_agent(cluster);
        }
        for seat in 0..world.settings.schedulers {
            let (waiting, last_shown) = (VecDeque::new(), Time::ZERO);
            world.seats.push(Seat {
                scheduler: None,
                mirror: None,
                errands: BTreeMap::new(),
                look: None,
                life: 0,
                waiting,
                is_busy: false,
                last_shown,
                tick: None,
            });
            world.start_scheduler(seat);
        }
        world.plan_restarts();
        world
    }

    /// Creates a pod at this time after the start. Its scheduler name is replaced.
    pub fn arrive(&mut self, mut pod: Pod, after: Duration) {
        if *pod.spec.scheduler_name != *SCHEDULER_NAME {
            Arc::make_mut(&mut pod.spec).scheduler_name = SCHEDULER_NAME.into();
        }
        self.planned += 1;
        self.push(Time::from_secs(1_000) + after, Event::Arrival(pod));
    }

    fn plan_restarts(&mut self) {
        for cluster in 0..self.members.len() {
            self.plan(self.settings.faults.agent_restarts, Event::StopAgent(cluster));
            self.plan(self.settings.faults.cuts, Event::Cut(cluster));
        }
        self.plan(self.settings.faults.drains, Event::Drain);
        for seat in 0..self.seats.len() {
            self.plan(self.settings.faults.scheduler_restarts, Event::StopScheduler(seat));
        }
        self.plan(self.settings.faults.foreign_pods, Event::ForeignPod);
        self.plan(self.settings.faults.deletions, Event::Deletion);
    }

    fn plan(&mut self, mean: Option<Duration>, event: Event) {
        if let Some(mean) = mean {
            let wait = mean.mul_f64(0.1 + 1.8 * self.rng.f64());
            self.push(self.now + wait, event);
        }
    }

    fn push(&mut self, time: Time, event: Event) {
        self.next_event += 1;
        self.events.push(Reverse(Entry { time, number: self.next_event, event: Box::new(event) }));
    }

    fn start_agent(&mut self, cluster: usize) {
        let member = &mut self.members[cluster];
        member.life += 1;
        let incarnation = format!("c{cluster}-{}", member.life);
        let mut config = AgentConfig::new(&format!("id-{cluster}"), &incarnation, AGENT_PROFILE);
        config.seed = self.settings.seed ^ ((cluster as u64) << 32) ^ u64::from(member.life);
        config.renewed = member.renewed.clone();
        let mut agent = Agent::new(config.clone(), engine(AGENT_PROFILE, config.seed));
        let now = self.now;
        with_ports(|ports| {
            for node in &member.nodes {
                agent.apply(Change::Node(node.clone()), None, now, ports);
            }
            for MemberPod { pod, mark, .. } in member.pods.values() {
                agent.apply(Change::Pod(Box::new((**pod).clone())), mark.as_ref(), now, ports);
            }
        });
        agent.set_synced();
        member.agent = Some(agent);
        if self.has_mirror {
            self.members[cluster].delegates = DelegateTable::default();
            let pods: Vec<MemberPod> = self.members[cluster].pods.values().cloned().collect();
            for pod in pods {
                self.show_delegate(cluster, &Watched::Changed(pod));
            }
        }
        self.after_agent(cluster);
    }

    fn start_scheduler(&mut self, seat: usize) {
        self.seats[seat].life += 1;
        let mut config = self.settings.scheduler.clone();
        config.name = format!("s{seat}").into();
        config.turn = match self.settings.shared_pods {
            true => (seat as u64, self.settings.schedulers as u64),
            false => (0, 1),
        };
        config.seed = self.settings.seed ^ ((seat as u64) << 40) ^ u64::from(self.seats[seat].life);
        config.origin = self.has_mirror.then(|| "management".into());
        if let Some(drained) = self.draining {
            config.clusters[drained].closed = Some("it is drained".into());
        }
        let mut scheduler = Scheduler::new(config.clone(), engine(SCHEDULER_NAME, config.seed));
        let is_visible =
            |own: &&Original| !own.is_terminating() && own.owner.is_none_or(|owner| owner == seat);
        for original in self.originals.values().filter(is_visible) {
            with_ports(|ports| scheduler.original(original.pod.clone(), self.now, ports));
        }
        self.seats[seat].scheduler = Some(scheduler);
        self.start_mirror(seat, &config);
        self.after_scheduler(seat);
    }
}

/// Running.
impl World {
    /// Runs until all pods are placed, or until this time after the start.
    pub fn run(&mut self, limit: Duration) {
        self.run_until(Time::from_secs(1_000) + limit, true);
    }

    /// Runs for this time, whether pods are left to be placed or not.
    pub fn run_on(&mut self, time: Duration) {
        self.run_until(self.now + time, false);
    }

    fn run_until(&mut self, end: Time, ends_when_placed: bool) {
        while let Some(Reverse(entry)) = self.events.pop() {
            if entry.time > end {
                self.events.push(Reverse(entry));
                break;
            }
            self.now = entry.time.max(self.now);
            self.handle(*entry.event);
            if ends_when_placed && self.checks.bound_pods() >= self.planned {
                break;
            }
        }
    }

    /// Lets everything that is under way arrive, without further faults.
    pub fn calm(&mut self, time: Duration) {
        self.settings.faults = super::Faults::default();
        for cluster in 0..self.members.len() {
            if self.members[cluster].agent.is_none() {
                self.start_agent(cluster);
            }
        }
        self.members.iter_mut().for_each(|member| member.is_cut = false);
        self.drain(None);
        for seat in 0..self.seats.len() {
            if self.seats[seat].scheduler.is_none() {
                self.start_scheduler(seat);
            }
        }
        let end = self.now + time;
        self.run_until(end, false);
        self.now = end;
    }

    /// Returns the numbers of all schedulers.
    pub fn stats(&self) -> scheduler::Stats {
        let mut stats = self.retired;
        for scheduler in self.seats.iter().filter_map(|seat| seat.scheduler.as_ref()) {
            add(&mut stats, &scheduler.stats());
        }
        stats
    }

    /// Returns the result.
    pub fn report(&self, wall: Duration) -> Report {
        let stats = self.stats();
        let measured = &self.measurement;
        let share = |part: u64, whole: u64| round(part as f64 / whole.max(1) as f64);
        let began = measured.first_arrival.unwrap_or(Time::ZERO);
        let took = measured.last_bind.since(began).as_secs_f64();
        let windows = measured.windows.max(1);
        Report {
            bound: self.checks.bound_pods(),
            pods_per_s: round(self.checks.bound_pods() as f64 / took.max(1e-9)),
            commits: stats.commits,
            conflicts: stats.conflicts,
            conflict_share: share(stats.failed_rounds, stats.rounds),
            regret_mean: round(measured.sample_regret.of_milli()),
            overcommitted: self.checks.overcommitted,
            bound_twice: self.checks.bound_twice,
            bound_in_vain: self.checks.bound_in_vain,
            writes: self.writes,
            wall_s: round(wall.as_secs_f64()),
            first_conflict_share: share(stats.first_conflicts, stats.rounds),
            others_in_window: round(measured.others as f64 / windows as f64),
            window_ms: round(measured.window.as_secs_f64() * 1e3 / windows as f64),
            commit_regret_mean: round(measured.commit_regret.of_milli()),
            decisions: stats.rounds,
            virtual_s: round(took),
        }
    }

    /// Returns the pods that are not placed, with what is known about them.
    pub fn pending(&self) -> Vec<Pending> {
        let waits = |own: &Original| own.pod.placement.is_none() && !own.is_terminating();
        let all = self.originals.iter().filter(|(_, own)| waits(own));
        let mut pending: Vec<Pending> = all
            .map(|(uid, own)| {
                let schedulers = self.seats.iter().filter_map(|seat| seat.scheduler.as_ref());
                let doing = schedulers.filter_map(|scheduler| scheduler.explain(uid)).next();
                Pending { pod: own.key().clone(), explanation: own.condition.clone().or(doing) }
            })
            .collect();
        pending.sort_unstable_by(|one, other| one.pod.cmp(&other.pod));
        pending
    }

    /// Returns what is wrong at rest: placements without their delegate, and delegates without a
    /// placement.
    pub fn differences(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut placed: BTreeMap<String, String> = BTreeMap::new();
        for (uid, own) in &self.originals {
            if let Some(placement) = &own.pod.placement {
                placed.insert(uid.to_string(), placement.committed.uid.to_string());
            }
        }
        for (cluster, member) in self.members.iter().enumerate() {
            for MemberPod { pod, mark, .. } in member.pods.values() {
                let Some(mark) = mark else { continue };
                let is_placed = placed.get(&*mark.key.pod) == Some(&pod.uid.to_string());
                if pod.node_name.is_none() {
                    wrong.push(format!("c{cluster}: delegate {} is not bound", pod.key));
                } else if !is_placed {
                    wrong.push(format!("c{cluster}: delegate {} is not recorded", pod.key));
                } else {
                    placed.remove(&*mark.key.pod);
                }
            }
            let agent = member.agent.as_ref().map(|agent| agent.engine().world().assumed_count());
            if agent.is_some_and(|assumed| assumed > 0) {
                wrong.push(format!("c{cluster}: room is held for nothing"));
            }
        }
        wrong.extend(placed.keys().map(|uid| format!("no delegate of {uid} runs")));
        if self.has_mirror && self.settings.kubelets {
            wrong.extend(self.originals.values().filter_map(Original::wrong_status));
        }
        wrong
    }

    /// Number of statuses that mirrors have written.
    pub const fn status_writes(&self) -> u64 {
        self.status_writes
    }

    /// Measures the real time of the work of each kind with this clock.
    pub fn measure_costs(&mut self, stopwatch: fn() -> Duration) {
        self.stopwatch = Some(stopwatch);
    }

    /// Returns the real time of the work of each kind, if it is measured.
    pub const fn costs(&self) -> Costs {
        self.costs
    }

    /// Number of originals whose placement is written.
    pub fn placed(&self) -> usize {
        self.originals.values().filter(|own| own.pod.placement.is_some()).count()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival(pod) => self.arrived(pod),
            Event::Request { cluster, caller, request } => {
                self.members[cluster].waiting.push_back((caller, request));
                self.work_of_agent(cluster);
            }
            Event::Response { scheduler, life, call, response } => {
                let seat = &mut self.seats[scheduler];
                if seat.life == life && seat.scheduler.is_some() {
                    seat.waiting.push_back((call, response));
                    self.work_of_scheduler(scheduler);
                }
            }
            Event::AgentFree(cluster) => {
                self.members[cluster].is_busy = false;
                self.work_of_agent(cluster);
            }
            Event::SchedulerFree(seat) => {
                self.seats[seat].is_busy = false;
                self.work_of_scheduler(seat);
            }
            Event::Operation { cluster, life, asker, operation } => {
                self.operate_member(cluster, operation, asker.map(|asker| Waiting { life, asker }));
            }
            Event::Operated { cluster, at, asker, work } => {
                self.operated(cluster, at, asker, work);
            }
            Event::Answer { cluster, life, asker, answer } => {
                self.with_agent(cluster, life, |agent, now, ports| match (asker, answer) {
                    (Asker::Agent(id), MemberAnswer::Agent(answer)) => {
                        agent.write_answered(id, answer, now, ports);
                    }
                    (Asker::Engine(id), MemberAnswer::Engine(answer)) => {
                        agent.effect_answered(id, &answer, now, ports);
                    }
                    _ => {}
                });
            }
            Event::Watch { cluster, life, watched } => {
                if self.has_mirror && self.members[cluster].life == life {
                    self.show_delegate(cluster, &watched);
                }
                self.with_agent(cluster, life, |agent, now, ports| match watched {
                    Watched::Changed(MemberPod { pod, mark, .. }) => {
                        let change = Change::Pod(Box::new(Arc::unwrap_or_clone(pod)));
                        agent.apply(change, mark.as_ref(), now, ports);
                    }
                    Watched::Deleted(MemberPod { pod, mark, .. }) => {
                        let (key, uid) = (pod.key.clone(), pod.uid.clone());
                        agent.apply(Change::PodDeleted { key, uid }, mark.as_ref(), now, ports);
                    }
                    Watched::Event(..) => {}
                });
            }
            Event::Write { scheduler, life, id, write } => {
                self.manage(write, id.map(|id| Writer::Scheduler { scheduler, life, id }));
            }
            Event::Managed { at, uid, note, writer, work } => {
                self.managed(at, &uid, note, writer, work);
            }
            Event::Written { scheduler, life, id, answer } => {
                self.with_scheduler(scheduler, life, |scheduler, now, ports| {
                    scheduler.written(id, answer, now, ports);
                });
            }
            Event::Shown { scheduler, life, original } => {
                self.shown_to(scheduler, life, original);
            }
            Event::LeaseWrite { scheduler, life, id, cluster, operation } => {
                self.write_lease(scheduler, life, id, &cluster, &operation);
            }
            Event::LeaseAnswered { scheduler, life, id, answer } => {
                self.with_scheduler(scheduler, life, |scheduler, now, ports| {
                    scheduler.lease_answered(id, answer, now, ports);
                });
            }
            Event::Ended { cluster, pod, uid } => {
                self.operate_member(cluster, MemberOperation::Remove { pod, uid }, None);
            }
            Event::List { scheduler, life, cluster } => self.list(scheduler, life, cluster),
            Event::Listed { scheduler, life, cluster, list } => {
                self.listed(scheduler, life, cluster, list);
            }
            Event::Look { scheduler, life } => {
                if self.seats[scheduler].life == life {
                    let now = self.now;
                    self.seats[scheduler].look.take_if(|look| *look <= now);
                    self.work_of_mirror(scheduler);
                }
            }
            Event::ErrandWrite { id, write } => self.manage(write, id.map(Writer::Mirror)),
            Event::DelegateDeletion { cluster, id, deletion } => {
                self.delete_delegate(cluster, id, &deletion);
            }
            Event::Errand { id, answer } => self.errand_answered(id, answer),
            Event::Drain => {
                let member = self.rng.usize(..=self.members.len());
                self.drain(Some(member).filter(|member| *member < self.members.len()));
                self.plan(self.settings.faults.drains, Event::Drain);
            }
            Event::Cut(cluster) => {
                self.members[cluster].is_cut = self.settings.faults.cuts.is_some();
                let time = self.settings.faults.longest_cut.mul_f64(self.rng.f64());
                self.push(self.now + time, Event::Mend(cluster));
            }
            Event::Mend(cluster) => {
                self.members[cluster].is_cut = false;
                self.plan(self.settings.faults.cuts, Event::Cut(cluster));
            }
            Event::AgentTick { cluster, life } => {
                if self.members[cluster].life == life {
                    self.members[cluster].tick = None;
                }
                self.with_agent(cluster, life, |agent, now, ports| agent.tick(now, ports));
            }
            Event::SchedulerTick { scheduler, life } => {
                if self.seats[scheduler].life == life {
                    self.seats[scheduler].tick = None;
                }
                self.with_scheduler(scheduler, life, |scheduler, now, ports| {
                    scheduler.tick(now, ports);
                });
            }
            Event::StopAgent(cluster) => self.stop_agent(cluster),
            Event::StartAgent(cluster) => {
                if self.members[cluster].agent.is_none() {
                    self.start_agent(cluster);
                }
                self.plan(self.settings.faults.agent_restarts, Event::StopAgent(cluster));
            }
            Event::StopScheduler(seat) => self.stop_scheduler(seat),
            Event::StartScheduler(seat) => {
                if self.seats[seat].scheduler.is_none() {
                    self.start_scheduler(seat);
                }
                self.plan(self.settings.faults.scheduler_restarts, Event::StopScheduler(seat));
            }
            Event::ForeignPod => self.add_foreign_pod(),
            Event::Deletion => self.delete_some_pod(),
        }
    }

    fn arrived(&mut self, pod: Pod) {
        self.measurement.first_arrival.get_or_insert(self.now);
        let owner = (!self.settings.shared_pods).then_some(self.arrivals % self.seats.len().max(1));
        self.arrivals += 1;
        let now = self.now;
        let created = self.timed(|costs| &mut costs.servers, |own| own.management.create(pod, now));
        self.writes += 1;
        self.management_changed(created, owner, now);
    }

    /// Measures work of a kind.
    fn timed<T>(
        &mut self,
        kind: impl FnOnce(&mut Costs) -> &mut Duration,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let Some(stopwatch) = self.stopwatch else { return work(self) };
        let begun = stopwatch();
        let result = work(self);
        *kind(&mut self.costs) += stopwatch().saturating_sub(begun);
        result
    }

    fn stop_agent(&mut self, cluster: usize) {
        if self.settings.faults.agent_restarts.is_none() {
            return;
        }
        let member = &mut self.members[cluster];
        (member.agent, member.is_busy, member.tick) = (None, false, None);
        member.waiting.clear();
        member.callers.clear();
        let down = self.settings.faults.longest_restart.mul_f64(self.rng.f64());
        self.push(self.now + down, Event::StartAgent(cluster));
    }

    fn stop_scheduler(&mut self, seat: usize) {
        if self.settings.faults.scheduler_restarts.is_none() {
            return;
        }
        let own = &mut self.seats[seat];
        if let Some(scheduler) = own.scheduler.take() {
            add(&mut self.retired, &scheduler.stats());
        }
        (own.mirror, own.look) = (None, None);
        own.errands.clear();
        (own.is_busy, own.tick) = (false, None);
        own.waiting.clear();
        let down = self.settings.faults.longest_restart.mul_f64(self.rng.f64());
        self.push(self.now + down, Event::StartScheduler(seat));
    }

    /// Another scheduler puts a small pod on a node that has room, as the API server shows it.
    fn add_foreign_pod(&mut self) {
        self.plan(self.settings.faults.foreign_pods, Event::ForeignPod);
        if self.settings.faults.foreign_pods.is_none() {
            return;
        }
        let cluster = self.rng.usize(..self.members.len());
        let Some(node) = self.rng.choice(&self.members[cluster].nodes) else { return };
        let node = node.name.clone();
        self.foreign += 1;
        let mut pod = Pod::from_api(&framework::api::Pod::default());
        pod.key = PodKey::new("foreign", &format!("f{}", self.foreign));
        pod.uid = Uid::from(&*format!("foreign-{}", self.foreign));
        let mut requests = framework::PodRequests::clone(&pod.requests);
        (requests.placed.milli_cpu, requests.fit.milli_cpu) = (500, 500);
        pod.requests = Arc::new(requests);
        pod.node_name = Some(node);
        self.operate_member(cluster, MemberOperation::CreateBound(Box::new(pod)), None);
    }
}

/// The network.
impl World {
    /// Returns a time around this one: between half of it and one and a half.
    fn around(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(0.5 + self.rng.f64())
    }

    /// Sends a message between a scheduler and the agent of a cluster.
    fn send(&mut self, cluster: usize, work: Duration, event: impl Fn() -> Event) {
        let faults = self.settings.faults;
        if self.rng.f64() < faults.lost || self.members[cluster].is_cut {
            return;
        }
        let copies = 1 + usize::from(self.rng.f64() < faults.repeated);
        for _ in 0..copies {
            let takes = match self.rng.f64() < faults.late {
                true => faults.longest_delay.mul_f64(self.rng.f64()),
                false => self.around(self.settings.latencies.network),
            };
            self.push(self.now + work + takes, event());
        }
    }
}

fn add(sum: &mut scheduler::Stats, other: &scheduler::Stats) {
    sum.rounds += other.rounds;
    sum.failed_rounds += other.failed_rounds;
    sum.first_conflicts += other.first_conflicts;
    sum.commits += other.commits;
    sum.conflicts += other.conflicts;
    sum.empty_rounds += other.empty_rounds;
    sum.lost_answers += other.lost_answers;
    sum.placed += other.placed;
    sum.replaced += other.replaced;
}

fn round(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
