//! Carries out the effects of the engine.
//!
//! Effects on one object are carried out one after the other, in the order in which they were asked
//! for; effects on different objects side by side. What was not carried out for certain is sent
//! again; what may have been carried out is not, it is answered [`Answer::Unknown`], and the
//! engine asks to have the pod read.

mod call;
mod job;
mod lane;
mod object;
mod outcome;
mod pace;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{Effect, EffectId, EffectKind};
use framework::{Answer, Time};

use self::call::Call;
use self::job::{Job, StatusUpdate, Step, Work};
use self::lane::Lane;
use self::object::Object;
use self::outcome::Outcome;
use self::pace::Pace;
use crate::failure::Failures;
use crate::gate::Gate;
use crate::request::{Reply, Request, RequestId, RequestIds};

pub use crate::failure::Failure;

/// What the executor allows itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Requests at once.
    pub in_flight: usize,
    /// Requests a second over time; `None` or nothing above zero means no limit.
    pub qps: Option<f32>,
    /// Requests at once after a quiet time, where `qps` limits them.
    pub burst: u32,
    /// How long the reply to one request may take.
    pub timeout: Duration,
    /// How long a write is tried that the server does not take in (429, no connection).
    pub patience: Duration,
    /// Effects that may wait for their turn before [`Executor::is_throttled`] says so.
    pub backlog: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 256,
            qps: None,
            burst: 100,
            timeout: Duration::from_secs(30),
            patience: Duration::from_secs(30),
            backlog: 1024,
        }
    }
}

/// When it is whose turn: what is answered before status patches, then by age.
type Turn = (bool, EffectId);

/// The effect executor: effects and replies go in, requests and answers come out.
///
/// Every effect that is answered at all (see [`EffectKind`]) is answered once, unless
/// [`stop`](Self::stop) drops it.
#[derive(Debug)]
pub struct Executor {
    limits: Limits,
    gate: Gate,
    rng: fastrand::Rng,
    ids: RequestIds,
    lanes: BTreeMap<Object, Lane>,
    /// Number of jobs in all lanes.
    unfinished: usize,
    /// Objects whose first job may be sent.
    ready: BTreeMap<Turn, Object>,
    /// Objects whose first job pauses.
    paused: BTreeMap<(Time, EffectId), Object>,
    /// Objects whose first job is out.
    sent: BTreeMap<RequestId, Object>,
    pace: Pace,
    requests: Vec<Request>,
    answers: Vec<(EffectId, Answer)>,
    failures: Failures,
    is_stopped: bool,
}

impl Executor {
    /// An executor with nothing to do.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            gate: Gate::new(limits.in_flight, limits.qps, limits.burst),
            limits,
            rng: fastrand::Rng::with_seed(seed),
            ids: RequestIds::default(),
            lanes: BTreeMap::new(),
            unfinished: 0,
            ready: BTreeMap::new(),
            paused: BTreeMap::new(),
            sent: BTreeMap::new(),
            pace: Pace::default(),
            requests: Vec::new(),
            answers: Vec::new(),
            failures: Failures::default(),
            is_stopped: false,
        }
    }

    /// Takes an effect. Events are passed over: they are for the [recorder](crate::recorder).
    pub fn submit(&mut self, effect: Effect, now: Time) {
        if self.is_stopped {
            return;
        }
        let Some(job) = self.job(effect, now) else { return };
        let object = job.object();
        self.withdraw(&object);
        let lane = self.lanes.entry(object.clone()).or_default();
        let before = lane.len();
        lane.push(job);
        self.unfinished = self.unfinished + lane.len() - before;
        self.offer(object);
        self.dispatch(now);
    }

    /// Takes the reply to a request. What is not known, or replied to already, is passed over.
    pub fn reply(&mut self, id: RequestId, reply: Reply, now: Time) {
        let Some(object) = self.sent.remove(&id) else { return };
        let Some(lane) = self.lanes.get_mut(&object) else { return };
        let Some(job) = lane.came_back() else { return };
        if job.takes_room() {
            self.gate.leave();
        }
        let outcome = Outcome::of(reply);
        if let Outcome::Throttled { pause, .. } = &outcome {
            self.gate.hold(*pause, now);
        }
        match job.replied(outcome, self.limits.patience, now, &mut self.rng) {
            Step::Again { pause, text } => {
                job.not_before = Some(now + pause);
                if job.is_endless() {
                    self.failures.note(job.what(), object.to_string(), text);
                }
            }
            Step::Next => {}
            Step::Finished(answer) => {
                let job = lane.finish();
                self.finish(job, answer);
            }
        }
        if self.is_stopped {
            self.drop_waiting();
        }
        self.offer(object);
        self.tick(now);
    }

    /// Does what has become due.
    pub fn tick(&mut self, now: Time) {
        while let Some(entry) = self.paused.first_entry()
            && entry.key().0 <= now
        {
            let object = entry.remove();
            self.make_ready(object);
        }
        self.dispatch(now);
    }

    /// The requests to send now.
    pub fn requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// The answers to effects since the last call.
    pub fn answers(&mut self) -> Vec<(EffectId, Answer)> {
        std::mem::take(&mut self.answers)
    }

    /// What failed since the last call, for the log; the first hundred, where there are more.
    pub fn failures(&mut self) -> Vec<Failure> {
        self.failures.take()
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let paused = self.paused.first_key_value().map(|((until, _), _)| *until);
        let opens_at = self.gate.opens_at().filter(|_| !self.ready.is_empty());
        paused.into_iter().chain(opens_at).min()
    }

    /// Number of effects that were taken and are not finished.
    pub const fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Whether nothing more should be asked for at present: the server wants a pause, or too much
    /// waits for its turn.
    pub fn is_throttled(&self, now: Time) -> bool {
        self.gate.is_held(now) || self.unfinished - self.sent.len() > self.limits.backlog
    }

    /// Sends nothing more and takes no more effects. What is not out is dropped without an answer:
    /// nothing has happened, and whoever schedules next finds the pods pending. What is out is
    /// waited for.
    pub fn stop(&mut self, _now: Time) {
        self.is_stopped = true;
        self.drop_waiting();
    }

    fn drop_waiting(&mut self) {
        self.ready.clear();
        self.paused.clear();
        self.lanes.retain(|_, lane| {
            lane.drop_waiting();
            lane.len() > 0
        });
        self.unfinished = self.sent.len();
    }

    /// The job of an effect; what is not carried out here has none.
    fn job(&mut self, effect: Effect, now: Time) -> Option<Job> {
        let work = match effect.kind {
            EffectKind::Bind(binding) => Work::Bind(binding),
            EffectKind::ExtenderBind { extender, binding } => {
                Work::ExtenderBind { extender, binding }
            }
            EffectKind::Write(write) => Work::Write(write),
            EffectKind::Evict(eviction) => Work::Evict(eviction),
            EffectKind::ReadPod { pod, uid } => {
                let pause = self.pace.pause(&uid, now, &mut self.rng);
                let mut job = Job::new(effect.id, Work::ReadPod(pod));
                job.not_before = pause.map(|pause| now + pause);
                return Some(job);
            }
            EffectKind::PatchPodStatus { pod, uid, observed_generation, patch } => {
                Work::PatchPodStatus(StatusUpdate { pod, uid, observed_generation, patch })
            }
            EffectKind::Event(_) => return None,
        };
        Some(Job::new(effect.id, work))
    }

    /// Tells how a job has ended.
    fn finish(&mut self, job: Option<Job>, answer: Answer) {
        let Some(job) = job else { return };
        self.unfinished -= 1;
        let is_moot = job.is_about_living_pod() && matches!(answer, Answer::Gone(_));
        if let Some(text) = answer.failure().filter(|_| !is_moot) {
            self.failures.note(job.what(), job.object().to_string(), text.to_owned());
        }
        if !job.is_status_patch() {
            self.answers.push((job.id, answer));
        }
    }

    /// Takes the first job of an object out of the order in which jobs wait, because it may change.
    fn withdraw(&mut self, object: &Object) {
        let Some(job) = self.lanes.get(object).and_then(Lane::waiting) else { return };
        match job.not_before {
            Some(until) => self.paused.remove(&(until, job.id)),
            None => self.ready.remove(&turn(job)),
        };
    }

    /// Puts the first job of an object where it waits, unless it is out.
    fn offer(&mut self, object: Object) {
        let Some(lane) = self.lanes.get(&object) else { return };
        if lane.len() == 0 {
            self.lanes.remove(&object);
            return;
        }
        let Some(job) = lane.waiting() else { return };
        match job.not_before {
            Some(until) => self.paused.insert((until, job.id), object),
            None => self.ready.insert(turn(job), object),
        };
    }

    /// The pause of the first job of an object is over.
    fn make_ready(&mut self, object: Object) {
        if let Some(job) = self.lanes.get_mut(&object).and_then(Lane::came_back) {
            job.not_before = None;
        }
        self.offer(object);
    }

    /// Whether the first job of an object takes room in the gate.
    fn takes_room(&self, object: &Object) -> bool {
        self.lanes.get(object).and_then(Lane::waiting).is_some_and(Job::takes_room)
    }

    /// Sends what may be sent.
    fn dispatch(&mut self, now: Time) {
        while let Some((&turn, object)) = self.ready.first_key_value()
            && (!self.takes_room(object) || self.gate.enter(now))
        {
            let Some(object) = self.ready.remove(&turn) else { return };
            let Some(job) = self.lanes.get_mut(&object).and_then(Lane::send) else { return };
            let Call { to, method, path, content_type, body } = job.call(now);
            let (id, timeout) = (self.ids.next(), self.limits.timeout);
            self.requests.push(Request { id, to, method, path, content_type, body, timeout });
            self.sent.insert(id, object);
        }
    }
}

fn turn(job: &Job) -> Turn {
    (job.is_status_patch(), job.id)
}
