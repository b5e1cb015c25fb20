//! Time, and what happens in which order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;
use std::time::Duration;

use client::scheduler::Sender;
use client::session::{Call, CallId, Input, Output};
use client::{Reply, Request, RequestId, Response};
use engine::ports::Ports;
use engine::{Change, Outcome};
use fastrand::Rng;
use framework::Time;
use loadmaster::wire::refusal;

use super::churn::Churn;
use super::network::{Fate, Network, Piece};
use super::replica::{Replica, Stream};
use super::rules::{self, Violation};
use super::server::{Bound, Server};

/// When every simulation begins, in seconds since 1970.
const BEGINNING: i64 = 1_790_000_000;
/// How long the world is left alone before it must be quiet: longer than a watch that has died in silence
/// is listened to. And for how long it must be quiet.
const CALM: Duration = Duration::from_secs(900);
const QUIET: Duration = Duration::from_secs(30);
/// Lines of the trace that a violation shows.
const LAST_LINES: usize = 60;
/// Watches have something to say by time alone, as bookmarks.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Something that happens later. What concerns a life of the scheduler that is over is void for it;
/// requests on their way are not.
enum Event {
    /// A request reaches the server.
    Arrive { life: u32, sender: Sender, request: Request, fate: Fate },
    /// What became of a request reaches the scheduler.
    Learn { life: u32, sender: Sender, id: RequestId, reply: Reply },
    /// A call of a session reaches the server.
    Call { life: u32, watcher: usize, call: Call },
    /// What came of it reaches the session.
    Inputs { life: u32, watcher: usize, inputs: Vec<Input<Change>> },
    /// The scheduler takes up its next pod.
    Decide { life: u32 },
    /// Somebody does something.
    Churn,
    /// Time passes for the watches.
    Heartbeat,
    /// The scheduler starts, for the first time or after a crash.
    Start,
}

/// What a simulation saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bindings that the server carried out.
    pub bound: usize,
    /// Crashes of the scheduler.
    pub crashes: u32,
    /// Requests whose sender was left in the dark, or worse.
    pub faults: u32,
    /// Pods that no node can take in the end.
    pub pending: usize,
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.bound += other.bound;
        self.crashes += other.crashes;
        self.faults += other.faults;
        self.pending += other.pending;
    }
}

/// Everything.
pub struct World {
    seed: u64,
    now: Time,
    rng: Rng,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    network: Network,
    server: Server,
    churn: Churn,
    replica: Option<Replica>,
    life: u32,
    /// A step of [`Event::Decide`] is under way.
    deciding: bool,
    /// Bindings sent and not known to be over, by pod UID.
    open_bindings: rules::OpenBindings,
    /// When the scheduler wrote something last.
    last_write: Time,
    summary: Summary,
    trace: Trace,
}

/// What happened, for whoever looks for the cause of a violation.
struct Trace {
    print: bool,
    last: VecDeque<String>,
}

impl World {
    /// A world that has not begun.
    pub fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let now = Time::from_secs(BEGINNING);
        let mut server = Server::new(rng.u64(..), now);
        let mut churn = Churn::new(rng.fork());
        churn.begin(&mut server, now);
        let mut world = Self {
            seed,
            now,
            network: Network::bad(&mut rng),
            rng,
            events: BTreeMap::new(),
            sequence: 0,
            server,
            churn,
            replica: None,
            life: 0,
            deciding: false,
            open_bindings: rules::OpenBindings::default(),
            last_write: now,
            summary: Summary::default(),
            trace: Trace { print: trace, last: VecDeque::new() },
        };
        world.at(Duration::ZERO, Event::Start);
        world.at(HEARTBEAT, Event::Heartbeat);
        world
    }

    /// `steps` of churn, with faults.
    pub fn live_through(&mut self, steps: u32) -> Result<(), Violation> {
        for _ in 0..steps {
            let pause = self.churn.pause();
            self.at(pause, Event::Churn);
            let end = self.now + pause;
            self.run_until(end)?;
            if self.rng.u32(..1000) < 12 {
                self.crash();
            }
            if self.rng.u32(..1000) < 10 {
                self.network = Network::bad(&mut self.rng);
            }
        }
        Ok(())
    }

    /// The faults end and the churn stops: everything must come to rest where it belongs.
    pub fn calm_down(mut self) -> Result<Summary, Violation> {
        self.say(|| "calm".to_owned());
        self.network = Network::calm();
        self.churn.end(&mut self.server, self.now);
        self.run_until(self.now + CALM)?;
        let replica = self.replica.as_mut().expect("it has been started again by now");
        rules::at_rest(&self.server, replica, &mut self.summary)
            .and_then(|()| rules::is_quiet(self.last_write, self.now, QUIET))
            .map_err(|text| self.violation(&text))?;
        Ok(self.summary)
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
            let replica = self.replica.as_ref().and_then(Replica::next_deadline);
            let deadlines = [event, replica, self.server.next_deadline()];
            let Some(next) = deadlines.into_iter().flatten().min().filter(|next| *next <= end)
            else {
                self.now = end;
                return Ok(());
            };
            self.now = self.now.max(next);
            self.happen()?;
        }
    }

    /// Whatever happens now.
    fn happen(&mut self) -> Result<(), Violation> {
        if let Some(replica) = &mut self.replica {
            replica.tick(self.now);
        }
        if self.events.first_key_value().is_some_and(|((time, _), _)| *time <= self.now) {
            let (_, event) = self.events.pop_first().expect("there is one");
            self.take(event).map_err(|text| self.violation(&text))?;
        }
        self.server.step(self.now);
        self.pass_on().map_err(|text| self.violation(&text))?;
        if let Some(replica) = &self.replica {
            rules::at_every_step(replica).map_err(|text| self.violation(&text))?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Start => self.start(),
            Event::Churn => {
                let done = self.churn.step(&mut self.server, self.now);
                self.say(|| done);
            }
            Event::Heartbeat => self.at(HEARTBEAT, Event::Heartbeat),
            Event::Arrive { life, sender, request, fate } => {
                self.arrive(life, sender, &request, fate)?;
            }
            Event::Learn { life, sender, id, reply } => self.learn(life, sender, id, reply),
            Event::Call { life, watcher, call } => self.call(life, watcher, &call),
            Event::Inputs { life, watcher, inputs } => {
                if let Some(replica) = self.replica.as_mut().filter(|it| it.life == life) {
                    let session = &mut replica.watchers[watcher].session;
                    inputs.into_iter().for_each(|input| session.step(input, self.now));
                }
            }
            Event::Decide { life } => self.decide(life)?,
        }
        Ok(())
    }

    fn start(&mut self) {
        self.life += 1;
        let seed = self.rng.u64(..);
        let life = self.life;
        self.say(|| format!("start of life {life}"));
        self.replica = Some(Replica::start(life, seed, self.now));
        self.open_bindings = rules::OpenBindings::default();
        self.deciding = false;
    }

    /// The scheduler is gone in the middle of what it did. It is back once nothing that it has sent is on
    /// its way any more: no scheduler could know of that.
    fn crash(&mut self) {
        let Some(replica) = self.replica.take() else { return };
        self.say(|| "crash".to_owned());
        self.summary.crashes += 1;
        for stream in replica.watchers.into_iter().filter_map(|watcher| watcher.stream) {
            self.server.store.close(stream.watch);
        }
        let arrivals = self.events.iter().filter_map(|((time, _), event)| {
            matches!(event, Event::Arrive { .. }).then_some(*time)
        });
        let pause = arrivals.max().map_or(Duration::ZERO, |last| last.since(self.now));
        let pause = pause + Duration::from_millis(1 + self.rng.u64(..5000));
        self.at(pause, Event::Start);
    }

    /// Everything that is ready to move from one side to the other does.
    fn pass_on(&mut self) -> Result<(), String> {
        let Some(mut replica) = self.replica.take() else { return Ok(()) };
        for (watcher, call) in replica.learn(self.now) {
            self.answer_session(&mut replica, watcher, call);
        }
        for (sender, request) in replica.scheduler.requests() {
            self.send(replica.life, sender, request)?;
        }
        for watcher in 0..replica.watchers.len() {
            self.deliver(&mut replica, watcher);
        }
        let has_ready = replica.scheduler.engine().queue().has_ready();
        if !self.deciding && has_ready && replica.scheduler.takes_pods(self.now) {
            self.deciding = true;
            let life = replica.life;
            let pause = Duration::from_micros(self.rng.u64(..2000));
            self.at(pause, Event::Decide { life });
        }
        self.replica = Some(replica);
        Ok(())
    }

    fn answer_session(&mut self, replica: &mut Replica, watcher: usize, call: Output<Change>) {
        if let Some(stream) = replica.watchers[watcher].stream.take() {
            self.server.store.close(stream.watch);
        }
        if let Output::Open(call) = call {
            let (life, delay) = (replica.life, self.delay());
            match self.network.fate(&mut self.rng) {
                Fate::Served => self.at(delay, Event::Call { life, watcher, call }),
                Fate::NotSent => {
                    let failed = Input::Failed(call.id, "connection refused".to_owned());
                    self.at(delay, Event::Inputs { life, watcher, inputs: vec![failed] });
                }
                Fate::Refused(status) | Fate::Garbled(status) => {
                    let refused = Input::Refused(call.id, refusal(status, None, b"no"));
                    self.at(delay, Event::Inputs { life, watcher, inputs: vec![refused] });
                }
                // The session has a deadline of its own.
                Fate::Vanishes | Fate::AnswerLost | Fate::Lingers(_) => self.summary.faults += 1,
            }
        }
    }

    /// A call reaches the server.
    fn call(&mut self, life: u32, watcher: usize, call: &Call) {
        let Some(replica) = self.replica.as_mut().filter(|it| it.life == life) else { return };
        let decoder = &replica.watchers[watcher].decoder;
        let input = if call.stream {
            match self.server.watch(&call.path, self.now) {
                Ok(watch) => {
                    let stream = Stream { call: call.id, watch, last: self.now, stalled: false };
                    if let Some(old) = replica.watchers[watcher].stream.replace(stream) {
                        self.server.store.close(old.watch);
                    }
                    Input::Opened(call.id)
                }
                Err(response) => {
                    Input::Refused(call.id, refusal(response.status, None, &response.body))
                }
            }
        } else {
            let response = self.server.list(&call.path, self.now);
            match response.status {
                200 => {
                    let page = decoder.page(&response.body);
                    Input::Page(call.id, page.expect("the server answers lists with lists"))
                }
                status => Input::Refused(call.id, refusal(status, None, &response.body)),
            }
        };
        let delay = self.delay();
        if let Some(replica) = &mut self.replica
            && let Some(stream) = &mut replica.watchers[watcher].stream
        {
            stream.last = self.now + delay;
        }
        self.at(delay, Event::Inputs { life, watcher, inputs: vec![input] });
    }

    /// What the open stream of a watcher has to say sets out for it.
    fn deliver(&mut self, replica: &mut Replica, watcher: usize) {
        let life = replica.life;
        let Some(stream) = &mut replica.watchers[watcher].stream else { return };
        let frames = self.server.frames(stream.watch, self.now);
        if (frames.lines.is_empty() && !frames.ended) || stream.stalled {
            return;
        }
        let call = stream.call;
        let due = (self.now + self.network.delay(&mut self.rng)).max(stream.last);
        stream.last = due;
        let mut kept = frames.lines.len();
        let mut end = frames.ended.then_some(Input::Closed(call));
        match self.network.piece(&mut self.rng) {
            Piece::Arrives => {}
            Piece::Stalls => {
                stream.stalled = true;
                return;
            }
            Piece::Breaks => {
                kept = self.rng.usize(..=kept);
                end = Some(Input::Failed(call, "connection reset".to_owned()));
            }
        }
        let over = end.is_some().then_some(stream.watch);
        let decoder = &replica.watchers[watcher].decoder;
        let lines = frames.lines.iter().take(kept);
        let inputs = lines.map(|line| Input::Frame(call, decoder.frame(line))).chain(end).collect();
        if let Some(watch) = over {
            self.server.store.close(watch);
            replica.watchers[watcher].stream = None;
        }
        self.at(due.since(self.now), Event::Inputs { life, watcher, inputs });
    }

    /// A request sets out.
    fn send(&mut self, life: u32, sender: Sender, request: Request) -> Result<(), String> {
        if sender == Sender::Executor && request.method != client::Method::Get {
            self.last_write = self.now;
        }
        let fate = self.network.fate(&mut self.rng);
        if let Some(binding) = Bound::by(&request) {
            self.open_bindings.sent(&self.server, &binding, request.id)?;
        }
        self.say(|| format!("{fate:?}: {} {}", request.method.as_str(), request.path));
        if fate != Fate::Served {
            self.summary.faults += 1;
        }
        let (id, timeout, delay) = (request.id, request.timeout, self.delay());
        let learn = |reply| Event::Learn { life, sender, id, reply };
        let lost = || Reply::Lost("timeout".to_owned());
        match fate {
            Fate::NotSent => {
                self.at(delay, learn(Reply::NotSent("connection refused".to_owned())));
            }
            Fate::Vanishes => self.at(timeout, learn(lost())),
            Fate::Refused(status) => self.at(delay, learn(answered(status, b"no".to_vec()))),
            Fate::Lingers(late) => {
                self.at(delay, learn(lost()));
                self.at(delay + late, Event::Arrive { life, sender, request, fate });
            }
            Fate::Served | Fate::AnswerLost | Fate::Garbled(_) => {
                self.at(delay, Event::Arrive { life, sender, request, fate });
            }
        }
        Ok(())
    }

    /// A request reaches the server.
    fn arrive(
        &mut self,
        life: u32,
        sender: Sender,
        request: &Request,
        fate: Fate,
    ) -> Result<(), String> {
        let asked = Bound::by(request);
        if let Some(asked) = &asked {
            rules::before_binding(&self.server, asked)?;
        }
        let (response, bound) = self.server.request_of_ours(request, self.now);
        if life == self.life && sender == Sender::Executor {
            self.open_bindings.is_over(request.id);
        }
        self.say(|| format!("{} for {}", response.status, request.path));
        if let Some(bound) = &bound {
            self.summary.bound += 1;
            rules::after_binding(&self.server, bound)?;
        }
        let reply = match fate {
            Fate::Lingers(_) => return Ok(()),
            Fate::AnswerLost => Reply::Lost("connection reset".to_owned()),
            Fate::Garbled(status) => answered(status, b"bad gateway".to_vec()),
            _ => answered(response.status, response.body.to_vec()),
        };
        let delay = self.delay();
        self.at(delay, Event::Learn { life, sender, id: request.id, reply });
        Ok(())
    }

    /// What became of a request reaches the scheduler.
    fn learn(&mut self, life: u32, sender: Sender, id: RequestId, reply: Reply) {
        if sender == Sender::Executor && !matches!(reply, Reply::Lost(_)) {
            self.open_bindings.is_over(id);
        }
        if let Some(replica) = self.replica.as_mut().filter(|it| it.life == life) {
            let ports = &mut Ports { outside: &mut (), probe: &mut () };
            replica.scheduler.reply(sender, id, reply, self.now, ports);
        }
    }

    fn decide(&mut self, life: u32) -> Result<(), String> {
        let Some(replica) = self.replica.as_mut().filter(|it| it.life == life) else {
            return Ok(());
        };
        self.deciding = false;
        let ports = &mut Ports { outside: &mut (), probe: &mut () };
        let Some(attempt) = replica.scheduler.schedule_one(self.now, ports) else { return Ok(()) };
        if let Outcome::Assumed(node) = &attempt.outcome {
            rules::after_decision(replica.scheduler.engine(), &attempt.pod, node)?;
        }
        self.say(|| format!("{}: {:?}", attempt.pod.key, attempt.outcome));
        Ok(())
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let elapsed = self.now.since(Time::from_secs(BEGINNING));
        let line = format!("{elapsed:>12.3?} {}", line());
        if self.trace.print {
            eprintln!("{line}");
        }
        if self.trace.last.len() == LAST_LINES {
            self.trace.last.pop_front();
        }
        self.trace.last.push_back(line);
    }

    fn violation(&self, text: &str) -> Violation {
        Violation {
            seed: self.seed,
            text: text.to_owned(),
            trace: self.trace.last.iter().cloned().collect(),
        }
    }
}

fn answered(status: u16, body: Vec<u8>) -> Reply {
    Reply::Answered(Response { status, retry_after: None, body })
}
