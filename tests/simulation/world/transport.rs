//! Requests, replies and watch streams in transit, and the checks when they arrive.

use std::hash::Hash;
use std::time::Duration;

use control::reflector::{Call, Input, Output, WatchEvent};
use control::scheduler::{FenceLimits, Hold, RequestSource};
use control::{Destination, Reply, Request, RequestId, Response};
use fastrand::Rng;
use framework::Uid;
use loadmaster::wire::{Update, status_error};
use serde_json::Value;

use super::super::coverage::Fault;
use super::super::devices;
use super::super::emphasis::Theme;
use super::super::extender::{self, Role};
use super::super::foreign;
use super::super::leases;
use super::super::network::{Fate, Piece};
use super::super::replica::{Informer, Reading, Replica, Stream};
use super::super::rules;
use super::super::server::{Bound, further_back};
use super::super::trouble::Refusal;
use super::super::volumes;
use super::super::writes::{Writes, is_fence};
use super::endpoints::{Delayed, Freshness, is_streaming_list};
use super::{Event, Refused, World};

/// Rate of pods that we bind and that their kubelets reject, in thousandths.
const REJECTED: u32 = 33;
/// Maximum time until it is, in milliseconds.
const LATEST_REJECTION: u64 = 250;
/// Maximum time after which a write that allocates devices arrives: the scheduler reckons with it
/// for two minutes.
const LATEST_ALLOCATION: Duration = Duration::from_secs(90);
/// Maximum time after which the patch arrives that stops a bind of unknown outcome.
const LATEST_FENCE: Duration = Duration::from_secs(20);
/// Rate of binds with which a process is killed, stopped or asked to end, in thousandths.
const ENDS_WHILE_BINDING: u32 = 50;
/// Time between two of these while faults last: longer than the last one may hold up decisions.
const BETWEEN_ENDS: Duration = Duration::from_mins(10);
/// The answer of an API server whose store gives none in time.
const STORAGE_TIMEOUT: &[u8] = br#"{"kind":"Status","status":"Failure","code":500,
    "message":"etcdserver: request timed out"}"#;

impl World {
    /// Records that a fault fired that concerns a process.
    fn fired_at(&mut self, fault: Fault, life: u32) {
        if let Some(seat) = self.seats.iter().position(|seat| seat.life == life) {
            self.coverage.fired_at(fault, seat);
        }
    }

    pub(super) fn handle_output(
        &mut self,
        seat: usize,
        replica: &mut Replica,
        informer: usize,
        call: Output<Update>,
    ) {
        if let Some(stream) = replica.informers[informer].stream.take() {
            self.server.store.close(stream.watch);
        }
        if let Output::Open(call) = call {
            self.activity.calls += 1;
            let lists = !call.is_watch || call.path.contains("sendInitialEvents");
            replica.informers[informer].reading =
                if lists { Reading::List } else { Reading::Watch };
            let (life, delay) = (replica.life, self.delay());
            let mut fate = self.network.fate(Theme::Watches, &mut self.rng);
            let server = self.connect(seat).unwrap_or_else(|| {
                fate = Fate::NotSent;
                0
            });
            if fate != Fate::Served {
                self.fired_at(Fault::ListFails, life);
            }
            self.say(|| format!("{life} {fate:?} at {server}: {}", call.path));
            match fate {
                Fate::Served => {
                    self.at(delay, Event::Call { life, informer, server, call, freshness: None });
                }
                Fate::NotSent => {
                    let failed = Input::Failed(call.id, "connection refused".to_owned());
                    self.at(delay, Event::Inputs { life, informer, inputs: vec![failed] });
                }
                Fate::Refused(status) | Fate::Garbled(status) => {
                    let pause = (status == 429).then(|| self.requested_pause());
                    let refused = Input::Error(call.id, status_error(status, pause, b"no"));
                    self.at(delay, Event::Inputs { life, informer, inputs: vec![refused] });
                }
                Fate::StorageTimesOut { .. } => {
                    let late = Input::Error(call.id, status_error(500, None, STORAGE_TIMEOUT));
                    self.at(delay, Event::Inputs { life, informer, inputs: vec![late] });
                }
                // The reflector itself times out.
                Fate::Vanishes | Fate::AnswerLost | Fate::Lingers(_) => self.summary.faults += 1,
            }
        }
    }

    /// A call reaches an API server.
    pub(super) fn call(
        &mut self,
        life: u32,
        informer: usize,
        server: usize,
        call: Call,
        freshness: Option<Freshness>,
    ) {
        let Some(seat) = self.seats.running(life) else { return };
        let Some(kind) =
            self.seats.at(seat).replica.as_ref().map(|own| own.informers[informer].path.clone())
        else {
            return;
        };
        match self.not_served(server, &kind, &call, freshness) {
            Some(Delayed::Waits(time, freshness)) => {
                let freshness = Some(freshness);
                return self.at(time, Event::Call { life, informer, server, call, freshness });
            }
            Some(Delayed::Failed(inputs)) => {
                let delay = self.delay();
                return self.at(delay, Event::Inputs { life, informer, inputs });
            }
            None => {}
        }
        let latest = self.server.store.resource_version();
        let cached = self.server.api_servers.cached(server, &kind, latest);
        if cached < latest {
            match call.is_watch {
                true => self.coverage.fired_at(Fault::StaleWatch, seat),
                false if call.path.contains("resourceVersion=0") => {
                    self.coverage.fired_at(Fault::StaleList, seat);
                }
                false => {}
            }
        }
        let Some(replica) = &mut self.seats.at(seat).replica else { return };
        let decoder = &replica.informers[informer].decoder;
        let input = if self.troubles.forbid_call(&call.path) {
            self.coverage.fired_at(Fault::WatchForbidden, seat);
            Input::Error(call.id, status_error(403, None, b"not allowed"))
        } else if call.is_watch {
            let path = match freshness {
                Some((needed, _)) => format!("{}&resourceVersion={needed}", call.path),
                None if is_streaming_list(&call.path) => call.path,
                None => {
                    let back = self.network.repeats(&mut self.rng);
                    if back > 0 {
                        self.coverage.fired_at(Fault::EventsRepeated, seat);
                    }
                    further_back(&call.path, back)
                }
            };
            match self.server.watch(&path, cached, self.now) {
                Ok(watch) => {
                    let (call, last) = (call.id, self.now);
                    let stream = Stream { call, server, watch, seen: None, last, stalled: false };
                    if let Some(old) = replica.informers[informer].stream.replace(stream) {
                        self.server.store.close(old.watch);
                    }
                    Input::Opened(call)
                }
                // The API server has opened the watch by the time that it knows.
                Err(response) if is_streaming_list(&path) => {
                    self.coverage.fired_at(Fault::VersionTooLarge, seat);
                    let error = status_error(0, None, &response.body);
                    let inputs = vec![
                        Input::Opened(call.id),
                        Input::Event(call.id, WatchEvent::Error(error)),
                    ];
                    let delay = self.delay();
                    return self.at(delay, Event::Inputs { life, informer, inputs });
                }
                Err(response) => {
                    if response.status == 410 {
                        replica.informers[informer].reading = Reading::Expired;
                    }
                    Input::Error(call.id, status_error(response.status, None, &response.body))
                }
            }
        } else {
            let response = self.server.list(&call.path, cached, self.now);
            match response.status {
                200 => {
                    let page = decoder.page(&response.body);
                    Input::Page(call.id, page.expect("the server answers lists with lists"))
                }
                status => Input::Error(call.id, status_error(status, None, &response.body)),
            }
        };
        let delay = self.delay();
        if let Some(replica) = &mut self.seats.at(seat).replica
            && let Some(stream) = &mut replica.informers[informer].stream
        {
            stream.last = self.now + delay;
        }
        self.at(delay, Event::Inputs { life, informer, inputs: vec![input] });
    }

    /// Sends the waiting events of the open watch of an informer, in two parts, because events may
    /// arrive separately.
    pub(super) fn deliver(&mut self, replica: &mut Replica, informer: usize) {
        let life = replica.life;
        let Informer { path, stream, .. } = &mut replica.informers[informer];
        let Some(stream) = stream else { return };
        let latest = self.server.store.resource_version();
        let cached = self.server.api_servers.cached(stream.server, path, latest);
        let due = self.server.store.watch_deadline(stream.watch);
        if stream.seen == Some(cached) && due.is_some_and(|due| due > self.now) {
            return;
        }
        stream.seen = Some(cached);
        let frames = self.server.frames(stream.watch, cached, self.now);
        if (frames.lines.is_empty() && !frames.ended) || stream.stalled {
            return;
        }
        let call = stream.call;
        let lag = self.network.lag(informer);
        let due = (self.now + lag + self.network.delay(&mut self.rng)).max(stream.last);
        let later = due + self.network.delay(&mut self.rng);
        stream.last = later;
        if !lag.is_zero() {
            self.fired_at(Fault::KindLags, life);
        }
        let mut kept = frames.lines.len();
        let mut end = frames.ended.then_some(Input::Closed(call));
        match self.network.piece(&mut self.rng) {
            Piece::Arrives => {}
            Piece::Stalls => {
                stream.stalled = true;
                self.fired_at(Fault::WatchStalls, life);
                self.say(|| format!("{life} the stream of informer {informer} stalls"));
                return;
            }
            Piece::Breaks => {
                kept = self.rng.usize(..=kept);
                self.fired_at(Fault::WatchBreaks, life);
                end = Some(Input::Failed(call, "connection reset".to_owned()));
            }
        }
        let over = end.is_some().then_some(stream.watch);
        if frames.lines.iter().any(|line| line.starts_with(b"{\"type\":\"ERROR\"")) {
            replica.informers[informer].reading = Reading::Expired;
        }
        let decoder = &replica.informers[informer].decoder;
        let lines = frames.lines.iter().take(kept);
        let frames = lines.map(|line| Input::Event(call, decoder.watch_event(line)));
        let mut inputs: Vec<_> = frames.chain(end).collect();
        if let Some(watch) = over {
            self.server.store.close(watch);
            replica.informers[informer].stream = None;
        }
        let rest = inputs.split_off(self.rng.usize(..=inputs.len()));
        for (time, inputs) in [(due, inputs), (later, rest)] {
            self.at(time.since(self.now), Event::Inputs { life, informer, inputs });
        }
    }

    /// Sends a request.
    pub(super) fn leave(
        &mut self,
        life: u32,
        source: RequestSource,
        request: Request,
    ) -> Result<(), String> {
        let Some(seat) = self.seats.running(life) else { return Ok(()) };
        let clock = self.seats.at(seat).clock(self.now);
        if request.not_after.is_some_and(|end| end < clock) {
            self.say(|| format!("{life} too late: {} {}", request.method.as_str(), request.path));
            let reply = Reply::NotSent("the time to send it is over".to_owned());
            self.at(Duration::ZERO, Event::Learn { life, source, id: request.id, reply });
            return Ok(());
        }
        let is_election = source == RequestSource::LeaderElector;
        rules::rule(!self.elects || is_election || request.not_after.is_some(), || {
            format!("{} may be sent after the authority of {life} has ended", request.path)
        })?;
        let is_bind = source == RequestSource::ApiDispatcher && Bound::by(&request).is_some();
        let ends_here = is_bind && self.ends_while_binding();
        let how = self.rng.u32(..5);
        if ends_here && how < 2 {
            self.coverage.fired_at(Fault::KilledWhileBinding, seat);
            let own = self.seats.at(seat);
            if let Some(replica) = &mut own.replica {
                own.held_back.extend(replica.take_requests(clock)?);
            }
            self.pause(seat);
            self.at(Duration::ZERO, Event::Leave { life, source, request });
            return Ok(());
        }
        let by_extender = request.destination != Destination::ApiServer;
        let request = if by_extender { self.bind_of_extender(life, request) } else { request };
        let mut fate = self.network.fate(theme_of(source, &request), &mut self.rng);
        let server = self.connect(seat).unwrap_or_else(|| {
            fate = Fate::NotSent;
            0
        });
        if let (Fate::Served, Some(status)) = (fate, self.refusal(server)) {
            fate = Fate::Refused(status);
        }
        if by_extender {
            fate = self.fate_at_extender(life, fate);
        }
        if !self.is_calm && fate == Fate::Served && devices::is_allocation(&request) {
            fate = self.fate_of_allocation(life);
        }
        if !self.is_calm && fate == Fate::Served && is_fence(&request) {
            fate = self.fate_of_fence(life);
        }
        if source == RequestSource::ApiDispatcher {
            self.activity.writes += usize::from(request.method != control::Method::Get);
            let seat = self.seats.at(seat);
            let replica = seat.replica.as_ref().expect("the process runs");
            seat.writes.sent(&self.server, &request, clock)?;
            seat.volumes.sent(&self.server, replica.scheduler.engine(), &request)?;
            seat.allocations.sent(&self.server, &request, clock)?;
        }
        self.say(|| format!("{life} {fate:?}: {} {}", request.method.as_str(), request.path));
        request.body.hash(&mut self.trace.hasher);
        if let (Some(Bound { uid, .. }), true) = (Bound::by(&request), fate != Fate::Served) {
            self.progress.rejected(&uid);
            self.gangs.bind_failed(&uid);
        }
        if let Some(fault) = fate.fault() {
            self.summary.faults += 1;
            self.fired_at(fault, life);
        }
        let timeout = if by_extender { extender::TIMEOUT } else { request.timeout };
        let (id, delay) = (request.id, self.delay());
        let learn = |reply| Event::Learn { life, source, id, reply };
        let lost = || Reply::Lost("timeout".to_owned());
        match fate {
            Fate::NotSent => {
                self.at(delay, learn(Reply::NotSent("connection refused".to_owned())));
            }
            Fate::Vanishes => self.at(timeout, learn(lost())),
            Fate::Refused(status) => {
                let body = vec![b'n'; self.rng.usize(..3)];
                self.at(delay, learn(answer_to(&request, status, body)));
            }
            Fate::StorageTimesOut { is_carried_out: false } => {
                self.at(delay, learn(storage_timeout(&request)));
            }
            Fate::Lingers(late) => {
                self.at(delay, learn(lost()));
                self.at(delay + late, Event::Arrive { life, source, request, fate, server });
            }
            Fate::Served
            | Fate::AnswerLost
            | Fate::Garbled(_)
            | Fate::StorageTimesOut { is_carried_out: true } => {
                self.at(delay, Event::Arrive { life, source, request, fate, server });
            }
        }
        if ends_here {
            self.coverage.fired_at(Fault::KilledWhileBinding, seat);
            match how {
                2 | 3 => self.kill(seat),
                _ => self.terminate(seat),
            }
        }
        Ok(())
    }

    /// Decides whether a process is killed or stopped with this bind. While faults last, binds may
    /// fail every second for an hour, and processes that live for seconds could not be expected to
    /// make progress.
    fn ends_while_binding(&mut self) -> bool {
        let ends = !self.is_calm
            && self.happens(Theme::Ends, ENDS_WHILE_BINDING)
            && self.now >= self.may_end_from;
        if ends && self.endures {
            self.may_end_from = self.now + BETWEEN_ENDS;
        }
        ends
    }

    /// Returns a pause that a server asks for.
    fn requested_pause(&mut self) -> Duration {
        Duration::from_secs(self.rng.u64(1..6))
    }

    /// Returns the request that the extender sends to the API server for a call to bind.
    fn bind_of_extender(&self, life: u32, call: Request) -> Request {
        extender::binding(call, |uid| match self.extender {
            Some(Role::BindInVersion) => self.seen_by_extender.get(&(life, uid.clone())).copied(),
            _ => None,
        })
    }

    /// An extender that binds in a version follows the nomination that comes before a bind.
    fn extender_sees(&mut self, life: u32, request: &Request, answer: &[u8]) {
        if self.extender != Some(Role::BindInVersion) || !extender::is_nomination(request) {
            return;
        }
        let pod: Value = serde_json::from_slice(answer).unwrap_or_default();
        let metadata = &pod["metadata"];
        let version = metadata["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        if let (Some(uid), Some(version)) = (metadata["uid"].as_str(), version) {
            self.seen_by_extender.insert((life, uid.into()), version);
        }
    }

    /// Returns the fate of a call to bind. Extenders lose and delay calls more often than API
    /// servers, and no proxy replaces their answers.
    fn fate_at_extender(&mut self, life: u32, fate: Fate) -> Fate {
        let late = |rng: &mut Rng| Fate::Lingers(extender::LATEST_BIND.mul_f64(rng.f64()));
        let fate = match (self.troubles.of_extender(), fate) {
            (Some(Fault::ExtenderHangs), _) if self.rng.bool() => late(&mut self.rng),
            (Some(Fault::ExtenderHangs), _) => Fate::Vanishes,
            (Some(_), _) => Fate::Refused(500),
            (None, Fate::Served) if !self.is_calm => match self.rng.u32(..10) {
                0 => Fate::AnswerLost,
                1 => late(&mut self.rng),
                _ => Fate::Served,
            },
            (None, Fate::Garbled(_) | Fate::StorageTimesOut { .. }) => Fate::AnswerLost,
            (None, Fate::Lingers(after)) => Fate::Lingers(after.min(extender::LATEST_BIND)),
            (None, fate) => fate,
        };
        match fate {
            Fate::AnswerLost => self.fired_at(Fault::ExtenderBindLost, life),
            Fate::Lingers(_) => self.fired_at(Fault::ExtenderBindLate, life),
            _ => {}
        }
        fate
    }

    /// Returns the fate of a write that allocates devices. More of these writes are late or without
    /// an answer, because devices are scarce.
    fn fate_of_allocation(&mut self, life: u32) -> Fate {
        let fate = match self.rng.u32(..12) {
            0 => Fate::AnswerLost,
            1 => Fate::Lingers(LATEST_ALLOCATION.mul_f64(self.rng.f64())),
            _ => return Fate::Served,
        };
        self.fired_at(Fault::AllocationLate, life);
        fate
    }

    /// Returns the fate of a patch that stops a bind of unknown outcome.
    fn fate_of_fence(&mut self, life: u32) -> Fate {
        let fate = match self.rng.u32(..8) {
            0 => Fate::AnswerLost,
            1 => Fate::Vanishes,
            2 => Fate::Lingers(LATEST_FENCE.mul_f64(self.rng.f64())),
            3 => Fate::StorageTimesOut { is_carried_out: self.rng.bool() },
            _ => return Fate::Served,
        };
        self.fired_at(Fault::FenceLost, life);
        fate
    }

    /// Whether the process of this number was killed or has ended.
    fn is_killed(&self, life: u32) -> bool {
        self.seats.iter().all(|seat| seat.life != life || seat.replica.is_none())
    }

    /// Notes a late bind of a process that was killed. Another one that has decided since may have
    /// given its room away, unless its takeover is strict, and so may one that decides before it
    /// knows of the bind.
    fn note_late(&mut self, life: u32, bound: &Bound) {
        if self.is_strict() || !self.is_killed(life) {
            return;
        }
        match self.last_to_decide == life {
            true => self.note_late_bind(&bound.uid),
            false => drop(self.server.bound_by_us.remove(&bound.uid)),
        }
    }

    /// Checks a bind of a process that was killed, and that was carried out: no process decides
    /// that has not patched the pod, which would have stopped the bind, or as many others as a
    /// bounded takeover patches.
    fn is_early_enough(&self, life: u32, bound: &Bound) -> rules::Checked {
        let (is_strict, is_killed) = (self.is_strict(), self.is_killed(life));
        let mut others = self.seats.iter().filter(|_| is_killed);
        let late = others.find(|seat| {
            let Some(replica) = &seat.replica else { return false };
            let hold = replica.scheduler.hold(seat.clock(self.now));
            let decides = matches!(hold, None | Some(Hold::Throttled | Hold::Backlog));
            let engine = replica.scheduler.engine();
            let knows = engine.pending().any(|pod| pod.uid == Uid::from(&*bound.uid));
            let touches_it = is_strict || seat.writes.touched() < FenceLimits::default().first;
            decides && knows && touches_it && !seat.writes.have_touched(&bound.uid)
        });
        rules::rule(late.is_none(), || {
            let successor = late.map(|seat| seat.life);
            format!("{bound:?} by {life}, which was killed, and {successor:?} decides already")
        })
    }

    /// Whether the extender ends a call to bind, because its scheduler does not lead any more.
    fn is_ended_by_extender(&mut self, life: u32, request: &Request) -> bool {
        if request.destination == Destination::ApiServer || self.extender != Some(Role::Bind) {
            return false;
        }
        let now = self.now;
        let Some(seat) = self.seats.running(life).map(|seat| self.seats.at(seat)) else {
            return true;
        };
        let clock = seat.clock(now);
        seat.replica.as_ref().is_none_or(|replica| !replica.scheduler.may_act(clock))
    }

    /// A request reaches an API server.
    pub(super) fn arrive(
        &mut self,
        life: u32,
        source: RequestSource,
        request: &Request,
        fate: Fate,
    ) -> Result<(), String> {
        if self.is_ended_by_extender(life, request) {
            return Ok(());
        }
        let asked = Bound::by(request);
        if let Some(asked) = &asked {
            rules::before_binding(&self.server, asked)?;
        }
        Writes::tells_its_victim(&self.server, request)?;
        if let Some(refusal) = self.troubles.refuse(request) {
            self.refuse(life, source, request, refusal, fate);
            return Ok(());
        }
        devices::before_write(&self.server, request)?;
        let before = volumes::stored(&self.server, request);
        let lease = leases::stored(&self.server);
        let (response, bound) = self.server.request_of_ours(request, self.now);
        rules::is_well_formed(&self.server, &request.path, response.status)?;
        let is_write = request.method != control::Method::Get && response.status < 300;
        if source == RequestSource::LeaderElector && is_write {
            let after = leases::stored(&self.server).unwrap_or_default();
            self.leases.written(life, lease.as_deref(), &after, self.now)?;
        }
        self.extender_sees(life, request, &response.body);
        let is_fenced = asked.is_some() && response.status == 409 && {
            let body = String::from_utf8_lossy(&response.body);
            body.contains("ResourceVersion in precondition")
        };
        if asked.is_some() && self.seats.of_life(life).is_none() {
            self.coverage.fired(Fault::BindOfKilledProcess);
            self.summary.fenced_binds += u32::from(is_fenced);
        }
        if let (Some(before), 200) = (before, response.status) {
            let after = serde_json::from_slice(&response.body).unwrap_or_default();
            self.summary.given += 1;
            volumes::after_change(&self.server, &request.path, &before, &after)?;
        }
        if is_write && request.path.contains("/resourceclaims") {
            devices::after_write(&self.server)?;
        }
        if let Some(seat) = self.seats.of_life(life)
            && source == RequestSource::ApiDispatcher
        {
            seat.writes.is_over(request.id);
            seat.allocations.is_over(request.id);
        }
        self.say(|| format!("{} for {}", response.status, request.path));
        self.summary.evicted +=
            usize::from(request.method == control::Method::Delete && response.status == 200);
        if let (Some(Bound { uid, .. }), None) = (Bound::by(request), &bound) {
            self.gangs.bind_failed(&uid);
        }
        if let Some(bound) = &bound {
            self.summary.bound += 1;
            self.progress.bound();
            self.note_late(life, bound);
            rules::after_binding(&self.server, bound)?;
            if request.destination == Destination::ApiServer {
                self.is_early_enough(life, bound)?;
            }
            devices::after_binding(&self.server, bound)?;
            if !self.is_calm && self.happens(Theme::Foreign, REJECTED) {
                let soon = Duration::from_millis(self.rng.u64(..LATEST_REJECTION));
                self.at(soon, Event::Reject { uid: bound.uid.clone() });
            }
            match self.seats.of_life(life) {
                Some(seat) => {
                    if let Some(beside) = seat.beside.remove(&Uid::from(&*bound.uid)) {
                        foreign::fits_beside(&self.server, bound, &beside)?;
                    }
                    seat.volumes.after_binding(&self.server, bound, &mut self.held)?;
                    seat.writes.carried_out(bound);
                    if request.destination == Destination::ApiServer {
                        seat.writes.is_as_decided(&self.server, bound)?;
                    }
                }
                // The process was killed, and another one has started in its seat.
                None => self.summary.late_binds += 1,
            }
        }
        let reply = match fate {
            Fate::Lingers(_) => return Ok(()),
            Fate::AnswerLost => Reply::Lost("connection reset".to_owned()),
            Fate::Garbled(status) => answered(status, b"bad gateway".to_vec()),
            Fate::StorageTimesOut { .. } => storage_timeout(request),
            _ => answer_to(request, response.status, response.body.to_vec()),
        };
        let delay = self.delay();
        self.at(delay, Event::Learn { life, source, id: request.id, reply });
        Ok(())
    }

    /// Answers a request that a lasting fault concerns. It is not carried out.
    fn refuse(
        &mut self,
        life: u32,
        source: RequestSource,
        request: &Request,
        refusal: Refusal,
        fate: Fate,
    ) {
        let Refusal { fault, status, body, message, after } = refusal;
        self.say(|| format!("{status} for {} ({})", request.path, fault.name()));
        self.fired_at(fault, life);
        if let Some(Bound { uid, .. }) = Bound::by(request) {
            self.gangs.bind_failed(&uid);
        }
        if let Some(seat) = self.seats.of_life(life)
            && source == RequestSource::ApiDispatcher
        {
            seat.writes.is_over(request.id);
            seat.allocations.is_over(request.id);
        }
        if let Fate::Lingers(_) = fate {
            return;
        }
        if let Some(Bound { uid, .. }) = Bound::by(request) {
            self.refusals.insert((life, request.id), Refused { uid, message });
        }
        let delay = self.delay() + after;
        let reply = answer_to(request, status, body);
        self.at(delay, Event::Learn { life, source, id: request.id, reply });
    }

    /// The outcome of a request reaches the scheduler.
    pub(super) fn learn(
        &mut self,
        life: u32,
        source: RequestSource,
        id: RequestId,
        reply: Reply,
    ) -> rules::Checked {
        let refused = self.refusals.remove(&(life, id));
        let Some(seat) = self.seats.of_life(life) else { return Ok(()) };
        let now = seat.clock(self.now);
        let Some(replica) = &mut seat.replica else { return Ok(()) };
        match refused {
            Some(Refused { uid, message: Some(text) }) => {
                self.progress.refused(&uid, text, self.now);
            }
            Some(Refused { uid, message: None }) => self.progress.rejected(&uid),
            None => {}
        }
        if source == RequestSource::ApiDispatcher {
            seat.writes.replied(id, &reply, now);
            if let Some(object) = seat.volumes.replied(replica.scheduler.engine(), id, &reply) {
                replica.related.was_written(&object);
            }
            if !matches!(reply, Reply::Lost(_)) {
                seat.writes.is_over(id);
                seat.allocations.is_over(id);
            }
        }
        replica.reply(source, id, reply, now)?;
        for placed in replica.take_placed_members() {
            seat.writes.decided(&placed.pod);
            seat.beside.remove(&placed.pod.uid);
        }
        Ok(())
    }
}

/// Returns the theme that a request belongs to.
fn theme_of(source: RequestSource, request: &Request) -> Theme {
    let is_of = |resource: &str| request.path.contains(resource);
    match request.method {
        _ if source == RequestSource::LeaderElector => Theme::Leases,
        _ if source == RequestSource::EventRecorder => Theme::Events,
        _ if Bound::by(request).is_some() => Theme::Binds,
        _ if is_of("/resourceclaims") || is_of("/persistentvolume") => Theme::Claims,
        control::Method::Delete => Theme::Evictions,
        control::Method::Get => Theme::Reads,
        _ => Theme::Statuses,
    }
}

/// Returns the reply of a server that has no answer from its store in time. The server reports
/// every error of its store as a conflict of a binding.
fn storage_timeout(request: &Request) -> Reply {
    if request.destination != Destination::ApiServer || !request.path.ends_with("/binding") {
        return answered(500, STORAGE_TIMEOUT.to_vec());
    }
    let body = br#"{"kind":"Status","status":"Failure","reason":"Conflict","code":409,
        "message":"Operation cannot be fulfilled on pods/binding \"p\": etcdserver: request timed out"}"#;
    answered(409, body.to_vec())
}

/// Returns the reply to a request that is answered like this. An extender passes on the text.
pub(super) fn answer_to(request: &Request, status: u16, body: Vec<u8>) -> Reply {
    let Reply::Answered(response) = answered(status, body) else { unreachable!() };
    Reply::Answered(match request.destination {
        Destination::ApiServer => response,
        Destination::Extender(_) => extender::binding_result(&response),
    })
}

/// A server that throttles asks for a longer pause than the default, and not always for the same
/// one.
fn answered(status: u16, body: Vec<u8>) -> Reply {
    let length = Duration::from_secs(2 + body.len() as u64 % 3);
    let retry_after = (status == 429).then_some(length);
    Reply::Answered(Response { status, retry_after, body })
}
