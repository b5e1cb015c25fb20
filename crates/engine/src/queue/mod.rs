//! The scheduling queue: entities that wait for their next attempt (`PriorityQueue` in
//! kube-scheduler). A pod that is scheduled alone is an entity of size one, a PodGroup is one with
//! the members that wait, see `groups`.
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
//! An entity is in one [`Place`] at a time, or in flight.
//!
//! kube-scheduler moves every entity that an event may help. Here an event moves one of the
//! unschedulable pods that share their answer, see `trials`. Entities popped before the end of
//! their backoff are paced, see `pace`. If an attempt of either kind repeats the rejection before,
//! it does not count: it was a *look*, see [`Queue::put_back_if_not_present`].
//!
//! * *active* (`activeQ`): entities leave in the order of the QueueSort plugin, unless a plugin
//!   lets quotas below their guarantee go first, see `active`.
//! * *backoff* (`backoffQ`): a rejected entity may leave early, when none is active. One that
//!   failed with an error stays until its backoff is over.
//! * *unschedulable* (`unschedulablePods`): an entity waits for an event that one of its rejectors
//!   registered and whose queueing hint returns Queue.
//! * *gated* (also `unschedulablePods`): an entity waits for an event of the PreEnqueue plugin that
//!   gates it.
//!
//! The queue has no lock and no clock: the time is an argument. Equal histories give equal orders.

mod active;
mod backoff;
mod groups;
mod heap;
mod hint;
mod in_flight;
mod order;
mod pace;
mod place;
mod plugins;
mod pre_enqueue;
mod trials;
mod unschedulable;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use framework::quota::QuotaIx;
use framework::{
    Cluster, ClusterEvent, EntityKey, EventResource, History, PluginName, Pod, PodGroupKey, PodKey,
    QueuedEntity, QueuedPod, Template, Time, Uid, Waiting,
};

use crate::classify::pod_updates;
use crate::object_event::{ObjectEvent, Objects};
use crate::ports::Count;

use active::ActiveQueue;
use backoff::BackoffQueue;
use groups::Members;
use hint::{QueueingStrategy, Registrations};
use in_flight::InFlight;
use order::SortPlugin;
use pace::{Occasion, Pace};
use trials::{Trial, Trials};
use unschedulable::{Replaced, Slot, UnschedulableEntities, WaitKey};

pub use backoff::{Backoff, is_backing_off};
pub use place::Place;
pub use plugins::Plugins;

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
    /// The groups among them.
    pub groups: QueuedGroupCounts,
}

/// Numbers of groups by place, and of their pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueuedGroupCounts {
    /// Ready for an attempt.
    pub active: GroupCount,
    /// Backing off.
    pub backoff: GroupCount,
    /// Waiting for an event after a rejection.
    pub unschedulable: GroupCount,
    /// Gated by a PreEnqueue plugin.
    pub gated: GroupCount,
}

/// A number of groups, and of the pods in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupCount {
    /// Groups.
    pub groups: usize,
    /// Their pods.
    pub pods: usize,
}

/// The scheduling queue. The [module](self) describes its parts.
#[derive(Debug)]
pub struct Queue {
    config: QueueConfig,
    active: ActiveQueue,
    backoff: BackoffQueue,
    unschedulable: UnschedulableEntities,
    trials: Trials,
    in_flight: InFlight,
    pace: Pace,
    members: Members,
    /// The last multiple of [`FLUSH_INTERVAL`] at which leftover entities were flushed.
    last_leftover_flush: Option<Time>,
}

/// Updates of pods and cluster events.
impl Queue {
    /// Returns an empty queue.
    pub fn new(config: QueueConfig) -> Self {
        Self {
            config,
            active: ActiveQueue::default(),
            backoff: BackoffQueue::default(),
            unschedulable: UnschedulableEntities::default(),
            trials: Trials::default(),
            in_flight: InFlight::default(),
            pace: Pace::default(),
            members: Members::default(),
            last_leftover_flush: None,
        }
    }

    /// Adds a pod that has no node yet. It replaces a pod of the same name.
    pub fn add(&mut self, pod: Arc<Pod>, plugins: &mut Plugins<'_>) -> Updated {
        self.remove_pod(&pod.key, plugins);
        self.enter(pod, label::ADD, plugins)
    }

    /// Updates a pod that has no node yet; adds it if it is neither queued nor in flight.
    ///
    /// The new object replaces the old one. For an unschedulable or gated pod the update is also an
    /// event that may help. For a pod in flight that event is kept until its attempt fails. If the
    /// UID differs, the old pod is deleted and the new pod added.
    pub fn update(&mut self, old: &Arc<Pod>, new: Arc<Pod>, plugins: &mut Plugins<'_>) -> Updated {
        if old.uid != new.uid || self.moves_between_groups(&new, plugins) {
            self.delete(old, plugins);
            return self.add(new, plugins);
        }
        let entity = self.entity_of(&new.key);
        if self.in_flight.contains(&new.uid) {
            for event in own_update_events(old, &new) {
                self.in_flight.record(&event);
            }
        } else if let Some(replaced) = self.unschedulable.update(&entity, &new) {
            self.requeue_updated(&entity, old, &new, plugins);
            if let Replaced::LeavesAnswer(waiting) = replaced {
                self.requeue_leaver(&waiting, &entity, plugins);
            }
        } else if !self.update_active_or_backoff(&entity, &new, plugins) {
            return self.enter(new, label::UPDATE, plugins);
        } else if Template::of(old) != Template::of(&new) {
            self.try_next(&new.uid, plugins);
        }
        Updated::Known
    }

    /// Removes a pod that is gone or has a node now. Another pod of the same name stays. An attempt
    /// in flight goes on.
    pub fn delete(&mut self, pod: &Pod, plugins: &mut Plugins<'_>) {
        if self.get(&pod.key).is_some_and(|(_, queued)| queued.pod.uid == pod.uid) {
            self.remove_pod(&pod.key, plugins);
        }
        self.members.forget(pod);
    }

    /// Moves the unschedulable entities that the event may help: to backoff while they back off,
    /// otherwise to the active queue (`MoveAllToActiveOrBackoffQueue`). The event is kept for the
    /// entities in flight, whose hints are asked when their attempt fails.
    ///
    /// Only entities with a pod for which `may_move` (`preCheck`) returns true are moved. It does
    /// not apply to entities in flight.
    pub fn move_all_to_active_or_backoff_queue(
        &mut self,
        event: &ObjectEvent,
        may_move: &dyn Fn(&Pod) -> bool,
        plugins: &mut Plugins<'_>,
    ) {
        if !hint::is_registered(plugins.profiles, &event.event) {
            return;
        }
        if self.unschedulable.is_empty() {
            return self.in_flight.record(event);
        }
        let registrations = Registrations::of(plugins.profiles, &event.event);
        self.move_entities(event, &registrations, None, may_move, plugins);
    }

    /// Moves the entities of pods to the active queue, also if they back off or wait for an event
    /// (`Activate`). An entity that a PreEnqueue plugin gates stays gated. One in flight is
    /// requeued if its attempt fails, and does not become unschedulable.
    pub fn activate(&mut self, pods: &[PodKey], plugins: &mut Plugins<'_>) {
        for pod in pods {
            let key = self.entity_of(pod);
            if let Some(entity) = self.unschedulable.remove(&key) {
                self.move_to_active_queue(entity, label::FORCE_ACTIVATE, plugins);
            } else if let Some(entity) = self.backoff.remove(&key, &mut SortPlugin::of(plugins)) {
                self.push_active(entity, label::FORCE_ACTIVATE, plugins);
            } else if self.active.get(&key).is_none() {
                self.activate_in_flight(&key);
            }
        }
    }

    /// Requeues an unschedulable pod as after an error, because the preemption for it has failed.
    /// Leaves the entry alone if the pod moved or was replaced by another pod of the same name.
    ///
    /// The number of rejections counts as the number of errors, so the backoff grows with every
    /// failed preemption.
    pub fn retry_after_error(&mut self, pod: &Pod, plugins: &mut Plugins<'_>) {
        let key = self.entity_of(&pod.key);
        let is_known =
            |entity: &QueuedEntity| entity.pods().iter().any(|own| own.pod.uid == pod.uid);
        if !self.unschedulable.get(&key).is_some_and(|(_, entity)| is_known(entity)) {
            return;
        }
        let mut entity = self.unschedulable.remove(&key).expect("it was there just now");
        let history = entity.history_mut();
        history.unschedulable_plugins.clear();
        history.pending_plugins.clear();
        history.consecutive_errors = history.unschedulable_count.saturating_sub(1);
        record_failure(history, plugins.now());
        self.requeue(entity, QueueingStrategy::AfterBackoff, label::ATTEMPT_FAILED, plugins);
    }

    fn activate_in_flight(&mut self, key: &EntityKey) {
        for pod in self.in_flight.named(key).to_vec() {
            let event = ClusterEvent::wildcard(label::FORCE_ACTIVATE);
            let objects = Objects::Pod(None, Some(pod));
            self.in_flight.record(&ObjectEvent { event, objects });
        }
    }
}

/// Attempts.
impl Queue {
    /// Whether [`pop`](Self::pop) may return an entity at `now`.
    pub fn has_ready(&self, now: Time) -> bool {
        let is_refused = self.pace.refused_until().is_some_and(|until| now < until);
        self.has_active() || self.backoff.has_rejected() && !is_refused
    }

    /// Whether [`pop`](Self::pop) returns an entity that does not back off.
    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Removes and returns the next entity: the first active one, or else the first rejected one in
    /// backoff, unless such early pops of its kind were in vain too often. The entity is then in
    /// flight and its number of attempts grows by one. Its rejectors are those of the last attempt.
    ///
    /// Drops an entity whose earlier attempt is still in flight; that attempt requeues it if it
    /// fails.
    pub fn pop(&mut self, plugins: &mut Plugins<'_>) -> Option<QueuedEntity> {
        loop {
            let mut entity = self.take_next(plugins)?;
            if self.in_flight.start(&entity) {
                entity.begin_attempt(plugins.now());
                return Some(entity);
            }
            self.try_next(entity.uid(), plugins);
        }
    }

    /// Notes that the pods of these quotas use more or less than before, which may change the order
    /// of the active queue.
    pub fn usage_changed(&mut self, quotas: &BTreeSet<QuotaIx>, plugins: &mut Plugins<'_>) {
        self.active.usage_changed(quotas, &mut SortPlugin::of(plugins));
    }

    /// Ends the flight of an entity (`Done`): its attempt is over, or no event can help it any
    /// more. Ignores an entity that is not in flight.
    pub fn done(&mut self, uid: &Uid) {
        self.in_flight.done(uid);
    }

    /// Requeues an entity whose attempt failed, and ends its flight. Its history names the plugins
    /// that rejected it, or none if the attempt ended with an error.
    ///
    /// The entity becomes unschedulable, unless an event during the attempt may help. After an
    /// error, or if it was not in flight, it backs off. It is dropped if an entity of its key is
    /// queued already.
    pub fn add_unschedulable_if_not_present(
        &mut self,
        mut entity: QueuedEntity,
        plugins: &mut Plugins<'_>,
    ) {
        self.pace.failed(entity.uid(), plugins.now());
        record_failure(entity.history_mut(), plugins.now());
        self.requeue_popped(entity, label::ATTEMPT_FAILED, plugins);
    }

    /// Whether a rejection of an entity, whose attempt is under way, may be left out of account: it
    /// was popped before the end of its backoff or is tried for others, and the pace allows it. An
    /// attempt counts at least once in the longest wait for an event.
    pub fn may_look(&self, entity: &Uid, history: &History, now: Time) -> bool {
        now.since(history.timestamp) <= self.config.max_in_unschedulable
            && self.pace.may_look(entity, now)
    }

    /// Requeues an entity whose attempt was a look, and ends its flight: its history names the
    /// plugins that rejected it again.
    ///
    /// The number of attempts, the backoff and the start of its wait are those before the attempt.
    /// Apart from that it goes where it would go after a rejection.
    pub fn put_back_if_not_present(&mut self, mut entity: QueuedEntity, plugins: &mut Plugins<'_>) {
        self.pace.looked(entity.uid(), plugins.now());
        let history = entity.history_mut();
        history.attempts = history.attempts.saturating_sub(1);
        self.requeue_popped(entity, label::REPEATED, plugins);
    }

    fn requeue_popped(&mut self, mut entity: QueuedEntity, label: &str, plugins: &mut Plugins<'_>) {
        let (key, uid) = (entity.key(), entity.uid().clone());
        self.absorb_queued(&mut entity, plugins);
        if self.entity(&key).is_none() {
            let strategy = self.strategy_of_in_flight_entity(&entity, plugins);
            // The answer is one for the templates that the pods had when they were popped.
            let popped = self.in_flight.popped(&uid).iter().map(|pod| Template::of(pod));
            let is_as_popped = popped.eq(entity.pods().iter().map(|own| Template::of(&own.pod)));
            let history = entity.history_mut();
            history.template_rejected &= is_as_popped;
            let answers_for_others = history.template_rejected;
            let place = self.requeue(entity, strategy, label, plugins);
            if answers_for_others
                && place == Place::Unschedulable
                && let Some(trial) = self.trials.end(&uid)
            {
                self.unschedulable.reject_alike(&trial.waiting, &key);
            }
        }
        self.done(&uid);
    }

    /// Requeues an entity that changed during its attempt, and ends its flight. The attempt did not
    /// fail, so the entity is active at once and its backoff does not grow. It is dropped if an
    /// entity of its key is queued already.
    pub fn add_outdated_if_not_present(&mut self, entity: QueuedEntity, plugins: &mut Plugins<'_>) {
        let uid = entity.uid().clone();
        if self.entity(&entity.key()).is_none() {
            self.requeue(entity, QueueingStrategy::Immediately, label::ATTEMPT_FAILED, plugins);
        }
        self.done(&uid);
    }

    /// Notes that the attempt for a pod is over. If it was tried for others, and its attempt said
    /// nothing about them or found a node, the next one is tried.
    pub fn attempt_ended(&mut self, pod: &Pod, plugins: &mut Plugins<'_>) {
        let place = self.get(&pod.key).filter(|(_, queued)| queued.pod.uid == pod.uid);
        let is_tried_again = matches!(place, Some((Place::Active | Place::Backoff, _)));
        if !is_tried_again {
            self.try_next(&pod.uid, plugins);
        }
    }
}

/// Time.
impl Queue {
    /// Moves the entities whose backoff is over, and every 30 s those that have been unschedulable
    /// for too long. Calls may come late or more often than needed.
    pub fn tick(&mut self, plugins: &mut Plugins<'_>) {
        self.pace.tick(plugins.now());
        while let Some(entity) =
            self.backoff.pop_complete(plugins.now(), &mut SortPlugin::of(plugins))
        {
            self.push_active(entity, label::BACKOFF_COMPLETE, plugins);
        }
        self.flush_unschedulable_pods_leftover(plugins);
    }

    /// Returns the time at which [`tick`](Self::tick) next moves an entity, or at which one may be
    /// popped that still backs off.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines =
            [self.backoff.next_complete(), self.next_leftover_flush(), self.pace.refused_until()];
        deadlines.into_iter().flatten().min()
    }

    /// Moves the entities that have waited for an event for too long. Gated ones are asked again
    /// whether they stay gated. The event is also kept for those in flight, even if every entity
    /// that waits is gated and stays.
    ///
    /// Rule gated-pods-are-flushed of docs/differences.toml.
    fn flush_unschedulable_pods_leftover(&mut self, plugins: &mut Plugins<'_>) {
        let flush = floor_to_flush_interval(plugins.now());
        if self.last_leftover_flush >= Some(flush) {
            return;
        }
        self.last_leftover_flush = Some(flush);
        let max_wait = self.config.max_in_unschedulable;
        if !self.unschedulable.any_overdue(flush, max_wait) {
            return;
        }
        let event = ClusterEvent::wildcard(label::UNSCHEDULABLE_TIMEOUT);
        let registrations = Registrations::of(plugins.profiles, &event);
        let event = ObjectEvent { event, objects: Objects::None };
        self.move_entities(&event, &registrations, Some(flush), &|_| true, plugins);
    }

    /// Returns the time of the next flush that looks at an entity.
    fn next_leftover_flush(&self) -> Option<Time> {
        let overdue = self.unschedulable.oldest()? + self.config.max_in_unschedulable;
        let next = floor_to_flush_interval(overdue) + FLUSH_INTERVAL;
        let after_last = self.last_leftover_flush.map(|last| last + FLUSH_INTERVAL);
        Some(after_last.map_or(next, |after_last| next.max(after_last)))
    }
}

/// Accessors.
impl Queue {
    /// Returns the number of pods in each place.
    pub fn counts(&self) -> PendingPodCounts {
        let mut counts = PendingPodCounts {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.unschedulable.rejected_count(),
            gated: self.unschedulable.gated_count(),
            in_flight: self.in_flight.len(),
            groups: QueuedGroupCounts::default(),
        };
        if !self.members.is_empty() {
            self.count_members(&mut counts);
        }
        counts
    }

    /// Counts the groups and their members.
    fn count_members(&self, counts: &mut PendingPodCounts) {
        let groups = &mut counts.groups;
        for (place, entity) in self.entities() {
            let QueuedEntity::Group(group) = entity else { continue };
            let (pods, own) = match place {
                Place::Active => (&mut counts.active, &mut groups.active),
                Place::Backoff | Place::ErrorBackoff => (&mut counts.backoff, &mut groups.backoff),
                Place::Unschedulable => (&mut counts.unschedulable, &mut groups.unschedulable),
                Place::Gated => (&mut counts.gated, &mut groups.gated),
            };
            let members = group.members().len();
            *pods += members - 1;
            own.groups += 1;
            own.pods += members;
        }
    }

    /// Returns the number of pods in groups whose PodGroup does not exist.
    pub fn incomplete_members(&self, cluster: &Cluster) -> usize {
        let groups = self.entities().filter_map(|(_, entity)| match entity {
            QueuedEntity::Group(group) => Some(group),
            QueuedEntity::Pod(_) => None,
        });
        let incomplete = groups.filter(|group| cluster.pod_group(&group.key).is_none());
        incomplete.map(|group| group.members().len()).sum()
    }

    /// Returns the queued pod called `key` and its place. Pods in flight are not queued.
    pub fn get(&self, key: &PodKey) -> Option<(Place, &QueuedPod)> {
        let (place, entity) = self.entity(&self.entity_of(key))?;
        let queued = entity.pods().iter().find(|queued| queued.pod.key == *key)?;
        Some((place, queued))
    }

    /// Returns the queued entity `key` and its place.
    fn entity(&self, key: &EntityKey) -> Option<(Place, &QueuedEntity)> {
        let active = self.active.get(key).map(|entity| (Place::Active, entity));
        active.or_else(|| self.backoff.get(key)).or_else(|| self.unschedulable.get(key))
    }

    /// Returns the plugin that keeps a queued pod, or its group, out of the active queue.
    pub fn gate_of(&self, key: &PodKey) -> Option<&PluginName> {
        let (_, entity) = self.entity(&self.entity_of(key))?;
        entity.history().gating_plugin.as_ref()
    }

    /// Returns the plugin that keeps a queued group out of the active queue.
    pub fn gate_of_group(&self, group: &PodGroupKey) -> Option<&PluginName> {
        let (_, entity) = self.entity(&EntityKey::Group(group.clone()))?;
        entity.history().gating_plugin.as_ref()
    }

    /// Returns the queued members of a group.
    pub fn members_of(&self, group: &PodGroupKey) -> &[QueuedPod] {
        let entity = self.entity(&EntityKey::Group(group.clone()));
        entity.map_or(&[], |(_, entity)| entity.pods())
    }

    /// Returns the entity for whose attempt an unschedulable pod waits, because it decides for
    /// both.
    pub fn trial_for(&self, key: &PodKey) -> Option<&Uid> {
        self.trials.entity_of(self.unschedulable.wait_key(&self.entity_of(key))?)
    }

    /// Returns every queued pod, place by place, but not in the order in which pods are popped.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &QueuedPod)> {
        self.entities()
            .flat_map(|(place, entity)| entity.pods().iter().map(move |pod| (place, pod)))
    }

    /// Returns every queued entity, place by place.
    pub fn entities(&self) -> impl Iterator<Item = (Place, &QueuedEntity)> {
        let active = self.active.iter().map(|entity| (Place::Active, entity));
        active.chain(self.backoff.iter()).chain(self.unschedulable.iter())
    }

    /// Whether the entity is in flight.
    pub fn is_in_flight(&self, uid: &Uid) -> bool {
        self.in_flight.contains(uid)
    }

    /// Returns the events kept for entities in flight, oldest first (`inflight_events`).
    pub fn in_flight_events(&self) -> impl ExactSizeIterator<Item = &ClusterEvent> {
        self.in_flight.events().map(|event| &event.event)
    }
}

/// Moves between places.
impl Queue {
    /// Adds a pod that is not queued.
    fn enter(&mut self, pod: Arc<Pod>, label: &str, plugins: &mut Plugins<'_>) -> Updated {
        let place = match groups::group_of(&pod, plugins) {
            Some(group) => {
                self.add_member(group, QueuedPod::new(pod, plugins.now()), label, plugins)
            }
            None => {
                let entity = QueuedEntity::of_pod(pod, plugins.now());
                self.move_to_active_queue(entity, label, plugins)
            }
        };
        match place {
            Place::Gated => Updated::EnteredGated,
            _ => Updated::EnteredActive,
        }
    }

    fn remove(&mut self, key: &EntityKey, plugins: &mut Plugins<'_>) {
        let sort = &mut SortPlugin::of(plugins);
        let removed = self.active.remove(key, sort).or_else(|| self.backoff.remove(key, sort));
        match removed {
            Some(removed) => self.try_next(removed.uid(), plugins),
            None => drop(self.unschedulable.remove(key)),
        }
    }

    /// Replaces a pod of an entity that is active or in backoff. Returns whether there is one.
    fn update_active_or_backoff(
        &mut self,
        key: &EntityKey,
        pod: &Arc<Pod>,
        plugins: &mut Plugins<'_>,
    ) -> bool {
        let sort = &mut SortPlugin::of(plugins);
        self.active.update(key, sort, |entity| entity.set_pod(pod.clone()))
            || self.backoff.update(key, pod, &mut self.pace, sort)
    }

    /// Requeues an unschedulable or gated entity if the update of its pod may help.
    fn requeue_updated(
        &mut self,
        key: &EntityKey,
        old: &Arc<Pod>,
        new: &Arc<Pod>,
        plugins: &mut Plugins<'_>,
    ) {
        for event in own_update_events(old, new) {
            let Some((_, entity)) = self.unschedulable.get(key) else { return };
            let registered = hint::registered_by_rejectors(entity, plugins.profiles);
            let strategy = hint::queueing_strategy(entity, &event, registered, plugins);
            if strategy != QueueingStrategy::Skip {
                let entity = self.unschedulable.remove(key).expect("it was there just now");
                self.requeue(entity, strategy, &own_update_label(&event.event, plugins), plugins);
            }
        }
    }

    /// Requeues an unschedulable entity that no longer shares its answer, while another is tried
    /// for those that do. Events that moved the other may help this one, too, and the answer no
    /// longer counts for it.
    fn requeue_leaver(&mut self, waiting: &WaitKey, leaver: &EntityKey, plugins: &mut Plugins<'_>) {
        let Some(Trial { strategy, label, .. }) = self.trials.of(waiting) else { return };
        let (strategy, label) = (*strategy, label.clone());
        if let Some(entity) = self.unschedulable.remove(leaver) {
            self.requeue(entity, strategy, &label, plugins);
        }
    }

    fn take_next(&mut self, plugins: &mut Plugins<'_>) -> Option<QueuedEntity> {
        if let Some(entity) = self.active.pop(&mut SortPlugin::of(plugins)) {
            let is_trial = self.trials.contains(entity.uid());
            self.pace.popped(&entity, is_trial.then_some(Occasion::Trial));
            return Some(entity);
        }
        let entity =
            self.backoff.pop(plugins.now(), &mut self.pace, &mut SortPlugin::of(plugins))?;
        Incoming::of(&entity).count(Place::Active, label::POP_FROM_BACKOFF, plugins);
        Some(entity)
    }

    /// Moves the entities that an event may help, longest wait first, and records the event for
    /// those in flight. With `overdue_at`, moves only those that have waited for too long at that
    /// time. Otherwise moves one of those that share their answer.
    ///
    /// Skips entities whose rejectors did not register the event.
    fn move_entities(
        &mut self,
        event: &ObjectEvent,
        registrations: &Registrations<'_>,
        overdue_at: Option<Time>,
        may_move: &dyn Fn(&Pod) -> bool,
        plugins: &mut Plugins<'_>,
    ) {
        let handle = plugins.handle;
        let now = handle.now;
        let max_wait = self.config.max_in_unschedulable;
        let is_due = |slot: &Slot| overdue_at.is_none_or(|now| slot.is_overdue(now, max_wait));
        let may_move =
            |entity: &QueuedEntity| entity.pods().iter().any(|queued| may_move(&queued.pod));
        let mut helped = Vec::new();
        for (waiting, entities) in self.unschedulable.by_wait_key() {
            let due = entities.iter().take_while(|(slot, _)| is_due(slot));
            if overdue_at.is_some() && waiting.is_gated() {
                let strategy = QueueingStrategy::AfterBackoff;
                helped.extend(due.map(|(slot, entity)| (*slot, entity.key(), strategy)));
                continue;
            }
            let Some(registered) = registrations.of_rejectors(waiting) else { continue };
            let due = due.filter(|(_, entity)| may_move(entity));
            // Until its victims end, a gated preemptor stays gated, whatever the event says.
            let stays =
                |entity: &QueuedEntity| waiting.is_gated() && handle.is_preempting(entity.uid());
            let due = due.filter(|(_, entity)| !stays(entity));
            let ask = |(slot, entity): (&Slot, &QueuedEntity)| match hint::queueing_strategy(
                entity,
                event,
                registered.iter().copied(),
                plugins,
            ) {
                QueueingStrategy::Skip => {}
                strategy => helped.push((*slot, entity.key(), strategy)),
            };
            if waiting.shares_answer() && overdue_at.is_none() {
                self.first_to_try(waiting, due, now).into_iter().for_each(ask);
            } else {
                due.for_each(ask);
            }
        }
        helped.sort_unstable_by_key(|(slot, ..)| *slot);
        let label: Arc<str> = event.event.to_string().into();
        for (_, key, strategy) in helped {
            let (waiting, mut entity) =
                self.unschedulable.take(&key).expect("requeueing an entity removes no other");
            let history = entity.history_mut();
            history.gate_flushed =
                overdue_at.filter(|_| waiting.is_gated()).or(history.gate_flushed);
            let uid = entity.uid().clone();
            let place = self.requeue(entity, strategy, &label, plugins);
            if waiting.shares_answer() && overdue_at.is_none() {
                let trial = Trial { waiting, entity: key, strategy, label: label.clone() };
                self.begin_trial(&uid, trial, place, plugins);
            }
        }
        self.in_flight.record(event);
    }

    /// Returns the entity to try for those that share its answer, or `None` if one is about to be
    /// tried already.
    fn first_to_try<'a>(
        &self,
        waiting: &WaitKey,
        entities: impl Iterator<Item = (&'a Slot, &'a QueuedEntity)>,
        now: Time,
    ) -> Option<(&'a Slot, &'a QueuedEntity)> {
        let backoff = self.config.backoff();
        let first = UnschedulableEntities::first_to_try(entities, backoff, now)?;
        let Some(trial) = self.trials.of(waiting) else { return Some(first) };
        // The entity that is tried may back off while this one does not any more.
        let tried_later = matches!(self.backoff.get(&trial.entity), Some((Place::Backoff, _)));
        let backs_off = is_backing_off(backoff.expiration(first.1.history()), now);
        (tried_later && !backs_off).then_some(first)
    }

    /// Notes that an entity is tried for others. If it has landed elsewhere than in the active
    /// queue or in backoff, the next one is tried.
    fn begin_trial(&mut self, uid: &Uid, trial: Trial, place: Place, plugins: &mut Plugins<'_>) {
        if self.unschedulable.entities_of(&trial.waiting).is_none() {
            return;
        }
        self.trials.begin(uid, trial);
        if !matches!(place, Place::Active | Place::Backoff) {
            self.try_next(uid, plugins);
        }
    }

    /// Ends the trial of this entity, if there is one, and tries the next of those it was tried
    /// for.
    fn try_next(&mut self, uid: &Uid, plugins: &mut Plugins<'_>) {
        let mut ended = self.trials.end(uid);
        while let Some(Trial { waiting, strategy, label, .. }) = ended.take() {
            let Some(entities) = self.unschedulable.entities_of(&waiting) else { return };
            let (backoff, now) = (self.config.backoff(), plugins.now());
            let next = UnschedulableEntities::first_to_try(entities.iter(), backoff, now);
            let key = next.expect("no key is without entities").1.key();
            let entity = self.unschedulable.remove(&key).expect("it was there just now");
            let uid = entity.uid().clone();
            let place = self.requeue(entity, strategy, &label, plugins);
            let trial = Trial { waiting, entity: key, strategy, label };
            match place {
                Place::Active | Place::Backoff => self.trials.begin(&uid, trial),
                _ => ended = Some(trial),
            }
        }
    }

    /// Returns the strategy for an entity whose attempt failed: that of the events during its
    /// attempt (`determineSchedulingHintForInFlightPod`).
    fn strategy_of_in_flight_entity(
        &self,
        entity: &QueuedEntity,
        plugins: &mut Plugins<'_>,
    ) -> QueueingStrategy {
        let history = entity.history();
        if history.has_no_rejector() {
            return QueueingStrategy::AfterBackoff;
        }
        let Some(events) = self.in_flight.since(entity.uid()) else {
            return QueueingStrategy::AfterBackoff;
        };
        let registered = hint::registered_by_rejectors(entity, plugins.profiles);
        let mut best = QueueingStrategy::Skip;
        for event in events {
            match hint::queueing_strategy(entity, event, registered.iter().copied(), plugins) {
                QueueingStrategy::Skip => {}
                QueueingStrategy::AfterBackoff if !history.pending_plugins.is_empty() => {
                    best = QueueingStrategy::AfterBackoff;
                }
                decided => return decided,
            }
        }
        best
    }

    /// Queues an entity in the place that the strategy selects (`requeuePodWithQueueingStrategy`).
    fn requeue(
        &mut self,
        mut entity: QueuedEntity,
        strategy: QueueingStrategy,
        label: &str,
        plugins: &mut Plugins<'_>,
    ) -> Place {
        entity.history_mut().flushed = label == label::UNSCHEDULABLE_TIMEOUT;
        match strategy {
            QueueingStrategy::Skip => self.add_to_unschedulable(entity, label, plugins),
            QueueingStrategy::AfterBackoff if self.is_backing_off(&mut entity, plugins.now()) => {
                self.move_to_backoff_queue(entity, label, plugins)
            }
            QueueingStrategy::AfterBackoff | QueueingStrategy::Immediately => {
                self.move_to_active_queue(entity, label, plugins)
            }
        }
    }

    /// Whether the entity backs off. Computes the end of the backoff once per failure.
    fn is_backing_off(&self, entity: &mut QueuedEntity, now: Time) -> bool {
        let history = entity.history_mut();
        if history.backoff_expiration.is_none() {
            history.backoff_expiration = self.config.backoff().expiration(history);
        }
        is_backing_off(history.backoff_expiration, now)
    }

    /// Makes an entity active, unless a PreEnqueue plugin gates it (`moveToActiveQ`).
    fn move_to_active_queue(
        &mut self,
        mut entity: QueuedEntity,
        label: &str,
        plugins: &mut Plugins<'_>,
    ) -> Place {
        if pre_enqueue::passes(&mut entity, plugins) {
            self.push_active(entity, label, plugins)
        } else {
            self.add_to_unschedulable(entity, label, plugins)
        }
    }

    /// Makes an entity active that has passed PreEnqueue.
    fn push_active(
        &mut self,
        mut entity: QueuedEntity,
        label: &str,
        plugins: &mut Plugins<'_>,
    ) -> Place {
        entity.enter(Waiting::Active, plugins.now());
        groups::mark_surplus(&mut entity, plugins);
        let incoming = Incoming::of(&entity);
        self.active.push(entity, &mut SortPlugin::of(plugins));
        incoming.count(Place::Active, label, plugins)
    }

    /// Puts an entity into backoff, unless a PreEnqueue plugin gates it (`moveToBackoffQ`).
    fn move_to_backoff_queue(
        &mut self,
        mut entity: QueuedEntity,
        label: &str,
        plugins: &mut Plugins<'_>,
    ) -> Place {
        if pre_enqueue::passes(&mut entity, plugins) {
            entity.enter(Waiting::Backoff, plugins.now());
            let incoming = Incoming::of(&entity);
            let place = self.backoff.push(entity, &mut SortPlugin::of(plugins));
            self.pace.refuse_until(None);
            incoming.count(place, label, plugins)
        } else {
            self.add_to_unschedulable(entity, label, plugins)
        }
    }

    fn add_to_unschedulable(
        &mut self,
        mut entity: QueuedEntity,
        label: &str,
        plugins: &mut Plugins<'_>,
    ) -> Place {
        let history = entity.history_mut();
        let is_gated = history.gating_plugin.is_some();
        history.flushed &= !is_gated;
        let part = if is_gated { Waiting::Gated } else { Waiting::Unschedulable };
        entity.enter(part, plugins.now());
        let incoming = Incoming::of(&entity);
        let place = self.unschedulable.insert(entity);
        incoming.count(place, label, plugins)
    }
}

/// What enters a place.
#[derive(Clone, Copy)]
enum Incoming {
    Pod,
    /// A group with so many members.
    Group(usize),
}

impl Incoming {
    fn of(entity: &QueuedEntity) -> Self {
        match entity {
            QueuedEntity::Pod(_) => Self::Pod,
            QueuedEntity::Group(group) => Self::Group(group.members().len()),
        }
    }

    /// Counts an entity that has entered `place`. A group that a new member joins is an incoming
    /// entity with one incoming pod.
    fn count(self, place: Place, event: &str, plugins: &mut Plugins<'_>) -> Place {
        let queue = place.queue();
        let label = plugins.profiles.behaviours().pod_event_label(event);
        plugins.probe.count(match self {
            Self::Pod => Count::Incoming { queue, event: &label },
            Self::Group(members) => {
                let pods = if event == label::ADD { 1 } else { members };
                Count::IncomingGroup { queue, event: &label, pods }
            }
        });
        place
    }
}

/// Returns the label of the update of a waiting pod that requeues it.
fn own_update_label(event: &ClusterEvent, plugins: &Plugins<'_>) -> String {
    let label = event.to_string();
    match label.strip_prefix("UnschedulablePod") {
        Some(action) if plugins.profiles.behaviours().pod_event_subtypes => {
            format!("TargetPod{action}")
        }
        _ => label,
    }
}

/// Records a failed attempt: an error if no plugin rejected the entity, otherwise a rejection.
fn record_failure(history: &mut History, now: Time) {
    if history.has_no_rejector() {
        history.consecutive_errors = history.consecutive_errors.saturating_add(1);
    } else {
        history.unschedulable_count = history.unschedulable_count.saturating_add(1);
        history.consecutive_errors = 0;
    }
    history.timestamp = now;
    history.backoff_expiration = None;
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
