//! Preemptions in progress: evicts the victims while the preemptor is gated.
//!
//! ```text
//!   lower nominations cleared ─▶ all victims but the last, at once ─▶ the last one ─▶ done
//!                                          │ an eviction fails            │
//!                                          ▼                              ▼
//!                        the preemptor is retried after an error backoff
//! ```
//!
//! [`Preemptions`] owns the preemptions in progress, and emits the evictions that may be requested
//! now. The binding cycle of a victim that is not bound yet is cancelled instead.
//!
//! The last victim is evicted after the others. Its deletion requeues the preemptor, which then
//! finds all the room free. Until the watch shows that deletion, or that the victim takes its time,
//! the preemptor is gated: PreEnqueue of DefaultPreemption checks `Handle::is_preempting`. Without
//! the gate, the preemptor could find its victims still running and evict other pods, as in
//! kube-scheduler. The API server shows a victim without grace period as terminating right before
//! it removes it. The preemptor waits for that removal for at most [`LONGEST_REMOVAL`]: an attempt
//! in between fails.
//!
//! No pod is evicted twice: for every preemptor, a victim whose eviction was requested counts as
//! ending. A preemptor whose evictions repeatedly lead to no binding pauses.

mod deadlines;
mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use framework::preemption::{Pause, PodGroupPreemption, Preemption};
use framework::{Answer, Code, NominatedPods, PluginName, Pod, PodKey, StatusPatch, Time, Uid};

use self::deadlines::Deadlines;
use self::request::{Beneficiary, Preemptor, Request};
use crate::attempts::Attempts;
use crate::binding::BindingCycles;
use crate::context::{Context, PodEvent};
use crate::counters;
use crate::effect::{EffectId, EffectKind, Eviction, ObjectRef};
use crate::ports::Count;
use crate::queue::Place;
use crate::world::World;

/// Maximum time between the version of a victim that says that its removal follows, and the
/// removal.
const LONGEST_REMOVAL: Duration = Duration::from_secs(1);

/// Identifies a preemption. Ids grow by one.
type PreemptionId = u64;

/// The preemptions in progress.
#[derive(Debug, Default)]
pub(crate) struct Preemptions {
    in_progress: BTreeMap<PreemptionId, InProgress>,
    /// The preemption that each eviction belongs to.
    by_effect: BTreeMap<EffectId, PreemptionId>,
    /// The preemptions by the UID of their last victim, and by the UIDs of their preemptors.
    by_pod: BTreeSet<(Uid, PreemptionId)>,
    last_id: PreemptionId,
    /// Victims whose eviction was requested and has not failed, until the watch shows their end,
    /// with the preemptors that count on it although it was not requested for them.
    ending: BTreeMap<Uid, Vec<(PodKey, Uid)>>,
    /// The last victims whose removal follows, until it counts as not following after all.
    removals: Deadlines<()>,
    /// The preemptors that pause, until the end of the pause.
    pauses: Deadlines<PodKey>,
}

/// A preemption whose victims are being evicted.
#[derive(Debug)]
struct InProgress {
    /// The pod or the group that gets the room.
    beneficiary: Beneficiary,
    /// The plugin that asked for the preemption.
    plugin: PluginName,
    /// The start of the preemption.
    since: Time,
    /// Victims whose eviction was requested.
    evicting: BTreeMap<EffectId, Arc<Pod>>,
    /// Victims whose eviction was not requested, in reverse order of eviction.
    waiting: Vec<Arc<Pod>>,
    /// UID of the victim that is evicted last.
    last: Uid,
    /// Whether the preemptor is gated.
    gates_preemptor: bool,
    /// Whether a victim was evicted, or its binding cycle cancelled.
    evicted: bool,
    /// Whether an eviction has failed.
    failed: bool,
}

/// A victim that is not bound yet, and the plugin that wants its room. Its binding cycle is to be
/// cancelled.
struct Unbound {
    victim: Arc<Pod>,
    plugin: PluginName,
}

impl InProgress {
    /// Stops gating the preemptor.
    fn release(&mut self, world: &mut World) {
        if std::mem::take(&mut self.gates_preemptor) {
            self.beneficiary.pods().for_each(|pod| world.end_evictions(&pod.uid));
        }
    }

    fn is_over(&self) -> bool {
        self.evicting.is_empty() && !self.gates_preemptor
    }
}

/// Inputs.
impl Preemptions {
    /// Starts a preemption, unless its victims are ending already or the preemptor is no longer
    /// pending.
    pub(crate) fn start(
        &mut self,
        request: Preemption,
        world: &mut World,
        attempts: &mut Attempts,
        cx: &mut Context<'_>,
    ) {
        if let Some(request) = Request::of_pod(request, world) {
            self.start_request(request, world, attempts, cx);
        }
    }

    /// Starts a preemption for a group, unless its victims are ending already or none of its
    /// members is pending any more.
    pub(crate) fn start_for_group(
        &mut self,
        request: PodGroupPreemption,
        world: &mut World,
        attempts: &mut Attempts,
        cx: &mut Context<'_>,
    ) {
        if let Some(request) = Request::of_group(request, world) {
            self.start_request(request, world, attempts, cx);
        }
    }

    fn start_request(
        &mut self,
        request: Request,
        world: &mut World,
        attempts: &mut Attempts,
        cx: &mut Context<'_>,
    ) {
        if let Some(id) = self.begin(request, world, cx) {
            self.advance(id, world, attempts, cx);
        }
    }

    /// Handles the answer to an eviction. Ignores the answers to other effects.
    pub(crate) fn answer(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        world: &mut World,
        attempts: &mut Attempts,
        cx: &mut Context<'_>,
    ) {
        if let Some(id) = self.evicted(effect, answer, world, cx) {
            self.advance(id, world, attempts, cx);
        }
    }

    /// Requests the evictions that are due, and cancels the binding cycles of victims that are not
    /// bound.
    fn advance(
        &mut self,
        id: PreemptionId,
        world: &mut World,
        attempts: &mut Attempts,
        cx: &mut Context<'_>,
    ) {
        while let Some(Unbound { victim, plugin }) =
            self.request_evictions(id, world, attempts.binding(), cx)
        {
            attempts.preempt(&victim.uid, &plugin, world, cx);
            self.binding_cancelled(id, &victim, world, cx);
        }
    }

    /// Begins a preemption. Skips victims that are ending already. Returns `None` if no other
    /// victim is left.
    fn begin(
        &mut self,
        mut request: Request,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Option<PreemptionId> {
        let count = request.count_of_victims();
        self.count_on_ending(&request);
        request.victims.retain(|victim| self.may_be_evicted(victim, world));
        request.victims.iter().for_each(|victim| world.begin_eviction(victim));
        request.move_a_neighbour_to_the_end();
        let last = request.victims.last()?.uid.clone();
        cx.probe.count(count);
        for Preemptor { pod, node } in &request.beneficiary.preemptors {
            clear_lower_nominations(node, pod, world, cx);
            world.begin_preemption(pod, node, cx.now);
        }
        self.last_id += 1;
        let mut waiting = request.victims;
        waiting.reverse();
        let preemption = InProgress {
            beneficiary: request.beneficiary,
            plugin: request.plugin,
            since: cx.now,
            evicting: BTreeMap::new(),
            waiting,
            last,
            gates_preemptor: true,
            evicted: false,
            failed: false,
        };
        self.insert(self.last_id, preemption);
        Some(self.last_id)
    }

    /// Requests the evictions that are due: all victims but the last at once, and the
    /// last victim after the others have succeeded. Returns a victim whose binding cycle is to be
    /// cancelled first.
    fn request_evictions(
        &mut self,
        id: PreemptionId,
        world: &mut World,
        binding: &BindingCycles,
        cx: &mut Context<'_>,
    ) -> Option<Unbound> {
        let mut preemption = self.remove(id)?;
        while let Some(victim) = self.next_victim(&mut preemption, world) {
            if binding.is_before_bind(&victim.uid) {
                let plugin = preemption.plugin.clone();
                self.insert(id, preemption);
                return Some(Unbound { victim, plugin });
            }
            self.evict(id, &mut preemption, victim, cx);
        }
        if preemption.evicting.is_empty() {
            // No further victim is evicted.
            let code = if preemption.failed { Code::Error } else { Code::Success };
            cx.probe.count(Count::Evicted { code, took: cx.now.since(preemption.since) });
        }
        let may_go_on = !preemption.failed && preemption.beneficiary.is_pending(world);
        let last = world.placed(&preemption.last).map(|placed| &placed.pod);
        let last = last.filter(|last| !last.lingers());
        let awaits_end = may_go_on && preemption.gates_preemptor && last.is_some();
        if awaits_end && last.is_some_and(|last| last.removal_follows) {
            self.await_removal(&preemption.last, cx.now);
        }
        if !preemption.evicting.is_empty() || awaits_end {
            self.insert(id, preemption);
        } else {
            finish(preemption, world, cx);
        }
        None
    }

    /// Removes a victim whose binding cycle was cancelled. It needs no eviction.
    fn binding_cancelled(
        &mut self,
        id: PreemptionId,
        victim: &Pod,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        world.cancel_eviction(&victim.uid);
        if let Some(preemption) = self.in_progress.get_mut(&id) {
            preemption.evicted = true;
            if preemption.last == victim.uid {
                // It does not end if another scheduler has bound it meanwhile.
                preemption.release(world);
            }
            record_preempted(preemption, victim, " (in kube-scheduler memory).", cx);
        }
    }

    /// Handles the answer to an eviction. Returns the preemption of the eviction.
    fn evicted(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Option<PreemptionId> {
        let id = self.by_effect.remove(&effect)?;
        let mut preemption = self.remove(id)?;
        match (preemption.evicting.remove(&effect), answer) {
            (None, _) | (_, Answer::Gone(_)) => {}
            (Some(victim), Answer::Ok(_)) => {
                preemption.evicted = true;
                record_preempted(&preemption, &victim, "", cx);
            }
            (Some(victim), _) => {
                preemption.failed = true;
                let others = self.ending.remove(&victim.uid).unwrap_or_default();
                self.victim_ends(&victim.uid, world);
                world.cancel_eviction(&victim.uid);
                retry_pods_that_count_on(&victim.uid, world, cx);
                retry_preemptors(&others, world, cx);
            }
        }
        self.insert(id, preemption);
        Some(id)
    }

    /// Notes that the watch is about to show the removal of a pod.
    pub(crate) fn removal_follows(&mut self, pod: &Uid, now: Time) {
        let of_pod = self.by_pod.range((pod.clone(), 0)..).take_while(|(uid, _)| uid == pod);
        let mut of_pod = of_pod.filter_map(|(_, id)| self.in_progress.get(id));
        if of_pod.any(|preemption| preemption.last == *pod) {
            self.await_removal(pod, now);
        }
    }

    /// Notes that a pod is terminating or gone, or cannot be evicted. Preemptors for which it is
    /// the last victim are no longer gated.
    pub(crate) fn victim_ends(&mut self, victim: &Uid, world: &mut World) {
        self.ending.remove(victim);
        self.removals.remove(victim);
        self.release(victim, world, |preemption, _| {
            preemption.last == *victim && preemption.waiting.is_empty()
        });
    }

    /// Notes that a preemptor is not pending any more. Its last preemption counts as fruitless
    /// unless the pod was bound: a pod that was assumed and never bound has not used the room
    /// either.
    pub(crate) fn preemptor_leaves(
        &mut self,
        pod: &Uid,
        bound_to: Option<&str>,
        world: &mut World,
        now: Time,
    ) {
        self.pauses.remove(pod);
        self.release(pod, world, |preemption, world| {
            let is_preemptor = preemption.beneficiary.pods().any(|own| own.uid == *pod);
            is_preemptor
                && preemption.evicting.is_empty()
                && !preemption.beneficiary.is_pending_without(pod, world)
        });
        world.preemptor_left(pod, bound_to, now);
    }

    /// Pauses the preemptions of a pod. Records one event per pause.
    pub(crate) fn pause(
        &mut self,
        preemptor: PodKey,
        uid: &Uid,
        pause: &Pause,
        world: &World,
        cx: &mut Context<'_>,
    ) {
        let pod = world.pending().get(&preemptor).filter(|pod| pod.uid == *uid);
        let Some(pod) = pod else { return };
        if !self.pauses.set(uid, pause.until, preemptor) {
            return;
        }
        let paused = if pause.node.is_some() { "node" } else { "pod" };
        cx.probe.count(Count::of(&counters::PREEMPTION_PAUSES, &[paused]));
        let note = pause.to_string();
        let event = PodEvent::warning("PreemptionPaused", "Preempting", &note);
        cx.effects.record(pod, &pod.spec.scheduler_name, event);
    }

    /// Removes and returns a pod whose pause has ended.
    pub(crate) fn pop_ended_pause(&mut self, now: Time) -> Option<PodKey> {
        self.pauses.pop_passed(now).map(|(_, preemptor)| preemptor)
    }

    /// Removes and returns a victim whose removal should have followed.
    pub(crate) fn pop_overdue_removal(&mut self, now: Time) -> Option<Uid> {
        self.removals.pop_passed(now).map(|(victim, ())| victim)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        [self.pauses.next(), self.removals.next()].into_iter().flatten().min()
    }

    /// Returns whether a request to evict a pod waits for its answer, or was answered and the watch
    /// does not show the end of the pod yet.
    pub(crate) fn is_evicting(&self, victim: &Uid) -> bool {
        let mut requested = self.in_progress.values().flat_map(|own| own.evicting.values());
        self.ending.contains_key(victim) || requested.any(|pod| pod.uid == *victim)
    }

    /// Returns whether a preemption in progress has this pod as a victim, also if its eviction is
    /// not requested yet because it is the last one.
    pub(crate) fn is_victim(&self, pod: &Uid) -> bool {
        self.is_evicting(pod) || self.in_progress.values().any(|own| own.last == *pod)
    }
}

/// Steps.
impl Preemptions {
    fn insert(&mut self, id: PreemptionId, preemption: InProgress) {
        self.by_pod.insert((preemption.last.clone(), id));
        for pod in preemption.beneficiary.pods() {
            self.by_pod.insert((pod.uid.clone(), id));
        }
        self.in_progress.insert(id, preemption);
    }

    fn remove(&mut self, id: PreemptionId) -> Option<InProgress> {
        let preemption = self.in_progress.remove(&id)?;
        self.by_pod.remove(&(preemption.last.clone(), id));
        for pod in preemption.beneficiary.pods() {
            self.by_pod.remove(&(pod.uid.clone(), id));
        }
        Some(preemption)
    }

    fn await_removal(&mut self, victim: &Uid, now: Time) {
        if !self.removals.contains(victim) {
            self.removals.set(victim, now + LONGEST_REMOVAL, ());
        }
    }

    fn may_be_evicted(&self, victim: &Pod, world: &World) -> bool {
        world.is_running(&victim.uid) && !self.ending.contains_key(&victim.uid)
    }

    /// Notes the preemptor at its victims that are evicted for others. They may stay after all.
    fn count_on_ending(&mut self, request: &Request) {
        let preemptor = request.beneficiary.first();
        for victim in &request.victims {
            if let Some(others) = self.ending.get_mut(&victim.uid)
                && others.iter().all(|(_, other)| *other != preemptor.uid)
            {
                others.push((preemptor.key.clone(), preemptor.uid.clone()));
            }
        }
    }

    /// Returns the next victim whose eviction may be requested.
    fn next_victim(&self, preemption: &mut InProgress, world: &mut World) -> Option<Arc<Pod>> {
        if preemption.waiting.len() > 1 {
            return preemption.waiting.pop();
        }
        let may_go = preemption.evicting.is_empty()
            && !preemption.failed
            && preemption.beneficiary.is_pending(world);
        let last = if may_go { preemption.waiting.pop()? } else { return None };
        if !self.may_be_evicted(&last, world) {
            return None;
        }
        if world.is_assumed(&last.uid) {
            // The failure of its binding cycle moves the preemptor, which must not be gated by
            // then.
            preemption.release(world);
        }
        Some(last)
    }

    fn evict(
        &mut self,
        id: PreemptionId,
        preemption: &mut InProgress,
        victim: Arc<Pod>,
        cx: &mut Context<'_>,
    ) {
        let preemptor = preemption.beneficiary.first();
        let (scheduler, kind) = (&preemptor.spec.scheduler_name, preemption.beneficiary.kind());
        let message = format!("{scheduler}: preempting to accommodate a higher priority {kind}");
        let effect = cx.effects.emit(EffectKind::Evict(Eviction {
            pod: victim.key.clone(),
            uid: victim.uid.clone(),
            preemptor: preemptor.key.clone(),
            observed_generation: victim.generation.into(),
            condition_message: (!victim.preempted).then_some(message),
        }));
        self.ending.entry(victim.uid.clone()).or_default();
        self.by_effect.insert(effect, id);
        preemption.evicting.insert(effect, victim);
    }

    /// Stops gating the preemptor in the preemptions for which `applies` returns true, among those
    /// of which `pod` is the preemptor or the last victim. Removes the preemptions that are over.
    fn release(
        &mut self,
        pod: &Uid,
        world: &mut World,
        applies: impl Fn(&InProgress, &World) -> bool,
    ) {
        let from = (pod.clone(), 0);
        let of_pod = self.by_pod.range(from..).take_while(|(uid, _)| uid == pod);
        let ids: Vec<PreemptionId> = of_pod.map(|(_, id)| *id).collect();
        for id in ids {
            let Some(preemption) =
                self.in_progress.get_mut(&id).filter(|preemption| applies(preemption, world))
            else {
                continue;
            };
            preemption.release(world);
            if preemption.is_over() {
                self.remove(id);
            }
        }
    }
}

/// Clears the nominations of pods of lower priority to the node. They may no longer fit there, and
/// find another node sooner without a nomination.
fn clear_lower_nominations(node: &str, preemptor: &Pod, world: &mut World, cx: &mut Context<'_>) {
    let nominated = world.nominator().nominated_to(node);
    for pod in nominated.iter().filter(|pod| pod.priority() < preemptor.priority()) {
        let patch = StatusPatch { nominated_node_name: Some("".into()), ..Default::default() };
        let effect = cx.effects.patch_pod_status(pod, patch);
        world.clear_nomination(pod, effect);
    }
}

/// Ends a preemption that has no more victims to evict or to wait for.
fn finish(mut preemption: InProgress, world: &mut World, cx: &mut Context<'_>) {
    for spared in &preemption.waiting {
        world.cancel_eviction(&spared.uid);
    }
    preemption.release(world);
    if preemption.failed {
        if !preemption.evicted {
            let pods = preemption.beneficiary.pods();
            pods.for_each(|pod| world.call_off_preemption(&pod.uid));
        }
        if let Some(preemptor) = preemption.beneficiary.first_pending(world).cloned() {
            retry_unless_gated(&preemptor, world, cx);
        }
    } else if world.placed(&preemption.last).is_none()
        && let Some(preemptor) = preemption.beneficiary.first_pending(world).cloned()
    {
        activate_gated(&preemptor, world, cx);
    }
}

/// Requeues the pods that are nominated to the node of a victim whose eviction failed, because they
/// may depend on its end. The victim may have left the node for which its eviction was requested:
/// its bind failed, and another attempt chose this node.
fn retry_pods_that_count_on(victim: &Uid, world: &mut World, cx: &mut Context<'_>) {
    let Some(placed) = world.placed(victim) else { return };
    let node = world.cluster().node_name(placed.node).clone();
    for pod in world.nominator().nominated_to(&node) {
        retry_unless_gated(&pod, world, cx);
    }
}

/// Requeues preemptors that counted on the end of a victim that was evicted for others and stays.
/// Their nominations may have been cleared since.
fn retry_preemptors(preemptors: &[(PodKey, Uid)], world: &mut World, cx: &mut Context<'_>) {
    for (pod, uid) in preemptors {
        if !world.preemptions().is_running(uid) {
            world.retry_pending_after_error(pod, uid, cx);
        }
    }
}

/// Requeues a preemptor as after an error. One that is still gated needs its rejectors to be
/// requeued by the end of its own victims.
fn retry_unless_gated(preemptor: &Pod, world: &mut World, cx: &mut Context<'_>) {
    if !world.preemptions().is_running(&preemptor.uid) {
        world.retry_after_error(preemptor, cx);
    }
}

/// Activates the pods that are nominated to the node of a deleted pod and are still gated although
/// their victims have ended. The event that helps such a pod came while it was gated, and the
/// plugins that rejected the pod may not have registered the end of its last victim.
pub(crate) fn activate_gated_on(node: &str, world: &mut World, cx: &mut Context<'_>) {
    for pod in world.nominator().nominated_to(node) {
        if !world.preemptions().is_running(&pod.uid) {
            activate_gated(&pod, world, cx);
        }
    }
}

/// Activates the preemptor if it is still gated: all victims may have gone while it was, so that no
/// later event requeues it.
fn activate_gated(preemptor: &Pod, world: &mut World, cx: &mut Context<'_>) {
    let queued = world.queue().get(&preemptor.key);
    if queued.is_some_and(|(place, _)| place == Place::Gated) {
        world.activate(std::slice::from_ref(&preemptor.key), cx);
    }
}

fn record_preempted(preemption: &InProgress, victim: &Pod, suffix: &str, cx: &mut Context<'_>) {
    let InProgress { beneficiary, .. } = preemption;
    let preemptor = beneficiary.first();
    let note = format!("Preempted by {beneficiary}{suffix}");
    let related = ObjectRef { pod: preemptor.key.clone(), uid: preemptor.uid.clone() };
    let event =
        PodEvent { related: Some(related), ..PodEvent::normal("Preempted", "Preempting", &note) };
    cx.effects.record(victim, &preemptor.spec.scheduler_name, event);
}
