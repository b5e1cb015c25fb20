//! Attempts from the decision to the end of the binding cycle: [`Attempts::commit`] carries a
//! decision out, and a binding cycle that ends is reported, or undone and its pod put back into the
//! queue.
//!
//! ```text
//!   Decision ─▶ commit ─▶ assume ─▶ Reserve, Permit ─▶ binding cycle ─▶ bound: PostBind, event
//!                  │                      │                  │
//!                  ▼                      ▼                  ▼
//!               failure ◀────────────── forget ◀──── Unreserve
//! ```

mod groups;
mod refused;

use std::collections::VecDeque;
use std::sync::Arc;

use framework::preemption::Preemption;
use framework::{
    Answer, Attempt, Code, CycleState, ExtensionPoint, ObjectKey, PluginName, Pod, PodKey,
    QueuedPod, Status, Uid, WaitingPod,
};

use crate::attempt::Outcome;
use crate::binding::{BindingCycle, BindingCycles, Decided, Transition};
use crate::context::{Context, PodEvent};
use crate::cycle::Placement;
use crate::decide::{Decision, Found, Unfit};
use crate::effect::EffectId;
use crate::extender::Extender;
use crate::failure::Failure;
use crate::placements::Placements;
use crate::plugin_call::call_plugin;
use crate::pod_group::GroupReports;
use crate::ports::{Count, Span};
use crate::profile::Profile;
use crate::record::{Choice, Finding, Head, Records, cut};
use crate::world::World;
use refused::Refused;
pub(crate) use refused::Withdrawn;

/// The binding cycles, the records of attempts, and the reports about groups.
#[derive(Debug)]
pub(crate) struct Attempts {
    binding: BindingCycles,
    /// Members whose bind was refused, to be placed again in the same step.
    refused: VecDeque<Refused>,
    placements: Placements,
    records: Records,
    group_reports: GroupReports,
}

/// Looking in.
impl Attempts {
    pub(crate) fn new(extenders: Arc<[Extender]>) -> Self {
        Self {
            binding: BindingCycles::new(extenders),
            refused: VecDeque::new(),
            placements: Placements::default(),
            records: Records::default(),
            group_reports: GroupReports::default(),
        }
    }

    pub(crate) const fn binding(&self) -> &BindingCycles {
        &self.binding
    }

    pub(crate) const fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) const fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    pub(crate) const fn group_reports(&self) -> &GroupReports {
        &self.group_reports
    }

    pub(crate) const fn group_reports_mut(&mut self) -> &mut GroupReports {
        &mut self.group_reports
    }

    pub(crate) const fn placements_mut(&mut self) -> &mut Placements {
        &mut self.placements
    }

    /// Returns the node that a pod was bound to by a Binding that has succeeded, until the watch
    /// shows that.
    pub(crate) fn node_bound_to(&self, pod: &Uid, world: &World) -> Option<Arc<str>> {
        let placed = world.placed(pod).filter(|_| !self.binding.contains(pod))?;
        Some(world.cluster().node_name(placed.node).clone())
    }
}

/// A pod that is assumed on its node.
pub(crate) struct Assumed {
    pub(crate) decided: Decided,
    /// The pod with its node.
    pub(crate) pod: Arc<Pod>,
    pub(crate) state: CycleState,
}

impl Assumed {
    pub(crate) fn placement<'a>(&'a mut self, world: &'a World) -> Placement<'a> {
        let Self { decided: Decided { profile, choice, .. }, pod, state } = self;
        Placement { world, profile, pod, node: &choice.node, state }
    }

    /// Runs Unreserve and forgets the pod.
    pub(crate) fn give_back(&mut self, world: &mut World, cx: &mut Context<'_>) {
        self.placement(world).unreserve(cx);
        world.forget(&self.pod.uid);
    }
}

/// The decision of an attempt, and the beginning of its record.
pub(crate) struct Concluded {
    pub(crate) decision: Decision,
    pub(crate) head: Head,
}

/// Commits.
impl Attempts {
    /// Carries out a decision: starts the binding cycle, or puts the pod back into the queue. Keeps
    /// the record of the attempt.
    pub(crate) fn commit(
        &mut self,
        queued: QueuedPod,
        profile: &Arc<Profile>,
        concluded: Concluded,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let Concluded { decision, head } = concluded;
        let evicted = |preemption: &Preemption| {
            preemption.victims.iter().map(|victim| victim.key.clone()).collect()
        };
        let victims: Vec<PodKey> = decision.preemption(&queued.pod, evicted).unwrap_or_default();
        let Decision { found, state, commands, .. } = decision;
        let has_commands = !commands.is_empty();
        world.commands().append(commands);
        let (outcome, finding) = match found {
            Found::Node(chosen) => {
                let choice = Choice::of(&chosen, world.cluster());
                let (profile, group) = (profile.clone(), None);
                let decided = Decided { queued, profile, choice: choice.clone(), group };
                let outcome = self.assume_and_bind(decided, state, world, cx);
                let finding = match &outcome {
                    Outcome::Assumed(_) => Finding::Chosen(choice),
                    Outcome::Unschedulable(message)
                    | Outcome::Repeated(message)
                    | Outcome::Error(message) => {
                        failed(&format!("on node {}: {message}", choice.node))
                    }
                    Outcome::Skipped => failed("another pod of this name has replaced the pod"),
                };
                (outcome, finding)
            }
            Found::Unfit(unfit) => {
                let Unfit { fit, post_filter, template_rejected } = unfit;
                let failure = Failure::fit(&fit, post_filter.nominating.clone())
                    .of_template(template_rejected);
                if !has_commands && failure.is_look(&queued, world, cx.now) {
                    return failure.take_back(queued, profile, world, cx);
                }
                let cluster = world.cluster();
                let rejected = self.records.rejected(&fit, &post_filter, &victims, cluster);
                (failure.handle(queued, profile, world, cx), Finding::Rejected(rejected))
            }
            Found::Failed(status) => {
                let finding = failed(&status.message());
                (Failure::error(&status).handle(queued, profile, world, cx), finding)
            }
        };
        let is_pending = !matches!(outcome, Outcome::Skipped);
        self.records.push(head.found(finding), is_pending);
        outcome
    }

    /// Carries out the decision for a node that a caller named.
    ///
    /// # Errors
    /// Reserve or Permit rejected the pod.
    pub(crate) fn place(
        &mut self,
        pod: &Arc<Pod>,
        profile: &Arc<Profile>,
        decision: Decision,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Result<(), Status> {
        let Decision { found: Found::Node(chosen), state, commands, .. } = decision else {
            return Err(Status::error("the decision names no node"));
        };
        world.commands().append(commands);
        let choice = Choice::of(&chosen, world.cluster());
        self.placements.begin(&pod.uid);
        let queued = QueuedPod::new(pod.clone(), cx.now);
        let decided = Decided { queued, profile: profile.clone(), choice, group: None };
        let status = match self.assume_and_bind(decided, state, world, cx) {
            Outcome::Assumed(_) => return Ok(()),
            Outcome::Unschedulable(message)
            | Outcome::Repeated(message)
            | Outcome::Error(message) => Status::unschedulable(message),
            Outcome::Skipped => {
                Status::unschedulable("the pod was replaced by another of its name")
            }
        };
        self.placements.call_off(&pod.uid);
        Err(status)
    }

    /// Assumes the pod on the node, runs Reserve and Permit, and starts the binding cycle.
    fn assume_and_bind(
        &mut self,
        decided: Decided,
        mut state: CycleState,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Outcome {
        state.end_search();
        let pod = match world.assume(&decided.queued.pod, &decided.choice.node) {
            Ok(assumed) => assumed,
            Err(error) => {
                let failure = Failure::error(&Status::error(error.to_string()));
                return failure.handle(decided.queued, &decided.profile, world, cx);
            }
        };
        let mut assumed = Assumed { decided, pod, state };
        let permitted = assumed.placement(world).reserve_and_permit(cx);
        self.bind_assumed(assumed, permitted, world, cx)
    }

    /// Starts the binding cycle of an assumed pod, or gives its room back if Reserve or Permit
    /// rejected it.
    fn bind_assumed(
        &mut self,
        mut assumed: Assumed,
        permitted: Result<Option<WaitingPod>, Status>,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> Outcome {
        match permitted {
            Ok(waiting) => {
                let Assumed { decided, pod, state } = assumed;
                let node = decided.choice.node.clone();
                let waits = waiting.is_some();
                waiting.into_iter().for_each(|pod| world.wait_on_permit(pod));
                let cycle = BindingCycle::new(decided, pod, state, cx.now);
                let transition = self.binding.start(cycle, waits, world, cx);
                self.apply(transition, world, cx);
                Outcome::Assumed(node)
            }
            Err(status) => {
                assumed.give_back(world, cx);
                let Assumed { decided, pod, .. } = assumed;
                let failure = Failure::of_chosen_node(status.clone());
                let outcome = failure.handle(decided.queued, &decided.profile, world, cx);
                if let Some(group) = decided.group {
                    self.member_failed(&group, &pod, &status, world, cx);
                }
                outcome
            }
        }
    }
}

/// Inputs of binding cycles.
impl Attempts {
    /// Handles the answer to an effect. Ignores an effect that does not belong to a binding cycle.
    pub(crate) fn answer(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let transition = self.binding.answer(effect, answer, world, cx);
        self.apply(transition, world, cx);
    }

    /// Handles that the watch shows a pod on a node.
    pub(crate) fn confirmed(
        &mut self,
        pod: &Uid,
        node: &str,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let transition = self.binding.confirmed(pod, node, cx);
        self.apply(transition, world, cx);
    }

    /// Handles a change of an object, for which PreBind plugins may wait.
    pub(crate) fn object_changed(
        &mut self,
        object: &ObjectKey,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        for pod in self.binding.waiting_for(object) {
            let transition = self.binding.object_changed(&pod, object, world, cx);
            self.apply(transition, world, cx);
        }
    }

    /// Rejects the pods whose wait in Permit or PreBind has ended.
    pub(crate) fn tick(&mut self, world: &mut World, cx: &mut Context<'_>) {
        while let Some(wait) = world.first_expired_wait(cx) {
            self.reject_waiting(&wait.pod, wait.status(), world, cx);
        }
        for pod in self.binding.expired(cx.now) {
            let transition = self.binding.timed_out(&pod, world, cx);
            self.apply(transition, world, cx);
        }
    }

    /// Ends the wait of one plugin in Permit.
    pub(crate) fn allow(
        &mut self,
        pod: Uid,
        plugin: &str,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let Some(waiting) = world.allow(&pod, plugin) else { return };
        let waited = cx.now.since(waiting.since);
        cx.probe.count(Count::PermitWait { pod: &waiting.pod, code: Code::Success, waited });
        self.apply(Transition::Permitted(pod), world, cx);
    }

    /// Cancels the binding cycle of a victim that is not bound.
    pub(crate) fn preempt(
        &mut self,
        victim: &Uid,
        plugin: &PluginName,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let waiting = Status::error("waiting on permit for pod: preempted").by(plugin);
        if !self.reject_waiting(victim, waiting, world, cx) {
            let status = Status::error(format!("preempted by {plugin}")).by(plugin);
            let transition = self.binding.cancel(victim, status);
            self.apply(transition, world, cx);
        }
    }

    /// Rejects a pod that waits in Permit. Returns whether it was waiting.
    pub(crate) fn reject_waiting(
        &mut self,
        pod: &Uid,
        status: Status,
        world: &mut World,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(waiting) = world.remove_waiting(pod) else { return false };
        let waited = cx.now.since(waiting.since);
        cx.probe.count(Count::PermitWait { pod: &waiting.pod, code: status.code(), waited });
        match self.binding.cancel(pod, status) {
            Transition::Failed(cycle, status) => {
                let failure = Failure::of_chosen_node(status.clone());
                self.failed(*cycle, &status, failure, world, cx);
                true
            }
            _ => false,
        }
    }
}

/// Ends of binding cycles.
impl Attempts {
    /// Acts on the transition of a binding cycle: runs PreBind, reports the bind, or undoes the
    /// attempt.
    fn apply(&mut self, mut transition: Transition, world: &mut World, cx: &mut Context<'_>) {
        if let Transition::Permitted(pod) = transition {
            // From here on no event can help the pod.
            world.done(&pod);
            transition = self.binding.permitted(&pod, world, cx);
        }
        match transition {
            Transition::Waiting | Transition::Permitted(_) => {}
            Transition::Gathered(group) => self.release_group(&group, world, cx),
            Transition::Bound(cycle) => self.bound(&cycle, world, cx),
            Transition::Failed(cycle, status) => {
                world.remove_waiting(&cycle.pod.uid);
                let failure = Failure::error(&status);
                self.failed(*cycle, &status, failure, world, cx);
            }
            Transition::Refused(cycle, status) => self.refused(cycle, status, world, cx),
            Transition::Outdated(cycle) => self.decide_again(*cycle, world, cx),
        }
    }

    fn bound(&mut self, cycle: &BindingCycle, world: &World, cx: &mut Context<'_>) {
        self.placements.settle(&cycle.pod.uid, Ok(cycle.node.clone()));
        if let Some(group) = &cycle.group {
            self.binding.gangs_mut().leave(group, &cycle.pod.uid);
        }
        let (profile, queued) = (&cycle.profile, &cycle.queued);
        let note = format!("Successfully assigned {} to {}", cycle.pod.key, cycle.node);
        let event = PodEvent::normal("Scheduled", "Binding", &note);
        cx.effects.record(&cycle.pod, &profile.scheduler_name, event);
        cx.probe.count(Count::Attempt { result: "scheduled", profile: &profile.scheduler_name });
        cx.probe.count(Count::Scheduled {
            pod: &cycle.pod,
            choice: &cycle.choice,
            profile: &profile.scheduler_name,
            attempts: queued.history.attempts,
            took: cx.now.since(cycle.since),
            since_first_active: cx.now.since(queued.history.initial_attempt.unwrap_or(cycle.since)),
            after_flush: queued.history.flushed,
            times: queued.history.times,
        });
        let span = Span::Point(ExtensionPoint::PostBind.into(), &profile.scheduler_name);
        cx.probe.start(span);
        for plugin in &profile.post_bind {
            let handle = world.handle(cx.now);
            // A panic is counted; the pod is bound.
            let _ = call_plugin(ExtensionPoint::PostBind, &plugin.name, cx.probe, || {
                let attempt = Attempt::new(&cycle.state, &cycle.pod, &handle);
                plugin.plugin.post_bind(&attempt, &cycle.node);
            });
        }
        cx.probe.stop(span, Code::Success);
    }

    /// Handles a failed binding cycle (`handleBindingCycleError`): runs Unreserve, forgets and
    /// requeues the pod, and moves the pods that may use its room.
    fn failed(
        &mut self,
        mut cycle: BindingCycle,
        status: &Status,
        failure: Failure,
        world: &mut World,
        cx: &mut Context<'_>,
    ) {
        let pod = cycle.pod.clone();
        self.placements.settle(&pod.uid, Err(status.message()));
        Self::undo(&mut cycle, world, cx);
        let rejected = status.is_rejection();
        cx.probe.count(Count::BindingFailed {
            result: if rejected { "unschedulable" } else { "error" },
            profile: &cycle.profile.scheduler_name,
            took: cx.now.since(cycle.since),
        });
        if !rejected {
            world.room_freed(&pod, cx);
        }
        let head = Head::of(&cycle.queued, world.log().state(), cx.now);
        let text = format!("on node {}: {}", cycle.node, status.message());
        // The pod may be gone, and then nothing would forget a record beside it.
        let pending = world.pending().get(&pod.key);
        let is_pending = pending.is_some_and(|pending| pending.uid == pod.uid);
        self.records.push(head.found(failed(&text)), is_pending);
        let failure = failure.after_nomination(cycle.nominated);
        failure.handle(cycle.queued, &cycle.profile, world, cx);
        if rejected {
            world.move_others(pod.clone(), cx);
        }
        if let Some(group) = cycle.group {
            self.member_failed(&group, &pod, status, world, cx);
        }
    }

    /// Undoes the attempt of a pod whose specification has changed, and tries the pod again at
    /// once: the attempt did not fail.
    fn decide_again(&mut self, mut cycle: BindingCycle, world: &mut World, cx: &mut Context<'_>) {
        self.placements.settle(&cycle.pod.uid, Err("the pod has changed".to_owned()));
        Self::undo(&mut cycle, world, cx);
        world.room_freed(&cycle.pod, cx);
        if let Some(group) = &cycle.group {
            self.binding.gangs_mut().leave(group, &cycle.pod.uid);
        }
        world.requeue_outdated(cycle.queued, cx);
    }

    /// Runs Unreserve and forgets the pod.
    fn undo(cycle: &mut BindingCycle, world: &mut World, cx: &mut Context<'_>) {
        let (pod, node) = (&cycle.pod, &cycle.node);
        let (profile, state) = (&cycle.profile, &mut cycle.state);
        Placement { world: &*world, profile, pod, node, state }.unreserve(cx);
        world.forget(&cycle.pod.uid);
    }
}

fn failed(message: &str) -> Finding {
    Finding::Failed(cut(message).into())
}
