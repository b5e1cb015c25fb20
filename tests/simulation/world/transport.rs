//! Requests, replies and watch streams in transit, and the checks when they arrive.

use std::time::Duration;

use client::reflector::{Call, Input, Output};
use client::scheduler::RequestSource;
use client::{Reply, Request, RequestId, Response};
use loadmaster::wire::{Update, status_error};

use super::super::network::{Fate, Piece};
use super::super::replica::{Replica, Stream};
use super::super::rules;
use super::super::server::Bound;
use super::super::volumes;
use super::{Event, World};

impl World {
    pub(super) fn handle_output(
        &mut self,
        replica: &mut Replica,
        informer: usize,
        call: Output<Update>,
    ) {
        if let Some(stream) = replica.informers[informer].stream.take() {
            self.server.store.close(stream.watch);
        }
        if let Output::Open(call) = call {
            self.activity.calls += 1;
            let (life, delay) = (replica.life, self.delay());
            let fate = self.network.fate(&mut self.rng);
            self.say(|| format!("{life} {fate:?}: {}", call.path));
            match fate {
                Fate::Served => self.at(delay, Event::Call { life, informer, call }),
                Fate::NotSent => {
                    let failed = Input::Failed(call.id, "connection refused".to_owned());
                    self.at(delay, Event::Inputs { life, informer, inputs: vec![failed] });
                }
                Fate::Refused(status) | Fate::Garbled(status) => {
                    let refused = Input::Error(call.id, status_error(status, None, b"no"));
                    self.at(delay, Event::Inputs { life, informer, inputs: vec![refused] });
                }
                // The reflector itself times out.
                Fate::Vanishes | Fate::AnswerLost | Fate::Lingers(_) => self.summary.faults += 1,
            }
        }
    }

    /// A call reaches the server.
    pub(super) fn call(&mut self, life: u32, informer: usize, call: &Call) {
        let Some(seat) = self.seats.running(life) else { return };
        let Some(replica) = &mut self.seats.at(seat).replica else { return };
        let decoder = &replica.informers[informer].decoder;
        let input = if call.is_watch {
            let back = self.network.repeats(&mut self.rng);
            match self.server.watch(&call.path, back, self.now) {
                Ok(watch) => {
                    let stream = Stream { call: call.id, watch, last: self.now, stalled: false };
                    if let Some(old) = replica.informers[informer].stream.replace(stream) {
                        self.server.store.close(old.watch);
                    }
                    Input::Opened(call.id)
                }
                Err(response) => {
                    Input::Error(call.id, status_error(response.status, None, &response.body))
                }
            }
        } else {
            let response = self.server.list(&call.path, self.now);
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

    /// Sends the waiting events of the open watch of an informer, in two parts, because events may arrive
    /// separately.
    pub(super) fn deliver(&mut self, replica: &mut Replica, informer: usize) {
        let life = replica.life;
        let Some(stream) = &mut replica.informers[informer].stream else { return };
        let frames = self.server.frames(stream.watch, self.now);
        if (frames.lines.is_empty() && !frames.ended) || stream.stalled {
            return;
        }
        let call = stream.call;
        let due = (self.now + self.network.delay(&mut self.rng)).max(stream.last);
        let later = due + self.network.delay(&mut self.rng);
        stream.last = later;
        let mut kept = frames.lines.len();
        let mut end = frames.ended.then_some(Input::Closed(call));
        match self.network.piece(&mut self.rng) {
            Piece::Arrives => {}
            Piece::Stalls => {
                stream.stalled = true;
                self.say(|| format!("{life} the stream of informer {informer} stalls"));
                return;
            }
            Piece::Breaks => {
                kept = self.rng.usize(..=kept);
                end = Some(Input::Failed(call, "connection reset".to_owned()));
            }
        }
        let over = end.is_some().then_some(stream.watch);
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
        let fate = self.network.fate(&mut self.rng);
        if source == RequestSource::ApiDispatcher {
            self.activity.writes += usize::from(request.method != client::Method::Get);
            let seat = self.seats.at(seat);
            let replica = seat.replica.as_ref().expect("the process runs");
            seat.writes.sent(&self.server, &request)?;
            seat.volumes.sent(&self.server, replica.scheduler.engine(), &request)?;
        }
        self.say(|| format!("{life} {fate:?}: {} {}", request.method.as_str(), request.path));
        if fate != Fate::Served {
            self.summary.faults += 1;
        }
        let (id, timeout, delay) = (request.id, request.timeout, self.delay());
        let learn = |reply| Event::Learn { life, source, id, reply };
        let lost = || Reply::Lost("timeout".to_owned());
        match fate {
            Fate::NotSent => {
                self.at(delay, learn(Reply::NotSent("connection refused".to_owned())));
            }
            Fate::Vanishes => self.at(timeout, learn(lost())),
            Fate::Refused(status) => self.at(delay, learn(answered(status, b"no".to_vec()))),
            Fate::Lingers(late) => {
                self.at(delay, learn(lost()));
                self.at(delay + late, Event::Arrive { life, source, request, fate });
            }
            Fate::Served | Fate::AnswerLost | Fate::Garbled(_) => {
                self.at(delay, Event::Arrive { life, source, request, fate });
            }
        }
        Ok(())
    }

    /// A request reaches the server.
    pub(super) fn arrive(
        &mut self,
        life: u32,
        source: RequestSource,
        request: &Request,
        fate: Fate,
    ) -> Result<(), String> {
        let asked = Bound::by(request);
        if let Some(asked) = &asked {
            rules::before_binding(&self.server, asked)?;
        }
        let before = volumes::stored(&self.server, request);
        let (response, bound) = self.server.request_of_ours(request, self.now);
        rules::is_well_formed(&self.server, &request.path, response.status)?;
        let is_fenced = asked.is_some() && response.status == 409 && {
            let body = String::from_utf8_lossy(&response.body);
            body.contains("ResourceVersion in precondition")
        };
        if is_fenced && self.seats.of_life(life).is_none() {
            self.summary.fenced_binds += 1;
        }
        if let (Some(before), 200) = (before, response.status) {
            let after = serde_json::from_slice(&response.body).unwrap_or_default();
            self.summary.given += 1;
            volumes::after_change(&self.server, &request.path, &before, &after)?;
        }
        if let Some(seat) = self.seats.of_life(life)
            && source == RequestSource::ApiDispatcher
        {
            seat.writes.is_over(request.id);
        }
        self.say(|| format!("{} for {}", response.status, request.path));
        self.summary.evicted +=
            usize::from(request.method == client::Method::Delete && response.status == 200);
        if let Some(bound) = &bound {
            self.summary.bound += 1;
            rules::after_binding(&self.server, bound)?;
            match self.seats.of_life(life) {
                Some(seat) => {
                    seat.volumes.after_binding(&self.server, bound, &mut self.held)?;
                    seat.writes.carried_out(bound);
                }
                // The process was killed, and another one has started in its seat.
                None => self.summary.late_binds += 1,
            }
        }
        let reply = match fate {
            Fate::Lingers(_) => return Ok(()),
            Fate::AnswerLost => Reply::Lost("connection reset".to_owned()),
            Fate::Garbled(status) => answered(status, b"bad gateway".to_vec()),
            _ => answered(response.status, response.body.to_vec()),
        };
        let delay = self.delay();
        self.at(delay, Event::Learn { life, source, id: request.id, reply });
        Ok(())
    }

    /// The outcome of a request reaches the scheduler.
    pub(super) fn learn(
        &mut self,
        life: u32,
        source: RequestSource,
        id: RequestId,
        reply: Reply,
    ) -> rules::Checked {
        let Some(seat) = self.seats.of_life(life) else { return Ok(()) };
        let now = seat.clock(self.now);
        let Some(replica) = &mut seat.replica else { return Ok(()) };
        if source == RequestSource::ApiDispatcher {
            seat.writes.replied(id, &reply);
            if let Some(object) = seat.volumes.replied(replica.scheduler.engine(), id, &reply) {
                replica.related.was_written(&object);
            }
            if !matches!(reply, Reply::Lost(_)) {
                seat.writes.is_over(id);
            }
        }
        replica.reply(source, id, reply, now)
    }
}

fn answered(status: u16, body: Vec<u8>) -> Reply {
    Reply::Answered(Response { status, retry_after: None, body })
}
