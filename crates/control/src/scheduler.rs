//! The engine together with the machines that carry out its effects: the daemon without its I/O.

use std::sync::Arc;

use engine::cycle::Form;
use engine::ports::{Count, Ports};
use engine::{
    Attempt, Change, Effect, EffectId, EffectKind, Engine, Evaluation, Event, EventSubject,
    EventType, Input, MovesWanted, Output,
};
use framework::{Answer, Code, Pod, PodKey, Time, Uid, WallOffset};
use recording::Encoder;

use crate::api_dispatcher::{ApiDispatcher, CallCounts};
use crate::event_recorder::{DropCause, EventRecorder};
use crate::failed_call::FailedCall;
use crate::leader_election::{LeaderElector, Notice, Outcome, Predecessor};
use crate::request::{Reply, Request, RequestId};
pub use crate::takeover::{FenceLimits, Fencing, Relist, TakeoverNotice};
use crate::takeover::{Start, Takeover, Unready};

/// The machine that made a request and takes the reply to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSource {
    /// The [API dispatcher](ApiDispatcher).
    ApiDispatcher,
    /// The [event recorder](EventRecorder).
    EventRecorder,
    /// The [leader elector](LeaderElector).
    LeaderElector,
}

/// The election that a scheduler takes part in.
#[derive(Debug)]
pub struct LeaderElection {
    /// The elector.
    pub elector: LeaderElector,
    /// The component that the event of the election names.
    pub reporting_controller: Arc<str>,
    /// Whether the election begins before the informers have synced. Otherwise only a replica with
    /// complete caches competes.
    pub delay_cache_until_active: bool,
}

/// The reason why no pod is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Some informers have not synced.
    Syncing,
    /// Another replica leads, or this one has not acquired the Lease yet.
    Standby,
    /// Binds of a scheduler that crashed may be under way, and the pending pods are patched to stop
    /// them.
    Fencing,
    /// The watches may not have shown yet what happened before the takeover.
    CatchingUp,
    /// Too many API calls wait for the API server.
    Backlog,
    /// The API server asked for a pause (429).
    Throttled,
    /// The scheduler was stopped.
    Stopping,
}

impl Hold {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::Syncing,
        Self::Standby,
        Self::Fencing,
        Self::CatchingUp,
        Self::Backlog,
        Self::Throttled,
        Self::Stopping,
    ];

    /// Returns the value of the `reason` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syncing => "syncing",
            Self::Standby => "standby",
            Self::Fencing => "fencing",
            Self::CatchingUp => "catching_up",
            Self::Backlog => "backlog",
            Self::Throttled => "throttled",
            Self::Stopping => "stopping",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Some informers have not synced. No pod is scheduled.
    Syncing,
    Running,
    /// No pod is scheduled any more. Requests in flight are completed.
    Stopping,
}

/// A scheduler that takes changes and replies and returns requests.
///
/// It schedules no pod before [`set_synced`](Self::set_synced) or after [`stop`](Self::stop).
///
/// With [leader election](Self::with_leader_election) it acts only while it leads. Before that the
/// engine applies changes, but no pod is scheduled and no effect is carried out. Every request of
/// the leader carries the end of its authority ([`Request::not_after`]). After the loss of the
/// lease no request leaves the scheduler.
#[derive(Debug)]
pub struct Scheduler {
    engine: Engine,
    /// Writes down what enters and leaves the engine, if it is recorded.
    recorder: Option<Encoder>,
    api_dispatcher: ApiDispatcher,
    event_recorder: EventRecorder,
    leader_election: Option<LeaderElection>,
    fencing: Fencing,
    phase: Phase,
    /// The takeover, until it is complete.
    takeover: Option<Takeover>,
    /// Requests of effects and events that have not been taken.
    requests: Vec<(RequestSource, Request)>,
    /// Events that have not been taken for the log.
    events: Vec<Event>,
    /// Plans of moves that are wanted and have not been taken.
    wanted_moves: Vec<(EffectId, MovesWanted)>,
    /// Notices of the elector that have not been taken for the log.
    notices: Vec<Notice>,
    /// Notices of what a takeover gave up, not yet taken for the log.
    given_up: Vec<FailedCall>,
    /// Steps of takeovers that have not been taken for the log.
    takeover_notices: Vec<TakeoverNotice>,
}

impl Scheduler {
    /// Creates a scheduler whose caches are empty. It takes part in no election.
    pub fn new(
        engine: Engine,
        api_dispatcher: ApiDispatcher,
        event_recorder: EventRecorder,
    ) -> Self {
        Self {
            engine,
            recorder: None,
            api_dispatcher,
            event_recorder,
            leader_election: None,
            fencing: Fencing::default(),
            phase: Phase::Syncing,
            takeover: None,
            requests: Vec::new(),
            events: Vec::new(),
            wanted_moves: Vec::new(),
            notices: Vec::new(),
            given_up: Vec::new(),
            takeover_notices: Vec::new(),
        }
    }

    /// Records the engine, which has had no input yet.
    pub fn record(&mut self, recorder: Encoder) {
        self.recorder = Some(recorder);
    }

    /// Sets which pods are fenced after a predecessor that may have crashed.
    pub const fn set_fencing(&mut self, fencing: Fencing) {
        self.fencing = fencing;
    }

    /// Lets the scheduler act only while it leads.
    #[must_use]
    pub fn with_leader_election(self, election: LeaderElection) -> Self {
        Self { leader_election: Some(election), ..self }
    }

    /// Returns the engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the engine and its recorder, if it is recorded.
    pub const fn recording(&mut self) -> Option<(&Engine, &mut Encoder)> {
        match &mut self.recorder {
            Some(recorder) => Some((&self.engine, recorder)),
            None => None,
        }
    }

    /// Ends the recording.
    pub fn end_recording(&mut self) {
        self.recorder = None;
    }

    /// Returns the API dispatcher.
    pub const fn api_dispatcher(&self) -> &ApiDispatcher {
        &self.api_dispatcher
    }

    /// Returns the event recorder.
    pub const fn event_recorder(&self) -> &EventRecorder {
        &self.event_recorder
    }

    /// Returns the leader elector, if the scheduler takes part in an election.
    pub fn leader_elector(&self) -> Option<&LeaderElector> {
        Some(&self.leader_election.as_ref()?.elector)
    }

    /// Returns whether the scheduler may act now: it leads, or there is no election.
    pub fn may_act(&self, now: Time) -> bool {
        self.leader_elector().is_none_or(|elector| elector.is_leader(now))
    }

    /// Returns whether the informers have to start only when the scheduler leads.
    pub fn delays_cache(&self) -> bool {
        self.leader_election.as_ref().is_some_and(|election| election.delay_cache_until_active)
    }

    /// Sets the offset of the wall clock, for the time stamps that others read. It changes when
    /// that clock is corrected.
    pub fn set_wall_offset(&mut self, offset: WallOffset) {
        self.step_silently(Input::WallOffset(offset), Time::ZERO);
        self.api_dispatcher.set_wall_offset(offset);
        self.event_recorder.set_wall_offset(offset);
        if let Some(election) = &mut self.leader_election {
            election.elector.set_wall_offset(offset);
        }
    }

    /// Applies a change that an informer reported.
    pub fn apply(&mut self, change: Change, now: Time, ports: &mut Ports<'_>) {
        let pod = match &change {
            Change::Pod(pod) if self.takeover.is_some() => Some(pod.key.clone()),
            Change::PodDeleted { key, uid } => {
                self.event_recorder.pod_deleted(key, uid, now);
                None
            }
            _ => None,
        };
        self.step(Input::Change(change), now, ports);
        if let (Some(takeover), Some(pod)) = (&mut self.takeover, pod) {
            takeover.consider(&pod, &self.engine, now);
            self.fence(now);
        }
        self.dispatch_effects(now, ports);
    }

    /// Returns whether every informer has synced.
    pub fn has_synced(&self) -> bool {
        self.phase != Phase::Syncing
    }

    /// Allows scheduling to begin, once every informer has synced.
    pub fn set_synced(&mut self, now: Time, ports: &mut Ports<'_>) {
        if self.phase == Phase::Syncing {
            self.phase = Phase::Running;
            if self.may_act(now) {
                self.take_over(false, now);
                self.dispatch_effects(now, ports);
            }
        }
    }

    /// Takes the kinds that the informers have to list again
    /// ([`Reflector::relist`](crate::reflector::Reflector::relist)). Each relist is followed by
    /// [`handle_relisted`](Self::handle_relisted).
    pub fn take_relists(&mut self) -> Vec<Relist> {
        self.takeover.as_mut().map(Takeover::take_relists).unwrap_or_default()
    }

    /// Handles that every kind of the relist has been listed again, and its changes were applied.
    pub fn handle_relisted(&mut self, relist: Relist) {
        if let Some(takeover) = &mut self.takeover {
            takeover.listed(relist);
        }
    }

    /// Passes the reply to a request to the machine that made the request.
    pub fn handle_reply(
        &mut self,
        source: RequestSource,
        id: RequestId,
        reply: Reply,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        match source {
            RequestSource::ApiDispatcher => self.api_dispatcher.handle_reply(id, reply, now),
            RequestSource::EventRecorder => self.event_recorder.handle_reply(id, reply, now),
            RequestSource::LeaderElector => {
                self.elect(now, |elector| elector.handle_reply(id, reply, now));
            }
        }
        self.dispatch_effects(now, ports);
        self.release_when_drained(now);
    }

    /// Handles the outcome of a call that tried an extender again ([`Input::ExtenderProbed`]).
    pub fn handle_extender_probed(
        &mut self,
        extender: usize,
        outcome: Result<(), String>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        self.step(Input::ExtenderProbed { extender, outcome }, now, ports);
    }

    /// Takes the plans of moves that are wanted. Each is followed by
    /// [`handle_planned`](Self::handle_planned).
    pub fn take_wanted_moves(&mut self) -> Vec<(EffectId, MovesWanted)> {
        std::mem::take(&mut self.wanted_moves)
    }

    /// Handles the answer to a plan of moves.
    pub fn handle_planned(
        &mut self,
        effect: EffectId,
        answer: Answer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        self.step(Input::Answer { effect, answer }, now, ports);
        self.dispatch_effects(now, ports);
    }

    /// Handles an event of a watch of the Lease (see [`LeaderElector::handle_watch_event`]).
    pub fn handle_lease_event(&mut self, event: &[u8], now: Time) {
        self.elect(now, |elector| elector.handle_watch_event(event, now));
    }

    /// Records an event about the Lease, on behalf of the daemon. Only the leader records it.
    pub fn record_on_lease(
        &mut self,
        event_type: EventType,
        reason: &'static str,
        note: String,
        now: Time,
    ) {
        let election = self.leader_election.as_ref();
        let leading = election.filter(|election| election.elector.is_leader(now));
        let Some(election) = leading else { return };
        let event = Event {
            event_type,
            reason: reason.into(),
            action: reason.into(),
            note,
            ..election.became_leader()
        };
        self.event_recorder.record(event, now);
    }

    /// Runs the timers that are due.
    pub fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        if self.may_compete() {
            self.elect(now, |elector| elector.tick(now));
        }
        self.step(Input::Tick, now, ports);
        if let Some(takeover) = &mut self.takeover {
            takeover.tick(&self.engine, now);
            self.given_up.extend(takeover.take_given_up());
            self.fence(now);
        }
        self.api_dispatcher.tick(now);
        self.event_recorder.tick(now);
        self.dispatch_effects(now, ports);
    }

    /// Returns the time at which [`tick`](Self::tick) is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let elector = self.leader_elector().filter(|_| self.may_compete());
        let deadlines = [
            self.engine.next_deadline(),
            self.api_dispatcher.next_deadline(),
            self.event_recorder.next_deadline(),
            self.takeover.as_ref().and_then(|takeover| takeover.next_deadline(&self.engine)),
            elector.and_then(LeaderElector::next_deadline),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns the numbers of unfinished API calls and writes of events.
    pub fn call_counts(&self) -> CallCounts {
        let mut counts = self.api_dispatcher.call_counts();
        counts.extend(self.event_recorder.call_counts());
        counts
    }

    /// Returns why no pod is scheduled now, or `None` if pods are scheduled.
    pub fn hold(&self, now: Time) -> Option<Hold> {
        let unready = self.takeover.as_ref().and_then(|takeover| takeover.unready(&self.engine));
        match self.phase {
            Phase::Syncing => Some(Hold::Syncing),
            Phase::Stopping => Some(Hold::Stopping),
            Phase::Running if !self.may_act(now) => Some(Hold::Standby),
            Phase::Running if unready == Some(Unready::Fencing) => Some(Hold::Fencing),
            Phase::Running if unready == Some(Unready::CatchingUp) => Some(Hold::CatchingUp),
            Phase::Running if self.api_dispatcher.is_paused(now) => Some(Hold::Throttled),
            Phase::Running if self.api_dispatcher.has_backlog() => Some(Hold::Backlog),
            Phase::Running => None,
        }
    }

    /// Returns whether a pod may be scheduled now.
    pub fn can_schedule(&self, now: Time) -> bool {
        self.hold(now).is_none()
    }

    /// Runs the scheduling cycle of the next pod in the queue, if [one may be
    /// scheduled](Self::can_schedule) now.
    pub fn schedule_one(&mut self, now: Time, ports: &mut Ports<'_>) -> Option<Attempt> {
        if !self.can_schedule(now) {
            return None;
        }
        self.takeover.take_if(|takeover| takeover.is_complete(&self.engine));
        let attempt = self.step(Input::Schedule, now, ports).attempt();
        self.dispatch_effects(now, ports);
        attempt
    }

    /// Evaluates a pod ([`Input::Evaluate`]).
    pub fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<Evaluation> {
        let input = Input::Evaluate { pod: pod.clone(), form, start: None };
        self.step(input, now, ports).evaluation()
    }

    /// Takes the requests to send now, the requests of the election first.
    pub fn take_requests(&mut self) -> impl Iterator<Item = (RequestSource, Request)> {
        let election = self.leader_election.as_mut();
        let election = election.map(|election| election.elector.take_requests());
        let election = election.unwrap_or_default().into_iter();
        let election = election.map(|request| (RequestSource::LeaderElector, request));
        election.chain(std::mem::take(&mut self.requests))
    }

    /// Takes the notices of the election since the last call, for the log.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Takes the steps of the takeover since the last call, for the log.
    pub fn take_takeover_notices(&mut self) -> Vec<TakeoverNotice> {
        std::mem::take(&mut self.takeover_notices)
    }

    /// Takes the events recorded since the last call, for the log.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the number of events that were dropped because too many were waiting.
    pub fn events_dropped(&self) -> u64 {
        let dropped = self.event_recorder.dropped().iter();
        dropped
            .filter(|((_, cause), _)| *cause == DropCause::Backlog)
            .map(|(_, number)| number)
            .sum()
    }

    /// Takes the API calls that failed since the last call, for the log.
    pub fn take_failed_calls(&mut self) -> impl Iterator<Item = FailedCall> {
        let api_calls = self.api_dispatcher.take_failed_calls().into_iter();
        let calls = api_calls.chain(self.event_recorder.take_failed_calls());
        calls.chain(std::mem::take(&mut self.given_up))
    }

    /// Stops scheduling and drops the API calls that were not sent. Their pods stay pending and are
    /// scheduled by the next scheduler that starts. A leader releases the Lease once its API calls
    /// have finished, and renews it until then.
    pub fn stop(&mut self, now: Time) {
        self.phase = Phase::Stopping;
        self.api_dispatcher.stop();
        self.event_recorder.stop(now);
        self.release_when_drained(now);
    }

    /// Returns how the scheduler ended, if it has: it was [stopped](Self::stop) and all API calls
    /// of effects have finished, or it lost the Lease.
    pub fn outcome(&self) -> Option<Outcome> {
        let is_drained = self.phase == Phase::Stopping && self.api_dispatcher.unfinished() == 0;
        match self.leader_elector() {
            Some(elector) => elector.outcome(),
            None => is_drained.then_some(Outcome::Stopped),
        }
    }

    /// Returns whether the election may begin.
    fn may_compete(&self) -> bool {
        self.phase != Phase::Syncing || self.delays_cache()
    }

    /// Begins the takeover. `were_synced` tells whether the caches were filled before.
    fn take_over(&mut self, were_synced: bool, now: Time) {
        let may_have_crashed = match self.leader_elector().map(LeaderElector::predecessor) {
            Some(Predecessor::None | Predecessor::Released) => false,
            // Without an election no process knows how the last one ended.
            Some(Predecessor::Expired) | None => true,
        };
        let start = Start { fencing: self.fencing, may_have_crashed, were_synced };
        self.takeover = Some(Takeover::begin(&start, &self.engine, now));
        self.fence(now);
    }

    /// Takes the takeover a step on, when all answers have been handled. Returns whether it fences
    /// pods now.
    fn advance_takeover(&mut self, now: Time) -> bool {
        let Some(takeover) = &mut self.takeover else { return false };
        let fences = takeover.begin_fences(&self.engine, now);
        self.fence(now);
        if let Some(takeover) = &mut self.takeover {
            takeover.note_progress(&self.engine, now);
            self.takeover_notices.extend(takeover.take_notices());
        }
        fences
    }

    /// Fences the pods that the takeover wants to be fenced.
    fn fence(&mut self, now: Time) {
        let wanted = self.takeover.as_mut().map(Takeover::take_wanted);
        for pod in wanted.unwrap_or_default() {
            let effect = self.step_silently(Input::Touch(pod), now).touch();
            if let (Some(takeover), Some(effect)) = (&mut self.takeover, effect) {
                takeover.touched(effect);
            }
        }
    }

    /// Lets the engine take a step, in view of the recorder.
    fn step(&mut self, input: Input, now: Time, ports: &mut Ports<'_>) -> Output {
        match &mut self.recorder {
            Some(recorder) => recorder.step(&mut self.engine, input, now, ports),
            None => self.engine.step(input, now, ports),
        }
    }

    /// Lets the engine take a step that calls no extender and measures nothing.
    fn step_silently(&mut self, input: Input, now: Time) -> Output {
        self.step(input, now, &mut Ports { extenders: &mut (), probe: &mut () })
    }

    /// Takes the effects of the engine.
    fn take_effects(&mut self) -> Vec<Effect> {
        match &mut self.recorder {
            Some(recorder) => recorder.take_effects(&mut self.engine),
            None => self.engine.take_effects(),
        }
    }

    /// Runs a step of the election, if there is one.
    fn elect(&mut self, now: Time, step: impl FnOnce(&mut LeaderElector)) {
        let Some(election) = &mut self.leader_election else { return };
        step(&mut election.elector);
        let notices = election.elector.take_notices();
        let starts = notices.contains(&Notice::StartedLeading);
        if starts {
            let event = election.became_leader();
            self.event_recorder.record(event, now);
        }
        if election.elector.outcome() == Some(Outcome::Lost) {
            self.requests.clear();
        }
        self.notices.extend(notices);
        if starts && self.phase == Phase::Running {
            self.take_over(true, now);
        }
    }

    fn release_when_drained(&mut self, now: Time) {
        if self.phase == Phase::Stopping && self.api_dispatcher.unfinished() == 0 {
            self.elect(now, |elector| elector.release(now));
        }
    }

    /// Passes effects to the machines and answers to the engine until neither is left, and
    /// collects the requests. A scheduler that may not act leaves them where they are.
    fn dispatch_effects(&mut self, now: Time, ports: &mut Ports<'_>) {
        let may_act = self.may_act(now);
        loop {
            let effects = if may_act { self.take_effects() } else { Vec::new() };
            for effect in effects {
                self.dispatch(effect, now);
            }
            let answers = self.api_dispatcher.take_answers();
            if answers.is_empty() && !(may_act && self.advance_takeover(now)) {
                break;
            }
            for (effect, answer) in answers {
                let takeover = self.takeover.as_mut();
                if takeover.is_some_and(|takeover| takeover.answer(effect, &answer)) {
                    continue;
                }
                self.step(Input::Answer { effect, answer }, now, ports);
            }
        }
        if may_act {
            self.collect_requests();
        }
        self.count_finished_calls(ports);
    }

    fn count_finished_calls(&mut self, ports: &mut Ports<'_>) {
        for call in self.api_dispatcher.take_finished_calls() {
            let code = if call.succeeded { Code::Success } else { Code::Error };
            let call_type = call.call_type.name();
            ports.probe.count(Count::ApiCall { call_type, code, took: call.took });
            if let Some(age) = call.decision_age {
                ports.probe.count(Count::DecisionAge(age));
            }
        }
    }

    /// Collects the requests of the machines, and notes until when they may be sent.
    fn collect_requests(&mut self) {
        let not_after = self.leader_elector().and_then(LeaderElector::authority_ends_at);
        let api_calls = self.api_dispatcher.take_requests().into_iter();
        let events = self.event_recorder.take_requests().into_iter();
        let api_calls = api_calls.map(|request| (RequestSource::ApiDispatcher, request));
        let requests =
            api_calls.chain(events.map(|request| (RequestSource::EventRecorder, request)));
        self.requests
            .extend(requests.map(|(source, request)| (source, Request { not_after, ..request })));
    }

    /// Returns whether the pod has not been deleted.
    fn knows(&self, pod: &PodKey, uid: &Uid) -> bool {
        let is_pending = self.engine.pending_pod(pod).is_some_and(|pod| pod.uid == *uid);
        is_pending || self.engine.world().placed(uid).is_some()
    }

    fn dispatch(&mut self, effect: Effect, now: Time) {
        match effect.kind {
            EffectKind::Event(event) => {
                self.events.push(event.clone());
                let is_known =
                    event.subject != EventSubject::Pod || self.knows(&event.regarding, &event.uid);
                match is_known {
                    true => self.event_recorder.record(event, now),
                    false => self.event_recorder.record_last(event, now),
                }
            }
            EffectKind::PlanMoves(wanted) => self.wanted_moves.push((effect.id, wanted)),
            kind => self.api_dispatcher.add(Effect { id: effect.id, kind }, now),
        }
    }
}

impl LeaderElection {
    /// Returns the event about the Lease that kube-scheduler records, too.
    fn became_leader(&self) -> Event {
        let config = self.elector.config();
        Event {
            subject: EventSubject::Lease,
            regarding: PodKey::new(&config.namespace, &config.name),
            uid: self.elector.lease_uid().unwrap_or_default().into(),
            related: None,
            event_type: EventType::Normal,
            reason: "LeaderElection".into(),
            action: "LeaderElection".into(),
            note: format!("{} became leader", config.identity),
            reporting_controller: self.reporting_controller.clone(),
        }
    }
}
