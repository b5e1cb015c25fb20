//! Electors that compete for a Lease in a naive store, each with a witness that knows the rules of
//! `leaderelection` in client-go.
//!
//! Requests and replies are delayed and lost, replicas are paused, stopped and started again, and
//! their clocks differ in time and speed. Wall clocks are corrected. At no time may two replicas
//! act, and in the end one does.

use std::collections::BTreeMap;
use std::time::Duration;

use control::leader_election::{LeaderElectionConfig, LeaderElector, Notice, Outcome, Predecessor};
use control::{Method, Reply, Request, RequestId, Response};
use fastrand::Rng;
use framework::{Time, WallOffset};
use serde_json::{Value, json};

use super::super::rules::{Checked, rule};

const REPLICAS: usize = 3;
/// The time of the world at the start, in seconds.
const BEGINNING: i64 = 1_790_000_000;
/// Time with faults.
const TROUBLE: Duration = Duration::from_secs(150);
/// Time without faults after which a replica must lead: the Lease expires, and the next attempts of
/// all replicas follow.
const RECOVERY: Duration = Duration::from_secs(40);
/// Time for which the leader then stays.
const REST: Duration = Duration::from_secs(60);

const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Longest time between two attempts of a replica that waits.
const LONGEST_RETRY: Duration = Duration::from_millis(4_401);
const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// The fields of the spec that an election writes.
const RECORD: [&str; 5] =
    ["holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"];

/// Returns the settings of a replica.
pub(super) fn config(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig {
        identity: identity.to_owned(),
        namespace: "kube-system".to_owned(),
        name: "loadmaster".to_owned(),
        lease_duration: LEASE_DURATION,
        renew_deadline: RENEW_DEADLINE,
        retry_period: RETRY_PERIOD,
        level: None,
    }
}

/// The Lease of the API server.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) lease: Option<Value>,
    pub(super) version: u64,
}

impl Store {
    /// Carries out a request.
    pub(super) fn serve(&mut self, request: &Request) -> Reply {
        let known = self.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match (request.method, known) {
            (Method::Get | Method::Put, None) => status(404),
            (Method::Get, Some(_)) => self.lease.as_ref().map_or_else(|| status(404), ok),
            (Method::Post, Some(_)) => status(409),
            (Method::Put, Some(version)) if body["metadata"]["resourceVersion"] != version => {
                status(409)
            }
            _ => {
                self.version += 1;
                let mut lease = body;
                lease["metadata"]["uid"] = "u1".into();
                lease["metadata"]["resourceVersion"] = self.version.to_string().into();
                self.lease = Some(lease.clone());
                ok(&lease)
            }
        }
    }
}

fn ok(lease: &Value) -> Reply {
    Reply::Answered(Response { status: 200, retry_after: None, body: lease.to_string().into() })
}

fn status(code: u16) -> Reply {
    let body = json!({ "kind": "Status", "message": "no", "code": code }).to_string().into();
    Reply::Answered(Response { status: code, retry_after: None, body })
}

/// Returns the Lease in a reply.
fn lease_in(reply: &Reply) -> Option<Value> {
    match reply {
        Reply::Answered(response) if response.status == 200 => {
            serde_json::from_slice(&response.body).ok()
        }
        _ => None,
    }
}

fn record(lease: &Value) -> Vec<Value> {
    RECORD.iter().map(|field| lease["spec"][*field].clone()).collect()
}

/// Returns the fields that an election does not write, and those of the server that it names.
fn rest(lease: &Value) -> Value {
    let mut rest = lease.clone();
    if let Some(spec) = rest["spec"].as_object_mut() {
        RECORD
            .iter()
            .chain(&["preferredHolder", "strategy"])
            .for_each(|field| drop(spec.remove(*field)));
    }
    rest
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Renews the Lease without reading it.
    Renewal,
    Read,
    Write,
    ReadToRelease,
    Release,
}

/// What a replica has seen and is about to do, by its own clock.
#[derive(Debug)]
struct Witness {
    identity: String,
    /// The last Lease that was read or written, and when its record was new.
    seen: Option<(Value, Time)>,
    /// The request in flight, and when it was made.
    in_flight: Option<(RequestId, Purpose, Time)>,
    /// When the attempt began, and whether it goes on with another request.
    attempt: Time,
    has_begun: bool,
    goes_on: bool,
    is_missing: bool,
    /// When the next attempt is due: between these two.
    next: (Time, Time),
    /// When the last write was made that was carried out, if the replica leads.
    leads_since: Option<Time>,
    has_ended: bool,
    is_stopping: bool,
    /// Whether no request is awaited any more but those that release the Lease.
    is_releasing: bool,
    predecessor: Predecessor,
    has_problem: bool,
    slow_renewals: u64,
    wall: WallOffset,
    /// The holder that was reported last, and the reports.
    reported: String,
    notices: Vec<Notice>,
}

impl Witness {
    fn new(identity: String, now: Time) -> Self {
        Self {
            identity,
            seen: None,
            in_flight: None,
            attempt: now,
            has_begun: false,
            goes_on: false,
            is_missing: false,
            next: (now, now),
            leads_since: None,
            has_ended: false,
            is_stopping: false,
            is_releasing: false,
            predecessor: Predecessor::None,
            has_problem: false,
            slow_renewals: 0,
            wall: WallOffset::default(),
            reported: String::new(),
            notices: Vec::new(),
        }
    }

    fn expires_at(&self) -> Option<Time> {
        let (lease, at) = self.seen.as_ref()?;
        let seconds = lease["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(0);
        Some(*at + Duration::from_secs(seconds))
    }

    fn is_mine(&self) -> bool {
        self.seen.as_ref().is_some_and(|(lease, _)| holder(lease) == self.identity)
    }

    /// Whether the Lease has no holder, or one that had not renewed it in time when the attempt
    /// began.
    fn is_free(&self) -> bool {
        self.seen.as_ref().is_some_and(|(lease, _)| holder(lease).is_empty())
            || self.expires_at().is_some_and(|end| end <= self.attempt)
    }

    fn authority_ends_at(&self) -> Option<Time> {
        let made_at = self.leads_since.filter(|_| !self.is_stopping && !self.has_ended)?;
        Some(made_at + RENEW_DEADLINE)
    }

    /// Handles the passage of time. The authority of a leader that does not release the Lease may
    /// be over.
    fn tick(&mut self, now: Time) {
        let is_over = self.leads_since.is_some_and(|made_at| made_at + RENEW_DEADLINE <= now);
        self.has_ended |= is_over && !self.is_releasing;
    }

    /// The replica is asked to end.
    fn stop(&mut self) {
        self.is_stopping = true;
        self.is_releasing |= self.in_flight.is_none();
    }

    /// Handles a Lease that was read. Its age counts from the first time that its record was seen.
    fn observe(&mut self, lease: Value, now: Time) {
        let known = self.seen.as_ref().filter(|(known, _)| record(known) == record(&lease));
        let at = known.map_or(now, |(_, at)| *at);
        let holder = holder(&lease).to_owned();
        if !holder.is_empty() && holder != self.identity && holder != self.reported {
            self.notices.push(Notice::ObservedLeader(holder.clone()));
            self.reported = holder;
        }
        self.seen = Some((lease, at));
    }

    /// Checks a request that the elector sends.
    fn sends(&mut self, request: &Request, now: Time) -> Checked {
        rule(self.in_flight.is_none(), || "a second request is sent".to_owned())?;
        let name = if request.method == Method::Post { "" } else { "/loadmaster" };
        let path = format!("{COLLECTION}{name}?timeout=5000ms");
        rule(request.path == path, || format!("{} is sent instead of {path}", request.path))?;
        rule(request.timeout == RENEW_DEADLINE / 2, || {
            format!("it waits for {:?}", request.timeout)
        })?;
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let begins = !std::mem::take(&mut self.goes_on) && !self.is_stopping;
        if begins {
            let (from, _) = self.next;
            rule(is_first || from <= now, || format!("an attempt begins before {from}"))?;
            self.attempt = now;
            let is_known = self.is_mine() && self.expires_at().is_some_and(|end| now < end);
            let expected = if is_known { Method::Put } else { Method::Get };
            rule(request.method == expected, || {
                format!("an attempt begins with {:?}", request.method)
            })?;
        }
        match request.method {
            Method::Post => self.check_creation(&body)?,
            Method::Put if self.is_stopping => self.check_release(&body, now)?,
            Method::Put => self.check_update(&body, now)?,
            _ => {}
        }
        let purpose = match request.method {
            Method::Get if self.is_stopping => Purpose::ReadToRelease,
            _ if self.is_stopping => Purpose::Release,
            Method::Get => Purpose::Read,
            _ if begins => Purpose::Renewal,
            _ => Purpose::Write,
        };
        self.in_flight = Some((request.id, purpose, now));
        Ok(())
    }

    fn wall(&self, time: Time) -> String {
        format!("{:.6}", self.wall.wall_time(time))
    }

    fn check_creation(&mut self, body: &Value) -> Checked {
        rule(self.is_missing, || "a Lease is created that exists".to_owned())?;
        let time = self.wall(self.attempt);
        let expected = json!([self.identity, 15, time, time, 0]);
        rule(Value::from(record(body)) == expected, || {
            format!("created as {body} instead of {expected}")
        })?;
        if self.leads_since.is_none() {
            self.predecessor = Predecessor::None;
        }
        let metadata = json!({ "name": "loadmaster", "namespace": "kube-system" });
        rule(body["metadata"] == metadata, || format!("created as {body}"))
    }

    fn check_update(&mut self, body: &Value, now: Time) -> Checked {
        let Some((seen, _)) = &self.seen else {
            return Err("an unknown Lease is updated".to_owned());
        };
        rule(rest(body) == rest(seen), || format!("{body} replaces {seen}"))?;
        let time = self.wall(now);
        let old = &seen["spec"];
        let expected = if self.is_mine() {
            json!([self.identity, 15, old["acquireTime"], time, old["leaseTransitions"]])
        } else {
            let is_free =
                holder(seen).is_empty() || self.expires_at().is_some_and(|end| end <= self.attempt);
            rule(is_free, || format!("{} takes over at {now} from {seen}", self.identity))?;
            self.predecessor =
                if holder(seen).is_empty() { Predecessor::Released } else { Predecessor::Expired };
            let transitions = old["leaseTransitions"].as_i64().unwrap_or(0) + 1;
            json!([self.identity, 15, time, time, transitions])
        };
        rule(Value::from(record(body)) == expected, || format!("{body} instead of {expected}"))
    }

    fn check_release(&self, body: &Value, now: Time) -> Checked {
        let Some((seen, _)) = self.seen.as_ref().filter(|_| self.is_mine()) else {
            return Err("a Lease of others is released".to_owned());
        };
        let time = self.wall(now);
        let expected = json!(["", 1, time, time, seen["spec"]["leaseTransitions"]]);
        rule(rest(body) == rest(seen), || format!("{body} replaces {seen}"))?;
        rule(Value::from(record(body)) == expected, || format!("{body} instead of {expected}"))
    }

    /// Handles a reply, before the elector does.
    fn receives(&mut self, id: RequestId, reply: &Reply, now: Time) {
        self.tick(now);
        if self.has_ended {
            return;
        }
        let Some((_, purpose, made_at)) = self.in_flight.take_if(|(own, ..)| *own == id) else {
            return;
        };
        let lease = lease_in(reply);
        let code = match reply {
            Reply::Answered(response) => response.status,
            _ => 0,
        };
        self.is_missing = code == 404;
        match purpose {
            Purpose::ReadToRelease => {
                let own = lease.filter(|lease| holder(lease) == self.identity);
                own.into_iter().for_each(|lease| self.observe(lease, now));
            }
            Purpose::Release => self.notices.extend(lease.map(|_| Notice::Released)),
            Purpose::Read if self.is_stopping => {}
            Purpose::Read => self.was_read(lease, now),
            Purpose::Renewal | Purpose::Write => match lease {
                Some(lease) => self.was_written(lease, made_at, now),
                None if purpose == Purpose::Renewal => self.goes_on = true,
                None => self.fail(code != 409, now),
            },
        }
        self.is_releasing |= self.is_stopping;
    }

    fn was_read(&mut self, lease: Option<Value>, now: Time) {
        let Some(lease) = lease else {
            self.goes_on = self.is_missing;
            if !self.is_missing {
                self.fail(true, now);
            }
            return;
        };
        self.observe(lease, now);
        if self.is_mine() {
            self.slow_renewals += 1;
            self.goes_on = true;
        } else if self.leads_since.is_some() {
            self.has_ended = true;
        } else if self.is_free() {
            self.goes_on = true;
        } else {
            self.fail(false, now);
        }
    }

    fn was_written(&mut self, lease: Value, made_at: Time, now: Time) {
        self.seen = Some((lease, now));
        self.has_problem = false;
        if made_at + RENEW_DEADLINE <= now {
            // Too late to act on it.
            self.next = (now, now);
            return;
        }
        if self.leads_since.is_none() && !self.is_stopping {
            self.reported = self.identity.clone();
            self.notices.push(Notice::StartedLeading);
        }
        self.leads_since = Some(made_at);
        let next = now.max(made_at + RETRY_PERIOD);
        self.next = (next, next);
    }

    /// An attempt has failed. A replica that waits tries again when the Lease expires, if that is
    /// earlier.
    fn fail(&mut self, is_problem: bool, now: Time) {
        self.has_problem = is_problem;
        if self.leads_since.is_some() {
            self.next = (now + RETRY_PERIOD, now + RETRY_PERIOD);
            return;
        }
        let end = self.expires_at().filter(|end| now < *end);
        let until = |regular: Time| end.map_or(regular, |end| end.min(regular));
        self.next = (until(now + RETRY_PERIOD), until(now + LONGEST_RETRY));
    }

    /// Applies an event of a watch of the Lease, which matters to a replica that waits.
    fn sees(&mut self, lease: Option<Value>, now: Time) {
        if !self.has_begun || self.leads_since.is_some() || self.has_ended || self.is_releasing {
            return;
        }
        let is_free = lease.as_ref().is_none_or(|lease| holder(lease).is_empty());
        lease.into_iter().for_each(|lease| self.observe(lease, now));
        if is_free && self.in_flight.is_none() {
            self.next = (self.next.0.min(now), self.next.1.min(now));
        }
    }

    /// Compares what the elector shows.
    fn check(&mut self, elector: &mut LeaderElector, now: Time) -> Checked {
        let (shown, expected) = (elector.authority_ends_at(), self.authority_ends_at());
        rule(shown == expected, || {
            format!("{} leads until {shown:?} instead of {expected:?}", self.identity)
        })?;
        let leads = expected.is_some_and(|end| now < end);
        rule(elector.is_leader(now) == leads, || format!("{} leads: {}", self.identity, !leads))?;
        let outcome = elector.outcome();
        let has_lost = outcome == Some(Outcome::Lost);
        rule(has_lost == self.has_ended, || format!("{} has ended as {outcome:?}", self.identity))?;
        let is_compared = |notice: &Notice| {
            use Notice::{ObservedLeader, Released, StartedLeading};
            matches!(notice, StartedLeading | ObservedLeader(_) | Released)
        };
        let notices: Vec<Notice> = elector.take_notices().into_iter().filter(is_compared).collect();
        let expected = std::mem::take(&mut self.notices);
        rule(notices == expected, || format!("{notices:?} instead of {expected:?}"))?;
        if notices.contains(&Notice::StartedLeading) {
            let shown = elector.predecessor();
            rule(shown == self.predecessor, || {
                format!("{shown:?} led instead of {:?}", self.predecessor)
            })?;
        }
        if self.is_releasing && !self.has_ended {
            // The Lease is released, until another replica may take it anyway.
            let end = self.leads_since.map(|made_at| made_at + RENEW_DEADLINE);
            let may_go_on = self.in_flight.is_some() && end.is_some_and(|end| now < end);
            rule(outcome == Some(Outcome::Stopped) || may_go_on, || {
                format!("{} does not end: {outcome:?}", self.identity)
            })?;
        }
        if outcome.is_some() || self.is_stopping {
            return Ok(());
        }
        let slow = elector.slowpath_total();
        rule(slow == self.slow_renewals, || format!("{slow} renewals read the Lease"))?;
        rule(elector.problem().is_some() == self.has_problem, || {
            format!("{:?}", elector.problem())
        })?;
        let uid = self.seen.as_ref().map(|_| "u1");
        rule(elector.lease_uid() == uid, || format!("the Lease is {:?}", elector.lease_uid()))?;
        let shown = elector.next_deadline();
        let (from, to) = match (self.in_flight.is_some(), self.authority_ends_at()) {
            (true, end) => {
                return rule(shown == end, || format!("due at {shown:?} instead of {end:?}"));
            }
            (false, Some(end)) => (self.next.0.min(end), self.next.1.min(end)),
            (false, None) => self.next,
        };
        let is_due = shown.is_some_and(|shown| (from..=to).contains(&shown));
        rule(is_due, || {
            format!(
                "the next attempt of {} is due at {shown:?} instead of {from} to {to}",
                self.identity
            )
        })
    }
}

/// A replica with a clock of its own.
struct Replica {
    elector: LeaderElector,
    witness: Witness,
    /// Number of the process; a restarted replica is another process.
    process: u32,
    /// Difference between the clock and the time of the world at the start.
    offset: i64,
    /// Speed of the clock.
    speed: f64,
    paused_until: Time,
    /// When the next process begins, after this one has ended.
    restarts_at: Option<Time>,
}

impl Replica {
    /// Returns the time that the clock of the replica shows at this time of the world.
    fn clock(&self, now: Time) -> Time {
        Time::from_secs(BEGINNING + self.offset)
            + now.since(Time::from_secs(BEGINNING)).mul_f64(self.speed)
    }

    /// Returns the time of the world at which the clock shows this time.
    fn world(&self, time: Time) -> Time {
        let elapsed = time.since(Time::from_secs(BEGINNING + self.offset));
        // Rounded up, so that the clock has reached the time.
        Time::from_secs(BEGINNING) + elapsed.div_f64(self.speed) + Duration::from_micros(1)
    }
}

enum Event {
    Arrive { replica: usize, process: u32, request: Request, is_lost: bool },
    Reply { replica: usize, process: u32, id: RequestId, reply: Reply },
    Watch { replica: usize, lease: Option<Value> },
    Trouble,
}

struct World<'r> {
    random: &'r mut Rng,
    trace: &'r mut Vec<String>,
    now: Time,
    store: Store,
    replicas: Vec<Replica>,
    processes: u32,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    has_faults: bool,
    /// The process that led last, and the number of times that another one did.
    leader: Option<u32>,
    terms: u32,
}

/// Lives through a history of an election.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut world = World {
        random,
        trace,
        now: Time::from_secs(BEGINNING),
        store: Store::default(),
        replicas: Vec::new(),
        processes: 0,
        events: BTreeMap::new(),
        sequence: 0,
        has_faults: true,
        leader: None,
        terms: 0,
    };
    for _ in 0..REPLICAS {
        let replica = world.start()?;
        world.replicas.push(replica);
    }
    if world.random.bool() {
        world.touch();
    }
    world.at(Duration::ZERO, Event::Trouble);
    world.run(TROUBLE)?;
    world.has_faults = false;
    world.run(RECOVERY)?;
    let leads = |replica: &Replica| replica.elector.is_leader(replica.clock(world.now));
    rule(world.replicas.iter().any(leads), || "no replica leads".to_owned())?;
    let terms = world.terms;
    world.run(REST)?;
    rule(world.terms == terms, || "the leader changed without a fault".to_owned())
}

impl World<'_> {
    fn start(&mut self) -> Result<Replica, String> {
        self.processes += 1;
        let identity = format!("process-{}", self.processes);
        let elector = LeaderElector::new(config(&identity), self.random.u64(..));
        Ok(Replica {
            elector: elector.map_err(|error| error.to_string())?,
            witness: Witness::new(identity, self.now),
            process: self.processes,
            offset: self.random.i64(-100_000..100_000),
            // 15 s of the fastest clock are longer than 10 s of the slowest one.
            speed: 0.85 + 0.3 * self.random.f64(),
            paused_until: Time::ZERO,
            restarts_at: None,
        })
    }

    fn at(&mut self, delay: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }

    /// Returns a random duration up to this number of seconds, mostly a short one.
    fn delay(&mut self, longest: f64) -> Duration {
        let share = self.random.f64();
        Duration::from_secs_f64(if self.has_faults {
            longest * share.powi(6)
        } else {
            0.01 * share
        })
    }

    fn run(&mut self, duration: Duration) -> Checked {
        let end = self.now + duration;
        loop {
            let event = self.events.first_key_value().map(|((time, _), _)| *time);
            let deadlines = self.replicas.iter().filter_map(|replica| {
                let due = replica.elector.next_deadline().map(|due| replica.world(due));
                Some(replica.restarts_at.or(due)?.max(replica.paused_until))
            });
            let Some(next) = deadlines.chain(event).min().filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if event.is_some_and(|time| time <= self.now)
                && let Some((_, event)) = self.events.pop_first()
            {
                self.happen(event);
            }
            for number in 0..self.replicas.len() {
                self.step(number)?;
            }
            self.check()?;
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { replica, process, request, is_lost } => {
                let before = self.store.version;
                let reply = self.store.serve(&request);
                self.trace.push(format!(
                    "{} {:?} of process {process}: {}",
                    self.now,
                    request.method,
                    lease_in(&reply).unwrap_or_default()["spec"]
                ));
                if self.store.version != before {
                    self.notify_watches();
                }
                // The replica gives up after the timeout, and hears nothing of a lost reply.
                if !is_lost {
                    let (delay, id) = (self.delay(8.0), request.id);
                    self.at(delay, Event::Reply { replica, process, id, reply });
                }
            }
            Event::Reply { replica: number, process, id, reply } => {
                let (now, replica) = (self.now, &mut self.replicas[number]);
                if replica.paused_until > now {
                    let delay = replica.paused_until.since(now);
                    self.at(delay, Event::Reply { replica: number, process, id, reply });
                } else if replica.process == process && replica.restarts_at.is_none() {
                    let clock = replica.clock(now);
                    replica.witness.receives(id, &reply, clock);
                    replica.elector.handle_reply(id, reply, clock);
                }
            }
            Event::Watch { replica, lease } => {
                let now = self.now;
                let replica = &mut self.replicas[replica];
                if replica.restarts_at.is_none() {
                    let clock = replica.clock(now);
                    let kind = if lease.is_some() { "MODIFIED" } else { "DELETED" };
                    let object = lease.clone().unwrap_or_else(|| json!({ "kind": "Lease" }));
                    let event = json!({ "type": kind, "object": object }).to_string();
                    replica.witness.sees(lease, clock);
                    replica.elector.handle_watch_event(event.as_bytes(), clock);
                }
            }
            Event::Trouble if self.has_faults => {
                self.trouble();
                let delay = Duration::from_secs_f64(20.0 * self.random.f64());
                self.at(delay, Event::Trouble);
            }
            Event::Trouble => {}
        }
    }

    /// Watches report the Lease late, or not at all.
    fn notify_watches(&mut self) {
        for replica in 0..REPLICAS {
            if self.random.bool() {
                let (delay, lease) = (self.delay(20.0), self.store.lease.clone());
                self.at(delay, Event::Watch { replica, lease });
            }
        }
    }

    /// Pauses or stops a replica, corrects its wall clock, or changes the Lease.
    fn trouble(&mut self) {
        let number = self.random.usize(..REPLICAS);
        let (now, pause) = (self.now, Duration::from_secs_f64(25.0 * self.random.f64()));
        let clock = self.replicas[number].clock(now);
        let what = self.random.u32(..13);
        self.trace.push(format!("{now} trouble {what} of replica {number}"));
        let replica = &mut self.replicas[number];
        match what {
            0..4 => replica.paused_until = now + pause,
            4..6 if replica.restarts_at.is_none() => {
                replica.witness.stop();
                replica.elector.release(clock);
            }
            6 | 7 => replica.restarts_at = Some(now),
            8 => {
                let corrected = Time::from_secs(BEGINNING + self.random.i64(-100_000..100_000));
                let wall = WallOffset::between(clock, corrected);
                replica.elector.set_wall_offset(wall);
                replica.witness.wall = wall;
            }
            9 | 10 => self.seize(),
            _ => self.touch(),
        }
    }

    /// Someone who takes no part in the election writes a holder into the Lease, while the leader
    /// may be asked to end.
    fn seize(&mut self) {
        self.touch();
        let (version, time) = (self.store.version, format!("{:.6}", self.now));
        if let Some(lease) = &mut self.store.lease {
            lease["spec"]["holderIdentity"] = format!("other-{version}").into();
            lease["spec"]["leaseDurationSeconds"] = 15.into();
            lease["spec"]["renewTime"] = time.into();
        }
        self.notify_watches();
        let leads = |replica: &&mut Replica| {
            replica.witness.leads_since.is_some() && !replica.witness.has_ended
        };
        let now = self.now;
        if self.random.bool()
            && let Some(leader) = self.replicas.iter_mut().find(leads)
            && leader.restarts_at.is_none()
        {
            leader.witness.stop();
            leader.elector.release(leader.clock(now));
        }
    }

    /// Someone else changes fields of the Lease that the election does not know, or creates it:
    /// without a holder, or with one whose duration is missing or makes no sense, so that it is
    /// over.
    fn touch(&mut self) {
        self.store.version += 1;
        let version = self.store.version.to_string();
        let spec = match self.random.u8(..4) {
            0 => json!({ "holderIdentity": "gone" }),
            1 => json!({ "holderIdentity": "gone", "leaseDurationSeconds": -5 }),
            2 => {
                json!({ "holderIdentity": "gone", "leaseDurationSeconds": null, "leaseTransitions": 3 })
            }
            _ => json!({}),
        };
        let lease = self.store.lease.get_or_insert_with(|| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": "loadmaster", "namespace": "kube-system", "uid": "u1" }, "spec": spec,
            })
        });
        lease["metadata"]["resourceVersion"] = version.as_str().into();
        lease["metadata"]["labels"] = json!({ "touched": version });
        lease["spec"]["strategy"] = "OldestEmulationVersion".into();
    }

    /// Lets a replica act.
    fn step(&mut self, number: usize) -> Checked {
        let now = self.now;
        if self.replicas[number].paused_until > now {
            return Ok(());
        }
        if self.replicas[number].restarts_at.is_some_and(|at| at <= now) {
            self.replicas[number] = self.start()?;
        }
        let replica = &mut self.replicas[number];
        if replica.restarts_at.is_some() {
            return Ok(());
        }
        let (clock, process) = (replica.clock(now), replica.process);
        replica.witness.tick(clock);
        replica.elector.tick(clock);
        let requests = replica.elector.take_requests();
        for request in &requests {
            replica.witness.sends(request, clock)?;
        }
        replica.witness.check(&mut replica.elector, clock)?;
        // A process ends when its election does, and is started again.
        if replica.elector.outcome().is_some() {
            replica.restarts_at = Some(now + Duration::from_secs(1));
        }
        for request in requests {
            let is_not_sent = self.has_faults && self.random.u32(..20) == 0;
            let is_lost = self.has_faults && self.random.u32(..10) == 0;
            let (id, timeout) = (request.id, request.timeout);
            let reply = Reply::Lost("timeout".to_owned());
            self.at(timeout, Event::Reply { replica: number, process, id, reply });
            if !is_not_sent {
                // A request may be delayed for longer than its sender waits.
                let delay = self.delay(40.0);
                self.at(delay, Event::Arrive { replica: number, process, request, is_lost });
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Checked {
        let leads = |replica: &&Replica| replica.elector.is_leader(replica.clock(self.now));
        let leaders: Vec<u32> = self.replicas.iter().filter(leads).map(|own| own.process).collect();
        rule(leaders.len() <= 1, || format!("processes {leaders:?} lead"))?;
        if let Some(leader) = leaders.first()
            && self.leader != Some(*leader)
        {
            self.leader = Some(*leader);
            self.terms += 1;
        }
        Ok(())
    }
}
