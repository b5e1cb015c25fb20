//! The engine: it mediates between the world, the cycles and the machines.
//!
//! Changes enter through [`World::apply`], attempts run a [`Cycle`] on the world's view, binding cycles
//! and preemptions are machines of their own. None of them calls another: each returns what happened,
//! and the engine passes it on.

mod remote;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use framework::preemption::LONGEST_PAUSE;
use framework::{
    ActionType, Answer, Code, Command, CycleState, ExtensionPoint, Handle, NominatingInfo,
    PluginName, Pod, PodEvent as PluginEvent, PodKey, PostFilterResult, QueuedPod, Status,
    StatusPatch, Template, Time, Uid, WaitingPods, WallOffset,
};

use crate::attempt::{Attempt, Outcome};
use crate::binding::{BindingCycle, BindingCycles, BindingPhases, Decided, Transition};
use crate::cache::Cache;
use crate::change::Change;
use crate::context::{Context, Effects, PodEvent};
use crate::cycle::{
    Cycle, Extender, FitError, Form, NO_NODES, Placement, PostFilter, Ranker, Sampling,
    ScheduleError, Scratch, Search, Settings, Subject, TieBreak,
};
use crate::effect::{Effect, EffectId, EffectKind, Event, note};
use crate::explain::{Evaluation, Explanation, Trial};
use crate::extender_calls::{ExtenderCalls, ExtenderHealth};
use crate::failure::Failure;
use crate::group_notices::GroupNotices;
use crate::nominator::Nominator;
use crate::object_event::ObjectEvent;
use crate::plugin_call::{HasCode, call_beside, call_plugin};
use crate::plugin_writes::PluginWrites;
use crate::ports::{Count, Outage, Parallelizer, Ports, Span};
use crate::preemption::{self, Preemptions};
use crate::profile::{GROUP_GATE, Profile, Profiles, gated_condition};
use crate::queue::{Queue, QueueConfig};
use crate::ranking::{Class, Rankings};
use crate::record::{Choice, Finding, Head, Records, cut, small};
use crate::timers::Timers;
use crate::world::{ChangeLog, Changed, World};

pub use self::remote::Settled;

/// The configuration of an engine.
pub struct EngineConfig {
    /// The profiles.
    pub profiles: Profiles,
    /// Percentage of nodes to score; 0 means all.
    pub percentage_of_nodes_to_score: i32,
    /// Gives a percentage of 0 the meaning it has in kube-scheduler: a share that shrinks with the
    /// cluster.
    pub adaptive_sampling: bool,
    /// Backoffs and timeouts of the queue.
    pub queue: QueueConfig,
    /// Extenders, the ignorable ones last.
    pub extenders: Vec<Extender>,
    /// Seed of every random choice.
    pub seed: u64,
    /// How one of several best nodes is chosen.
    pub tie_break: TieBreak,
    /// Which form of the plugins decides. Both give the same decision.
    pub form: Form,
    /// One decision in so many that looked only at changed nodes is made again by a full pass.
    pub check_rankings_one_in: u64,
    /// Longest pause of preemption after preemptions that led to no binding; zero for no pauses.
    pub longest_preemption_pause: Duration,
    /// Runs the parts of passes over many nodes. Decisions do not depend on it.
    pub parallelizer: Box<dyn Parallelizer>,
}

impl EngineConfig {
    /// The defaults with these profiles.
    pub fn new(profiles: Profiles) -> Self {
        Self {
            profiles,
            percentage_of_nodes_to_score: 0,
            adaptive_sampling: false,
            queue: QueueConfig::default(),
            extenders: Vec::new(),
            seed: 0,
            tie_break: TieBreak::default(),
            form: Form::default(),
            check_rankings_one_in: 1024,
            longest_preemption_pause: LONGEST_PAUSE,
            parallelizer: Box::new(()),
        }
    }
}

/// The deterministic scheduler: changes go in, effects come out.
///
/// It does no I/O and reads no clock. Equal inputs in equal order with an equal seed give equal effects.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    world: World,
    binding: BindingCycles,
    preemptions: Preemptions,
    plugin_writes: PluginWrites,
    timers: Timers,
    group_notices: GroupNotices,
    rng: fastrand::Rng,
    scratch: Scratch,
    rankings: Rankings,
    /// Where the next sampled search starts in the node order.
    next_start: usize,
    effects: Effects,
    extender_health: ExtenderHealth,
    /// Pods in a binding cycle that a placement began.
    placed: BTreeSet<Uid>,
    /// How such binding cycles ended.
    settled: Vec<Settled>,
    records: Records,
}

/// Looking in.
impl Engine {
    /// Makes an engine that knows no object.
    pub fn new(config: EngineConfig) -> Self {
        let extenders: Arc<[Extender]> = config.extenders.into();
        let mut world = World::new(config.profiles, config.queue);
        world.preemptions_mut().fruitless_mut().set_longest_pause(config.longest_preemption_pause);
        Self {
            settings: Settings {
                percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
                adaptive_sampling: config.adaptive_sampling,
                extenders: extenders.clone(),
                tie_break: config.tie_break,
                form: config.form,
                check_rankings_one_in: config.check_rankings_one_in.max(1),
                parallelizer: config.parallelizer,
            },
            world,
            extender_health: ExtenderHealth::new(&extenders),
            binding: BindingCycles::new(extenders),
            preemptions: Preemptions::default(),
            plugin_writes: PluginWrites::default(),
            timers: Timers::default(),
            group_notices: GroupNotices::default(),
            rng: fastrand::Rng::with_seed(config.seed),
            scratch: Scratch::default(),
            rankings: Rankings::default(),
            next_start: 0,
            effects: Effects::default(),
            placed: BTreeSet::new(),
            settled: Vec::new(),
            records: Records::default(),
        }
    }

    /// The records of the latest attempts.
    pub const fn records(&self) -> &Records {
        &self.records
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
        self.rankings.decisions()
    }

    /// Number of failed attempts that looked only at nodes that had changed. They are among the
    /// [ranked decisions](Self::ranked_decisions).
    pub const fn repeated_rejections(&self) -> u64 {
        self.rankings.repeated_rejections()
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
        self.binding.len()
    }

    /// Number of pods in each phase of the binding cycle.
    pub fn binding_phases(&self) -> BindingPhases {
        self.binding.phases()
    }

    /// Whether the pod is in a binding cycle.
    pub fn is_binding(&self, pod: &Uid) -> bool {
        self.binding.contains(pod)
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
            self.binding.next_deadline(),
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
            let transition = engine.binding.answer(effect, answer, engine.world.view(), cx);
            engine.apply_transition(transition, cx);
            let preemption = engine.preemptions.answer(effect, answer, &mut engine.world, cx);
            if let Some(preemption) = preemption {
                engine.advance_preemption(preemption, cx);
            }
            if let Some((pod, uid)) = engine.plugin_writes.answer(effect, answer, cx) {
                engine.world.retry_pending_after_error(&pod, &uid, cx);
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
            while let Some(wait) = engine.world.first_expired_wait(cx) {
                engine.reject_waiting(&wait.pod, wait.status(), cx);
            }
            for pod in engine.binding.expired(cx.now) {
                let transition = engine.binding.timed_out(&pod, engine.world.view(), cx);
                engine.apply_transition(transition, cx);
            }
            while let Some(victim) = engine.preemptions.pop_overdue_removal(cx.now) {
                engine.preemptions.victim_ends(&victim, &mut engine.world);
            }
            while let Some(pod) = engine.preemptions.pop_ended_pause(cx.now) {
                engine.world.activate(&[pod], cx);
            }
            while let Some((plugin, token)) = engine.timers.pop_due(cx.now) {
                engine.fire_timer(&plugin, token, cx);
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
            engine.notify_gated_members(cx);
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
        self.run(now, ports, |engine, cx| {
            let profile = engine.world.view().profile_of(pod)?.clone();
            engine.prepare_sampling(&profile);
            let explanation = Explanation {
                next_start: start.unwrap_or(engine.next_start),
                ..engine.explanation()
            };
            Some(explanation.evaluate(&profile, pod, form, cx))
        })
    }

    /// Tries `pod` on the cluster as it is, also with evictions, and changes nothing: not the decision records,
    /// not the seeded generator. Returns `None` if no profile is responsible for the pod.
    pub fn try_pod(&mut self, pod: &Arc<Pod>, now: Time, ports: &mut Ports<'_>) -> Option<Trial> {
        self.run(now, ports, |engine, cx| {
            let profile = engine.world.view().profile_of(pod)?.clone();
            engine.prepare_sampling(&profile);
            Some(engine.explanation().try_pod(&profile, pod, cx))
        })
    }

    /// Returns the status of the first PreEnqueue plugin that gates `pod`, and changes nothing.
    pub fn gate(&mut self, pod: &Pod, now: Time, ports: &mut Ports<'_>) -> Option<Status> {
        self.run(now, ports, |engine, cx| {
            let profile = engine.world.view().profile_of(pod)?.clone();
            engine.explanation().gate(&profile, pod, cx)
        })
    }

    fn explanation(&self) -> Explanation<'_> {
        Explanation {
            view: self.world.view(),
            settings: &self.settings,
            rng: self.rng.clone(),
            next_start: self.next_start,
        }
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
        let object = self.binding.wait_for_changes().then(|| change.object());
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
            self.see_group_gate(&pod, cx.now);
        }
        if let Some(node) = left {
            preemption::activate_gated_on(&node, &mut self.world, cx);
        }
        if let Some(object) = object {
            for pod in self.binding.waiting_for(&object) {
                let view = self.world.view();
                let transition = self.binding.object_changed(&pod, &object, view, cx);
                self.apply_transition(transition, cx);
            }
        }
    }

    /// Takes in whether the gate of groups keeps a pod back.
    fn see_group_gate(&mut self, pod: &PodKey, now: Time) {
        let Some(known) = self.pending_pod(pod).cloned() else { return };
        let queued = self.queue().get(pod).map(|(_, queued)| queued);
        let gate = queued.and_then(|queued| queued.gating_plugin.as_deref());
        let is_gated = gate == Some(GROUP_GATE);
        self.group_notices.see(&known, is_gated, now);
    }

    /// Reports the gate of groups to some of the pods that it keeps back, as condition and event.
    fn notify_gated_members(&mut self, cx: &mut Context<'_>) {
        while let Some(key) = self.group_notices.pop(cx.now) {
            let Some(pod) = self.pending_pod(&key) else { continue };
            let Some(condition) = gated_condition(pod) else { continue };
            let event = PodEvent::warning("FailedScheduling", "Scheduling", &condition.message);
            cx.effects.record(pod, &pod.spec.scheduler_name, event);
            let patch =
                StatusPatch { condition: Some(condition.clone()), nominated_node_name: None };
            cx.effects.patch_pod_status(pod, patch);
        }
    }

    fn handle_changed(&mut self, changed: Changed, cx: &mut Context<'_>) {
        match changed {
            Changed::Bound { pod, node } => {
                self.records.forget(&pod);
                self.group_notices.forget(&pod);
                self.preemptions.preemptor_leaves(&pod, Some(&node), &mut self.world, cx.now);
                let transition = self.binding.confirmed(&pod, &node, cx);
                self.apply_transition(transition, cx);
            }
            Changed::PendingDeleted(pod) => {
                if let Some(last) = self.records.forget(&pod) {
                    let pending = last.times.total() + cx.now.since(last.at);
                    cx.probe.count(Count::PendingDeleted { last: &last, pending });
                }
                self.group_notices.forget(&pod);
                let node = self.node_bound_to(&pod);
                self.preemptions.preemptor_leaves(&pod, node.as_deref(), &mut self.world, cx.now);
            }
            Changed::AssumedDeleted(pod) => self.assumed_pod_deleted(&pod, cx),
            Changed::Deleted(pod) => self.notify_of_deletion(&pod, cx),
        }
    }

    /// Returns the node that a pod was bound to by a Binding that has succeeded, until the watch shows that.
    fn node_bound_to(&self, pod: &Uid) -> Option<Arc<str>> {
        let placed = self.cache().placed(pod).filter(|_| !self.binding.contains(pod))?;
        Some(self.cache().cluster().node_name(placed.node).clone())
    }

    /// Frees the room of a deleted pod at once. A pod that waits in Permit is rejected, and its binding
    /// cycle frees the room.
    fn assumed_pod_deleted(&mut self, pod: &Uid, cx: &mut Context<'_>) {
        let placed = self.cache().placed(pod).map(|placed| placed.pod.clone());
        if !self.reject_waiting(pod, Status::unschedulable("removed"), cx) {
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
        let in_progress = self.cache().is_assumed(&pod.uid) || self.binding.contains(&pod.uid);
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
        let mut state = CycleState::new();
        let head = Head::of(&queued, self.world.log().state(), cx.now);
        cx.probe.start(Span::Algorithm);
        let found = self
            .find_node(&queued.pod, profile, &mut state, cx)
            .map_err(|error| self.diagnose(error, &queued.pod, profile, &mut state, cx));
        let code = found.as_ref().map_or_else(|(failure, _)| failure.code(), |_| Code::Success);
        cx.probe.stop(Span::Algorithm, code);
        let (outcome, finding) = match found {
            Ok(choice) => {
                state.end_search();
                let outcome = self.assume_and_bind(queued, profile, choice.clone(), state, cx);
                let finding = match &outcome {
                    Outcome::Assumed(_) => Finding::Chosen(choice),
                    Outcome::Unschedulable(message) | Outcome::Error(message) => {
                        failed(&format!("on node {}: {message}", choice.node))
                    }
                    Outcome::Skipped => failed("another pod of this name has replaced the pod"),
                };
                (outcome, finding)
            }
            Err((failure, finding)) => {
                (failure.handle(queued, profile, &mut self.world, cx), finding)
            }
        };
        let is_pending = !matches!(outcome, Outcome::Skipped);
        self.records.push(head.found(finding), is_pending);
        cx.probe.stop(Span::Attempt(&profile.scheduler_name, &uid), outcome.code());
        outcome
    }

    fn find_node(
        &mut self,
        pod: &Arc<Pod>,
        profile: &Profile,
        state: &mut CycleState,
        cx: &mut Context<'_>,
    ) -> Result<Choice, ScheduleError> {
        self.register_queries(pod, profile, cx);
        self.prepare_sampling(profile);
        let subject = Subject { profile, pod, state };
        let ranker = Ranker { rankings: &mut self.rankings, log: self.world.log().reader() };
        let search = Search {
            scratch: &mut self.scratch,
            next_start: &mut self.next_start,
            ranker: Some(ranker),
            rng: &mut self.rng,
        };
        let chosen = Cycle::new(self.world.view(), &self.settings, subject, search, cx).run()?;
        Ok(Choice {
            node: self.cache().cluster().node_name(chosen.node).clone(),
            ties: chosen.ties as u64,
            total: chosen.total,
            feasible: small(chosen.feasible),
            evaluated: small(chosen.evaluated),
        })
    }

    /// Registers the queries whose answers the plugins of the profile read in this attempt. A panic is
    /// counted; the plugin panics again at its extension point, which fails the attempt.
    fn register_queries(&mut self, pod: &Pod, profile: &Profile, cx: &mut Context<'_>) {
        for plugin in &profile.standing_queries {
            let handle = self.world.view().handle(cx.now);
            let queries = call_beside("StandingQueries", &plugin.name, cx.probe, || {
                plugin.plugin.queries(pod, &handle)
            });
            queries.iter().flatten().for_each(|query| self.world.register_query(query));
        }
    }

    fn prepare_sampling(&mut self, profile: &Profile) {
        if self.settings.sampling(profile) != Sampling::All {
            self.world.refresh_node_order();
        }
    }

    /// Runs PostFilter if no node fits, and returns the failure of the attempt, also for its record.
    fn diagnose(
        &mut self,
        error: ScheduleError,
        pod: &Arc<Pod>,
        profile: &Profile,
        state: &mut CycleState,
        cx: &mut Context<'_>,
    ) -> (Failure, Finding) {
        let mut fit = match error {
            ScheduleError::Fit(fit) => fit,
            ScheduleError::NoNodes => return failed_with(&Status::unresolvable(NO_NODES)),
            ScheduleError::Error(status) => return failed_with(&status),
        };
        let subject = Subject { profile, pod, state };
        let result = self.post_filter(&mut fit, subject, cx);
        let template_rejected = self.is_template_rejected(pod, profile, &fit, &result, cx.now);
        let victims = self.world.view().commands().find_map(|command| match command {
            Command::Preempt(preemption) if preemption.uid == pod.uid => {
                Some(preemption.victims.iter().map(|victim| victim.key.clone()).collect())
            }
            _ => None,
        });
        let victims: Vec<PodKey> = victims.unwrap_or_default();
        let cluster = self.world.view().cache().cluster();
        let rejected = self.records.rejected(&fit, &result, &victims, cluster);
        let failure = Failure::fit(*fit, result.nominating).of_template(template_rejected);
        (failure, Finding::Rejected(rejected))
    }

    /// Whether an attempt that found no node says that no node can take any pod of the template: its
    /// rejectors decide by template, and neither evictions nor nominations are involved, which belong to
    /// single pods. An extender may decide by anything.
    fn is_template_rejected(
        &self,
        pod: &Pod,
        profile: &Profile,
        fit: &FitError,
        post_filter: &PostFilterResult,
        now: Time,
    ) -> bool {
        let by_template = |name: &PluginName| {
            profile.plugins.get(name).is_some_and(|plugin| plugin.decides_by_template)
        };
        let mut deciding = fit.diagnosis.unschedulable_plugins.iter();
        let nominates = match &post_filter.nominating {
            NominatingInfo::Override(node) => !node.is_empty(),
            NominatingInfo::Noop => false,
        };
        let fruitless = self.world.view().preemptions().fruitless();
        self.settings.extenders.is_empty()
            && Template::describes(pod)
            && fit.diagnosis.pending_plugins.is_empty()
            && deciding.all(by_template)
            && profile.post_filter.iter().all(|plugin| by_template(&plugin.name))
            && (profile.post_filter.is_empty() || !post_filter.status.is_success())
            && !nominates
            // A command, for example a write, may help this pod alone.
            && self.world.view().commands().is_empty()
            && pod.nominated_node_name().is_none()
            && self.nominator().node_of(&pod.uid).is_none()
            && !fruitless.concern(pod, now)
    }

    fn post_filter(
        &mut self,
        fit: &mut FitError,
        mut subject: Subject<'_>,
        cx: &mut Context<'_>,
    ) -> PostFilterResult {
        let profile = subject.profile;
        if profile.post_filter.is_empty() {
            let nominating = Failure::clear_nomination();
            return PostFilterResult { nominating, ..PostFilterResult::default() };
        }
        let span = Span::Point(ExtensionPoint::PostFilter.into(), &profile.scheduler_name);
        cx.probe.start(span);
        let (class, log) = (Class::of(profile, subject.pod), self.world.log());
        let verdicts = &fit.diagnosis.verdicts;
        let own = class.as_ref().and_then(|class| self.rankings.known_mut(class));
        let kept = own.and_then(|own| own.failures.resume_post_filter(verdicts, log));
        let are_local = kept.is_some();
        kept.into_iter().for_each(|kept| subject.state.resume(kept));
        let (view, settings, rng) = (self.world.view(), &self.settings, &mut self.rng);
        let mut post_filter = PostFilter { view, settings, rng, are_local };
        let result = post_filter.run(&mut subject, verdicts, cx);
        let own = class.filter(|_| are_local).and_then(|class| self.rankings.known_mut(&class));
        if let Some(own) = own {
            own.failures.suspend_post_filter(subject.state.suspend(), log);
        }
        cx.probe.stop(span, result.status.code());
        fit.diagnosis.post_filter_message = result.status.message();
        result
    }

    /// Assumes the pod on the node, runs Reserve and Permit, and starts the binding cycle.
    fn assume_and_bind(
        &mut self,
        queued: QueuedPod,
        profile: &Arc<Profile>,
        choice: Choice,
        mut state: CycleState,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let node = choice.node.clone();
        let pod = match self.world.assume(&queued.pod, &node) {
            Ok(assumed) => assumed,
            Err(error) => {
                let failure = Failure::error(&Status::error(error.to_string()));
                return failure.handle(queued, profile, &mut self.world, cx);
            }
        };
        let view = self.world.view();
        let mut placement = Placement { view, profile, pod: &pod, node: &node, state: &mut state };
        match placement.reserve_and_permit(cx) {
            Ok(waiting) => {
                let waits = waiting.is_some();
                waiting.into_iter().for_each(|pod| self.world.wait_on_permit(pod));
                let decided = Decided { queued, profile: profile.clone(), choice };
                let cycle = BindingCycle::new(decided, pod, state, cx.now);
                let transition = self.binding.start(cycle, waits, self.world.view(), cx);
                self.apply_transition(transition, cx);
                Outcome::Assumed(node)
            }
            Err(status) => {
                placement.unreserve(cx);
                self.world.forget(&pod.uid);
                Failure::of_chosen_node(status).handle(queued, profile, &mut self.world, cx)
            }
        }
    }
}

fn failed(message: &str) -> Finding {
    Finding::Failed(cut(message).into())
}

fn failed_with(status: &Status) -> (Failure, Finding) {
    (Failure::error(status), failed(&status.message()))
}

/// Binding cycles.
impl Engine {
    /// Acts on the transition of a binding cycle: runs PreBind, reports the bind, or undoes the attempt.
    fn apply_transition(&mut self, mut transition: Transition, cx: &mut Context<'_>) {
        if let Transition::Permitted(pod) = transition {
            // From here on no event can help the pod.
            self.world.done(&pod);
            transition = self.binding.permitted(&pod, self.world.view(), cx);
        }
        match transition {
            Transition::Waiting | Transition::Permitted(_) => {}
            Transition::Bound(cycle) => self.bound(&cycle, cx),
            Transition::Failed(cycle, status) => {
                self.world.remove_waiting(&cycle.pod.uid);
                let failure = Failure::error(&status);
                self.binding_failed(*cycle, &status, failure, cx);
            }
            Transition::Outdated(cycle) => self.decide_again(*cycle, cx),
        }
    }

    fn bound(&mut self, cycle: &BindingCycle, cx: &mut Context<'_>) {
        self.settle(&cycle.pod.uid, Ok(cycle.node.clone()));
        let (profile, queued) = (&cycle.profile, &cycle.queued);
        let note = format!("Successfully assigned {} to {}", cycle.pod.key, cycle.node);
        let event = PodEvent::normal("Scheduled", "Binding", &note);
        cx.effects.record(&cycle.pod, &profile.scheduler_name, event);
        cx.probe.count(Count::Attempt { result: "scheduled", profile: &profile.scheduler_name });
        cx.probe.count(Count::Scheduled {
            pod: &cycle.pod,
            choice: &cycle.choice,
            profile: &profile.scheduler_name,
            attempts: queued.attempts,
            took: cx.now.since(cycle.since),
            since_first_active: cx.now.since(queued.initial_attempt.unwrap_or(cycle.since)),
            after_flush: queued.flushed,
            times: queued.times,
        });
        let span = Span::Point(ExtensionPoint::PostBind.into(), &profile.scheduler_name);
        cx.probe.start(span);
        for plugin in &profile.post_bind {
            let handle = self.world.view().handle(cx.now);
            // A panic is counted; the pod is bound.
            let _ = call_plugin(ExtensionPoint::PostBind, &plugin.name, cx.probe, || {
                plugin.plugin.post_bind(&cycle.state, &cycle.pod, &cycle.node, &handle);
            });
        }
        cx.probe.stop(span, Code::Success);
    }

    /// Handles a failed binding cycle (`handleBindingCycleError`): runs Unreserve, forgets and requeues the
    /// pod, and moves the pods that may use its room.
    fn binding_failed(
        &mut self,
        mut cycle: BindingCycle,
        status: &Status,
        failure: Failure,
        cx: &mut Context<'_>,
    ) {
        let pod = cycle.pod.clone();
        self.settle(&pod.uid, Err(status.message()));
        self.undo(&mut cycle, cx);
        let rejected = status.is_rejection();
        cx.probe.count(Count::BindingFailed {
            result: if rejected { "unschedulable" } else { "error" },
            profile: &cycle.profile.scheduler_name,
            took: cx.now.since(cycle.since),
        });
        if !rejected {
            self.room_freed(&pod, cx);
        }
        let head = Head::of(&cycle.queued, self.world.log().state(), cx.now);
        let text = format!("on node {}: {}", cycle.node, status.message());
        // The pod may be gone, and then nothing would forget a record beside it.
        let pending = self.pending_pod(&pod.key);
        let is_pending = pending.is_some_and(|pending| pending.uid == pod.uid);
        self.records.push(head.found(failed(&text)), is_pending);
        let failure = failure.after_nomination(cycle.nominated);
        failure.handle(cycle.queued, &cycle.profile, &mut self.world, cx);
        if rejected {
            self.world.move_others(pod, cx);
        }
    }

    /// Undoes the attempt of a pod whose specification has changed, and tries the pod again at once: the
    /// attempt did not fail.
    fn decide_again(&mut self, mut cycle: BindingCycle, cx: &mut Context<'_>) {
        self.settle(&cycle.pod.uid, Err("the pod has changed".to_owned()));
        self.undo(&mut cycle, cx);
        self.room_freed(&cycle.pod, cx);
        self.world.requeue_outdated(cycle.queued, cx);
    }

    /// Runs Unreserve and forgets the pod.
    fn undo(&mut self, cycle: &mut BindingCycle, cx: &mut Context<'_>) {
        let (pod, node) = (&cycle.pod, &cycle.node);
        let (view, profile, state) = (self.world.view(), &cycle.profile, &mut cycle.state);
        Placement { view, profile, pod, node, state }.unreserve(cx);
        self.world.forget(&cycle.pod.uid);
    }

    /// Moves the pods that may use the room of a forgotten pod. A pod that was deleted or bound elsewhere
    /// has left the node already, but its Unreserve may still have freed something.
    fn room_freed(&mut self, pod: &Arc<Pod>, cx: &mut Context<'_>) {
        let event = ObjectEvent::assigned_pod(ActionType::DELETE, Some(pod.clone()), None);
        self.world.move_pods(&event, cx);
    }

    /// Rejects a pod that waits in Permit. Returns whether it was waiting.
    fn reject_waiting(&mut self, pod: &Uid, status: Status, cx: &mut Context<'_>) -> bool {
        let Some(waiting) = self.world.remove_waiting(pod) else { return false };
        let waited = cx.now.since(waiting.since);
        cx.probe.count(Count::PermitWait { pod: &waiting.pod, code: status.code(), waited });
        match self.binding.cancel(pod, status) {
            Transition::Failed(cycle, status) => {
                let failure = Failure::of_chosen_node(status.clone());
                self.binding_failed(*cycle, &status, failure, cx);
                true
            }
            _ => false,
        }
    }
}

/// Preemptions.
impl Engine {
    /// Requests the evictions that are due, and cancels the binding cycles of victims that are not bound.
    fn advance_preemption(&mut self, preemption: u64, cx: &mut Context<'_>) {
        use preemption::Next;
        while let Next::CancelBinding { victim, plugin } =
            self.preemptions.advance(preemption, &mut self.world, &self.binding, cx)
        {
            let waiting = Status::error("waiting on permit for pod: preempted").by(&plugin);
            if !self.reject_waiting(&victim.uid, waiting, cx) {
                let status = Status::error(format!("preempted by {plugin}")).by(&plugin);
                let transition = self.binding.cancel(&victim.uid, status);
                self.apply_transition(transition, cx);
            }
            self.preemptions.binding_cancelled(preemption, &victim, &mut self.world, cx);
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
                if let Some(waiting) = self.world.allow(&pod, &plugin) {
                    let waited = cx.now.since(waiting.since);
                    cx.probe.count(Count::PermitWait {
                        pod: &waiting.pod,
                        code: Code::Success,
                        waited,
                    });
                    self.apply_transition(Transition::Permitted(pod), cx);
                }
            }
            Command::Reject { pod, plugin, message } => {
                self.reject_waiting(&pod, Status::unschedulable(message).by(&plugin), cx);
            }
            Command::Activate(pods) => self.world.activate(&pods, cx),
            Command::Preempt(preemption) => {
                let started = self.preemptions.start(preemption, &mut self.world, cx);
                if let Some(preemption) = started {
                    self.advance_preemption(preemption, cx);
                }
            }
            Command::PausePreemption { preemptor, uid, pause } => {
                self.preemptions.pause(preemptor, &uid, &pause, &self.world, cx);
            }
            Command::SetTimer { plugin, at, token } => self.timers.set(plugin, token, at),
            Command::Event(event) => self.record_plugin_event(event, cx),
            Command::Write { pod, uid, write } => self.plugin_writes.request(pod, uid, write, cx),
            Command::ObjectChanged { kind, old, new } => {
                self.world.handle_update(kind, old, new, cx);
            }
            _ => {}
        }
    }

    /// Records an event in the name of the scheduler that is responsible for the pod.
    fn record_plugin_event(&self, event: PluginEvent, cx: &mut Context<'_>) {
        let view = self.world.view();
        let placed = view.cache().placed(&event.uid).map(|placed| &placed.pod);
        let pod = view.pending().get(&event.pod).filter(|pod| pod.uid == event.uid).or(placed);
        let profile = pod.and_then(|pod| view.profile_of(pod)).or(view.profiles().iter().next());
        let Some(profile) = profile else { return };
        cx.effects.emit(EffectKind::Event(Event {
            regarding: event.pod,
            uid: event.uid,
            related: None,
            event_type: event.event_type,
            reason: event.reason.to_string().into(),
            action: event.action.to_string().into(),
            note: note(&event.note),
            reporting_controller: profile.scheduler_name.clone(),
        }));
    }

    fn fire_timer(&self, plugin: &str, token: u64, cx: &mut Context<'_>) {
        let view = self.world.view();
        for profile in view.profiles().iter() {
            for timer in profile.timers.iter().filter(|timer| *timer.name == *plugin) {
                let handle = view.handle(cx.now);
                // A panic is counted; the timer has fired.
                let _ = call_beside("Timer", &timer.name, cx.probe, || {
                    timer.plugin.fire(token, &handle);
                });
            }
        }
    }
}
