//! The state of the scheduler: what it knows of the cluster, and its queue.
//!
//! `World` owns the `View`, the queue and the change log. Every mutation is a method of `World`, so
//! the log is complete. Scheduling cycles and plugins read the `View`.

mod change_log;
mod changed;
mod event_handlers;
mod journal;
pub(crate) mod tentative;
mod view;
mod waiting_pods;

use std::sync::Arc;
use std::time::Duration;

use framework::{
    ActionType, NominatingInfo, Pod, PodKey, QueuedPod, Time, Uid, WaitingPod, WallOffset,
};

pub(crate) use self::change_log::LogReader;
pub use self::change_log::{ChangeLog, LogEntry, LoggedChange};
pub(crate) use self::changed::Changed;
use self::event_handlers::nominated_to;
pub(crate) use self::view::View;
pub(crate) use self::waiting_pods::ExpiredWait;

use self::journal::Undoable;
use crate::cache::CacheError;
use crate::context::Context;
use crate::effect::EffectId;
use crate::object_event::ObjectEvent;
use crate::plugin_call::call_beside;
use crate::profile::{Profile, Profiles};
use crate::queue::{self, Queue, QueueConfig};

/// Cache, queue, nominations, pending and waiting pods, and the log of what changed.
#[derive(Debug)]
pub(crate) struct World {
    view: View,
    queue: Queue,
    log: ChangeLog,
    /// The changes since the start of the outermost savepoint; empty outside of savepoints.
    journal: Vec<Undoable>,
}

impl World {
    pub(crate) fn new(profiles: Profiles, queue: QueueConfig) -> Self {
        let (view, queue) = (View::new(profiles), Queue::new(queue));
        Self { view, queue, log: ChangeLog::default(), journal: Vec::new() }
    }

    pub(crate) const fn view(&self) -> &View {
        &self.view
    }

    pub(crate) const fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) const fn log(&self) -> &ChangeLog {
        &self.log
    }

    /// Returns the queue, and what the queue needs from the rest of the world.
    fn queue_and_context<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
    ) -> (&'a mut Queue, queue::Context<'a>) {
        let Self { queue, view, .. } = self;
        let handle = view.handle(cx.now);
        (queue, queue::Context { profiles: &view.profiles, handle, probe: &mut *cx.probe })
    }
}

/// Placed pods.
impl World {
    /// Places a pod on a node before the API server knows, and ends its nomination.
    pub(crate) fn assume(&mut self, pod: &Pod, node: &Arc<str>) -> Result<Arc<Pod>, CacheError> {
        let assumed = self.view.cache.assume(pod, node)?;
        self.log_placed(&assumed.uid);
        self.view.nominator.delete(&assumed.uid);
        Ok(assumed)
    }

    /// Removes an assumed pod from its node. Ignores a pod that is gone, or that the watch shows on a
    /// node.
    pub(crate) fn forget(&mut self, uid: &Uid) {
        if self.view.cache.is_assumed(uid) {
            self.take_off(uid);
        }
    }

    fn take_off(&mut self, uid: &Uid) -> Option<Arc<Pod>> {
        let (pod, placed) = self.view.cache.remove(uid)?;
        self.log.push(placed.node, LoggedChange::PodGone(placed.ix));
        Some(pod)
    }

    fn log_placed(&mut self, uid: &Uid) {
        if let Some(placed) = self.view.cache.placement(uid) {
            self.log.push(placed.node, LoggedChange::PodPlaced(placed.ix));
        }
    }

    /// Registers the queries whose answers the plugins of the profile read in the next decision about the pod. A panic is
    /// counted; the plugin panics again at its extension point, which fails the attempt.
    pub(crate) fn register_queries(&mut self, pod: &Pod, profile: &Profile, cx: &mut Context<'_>) {
        for plugin in &profile.standing_queries {
            let handle = self.view.handle(cx.now);
            let queries = call_beside("StandingQueries", &plugin.name, cx.probe, || {
                plugin.plugin.queries(pod, &handle)
            });
            queries.iter().flatten().for_each(|query| self.view.cache.register_query(query));
        }
    }

    /// Brings the node order of sampled searches up to date.
    pub(crate) fn refresh_node_order(&mut self) {
        self.view.cache.refresh_order();
    }
}

/// Pods that wait in Permit.
impl World {
    pub(crate) fn wait_on_permit(&mut self, pod: WaitingPod) {
        self.view.waiting.insert(pod);
    }

    /// Ends the wait of one plugin. Returns the pod once no plugin is left to wait for.
    pub(crate) fn allow(&mut self, uid: &Uid, plugin: &str) -> Option<WaitingPod> {
        self.view.waiting.allow(uid, &plugin.into())
    }

    pub(crate) fn remove_waiting(&mut self, uid: &Uid) -> Option<WaitingPod> {
        self.view.waiting.remove(uid)
    }

    /// Returns the earliest Permit timeout that has passed.
    pub(crate) fn first_expired_wait(&self, cx: &Context<'_>) -> Option<ExpiredWait> {
        self.view.waiting.first_expired(cx.now)
    }

    pub(crate) fn next_permit_deadline(&self) -> Option<Time> {
        self.view.waiting.next_deadline()
    }
}

/// Nominations and preemptions.
impl World {
    /// Ends the nomination of a pod, and takes in that its status is to be cleared by the effect.
    pub(crate) fn clear_nomination(&mut self, pod: &Pod, effect: Option<EffectId>) {
        self.view.nominator.delete(&pod.uid);
        self.nomination_written(pod, "".into(), effect);
    }

    /// Takes in that a node was requested to be written into the status of a pod, or an empty name to clear it.
    /// Ignores a pod that is no longer pending.
    pub(crate) fn nomination_written(
        &mut self,
        pod: &Pod,
        node: Arc<str>,
        effect: Option<EffectId>,
    ) {
        let known = self.view.pending.get(&pod.key).filter(|known| known.uid == pod.uid);
        if let Some(known) = known {
            self.view.nominator.write(known, node, effect);
        }
    }

    /// Takes in the version of its pod in the answer to a write of a nomination. If the watch has shown that version
    /// already, or a later one, the status that it shows decides from now on.
    pub(crate) fn nomination_answered(
        &mut self,
        effect: EffectId,
        version: u64,
        cx: &mut Context<'_>,
    ) {
        let Some((key, uid)) = self.view.nominator.written_as(effect, version) else { return };
        let known = self.view.pending.get(&key).filter(|known| known.uid == uid);
        let Some(known) = known.filter(|known| known.resource_version >= version).cloned() else {
            return;
        };
        self.view.nominator.see(&known);
        if self.view.nominator.has_seen_all(&uid) && self.queue.get(&key).is_some() {
            self.follow_status(known, cx);
        }
    }

    /// Nominates a queued pod to the node that its status names.
    fn follow_status(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) {
        let before = self.view.nominator.node_of(&pod.uid).cloned();
        if before.as_ref() == pod.nominated_node_name() {
            return;
        }
        self.view.nominator.add(pod.clone(), &NominatingInfo::Noop);
        if let Some(before) = before {
            self.move_after_nomination(nominated_to(pod, before), cx);
        }
    }

    /// Sets the offset of the wall clock.
    pub(crate) const fn set_wall_offset(&mut self, offset: WallOffset) {
        self.view.wall_offset = offset;
    }

    /// Sets the longest pause of preemption after preemptions that led to no binding.
    pub(crate) const fn set_longest_preemption_pause(&mut self, longest: Duration) {
        self.view.preemptions.fruitless_mut().set_longest_pause(longest);
    }

    /// Notes that pods of the node are being evicted for a preemptor.
    pub(crate) fn begin_preemption(&mut self, preemptor: &Pod, node: &Arc<str>, now: Time) {
        self.view.preemptions.begin(&preemptor.uid);
        self.view.preemptions.fruitless_mut().begin(preemptor, node, now);
    }

    /// Notes that the evictions for a preemptor are over, so that it may be tried again.
    pub(crate) fn end_evictions(&mut self, preemptor: &Uid) {
        self.view.preemptions.end(preemptor);
    }

    /// Notes that no pod was evicted for a preemptor after all.
    pub(crate) fn call_off_preemption(&mut self, preemptor: &Uid) {
        self.view.preemptions.fruitless_mut().call_off(preemptor);
    }

    /// Notes that a preemptor is bound to a node, or gone.
    pub(crate) fn preemptor_left(&mut self, preemptor: &Uid, bound_to: Option<&str>, now: Time) {
        self.view.preemptions.fruitless_mut().end(preemptor, bound_to, now);
    }

    /// Counts the eviction of `victim` against its PodDisruptionBudgets.
    pub(crate) fn begin_eviction(&mut self, victim: &Pod) {
        self.view.cache.begin_eviction(victim);
    }

    /// Stops counting the eviction of a pod that is not evicted after all.
    pub(crate) fn cancel_eviction(&mut self, victim: &Uid) {
        self.view.cache.cancel_eviction(victim);
    }
}

/// The queue.
impl World {
    /// Removes and returns the next pod of the queue, which is then in flight.
    pub(crate) fn pop(&mut self, cx: &mut Context<'_>) -> Option<QueuedPod> {
        let (queue, mut cx) = self.queue_and_context(cx);
        queue.pop(&mut cx)
    }

    /// Ends the flight of a pod: the queue keeps no more events for it.
    pub(crate) fn done(&mut self, uid: &Uid) {
        self.queue.done(uid);
    }

    /// Notes that an attempt is over; see [`Queue::attempt_ended`].
    pub(crate) fn attempt_ended(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        let (queue, mut cx) = self.queue_and_context(cx);
        queue.attempt_ended(pod, &mut cx);
    }

    /// Requeues a pod whose attempt failed, and nominates it as the attempt asks. Returns the pod as
    /// last seen, or `None` if another pod of the same name has replaced it.
    pub(crate) fn requeue_failed(
        &mut self,
        mut queued: QueuedPod,
        nominating: &NominatingInfo,
        cx: &mut Context<'_>,
    ) -> Option<Arc<Pod>> {
        let Some(known) = self.view.pending.get(&queued.pod.key).cloned() else {
            self.queue.done(&queued.pod.uid);
            return Some(queued.pod);
        };
        if known.uid != queued.pod.uid {
            self.queue.done(&queued.pod.uid);
            return None;
        }
        queued.set_pod(known.clone());
        let (queue, mut queue_cx) = self.queue_and_context(cx);
        queue.add_unschedulable_if_not_present(queued, &mut queue_cx);
        self.view.nominator.add(known.clone(), nominating);
        Some(known)
    }

    /// Requeues a pod whose decision rests on an outdated specification, unless it is gone or replaced.
    pub(crate) fn requeue_outdated(&mut self, mut queued: QueuedPod, cx: &mut Context<'_>) {
        let known = self.view.pending.get(&queued.pod.key);
        match known.filter(|known| known.uid == queued.pod.uid) {
            Some(known) => {
                queued.set_pod(known.clone());
                let (queue, mut queue_cx) = self.queue_and_context(cx);
                queue.add_outdated_if_not_present(queued, &mut queue_cx);
            }
            None => self.queue.done(&queued.pod.uid),
        }
    }

    /// Moves pods to the active queue, unless a PreEnqueue plugin gates them.
    pub(crate) fn activate(&mut self, pods: &[PodKey], cx: &mut Context<'_>) {
        let (queue, mut cx) = self.queue_and_context(cx);
        queue.activate(pods, &mut cx);
    }

    /// Requeues an unschedulable pod as after an error.
    pub(crate) fn retry_after_error(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        let (queue, mut cx) = self.queue_and_context(cx);
        queue.retry_after_error(pod, &mut cx);
    }

    /// Requeues the pending pod of this name and UID as after an error, if it is unschedulable.
    pub(crate) fn retry_pending_after_error(
        &mut self,
        pod: &PodKey,
        uid: &Uid,
        cx: &mut Context<'_>,
    ) {
        let known = self.view.pending.get(pod).filter(|known| known.uid == *uid).cloned();
        if let Some(known) = known {
            self.retry_after_error(&known, cx);
        }
    }

    /// Moves the pods whose backoff is over, and the pods that have been unschedulable for too long.
    pub(crate) fn flush_queue(&mut self, cx: &mut Context<'_>) {
        let (queue, mut cx) = self.queue_and_context(cx);
        queue.tick(&mut cx);
    }

    /// Moves the unschedulable pods that an event may help.
    pub(crate) fn move_pods(&mut self, event: &ObjectEvent, cx: &mut Context<'_>) {
        self.move_pods_if(event, &|_| true, cx);
    }

    fn move_pods_if(
        &mut self,
        event: &ObjectEvent,
        may_move: &dyn Fn(&Pod) -> bool,
        cx: &mut Context<'_>,
    ) {
        let (queue, mut queue_cx) = self.queue_and_context(cx);
        queue.move_all_to_active_or_backoff_queue(event, may_move, &mut queue_cx);
    }

    /// Moves the pods that may use the room of a forgotten pod. A pod that was deleted or bound elsewhere
    /// has left the node already, but its Unreserve may still have freed something.
    pub(crate) fn room_freed(&mut self, pod: &Arc<Pod>, cx: &mut Context<'_>) {
        let event = ObjectEvent::assigned_pod(ActionType::DELETE, Some(pod.clone()), None);
        self.move_pods(&event, cx);
    }

    /// Moves the unschedulable pods that may fit into the room that `pod` has left, except `pod` itself.
    pub(crate) fn move_others(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) {
        let uid = pod.uid.clone();
        let event = ObjectEvent::assigned_pod(ActionType::DELETE, Some(pod), None);
        self.move_pods_if(&event, &|other| other.uid != uid, cx);
    }

    /// Moves the unschedulable pods of at most the priority of `pod`, whose nomination has ended.
    fn move_after_nomination(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) {
        let priority = pod.priority();
        let event = ObjectEvent::assigned_pod(ActionType::DELETE, Some(pod), None);
        self.move_pods_if(&event, &|other| other.priority() <= priority, cx);
    }
}
