//! The engine: it mediates between the world, the cycles and the machines.
//!
//! Changes enter through [`World::apply`]. A decision reads the world and is a value ([`Decider::decide`]); its commit
//! assumes the pod and starts the binding cycle ([`Attempts::commit`]). Preemptions are a machine above these.

mod remote;
pub(crate) mod supposition;

use std::sync::Arc;

use framework::{
    ActionType, Answer, Command, Handle, Pod, PodKey, QueuedPod, Status, Time, Uid, WaitingPods,
    WallOffset,
};

use crate::attempt::{Attempt, Outcome};
use crate::attempts::Attempts;
use crate::binding::BindingPhases;
use crate::cache::Cache;
use crate::change::Change;
use crate::config::EngineConfig;
use crate::context::{Context, Effects, PodEvent};
use crate::cycle::{Form, Question, Settings};
use crate::decide::{Decider, Decision, Evaluation, gate};
use crate::effect::{Effect, EffectId, EffectKind};
use crate::extender_calls::{ExtenderCalls, ExtenderHealth};
use crate::group_notices::{self, GroupNotices};
use crate::nominator::Nominator;
use crate::object_event::ObjectEvent;
use crate::plugin_call::{HasCode, call_beside};
use crate::plugin_events::record_plugin_event;
use crate::plugin_writes::PluginWrites;
use crate::ports::{Count, Outage, Ports, Span};
use crate::preemption::{self, Preemptions};
use crate::profile::{Profile, Profiles};
use crate::queue::Queue;
use crate::record::{Head, Records};
use crate::timers::{Timers, fire};
use crate::world::{ChangeLog, Changed, World};

/// The deterministic scheduler: changes go in, effects come out.
///
/// It does no I/O and reads no clock. Equal inputs in equal order with an equal seed give equal effects.
#[derive(Debug)]
pub struct Engine {
    world: World,
    decider: Decider,
    attempts: Attempts,
    preemptions: Preemptions,
    plugin_writes: PluginWrites,
    timers: Timers,
    group_notices: GroupNotices,
    effects: Effects,
    extender_health: ExtenderHealth,
}

/// Looking in.
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
            parallelizer: config.parallelizer,
        };
        let mut world = World::new(config.profiles, config.queue);
        world.set_longest_preemption_pause(config.longest_preemption_pause);
        Self {
            world,
            extender_health: ExtenderHealth::new(&settings.extenders),
            attempts: Attempts::new(settings.extenders.clone()),
            decider: Decider::new(settings, config.seed),
            preemptions: Preemptions::default(),
            plugin_writes: PluginWrites::default(),
            timers: Timers::default(),
            group_notices: GroupNotices::default(),
            effects: Effects::default(),
        }
    }

    /// The records of the latest attempts.
    pub const fn records(&self) -> &Records {
        self.attempts.records()
    }

    /// Nodes and the pods on them.
    pub const fn cache(&self) -> &Cache {
        self.world.view().cache()
    }

    /// The scheduling queue.
    pub const fn queue(&self) -> &Queue {
        self.world.queue()
    }

    /// The nominations.
    pub const fn nominator(&self) -> &Nominator {
        self.world.view().nominator()
    }

    /// The changes of nodes and placed pods.
    pub const fn changes(&self) -> &ChangeLog {
        self.world.log()
    }

    /// Number of decisions that looked only at nodes that had changed; see [`Form::Ranked`].
    pub const fn ranked_decisions(&self) -> u64 {
        self.decider.counts().decisions
    }

    /// Number of failed attempts that looked only at nodes that had changed. They are among the
    /// [ranked decisions](Self::ranked_decisions).
    pub const fn repeated_rejections(&self) -> u64 {
        self.decider.counts().repeated_rejections
    }

    /// The profiles.
    pub const fn profiles(&self) -> &Profiles {
        self.world.view().profiles()
    }

    /// The pods that wait in Permit.
    pub const fn waiting_pods(&self) -> &WaitingPods {
        self.world.view().waiting_pods()
    }

    /// Number of pods in a binding cycle.
    pub fn binding_count(&self) -> usize {
        self.attempts.binding().len()
    }

    /// Number of pods in each phase of the binding cycle.
    pub fn binding_phases(&self) -> BindingPhases {
        self.attempts.binding().phases()
    }

    /// Whether the pod is in a binding cycle.
    pub fn is_binding(&self, pod: &Uid) -> bool {
        self.attempts.binding().contains(pod)
    }

    /// The name of each extender, and its outage if it does not answer.
    pub fn extender_outages(&self) -> impl Iterator<Item = (&str, Option<&Outage>)> {
        self.extender_health.outages()
    }

    /// The pods without a node that a profile is responsible for, as last seen.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.world.view().pending().values()
    }

    /// The pod of this name without a node, as last seen.
    pub fn pending_pod(&self, pod: &PodKey) -> Option<&Arc<Pod>> {
        self.world.view().pending().get(pod)
    }

    /// Whether the gate of groups keeps a pending pod back.
    pub fn is_gated_by_group(&self, pod: &Pod) -> bool {
        group_notices::is_gated(pod, self.world.queue())
    }

    /// Whether victims of this pod are still to be evicted.
    pub fn is_preempting(&self, preemptor: &Uid) -> bool {
        self.world.view().preemptions().is_running(preemptor)
    }

    /// Returns whether a request to evict a pod waits for its answer, or was answered and the watch does
    /// not show the end of the pod yet.
    pub fn is_evicting(&self, victim: &Uid) -> bool {
        self.preemptions.is_evicting(victim)
    }

    /// Returns the handle that a plugin would get at `now`. Commands given through it are applied with
    /// the next call into the engine.
    pub fn handle(&self, now: Time) -> Handle<'_> {
        self.world.view().handle(now)
    }

    /// Returns the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.effects.take()
    }

    /// Returns the time at which [`tick`](Self::tick) has work to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.world.queue().next_deadline(),
            self.world.next_permit_deadline(),
            self.attempts.binding().next_deadline(),
            self.preemptions.next_deadline(),
            self.timers.next_deadline(),
            self.group_notices.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}

/// Inputs.
impl Engine {
    /// Takes in the new state of an object.
    pub fn apply(&mut self, change: Change, now: Time, ports: &mut Ports<'_>) {
        self.run(now, ports, |engine, cx| {
            if let Some(deletion) = engine.world.implied_deletion(&change) {
                engine.apply_change(deletion, cx);
            }
            engine.apply_change(change, cx);
        });
    }

    /// Takes in the answer to an effect. Answers that no machine waits for are ignored.
    pub fn answer(&mut self, effect: EffectId, answer: &Answer, now: Time, ports: &mut Ports<'_>) {
        self.run(now, ports, |engine, cx| {
            let Self { attempts, preemptions, world, .. } = engine;
            attempts.answer(effect, answer, world, cx);
            preemptions.answer(effect, answer, world, attempts, cx);
            if let Some((pod, uid)) = engine.plugin_writes.answer(effect, answer, cx) {
                engine.world.retry_pending_after_error(&pod, &uid, cx);
            }
            if let Some(version) = version_in(answer) {
                engine.world.nomination_answered(effect, version, cx);
            }
        });
    }

    /// Takes in the outcome of a [probe](crate::ports::ExtenderClient::probe): whether the extender answered.
    /// Pods that need it are tried again when their backoff has ended.
    pub fn extender_probed(
        &mut self,
        extender: usize,
        outcome: Result<(), String>,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        self.run(now, ports, |_, cx| cx.extenders.probed(extender, outcome, now));
    }

    /// Takes in the time: backoffs, timeouts, pauses and timers that have ended.
    pub fn tick(&mut self, now: Time, ports: &mut Ports<'_>) {
        self.run(now, ports, |engine, cx| {
            engine.world.flush_queue(cx);
            engine.group_notices.tick(cx.now);
            engine.attempts.tick(&mut engine.world, cx);
            while let Some(victim) = engine.preemptions.pop_overdue_removal(cx.now) {
                engine.preemptions.victim_ends(&victim, &mut engine.world);
            }
            while let Some(pod) = engine.preemptions.pop_ended_pause(cx.now) {
                engine.world.activate(&[pod], cx);
            }
            while let Some((plugin, token)) = engine.timers.pop_due(cx.now) {
                fire(&plugin, token, engine.world.view(), cx);
            }
        });
    }

    /// Sets the offset of the wall clock, for plugins that compare the time with time stamps of objects.
    pub const fn set_wall_offset(&mut self, offset: WallOffset) {
        self.world.set_wall_offset(offset);
    }

    /// Asks for a change of the pod's resourceVersion ([`EffectKind::TouchPod`]). The caller handles the
    /// answer.
    pub fn touch(&mut self, pod: &Pod) -> EffectId {
        self.effects.emit(EffectKind::TouchPod {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            observed_generation: pod.generation.into(),
            resource_version: pod.resource_version,
            has_condition: pod.scheduled_condition.is_some(),
        })
    }

    /// Takes the next pod from the queue and tries to schedule it. Returns `None` if no pod is ready.
    pub fn schedule_one(&mut self, now: Time, ports: &mut Ports<'_>) -> Option<Attempt> {
        self.run(now, ports, |engine, cx| {
            engine.group_notices.notify(engine.world.view(), cx);
            let queued = engine.world.pop(cx)?;
            let pod = queued.pod.clone();
            let outcome = match engine.profile_to_try(&pod, cx) {
                Some(profile) => engine.attempt(queued, &profile, cx),
                None => {
                    engine.world.done(&pod.uid);
                    Outcome::Skipped
                }
            };
            engine.world.attempt_ended(&pod, cx);
            Some(Attempt { pod, outcome })
        })
    }

    /// Evaluates `pod` against the cluster as it is, by this form of the plugins. With `start`, a
    /// sampled search starts there.
    ///
    /// Returns `None` if no profile is responsible for the pod.
    pub fn evaluate(
        &mut self,
        pod: &Arc<Pod>,
        form: Form,
        start: Option<usize>,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Option<Evaluation> {
        self.ask(pod, now, ports, |decider, question, cx| {
            decider.evaluate(question, form, start, cx)
        })
    }

    /// Returns the status of the first PreEnqueue plugin that gates `pod`, and changes nothing.
    pub fn gate(&mut self, pod: &Pod, now: Time, ports: &mut Ports<'_>) -> Option<Status> {
        self.run(now, ports, |engine, cx| {
            let view = engine.world.view();
            gate(view, view.profile_of(pod)?, pod, cx)
        })
    }

    /// Asks about a pod on the cluster as it is. Returns `None` if no profile is responsible for the pod.
    fn ask<T>(
        &mut self,
        pod: &Arc<Pod>,
        now: Time,
        ports: &mut Ports<'_>,
        ask: impl FnOnce(&Decider, Question<'_>, &mut Context<'_>) -> T,
    ) -> Option<T> {
        self.run(now, ports, |engine, cx| {
            let profile = engine.world.view().profile_of(pod)?.clone();
            engine.refresh_order(&profile);
            let question =
                Question { view: engine.world.view(), profile: &profile, pod, within: None };
            Some(ask(&engine.decider, question, cx))
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
                self.world.view().wall_offset(),
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

/// Changes.
impl Engine {
    fn apply_change(&mut self, change: Change, cx: &mut Context<'_>) {
        let object = self.attempts.binding().wait_for_changes().then(|| change.object());
        if let Some(pod) = change.ending_pod() {
            // Before any pod is moved: a preemptor whose last victim ends is no longer gated.
            self.preemptions.victim_ends(pod, &mut self.world);
        }
        if let Some(pod) = change.pod_to_be_removed() {
            self.preemptions.removal_follows(pod, cx.now);
        }
        let left = match &change {
            Change::PodDeleted { uid, .. } => self.world.view().cache().placed(uid),
            _ => None,
        };
        let left = left.map(|gone| self.world.view().cluster().node_name(gone.node).clone());
        let grouped = match &change {
            Change::Pod(pod) => pod.node_name.is_none().then(|| pod.key.clone()),
            _ => None,
        };
        for changed in self.world.apply(change, cx) {
            self.handle_changed(changed, cx);
        }
        if let Some(pod) = grouped {
            self.group_notices.see_pending(&pod, &self.world, cx.now);
        }
        if let Some(node) = left {
            preemption::activate_gated_on(&node, &mut self.world, cx);
        }
        if let Some(object) = object {
            self.attempts.object_changed(&object, &mut self.world, cx);
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
                let node = self.attempts.node_bound_to(&pod, self.world.view());
                self.preemptions.preemptor_leaves(&pod, node.as_deref(), &mut self.world, cx.now);
            }
            Changed::AssumedDeleted(pod) => self.assumed_pod_deleted(&pod, cx),
            Changed::Deleted(pod) => self.notify_of_deletion(&pod, cx),
        }
    }

    /// Frees the room of a deleted pod at once. A pod that waits in Permit is rejected, and its binding
    /// cycle frees the room.
    fn assumed_pod_deleted(&mut self, pod: &Uid, cx: &mut Context<'_>) {
        let placed = self.cache().placed(pod).map(|placed| placed.pod.clone());
        let status = Status::unschedulable("removed");
        if !self.attempts.reject_waiting(pod, status, &mut self.world, cx) {
            self.world.forget(pod);
        }
        self.world.move_pods(&ObjectEvent::assigned_pod(ActionType::DELETE, placed, None), cx);
    }

    fn notify_of_deletion(&self, pod: &Pod, cx: &mut Context<'_>) {
        let view = self.world.view();
        for profile in view.profiles().iter() {
            for plugin in &profile.pod_deleted {
                let handle = view.handle(cx.now);
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
    /// Returns the profile of the pod, unless an attempt makes no sense.
    fn profile_to_try(&self, pod: &Pod, cx: &mut Context<'_>) -> Option<Arc<Profile>> {
        let profile = self.world.view().profile_of(pod)?.clone();
        if pod.terminating {
            let note = format!("skip schedule deleting pod: {}", pod.key);
            let event = PodEvent::warning("FailedScheduling", "Scheduling", &note);
            cx.effects.record(pod, &profile.scheduler_name, event);
            return None;
        }
        // A pod that vanished and came back may still have a bind under way, which decides.
        let in_progress = self.cache().is_assumed(&pod.uid) || self.is_binding(&pod.uid);
        (!in_progress).then_some(profile)
    }

    fn attempt(
        &mut self,
        queued: QueuedPod,
        profile: &Arc<Profile>,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let uid = queued.pod.uid.clone();
        cx.probe.start(Span::Attempt(&profile.scheduler_name, &uid));
        let head = Head::of(&queued, self.world.log().state(), cx.now);
        let decision = self.decide(&queued.pod, profile, cx);
        self.decider.proceed(&decision);
        let Self { attempts, world, .. } = self;
        let outcome = attempts.commit(queued, profile, (decision, head), world, cx);
        cx.probe.stop(Span::Attempt(&profile.scheduler_name, &uid), outcome.code());
        outcome
    }

    fn decide(&mut self, pod: &Arc<Pod>, profile: &Profile, cx: &mut Context<'_>) -> Decision {
        cx.probe.start(Span::Algorithm);
        self.world.register_queries(pod, profile, cx);
        self.refresh_order(profile);
        let question = Question { view: self.world.view(), profile, pod, within: None };
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

/// Commands of plugins.
impl Engine {
    /// Applies the commands that plugins gave through their handle, until there are no more: a command
    /// may run plugins that give further commands.
    fn apply_commands(&mut self, cx: &mut Context<'_>) {
        while !self.world.view().commands().is_empty() {
            for command in self.world.view().commands().take() {
                self.apply_command(command, cx);
            }
        }
    }

    fn apply_command(&mut self, command: Command, cx: &mut Context<'_>) {
        match command {
            Command::Allow { pod, plugin } => {
                self.attempts.allow(pod, &plugin, &mut self.world, cx);
            }
            Command::Reject { pod, plugin, message } => {
                let status = Status::unschedulable(message).by(&plugin);
                self.attempts.reject_waiting(&pod, status, &mut self.world, cx);
            }
            Command::Activate(pods) => self.world.activate(&pods, cx),
            Command::Preempt(preemption) => {
                let Self { preemptions, world, attempts, .. } = self;
                preemptions.start(preemption, world, attempts, cx);
            }
            Command::PausePreemption { preemptor, uid, pause } => {
                self.preemptions.pause(preemptor, &uid, &pause, &self.world, cx);
            }
            Command::SetTimer { plugin, at, token } => self.timers.set(plugin, token, at),
            Command::Event(event) => record_plugin_event(event, self.world.view(), cx),
            Command::Write { pod, uid, write } => self.plugin_writes.request(pod, uid, write, cx),
            Command::ObjectChanged { kind, old, new } => {
                self.world.handle_update(kind, old, new, cx);
            }
            _ => {}
        }
    }
}

/// Returns the resourceVersion of the object in an answer.
fn version_in(answer: &Answer) -> Option<u64> {
    let Answer::Ok(Some(object)) = answer else { return None };
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
