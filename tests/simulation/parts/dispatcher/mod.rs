//! The API dispatcher against its contract.
//!
//! Effects on a few objects go in. Their requests are answered in any order, late, and in every way
//! in which API servers, webhooks, proxies and extenders answer. The model is a list of calls in
//! the order of their effects. It says of each request and of each answer of the dispatcher whether
//! it is the one that has to come, and after each step whether one is missing.

mod call;
mod replies;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::api_dispatcher::{ApiDispatcher, CallState, CallType, FinishedCall, Limits};
use control::{Destination, Reply, Request, RequestId};
use engine::{Effect, EffectId, EffectKind, Eviction};
use fastrand::Rng;
use framework::{
    Answer, Binding, PodKey, ScheduledCondition, StatusPatch, Time, Uid, WallOffset, Write,
    WriteAction,
};
use serde_json::{Value, json};

use self::call::{About, Call, Delays, Follows, Is, READS_END};
use self::replies::{Asked, Shows, carried_out, draw};
use super::super::rules::{Checked, rule};

/// Number of steps of a history.
const STEPS: usize = 40;
/// Time after which an answer counts as slow.
const SLOW: Duration = Duration::from_millis(500);
/// Time for which the version of an own write is known at least.
const KNOWN: Duration = Duration::from_mins(1);

/// Lives through one history.
///
/// # Errors
/// The dispatcher differs from the model.
pub(crate) fn live(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    let stops_at = if random.u8(..8) == 0 { random.usize(..STEPS) } else { STEPS };
    for step in 0..STEPS {
        if step == stops_at {
            trace.push("stop".to_owned());
            history.dispatcher.stop();
            history.model.stop();
            history.check(&[])?;
        }
        history.step(random, trace)?;
    }
    history.rest(trace)
}

struct History {
    dispatcher: ApiDispatcher,
    model: Model,
    now: Time,
    next_id: u64,
    version: u64,
    /// How the server answers most requests; `None` if it answers each in another way.
    habit: Option<u64>,
}

/// The version that our own write gave a pod.
struct Written {
    version: u64,
    generation: i64,
    at: Time,
}

/// The reads of a pod, with the delays that are to be expected at least and at most.
struct Reads {
    last: Time,
    least: Delays,
    most: Delays,
}

/// An answer that has to come.
struct Expected {
    id: u64,
    is: Is,
    object: Option<Value>,
}

struct Model {
    limits: Limits,
    calls: Vec<Call>,
    /// The calls with a request in flight.
    requests: BTreeMap<RequestId, u64>,
    paused_until: Option<Time>,
    /// Number of requests that the rate allows now, at the time of the last look.
    tokens: (f64, Time),
    written: BTreeMap<Uid, Written>,
    reads: BTreeMap<Uid, Reads>,
    /// Flows whose last answer was slow.
    slow: BTreeSet<String>,
    wall_offset: WallOffset,
    is_stopped: bool,
    /// What the present step has to bring about.
    answers: Vec<Expected>,
    finished: Vec<FinishedCall>,
    failed: Vec<(&'static str, String)>,
}

impl History {
    fn new(random: &mut Rng) -> Self {
        let limits = Limits {
            max_in_flight: [1, 2, 3, 4, 64][random.usize(..5)],
            qps: (random.u8(..4) == 0).then(|| [0.5, 4.0][random.usize(..2)]),
            burst: random.u32(1..4),
            max_waiting: random.usize(..4),
            request_timeout: Duration::from_secs(random.u64(5..9)),
            retry_period: Duration::from_secs([1, 10, 30][random.usize(..3)]),
        };
        let now = Time::parse_rfc3339("2026-01-01T00:00:00.7Z").unwrap_or(Time::ZERO);
        Self {
            dispatcher: ApiDispatcher::new(limits.clone(), random.u64(..)),
            model: Model::new(limits, now),
            now,
            next_id: 0,
            version: 10,
            habit: (random.u8(..4) == 0).then(|| random.u64(..)),
        }
    }

    fn step(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        match random.u8(..20) {
            0..9 => {
                let effect = self.draw_effect(random);
                trace.push(format!("{:?}: add {} {effect:?}", self.now, self.next_id));
                self.add(effect)
            }
            9..15 if !self.model.requests.is_empty() => {
                let number = random.usize(..self.model.requests.len());
                let (id, _) = self
                    .model
                    .requests
                    .iter()
                    .nth(number)
                    .map(|(a, b)| (*a, *b))
                    .ok_or("no request")?;
                let asked = self.model.asked(id)?;
                let pod = self.draw_object(id, random)?;
                let (reply, shows) = match self.habit.filter(|_| random.u8(..10) > 0) {
                    Some(habit) => draw(asked, &pod, &mut Rng::with_seed(habit)),
                    None => draw(asked, &pod, random),
                };
                trace.push(format!("{:?}: reply to {id:?}: {shows:?}", self.now));
                self.reply(id, reply, &shows)
            }
            15 => {
                let wall = self.now + Duration::from_secs(random.u64(..600));
                self.model.wall_offset = WallOffset::between(self.now, wall);
                self.dispatcher.set_wall_offset(self.model.wall_offset);
                Ok(())
            }
            _ => {
                let next = self.dispatcher.next_deadline().filter(|_| random.u8(..3) > 0);
                let wait = match next {
                    Some(next) => next.since(self.now),
                    None => Duration::from_millis(
                        [1, 300, 500, 1500, 7000, 62_000, 400_000][random.usize(..7)],
                    ),
                };
                trace.push(format!("{:?}: wait {wait:?}", self.now));
                self.wait(wait)
            }
        }
    }

    /// Lets every request succeed until no call is left.
    fn rest(&mut self, trace: &mut Vec<String>) -> Checked {
        for _ in 0..2000 {
            let Some(id) = self.model.requests.keys().next().copied() else {
                let Some(next) = self.dispatcher.next_deadline() else { break };
                self.wait(next.since(self.now))?;
                continue;
            };
            let asked = self.model.asked(id)?;
            self.version += 1;
            let pod = json!({ "metadata": { "uid": self.model.uid(id)?, "resourceVersion": self.version.to_string() } });
            let (reply, shows) = carried_out(asked, &pod);
            trace.push(format!("{:?}: {id:?} succeeds", self.now));
            self.reply(id, reply, &shows)?;
        }
        rule(self.model.calls.is_empty(), || {
            format!("{} calls never end", self.model.calls.len())
        })?;
        let left = (self.dispatcher.unfinished(), self.dispatcher.next_deadline());
        rule(left == (0, None), || format!("after the last call: {left:?}"))
    }

    fn add(&mut self, kind: EffectKind) -> Checked {
        let id = self.next_id;
        self.next_id += 1;
        self.model.add(id, kind.clone(), self.now);
        self.dispatcher.add(Effect { id: EffectId::from_u64(id), kind }, self.now);
        self.dispatcher.tick(self.now);
        self.check(&[])
    }

    fn reply(&mut self, id: RequestId, reply: Reply, shows: &Shows) -> Checked {
        let status = match &reply {
            Reply::Answered(response) => Some(response.status),
            _ => None,
        };
        self.dispatcher.handle_reply(id, reply.clone(), self.now);
        // A second reply to a request changes nothing.
        self.dispatcher.handle_reply(id, reply, self.now);
        let answers = self.dispatcher.take_answers();
        let answered: BTreeSet<u64> = answers.iter().map(|(id, _)| id.as_u64()).collect();
        self.model.replied(id, status, shows, &answered, self.now)?;
        self.check(&answers)
    }

    fn wait(&mut self, wait: Duration) -> Checked {
        self.now = self.now + wait;
        self.dispatcher.tick(self.now);
        self.check(&[])
    }

    /// Compares everything that can be observed.
    fn check(&mut self, answers: &[(EffectId, Answer)]) -> Checked {
        let now = self.now;
        for request in self.dispatcher.take_requests() {
            self.model.sent(&request, now)?;
        }
        self.model.answered(answers)?;
        let late = self.dispatcher.take_answers();
        rule(late.is_empty(), || format!("answers without a reply: {late:?}"))?;
        self.model.nothing_is_due(now)?;
        let finished = self.dispatcher.take_finished_calls();
        let expected = std::mem::take(&mut self.model.finished);
        rule(finished == expected, || format!("finished: {finished:?} instead of {expected:?}"))?;
        let failed = self.dispatcher.take_failed_calls();
        let failed: Vec<_> = failed.into_iter().map(|call| (call.action, call.object)).collect();
        let expected = std::mem::take(&mut self.model.failed);
        rule(failed == expected, || format!("failed: {failed:?} instead of {expected:?}"))?;
        let (unfinished, expected) = (self.dispatcher.unfinished(), self.model.calls.len());
        rule(unfinished == expected, || format!("{unfinished} calls instead of {expected}"))?;
        let is_paused = self.model.paused_until.is_some_and(|until| now < until);
        rule(self.dispatcher.is_paused(now) == is_paused, || format!("is paused: {}", !is_paused))?;
        self.counts()?;
        self.backlog()?;
        self.deadline(is_paused)
    }

    fn counts(&self) -> Checked {
        let counts = self.dispatcher.call_counts();
        for call_type in CallType::ALL {
            let of_type = || self.model.calls.iter().filter(|call| call.call_type() == call_type);
            let expected =
                (of_type().count(), of_type().filter(|call| call.sent.is_some()).count());
            let all =
                CallState::ALL.map(|state| counts.get(&(call_type, state)).copied().unwrap_or(0));
            let in_flight = counts.get(&(call_type, CallState::InFlight)).copied().unwrap_or(0);
            let counted = (all.iter().sum::<usize>(), in_flight);
            rule(counted == expected, || {
                format!("{call_type:?}: {counted:?} calls and in flight, not {expected:?}")
            })?;
        }
        Ok(())
    }

    fn backlog(&self) -> Checked {
        let heads = self.model.heads();
        let (due, maybe): (Vec<&Call>, Vec<&Call>) = heads
            .into_iter()
            .filter(|call| {
                call.sent.is_none() && call.delayed.is_none_or(|(from, _)| from <= self.now)
            })
            .partition(|call| call.delayed.is_none_or(|(_, to)| to <= self.now));
        if !maybe.is_empty() {
            return Ok(());
        }
        let most = self.model.limits.max_waiting;
        let quick: Vec<_> =
            due.iter().filter(|call| !self.model.hangs(&call.flow(), self.now)).collect();
        // A flow that was slow is forgotten when it has nothing to send.
        let fast = quick.iter().filter(|call| !self.model.slow.contains(&call.flow())).count();
        let (is, waiting) = (self.dispatcher.has_backlog(), quick.len());
        rule(if is { waiting > most } else { fast <= most }, || {
            format!("{waiting} calls wait, {fast} in fast flows, and a backlog is: {is}")
        })
    }

    fn deadline(&self, is_paused: bool) -> Checked {
        let (now, next) = (self.now, self.dispatcher.next_deadline());
        rule(next.is_none_or(|next| next > now), || {
            format!("the next deadline {next:?} is not after {now:?}")
        })?;
        let by = |at: Time, what: &str| {
            rule(next.is_some_and(|next| next <= at), || {
                format!("{what} at {at:?}, and the next deadline is {next:?}")
            })
        };
        for call in self.model.heads() {
            if let (None, Some((from, to))) = (call.sent, call.delayed)
                && from > now
            {
                by(to, "a delay ends")?;
            }
        }
        if is_paused {
            by(self.model.paused_until.unwrap_or(now), "a pause ends")?;
        } else if self.model.sendable(now).next().is_some() {
            by(self.model.next_token(), "the rate allows a request")?;
        }
        let waits = self.model.calls.iter().any(|call| call.sent.is_none());
        rule(next.is_none() || waits || is_paused, || {
            format!("no call waits, and the next deadline is {next:?}")
        })
    }
}

impl Model {
    fn new(limits: Limits, now: Time) -> Self {
        Self {
            tokens: (f64::from(limits.burst), now),
            limits,
            calls: Vec::new(),
            requests: BTreeMap::new(),
            paused_until: None,
            written: BTreeMap::new(),
            reads: BTreeMap::new(),
            slow: BTreeSet::new(),
            wall_offset: WallOffset::default(),
            is_stopped: false,
            answers: Vec::new(),
            finished: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn call(&self, request: RequestId) -> Result<&Call, String> {
        let id = self.requests.get(&request).ok_or("the request is not in flight")?;
        self.calls.iter().find(|call| call.id == *id).ok_or_else(|| "the call has ended".to_owned())
    }

    fn asked(&self, request: RequestId) -> Result<Asked, String> {
        self.call(request).map(Call::asked)
    }

    fn uid(&self, request: RequestId) -> Result<String, String> {
        Ok(self.call(request)?.uid().map_or_else(|| "p0-0".to_owned(), ToString::to_string))
    }

    /// The first call of each object.
    fn heads(&self) -> Vec<&Call> {
        let mut seen = BTreeSet::new();
        self.calls.iter().filter(|call| seen.insert(call.object())).collect()
    }

    /// The first calls, as far as a request of them may be sent after those in flight, beside
    /// pauses and the rate.
    fn sendable(&self, now: Time) -> impl Iterator<Item = &Call> {
        let limited = |call: &&Call| call.sent.is_some() && !call.is_of_extender();
        let in_flight = self.calls.iter().filter(limited).count();
        let free = self.limits.max_in_flight - in_flight.min(self.limits.max_in_flight);
        let own = |flow: &str| {
            self.calls.iter().filter(|call| call.sent.is_some() && call.flow() == flow).count()
        };
        let heads = self.heads().into_iter();
        heads.filter(move |call| {
            let is_due = call.delayed.is_none_or(|(_, to)| to <= now);
            // A flow uses at most as many requests as it leaves free.
            let has_room = free > 0 && own(&call.flow()) <= free;
            call.sent.is_none() && is_due && !call.is_of_extender() && has_room
        })
    }

    fn add(&mut self, id: u64, effect: EffectKind, now: Time) {
        if self.is_stopped {
            return;
        }
        let mut call = Call::new(id, effect);
        let object = call.object();
        if call.is_bind() {
            // The server sets the condition and clears the nomination of a pod that it binds.
            let uid = call.uid().cloned();
            self.calls.retain(|other| {
                !(other.is_patch()
                    && other.sent.is_none()
                    && other.object() == object
                    && other.uid() == uid.as_ref())
            });
        }
        if call.is_patch()
            && let Some(last) = self.calls.iter_mut().rev().find(|other| other.object() == object)
            && last.is_patch()
            && last.sent.is_none()
            && last.uid() == call.uid()
        {
            last.merge(&call);
            return;
        }
        if let (true, Some(uid)) = (call.is_read(), call.uid().cloned()) {
            call.delayed = self.delay_of_read(&uid, now);
        }
        self.calls.push(call);
        self.are_ready(now);
    }

    /// The first read of a pod is sent at once, and the later ones after growing delays.
    fn delay_of_read(&mut self, uid: &Uid, now: Time) -> Option<About> {
        let Some(mut reads) = self.reads.remove(uid) else {
            let (least, most) = (Delays::of_reads(), Delays::of_reads());
            self.reads.insert(uid.clone(), Reads { last: now, least, most });
            return None;
        };
        let mut from = now;
        if now.since(reads.last) >= READS_END {
            // It starts over, without a delay or with the first one.
            (reads.least, reads.most) = (Delays::of_reads(), Delays::of_reads());
        } else {
            from = now + reads.least.take().0;
        }
        let to = now + reads.most.take().1;
        self.reads.insert(uid.clone(), Reads { last: now, ..reads });
        Some((from, to))
    }

    /// Notes since when first calls can be sent, beside the limits.
    fn are_ready(&mut self, now: Time) {
        let mut seen = BTreeSet::new();
        for call in &mut self.calls {
            if seen.insert(call.object()) && call.sent.is_none() && call.ready.is_none() {
                let delayed = call.delayed.unwrap_or((now, now));
                call.ready = Some((delayed.0.max(now), delayed.1.max(now)));
            }
        }
    }

    /// Whether a request of the flow has no answer for too long.
    fn hangs(&self, flow: &str, now: Time) -> bool {
        let of_flow = |call: &&Call| call.flow() == flow;
        let hangs = |call: &Call| call.sent.is_some_and(|sent| now.since(sent) >= SLOW);
        self.calls.iter().filter(of_flow).any(hangs)
    }

    /// Returns the time at which the rate allows a request.
    fn next_token(&self) -> Time {
        let (tokens, at) = self.tokens;
        let missing = (1.0 - tokens).max(0.0);
        let seconds = self.limits.qps.map_or(0.0, |qps| missing / f64::from(qps));
        at + Duration::from_secs_f64(seconds) + Duration::from_nanos(10)
    }

    fn refill(&mut self, now: Time) {
        let (tokens, at) = self.tokens;
        let gained =
            self.limits.qps.map_or(0.0, |qps| f64::from(qps) * now.since(at).as_secs_f64());
        self.tokens = ((tokens + gained).min(f64::from(self.limits.burst)), now);
    }

    /// Checks a request.
    fn sent(&mut self, request: &Request, now: Time) -> Checked {
        self.refill(now);
        let wall = self.wall_offset.wall_time(now);
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let method = request.method.as_str();
        let text = || format!("{method} {} {body}", request.path);
        rule(!self.is_stopped, || format!("{} is sent after the end", text()))?;
        let (mut stripped, mut named) = (body.clone(), 0);
        if let Some(metadata) = stripped.get_mut("metadata").and_then(Value::as_object_mut)
            && let Some(version) = metadata.remove("resourceVersion")
        {
            named = version.as_str().and_then(|version| version.parse().ok()).unwrap_or(u64::MAX);
        }
        let is_it = |call: &&&Call| {
            let (own_method, path, content_type, own) = call.request(wall);
            call.sent.is_none()
                && (method, &*request.path) == (own_method, &*path)
                && (own.is_null() || content_type == request.content_type)
                && own == stripped
        };
        let heads = self.heads();
        let Some(call) = heads.iter().find(is_it).map(|call| (**call).clone()) else {
            let wanted: Vec<_> = heads.iter().map(|call| (call.sent, call.request(wall))).collect();
            return Err(format!("{} is no request of {wanted:?}", text()));
        };
        if let Some((version, generation)) = call.version() {
            self.names(&call, named, version, generation, now)
                .map_err(|error| format!("{}: {error}", text()))?;
        }
        rule(call.delayed.is_none_or(|(from, _)| from <= now), || {
            format!("{} is sent too early", text())
        })?;
        self.is_in_turn(&call, now).map_err(|error| format!("{}: {error}", text()))?;
        let destination = match &call.effect {
            EffectKind::ExtenderBind { extender, .. } => Destination::Extender(*extender),
            _ => Destination::ApiServer,
        };
        let own = (request.destination, request.timeout, request.not_after);
        let expected = (destination, self.limits.request_timeout, None);
        rule(own == expected, || format!("{}: {own:?} instead of {expected:?}", text()))?;
        let status = request.retry_of.map(|tried| tried.status);
        rule(status == call.repeats, || {
            format!("{} repeats {status:?}, not {:?}", text(), call.repeats)
        })?;
        let (from, to) = call.ready.unwrap_or((now, now));
        let waited = request.waited;
        rule((now.since(to)..=now.since(from)).contains(&waited), || {
            format!("{} waited {waited:?}, and was ready from {from:?} or {to:?}", text())
        })?;
        if !call.is_of_extender() {
            self.tokens.0 -= 1.0;
        }
        let call =
            self.calls.iter_mut().find(|other| other.id == call.id).ok_or("the call has ended")?;
        call.has_named(named);
        (call.sent, call.delayed, call.ready, call.repeats) = (Some(now), None, None, None);
        call.first_sent.get_or_insert(now);
        let other = self.requests.insert(request.id, call.id);
        rule(other.is_none(), || format!("{:?} is used twice", request.id))
    }

    /// Checks the version that a request names: the known one, or a newer one of our own write of
    /// the same specification.
    fn names(
        &self,
        call: &Call,
        named: u64,
        known: u64,
        generation: Option<i64>,
        now: Time,
    ) -> Checked {
        let written = call.uid().and_then(|uid| self.written.get(uid));
        let written =
            written.filter(|written| generation == Some(written.generation) && known != 0);
        let newest = written.map_or(known, |written| written.version.max(known));
        let may_be_forgotten = written.is_some_and(|written| now.since(written.at) > KNOWN);
        rule(named == newest || may_be_forgotten && named == known, || {
            format!("names the version {named} instead of {newest}")
        })
    }

    /// Checks that limits allow a request of the call, and that no other call has its turn before.
    fn is_in_turn(&self, call: &Call, now: Time) -> Checked {
        if call.is_of_extender() {
            return Ok(());
        }
        rule(self.paused_until.is_none_or(|until| until <= now), || {
            "is sent in a pause".to_owned()
        })?;
        rule(self.limits.qps.is_none() || self.tokens.0 > 1.0 - 1e-6, || {
            "exceeds the rate".to_owned()
        })?;
        let limited = |other: &&Call| other.sent.is_some() && !other.is_of_extender();
        let in_flight = self.calls.iter().filter(limited);
        let (all, own) = (
            in_flight.clone().count(),
            in_flight.filter(|other| other.flow() == call.flow()).count(),
        );
        let free = self.limits.max_in_flight.saturating_sub(all);
        rule(free > 0 && own <= free, || {
            format!("is sent beside {all}, {own} of them of its flow")
        })?;
        let before = self.sendable(now).find(|other| {
            let (Some((_, to)), Some((from, _))) = (other.turn(), call.turn()) else {
                return false;
            };
            (to, other.id) < (from, call.id)
        });
        rule(before.is_none(), || format!("is sent before {before:?}"))
    }

    /// Checks that no request is missing.
    fn nothing_is_due(&mut self, now: Time) -> Checked {
        self.refill(now);
        let is_due =
            |call: &&&Call| call.sent.is_none() && call.delayed.is_none_or(|(_, to)| to <= now);
        let heads = self.heads();
        let of_extender = heads.iter().filter(is_due).find(|call| call.is_of_extender());
        rule(of_extender.is_none(), || format!("{of_extender:?} is due"))?;
        let is_held = self.paused_until.is_some_and(|until| now < until)
            || self.limits.qps.is_some() && self.tokens.0 < 1.0 + 1e-6;
        let due = self.sendable(now).next().filter(|_| !is_held);
        rule(due.is_none(), || format!("{due:?} is due"))
    }

    /// Handles a reply.
    fn replied(
        &mut self,
        request: RequestId,
        status: Option<u16>,
        shows: &Shows,
        answered: &BTreeSet<u64>,
        now: Time,
    ) -> Checked {
        let id = self.requests.remove(&request).ok_or("the request is not in flight")?;
        let place = self.calls.iter().position(|call| call.id == id).ok_or("the call has ended")?;
        if let Shows::Pause(pause) = shows {
            self.paused_until = self.paused_until.max(Some(now + *pause));
        }
        let mut call = self.calls[place].clone();
        let sent = call.sent.take().ok_or("no request was sent")?;
        let flow = call.flow();
        match now.since(sent) >= SLOW {
            true => self.slow.insert(flow),
            false => self.slow.remove(&flow),
        };
        if let Shows::CarriedOut(Some(pod)) = shows
            && call.writes_pod()
        {
            self.has_written(pod, now);
        }
        let object = call.object();
        let is_overtaken = call.is_patch()
            && self.calls.iter().any(|other| {
                other.is_bind() && other.object() == object && other.uid() == call.uid()
            });
        let mut follows = call.replied(shows, self.limits.retry_period, now);
        if let Follows::AgainOr(shortest, longest, is) = follows {
            follows = match answered.contains(&id) {
                true => Follows::Answer(is, None),
                false => Follows::Again(shortest, longest),
            };
        }
        if is_overtaken && !matches!(follows, Follows::Answer(..)) {
            follows = Follows::Answer(Is::Ok, None);
        }
        match follows {
            Follows::Answer(is, object) => self.finish(place, &call, is, object, now),
            Follows::Next => self.calls[place] = call,
            Follows::Again(shortest, longest) | Follows::AgainOr(shortest, longest, _) => {
                if call.is_read() {
                    self.failed.push((call.action(), call.object()));
                }
                call.delayed = Some((now + shortest, now + longest));
                call.repeats = Some(status);
                self.calls[place] = call;
            }
        }
        if self.is_stopped {
            self.stop();
        }
        self.are_ready(now);
        Ok(())
    }

    fn has_written(&mut self, pod: &Value, now: Time) {
        let metadata = &pod["metadata"];
        let version = metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let (Some(uid), Some(version)) = (metadata["uid"].as_str(), version) else { return };
        if pod["spec"]["nodeName"].is_null() {
            let generation = metadata["generation"].as_i64().unwrap_or(0);
            self.written.insert(uid.into(), Written { version, generation, at: now });
        }
    }

    fn finish(&mut self, place: usize, call: &Call, is: Is, object: Option<Value>, now: Time) {
        self.calls.remove(place);
        let has_failed = is != Is::Ok && !call.is_moot(is);
        let first = call.first_sent.unwrap_or(now);
        let decided = match &call.effect {
            EffectKind::Bind { decided, .. } | EffectKind::ExtenderBind { decided, .. } => {
                Some(*decided)
            }
            _ => None,
        };
        self.finished.push(FinishedCall {
            call_type: call.call_type(),
            succeeded: !has_failed,
            took: now.since(first),
            decision_age: decided.map(|decided| first.since(decided)),
        });
        if has_failed {
            self.failed.push((call.action(), call.object()));
        }
        if let Some(id) = call.answered_effect() {
            self.answers.push(Expected { id, is, object });
        }
    }

    /// Compares the answers of a step.
    fn answered(&mut self, answers: &[(EffectId, Answer)]) -> Checked {
        let expected = std::mem::take(&mut self.answers);
        let given: Vec<_> =
            answers.iter().map(|(id, answer)| (id.as_u64(), kind_of(answer))).collect();
        let wanted: Vec<_> = expected.iter().map(|answer| (answer.id, answer.is)).collect();
        rule(given == wanted, || format!("answers {answers:?} instead of {wanted:?}"))?;
        for ((_, answer), expected) in answers.iter().zip(expected) {
            let object = if let Answer::Ok(object) = answer { object.clone() } else { None };
            rule(object == expected.object, || {
                format!("{answer:?} instead of {:?}", expected.object)
            })?;
            let has_text = answer.failure().is_none_or(|text| !text.is_empty());
            rule(has_text, || format!("{answer:?} does not say why"))?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.is_stopped = true;
        self.calls.retain(|call| call.sent.is_some());
    }
}

fn kind_of(answer: &Answer) -> Is {
    match answer {
        Answer::Ok(_) => Is::Ok,
        Answer::Conflict(_) => Is::Conflict,
        Answer::Outdated(_) => Is::Outdated,
        Answer::Gone(_) => Is::Gone,
        Answer::Forbidden(_) => Is::Forbidden,
        Answer::Throttled(_) => Is::Throttled,
        Answer::Unknown(_) => Is::Unknown,
        _ => Is::Error,
    }
}

/// What happens.
impl History {
    /// Draws the object in a reply: often that of the request, or as others have changed it.
    fn draw_object(&mut self, request: RequestId, random: &mut Rng) -> Result<Value, String> {
        self.version += 1;
        let call = self.model.call(request)?;
        let named = call.version().map_or(0, |(named, _)| named);
        let version = if random.u8(..4) == 0 { named.max(1) } else { self.version };
        let uid = if random.u8(..8) == 0 { "p0-9".to_owned() } else { self.model.uid(request)? };
        let mut pod = json!({ "metadata": { "uid": uid, "resourceVersion": version.to_string() } });
        match random.u8(..6) {
            0 => {}
            1 => pod["metadata"]["generation"] = 2.into(),
            _ => pod["metadata"]["generation"] = 1.into(),
        }
        if random.u8(..5) == 0 {
            pod["spec"] = json!({ "nodeName": "n1" });
        }
        if random.bool() {
            let kind = ["PodScheduled", "Ready"][random.usize(..2)];
            pod["status"] = json!({ "conditions": [{ "type": kind }] });
        }
        Ok(pod)
    }

    fn draw_effect(&mut self, random: &mut Rng) -> EffectKind {
        let number = random.usize(..3);
        let (name, namespace) = (format!("p{number}"), ["a", "a", "b"][number]);
        let pod = PodKey::new(namespace, &name);
        let uid: Uid = (&*format!("{name}-{}", u8::from(random.u8(..5) == 0))).into();
        let resource_version = [0, self.version, self.version, 5][random.usize(..4)];
        let generation = 1 + i64::from(random.u8(..6) == 0);
        let observed_generation = generation;
        let decided = Time::from_nanos(self.now.as_nanos() - random.i64(0..3_000_000_000));
        let binding = Binding { pod: pod.clone(), uid: uid.clone(), node: "n1".into() };
        let condition = ScheduledCondition {
            status: false,
            reason: "Unschedulable".into(),
            message: format!("text {}", random.u8(..100)).into(),
        };
        match random.u8(..16) {
            0..4 => EffectKind::Bind { binding, decided, generation, resource_version },
            4 => EffectKind::ExtenderBind { extender: random.usize(..2), binding, decided },
            5 | 6 => EffectKind::Write(draw_write(&pod, random)),
            7 => EffectKind::ReadPod { pod, uid },
            8 => EffectKind::Fence { pod, uid, observed_generation, resource_version, condition },
            9 => {
                let has_condition = random.bool();
                EffectKind::TouchPod {
                    pod,
                    uid,
                    observed_generation,
                    resource_version,
                    has_condition,
                }
            }
            10 | 11 => {
                let condition_message = random.bool().then(|| "makes room".to_owned());
                let preemptor = PodKey::new("a", "p9");
                EffectKind::Evict(Eviction {
                    pod,
                    uid,
                    preemptor,
                    observed_generation,
                    condition_message,
                })
            }
            _ => {
                let nomination = [None, Some(""), Some("n1"), Some("n2")][random.usize(..4)];
                let patch = StatusPatch {
                    condition: Some(condition).filter(|_| nomination.is_none() || random.bool()),
                    nominated_node_name: nomination.map(Into::into),
                };
                EffectKind::PatchPodStatus {
                    pod,
                    uid,
                    observed_generation,
                    resource_version,
                    patch,
                }
            }
        }
    }
}

fn draw_write(pod: &PodKey, random: &mut Rng) -> Write {
    let number = random.u8(..);
    let action = random.u8(..5);
    let is_pod = random.bool();
    let has_subresource = action != 0 && random.u8(..4) == 0;
    let subresource = has_subresource.then(|| "status".into());
    let name = if is_pod { pod.name.clone() } else { format!("v{}", random.u8(..2)).into() };
    // The name tells requests to create objects apart.
    let metadata = json!({ "uid": "x", "name": &*name });
    let body = json!({ "metadata": metadata, "spec": { "number": number } });
    Write {
        api_version: "v1".into(),
        resource: if is_pod { "pods".into() } else { "persistentvolumes".into() },
        namespace: if is_pod { pod.namespace.clone() } else { "".into() },
        name,
        subresource,
        flow: if is_pod { "" } else { ["", "fast"][random.usize(..2)] }.into(),
        action: match action {
            0 => WriteAction::Create(body),
            1 => WriteAction::Delete("x".into()),
            2 => WriteAction::StrategicMergePatch(body),
            _ => WriteAction::MergePatch(body),
        },
    }
}
