//! Parts of the engine, alone, for the fault simulation (feature `simulation`).

use std::sync::Arc;

use framework::preemption::PreemptionProgress;
use framework::{
    EventResource, NominatingInfo, PendingPods, PluginName, Pod, PodKey, QueuedPod, Status, Time,
    Uid, WaitingPod, WaitingPods, WallOffset,
};
use serde_json::Value;

use crate::cache::{Cache, CacheError};
use crate::change::Change;
use crate::context::{Context, Effects};
use crate::effect::EffectId;
use crate::extender_calls::{ExtenderCalls, ExtenderHealth};
use crate::nominator::Nominator;
use crate::object_event::ObjectEvent;
use crate::ports::Probe;
use crate::profile::Profiles;
use crate::queue::{Queue, QueueConfig};
use crate::timers;
use crate::world::{self, ChangeLog, Changed};

/// Cache, queue, nominations, pending and waiting pods, and the change log, without an engine that mediates.
#[derive(Debug)]
pub struct World(world::World);

/// The time of a call, and the probe that it reports to.
pub struct Now<'a> {
    /// The time.
    pub now: Time,
    /// Measurements.
    pub probe: &'a mut dyn Probe,
}

/// Looking in.
impl World {
    /// Returns a world without objects.
    pub fn new(profiles: Profiles, queue: QueueConfig) -> Self {
        Self(world::World::new(profiles, queue))
    }

    /// Nodes, and the pods on them.
    pub const fn cache(&self) -> &Cache {
        self.0.view().cache()
    }

    /// The scheduling queue.
    pub const fn queue(&self) -> &Queue {
        self.0.queue()
    }

    /// The nominations.
    pub const fn nominator(&self) -> &Nominator {
        self.0.view().nominator()
    }

    /// Pods without a node, as last seen.
    pub const fn pending(&self) -> &PendingPods {
        self.0.view().pending()
    }

    /// Pods that wait in Permit.
    pub const fn waiting(&self) -> &WaitingPods {
        self.0.view().waiting_pods()
    }

    /// The changes of nodes and placed pods.
    pub const fn log(&self) -> &ChangeLog {
        self.0.log()
    }

    /// Returns the earliest deadline of a pod in Permit.
    pub fn next_permit_deadline(&self) -> Option<Time> {
        self.0.next_permit_deadline()
    }

    /// Preemptions in progress, and those that led to no binding.
    pub const fn preemptions(&self) -> &PreemptionProgress {
        self.0.view().preemptions()
    }

    /// Whether the pod is placed and not terminating.
    pub fn is_running(&self, uid: &Uid) -> bool {
        self.0.view().is_running(uid)
    }
}

/// Steps.
impl World {
    /// Takes in a change, after the deletion that it implies. Returns what the engine is notified of, in words.
    pub fn apply(&mut self, change: Change, now: Now<'_>) -> Vec<String> {
        let implied = self.0.implied_deletion(&change);
        let changes = implied.into_iter().chain([change]);
        let changed: Vec<Changed> = now.call(&mut self.0, |world, cx| {
            changes.flat_map(|change| world.apply(change, cx)).collect()
        });
        changed.into_iter().map(describe).collect()
    }

    /// Moves pods after a change of an object that is neither pod nor node.
    pub fn handle_update(
        &mut self,
        kind: EventResource,
        old: Option<Arc<Value>>,
        new: Option<Arc<Value>>,
        now: Now<'_>,
    ) {
        now.call(&mut self.0, |world, cx| world.handle_update(kind, old, new, cx));
    }

    /// Places a pod before the API server knows.
    ///
    /// # Errors
    /// The pod is placed already.
    pub fn assume(&mut self, pod: &Pod, node: &Arc<str>) -> Result<Arc<Pod>, CacheError> {
        self.0.assume(pod, node)
    }

    /// Removes an assumed pod from its node.
    pub fn forget(&mut self, uid: &Uid) {
        self.0.forget(uid);
    }

    /// Lets a pod wait in Permit.
    pub fn wait_on_permit(&mut self, pod: WaitingPod) {
        self.0.wait_on_permit(pod);
    }

    /// Ends the wait of one plugin. Returns the pod once no plugin is left to wait for.
    pub fn allow(&mut self, uid: &Uid, plugin: &str) -> Option<WaitingPod> {
        self.0.allow(uid, plugin)
    }

    /// Removes a pod that waits in Permit.
    pub fn remove_waiting(&mut self, uid: &Uid) -> Option<WaitingPod> {
        self.0.remove_waiting(uid)
    }

    /// Returns the pod whose wait has timed out first, and the status of its rejection.
    pub fn first_expired_wait(&mut self, now: Now<'_>) -> Option<(Uid, Status)> {
        let wait = now.call(&mut self.0, |world, cx| world.first_expired_wait(cx))?;
        Some((wait.pod.clone(), wait.status()))
    }

    /// Ends the nomination of a pod, whose status is to be cleared by the effect.
    pub fn clear_nomination(&mut self, pod: &Pod, effect: EffectId) {
        self.0.clear_nomination(pod, Some(effect));
    }

    /// Takes in that a node was requested to be written into the status of a pod.
    pub fn nomination_written(&mut self, pod: &Pod, node: Arc<str>, effect: EffectId) {
        self.0.nomination_written(pod, node, Some(effect));
    }

    /// Takes in the version of the pod in the answer to such a write.
    pub fn nomination_answered(&mut self, effect: EffectId, version: u64, now: Now<'_>) {
        now.call(&mut self.0, |world, cx| world.nomination_answered(effect, version, cx));
    }

    /// Counts the eviction of a pod.
    pub fn begin_eviction(&mut self, victim: &Pod) {
        self.0.begin_eviction(victim);
    }

    /// Stops counting the eviction of a pod.
    pub fn cancel_eviction(&mut self, victim: &Uid) {
        self.0.cancel_eviction(victim);
    }

    /// Notes that pods of the node are being evicted for a preemptor.
    pub fn begin_preemption(&mut self, preemptor: &Pod, node: &Arc<str>, now: Time) {
        self.0.begin_preemption(preemptor, node, now);
    }

    /// Notes that a preemptor is bound to a node, or gone.
    pub fn preemptor_left(&mut self, preemptor: &Uid, bound_to: Option<&str>, now: Time) {
        self.0.preemptor_left(preemptor, bound_to, now);
    }

    /// Brings the node order up to date.
    pub fn refresh_node_order(&mut self) {
        self.0.refresh_node_order();
    }

    /// Pops the next pod.
    pub fn pop(&mut self, now: Now<'_>) -> Option<QueuedPod> {
        now.call(&mut self.0, world::World::pop)
    }

    /// Ends the flight of a pod.
    pub fn done(&mut self, uid: &Uid) {
        self.0.done(uid);
    }

    /// Notes that an attempt is over.
    pub fn attempt_ended(&mut self, pod: &Pod, now: Now<'_>) {
        now.call(&mut self.0, |world, cx| world.attempt_ended(pod, cx));
    }

    /// Requeues a pod whose attempt failed.
    pub fn requeue_failed(
        &mut self,
        queued: QueuedPod,
        nominating: &NominatingInfo,
        now: Now<'_>,
    ) -> Option<Arc<Pod>> {
        now.call(&mut self.0, |world, cx| world.requeue_failed(queued, nominating, cx))
    }

    /// Requeues a pod that has changed during its attempt.
    pub fn requeue_outdated(&mut self, queued: QueuedPod, now: Now<'_>) {
        now.call(&mut self.0, |world, cx| world.requeue_outdated(queued, cx));
    }

    /// Moves pods to the active queue.
    pub fn activate(&mut self, pods: &[PodKey], now: Now<'_>) {
        now.call(&mut self.0, |world, cx| world.activate(pods, cx));
    }

    /// Requeues an unschedulable pod as after an error.
    pub fn retry_pending_after_error(&mut self, pod: &PodKey, uid: &Uid, now: Now<'_>) {
        now.call(&mut self.0, |world, cx| world.retry_pending_after_error(pod, uid, cx));
    }

    /// Takes in the time.
    pub fn flush_queue(&mut self, now: Now<'_>) {
        now.call(&mut self.0, world::World::flush_queue);
    }

    /// Moves the pods that an event may help.
    pub fn move_pods(&mut self, event: &ObjectEvent, now: Now<'_>) {
        now.call(&mut self.0, |world, cx| world.move_pods(event, cx));
    }

    /// Moves the pods that may fit into the room that a pod has left.
    pub fn move_others(&mut self, pod: Arc<Pod>, now: Now<'_>) {
        now.call(&mut self.0, |world, cx| world.move_others(pod, cx));
    }
}

impl Now<'_> {
    fn call<T>(
        self,
        world: &mut world::World,
        call: impl FnOnce(&mut world::World, &mut Context<'_>) -> T,
    ) -> T {
        let client = &mut ();
        let health = ExtenderHealth::default();
        let extenders = ExtenderCalls::new(client, health, WallOffset::default());
        let Now { now, probe } = self;
        call(world, &mut Context { now, extenders, probe, effects: Effects::default() })
    }
}

fn describe(changed: Changed) -> String {
    match changed {
        Changed::Bound { pod, node } => format!("{pod} is bound to {node}"),
        Changed::PendingDeleted(pod) => format!("pending {pod} is gone"),
        Changed::AssumedDeleted(pod) => format!("assumed {pod} goes"),
        Changed::Deleted(pod) => format!("{} is gone", pod.uid),
    }
}

/// The timers of plugins.
#[derive(Debug, Default)]
pub struct Timers(timers::Timers);

impl Timers {
    /// Sets a timer, in place of an earlier one of the same plugin and token.
    pub fn set(&mut self, plugin: PluginName, token: u64, at: Time) {
        self.0.set(plugin, token, at);
    }

    /// Removes and returns the first timer that is due.
    pub fn pop_due(&mut self, now: Time) -> Option<(PluginName, u64)> {
        self.0.pop_due(now)
    }

    /// Returns when the next timer is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.0.next_deadline()
    }
}
