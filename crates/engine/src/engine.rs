//! The engine: it mediates between the world, the cycles and the machines.
//!
//! Every input enters through [`Engine::step`]. A decision reads the world and is a value
//! ([`Decider::decide`]); its commit assumes the pod and starts the binding cycle
//! ([`Attempts::commit`]). Preemptions are a machine above these.

mod commands;
mod pod_group_cycle;
mod remote;
mod state;
pub(crate) mod supposition;

use std::sync::Arc;

use framework::{
    ActionType, Answer, PluginName, Pod, PodGroupKey, PodKey, QueuedEntity, QueuedPod, Status,
    Time, Uid,
};

use crate::attempt::{Attempt, Outcome};
use crate::attempts::{Attempts, Concluded};
use crate::change::Change;
use crate::config::EngineConfig;
use crate::context::{Context, Effects, PodEvent};
use crate::cycle::{Form, Question, Settings};
use crate::decide::{Decider, Decision, Evaluation, gate};
use crate::effect::{Effect, EffectId, EffectKind};
use crate::extender_calls::{ExtenderCalls, ExtenderHealth};
use crate::group_notices::{GroupNotices, gated_member};
use crate::holds::RoomKeeper;
use crate::input::{Input, Output};
use crate::moves::Mover;
use crate::object_event::ObjectEvent;
use crate::plugin_call::{HasCode, call_beside};
use crate::plugin_writes::PluginWrites;
use crate::pod_group::GroupStatuses;
use crate::ports::{Count, Ports, Span};
use crate::preemption::{self, Preemptions};
use crate::profile::{Profile, member_alone};
use crate::quota_statuses::QuotaStatuses;
use crate::record::Head;
use crate::timers::{Timers, fire};
use crate::world::{Changed, World};

/// The deterministic scheduler: inputs go in, effects come out.
///
/// It does no I/O and reads no clock. Equal inputs in equal order with an equal seed give equal
/// effects.
#[derive(Debug)]
pub struct Engine {
    world: World,
    decider: Decider,
    attempts: Attempts,
    preemptions: Preemptions,
    plugin_writes: PluginWrites,
    timers: Timers,
    group_notices: GroupNotices,
    group_statuses: GroupStatuses,
    quota_statuses: QuotaStatuses,
    room_keeper: RoomKeeper,
    mover: Mover,
    effects: Effects,
    extender_health: ExtenderHealth,
}

impl Engine {
    /// Makes an engine that knows no object.
    pub fn new(config: EngineConfig) -> Self {
        let settings = Settings {
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            adaptive_sampling: config.adaptive_sampling,
            extenders: config.extenders.into(),
            tie_break: config.tie_break,
            form: config.form,
            check_rankings_one_in: config.check_rankings_one_in.max(1),
            group_search: config.group_search,
            parallelizer: config.parallelizer,
        };
        let mut world = World::new(config.profiles, config.queue);
        world.set_longest_preemption_pause(config.longest_preemption_pause);
        Self {
            room_keeper: RoomKeeper::new(&world),
            mover: Mover::new(&world),
            world,
            extender_health: ExtenderHealth::new(&settings.extenders),
            attempts: Attempts::new(settings.extenders.clone()),
            decider: Decider::new(settings, config.seed),
            preemptions: Preemptions::default(),
            plugin_writes: PluginWrites::default(),
            timers: Timers::default(),
            group_notices: GroupNotices::default(),
            group_statuses: GroupStatuses::default(),
            quota_statuses: QuotaStatuses::default(),
            effects: Effects::default(),
        }
    }

    /// Returns the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.effects.take()
    }

    /// Returns the time at which an [`Input::Tick`] has work to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.world.queue().next_deadline(),
            self.world.next_permit_deadline(),
            self.attempts.binding().next_deadline(),
            self.preemptions.next_deadline(),
            self.timers.next_deadline(),
            self.group_notices.next_deadline(),
            self.group_statuses.next_deadline(),
            self.quota_statuses.next_deadline(),
            self.room_keeper.next_deadline(&self.world),
            self.mover.next_deadline(&self.world),
            self.attempts.group_reports().next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}

/// Inputs and questions.
impl Engine {
    /// Takes a step: handles an input at the time `now`. Its effects are
    /// [taken](Self::take_effects) afterwards.
    pub fn step(&mut self, input: Input, now: Time, ports: &mut Ports<'_>) -> Output {
        self.run(now, ports, |engine, cx| {
            let output = engine.handle_input(input, cx);
            engine.room_keeper.check(&mut engine.world, cx);
            engine.mover.check(&mut engine.world, cx);
            output
        })
    }

    /// Returns the status of the first PreEnqueue plugin that gates `pod`, and changes nothing.
    pub fn gate(&mut self, pod: &Pod, now: Time, ports: &mut Ports<'_>) -> Option<Status> {
        self.run(now, ports, |engine, cx| {
            let world = &engine.world;
            gate(world, world.profile_of(pod)?, pod, cx)
        })
    }

    /// Runs one call: builds its context, applies the commands of plugins, keeps the effects.
    fn run<T>(
        &mut self,
        now: Time,
        ports: &mut Ports<'_>,
        call: impl FnOnce(&mut Self, &mut Context<'_>) -> T,
    ) -> T {
        let mut cx = Context {
            now,
            extenders: ExtenderCalls::new(
                &mut *ports.extenders,
                std::mem::take(&mut self.extender_health),
                self.world.wall_offset(),
            ),
            probe: &mut *ports.probe,
            effects: std::mem::take(&mut self.effects),
        };
        let result = call(self, &mut cx);
        self.apply_commands(&mut cx);
        self.effects = cx.effects;
        self.extender_health = cx.extenders.health;
        result
    }
}

impl Engine {
    fn handle_input(&mut self, input: Input, cx: &mut Context<'_>) -> Output {
        match input {
            Input::Change(change) => self.handle_change(change, cx),
            Input::Answer { effect, answer } => self.handle_answer(effect, &answer, cx),
            Input::ExtenderProbed { extender, outcome } => {
                cx.extenders.probed(extender, outcome, cx.now);
            }
            Input::Tick => self.tick(cx),
            Input::WallOffset(offset) => self.world.set_wall_offset(offset),
            Input::Touch(pod) => {
                return self.touch(&pod, cx).map_or(Output::Nothing, Output::Touch);
            }
            Input::Schedule => {
                return self.schedule_one(cx).map_or(Output::Nothing, Output::Attempt);
            }
            Input::Evaluate { pod, form, start } => {
                let evaluation = self.evaluate(&pod, form, start, cx).map(Box::new);
                return evaluation.map_or(Output::Nothing, Output::Evaluation);
            }
        }
        Output::Nothing
    }

    fn handle_change(&mut self, change: Change, cx: &mut Context<'_>) {
        if let Some(deletion) = self.world.implied_deletion(&change) {
            self.apply_change(deletion, cx);
        }
        self.apply_change(change, cx);
    }

    fn handle_answer(&mut self, effect: EffectId, answer: &Answer, cx: &mut Context<'_>) {
        let Self { attempts, world, .. } = self;
        attempts.answer(effect, answer, world, cx);
        attempts.group_reports_mut().answer(effect, answer, cx.now);
        self.group_statuses.answer(effect, answer, cx.now);
        self.quota_statuses.answer(effect, answer, cx.now);
        self.place_refused(cx);
        let Self { attempts, preemptions, world, .. } = self;
        preemptions.answer(effect, answer, world, attempts, cx);
        self.mover.answer(effect, answer, &mut self.world, cx);
        if let Some((pod, uid)) = self.plugin_writes.answer(effect, answer, cx) {
            self.world.retry_pending_after_error(&pod, &uid, cx);
        }
        if let Some(version) = version_in(answer) {
            self.world.nomination_answered(effect, version, cx);
        }
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        self.world.flush_queue(cx);
        self.group_notices.tick(cx.now);
        self.group_statuses.tick(cx.now);
        self.quota_statuses.tick(cx.now);
        self.attempts.group_reports_mut().tick(cx.now);
        self.attempts.tick(&mut self.world, cx);
        self.room_keeper.tick(&mut self.decider, &mut self.world, cx);
        let Self { mover, decider, preemptions, world, .. } = self;
        mover.tick(decider, preemptions, world, cx);
        while let Some(victim) = self.preemptions.pop_overdue_removal(cx.now) {
            self.preemptions.victim_ends(&victim, &mut self.world);
        }
        while let Some(pod) = self.preemptions.pop_ended_pause(cx.now) {
            self.world.activate(&[pod], cx);
        }
        while let Some((plugin, token)) = self.timers.pop_due(cx.now) {
            fire(&plugin, token, &self.world, cx);
        }
    }

    fn touch(&self, pod: &PodKey, cx: &mut Context<'_>) -> Option<EffectId> {
        let pod = self.pending_pod(pod)?;
        Some(cx.effects.emit(EffectKind::TouchPod {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            observed_generation: pod.generation.into(),
            resource_version: pod.resource_version,
            has_condition: pod.scheduled_condition.is_some(),
        }))
    }

    fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        start: Option<usize>,
        cx: &mut Context<'_>,
    ) -> Option<Evaluation> {
        let profile = self.world.profile_of(pod)?.clone();
        self.refresh_order(&profile);
        let question =
            Question { world: &self.world, profile: &profile, pod, within: None, as_member: false };
        Some(self.decider.evaluate(question, form, start, cx))
    }
}

/// Changes.
impl Engine {
    fn apply_change(&mut self, change: Change, cx: &mut Context<'_>) {
        let object = self.attempts.binding().wait_for_changes().then(|| change.object());
        let group = self.changed_pod_group(&change);
        let lost = self.room_keeper.room_of_lost(&change, &self.world, cx.now);
        let lost = lost.filter(|_| !change.ending_pod().is_some_and(|pod| self.is_victim(pod)));
        if let Some(pod) = change.ending_pod() {
            // Before any pod is moved: a preemptor whose last victim ends is no longer gated.
            self.preemptions.victim_ends(pod, &mut self.world);
        }
        if let Some(pod) = change.pod_to_be_removed() {
            self.preemptions.removal_follows(pod, cx.now);
        }
        let placed_member = match &change {
            Change::Pod(pod) if pod.node_name.is_some() => self.world.group_of(pod),
            _ => None,
        };
        let groups_of_pod = self.world.groups_of_changed(&change);
        let gates = self.gates_of(&groups_of_pod);
        let left = match &change {
            Change::PodDeleted { uid, .. } => self.world.placed(uid),
            _ => None,
        };
        let left = left.map(|gone| self.world.cluster().node_name(gone.node).clone());
        let grouped = match &change {
            Change::Pod(pod) => pod.node_name.is_none().then(|| pod.key.clone()),
            _ => None,
        };
        lost.into_iter().for_each(|room| self.world.hold_room(room, cx));
        let successor = self.mover.successor_in(&change);
        for changed in self.world.apply(change, cx) {
            self.handle_changed(changed, cx);
        }
        if let Some(pod) = successor {
            self.mover.see(&pod, &mut self.world, cx);
        }
        if let Some(group) = placed_member {
            self.attempts.group_reports_mut().see(&group, &self.world);
        }
        for (group, gate) in groups_of_pod.iter().zip(gates) {
            self.group_statuses.see(group, &self.world, cx.now);
            if self.world.queue().gate_of_group(group) != gate.as_ref() {
                self.see_members(group, cx);
            }
            self.give_up_nominations(group, cx);
        }
        if let Some(pod) = grouped {
            self.group_notices.see_pending(&pod, &self.world, cx);
        }
        if let Some(node) = left {
            preemption::activate_gated_on(&node, &mut self.world, cx);
        }
        if let Some(object) = object {
            self.attempts.object_changed(&object, &mut self.world, cx);
        }
        if let Some(group) = group {
            self.attempts.group_changed(&group, &mut self.world, cx);
            self.group_statuses.see(&group, &self.world, cx.now);
            self.see_members(&group, cx);
            self.give_up_nominations(&group, cx);
        }
    }

    /// Gives up the room that victims leave for a group that cannot run any more: pods or its
    /// PodGroup are missing, or one of its pods has scheduling gates.
    fn give_up_nominations(&mut self, group: &PodGroupKey, cx: &mut Context<'_>) {
        let world = &self.world;
        let waits = || world.is_incomplete(group) || gated_member(group, world).is_some();
        if !world.nominator().is_empty() && waits() {
            self.world.clear_nominations_of_group(group, cx);
        }
    }

    /// Returns the plugin that gates each of these groups.
    fn gates_of(&self, groups: &[PodGroupKey]) -> Vec<Option<PluginName>> {
        let gate_of = |group| self.world.queue().gate_of_group(group).cloned();
        groups.iter().map(gate_of).collect()
    }

    /// Notes the queued members of a group whose PodGroup has changed or is gone, or that is gated
    /// or no longer is.
    fn see_members(&mut self, group: &PodGroupKey, cx: &mut Context<'_>) {
        let members = self.world.queue().members_of(group);
        let members: Vec<PodKey> = members.iter().map(|member| member.pod.key.clone()).collect();
        for member in members {
            self.group_notices.see_pending(&member, &self.world, cx);
        }
    }

    fn handle_changed(&mut self, changed: Changed, cx: &mut Context<'_>) {
        match changed {
            Changed::Bound { pod, node } => {
                self.attempts.records_mut().forget(&pod);
                self.group_notices.forget(&pod);
                self.preemptions.preemptor_leaves(&pod, Some(&node), &mut self.world, cx.now);
                self.attempts.confirmed(&pod, &node, &mut self.world, cx);
            }
            Changed::PendingDeleted(pod) => {
                if let Some(last) = self.attempts.records_mut().forget(&pod) {
                    let pending = last.times.total() + cx.now.since(last.at);
                    cx.probe.count(Count::PendingDeleted { last: &last, pending });
                }
                self.group_notices.forget(&pod);
                let node = self.attempts.node_bound_to(&pod, &self.world);
                self.preemptions.preemptor_leaves(&pod, node.as_deref(), &mut self.world, cx.now);
            }
            Changed::AssumedDeleted(pod) => self.assumed_pod_deleted(&pod, cx),
            Changed::Deleted(pod) => self.notify_of_deletion(&pod, cx),
        }
    }

    /// Frees the room of a deleted pod at once. A pod that waits in Permit is rejected, and its
    /// binding cycle frees the room.
    fn assumed_pod_deleted(&mut self, pod: &Uid, cx: &mut Context<'_>) {
        let placed = self.world.placed(pod).map(|placed| placed.pod.clone());
        let status = Status::unschedulable("removed");
        let Self { attempts, world, .. } = self;
        if !attempts.reject_waiting(pod, status.clone(), world, cx)
            && !attempts.cancel_member(pod, status, world, cx)
        {
            world.forget(pod);
        }
        self.world.move_pods(&ObjectEvent::assigned_pod(ActionType::DELETE, placed, None), cx);
    }

    fn notify_of_deletion(&self, pod: &Pod, cx: &mut Context<'_>) {
        let world = &self.world;
        for profile in world.profiles().iter() {
            for plugin in &profile.pod_deleted {
                let handle = world.handle(cx.now);
                // A panic is counted; the pod is gone all the same.
                let _ = call_beside("PodDeleted", &plugin.name, cx.probe, || {
                    plugin.plugin.pod_deleted(pod, &handle);
                });
            }
        }
    }
}

/// The scheduling cycle (`schedule_one.go` in kube-scheduler).
impl Engine {
    /// Takes the next pod from the queue and tries to schedule it. Returns `None` if no pod is
    /// ready.
    fn schedule_one(&mut self, cx: &mut Context<'_>) -> Option<Attempt> {
        self.report_groups(cx);
        self.quota_statuses.write_due(&mut self.world, cx);
        let queued = match self.world.pop(cx)? {
            QueuedEntity::Pod(queued) => queued,
            QueuedEntity::Group(group) => return Some(self.schedule_group(group, cx)),
        };
        let pod = queued.pod.clone();
        let outcome = match self.profile_to_try(&pod, cx) {
            Some(profile) => self.attempt(queued, &profile, cx),
            None => {
                self.world.done(&pod.uid);
                Outcome::Skipped
            }
        };
        self.world.attempt_ended(&pod, cx);
        Some(Attempt { pod, outcome })
    }

    /// Writes the reports about groups and their members that are due.
    fn report_groups(&mut self, cx: &mut Context<'_>) {
        for incomplete in self.group_notices.notify(&self.world, cx) {
            if let Some(condition) = incomplete.condition(&self.world) {
                let (group, reporter) = (&incomplete.group, &incomplete.reporter);
                let reports = self.attempts.group_reports_mut();
                reports.report(group, condition, reporter, &self.world, cx);
            }
        }
        self.attempts.report_groups(&self.world, cx);
        self.group_statuses.write_due(&self.world, cx);
    }

    /// Returns the profile of the pod, unless an attempt makes no sense.
    fn profile_to_try(&self, pod: &Pod, cx: &mut Context<'_>) -> Option<Arc<Profile>> {
        let profile = self.world.profile_of(pod)?.clone();
        if pod.terminating {
            let note = format!("skip schedule deleting pod: {}", pod.key);
            let event = PodEvent::warning("FailedScheduling", "Scheduling", &note);
            cx.effects.record(pod, &profile.scheduler_name, event);
            return None;
        }
        // A pod that vanished and came back may still have a bind under way, which decides.
        let in_progress = self.world.is_assumed(&pod.uid) || self.is_binding(&pod.uid);
        (!in_progress).then_some(profile)
    }

    fn attempt(
        &mut self,
        queued: QueuedPod,
        profile: &Arc<Profile>,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let uid = queued.pod.uid.clone();
        if queued.history.attempts == 1 {
            report_member_alone(&queued.pod, profile, &self.world, cx);
        }
        cx.probe.start(Span::Attempt(&profile.scheduler_name, &uid));
        let head = Head::of(&queued, self.world.log().state(), cx.now);
        let decision = self.decide(&queued.pod, profile, cx);
        self.decider.proceed(&decision);
        let Self { attempts, world, .. } = self;
        let outcome = attempts.commit(queued, profile, Concluded { decision, head }, world, cx);
        cx.probe.stop(Span::Attempt(&profile.scheduler_name, &uid), outcome.code());
        outcome
    }

    fn decide(&mut self, pod: &Arc<Pod>, profile: &Profile, cx: &mut Context<'_>) -> Decision {
        cx.probe.start(Span::Algorithm);
        self.world.register_queries(pod, profile, cx);
        self.refresh_order(profile);
        let question =
            Question { world: &self.world, profile, pod, within: None, as_member: false };
        let decision = self.decider.decide(question, self.world.log(), cx);
        cx.probe.stop(Span::Algorithm, decision.code());
        decision
    }

    /// Brings the node order up to date, if decisions of the profile look at a sample of the nodes.
    fn refresh_order(&mut self, profile: &Profile) {
        if self.decider.samples(profile) {
            self.world.refresh_node_order();
        }
    }
}

/// Records an event about a pod that is scheduled by itself although it belongs to a PodGroup.
fn report_member_alone(pod: &Pod, profile: &Profile, world: &World, cx: &mut Context<'_>) {
    if world.profiles().schedules_groups() || profile.schedules_groups() {
        return;
    }
    if let Some(note) = member_alone(pod) {
        let event = PodEvent::warning("PodGroupIgnored", "Scheduling", &note);
        cx.effects.record(pod, &profile.scheduler_name, event);
    }
}

/// Returns the resourceVersion of the object in an answer.
fn version_in(answer: &Answer) -> Option<u64> {
    let Answer::Ok(Some(object)) = answer else { return None };
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
