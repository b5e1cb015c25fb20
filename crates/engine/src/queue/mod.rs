//! The scheduling queue: pods that wait for their next attempt (`PriorityQueue` in kube-scheduler).
//!
//! ```text
//!                  passes PreEnqueue             pop                     done
//!   add, update ──────────┬───────────▶ active ───────▶ in flight ─────────────▶ scheduled
//!                         │              ▲   ▲              │
//!                         ▼    its event │   │ backoff over,│ add_unschedulable_if_not_present
//!                       gated ───────────┘   │ or no other  │
//!                                            │ pod is ready ├── an error, or an event during the
//!                                         backoff ◀─────────┤   attempt that may help
//!                                            ▲              │
//!                              event, 5 min  │              ▼
//!                                            └────── unschedulable
//! ```
//!
//! A pod is in one [`Place`] at a time, or in flight.
//!
//! kube-scheduler moves every pod that an event may help. Here an event moves one pod of each class of
//! unschedulable pods that share their answer, see `trials`. Pods popped before the end of their
//! backoff are paced, see `pace`. If an attempt of either kind repeats the rejection before, it
//! does not count: it was a *look*, see [`Queue::put_back_if_not_present`].
//!
//! * *active* (`activeQ`): pods leave in the order of the QueueSort plugin.
//! * *backoff* (`backoffQ`): a rejected pod may leave early, when no pod is active. A pod that failed
//!   with an error stays until its backoff is over.
//! * *unschedulable* (`unschedulablePods`): a pod waits for an event that one of its rejectors
//!   registered and whose queueing hint returns Queue.
//! * *gated* (also `unschedulablePods`): a pod waits for an event of the PreEnqueue plugin that gates
//!   it.
//!
//! The queue has no lock and no clock: the time is an argument. Equal histories give equal orders.

mod backoff;
mod context;
mod heap;
mod hint;
mod in_flight;
mod order;
mod pace;
mod place;
mod pre_enqueue;
mod trials;
mod unschedulable;

use std::sync::Arc;
use std::time::Duration;

use framework::{
    ClusterEvent, EventResource, Pod, PodKey, QueuedPod, Template, Time, Uid, Waiting,
};

use crate::classify::pod_updates;
use crate::object_event::{ObjectEvent, Objects};
use crate::ports::Count;

use backoff::BackoffQueue;
use heap::PodHeap;
use hint::{QueueingStrategy, Registrations};
use in_flight::InFlight;
use order::SortPlugin;
use pace::{Occasion, Pace};
use trials::{Trial, Trials};
use unschedulable::{Group, Replaced, Slot, UnschedulablePods};

pub use backoff::{Backoff, is_backing_off};
pub use context::Context;
pub use place::Place;

/// The values of the `event` label of `Count::Incoming` for pods that no cluster event has moved.
mod label {
    pub(super) const ADD: &str = "UnschedulablePodAdd";
    pub(super) const UPDATE: &str = "UnschedulablePodUpdate";
    pub(super) const ATTEMPT_FAILED: &str = "ScheduleAttemptFailure";
    pub(super) const REPEATED: &str = "RepeatedRejection";
    pub(super) const BACKOFF_COMPLETE: &str = "BackoffComplete";
    pub(super) const POP_FROM_BACKOFF: &str = "PopFromBackoffQ";
    pub(super) const FORCE_ACTIVATE: &str = "ForceActivate";
    pub(super) const UNSCHEDULABLE_TIMEOUT: &str = "UnschedulableTimeout";
}

/// The interval of [`Queue::flush_unschedulable_pods_leftover`].
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// Times of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// Backoff after the first failure (`podInitialBackoffSeconds`, 1 s).
    pub initial_backoff: Duration,
    /// Longest backoff (`podMaxBackoffSeconds`, 10 s); zero turns backoff off.
    pub max_backoff: Duration,
    /// Longest wait for an event; after it the pod is retried without one (5 min).
    pub max_in_unschedulable: Duration,
}

impl QueueConfig {
    /// Returns the rule for the length of backoffs.
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

/// The effect of adding or updating a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updated {
    /// The pod entered the queue and is active.
    EnteredActive,
    /// The pod entered the queue and is gated.
    EnteredGated,
    /// The pod was queued or in flight already.
    Known,
}

/// Numbers of pods by place (`pending_pods`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingPodCounts {
    /// Ready for an attempt.
    pub active: usize,
    /// Backing off, after a rejection or an error.
    pub backoff: usize,
    /// Waiting for an event after a rejection.
    pub unschedulable: usize,
    /// Gated by a PreEnqueue plugin.
    pub gated: usize,
    /// Being scheduled.
    pub in_flight: usize,
}

/// The scheduling queue. The [module](self) describes its parts.
#[derive(Debug)]
pub struct Queue {
    config: QueueConfig,
    active: PodHeap,
    backoff: BackoffQueue,
    unschedulable: UnschedulablePods,
    trials: Trials,
    in_flight: InFlight,
    pace: Pace,
    /// The last multiple of [`FLUSH_INTERVAL`] at which leftover pods were flushed.
    last_leftover_flush: Option<Time>,
}

/// Updates of pods and cluster events.
impl Queue {
    /// Returns an empty queue.
    pub fn new(config: QueueConfig) -> Self {
        Self {
            config,
            active: PodHeap::default(),
            backoff: BackoffQueue::default(),
            unschedulable: UnschedulablePods::default(),
            trials: Trials::default(),
            in_flight: InFlight::default(),
            pace: Pace::default(),
            last_leftover_flush: None,
        }
    }

    /// Adds a pod that has no node yet. It replaces a pod of the same name.
    pub fn add(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) -> Updated {
        self.remove(&pod.key, cx);
        self.enter(pod, label::ADD, cx)
    }

    /// Updates a pod that has no node yet; adds it if it is neither queued nor in flight.
    ///
    /// The new object replaces the old one. For an unschedulable or gated pod the update is also an
    /// event that may help. For a pod in flight that event is kept until its attempt fails. If the
    /// UID differs, the old pod is deleted and the new pod added.
    pub fn update(&mut self, old: &Arc<Pod>, new: Arc<Pod>, cx: &mut Context<'_>) -> Updated {
        if old.uid != new.uid {
            self.delete(old, cx);
            return self.add(new, cx);
        }
        if self.in_flight.contains(&new.uid) {
            for event in own_update_events(old, &new) {
                self.in_flight.record(&event);
            }
        } else if let Some(replaced) = self.unschedulable.update(&new) {
            self.requeue_updated(old, &new, cx);
            if let Replaced::LeavesClass(class) = replaced {
                self.requeue_leaver(&class, &new.key, cx);
            }
        } else if !self.update_active_or_backoff(&new, cx) {
            return self.enter(new, label::UPDATE, cx);
        } else if Template::of(old) != Template::of(&new) {
            self.try_next_of_class(&new.uid, cx);
        }
        Updated::Known
    }

    /// Removes a pod that is gone or has a node now. Another pod of the same name stays. An attempt in
    /// flight goes on.
    pub fn delete(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        if self.get(&pod.key).is_some_and(|(_, queued)| queued.pod.uid == pod.uid) {
            self.remove(&pod.key, cx);
        }
    }

    /// Moves the unschedulable pods that the event may help: to backoff while they back off, otherwise
    /// to the active queue (`MoveAllToActiveOrBackoffQueue`). The event is kept for the pods in
    /// flight, whose hints are asked when their attempt fails.
    ///
    /// Only pods for which `may_move` (`preCheck`) returns true are moved. It does not apply to pods in
    /// flight.
    pub fn move_all_to_active_or_backoff_queue(
        &mut self,
        event: &ObjectEvent,
        may_move: &dyn Fn(&Pod) -> bool,
        cx: &mut Context<'_>,
    ) {
        if !hint::is_registered(cx.profiles, &event.event) {
            return;
        }
        if self.unschedulable.is_empty() {
            return self.in_flight.record(event);
        }
        let registrations = Registrations::of(cx.profiles, &event.event);
        self.move_pods(event, &registrations, None, may_move, cx);
    }

    /// Moves pods to the active queue, also if they back off or wait for an event (`Activate`). A pod
    /// that a PreEnqueue plugin gates stays gated. A pod in flight is requeued if its attempt fails,
    /// and does not become unschedulable.
    pub fn activate(&mut self, pods: &[PodKey], cx: &mut Context<'_>) {
        for key in pods {
            if let Some(pod) = self.unschedulable.remove(key) {
                self.move_to_active_queue(pod, label::FORCE_ACTIVATE, cx);
            } else if let Some(pod) = self.backoff.remove(key, &mut SortPlugin::of(cx)) {
                self.push_active(pod, label::FORCE_ACTIVATE, cx);
            } else if self.active.get(key).is_none() {
                self.activate_in_flight(key);
            }
        }
    }

    /// Requeues an unschedulable pod as after an error, because the preemption for it has failed.
    /// Leaves the entry alone if the pod moved or was replaced by another pod of the same name.
    ///
    /// The number of rejections counts as the number of errors, so the backoff grows with every
    /// failed preemption.
    pub fn retry_after_error(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        let known = self.unschedulable.get(&pod.key).map(|(_, queued)| &queued.pod.uid);
        if known != Some(&pod.uid) {
            return;
        }
        let mut queued = self.unschedulable.remove(&pod.key).expect("it was there just now");
        queued.unschedulable_plugins.clear();
        queued.pending_plugins.clear();
        queued.consecutive_errors = queued.unschedulable_count.saturating_sub(1);
        record_failure(&mut queued, cx.handle.now);
        self.requeue(queued, QueueingStrategy::AfterBackoff, label::ATTEMPT_FAILED, cx);
    }

    fn activate_in_flight(&mut self, key: &PodKey) {
        if let Some(pod) = self.in_flight.named(key).cloned() {
            let event = ClusterEvent::wildcard(label::FORCE_ACTIVATE);
            let objects = Objects::Pod(None, Some(pod));
            self.in_flight.record(&ObjectEvent { event, objects });
        }
    }
}

/// Attempts.
impl Queue {
    /// Whether [`pop`](Self::pop) may return a pod at `now`.
    pub fn has_ready(&self, now: Time) -> bool {
        let is_refused = self.pace.refused_until().is_some_and(|until| now < until);
        self.has_active() || self.backoff.has_rejected() && !is_refused
    }

    /// Whether [`pop`](Self::pop) returns a pod that does not back off.
    pub const fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Removes and returns the next pod: the first active pod, or else the first rejected pod in
    /// backoff, unless such early pops of its kind were in vain too often. The pod is then in flight and
    /// its number of attempts grows by one. Its rejectors are those of the last attempt.
    ///
    /// Drops a pod whose earlier attempt is still in flight; that attempt requeues the pod if it
    /// fails.
    pub fn pop(&mut self, cx: &mut Context<'_>) -> Option<QueuedPod> {
        loop {
            let mut pod = self.take_next(cx)?;
            if self.in_flight.start(&pod.pod) {
                pod.attempts = pod.attempts.saturating_add(1);
                pod.times.enter(None, cx.handle.now);
                return Some(pod);
            }
            self.try_next_of_class(&pod.pod.uid, cx);
        }
    }

    /// Ends the flight of a pod (`Done`): its attempt is over, or no event can help it any more.
    /// Ignores a pod that is not in flight.
    pub fn done(&mut self, uid: &Uid) {
        self.in_flight.done(uid);
    }

    /// Requeues a pod whose attempt failed, and ends its flight. `pod` names the plugins that rejected
    /// it, or none if the attempt ended with an error.
    ///
    /// The pod becomes unschedulable, unless an event during the attempt may help. After an error, or
    /// if the pod was not in flight, it backs off. The record is dropped if a pod of this name is
    /// queued already.
    pub fn add_unschedulable_if_not_present(&mut self, mut pod: QueuedPod, cx: &mut Context<'_>) {
        self.pace.failed(&pod.pod.uid, cx.handle.now);
        record_failure(&mut pod, cx.handle.now);
        self.requeue_popped(pod, label::ATTEMPT_FAILED, cx);
    }

    /// Whether a rejection of `pod`, whose attempt is under way, may be left out of account: the
    /// pod was popped before the end of its backoff or is tried for its class, and the pace allows
    /// it. An attempt counts at least once in the longest wait for an event.
    pub fn may_look(&self, pod: &QueuedPod, now: Time) -> bool {
        now.since(pod.timestamp) <= self.config.max_in_unschedulable
            && self.pace.may_look(&pod.pod.uid, now)
    }

    /// Requeues a pod whose attempt was a look, and ends its flight: `pod` names the plugins that
    /// rejected it again.
    ///
    /// The number of attempts, the backoff and the start of its wait are those before the attempt.
    /// Apart from that the pod goes where it would go after a rejection.
    pub fn put_back_if_not_present(&mut self, mut pod: QueuedPod, cx: &mut Context<'_>) {
        self.pace.looked(&pod.pod.uid, cx.handle.now);
        pod.attempts = pod.attempts.saturating_sub(1);
        self.requeue_popped(pod, label::REPEATED, cx);
    }

    fn requeue_popped(&mut self, mut pod: QueuedPod, label: &str, cx: &mut Context<'_>) {
        let (key, uid) = (pod.pod.key.clone(), pod.pod.uid.clone());
        if self.get(&key).is_none() {
            let strategy = self.strategy_of_in_flight_pod(&pod, cx);
            // The answer is one for the template that the pod had when it was popped.
            let popped = self.in_flight.popped(&uid);
            pod.template_rejected &=
                popped.is_some_and(|popped| Template::of(popped) == Template::of(&pod.pod));
            let answers_for_class = pod.template_rejected;
            let place = self.requeue(pod, strategy, label, cx);
            if answers_for_class && place == Place::Unschedulable {
                let trial = self.trials.end(&uid);
                trial.iter().for_each(|trial| self.unschedulable.reject_alike(&trial.class, &key));
            }
        }
        self.done(&uid);
    }

    /// Requeues a pod that changed during its attempt, and ends its flight. The attempt did not fail, so the
    /// pod is active at once and its backoff does not grow. The record is dropped if a pod of this name is
    /// queued already.
    pub fn add_outdated_if_not_present(&mut self, pod: QueuedPod, cx: &mut Context<'_>) {
        let uid = pod.pod.uid.clone();
        if self.get(&pod.pod.key).is_none() {
            self.requeue(pod, QueueingStrategy::Immediately, label::ATTEMPT_FAILED, cx);
        }
        self.done(&uid);
    }

    /// Notes that an attempt is over. If the pod was tried for its class, and its attempt said nothing
    /// about the others or found a node, the next pod of the class is tried.
    pub fn attempt_ended(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        let place = self.get(&pod.key).filter(|(_, queued)| queued.pod.uid == pod.uid);
        let is_tried_again = matches!(place, Some((Place::Active | Place::Backoff, _)));
        if !is_tried_again {
            self.try_next_of_class(&pod.uid, cx);
        }
    }
}

/// Time.
impl Queue {
    /// Moves the pods whose backoff is over, and every 30 s the pods that have been unschedulable for
    /// too long. Calls may come late or more often than needed.
    pub fn tick(&mut self, cx: &mut Context<'_>) {
        self.pace.tick(cx.handle.now);
        while let Some(pod) = self.backoff.pop_complete(cx.handle.now, &mut SortPlugin::of(cx)) {
            self.push_active(pod, label::BACKOFF_COMPLETE, cx);
        }
        self.flush_unschedulable_pods_leftover(cx);
    }

    /// Returns the time at which [`tick`](Self::tick) next moves a pod, or at which a pod may be popped
    /// that still backs off.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines =
            [self.backoff.next_complete(), self.next_leftover_flush(), self.pace.refused_until()];
        deadlines.into_iter().flatten().min()
    }

    /// Moves the pods that have waited for an event for too long. As in kube-scheduler, the event is
    /// also kept for the pods in flight, even if every such pod is gated and stays.
    fn flush_unschedulable_pods_leftover(&mut self, cx: &mut Context<'_>) {
        let flush = floor_to_flush_interval(cx.handle.now);
        if self.last_leftover_flush >= Some(flush) {
            return;
        }
        self.last_leftover_flush = Some(flush);
        let max_wait = self.config.max_in_unschedulable;
        if !self.unschedulable.any_overdue(flush, max_wait) {
            return;
        }
        let event = ClusterEvent::wildcard(label::UNSCHEDULABLE_TIMEOUT);
        let registrations = Registrations::of(cx.profiles, &event);
        let event = ObjectEvent { event, objects: Objects::None };
        self.move_pods(&event, &registrations, Some(flush), &|_| true, cx);
    }

    /// Returns the time of the next flush that moves a rejected pod.
    fn next_leftover_flush(&self) -> Option<Time> {
        let overdue = self.unschedulable.oldest_rejected()? + self.config.max_in_unschedulable;
        let next = floor_to_flush_interval(overdue) + FLUSH_INTERVAL;
        let after_last = self.last_leftover_flush.map(|last| last + FLUSH_INTERVAL);
        Some(after_last.map_or(next, |after_last| next.max(after_last)))
    }
}

/// Accessors.
impl Queue {
    /// Returns the number of pods in each place.
    pub fn counts(&self) -> PendingPodCounts {
        PendingPodCounts {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.unschedulable.rejected_count(),
            gated: self.unschedulable.gated_count(),
            in_flight: self.in_flight.len(),
        }
    }

    /// Returns the queued pod called `key` and its place. Pods in flight are not queued.
    pub fn get(&self, key: &PodKey) -> Option<(Place, &QueuedPod)> {
        let active = self.active.get(key).map(|pod| (Place::Active, pod));
        active.or_else(|| self.backoff.get(key)).or_else(|| self.unschedulable.get(key))
    }

    /// Returns the pod of its class for whose attempt an unschedulable pod waits, because it decides for both.
    pub fn trial_for(&self, key: &PodKey) -> Option<&Uid> {
        self.trials.pod_of(self.unschedulable.group(key)?)
    }

    /// Returns every queued pod, place by place, but not in the order in which pods are popped.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &QueuedPod)> {
        let active = self.active.iter().map(|pod| (Place::Active, pod));
        active.chain(self.backoff.iter()).chain(self.unschedulable.iter())
    }

    /// Whether the pod is in flight.
    pub fn is_in_flight(&self, uid: &Uid) -> bool {
        self.in_flight.contains(uid)
    }

    /// Returns the events kept for pods in flight, oldest first (`inflight_events`).
    pub fn in_flight_events(&self) -> impl ExactSizeIterator<Item = &ClusterEvent> {
        self.in_flight.events().map(|event| &event.event)
    }
}

/// Moves between places.
impl Queue {
    /// Adds a pod that is not queued.
    fn enter(&mut self, pod: Arc<Pod>, label: &str, cx: &mut Context<'_>) -> Updated {
        match self.move_to_active_queue(QueuedPod::new(pod, cx.handle.now), label, cx) {
            Place::Active => Updated::EnteredActive,
            _ => Updated::EnteredGated,
        }
    }

    fn remove(&mut self, key: &PodKey, cx: &mut Context<'_>) {
        let sort = &mut SortPlugin::of(cx);
        let removed = self.active.remove(key, sort).or_else(|| self.backoff.remove(key, sort));
        match removed {
            Some(removed) => self.try_next_of_class(&removed.pod.uid, cx),
            None => drop(self.unschedulable.remove(key)),
        }
    }

    /// Replaces the object of a pod that is active or in backoff. Returns whether there is one.
    fn update_active_or_backoff(&mut self, pod: &Arc<Pod>, cx: &mut Context<'_>) -> bool {
        let sort = &mut SortPlugin::of(cx);
        self.active.update(&pod.key, sort, |queued| queued.set_pod(pod.clone()))
            || self.backoff.update(pod, &mut self.pace, sort)
    }

    /// Requeues an unschedulable or gated pod if its own update may help.
    fn requeue_updated(&mut self, old: &Arc<Pod>, new: &Arc<Pod>, cx: &mut Context<'_>) {
        for event in own_update_events(old, new) {
            let Some((_, queued)) = self.unschedulable.get(&new.key) else { return };
            let registered = hint::registered_by_rejectors(queued, cx.profiles);
            let strategy = hint::queueing_strategy(queued, &event, registered, cx);
            if strategy != QueueingStrategy::Skip {
                let queued = self.unschedulable.remove(&new.key).expect("it was there just now");
                self.requeue(queued, strategy, &event.event.to_string(), cx);
            }
        }
    }

    /// Requeues an unschedulable pod that has left its class while another pod of it is tried. Events
    /// that moved the other pod may help this one, too, and the answer no longer counts for it.
    fn requeue_leaver(&mut self, class: &Group, pod: &PodKey, cx: &mut Context<'_>) {
        let Some(Trial { strategy, label, .. }) = self.trials.of(class) else { return };
        let (strategy, label) = (*strategy, label.clone());
        if let Some(queued) = self.unschedulable.remove(pod) {
            self.requeue(queued, strategy, &label, cx);
        }
    }

    fn take_next(&mut self, cx: &mut Context<'_>) -> Option<QueuedPod> {
        if let Some(pod) = self.active.pop(&mut SortPlugin::of(cx)) {
            let is_trial = self.trials.contains(&pod.pod.uid);
            self.pace.popped(&pod, is_trial.then_some(Occasion::Trial));
            return Some(pod);
        }
        let pod = self.backoff.pop(cx.handle.now, &mut self.pace, &mut SortPlugin::of(cx))?;
        count_incoming(Place::Active, label::POP_FROM_BACKOFF, cx);
        Some(pod)
    }

    /// Moves the pods that an event may help, longest wait first, and records the event for the pods
    /// in flight. With `overdue_at`, moves only the pods that have waited for too long at that time.
    /// Otherwise moves one pod of each class.
    ///
    /// Skips groups of pods whose rejectors did not register the event.
    fn move_pods(
        &mut self,
        event: &ObjectEvent,
        registrations: &Registrations<'_>,
        overdue_at: Option<Time>,
        may_move: &dyn Fn(&Pod) -> bool,
        cx: &mut Context<'_>,
    ) {
        let handle = cx.handle;
        let now = handle.now;
        let max_wait = self.config.max_in_unschedulable;
        let is_due = |slot: &Slot| overdue_at.is_none_or(|now| slot.is_overdue(now, max_wait));
        let mut helped = Vec::new();
        for (group, pods) in self.unschedulable.groups() {
            let Some(registered) = registrations.of_rejectors(group) else { continue };
            let due = pods.iter().take_while(|(slot, _)| is_due(slot));
            let due = due.filter(|(_, queued)| may_move(&queued.pod));
            // Until its victims end, a gated preemptor stays gated, whatever the event says.
            let stays = |pod: &Pod| group.is_gated() && handle.is_preempting(&pod.uid);
            let due = due.filter(|(_, queued)| !stays(&queued.pod));
            let ask = |(slot, queued): (&Slot, &QueuedPod)| match hint::queueing_strategy(
                queued,
                event,
                registered.iter().copied(),
                cx,
            ) {
                QueueingStrategy::Skip => {}
                strategy => helped.push((*slot, queued.pod.key.clone(), strategy)),
            };
            if group.is_class() && overdue_at.is_none() {
                self.first_of_class(group, due, now).into_iter().for_each(ask);
            } else {
                due.for_each(ask);
            }
        }
        helped.sort_unstable_by_key(|(slot, ..)| *slot);
        let label: Arc<str> = event.event.to_string().into();
        for (_, key, strategy) in helped {
            let (class, queued) =
                self.unschedulable.take(&key).expect("requeueing a pod removes no other pod");
            let (uid, pod) = (queued.pod.uid.clone(), key);
            let place = self.requeue(queued, strategy, &label, cx);
            if class.is_class() && overdue_at.is_none() {
                let trial = Trial { class, pod, strategy, label: label.clone() };
                self.begin_trial(&uid, trial, place, cx);
            }
        }
        self.in_flight.record(event);
    }

    /// Returns the pod of a class to try, or `None` if one is about to be tried already.
    fn first_of_class<'a>(
        &self,
        class: &Group,
        pods: impl Iterator<Item = (&'a Slot, &'a QueuedPod)>,
        now: Time,
    ) -> Option<(&'a Slot, &'a QueuedPod)> {
        let backoff = self.config.backoff();
        let first = UnschedulablePods::first_to_try(pods, backoff, now)?;
        let Some(trial) = self.trials.of(class) else { return Some(first) };
        // The pod that is tried may back off while this one does not any more.
        let tried_later = matches!(self.backoff.get(&trial.pod), Some((Place::Backoff, _)));
        let backs_off = is_backing_off(backoff.expiration(first.1), now);
        (tried_later && !backs_off).then_some(first)
    }

    /// Notes that a pod is tried for its class. If it has landed elsewhere than in the active queue or in
    /// backoff, the next one is tried.
    fn begin_trial(&mut self, uid: &Uid, trial: Trial, place: Place, cx: &mut Context<'_>) {
        if self.unschedulable.pods_of(&trial.class).is_none() {
            return;
        }
        self.trials.begin(uid, trial);
        if !matches!(place, Place::Active | Place::Backoff) {
            self.try_next_of_class(uid, cx);
        }
    }

    /// Ends the trial of this pod, if there is one, and tries the next pod of its class.
    fn try_next_of_class(&mut self, uid: &Uid, cx: &mut Context<'_>) {
        let mut ended = self.trials.end(uid);
        while let Some(Trial { class, strategy, label, .. }) = ended.take() {
            let Some(pods) = self.unschedulable.pods_of(&class) else { return };
            let backoff = self.config.backoff();
            let next = UnschedulablePods::first_to_try(pods.iter(), backoff, cx.handle.now);
            let pod = next.expect("no group is empty").1.pod.key.clone();
            let queued = self.unschedulable.remove(&pod).expect("it was there just now");
            let uid = queued.pod.uid.clone();
            let place = self.requeue(queued, strategy, &label, cx);
            let trial = Trial { class, pod, strategy, label };
            match place {
                Place::Active | Place::Backoff => self.trials.begin(&uid, trial),
                _ => ended = Some(trial),
            }
        }
    }

    /// Returns the strategy for a pod whose attempt failed: that of the events during its attempt
    /// (`determineSchedulingHintForInFlightPod`).
    fn strategy_of_in_flight_pod(&self, pod: &QueuedPod, cx: &mut Context<'_>) -> QueueingStrategy {
        if pod.has_no_rejector() {
            return QueueingStrategy::AfterBackoff;
        }
        let Some(events) = self.in_flight.since(&pod.pod.uid) else {
            return QueueingStrategy::AfterBackoff;
        };
        let registered = hint::registered_by_rejectors(pod, cx.profiles);
        let mut best = QueueingStrategy::Skip;
        for event in events {
            match hint::queueing_strategy(pod, event, registered.iter().copied(), cx) {
                QueueingStrategy::Skip => {}
                QueueingStrategy::AfterBackoff if !pod.pending_plugins.is_empty() => {
                    best = QueueingStrategy::AfterBackoff;
                }
                decided => return decided,
            }
        }
        best
    }

    /// Queues a pod in the place that the strategy selects (`requeuePodWithQueueingStrategy`).
    fn requeue(
        &mut self,
        mut pod: QueuedPod,
        strategy: QueueingStrategy,
        label: &str,
        cx: &mut Context<'_>,
    ) -> Place {
        pod.flushed = label == label::UNSCHEDULABLE_TIMEOUT;
        match strategy {
            QueueingStrategy::Skip => self.add_to_unschedulable_pods(pod, label, cx),
            QueueingStrategy::AfterBackoff if self.is_backing_off(&mut pod, cx.handle.now) => {
                self.move_to_backoff_queue(pod, label, cx)
            }
            QueueingStrategy::AfterBackoff | QueueingStrategy::Immediately => {
                self.move_to_active_queue(pod, label, cx)
            }
        }
    }

    /// Whether the pod backs off. Computes the end of the backoff once per failure.
    fn is_backing_off(&self, pod: &mut QueuedPod, now: Time) -> bool {
        if pod.backoff_expiration.is_none() {
            pod.backoff_expiration = self.config.backoff().expiration(pod);
        }
        is_backing_off(pod.backoff_expiration, now)
    }

    /// Makes a pod active, unless a PreEnqueue plugin gates it (`moveToActiveQ`).
    fn move_to_active_queue(
        &mut self,
        mut pod: QueuedPod,
        label: &str,
        cx: &mut Context<'_>,
    ) -> Place {
        if pre_enqueue::passes(&mut pod, cx) {
            self.push_active(pod, label, cx)
        } else {
            self.add_to_unschedulable_pods(pod, label, cx)
        }
    }

    /// Makes a pod active that has passed PreEnqueue.
    fn push_active(&mut self, mut pod: QueuedPod, label: &str, cx: &mut Context<'_>) -> Place {
        pod.initial_attempt.get_or_insert(cx.handle.now);
        pod.times.enter(Some(Waiting::Active), cx.handle.now);
        self.active.push(pod, &mut SortPlugin::of(cx));
        count_incoming(Place::Active, label, cx)
    }

    /// Puts a pod into backoff, unless a PreEnqueue plugin gates it (`moveToBackoffQ`).
    fn move_to_backoff_queue(
        &mut self,
        mut pod: QueuedPod,
        label: &str,
        cx: &mut Context<'_>,
    ) -> Place {
        if pre_enqueue::passes(&mut pod, cx) {
            pod.times.enter(Some(Waiting::Backoff), cx.handle.now);
            let place = self.backoff.push(pod, &mut SortPlugin::of(cx));
            self.pace.refuse_until(None);
            count_incoming(place, label, cx)
        } else {
            self.add_to_unschedulable_pods(pod, label, cx)
        }
    }

    fn add_to_unschedulable_pods(
        &mut self,
        mut pod: QueuedPod,
        label: &str,
        cx: &mut Context<'_>,
    ) -> Place {
        let part =
            if pod.gating_plugin.is_some() { Waiting::Gated } else { Waiting::Unschedulable };
        pod.times.enter(Some(part), cx.handle.now);
        let place = self.unschedulable.insert(pod);
        count_incoming(place, label, cx)
    }
}

/// Counts a pod that has entered `place`.
fn count_incoming(place: Place, event: &str, cx: &mut Context<'_>) -> Place {
    cx.probe.count(Count::Incoming { queue: place.queue(), event });
    place
}

/// Records a failed attempt: an error if no plugin rejected the pod, otherwise a rejection.
fn record_failure(pod: &mut QueuedPod, now: Time) {
    if pod.has_no_rejector() {
        pod.consecutive_errors = pod.consecutive_errors.saturating_add(1);
    } else {
        pod.unschedulable_count = pod.unschedulable_count.saturating_add(1);
        pod.consecutive_errors = 0;
    }
    pod.timestamp = now;
    pod.backoff_expiration = None;
}

/// Returns the events of a pod's own update.
fn own_update_events(old: &Arc<Pod>, new: &Arc<Pod>) -> impl Iterator<Item = ObjectEvent> {
    let (old, new) = (old.clone(), new.clone());
    pod_updates(&old, &new).into_iter().map(move |action| ObjectEvent {
        event: ClusterEvent::new(EventResource::UnschedulablePod, action),
        objects: Objects::Pod(Some(old.clone()), Some(new.clone())),
    })
}

/// Returns the last multiple of [`FLUSH_INTERVAL`] that is not after `time`.
fn floor_to_flush_interval(time: Time) -> Time {
    let interval = FLUSH_INTERVAL.as_nanos() as i64;
    Time::from_nanos(time.as_nanos().div_euclid(interval).saturating_mul(interval))
}

#[cfg(test)]
pub(crate) mod tests;
