//! The binding cycle: one state machine per assumed pod.
//!
//! ```text
//!   preflight ─▶ WaitOnPermit ─▶ PreBind (group by group) ─▶ Bind ─▶ bound
//!        │            │                  │                    │ lost answer
//!        ▼            ▼                  ▼                    ▼
//!      undo: unreserve, forget, back to the queue ◀──────── ReadPod ─▶ not bound: Bind again
//! ```
//!
//! Nothing here blocks: a state waits for an answer, a timer or a change, and each of them moves it on.

mod parked;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework::{
    ActionType, Answer, BindStep, Binding, Code, CycleState, ExtensionPoint, NominatingInfo,
    ObjectKey, PluginName, Pod, PreBindInput, PreBindPreFlight, PreBindStep, QueuedPod, Status,
    StatusPatch, Time, Uid, WaitingPods, api,
};

use serde::Deserialize;

use self::parked::{Parked, Wait};
use crate::cycle::FitError;
use crate::effect::{EffectId, EffectKind, Event, EventType, note};
use crate::engine::Engine;
use crate::failure::{Failure, changed_nomination};
use crate::guard::{ask, guarded};
use crate::ports::{Count, Ports, Span};
use crate::profile::Profile;

/// The binding cycles under way.
#[derive(Default)]
pub(crate) struct Bindings {
    cycles: BTreeMap<Uid, BindingCycle>,
    /// Which pod an effect belongs to.
    by_effect: BTreeMap<EffectId, Uid>,
    /// Pods that wait in Permit.
    pub(crate) waiting: WaitingPods,
    parked: Parked,
}

impl Bindings {
    pub(crate) fn len(&self) -> usize {
        self.cycles.len()
    }

    /// Whether a binding cycle of the pod is under way.
    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.cycles.contains_key(uid)
    }

    /// Whether some PreBind waits for a change.
    pub(crate) fn wait_for_changes(&self) -> bool {
        !self.parked.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let permits = self.waiting.values().flat_map(|waiting| waiting.pending.values());
        permits.copied().chain(self.parked.next_deadline()).min()
    }
}

/// An assumed pod on its way to its node.
struct BindingCycle {
    queued: QueuedPod,
    profile: Arc<Profile>,
    /// The pod as assumed, with its node.
    pod: Arc<Pod>,
    node: Arc<str>,
    state: CycleState,
    phase: Phase,
    /// PreBind plugins by place in the profile; the plugins of one group run side by side.
    groups: Vec<Vec<usize>>,
    /// The Bind plugin at work, none where an extender binds.
    binder: Option<PluginName>,
    /// The nomination that was asked for.
    nominated: Option<Arc<str>>,
    /// When its attempt began.
    since: Time,
}

enum Phase {
    WaitOnPermit,
    /// What the plugins of the running group wait for.
    PreBind {
        group: usize,
        running: Vec<(usize, Waiting)>,
    },
    Bind {
        effect: EffectId,
        extender: Option<usize>,
        /// An earlier request to bind may still be under way.
        again: bool,
        since: Time,
    },
    /// Whether the pod is bound is not known: it is read to find out.
    ReadPod {
        effect: EffectId,
        otherwise: Otherwise,
    },
}

/// What to do with a pod that turns out not to be bound.
#[derive(Debug, Clone)]
enum Otherwise {
    /// Bind it, by the first interested extender from this one on or by the Bind plugins.
    Bind { extender: usize },
    /// Give up: who binds it has refused to.
    Fail(String),
}

/// What a PreBind plugin waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Waiting {
    Answer(EffectId),
    Change(Wait),
}

impl Waiting {
    /// This wait, ended by the deadline of the one before it.
    fn within(mut self, before: &Self) -> Self {
        if let (Self::Change(wait), Self::Change(before)) = (&mut self, before) {
            wait.until = wait.until.min(before.until);
        }
        self
    }
}

/// Whether a cycle goes on.
enum Next {
    Wait,
    Bound,
    Failed(Status),
}

impl Engine {
    #[expect(
        clippy::too_many_arguments,
        reason = "all that one attempt hands to its binding cycle"
    )]
    pub(crate) fn start_binding(
        &mut self,
        queued: QueuedPod,
        profile: &Arc<Profile>,
        pod: Arc<Pod>,
        node: Arc<str>,
        state: CycleState,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let uid = pod.uid.clone();
        let waits = self.bindings.waiting.contains_key(&uid);
        let mut cycle = BindingCycle {
            queued,
            profile: profile.clone(),
            pod,
            node,
            state,
            phase: Phase::WaitOnPermit,
            groups: Vec::new(),
            binder: None,
            nominated: None,
            since: now,
        };
        let next = match self.pre_flight(&mut cycle, ports) {
            Err(status) => {
                self.bindings.waiting.remove(&uid);
                Next::Failed(status)
            }
            Ok(writes) => {
                if writes || waits {
                    let nominating = NominatingInfo::Override(cycle.node.clone());
                    let known = cycle.pod.nominated_node_name.as_ref();
                    cycle.nominated = changed_nomination(known, &nominating);
                    let nominated_node_name = cycle.nominated.clone();
                    let patch = StatusPatch { condition: None, nominated_node_name };
                    self.patch_pod_status(&cycle.pod, patch);
                }
                if waits { Next::Wait } else { self.after_permit(&mut cycle, now, ports) }
            }
        };
        self.proceed(cycle, next, now, ports);
    }

    /// Asks every PreBind plugin whether it has something to do, and puts those that have into groups.
    /// Returns whether there is one.
    fn pre_flight(
        &mut self,
        cycle: &mut BindingCycle,
        ports: &mut Ports<'_>,
    ) -> Result<bool, Status> {
        let cluster = self.cache.cluster();
        let mut joins_last = false;
        for (place, plugin) in cycle.profile.pre_bind.iter().enumerate() {
            let answer = guarded(&plugin.name, ports.probe, || {
                plugin.plugin.pre_flight(&cycle.state, &cycle.pod, &cycle.node, cluster)
            });
            match answer.unwrap_or_else(PreBindPreFlight::Fail) {
                PreBindPreFlight::Skip { allow_parallel } => joins_last &= allow_parallel,
                PreBindPreFlight::Run { allow_parallel } => {
                    match cycle.groups.last_mut() {
                        Some(group) if joins_last && allow_parallel => group.push(place),
                        _ => cycle.groups.push(vec![place]),
                    }
                    joins_last = allow_parallel;
                }
                PreBindPreFlight::Fail(status) => {
                    return Err(pre_flight_error(&plugin.name, &status));
                }
            }
        }
        Ok(!cycle.groups.is_empty())
    }

    fn after_permit(&mut self, cycle: &mut BindingCycle, now: Time, ports: &mut Ports<'_>) -> Next {
        self.queue.done(&cycle.pod.uid);
        self.start_group(cycle, 0, now, ports)
    }

    /// Starts PreBind groups from `group` on until one has to wait; binds after the last.
    fn start_group(
        &mut self,
        cycle: &mut BindingCycle,
        group: usize,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Next {
        for (place, plugins) in cycle.groups.clone().into_iter().enumerate().skip(group) {
            let mut running = Vec::new();
            for plugin in plugins {
                match self.step_pre_bind(cycle, plugin, PreBindInput::Start, now, ports) {
                    Err(status) => return Next::Failed(status),
                    Ok(waiting) => running.extend(waiting.map(|waiting| (plugin, waiting))),
                }
            }
            if !running.is_empty() {
                cycle.phase = Phase::PreBind { group: place, running };
                return Next::Wait;
            }
        }
        self.bind(cycle, 0, false, now, ports)
    }

    /// One step of one PreBind plugin; `None` when it is done.
    fn step_pre_bind(
        &mut self,
        cycle: &mut BindingCycle,
        plugin: usize,
        input: PreBindInput<'_>,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<Option<Waiting>, Status> {
        let plugin = &cycle.profile.pre_bind[plugin];
        let cluster = self.cache.cluster();
        let step = ask(ExtensionPoint::PreBind, &plugin.name, ports.probe, || {
            plugin.plugin.pre_bind(&mut cycle.state, &cycle.pod, &cycle.node, cluster, input)
        });
        match step.unwrap_or_else(PreBindStep::Done) {
            PreBindStep::Done(status) if status.is_success() => Ok(None),
            PreBindStep::Done(status) if status.is_rejection() => Err(status.by(&plugin.name)),
            PreBindStep::Done(status) => {
                let name = &plugin.name;
                let text = format!("running PreBind plugin {name:?}: {}", status.message());
                Err(Status::error(text).by(name))
            }
            PreBindStep::Write(write) => {
                let effect = self.emit(EffectKind::Write(write));
                self.bindings.by_effect.insert(effect, cycle.pod.uid.clone());
                Ok(Some(Waiting::Answer(effect)))
            }
            PreBindStep::Wait { timeout, objects } => {
                let (until, objects) = (now + timeout, objects.into_iter().collect());
                Ok(Some(Waiting::Change(Wait { until, objects })))
            }
        }
    }

    /// Moves the plugins on that wait for what has come; `input` picks those. Who goes on waiting for
    /// a change does so until the end of its first patience, or the world would keep it for ever.
    fn resume_pre_bind<'a>(
        &mut self,
        cycle: &mut BindingCycle,
        input: impl Fn(&Waiting) -> Option<PreBindInput<'a>>,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Next {
        let Phase::PreBind { group, running } = &mut cycle.phase else { return Next::Wait };
        let (group, running) = (*group, std::mem::take(running));
        let mut left = Vec::new();
        for (plugin, waiting) in running {
            match input(&waiting) {
                None => left.push((plugin, waiting)),
                Some(input) => {
                    let changed = matches!(input, PreBindInput::Changed);
                    match self.step_pre_bind(cycle, plugin, input, now, ports) {
                        Err(status) => return Next::Failed(status),
                        Ok(next) => {
                            let next =
                                next.map(|next| if changed { next.within(&waiting) } else { next });
                            left.extend(next.map(|next| (plugin, next)));
                        }
                    }
                }
            }
        }
        if left.is_empty() {
            return self.start_group(cycle, group + 1, now, ports);
        }
        cycle.phase = Phase::PreBind { group, running: left };
        Next::Wait
    }

    /// Binds through the first interested extender from `extender` on, or through the Bind plugins.
    fn bind(
        &mut self,
        cycle: &mut BindingCycle,
        extender: usize,
        again: bool,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Next {
        let binding = || Binding {
            pod: cycle.pod.key.clone(),
            uid: cycle.pod.uid.clone(),
            node: cycle.node.clone(),
        };
        let mut extenders = self.config.extenders.iter().enumerate().skip(extender);
        let binder = extenders
            .find(|(_, extender)| extender.bind && extender.is_interested(&cycle.pod))
            .map(|(place, _)| place);
        let effect = match binder {
            Some(extender) => EffectKind::ExtenderBind { extender, binding: binding() },
            None => match bind_by_plugin(cycle, ports) {
                Ok((plugin, Some(binding))) => {
                    cycle.binder = Some(plugin);
                    EffectKind::Bind(binding)
                }
                Ok((_, None)) => return Next::Bound,
                Err(status) => return Next::Failed(status),
            },
        };
        let effect = self.emit(effect);
        self.bindings.by_effect.insert(effect, cycle.pod.uid.clone());
        cycle.phase = Phase::Bind { effect, extender: binder, again, since: now };
        Next::Wait
    }

    pub(crate) fn answer_binding(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(uid) = self.bindings.by_effect.remove(&effect) else { return };
        let Some(mut cycle) = self.bindings.cycles.remove(&uid) else { return };
        let next = match &cycle.phase {
            Phase::Bind { effect: expected, extender, again, since } if *expected == effect => {
                let (extender, again) = (*extender, *again);
                let code = if answer.failure().is_some() { Code::Error } else { Code::Success };
                let profile = &cycle.profile.scheduler_name;
                ports.probe.count(Count::Bind { profile, code, took: now.since(*since) });
                self.bind_answered(&mut cycle, extender, again, answer, now, ports)
            }
            Phase::ReadPod { effect: expected, otherwise } if *expected == effect => {
                let otherwise = otherwise.clone();
                self.pod_read(&mut cycle, otherwise, answer, now, ports)
            }
            Phase::PreBind { .. } => {
                let input = |waiting: &Waiting| {
                    (*waiting == Waiting::Answer(effect)).then_some(PreBindInput::Answer(answer))
                };
                self.resume_pre_bind(&mut cycle, input, now, ports)
            }
            _ => Next::Wait,
        };
        self.proceed(cycle, next, now, ports);
    }

    fn bind_answered(
        &mut self,
        cycle: &mut BindingCycle,
        extender: Option<usize>,
        again: bool,
        answer: &Answer,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Next {
        let extenders = &self.config.extenders;
        let is_ignorable = extender.is_some_and(|place| extenders[place].ignorable);
        let next = extender.map_or(extenders.len(), |place| place + usize::from(is_ignorable));
        match (answer, extender) {
            (Answer::Ok(_), _) => Next::Bound,
            (Answer::Gone(text), _) => Next::Failed(bind_error(cycle, text)),
            (Answer::Unknown(_), _) => self.find_out(cycle, Otherwise::Bind { extender: next }),
            _ if is_ignorable => self.bind(cycle, next, again, now, ports),
            // That this request failed says nothing of the one before it.
            (_, None) if again => self.find_out(cycle, Otherwise::Bind { extender: next }),
            (failed, _) => {
                let text = failed.failure().unwrap_or_default();
                match again {
                    true => self.find_out(cycle, Otherwise::Fail(text.to_owned())),
                    false => Next::Failed(bind_error(cycle, text)),
                }
            }
        }
    }

    /// The watch may know already what became of the bind.
    fn find_out(&mut self, cycle: &mut BindingCycle, otherwise: Otherwise) -> Next {
        match self.confirmed_node(&cycle.pod.uid) {
            Some(node) => bound_to(cycle, node),
            None => self.read_pod(cycle, otherwise),
        }
    }

    /// Asks whether the pod is bound. Until that is known it keeps its room.
    fn read_pod(&mut self, cycle: &mut BindingCycle, otherwise: Otherwise) -> Next {
        let (pod, uid) = (cycle.pod.key.clone(), cycle.pod.uid.clone());
        let effect = self.emit(EffectKind::ReadPod { pod, uid: uid.clone() });
        self.bindings.by_effect.insert(effect, uid);
        cycle.phase = Phase::ReadPod { effect, otherwise };
        Next::Wait
    }

    /// A request that is not seen to have worked may be under way still, and work later. So the pod
    /// keeps its room and is bound to the same node once more: whichever request comes first does it,
    /// and the server refuses the other.
    fn pod_read(
        &mut self,
        cycle: &mut BindingCycle,
        otherwise: Otherwise,
        answer: &Answer,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Next {
        match answer {
            Answer::Ok(Some(object)) => match api::Pod::deserialize(object) {
                Ok(pod) if pod.metadata.uid != cycle.pod.uid.to_string() => {
                    Next::Failed(bind_error(cycle, "the pod was replaced by another of its name"))
                }
                Ok(pod) if !pod.spec.node_name.is_empty() => bound_to(cycle, &pod.spec.node_name),
                Ok(pod) if pod.metadata.deletion_timestamp.is_some() => {
                    Next::Failed(bind_error(cycle, "the pod is being deleted"))
                }
                Ok(_) => match otherwise {
                    Otherwise::Bind { extender } => self.bind(cycle, extender, true, now, ports),
                    Otherwise::Fail(text) => Next::Failed(bind_error(cycle, &text)),
                },
                Err(_) => self.read_pod(cycle, otherwise),
            },
            Answer::Gone(text) => Next::Failed(bind_error(cycle, text)),
            _ => self.read_pod(cycle, otherwise),
        }
    }

    /// The node on which the watch has shown the pod.
    fn confirmed_node(&self, uid: &Uid) -> Option<&str> {
        let placed = self.cache.placed(uid).filter(|_| !self.cache.is_assumed(uid))?;
        Some(self.cache.cluster().node_name(placed.node))
    }

    /// The watch shows the pod bound: a bind whose answer was lost is settled.
    pub(crate) fn confirm_binding(
        &mut self,
        pod: &Pod,
        node: &str,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let lost = |cycle: &BindingCycle| matches!(cycle.phase, Phase::ReadPod { .. });
        if !self.bindings.cycles.get(&pod.uid).is_some_and(lost) {
            return;
        }
        let Some(cycle) = self.bindings.cycles.remove(&pod.uid) else { return };
        let next = bound_to(&cycle, node);
        self.proceed(cycle, next, now, ports);
    }

    /// An object changed: PreBind plugins that wait for it look again.
    pub(crate) fn wake_bindings(&mut self, changed: &ObjectKey, now: Time, ports: &mut Ports<'_>) {
        for uid in self.bindings.parked.waiting_for(changed) {
            let Some(mut cycle) = self.bindings.cycles.remove(&uid) else { continue };
            let input = |waiting: &Waiting| match waiting {
                Waiting::Change(wait) => wait.is_for(changed).then_some(PreBindInput::Changed),
                Waiting::Answer(_) => None,
            };
            let next = self.resume_pre_bind(&mut cycle, input, now, ports);
            self.proceed(cycle, next, now, ports);
        }
    }

    /// Ends waits that have taken too long.
    pub(crate) fn expire_bindings(&mut self, now: Time, ports: &mut Ports<'_>) {
        let late: Vec<(Uid, PluginName, Duration)> = self
            .bindings
            .waiting
            .iter()
            .filter_map(|(uid, waiting)| {
                let (plugin, at) = waiting
                    .pending
                    .iter()
                    .filter(|(_, at)| **at <= now)
                    .min_by_key(|(_, at)| **at)?;
                Some((uid.clone(), plugin.clone(), at.since(waiting.since)))
            })
            .collect();
        for (uid, plugin, patience) in late {
            let waited = go_duration(patience);
            let text = format!("rejected due to timeout after waiting {waited} at plugin {plugin}");
            self.reject_waiting(&uid, Status::unschedulable(text).by(&plugin), now, ports);
        }
        for uid in self.bindings.parked.expired(now) {
            let Some(mut cycle) = self.bindings.cycles.remove(&uid) else { continue };
            let input = |waiting: &Waiting| match waiting {
                Waiting::Change(wait) if wait.until <= now => Some(PreBindInput::Deadline),
                _ => None,
            };
            let next = self.resume_pre_bind(&mut cycle, input, now, ports);
            self.proceed(cycle, next, now, ports);
        }
    }

    /// `plugin` no longer holds the waiting pod back; the last one sets it free.
    pub(crate) fn allow(
        &mut self,
        uid: &Uid,
        plugin: &PluginName,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let Some(waiting) = self.bindings.waiting.get_mut(uid) else { return };
        waiting.pending.remove(plugin);
        if !waiting.pending.is_empty() {
            return;
        }
        let waited = now.since(waiting.since);
        ports.probe.count(Count::PermitWait { code: Code::Success, waited });
        self.bindings.waiting.remove(uid);
        let Some(mut cycle) = self.bindings.cycles.remove(uid) else { return };
        let next = self.after_permit(&mut cycle, now, ports);
        self.proceed(cycle, next, now, ports);
    }

    /// Rejects a waiting pod; returns whether it was waiting.
    pub(crate) fn reject_waiting(
        &mut self,
        uid: &Uid,
        status: Status,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> bool {
        let Some(waiting) = self.bindings.waiting.remove(uid) else { return false };
        let waited = now.since(waiting.since);
        ports.probe.count(Count::PermitWait { code: status.code(), waited });
        let Some(cycle) = self.bindings.cycles.remove(uid) else { return false };
        self.undo(cycle, status, true, now, ports);
        true
    }

    /// Ends a binding cycle that has not come to the bind; returns whether there was one.
    pub(crate) fn cancel_pre_bind(
        &mut self,
        uid: &Uid,
        status: Status,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> bool {
        let in_pre_bind = |cycle: &BindingCycle| matches!(cycle.phase, Phase::PreBind { .. });
        if !self.bindings.cycles.get(uid).is_some_and(in_pre_bind) {
            return false;
        }
        let Some(cycle) = self.bindings.cycles.remove(uid) else { return false };
        self.bindings.parked.remove(uid);
        self.undo(cycle, status, false, now, ports);
        true
    }

    fn proceed(&mut self, cycle: BindingCycle, next: Next, now: Time, ports: &mut Ports<'_>) {
        let uid = cycle.pod.uid.clone();
        self.bindings.parked.remove(&uid);
        match next {
            Next::Wait => {
                if let Phase::PreBind { running, .. } = &cycle.phase {
                    let waits = running.iter().filter_map(|(_, waiting)| match waiting {
                        Waiting::Change(wait) => Some(wait.clone()),
                        Waiting::Answer(_) => None,
                    });
                    if let Some(wait) = waits.reduce(Wait::or) {
                        self.bindings.parked.insert(uid.clone(), wait);
                    }
                }
                self.bindings.cycles.insert(uid, cycle);
            }
            Next::Bound => self.bound(&cycle, now, ports),
            Next::Failed(status) => self.undo(cycle, status, false, now, ports),
        }
    }

    fn bound(&mut self, cycle: &BindingCycle, now: Time, ports: &mut Ports<'_>) {
        let (profile, queued) = (&cycle.profile, &cycle.queued);
        self.emit(EffectKind::Event(Event {
            regarding: cycle.pod.key.clone(),
            uid: cycle.pod.uid.clone(),
            related: None,
            event_type: EventType::Normal,
            reason: "Scheduled",
            action: "Binding",
            note: note(&format!("Successfully assigned {} to {}", cycle.pod.key, cycle.node)),
            reporting_controller: profile.scheduler_name.clone(),
        }));
        ports.probe.count(Count::Attempt { result: "scheduled", profile: &profile.scheduler_name });
        ports.probe.count(Count::Scheduled {
            profile: &profile.scheduler_name,
            attempts: queued.attempts,
            took: now.since(cycle.since),
            since_first_active: now.since(queued.initial_attempt.unwrap_or(cycle.since)),
            after_flush: queued.flushed,
        });
        ports.probe.start(Span::Point(ExtensionPoint::PostBind, &profile.scheduler_name));
        for plugin in &profile.post_bind {
            // A panic is counted; the pod is bound.
            let _ = ask(ExtensionPoint::PostBind, &plugin.name, ports.probe, || {
                plugin.plugin.post_bind(&cycle.state, &cycle.pod, &cycle.node);
            });
        }
        ports
            .probe
            .stop(Span::Point(ExtensionPoint::PostBind, &profile.scheduler_name), Code::Success);
    }

    /// Gives the room back and the pod to the queue.
    fn undo(
        &mut self,
        mut cycle: BindingCycle,
        status: Status,
        in_permit: bool,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        let pod = cycle.pod.clone();
        self.unreserve(&cycle.profile, &mut cycle.state, &pod, &cycle.node, now, ports);
        // A pod that was deleted meanwhile, or bound elsewhere, has no room here any more, but
        // Unreserve may have freed something.
        let _ = self.cache.forget(&pod.uid);
        let rejected = status.is_rejection();
        if !rejected {
            self.assigned_pod_event(ActionType::DELETE, Some(pod.clone()), None, now, ports);
        }
        let failure = match in_permit && rejected {
            true => Failure::of_fit(FitError::of_chosen_node(status), Failure::clear()),
            false => Failure::of(status),
        };
        let failure = failure.after_asking_for(cycle.nominated);
        self.fail(cycle.queued, &cycle.profile, failure, now, ports);
        if rejected {
            self.freed_for_others(pod, now, ports);
        }
    }
}

/// Runs the Bind plugins until one does not skip; no binding when it has bound the pod by itself.
fn bind_by_plugin(
    cycle: &BindingCycle,
    ports: &mut Ports<'_>,
) -> Result<(PluginName, Option<Binding>), Status> {
    for plugin in &cycle.profile.bind {
        let step = ask(ExtensionPoint::Bind, &plugin.name, ports.probe, || {
            plugin.plugin.bind(&cycle.state, &cycle.pod, &cycle.node)
        });
        match step.unwrap_or_else(BindStep::Done) {
            BindStep::Skip => {}
            BindStep::Bind(binding) => return Ok((plugin.name.clone(), Some(binding))),
            BindStep::Done(status) if status.is_success() => {
                return Ok((plugin.name.clone(), None));
            }
            BindStep::Done(status) if status.is_rejection() => return Err(status.by(&plugin.name)),
            BindStep::Done(status) => {
                let name = &plugin.name;
                let text = format!("running Bind plugin {name:?}: {}", status.message());
                return Err(Status::error(text).by(name));
            }
        }
    }
    Err(Status::skip())
}

/// Someone has bound the pod to `node`.
fn bound_to(cycle: &BindingCycle, node: &str) -> Next {
    match *node == *cycle.node {
        true => Next::Bound,
        false => Next::Failed(bind_error(cycle, &format!("the pod is bound to node {node}"))),
    }
}

fn bind_error(cycle: &BindingCycle, text: &str) -> Status {
    Status::error(match &cycle.binder {
        Some(plugin) => format!("running Bind plugin {plugin:?}: {text}"),
        None => text.to_owned(),
    })
}

fn pre_flight_error(plugin: &PluginName, status: &Status) -> Status {
    let text = match status.code() {
        Code::Error => format!("running PreBindPreFlight {plugin:?}: {}", status.message()),
        code => format!(
            "PreBindPreFlight {plugin} returned \"{code}\", which is unsupported. It is supposed to \
             return Success, Skip, or Error status"
        ),
    };
    Status::error(text).by(plugin)
}

/// A duration as Go prints it: `15m0s`, `1.5s`, `20ms`.
fn go_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let in_units = |unit: u128, name: &str| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let digits = unit.ilog10() as usize;
        let fraction = format!(".{rest:0digits$}");
        format!("{whole}{}{name}", fraction.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => in_units(1_000, "µs"),
        1_000_000..1_000_000_000 => in_units(1_000_000, "ms"),
        _ => {
            let minutes = duration.as_secs() / 60;
            let seconds = duration - Duration::from_secs(minutes * 60);
            let seconds = format!("{}s", seconds.as_nanos() as f64 / 1e9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    }
}
