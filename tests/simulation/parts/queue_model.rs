//! A naive model of the scheduling queue: lists of pods and events, which each step scans.
//!
//! It has the rules of `PriorityQueue` in kube-scheduler, and three of Loadmaster: pods of one
//! template that are rejected alike share an answer, and one of them is tried at a time; early pops
//! in vain are paced; and retries after repeated errors are spread out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use engine::profile::Profiles;
use engine::queue::{PendingPodCounts, Place, Queue, QueueConfig, Updated};
use engine::{ObjectEvent, Objects};
use framework::{
    ClusterEvent, EventForPod, EventResource, Handle, PluginName, Pod, PodKey, PodRequests,
    PodSpec, QueuedPod, QueueingHint, Template, Time, Uid, Waiting,
};

use super::super::rules::{Checked, rule};
use super::updates;

/// Maximum number of events that are kept for pods in flight.
const MAX_EVENTS: usize = 4096;
/// The interval of the flush of pods that wait for too long.
const FLUSH: i64 = 30_000_000_000;
/// Early pops in vain: a burst, and then one in an interval.
const BURST: u32 = 16;
const INTERVAL: Duration = Duration::from_millis(10);
/// Retries from the third error in a row on: how many are due in one second, evenly.
const SPREAD_FROM: u32 = 3;
const MAX_SPREAD: usize = 128;
/// A backoff ends with the second after its whole second.
const WINDOW: Duration = Duration::from_secs(1);

/// The plugins, and what they see.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) profiles: &'a Profiles,
    pub(crate) handle: Handle<'a>,
}

/// A queued pod.
#[derive(Debug, Clone)]
struct Record {
    queued: QueuedPod,
    place: Place,
    /// Pods that are equal to the order leave in the order of these numbers.
    arrival: u64,
    /// The answer that a waiting pod shares.
    answer: Option<u64>,
}

/// How an event requeues a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Stay,
    AfterBackoff,
    AtOnce,
}

/// The attempt of one pod that decides for those that share its answer.
#[derive(Debug, Clone)]
struct Trial {
    answer: u64,
    pod: PodKey,
    uid: Uid,
    strategy: Strategy,
    label: String,
}

#[derive(Debug)]
struct Flight {
    pod: Arc<Pod>,
    /// Number of events before the pop.
    start: usize,
}

/// A pod that was popped before the end of its backoff, or for others.
#[derive(Debug)]
struct Popped {
    uid: Uid,
    kind: Kind,
    is_early: bool,
}

/// Pods whose early pops are paced together.
type Kind = (Arc<str>, Arc<PodRequests>, BTreeSet<PluginName>, Option<Arc<PodSpec>>);

/// The model.
#[derive(Debug)]
pub(crate) struct Model {
    config: QueueConfig,
    queued: Vec<Record>,
    in_flight: Vec<Flight>,
    /// The pod of each name that was popped last.
    popped: BTreeMap<PodKey, Uid>,
    /// All events that came while a pod was in flight.
    events: Vec<ObjectEvent>,
    trials: Vec<Trial>,
    /// The last pop, if it was early or for others.
    last: Option<Popped>,
    /// The early pops in vain, and the looks.
    in_vain: Vec<(Kind, Time)>,
    /// When the next early pop is allowed, if the last one was refused.
    refused_until: Option<Time>,
    /// The second of each retry that was spread out.
    spread: Vec<Time>,
    last_flush: Option<Time>,
    numbers: u64,
    /// `queue event` of each pod that entered a part of the queue.
    incoming: Vec<String>,
}

/// Updates and events.
impl Model {
    pub(crate) fn new(config: QueueConfig) -> Self {
        Self {
            config,
            queued: Vec::new(),
            in_flight: Vec::new(),
            popped: BTreeMap::new(),
            events: Vec::new(),
            trials: Vec::new(),
            last: None,
            in_vain: Vec::new(),
            refused_until: None,
            spread: Vec::new(),
            last_flush: None,
            numbers: 0,
            incoming: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, pod: &Arc<Pod>, around: Around<'_>) -> Updated {
        self.remove(&pod.key, around);
        self.enter(pod, "UnscheduledPodAdd", around)
    }

    pub(crate) fn update(&mut self, old: &Arc<Pod>, new: &Arc<Pod>, around: Around<'_>) -> Updated {
        if old.uid != new.uid {
            self.delete(old, around);
            return self.add(new, around);
        }
        let events = updates::of_pod(old, new).into_iter().map(|action| ObjectEvent {
            event: ClusterEvent::new(EventResource::UnschedulablePod, action),
            objects: Objects::Pod(Some(old.clone()), Some(new.clone())),
        });
        let is_other = Template::of(old) != Template::of(new);
        if self.is_in_flight(&new.uid) {
            events.for_each(|event| self.keep(&event));
        } else if self.waits(&new.key) {
            let own = self.named_mut(&new.key).expect("it waits");
            let was_of_other = Template::of(&own.queued.pod) != Template::of(new);
            own.queued.pod = new.clone();
            let left = own.answer.take_if(|_| was_of_other);
            own.queued.history.template_rejected &= left.is_none();
            for event in events {
                let Some(own) = self.named(&new.key).filter(|own| is_waiting(own)) else { break };
                let strategy = self.strategy(&own.queued, &event, around);
                if strategy != Strategy::Stay {
                    let own = self.take(&new.key);
                    let label = event.event.to_string();
                    let label = label.replace("UnschedulablePod", "TargetPod");
                    self.requeue(own, strategy, &label, around);
                }
            }
            let trial = left.and_then(|answer| self.trial_of(answer)).cloned();
            if let Some(trial) = trial.filter(|_| self.waits(&new.key)) {
                let own = self.take(&new.key);
                self.requeue(own, trial.strategy, &trial.label, around);
            }
        } else if let Some(own) = self.named_mut(&new.key) {
            own.queued.pod = new.clone();
            if own.place == Place::Backoff {
                self.refused_until = None;
            }
            if is_other {
                self.try_next(&new.uid, around);
            }
        } else {
            return self.enter(new, "UnscheduledPodUpdate", around);
        }
        Updated::Known
    }

    pub(crate) fn delete(&mut self, pod: &Pod, around: Around<'_>) {
        if self.named(&pod.key).is_some_and(|own| own.queued.pod.uid == pod.uid) {
            self.remove(&pod.key, around);
        }
    }

    /// Moves the pods that an event may help, one of those that share an answer.
    pub(crate) fn move_all(
        &mut self,
        event: &ObjectEvent,
        may_move: &dyn Fn(&Pod) -> bool,
        around: Around<'_>,
    ) {
        let mut registered = around.profiles.iter().flat_map(|profile| &profile.events);
        if registered.any(|(_, own)| own.event.matches(&event.event)) {
            let (some, sharing): (Vec<_>, Vec<_>) = self
                .waiting()
                .filter(|own| may_move(&own.queued.pod))
                .partition(|own| own.answer.is_none());
            let mut ids: Vec<u64> = sharing.iter().filter_map(|own| own.answer).collect();
            ids.sort_unstable();
            ids.dedup();
            let now = around.handle.now;
            let first = |answer| {
                let first = self.first_to_try(
                    sharing.iter().copied().filter(|own| own.answer == Some(answer)),
                    now,
                )?;
                let Some(trial) = self.trial_of(answer) else { return Some(first) };
                let tried_later =
                    self.named(&trial.pod).is_some_and(|own| own.place == Place::Backoff);
                (tried_later && !self.backs_off(&first.queued, now)).then_some(first)
            };
            let asked = some.into_iter().chain(ids.into_iter().filter_map(first));
            let asked: Vec<Record> = asked.cloned().collect();
            self.move_each(asked, event, None, around);
        }
    }

    /// Moves those of the pods that the event may help, in the order in which they began to wait. A
    /// flush asks each gated pod again.
    fn move_each(
        &mut self,
        mut pods: Vec<Record>,
        event: &ObjectEvent,
        flush: Option<Time>,
        around: Around<'_>,
    ) {
        pods.sort_by_key(|own| (waits_since(own), own.arrival));
        let label = event.event.to_string();
        let helped: Vec<_> = pods
            .iter()
            .filter(|own| flush.is_some() || is_of_interest(own, event, around))
            .map(|own| (own, self.strategy(&own.queued, event, around)))
            .filter(|(_, strategy)| *strategy != Strategy::Stay)
            .collect();
        for (own, strategy) in helped {
            let uid = own.queued.pod.uid.clone();
            let pod = own.queued.pod.key.clone();
            let answer = own.answer.filter(|_| flush.is_none());
            let is_gated = own.place == Place::Gated;
            let mut own = self.take(&pod);
            own.history.gate_flushed = flush.filter(|_| is_gated).or(own.history.gate_flushed);
            let place = self.requeue(own, strategy, &label, around);
            let Some(answer) = answer else { continue };
            if self.members(answer).next().is_some() {
                self.begin(Trial { answer, pod, uid: uid.clone(), strategy, label: label.clone() });
                if !matches!(place, Place::Active | Place::Backoff) {
                    self.try_next(&uid, around);
                }
            }
        }
        self.keep(event);
    }

    pub(crate) fn activate(&mut self, pods: &[PodKey], around: Around<'_>) {
        for key in pods {
            match self.named(key).map(|own| own.place) {
                Some(Place::Active) => {}
                Some(Place::Backoff | Place::ErrorBackoff) => {
                    let own = self.take(key);
                    self.put(own, Place::Active, "ForceActivate", around);
                }
                Some(Place::Unschedulable | Place::Gated) => {
                    let own = self.take(key);
                    self.admit(own, Place::Active, "ForceActivate", around);
                }
                None => {
                    let uid = self.popped.get(key);
                    let own = self.in_flight.iter().find(|own| Some(&own.pod.uid) == uid);
                    let pod = own.map(|own| own.pod.clone());
                    if let Some(pod) = pod {
                        let event = ClusterEvent::wildcard("ForceActivate");
                        self.keep(&ObjectEvent { event, objects: Objects::Pod(None, Some(pod)) });
                    }
                }
            }
        }
    }

    pub(crate) fn retry_after_error(&mut self, pod: &Pod, around: Around<'_>) {
        if self.waits(&pod.key)
            && self.named(&pod.key).is_some_and(|own| own.queued.pod.uid == pod.uid)
        {
            let mut own = self.take(&pod.key);
            own.history.unschedulable_plugins.clear();
            own.history.pending_plugins.clear();
            own.history.consecutive_errors = own.history.unschedulable_count.max(1);
            own.history.timestamp = around.handle.now;
            own.history.backoff_expiration = None;
            self.requeue(own, Strategy::AfterBackoff, "ScheduleAttemptFailure", around);
        }
    }
}

/// Attempts and time.
impl Model {
    /// Handles what a pop has returned: the first active pod, or else the first pod in backoff
    /// that may be popped early. Returns the record of the popped pod.
    ///
    /// # Errors
    /// Another pod is next.
    pub(crate) fn pop(
        &mut self,
        popped: Option<&QueuedPod>,
        real: &Queue,
        around: Around<'_>,
    ) -> Result<Option<QueuedPod>, String> {
        loop {
            let next: Vec<Record> = self.next(around.handle.now).into_iter().cloned().collect();
            if next.is_empty() {
                let waits =
                    self.at(Place::Backoff).filter_map(|own| self.allowed_at(&kind(&own.queued)));
                self.refused_until = waits.min();
                let what = popped.map(|popped| &popped.pod.key);
                return rule(popped.is_none(), || format!("{what:?} is popped and may not be"))
                    .map(|()| None);
            }
            let is_queued = |own: &Record| real.get(&own.queued.pod.key).is_some();
            let dropped =
                next.iter().find(|own| self.is_in_flight(&own.queued.pod.uid) && !is_queued(own));
            let chosen =
                next.iter().find(|own| popped.is_some_and(|pod| pod.pod.uid == own.queued.pod.uid));
            let Some(own) = dropped.or(chosen) else {
                let due = |own: &Record| own.queued.history.backoff_expiration;
                let names: Vec<_> =
                    next.iter().map(|own| (own.queued.pod.key.to_string(), due(own))).collect();
                let names = (
                    names,
                    self.queued
                        .iter()
                        .map(|o| {
                            (
                                o.queued.pod.uid.to_string(),
                                o.place,
                                due(o),
                                o.queued.pod.priority(),
                                o.queued.history.timestamp,
                                self.allowed_at(&kind(&o.queued)),
                            )
                        })
                        .collect::<Vec<_>>(),
                );
                let what = popped.map(|popped| popped.pod.key.to_string());
                return Err(format!("{what:?} is popped instead of {names:?}"));
            };
            let is_dropped = dropped.is_some();
            let is_early = own.place == Place::Backoff;
            let mut own = self.take(&own.queued.pod.key.clone());
            let is_trial = self.trials.iter().any(|trial| trial.uid == own.pod.uid);
            self.last = (is_early || is_trial).then(|| Popped {
                uid: own.pod.uid.clone(),
                kind: kind(&own),
                is_early,
            });
            if is_early {
                self.incoming.push("active PopFromBackoffQ".to_owned());
            }
            if is_dropped {
                self.try_next(&own.pod.uid.clone(), around);
                continue;
            }
            own.history.attempts += 1;
            own.history.times.enter(None, around.handle.now);
            self.popped.insert(own.pod.key.clone(), own.pod.uid.clone());
            self.in_flight.push(Flight { pod: own.pod.clone(), start: self.events.len() });
            return Ok(Some(own));
        }
    }

    /// Returns the pods of which one is popped next. Pods that the order does not distinguish may
    /// leave in any order if they back off, or have come from backoff together.
    fn next(&self, now: Time) -> Vec<&Record> {
        let sort =
            |own: &Record| (-i64::from(own.queued.pod.priority()), own.queued.history.timestamp);
        let active = self.at(Place::Active).map(|own| (sort(own), own.arrival)).min();
        if active.is_some() {
            return self
                .at(Place::Active)
                .filter(|own| Some((sort(own), own.arrival)) == active)
                .collect();
        }
        let is_allowed =
            |own: &&Record| self.allowed_at(&kind(&own.queued)).is_none_or(|at| at <= now);
        let early = || self.at(Place::Backoff).filter(is_allowed);
        let order = |own: &Record| (own.queued.history.backoff_expiration, sort(own));
        let first = early().map(order).min();
        early().filter(|own| Some(order(own)) == first).collect()
    }

    /// Returns when a pod of this kind may be popped early, if early pops of the kind were in vain.
    fn allowed_at(&self, kind: &Kind) -> Option<Time> {
        let mut paid_off: Option<Time> = None;
        for (_, at) in self.in_vain.iter().filter(|(own, _)| own == kind) {
            paid_off = Some(paid_off.map_or(*at, |paid_off| paid_off.max(*at)) + INTERVAL);
        }
        let nanos = (INTERVAL * (BURST - 1)).as_nanos() as i64;
        paid_off.map(|paid_off| Time::from_nanos(paid_off.as_nanos() - nanos))
    }

    pub(crate) fn done(&mut self, uid: &Uid) {
        self.in_flight.retain(|own| own.pod.uid != *uid);
    }

    /// Requeues a popped pod whose attempt failed, with its rejectors.
    pub(crate) fn fail(&mut self, mut own: QueuedPod, around: Around<'_>) {
        let now = around.handle.now;
        let last = self.last.take_if(|last| last.uid == own.pod.uid);
        let early = last.filter(|last| last.is_early);
        self.in_vain.extend(early.map(|early| (early.kind, now)));
        own.history.timestamp = now;
        own.history.backoff_expiration = None;
        if own.history.has_no_rejector() {
            own.history.consecutive_errors += 1;
        } else {
            own.history.consecutive_errors = 0;
            own.history.unschedulable_count += 1;
        }
        self.requeue_popped(own, "ScheduleAttemptFailure", around);
    }

    /// Whether a rejection of a popped pod need not count.
    pub(crate) fn may_look(&self, own: &QueuedPod, now: Time) -> bool {
        let last = self.last.as_ref().filter(|last| last.uid == own.pod.uid);
        let is_allowed = |kind| self.allowed_at(kind).is_none_or(|at| at <= now);
        now.since(own.history.timestamp) <= self.config.max_in_unschedulable
            && last.is_some_and(|last| last.is_early || is_allowed(&last.kind))
    }

    /// Requeues a popped pod whose rejection does not count.
    pub(crate) fn put_back(&mut self, mut own: QueuedPod, around: Around<'_>) {
        let last = self.last.take_if(|last| last.uid == own.pod.uid);
        self.in_vain.extend(last.map(|last| (last.kind, around.handle.now)));
        own.history.attempts -= 1;
        self.requeue_popped(own, "RepeatedRejection", around);
    }

    fn requeue_popped(&mut self, mut own: QueuedPod, label: &str, around: Around<'_>) {
        let (key, uid) = (own.pod.key.clone(), own.pod.uid.clone());
        if self.named(&key).is_none() {
            let flight = self.in_flight.iter().find(|flight| flight.pod.uid == uid);
            own.history.template_rejected &=
                flight.is_some_and(|flight| Template::of(&flight.pod) == Template::of(&own.pod));
            let strategy = match flight.map(|flight| &self.events[flight.start..]) {
                Some(events) if events.len() <= MAX_EVENTS && !own.history.has_no_rejector() => {
                    let all: Vec<_> =
                        events.iter().map(|event| self.strategy(&own, event, around)).collect();
                    let best = [Strategy::AtOnce, Strategy::AfterBackoff];
                    best.into_iter().find(|best| all.contains(best)).unwrap_or(Strategy::Stay)
                }
                _ => Strategy::AfterBackoff,
            };
            let answers = own.history.template_rejected;
            let place = self.requeue(own, strategy, label, around);
            if answers && place == Place::Unschedulable {
                let trial = self.end_trial(&uid);
                trial.iter().for_each(|trial| self.reject_alike(trial.answer, &key));
            }
        }
        self.done(&uid);
    }

    /// The pods of an answer were rejected together with the waiting pod of this name, if it still
    /// is of their template.
    fn reject_alike(&mut self, answer: u64, key: &PodKey) {
        let Some(rejected) = self.named(key).cloned() else { return };
        let template = self.members(answer).next().map(|own| Template::of(&own.queued.pod));
        if template == Some(Template::of(&rejected.queued.pod)) {
            for own in self.queued.iter_mut().filter(|own| own.answer == Some(answer)) {
                own.queued.history.unschedulable_plugins =
                    rejected.queued.history.unschedulable_plugins.clone();
                own.answer = rejected.answer;
            }
        }
    }

    pub(crate) fn fail_outdated(&mut self, own: QueuedPod, around: Around<'_>) {
        let uid = own.pod.uid.clone();
        if self.named(&own.pod.key).is_none() {
            self.requeue(own, Strategy::AtOnce, "ScheduleAttemptFailure", around);
        }
        self.done(&uid);
    }

    pub(crate) fn attempt_ended(&mut self, pod: &Pod, around: Around<'_>) {
        let own = self.named(&pod.key).filter(|own| own.queued.pod.uid == pod.uid);
        if !own.is_some_and(|own| matches!(own.place, Place::Active | Place::Backoff)) {
            self.try_next(&pod.uid, around);
        }
    }

    /// Moves the pods whose backoff is over, and every 30 s those that have waited for too long.
    pub(crate) fn tick(&mut self, around: Around<'_>) {
        let now = around.handle.now;
        self.refused_until.take_if(|until| *until <= now);
        let is_over = |own: &&Record| !self.backs_off(&own.queued, now);
        let over: Vec<Record> = self.at(Place::Backoff).filter(is_over).cloned().collect();
        let mut failed: Vec<Record> =
            self.at(Place::ErrorBackoff).filter(is_over).cloned().collect();
        failed.sort_by_key(|own| (own.queued.history.backoff_expiration, own.arrival));
        let together = self.numbers;
        for own in over.iter().chain(&failed) {
            let is_error = own.place == Place::ErrorBackoff;
            let own = self.take(&own.queued.pod.key);
            self.put(own, Place::Active, "BackoffComplete", around);
            if !is_error {
                self.queued.last_mut().expect("it was put there").arrival = together;
            }
        }
        let flush = Time::from_nanos(now.as_nanos().div_euclid(FLUSH) * FLUSH);
        if self.last_flush.is_none_or(|last| last < flush) {
            self.last_flush = Some(flush);
            let longest = self.config.max_in_unschedulable;
            let is_overdue = |own: &&Record| flush.since(waits_since(own)) > longest;
            let overdue: Vec<Record> = self.waiting().filter(is_overdue).cloned().collect();
            if !overdue.is_empty() {
                let event = ClusterEvent::wildcard("UnschedulableTimeout");
                let event = ObjectEvent { event, objects: Objects::None };
                self.move_each(overdue, &event, Some(flush), around);
            }
        }
    }
}

/// Shared answers and trials.
impl Model {
    fn members(&self, answer: u64) -> impl Iterator<Item = &Record> {
        self.queued.iter().filter(move |own| own.answer == Some(answer))
    }

    fn trial_of(&self, answer: u64) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.answer == answer)
    }

    fn begin(&mut self, trial: Trial) {
        self.trials.retain(|own| own.answer != trial.answer && own.uid != trial.uid);
        self.trials.push(trial);
    }

    fn end_trial(&mut self, uid: &Uid) -> Option<Trial> {
        let place = self.trials.iter().position(|trial| trial.uid == *uid)?;
        Some(self.trials.remove(place))
    }

    /// Tries the next pod of those for which this one was tried, until one is active or backs off.
    fn try_next(&mut self, uid: &Uid, around: Around<'_>) {
        let mut ended = self.end_trial(uid);
        while let Some(trial) = ended.take() {
            let now = around.handle.now;
            let Some(next) = self.first_to_try(self.members(trial.answer), now) else { return };
            let (pod, uid) = (next.queued.pod.key.clone(), next.queued.pod.uid.clone());
            let own = self.take(&pod);
            let place = self.requeue(own, trial.strategy, &trial.label, around);
            let trial = Trial { pod, uid, ..trial };
            match place {
                Place::Active | Place::Backoff => self.begin(trial),
                _ => ended = Some(trial),
            }
        }
    }

    /// Returns the pod that has waited for longest and does not back off, or else the one whose
    /// backoff ends first.
    fn first_to_try<'a>(
        &self,
        pods: impl Iterator<Item = &'a Record>,
        now: Time,
    ) -> Option<&'a Record> {
        let mut pods: Vec<&Record> = pods.collect();
        pods.sort_by_key(|own| (own.queued.history.timestamp, own.arrival));
        let ready = pods.iter().find(|own| !self.backs_off(&own.queued, now));
        ready.or_else(|| pods.iter().min_by_key(|own| self.expiration(&own.queued))).copied()
    }
}

/// Moves.
impl Model {
    fn enter(&mut self, pod: &Arc<Pod>, label: &str, around: Around<'_>) -> Updated {
        let queued = QueuedPod::new(pod.clone(), around.handle.now);
        match self.admit(queued, Place::Active, label, around) {
            Place::Active => Updated::EnteredActive,
            _ => Updated::EnteredGated,
        }
    }

    fn remove(&mut self, key: &PodKey, around: Around<'_>) {
        let Some(own) = self.named(key) else { return };
        let was_waiting = is_waiting(own);
        let own = self.take(key);
        if !was_waiting {
            self.try_next(&own.pod.uid, around);
        }
    }

    fn requeue(
        &mut self,
        mut own: QueuedPod,
        strategy: Strategy,
        label: &str,
        around: Around<'_>,
    ) -> Place {
        own.history.flushed = label == "UnschedulableTimeout";
        if strategy == Strategy::AfterBackoff {
            own.history.backoff_expiration = self.expiration(&own);
        }
        let backs_off = self.backs_off(&own, around.handle.now);
        match strategy {
            Strategy::Stay => self.put(own, Place::Unschedulable, label, around),
            Strategy::AfterBackoff if backs_off => self.admit(own, Place::Backoff, label, around),
            Strategy::AfterBackoff | Strategy::AtOnce => {
                self.admit(own, Place::Active, label, around)
            }
        }
    }

    /// Puts a pod into a place, unless a PreEnqueue plugin gates it.
    fn admit(
        &mut self,
        mut own: QueuedPod,
        place: Place,
        label: &str,
        around: Around<'_>,
    ) -> Place {
        let gate = gate(&own, around);
        own.history.unschedulable_plugins.extend(gate.clone());
        own.history.gating_plugin = gate;
        if own.history.gating_plugin.is_some() {
            own.history.flushed = false;
            return self.put(own, Place::Gated, label, around);
        }
        if place == Place::Active {
            return self.put(own, place, label, around);
        }
        self.refused_until = None;
        if !own.history.has_no_rejector() {
            return self.put(own, Place::Backoff, label, around);
        }
        if own.history.consecutive_errors >= SPREAD_FROM {
            let mut second = own.history.backoff_expiration.expect("it backs off");
            let taken = |second| self.spread.iter().filter(|own| **own == second).count();
            while taken(second) >= MAX_SPREAD {
                second = second + WINDOW;
            }
            let step = Duration::from_nanos(1_000_000_000 / MAX_SPREAD as u64);
            own.history.backoff_expiration = Some(second + step * taken(second) as u32);
            self.spread.push(second);
        }
        self.put(own, Place::ErrorBackoff, label, around)
    }

    fn put(&mut self, mut own: QueuedPod, place: Place, label: &str, around: Around<'_>) -> Place {
        let (part, queue) = match place {
            Place::Active => (Waiting::Active, "active"),
            Place::Backoff | Place::ErrorBackoff => (Waiting::Backoff, "backoff"),
            Place::Unschedulable => (Waiting::Unschedulable, "unschedulable"),
            Place::Gated => (Waiting::Gated, "unschedulable"),
        };
        own.history.times.enter(Some(part), around.handle.now);
        if place == Place::Active {
            own.history.initial_attempt.get_or_insert(around.handle.now);
        }
        let shares = place == Place::Unschedulable && own.history.template_rejected;
        let alike = |other: &&Record| {
            other.answer.is_some()
                && rejectors(&other.queued) == rejectors(&own)
                && Template::of(&other.queued.pod) == Template::of(&own.pod)
        };
        let known = self.queued.iter().find(alike).and_then(|other| other.answer);
        let answer = shares.then(|| known.unwrap_or(self.numbers));
        self.queued.push(Record { queued: own, place, arrival: self.numbers, answer });
        self.numbers += 1;
        self.incoming.push(format!("{queue} {label}"));
        place
    }

    /// Keeps an event for the pods in flight.
    fn keep(&mut self, event: &ObjectEvent) {
        if !self.in_flight.is_empty() {
            self.events.push(event.clone());
        }
    }
}

/// Questions.
impl Model {
    fn named(&self, key: &PodKey) -> Option<&Record> {
        self.queued.iter().find(|own| own.queued.pod.key == *key)
    }

    fn named_mut(&mut self, key: &PodKey) -> Option<&mut Record> {
        self.queued.iter_mut().find(|own| own.queued.pod.key == *key)
    }

    fn take(&mut self, key: &PodKey) -> QueuedPod {
        let place = self.queued.iter().position(|own| own.queued.pod.key == *key);
        self.queued.remove(place.expect("the pod is queued")).queued
    }

    fn at(&self, place: Place) -> impl Iterator<Item = &Record> {
        self.queued.iter().filter(move |own| own.place == place)
    }

    fn waiting(&self) -> impl Iterator<Item = &Record> {
        self.queued.iter().filter(|own| is_waiting(own))
    }

    fn waits(&self, key: &PodKey) -> bool {
        self.named(key).is_some_and(is_waiting)
    }

    /// Whether the pod is in flight.
    pub(crate) fn is_in_flight(&self, uid: &Uid) -> bool {
        self.in_flight.iter().any(|own| own.pod.uid == *uid)
    }

    /// Whether a pod of this name is queued.
    pub(crate) fn has(&self, key: &PodKey) -> bool {
        self.named(key).is_some()
    }

    /// Returns the end of the backoff of a pod: a whole second, unless it was spread out.
    fn expiration(&self, own: &QueuedPod) -> Option<Time> {
        let failures = if own.history.consecutive_errors > 0 {
            own.history.consecutive_errors
        } else {
            own.history.unschedulable_count
        };
        let QueueConfig { initial_backoff, max_backoff, .. } = self.config;
        if failures == 0 || max_backoff.is_zero() {
            return None;
        }
        let doubled = (1..failures).try_fold(initial_backoff, |backoff, _| {
            Some(backoff * 2).filter(|backoff| *backoff <= max_backoff)
        });
        let backoff = doubled.unwrap_or(max_backoff).min(max_backoff);
        own.history
            .backoff_expiration
            .or_else(|| Some((own.history.timestamp + backoff).floor_to_second()))
    }

    fn backs_off(&self, own: &QueuedPod, now: Time) -> bool {
        self.expiration(own).is_some_and(|end| now < end + WINDOW)
    }

    /// Returns how an event requeues a pod (`isPodWorthRequeuing`).
    fn strategy(&self, own: &QueuedPod, event: &ObjectEvent, around: Around<'_>) -> Strategy {
        if own.history.has_no_rejector() {
            return Strategy::AfterBackoff;
        }
        if event.event.is_wildcard() {
            let is_about_other =
                matches!(&event.objects, Objects::Pod(_, Some(pod)) if pod.uid != own.pod.uid);
            return if is_about_other { Strategy::Stay } else { Strategy::AfterBackoff };
        }
        let Some(profile) = around.profiles.get(&own.pod.spec.scheduler_name) else {
            return Strategy::AfterBackoff;
        };
        let mut helping = BTreeSet::new();
        for (plugin, registered) in &profile.events {
            let rejects = own.history.unschedulable_plugins.contains(plugin)
                || own.history.pending_plugins.contains(plugin);
            if !rejects || !registered.event.matches(&event.event) {
                continue;
            }
            let about = EventForPod::new(&own.pod, event.objects(), &around.handle);
            let says = catch_unwind(AssertUnwindSafe(|| registered.evaluate_hint(about)));
            if !matches!(says, Ok(Ok(QueueingHint::Skip))) {
                helping.insert(plugin);
            }
        }
        match helping.iter().any(|plugin| own.history.pending_plugins.contains(*plugin)) {
            true => Strategy::AtOnce,
            false if helping.is_empty() => Strategy::Stay,
            false => Strategy::AfterBackoff,
        }
    }
}

fn is_waiting(own: &Record) -> bool {
    matches!(own.place, Place::Unschedulable | Place::Gated)
}

/// Returns when the wait of a pod began. The flush of a gated pod begins another one.
fn waits_since(own: &Record) -> Time {
    let queued = &own.queued;
    let flushed = queued.history.gate_flushed.filter(|_| own.place == Place::Gated);
    flushed.map_or(queued.history.timestamp, |flushed| flushed.max(queued.history.timestamp))
}

/// Whether the event may move the pod at all: a gated pod waits for events of its gate.
fn is_of_interest(own: &Record, event: &ObjectEvent, around: Around<'_>) -> bool {
    let Some(gate) = &own.queued.history.gating_plugin else { return true };
    let mut registered = around.profiles.iter().flat_map(|profile| &profile.events);
    registered.any(|(plugin, registered)| plugin == gate && registered.event.matches(&event.event))
}

fn rejectors(own: &QueuedPod) -> BTreeSet<&PluginName> {
    own.history.unschedulable_plugins.iter().chain(&own.history.pending_plugins).collect()
}

fn kind(own: &QueuedPod) -> Kind {
    let pod = &own.pod;
    let spec = pod.spec.volumes.is_empty().then(|| pod.spec.clone());
    (
        pod.key.namespace.clone(),
        pod.requests.clone(),
        own.history.unschedulable_plugins.clone(),
        spec,
    )
}

/// Returns the PreEnqueue plugin that gates the pod. The one that gated it last is asked first.
fn gate(own: &QueuedPod, around: Around<'_>) -> Option<PluginName> {
    let profile = around.profiles.get(&own.pod.spec.scheduler_name)?;
    let gates = |name: &PluginName| {
        let plugin = profile.pre_enqueue.iter().find(|plugin| plugin.name == *name);
        let answer = plugin.map(|plugin| {
            catch_unwind(AssertUnwindSafe(|| plugin.plugin.pre_enqueue(&own.pod, &around.handle)))
        });
        answer.is_some_and(|answer| !answer.is_ok_and(|status| status.is_success()))
    };
    let last = own.history.gating_plugin.iter();
    last.chain(profile.pre_enqueue.iter().map(|plugin| &plugin.name))
        .find(|name| gates(name))
        .cloned()
}

/// Comparison with the queue.
impl Model {
    /// Compares everything that the queue shows.
    ///
    /// # Errors
    /// The queue differs.
    pub(crate) fn check(&self, queue: &Queue, now: Time) -> Checked {
        let mut count = 0;
        for (place, queued) in queue.iter() {
            count += 1;
            let key = &queued.pod.key;
            let Some(own) = self.named(key) else {
                return Err(format!("{key} is queued in {place:?}"));
            };
            rule(own.place == place, || {
                format!("{key} is in {place:?} instead of {:?}", own.place)
            })?;
            same(key, queued, &own.queued)?;
            let got = queue.get(key).map(|(place, got)| (place, &got.pod.uid));
            rule(got == Some((place, &queued.pod.uid)), || format!("{key} is found as {got:?}"))?;
            let trial = own.answer.and_then(|answer| self.trial_of(answer)).map(|trial| &trial.uid);
            let shown = queue.trial_for(key);
            rule(shown == trial, || format!("{key} waits for {shown:?} instead of {trial:?}"))?;
        }
        rule(count == self.queued.len(), || {
            let names: Vec<_> =
                self.queued.iter().map(|own| own.queued.pod.key.to_string()).collect();
            format!("{count} pods are queued instead of {names:?}")
        })?;
        let count = |place| self.at(place).count();
        let counts = PendingPodCounts {
            active: count(Place::Active),
            backoff: count(Place::Backoff) + count(Place::ErrorBackoff),
            unschedulable: count(Place::Unschedulable),
            gated: count(Place::Gated),
            in_flight: self.in_flight.len(),
            ..PendingPodCounts::default()
        };
        let shown = queue.counts();
        rule(shown == counts, || format!("{shown:?} instead of {counts:?}"))?;
        for own in &self.in_flight {
            rule(queue.is_in_flight(&own.pod.uid), || format!("{} is not in flight", own.pod.key))?;
        }
        let first = self.in_flight.iter().map(|own| own.start).min();
        let kept = &self.events[first.unwrap_or(self.events.len())..];
        let kept = kept[kept.len().saturating_sub(MAX_EVENTS)..].iter().map(|event| &event.event);
        rule(queue.in_flight_events().eq(kept.clone()), || {
            let shown: Vec<_> = queue.in_flight_events().map(ToString::to_string).collect();
            let kept: Vec<_> = kept.map(ToString::to_string).collect();
            format!("the events {shown:?} are kept instead of {kept:?}")
        })?;
        self.check_times(queue, now)
    }

    /// Compares whether a pod is ready, and when something is due.
    fn check_times(&self, queue: &Queue, now: Time) -> Checked {
        let has_active = self.at(Place::Active).next().is_some();
        rule(queue.has_active() == has_active, || format!("has_active is not {has_active}"))?;
        let is_refused = self.refused_until.is_some_and(|until| now < until);
        let is_ready = has_active || self.at(Place::Backoff).next().is_some() && !is_refused;
        rule(queue.has_ready(now) == is_ready, || format!("has_ready is not {is_ready}"))?;
        rule(is_ready || self.next(now).is_empty(), || {
            "no pod is ready, but one may be popped".to_owned()
        })?;
        let backoffs = self.at(Place::Backoff).chain(self.at(Place::ErrorBackoff));
        let completes = backoffs
            .filter_map(|own| own.queued.history.backoff_expiration)
            .map(|end| end + WINDOW)
            .min();
        let floor = |time: Time| time.as_nanos().div_euclid(FLUSH) * FLUSH;
        let oldest = self.waiting().map(waits_since).min();
        let flush = oldest.map(|oldest| {
            let overdue = floor(oldest + self.config.max_in_unschedulable) + FLUSH;
            let next = self.last_flush.map_or(overdue, |last| overdue.max(last.as_nanos() + FLUSH));
            Time::from_nanos(next)
        });
        let expected = [completes, flush, self.refused_until].into_iter().flatten().min();
        let shown = queue.next_deadline();
        rule(shown == expected, || {
            format!("the next deadline is {shown:?} instead of {expected:?}")
        })
    }

    /// Compares the reports of pods that entered a part of the queue since the last call.
    ///
    /// # Errors
    /// The reports differ.
    pub(crate) fn check_incoming(&mut self, reports: &[String]) -> Checked {
        let expected = std::mem::take(&mut self.incoming);
        rule(reports == expected, || format!("reports {reports:?} instead of {expected:?}"))
    }
}

/// Compares two records of a pod.
///
/// # Errors
/// They differ.
pub(crate) fn same(key: &PodKey, shown: &QueuedPod, own: &QueuedPod) -> Checked {
    rule(shown.pod == own.pod, || {
        let of = |pod: &Pod| format!("{} {}", pod.uid, pod.resource_version);
        format!("{key} is {} instead of {}", of(&shown.pod), of(&own.pod))
    })?;
    let alike = facts(shown) == facts(own);
    rule(alike, || format!("{key} is {:?} instead of {:?}", facts(shown), facts(own)))
}

fn facts(of: &QueuedPod) -> impl PartialEq + Debug {
    (
        (of.history.timestamp, of.history.initial_attempt, of.history.backoff_expiration),
        (of.history.attempts, of.history.unschedulable_count, of.history.consecutive_errors),
        (&of.history.unschedulable_plugins, &of.history.pending_plugins, &of.history.gating_plugin),
        (of.history.template_rejected, of.history.flushed),
        (of.history.gate_flushed, of.history.times),
    )
}
