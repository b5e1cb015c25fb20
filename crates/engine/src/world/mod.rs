//! The state of the scheduler: what it knows of the cluster, and its queue.
//!
//! Every mutation is a method of `World`, so the log is complete. Scheduling cycles and plugins get
//! the world to read.

mod change_log;
mod changed;
mod cluster;
mod event_handlers;
mod holds;
mod journal;
mod node_tree;
mod placed;
mod pod_groups;
mod quotas;
mod shared;
pub(crate) mod tentative;
mod waiting_pods;

use std::sync::Arc;
use std::time::Duration;

use framework::preemption::PreemptionProgress;
use framework::{
    ActionType, Cluster, Code, Commands, Handle, NominatingInfo, PendingPods, Pod, PodKey, PodPool,
    QueuedEntity, QueuedPod, Status, Time, Uid, WaitingPod, WaitingPods, WallOffset,
};

pub(crate) use self::change_log::LogReader;
pub use self::change_log::{ChangeLog, LogEntry, LoggedChange};
pub use self::changed::Changed;
use self::node_tree::NodeTree;
use self::placed::PlacedPods;
pub(crate) use self::placed::Removed;
pub use self::placed::{AssumeError, Placement};
pub(crate) use self::shared::Shared;
pub use self::waiting_pods::ExpiredWait;
use self::waiting_pods::WaitingPodsMap;

use self::journal::Undoable;
use crate::context::Context;
use crate::effect::EffectId;
use crate::nominator::{Nominator, nominated_to};
use crate::object_event::ObjectEvent;
use crate::plugin_call::call_beside;
use crate::profile::{Profile, Profiles};
use crate::queue::{self, Queue, QueueConfig};

/// Nodes, placed, pending, waiting and nominated pods, the profiles that decide about them, the
/// queue, and the log of what changed.
#[derive(Debug)]
pub struct World {
    profiles: Profiles,
    cluster: Cluster,
    placed: PlacedPods,
    tree: NodeTree,
    pool: PodPool,
    nominator: Nominator,
    /// Pods without a node that a profile is responsible for, as last seen.
    pending: PendingPods,
    waiting: WaitingPodsMap,
    preemptions: PreemptionProgress,
    commands: Commands,
    wall_offset: WallOffset,
    queue: Queue,
    log: ChangeLog,
    /// The changes since the start of the outermost savepoint; empty outside of savepoints.
    journal: Vec<Undoable>,
}

impl World {
    /// Returns a world without objects.
    pub fn new(profiles: Profiles, queue: QueueConfig) -> Self {
        let mut cluster = Cluster::default();
        cluster.set_decoders(profiles.decoders());
        cluster.set_node_kinds(profiles.node_kinds());
        if profiles.schedules_groups() {
            cluster.count_pod_groups();
        }
        if profiles.counts_quotas() {
            cluster.count_quotas();
        }
        Self {
            profiles,
            cluster,
            placed: PlacedPods::default(),
            tree: NodeTree::default(),
            pool: PodPool::default(),
            nominator: Nominator::default(),
            pending: PendingPods::new(),
            waiting: WaitingPodsMap::default(),
            preemptions: PreemptionProgress::default(),
            commands: Commands::default(),
            wall_offset: WallOffset::default(),
            queue: Queue::new(queue),
            log: ChangeLog::default(),
            journal: Vec::new(),
        }
    }

    /// Returns the queue, and the plugins that it asks.
    fn queue_and_plugins<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
    ) -> (&'a mut Queue, queue::Plugins<'a>) {
        let handle = Shared {
            cluster: &self.cluster,
            waiting: self.waiting.pods(),
            pending: &self.pending,
            nominator: &self.nominator,
            preemptions: &self.preemptions,
            now: cx.now,
            wall_offset: self.wall_offset,
        };
        let handle = handle.handle(&self.commands);
        let plugins = queue::Plugins { profiles: &self.profiles, handle, probe: &mut *cx.probe };
        (&mut self.queue, plugins)
    }
}

/// Looking in. Decisions and plugins read the world.
impl World {
    /// Returns the handle that plugins get at `now`.
    pub(crate) fn handle(&self, now: Time) -> Handle<'_> {
        self.shared(now).handle(&self.commands)
    }

    /// Returns the part that plugins read at `now`.
    pub(crate) const fn shared(&self, now: Time) -> Shared<'_> {
        Shared {
            cluster: &self.cluster,
            waiting: self.waiting.pods(),
            pending: &self.pending,
            nominator: &self.nominator,
            preemptions: &self.preemptions,
            now,
            wall_offset: self.wall_offset,
        }
    }

    /// Returns the offset of the wall clock.
    pub const fn wall_offset(&self) -> WallOffset {
        self.wall_offset
    }

    /// Returns the profiles.
    pub const fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Returns the profile that is responsible for `pod`.
    pub(crate) fn profile_of(&self, pod: &Pod) -> Option<&Arc<Profile>> {
        self.profiles.get(&pod.spec.scheduler_name)
    }

    /// Returns the nominations.
    pub const fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    /// Returns the pods without a node that a profile is responsible for, as last seen.
    pub const fn pending(&self) -> &PendingPods {
        &self.pending
    }

    /// Returns the pods that wait in Permit.
    pub const fn waiting_pods(&self) -> &WaitingPods {
        self.waiting.pods()
    }

    /// Returns the preemptions in progress, and the preemptions that led to no binding.
    pub const fn preemptions(&self) -> &PreemptionProgress {
        &self.preemptions
    }

    pub(crate) const fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Returns whether the pod is pending, and not replaced by another pod of the same name.
    pub(crate) fn is_pending(&self, pod: &Pod) -> bool {
        self.pending.get(&pod.key).is_some_and(|known| known.uid == pod.uid)
    }

    /// Returns the scheduling queue.
    pub const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the changes of nodes and placed pods.
    pub const fn log(&self) -> &ChangeLog {
        &self.log
    }
}

/// Placed pods.
impl World {
    /// Places a pod on a node before the API server knows, and ends its nomination. Returns the pod
    /// with its node.
    ///
    /// # Errors
    /// The pod is placed already.
    pub fn assume(&mut self, pod: &Pod, node: &Arc<str>) -> Result<Arc<Pod>, AssumeError> {
        let assumed = self.place_assumed(pod, node)?;
        self.log_placed(&assumed.uid);
        self.nominator.delete(&assumed.uid);
        Ok(assumed)
    }

    /// Removes an assumed pod from its node. Ignores a pod that is gone, or that the watch shows on
    /// a node.
    pub fn forget(&mut self, uid: &Uid) {
        if self.is_assumed(uid) {
            self.take_off(uid);
        }
    }

    fn take_off(&mut self, uid: &Uid) -> Option<Arc<Pod>> {
        let (pod, placed) = self.remove_placed(uid)?;
        self.log.push(placed.node, LoggedChange::PodGone(placed.ix));
        Some(pod)
    }

    fn log_placed(&mut self, uid: &Uid) {
        if let Some(placed) = self.placement(uid) {
            self.log.push(placed.node, LoggedChange::PodPlaced(placed.ix));
        }
    }

    /// Registers the queries whose answers the plugins of the profile read in the next decision
    /// about the pod. A panic is counted; the plugin panics again at its extension point, which
    /// fails the attempt.
    pub(crate) fn register_queries(&mut self, pod: &Pod, profile: &Profile, cx: &mut Context<'_>) {
        for plugin in &profile.standing_queries {
            let handle = self.handle(cx.now);
            let queries = call_beside("StandingQueries", &plugin.name, cx.probe, || {
                plugin.plugin.queries(pod, &handle)
            });
            queries.iter().flatten().for_each(|query| self.cluster.register_query(query));
        }
    }
}

/// Pods that wait in Permit.
impl World {
    /// Lets a pod wait in Permit.
    pub fn wait_on_permit(&mut self, pod: WaitingPod) {
        self.waiting.insert(pod);
    }

    /// Ends the wait of one plugin. Returns the pod once no plugin is left to wait for.
    pub fn allow(&mut self, uid: &Uid, plugin: &str) -> Option<WaitingPod> {
        self.waiting.allow(uid, &plugin.into())
    }

    /// Ends the wait of a pod in Permit.
    pub fn remove_waiting(&mut self, uid: &Uid) -> Option<WaitingPod> {
        self.waiting.remove(uid)
    }

    /// Returns the earliest Permit timeout that has passed.
    pub fn first_expired_wait(&self, cx: &Context<'_>) -> Option<ExpiredWait> {
        self.waiting.first_expired(cx.now)
    }

    /// Returns the earliest Permit timeout.
    pub fn next_permit_deadline(&self) -> Option<Time> {
        self.waiting.next_deadline()
    }
}

/// Nominations and preemptions.
impl World {
    /// Ends the nomination of a pod, and notes that the effect will clear its status.
    pub fn clear_nomination(&mut self, pod: &Pod, effect: Option<EffectId>) {
        self.nominator.delete(&pod.uid);
        self.nomination_written(pod, "".into(), effect);
    }

    /// Notes the request to write a node into the status of a pod, or an empty name to clear it.
    /// Ignores a pod that is not pending any more.
    pub fn nomination_written(&mut self, pod: &Pod, node: Arc<str>, effect: Option<EffectId>) {
        let known = self.pending.get(&pod.key).filter(|known| known.uid == pod.uid);
        if let Some(known) = known {
            self.nominator.write(known, node, effect);
        }
    }

    /// Notes the version of the pod in the answer to a write of a nomination. If the watch has
    /// shown that version already, or a later one, the status that it shows decides from now on.
    pub fn nomination_answered(&mut self, effect: EffectId, version: u64, cx: &mut Context<'_>) {
        let Some((key, uid)) = self.nominator.written_as(effect, version) else { return };
        let known = self.pending.get(&key).filter(|known| known.uid == uid);
        let Some(known) = known.filter(|known| known.resource_version >= version).cloned() else {
            return;
        };
        self.nominator.see(&known);
        if self.nominator.has_seen_all(&uid) && self.queue.get(&key).is_some() {
            self.follow_status(known, cx);
        }
    }

    /// Nominates a queued pod to the node that its status names.
    fn follow_status(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) {
        let before = self.nominator.node_of(&pod.uid).cloned();
        if before.as_ref() == pod.nominated_node_name() {
            return;
        }
        self.nominator.add(pod.clone(), &NominatingInfo::Noop);
        if let Some(before) = before {
            self.move_after_nomination(nominated_to(pod, before), cx);
        }
    }

    /// Sets the offset of the wall clock.
    pub(crate) const fn set_wall_offset(&mut self, offset: WallOffset) {
        self.wall_offset = offset;
    }

    /// Sets the longest pause of preemption after preemptions that led to no binding.
    pub(crate) const fn set_longest_preemption_pause(&mut self, longest: Duration) {
        self.preemptions.fruitless_mut().set_longest_pause(longest);
    }

    /// Notes that pods of the node are being evicted for a preemptor.
    pub fn begin_preemption(&mut self, preemptor: &Pod, node: &Arc<str>, now: Time) {
        self.preemptions.begin(&preemptor.uid);
        self.preemptions.fruitless_mut().begin(preemptor, node, now);
    }

    /// Notes that the evictions for a preemptor are over, so that it may be tried again.
    pub(crate) fn end_evictions(&mut self, preemptor: &Uid) {
        self.preemptions.end(preemptor);
    }

    /// Notes that no pod was evicted for a preemptor after all.
    pub(crate) fn call_off_preemption(&mut self, preemptor: &Uid) {
        self.preemptions.fruitless_mut().call_off(preemptor);
    }

    /// Notes what came of a group: whether it was placed, or a trial of it has found no victims.
    pub(crate) fn note_trial(&mut self, group: &Uid, status: &Status, now: Time) {
        let fruitless = self.preemptions.fruitless_mut();
        match status.code() {
            Code::Success => fruitless.forget_trials(group),
            Code::Unschedulable => fruitless.trial_failed(group, now),
            _ => {}
        }
    }

    /// Notes that a preemptor is bound to a node, or gone.
    pub fn preemptor_left(&mut self, preemptor: &Uid, bound_to: Option<&str>, now: Time) {
        self.preemptions.fruitless_mut().end(preemptor, bound_to, now);
    }
}

/// The queue.
impl World {
    /// Removes and returns the next entity of the queue, which is then in flight.
    pub fn pop(&mut self, cx: &mut Context<'_>) -> Option<QueuedEntity> {
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.pop(&mut plugins)
    }

    /// Ends the flight of a pod: the queue keeps no more events for it.
    pub fn done(&mut self, uid: &Uid) {
        self.queue.done(uid);
    }

    /// Notes that an attempt is over; see [`Queue::attempt_ended`].
    pub fn attempt_ended(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.attempt_ended(pod, &mut plugins);
    }

    /// Requeues a pod whose attempt failed, and nominates it as the attempt asks. If it loses a
    /// nomination, other pods may use the room, whether or not the API server takes the write.
    /// Returns the pod as last seen, or `None` if another pod of the same name has replaced it.
    pub fn requeue_failed(
        &mut self,
        mut queued: QueuedPod,
        nominating: &NominatingInfo,
        cx: &mut Context<'_>,
    ) -> Option<Arc<Pod>> {
        let Some(known) = self.pending.get(&queued.pod.key).cloned() else {
            self.queue.done(&queued.pod.uid);
            return Some(queued.pod);
        };
        if known.uid != queued.pod.uid {
            self.queue.done(&queued.pod.uid);
            return None;
        }
        queued.set_pod(known.clone());
        let group = self.group_of(&known);
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        match group {
            Some(group) => queue.add_failed_member(group, queued, &mut plugins),
            None => {
                let entity = QueuedEntity::Pod(queued);
                queue.add_unschedulable_if_not_present(entity, &mut plugins);
            }
        }
        self.nominate_after_failure(&known, nominating, cx);
        Some(known)
    }

    /// Nominates a pod as its failed attempt asks. If it loses a nomination, other pods may use the
    /// room.
    fn nominate_after_failure(
        &mut self,
        known: &Arc<Pod>,
        nominating: &NominatingInfo,
        cx: &mut Context<'_>,
    ) {
        let before = self.nominator.node_of(&known.uid).cloned();
        self.nominator.add(known.clone(), nominating);
        if let Some(before) = before
            && self.nominator.node_of(&known.uid) != Some(&before)
        {
            let (lost, priority) = (nominated_to(known.clone(), before), known.priority());
            let event = ObjectEvent::assigned_pod(ActionType::DELETE, Some(lost), None);
            let may_move = |other: &Pod| other.uid != known.uid && other.priority() <= priority;
            self.move_pods_if(&event, &may_move, cx);
        }
    }

    /// Requeues a pod whose attempt was a look, as last seen; see
    /// [`Queue::put_back_if_not_present`].
    pub(crate) fn put_back(&mut self, mut queued: QueuedPod, cx: &mut Context<'_>) {
        if let Some(known) = self.pending.get(&queued.pod.key) {
            queued.set_pod(known.clone());
        }
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.put_back_if_not_present(QueuedEntity::Pod(queued), &mut plugins);
    }

    /// Requeues a pod whose decision rests on an outdated specification, unless it is gone or
    /// replaced.
    pub fn requeue_outdated(&mut self, mut queued: QueuedPod, cx: &mut Context<'_>) {
        let known = self.pending.get(&queued.pod.key);
        match known.filter(|known| known.uid == queued.pod.uid) {
            Some(known) => {
                queued.set_pod(known.clone());
                let group = self.group_of(&queued.pod);
                let (queue, mut plugins) = self.queue_and_plugins(cx);
                match group {
                    Some(group) => queue.add_outdated_member(group, queued, &mut plugins),
                    None => {
                        let entity = QueuedEntity::Pod(queued);
                        queue.add_outdated_if_not_present(entity, &mut plugins);
                    }
                }
            }
            None => self.queue.done(&queued.pod.uid),
        }
    }

    /// Moves pods to the active queue, unless a PreEnqueue plugin gates them.
    pub fn activate(&mut self, pods: &[PodKey], cx: &mut Context<'_>) {
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.activate(pods, &mut plugins);
    }

    /// Requeues an unschedulable pod as after an error.
    pub(crate) fn retry_after_error(&mut self, pod: &Pod, cx: &mut Context<'_>) {
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.retry_after_error(pod, &mut plugins);
    }

    /// Requeues the pending pod of this name and UID as after an error, if it is unschedulable.
    pub fn retry_pending_after_error(&mut self, pod: &PodKey, uid: &Uid, cx: &mut Context<'_>) {
        let known = self.pending.get(pod).filter(|known| known.uid == *uid).cloned();
        if let Some(known) = known {
            self.retry_after_error(&known, cx);
        }
    }

    /// Moves the pods whose backoff is over, and the pods that have been unschedulable for too
    /// long.
    pub fn flush_queue(&mut self, cx: &mut Context<'_>) {
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.tick(&mut plugins);
    }

    /// Moves the unschedulable pods that an event may help.
    pub fn move_pods(&mut self, event: &ObjectEvent, cx: &mut Context<'_>) {
        self.move_pods_if(event, &|_| true, cx);
    }

    fn move_pods_if(
        &mut self,
        event: &ObjectEvent,
        may_move: &dyn Fn(&Pod) -> bool,
        cx: &mut Context<'_>,
    ) {
        let (queue, mut plugins) = self.queue_and_plugins(cx);
        queue.move_all_to_active_or_backoff_queue(event, may_move, &mut plugins);
    }

    /// Moves the pods that may use the room of a forgotten pod. A pod that was deleted or bound
    /// elsewhere has left the node already, but its Unreserve may still have freed something.
    pub(crate) fn room_freed(&mut self, pod: &Arc<Pod>, cx: &mut Context<'_>) {
        let event = ObjectEvent::assigned_pod(ActionType::DELETE, Some(pod.clone()), None);
        self.move_pods(&event, cx);
    }

    /// Moves the unschedulable pods that may fit into the room that `pod` has left, except `pod`
    /// itself.
    pub fn move_others(&mut self, pod: Arc<Pod>, cx: &mut Context<'_>) {
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
