//! The scheduling queue: pods on their way to their next attempt.
//!
//! ```text
//!                  passes PreEnqueue             pop                     done
//!   add, update ──────────┬───────────▶ active ───────▶ in flight ─────────────▶ scheduled
//!                         │              ▲   ▲              │
//!                         ▼    its event │   │ time, or     │ add_unschedulable_if_not_present
//!                       gated ───────────┘   │ nothing else │
//!                                            │ is ready     ├── an error, or something happened
//!                                         backoff ◀─────────┤   meanwhile that may help
//!                                            ▲              │
//!                              event, 5 min  │              ▼
//!                                            └────── unschedulable
//! ```
//!
//! A pod is in one place at a time, or in flight. Active pods leave in the order of the QueueSort
//! plugin; rejected pods in backoff leave when nothing is active, whether or not their backoff is
//! over (it is a demotion, not a delay), pods that failed with an error wait it out. Unschedulable
//! pods wait for an event that one of their rejectors registered and whose hint says that it may
//! help, gated pods for an event of the plugin that gates them.
//!
//! All of it is plain data: time is an argument, there is no lock and no clock, and equal histories
//! give equal orders.

mod backoff;
mod gate;
mod heap;
mod hint;
mod in_flight;
mod order;
mod unschedulable;

use std::sync::Arc;
use std::time::Duration;

use framework::{ClusterEvent, EventResource, Handle, Pod, PodKey, QueuedPod, Time, Uid};

use crate::classify::pod_updates;
use crate::object_event::{ObjectEvent, Objects};
use crate::ports::{Count, Probe};
use crate::profile::Profiles;

use backoff::BackoffQueue;
use heap::PodHeap;
use hint::{Listeners, Strategy};
use in_flight::InFlight;
use order::SortPlugin;
use unschedulable::{Slot, UnschedulablePods};

pub use backoff::{Backoff, is_backing_off};

/// What brings a pod into a queue when it is no cluster event, as label of `Count::Incoming`.
mod label {
    pub(super) const ADD: &str = "UnschedulablePodAdd";
    pub(super) const UPDATE: &str = "UnschedulablePodUpdate";
    pub(super) const ATTEMPT_FAILED: &str = "ScheduleAttemptFailure";
    pub(super) const BACKOFF_COMPLETE: &str = "BackoffComplete";
    pub(super) const POP_FROM_BACKOFF: &str = "PopFromBackoffQ";
    pub(super) const FORCE_ACTIVATE: &str = "ForceActivate";
    pub(super) const UNSCHEDULABLE_TIMEOUT: &str = "UnschedulableTimeout";
}

/// How often pods are looked for that have been unschedulable for too long.
const LEFTOVER_INTERVAL: Duration = Duration::from_secs(30);

/// Times of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// Backoff after the first failure (`podInitialBackoffSeconds`, 1 s).
    pub initial_backoff: Duration,
    /// Longest backoff (`podMaxBackoffSeconds`, 10 s); zero turns backoff off.
    pub max_backoff: Duration,
    /// How long a pod waits for an event before it is tried again without one (5 min).
    pub max_in_unschedulable: Duration,
}

impl QueueConfig {
    /// The rule for the length of backoffs.
    pub const fn backoff(&self) -> Backoff {
        Backoff { initial: self.initial_backoff, max: self.max_backoff }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            max_in_unschedulable: Duration::from_secs(5 * 60),
        }
    }
}

/// What the queue reads during a call.
pub struct Context<'a> {
    /// The profiles; each queued pod names one of them.
    pub profiles: &'a Profiles,
    /// The views for PreEnqueue and QueueSort plugins and hints; also has the time of the call.
    pub handle: Handle<'a>,
    /// Measurements.
    pub probe: &'a mut dyn Probe,
}

/// What adding or updating a pod has done to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updated {
    /// The pod entered the queue and is active.
    EnteredActive,
    /// The pod entered the queue and is gated.
    EnteredGated,
    /// The pod was queued or in flight already.
    Known,
}

/// Where in the queue a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Ready for an attempt.
    Active,
    /// Rejected, backing off behind the active ones.
    Backoff,
    /// Failed with an error, waiting for its backoff to end.
    ErrorBackoff,
    /// Rejected, waiting for an event.
    Unschedulable,
    /// Held back by a PreEnqueue plugin, waiting for its event.
    Gated,
}

impl Place {
    /// The queue that metrics count the place under.
    const fn queue(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff | Self::ErrorBackoff => "backoff",
            Self::Unschedulable | Self::Gated => "unschedulable",
        }
    }
}

/// Numbers of pods by place (`pending_pods`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// Ready for an attempt.
    pub active: usize,
    /// Backing off, after a rejection or an error.
    pub backoff: usize,
    /// Waiting for an event after a rejection.
    pub unschedulable: usize,
    /// Held back by a PreEnqueue plugin.
    pub gated: usize,
    /// Being scheduled.
    pub in_flight: usize,
}

/// The scheduling queue. See the [module](self).
#[derive(Debug)]
pub struct Queue {
    config: QueueConfig,
    active: PodHeap,
    backoff: BackoffQueue,
    unschedulable: UnschedulablePods,
    in_flight: InFlight,
    /// The last multiple of [`LEFTOVER_INTERVAL`] at which overdue pods were looked for.
    last_leftover_flush: Option<Time>,
}

/// What comes in from outside.
impl Queue {
    /// An empty queue.
    pub fn new(config: QueueConfig) -> Self {
        Self {
            config,
            active: PodHeap::default(),
            backoff: BackoffQueue::default(),
            unschedulable: UnschedulablePods::default(),
            in_flight: InFlight::default(),
            last_leftover_flush: None,
        }
    }

    /// Takes in a pod that has no node yet. A pod of the same name is replaced.
    pub fn add(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) -> Updated {
        self.remove(&pod.key, cx);
        self.enter_new(pod, label::ADD, cx)
    }

    /// Follows an update of a pod that has no node yet.
    ///
    /// In flight, the update is kept for its return; active or in backoff, the new object replaces
    /// the old one; unschedulable, the update is also an event that may help. A pod that is nowhere
    /// is taken in. A pod with another UID is another pod.
    pub fn update(&mut self, old: &Arc<Pod>, new: Arc<Pod>, cx: &mut Context<'_>) -> Updated {
        if old.uid != new.uid {
            self.delete(old, cx);
            return self.add(new, cx);
        }
        if self.in_flight.contains(&new.uid) {
            for event in own_updates(old, &new) {
                self.in_flight.record(&event);
            }
        } else if self.unschedulable.update(&new) {
            self.requeue_updated(old, &new, cx);
        } else if !self.update_ready(&new, cx) {
            return self.enter_new(new, label::UPDATE, cx);
        }
        Updated::Known
    }

    /// Forgets a pod that is gone or has a node now, unless its place in the queue belongs to another
    /// pod of the same name. An attempt in flight goes on.
    pub fn delete(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        if self.get(&pod.key).is_some_and(|(_, queued)| queued.pod.uid == pod.uid) {
            self.remove(&pod.key, cx);
        }
    }

    /// Puts an event to the unschedulable pods and moves those it may help to the active queue or,
    /// while they back off, to backoff (`MoveAllToActiveOrBackoffQueue`). Pods in flight get to
    /// know of it when they return.
    ///
    /// `may_move` excludes pods up front; it does not restrict what pods in flight hear.
    pub fn move_all(
        &mut self,
        event: &ObjectEvent,
        may_move: &dyn Fn(&Pod) -> bool,
        cx: &mut Context<'_>,
    ) {
        let listeners = Listeners::of(cx.profiles, &event.event);
        if !listeners.is_empty() {
            self.move_pods(event, &listeners, None, may_move, cx);
        }
    }

    /// Moves pods to the active queue whether or not they back off or wait for an event; only a
    /// gate holds them back. A pod in flight will at least not become unschedulable when it
    /// returns.
    pub fn activate(&mut self, pods: &[PodKey], cx: &mut Context<'_>) {
        for key in pods {
            if let Some(pod) = self.unschedulable.remove(key) {
                self.make_active(pod, label::FORCE_ACTIVATE, cx);
            } else if let Some(pod) = self.backoff.remove(key, &mut SortPlugin::of(cx)) {
                self.push_active(pod, label::FORCE_ACTIVATE, cx);
            } else if self.active.get(key).is_none() {
                self.activate_on_return(key);
            }
        }
    }

    /// Has a rejected pod back off as after an error: what was done for it did not work. A pod that is
    /// elsewhere, or another of its name, stays where it is.
    ///
    /// Each attempt before ended in a rejection, so it is their number that makes the pauses longer.
    pub fn retry_after_error(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        let known = self.unschedulable.get(&pod.key).map(|(_, queued)| &queued.pod.uid);
        if known != Some(&pod.uid) {
            return;
        }
        let mut queued = self.unschedulable.remove(&pod.key).expect("it was there just now");
        queued.unschedulable_plugins.clear();
        queued.pending_plugins.clear();
        queued.consecutive_errors = queued.unschedulable_count.saturating_sub(1);
        note_failure(&mut queued, cx.handle.now);
        self.requeue(queued, Strategy::AfterBackoff, label::ATTEMPT_FAILED, cx);
    }

    fn activate_on_return(&mut self, key: &PodKey) {
        if let Some(pod) = self.in_flight.named(key).cloned() {
            let event = ClusterEvent::wildcard(label::FORCE_ACTIVATE);
            let objects = Objects::Pod(None, Some(pod));
            self.in_flight.record(&ObjectEvent { event, objects });
        }
    }
}

/// The life of an attempt.
impl Queue {
    /// Whether there is a pod to [`pop`](Self::pop).
    pub const fn has_ready(&self) -> bool {
        !self.active.is_empty() || self.backoff.has_rejected()
    }

    /// Takes the next pod: of the active ones, or else of the rejected ones in backoff. It is in
    /// flight from now on, and counts one attempt more. Its rejectors are those of the last
    /// attempt.
    ///
    /// A pod whose earlier attempt is still in flight is dropped; it comes back with that attempt.
    pub fn pop(&mut self, cx: &mut Context<'_>) -> Option<QueuedPod> {
        loop {
            let mut pod = self.take_next(cx)?;
            if self.in_flight.start(&pod.pod) {
                pod.attempts = pod.attempts.saturating_add(1);
                return Some(pod);
            }
        }
    }

    /// The attempt of a pod is over, or has come so far that no event can help it any more. Without
    /// effect on a pod that is not in flight.
    pub fn done(&mut self, uid: &Uid) {
        self.in_flight.done(uid);
    }

    /// Takes back a pod whose attempt failed, with the plugins that rejected it on record, or none
    /// if it was an error. It is no longer in flight.
    ///
    /// It becomes unschedulable, unless something happened during the attempt that may help; after
    /// an error, or when it was not in flight any more, it backs off. If a pod of its name is
    /// queued already the record is dropped.
    pub fn add_unschedulable_if_not_present(&mut self, mut pod: QueuedPod, cx: &mut Context<'_>) {
        let uid = pod.pod.uid.clone();
        if self.get(&pod.pod.key).is_none() {
            note_failure(&mut pod, cx.handle.now);
            let strategy = self.strategy_on_return(&pod, cx);
            self.requeue(pod, strategy, label::ATTEMPT_FAILED, cx);
        }
        self.done(&uid);
    }
}

/// Time.
impl Queue {
    /// Does what has become due: backoffs that are over, and every 30 s pods that have been
    /// unschedulable for too long. Calling it late or twice changes nothing.
    pub fn tick(&mut self, cx: &mut Context<'_>) {
        while let Some(pod) = self.backoff.pop_complete(cx.handle.now, &mut SortPlugin::of(cx)) {
            self.push_active(pod, label::BACKOFF_COMPLETE, cx);
        }
        self.flush_leftovers(cx);
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.backoff.next_complete().into_iter().chain(self.next_leftover()).min()
    }

    /// Gives pods another try that no event has helped in a long time. Like kube-scheduler, the
    /// attempts in flight hear of it too, also if all the overdue pods are gated and stay.
    fn flush_leftovers(&mut self, cx: &mut Context<'_>) {
        let flush = floor_to_leftover_interval(cx.handle.now);
        if self.last_leftover_flush >= Some(flush) {
            return;
        }
        self.last_leftover_flush = Some(flush);
        let patience = self.config.max_in_unschedulable;
        if !self.unschedulable.any_overdue(flush, patience) {
            return;
        }
        let event = ClusterEvent::wildcard(label::UNSCHEDULABLE_TIMEOUT);
        let listeners = Listeners::of(cx.profiles, &event);
        let event = ObjectEvent { event, objects: Objects::None };
        self.move_pods(&event, &listeners, Some(flush), &|_| true, cx);
    }

    /// When the next rejected pod will have been unschedulable for too long.
    fn next_leftover(&self) -> Option<Time> {
        let overdue = self.unschedulable.oldest_rejected()? + self.config.max_in_unschedulable;
        let next = floor_to_leftover_interval(overdue) + LEFTOVER_INTERVAL;
        let after_last = self.last_leftover_flush.map(|last| last + LEFTOVER_INTERVAL);
        Some(after_last.map_or(next, |after_last| next.max(after_last)))
    }
}

/// Looking in.
impl Queue {
    /// How many pods are where.
    pub fn counts(&self) -> PendingPods {
        PendingPods {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.unschedulable.rejected_count(),
            gated: self.unschedulable.gated_count(),
            in_flight: self.in_flight.len(),
        }
    }

    /// The queued pod called `key`, and where it is. Pods in flight are not queued.
    pub fn get(&self, key: &PodKey) -> Option<(Place, &QueuedPod)> {
        let active = self.active.get(key).map(|pod| (Place::Active, pod));
        active.or_else(|| self.backoff.get(key)).or_else(|| self.unschedulable.get(key))
    }

    /// Every queued pod, place by place; not in the order in which they leave.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &QueuedPod)> {
        let active = self.active.iter().map(|pod| (Place::Active, pod));
        active.chain(self.backoff.iter()).chain(self.unschedulable.iter())
    }

    /// Whether the pod is in flight.
    pub fn is_in_flight(&self, uid: &Uid) -> bool {
        self.in_flight.contains(uid)
    }

    /// The events kept for pods in flight, oldest first (`inflight_events`).
    pub fn in_flight_events(&self) -> impl ExactSizeIterator<Item = &ClusterEvent> {
        self.in_flight.events().map(|event| &event.event)
    }
}

/// Moving between places.
impl Queue {
    /// Takes in a pod that is in no place yet.
    fn enter_new(&mut self, pod: Arc<Pod>, label: &str, cx: &mut Context<'_>) -> Updated {
        match self.make_active(QueuedPod::new(pod, cx.handle.now), label, cx) {
            Place::Active => Updated::EnteredActive,
            _ => Updated::EnteredGated,
        }
    }

    fn remove(&mut self, key: &PodKey, cx: &mut Context<'_>) {
        let sort = &mut SortPlugin::of(cx);
        if self.active.remove(key, sort).is_none() && self.backoff.remove(key, sort).is_none() {
            self.unschedulable.remove(key);
        }
    }

    /// Replaces the object of an active pod or one in backoff; `false` if it is neither.
    fn update_ready(&mut self, pod: &Arc<Pod>, cx: &mut Context<'_>) -> bool {
        let sort = &mut SortPlugin::of(cx);
        self.active.update(&pod.key, sort, |queued| queued.pod = pod.clone())
            || self.backoff.update(pod, sort)
    }

    /// Lets an unschedulable pod go if what was updated of it may help.
    fn requeue_updated(&mut self, old: &Arc<Pod>, new: &Arc<Pod>, cx: &mut Context<'_>) {
        for event in own_updates(old, new) {
            let Some((_, queued)) = self.unschedulable.get(&new.key) else { return };
            let registered = hint::registered_by_rejectors(queued, cx.profiles);
            let strategy = hint::strategy(queued, &event, registered, cx);
            if strategy != Strategy::Skip {
                let queued = self.unschedulable.remove(&new.key).expect("it was there just now");
                self.requeue(queued, strategy, &event.event.to_string(), cx);
            }
        }
    }

    fn take_next(&mut self, cx: &mut Context<'_>) -> Option<QueuedPod> {
        if let Some(pod) = self.active.pop(&mut SortPlugin::of(cx)) {
            return Some(pod);
        }
        let pod = self.backoff.pop(&mut SortPlugin::of(cx))?;
        count(Place::Active, label::POP_FROM_BACKOFF, cx);
        Some(pod)
    }

    /// Moves the pods that an event may help, in line, and records the event for the pods in flight.
    /// With `overdue_at`, only pods move that have waited for too long at that time.
    ///
    /// Groups of pods whose rejectors did not register for the event are not looked at.
    fn move_pods(
        &mut self,
        event: &ObjectEvent,
        listeners: &Listeners<'_>,
        overdue_at: Option<Time>,
        may_move: &dyn Fn(&Pod) -> bool,
        cx: &mut Context<'_>,
    ) {
        let patience = self.config.max_in_unschedulable;
        let is_due = |slot: &Slot| overdue_at.is_none_or(|now| slot.is_overdue(now, patience));
        let mut helped = Vec::new();
        for (group, pods) in self.unschedulable.groups() {
            let Some(registered) = listeners.among_rejectors(group) else { continue };
            let due = pods.iter().take_while(|(slot, _)| is_due(slot));
            for (slot, queued) in due.filter(|(_, queued)| may_move(&queued.pod)) {
                match hint::strategy(queued, event, registered.iter().copied(), cx) {
                    Strategy::Skip => {}
                    strategy => helped.push((*slot, queued.pod.key.clone(), strategy)),
                }
            }
        }
        helped.sort_unstable_by_key(|(slot, ..)| *slot);
        let label = event.event.to_string();
        for (_, key, strategy) in helped {
            let queued = self.unschedulable.remove(&key).expect("moving a pod moves no other");
            self.requeue(queued, strategy, &label, cx);
        }
        self.in_flight.record(event);
    }

    /// What the events during its attempt mean for a pod that comes back.
    fn strategy_on_return(&self, pod: &QueuedPod, cx: &mut Context<'_>) -> Strategy {
        if pod.has_no_rejector() {
            return Strategy::AfterBackoff;
        }
        let Some(events) = self.in_flight.since(&pod.pod.uid) else {
            return Strategy::AfterBackoff;
        };
        let registered = hint::registered_by_rejectors(pod, cx.profiles);
        let mut best = Strategy::Skip;
        for event in events {
            match hint::strategy(pod, event, registered.iter().copied(), cx) {
                Strategy::Skip => {}
                Strategy::AfterBackoff if !pod.pending_plugins.is_empty() => {
                    best = Strategy::AfterBackoff;
                }
                decided => return decided,
            }
        }
        best
    }

    /// Puts a pod that is in no place where the strategy sends it.
    fn requeue(
        &mut self,
        mut pod: QueuedPod,
        strategy: Strategy,
        label: &str,
        cx: &mut Context<'_>,
    ) -> Place {
        pod.flushed = label == label::UNSCHEDULABLE_TIMEOUT;
        match strategy {
            Strategy::Skip => self.park(pod, label, cx),
            Strategy::AfterBackoff if self.is_backing_off(&mut pod, cx.handle.now) => {
                self.back_off(pod, label, cx)
            }
            Strategy::AfterBackoff | Strategy::Immediately => self.make_active(pod, label, cx),
        }
    }

    /// Whether the pod backs off; the end of its backoff is computed once per failure.
    fn is_backing_off(&self, pod: &mut QueuedPod, now: Time) -> bool {
        if pod.backoff_expiration.is_none() {
            pod.backoff_expiration = self.config.backoff().expiration(pod);
        }
        is_backing_off(pod.backoff_expiration, now)
    }

    /// Makes a pod active, unless a PreEnqueue plugin gates it.
    fn make_active(&mut self, mut pod: QueuedPod, label: &str, cx: &mut Context<'_>) -> Place {
        if gate::opens(&mut pod, cx) {
            self.push_active(pod, label, cx)
        } else {
            self.park(pod, label, cx)
        }
    }

    /// Makes a pod active that has passed PreEnqueue.
    fn push_active(&mut self, mut pod: QueuedPod, label: &str, cx: &mut Context<'_>) -> Place {
        pod.initial_attempt.get_or_insert(cx.handle.now);
        self.active.push(pod, &mut SortPlugin::of(cx));
        count(Place::Active, label, cx)
    }

    /// Lets a pod back off, unless a PreEnqueue plugin gates it.
    fn back_off(&mut self, mut pod: QueuedPod, label: &str, cx: &mut Context<'_>) -> Place {
        if gate::opens(&mut pod, cx) {
            let place = self.backoff.push(pod, &mut SortPlugin::of(cx));
            count(place, label, cx)
        } else {
            self.park(pod, label, cx)
        }
    }

    fn park(&mut self, pod: QueuedPod, label: &str, cx: &mut Context<'_>) -> Place {
        let place = self.unschedulable.insert(pod);
        count(place, label, cx)
    }
}

/// Counts a pod that has come to `place`.
fn count(place: Place, event: &str, cx: &mut Context<'_>) -> Place {
    cx.probe.count(Count::Incoming { queue: place.queue(), event });
    place
}

/// Books a failed attempt: an error if no plugin rejected the pod.
fn note_failure(pod: &mut QueuedPod, now: Time) {
    if pod.has_no_rejector() {
        pod.consecutive_errors = pod.consecutive_errors.saturating_add(1);
    } else {
        pod.unschedulable_count = pod.unschedulable_count.saturating_add(1);
        pod.consecutive_errors = 0;
    }
    pod.timestamp = now;
    pod.backoff_expiration = None;
}

/// The events that an update of a waiting pod is to the pod itself.
fn own_updates(old: &Arc<Pod>, new: &Arc<Pod>) -> impl Iterator<Item = ObjectEvent> {
    let (old, new) = (old.clone(), new.clone());
    pod_updates(&old, &new).into_iter().map(move |action| ObjectEvent {
        event: ClusterEvent::new(EventResource::UnschedulablePod, action),
        objects: Objects::Pod(Some(old.clone()), Some(new.clone())),
    })
}

/// The last multiple of [`LEFTOVER_INTERVAL`] that is not after `time`.
fn floor_to_leftover_interval(time: Time) -> Time {
    let interval = LEFTOVER_INTERVAL.as_nanos() as i64;
    Time::from_nanos(time.as_nanos().div_euclid(interval).saturating_mul(interval))
}

#[cfg(test)]
pub(crate) mod tests;
