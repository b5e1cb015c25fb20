//! Property test: at no time may two replicas act, and in the end one does.
//!
//! Replicas compete for a Lease in a naive store. Requests and replies are delayed and lost, replicas
//! are paused, stopped and started again, and their clocks differ in time and speed. Wall clocks are corrected.

use std::collections::BTreeMap;

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

const REPLICAS: usize = 3;
/// The time of the world at the start, in seconds.
const BEGINNING: i64 = 1_790_000_000;
/// Time with faults.
const TROUBLE: Duration = Duration::from_mins(20);
/// Time without faults after which a replica must lead: the Lease expires, and the next attempts of all
/// replicas follow.
const RECOVERY: Duration = Duration::from_secs(40);

/// The Lease of the API server.
#[derive(Debug, Default)]
struct Store {
    lease: Option<Value>,
    version: u64,
}

impl Store {
    fn serve(&mut self, request: &Request) -> Reply {
        let known = self.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        match (request.method, known) {
            (Method::Get | Method::Put, None) => status(404),
            (Method::Get, Some(_)) => ok(self.lease.as_ref().unwrap()),
            (Method::Post, Some(_)) => status(409),
            (Method::Put, Some(version))
                if body(request)["metadata"]["resourceVersion"] != version =>
            {
                status(409)
            }
            (Method::Post | Method::Put, _) => {
                self.version += 1;
                let lease = stored(request, self.version);
                self.lease = Some(lease.clone());
                ok(&lease)
            }
            (method, _) => panic!("no request uses {method:?}"),
        }
    }
}

/// A replica with a clock of its own.
struct Replica {
    elector: LeaderElector,
    /// Number of the process; a restarted replica is another process.
    process: u32,
    /// Difference between the clock and the time of the world at the start.
    offset: i64,
    /// Speed of the clock.
    speed: f64,
    paused_until: Time,
}

impl Replica {
    /// Returns the time that the clock of the replica shows at this time of the world.
    fn clock(&self, now: Time) -> Time {
        let start = Time::from_secs(BEGINNING);
        Time::from_secs(BEGINNING + self.offset) + now.since(start).mul_f64(self.speed)
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
    Watch { replica: usize, event: Vec<u8> },
    Trouble,
    Start(usize),
}

struct World {
    now: Time,
    rng: Rng,
    store: Store,
    replicas: Vec<Replica>,
    processes: u32,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    has_faults: bool,
    /// Number of times that another process became the leader.
    terms: u32,
    leader: Option<u32>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            now: Time::from_secs(BEGINNING),
            rng: Rng::with_seed(seed),
            store: Store::default(),
            replicas: Vec::new(),
            processes: 0,
            events: BTreeMap::new(),
            sequence: 0,
            has_faults: true,
            terms: 0,
            leader: None,
        };
        for _ in 0..REPLICAS {
            let replica = world.start();
            world.replicas.push(replica);
        }
        world.at(Duration::ZERO, Event::Trouble);
        world
    }

    fn start(&mut self) -> Replica {
        self.processes += 1;
        let config = config(&format!("process-{}", self.processes));
        Replica {
            elector: LeaderElector::new(config, self.rng.u64(..)).unwrap(),
            process: self.processes,
            offset: self.rng.i64(-100_000..100_000),
            // 15 s of the fastest clock are longer than 10 s of the slowest one.
            speed: 0.85 + 0.3 * self.rng.f64(),
            paused_until: Time::ZERO,
        }
    }

    fn at(&mut self, delay: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }

    /// Returns a random duration up to this number of seconds, mostly a short one.
    fn delay(&mut self, longest: f64) -> Duration {
        let share = self.rng.f64();
        Duration::from_secs_f64(if self.has_faults {
            longest * share.powi(6)
        } else {
            0.01 * share
        })
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let event = self.events.first_key_value().map(|((time, _), _)| *time);
            let deadlines = self.replicas.iter().filter_map(|replica| {
                let due = replica.world(replica.elector.next_deadline()?);
                Some(due.max(replica.paused_until))
            });
            let Some(next) = deadlines.chain(event).min().filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if event.is_some_and(|time| time <= self.now) {
                let (_, event) = self.events.pop_first().unwrap();
                self.happen(event);
            }
            for number in 0..self.replicas.len() {
                self.step(number);
            }
            self.check();
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { replica, process, request, is_lost } => {
                let before = self.store.version;
                let reply = self.store.serve(&request);
                if self.store.version != before {
                    self.notify_watches();
                }
                // The replica gives up after the timeout, and hears nothing of a lost reply.
                if !is_lost {
                    let delay = self.delay(8.0);
                    let id = request.id;
                    self.at(delay, Event::Reply { replica, process, id, reply });
                }
            }
            Event::Reply { replica: number, process, id, reply } => {
                let (now, replica) = (self.now, &mut self.replicas[number]);
                if replica.paused_until > now {
                    let delay = replica.paused_until.since(now);
                    self.at(delay, Event::Reply { replica: number, process, id, reply });
                } else if replica.process == process {
                    let clock = replica.clock(now);
                    replica.elector.handle_reply(id, reply, clock);
                }
            }
            Event::Watch { replica, event } => {
                let replica = &mut self.replicas[replica];
                let clock = replica.clock(self.now);
                replica.elector.handle_watch_event(&event, clock);
            }
            Event::Trouble if self.has_faults => {
                self.trouble();
                let delay = Duration::from_secs_f64(30.0 * self.rng.f64());
                self.at(delay, Event::Trouble);
            }
            Event::Trouble => {}
            Event::Start(replica) => self.replicas[replica] = self.start(),
        }
    }

    /// Watches report the Lease late, or not at all.
    fn notify_watches(&mut self) {
        let event = json!({ "type": "MODIFIED", "object": self.store.lease }).to_string();
        for replica in 0..REPLICAS {
            if self.rng.bool() {
                let (delay, event) = (self.delay(20.0), event.clone().into_bytes());
                self.at(delay, Event::Watch { replica, event });
            }
        }
    }

    /// Pauses or stops a replica, corrects its wall clock, or touches the Lease.
    fn trouble(&mut self) {
        let number = self.rng.usize(..REPLICAS);
        let (now, pause) = (self.now, Duration::from_secs_f64(25.0 * self.rng.f64()));
        let replica = &mut self.replicas[number];
        let clock = replica.clock(now);
        match self.rng.u32(..10) {
            0..5 => replica.paused_until = now + pause,
            5..7 => replica.elector.release(clock),
            7 => {
                // Killed.
                let restarted = self.start();
                self.replicas[number] = restarted;
            }
            8 => {
                let corrected = Time::from_secs(BEGINNING + self.rng.i64(-100_000..100_000));
                replica.elector.set_wall_offset(WallOffset::between(clock, corrected));
            }
            _ => {
                if let Some(lease) = &mut self.store.lease {
                    self.store.version += 1;
                    lease["metadata"]["resourceVersion"] = self.store.version.to_string().into();
                }
            }
        }
    }

    /// Lets a replica act.
    fn step(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        if replica.paused_until > self.now {
            return;
        }
        let (clock, process) = (replica.clock(self.now), replica.process);
        replica.elector.tick(clock);
        let requests = replica.elector.take_requests();
        // A process ends when its election does, and is started again.
        if replica.elector.outcome().is_some() && replica.elector.next_deadline().is_none() {
            let is_restarting = self
                .events
                .values()
                .any(|event| matches!(event, Event::Start(it) if *it == number));
            if !is_restarting {
                self.at(Duration::from_secs(1), Event::Start(number));
            }
        }
        for request in requests {
            let is_not_sent = self.has_faults && self.rng.u32(..20) == 0;
            let is_lost = self.has_faults && self.rng.u32(..10) == 0;
            let (id, timeout) = (request.id, request.timeout);
            let reply = Reply::Lost("timeout".to_owned());
            self.at(timeout, Event::Reply { replica: number, process, id, reply });
            if !is_not_sent {
                // A request may be delayed for longer than its sender waits.
                let delay = self.delay(40.0);
                self.at(delay, Event::Arrive { replica: number, process, request, is_lost });
            }
        }
    }

    fn check(&mut self) {
        let leads = |replica: &&Replica| replica.elector.is_leader(replica.clock(self.now));
        let leaders: Vec<u32> = self.replicas.iter().filter(leads).map(|it| it.process).collect();
        assert!(leaders.len() <= 1, "processes {leaders:?} lead");
        if let Some(leader) = leaders.first()
            && self.leader != Some(*leader)
        {
            self.leader = Some(*leader);
            self.terms += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn one_replica_acts_at_a_time(seed in any::<u64>()) {
        let mut world = World::new(seed);
        world.run(TROUBLE);
        prop_assert!(world.terms > 3, "only {} terms", world.terms);
        world.has_faults = false;
        world.run(RECOVERY);
        let leads = |replica: &Replica| replica.elector.is_leader(replica.clock(world.now));
        prop_assert!(world.replicas.iter().any(leads), "no replica leads");
        let terms = world.terms;
        world.run(TROUBLE);
        prop_assert_eq!(world.terms, terms, "the leader changed without a fault");
    }
}
