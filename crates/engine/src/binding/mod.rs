//! The binding cycles: one state machine per assumed pod.
//!
//! ```text
//!   start ─▶ WaitOnPermit ─▶ PreBind (stage by stage) ─▶ Bind ─▶ bound
//!     │           │                 │                      │ answer lost
//!     ▼           ▼                 ▼                      ▼
//!   failed ◀──────────────────────────────────────────── ReadPod ─▶ not bound: Fence ─▶ Bind again
//! ```
//!
//! A member of a PodGroup waits between PreBind and Bind until enough members have come so far, see
//! `gangs`.
//!
//! [`BindingCycles`] owns the cycles. An input (an answer, a change, a deadline) advances one cycle
//! and returns a [`Transition`]; requests to the API server are effects. [`Transition::Bound`] and
//! [`Transition::Failed`] hand the cycle over to [`Attempts`](crate::attempts), which run PostBind,
//! or Unreserve and requeueing.

mod cycle;
mod gangs;
mod unknown;
mod unknown_bind;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{
    Answer, Binding, Code, ExtensionPoint, NominatingInfo, ObjectKey, PodGroupKey, PreBindInput,
    Status, StatusPatch, Time, Uid,
};

pub(crate) use self::cycle::{BindingCycle, Decided};
use self::cycle::{IfUnbound, Next, Phase, Shown, Waiting};
pub(crate) use self::gangs::{Gangs, Quorum, Released};
use self::unknown_bind::UnknownBind;
use self::waits::PreBindWaits;
use crate::context::Context;
use crate::counters;
use crate::effect::{EffectId, EffectKind};
use crate::extender::Extender;
use crate::ports::Count;
use crate::world::World;

/// The result of an input to a binding cycle.
pub(crate) enum Transition {
    /// The cycle waits for an answer, a change or a deadline, or the pod has no cycle.
    Waiting,
    /// The pod does not wait in Permit, so PreBind may run.
    Permitted(Uid),
    /// A member of this group has passed PreBind and waits for the others.
    Gathered(PodGroupKey),
    /// The pod is bound.
    Bound(Box<BindingCycle>),
    /// The cycle has failed.
    Failed(Box<BindingCycle>, Status),
    /// The request to bind a member of a group was refused. It may be placed again.
    Refused(Box<BindingCycle>, Status),
    /// The specification of the pod has changed since the decision, so the pod needs a new one.
    Outdated(Box<BindingCycle>),
}

/// Number of binds of one cycle that may be refused because the pod had changed. A pod that changes
/// ten times a second is bound by the first or second request after a read, so more refusals mean
/// that the bind itself changes the pod, for example through an admission webhook.
const MAX_OUTDATED_BINDS: u32 = 8;

/// Numbers of pods by phase of their binding cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BindingPhases {
    /// Waiting in Permit, or for the other members of a group.
    pub permit: usize,
    /// Running PreBind plugins.
    pub pre_bind: usize,
    /// Waiting for the answer to a request to bind.
    pub bind: usize,
    /// An answer was lost, and no later answer has shown whether the pod is bound.
    pub unknown: usize,
    /// Number of PreBind plugins at work, which may be several for one pod.
    pub pre_bind_plugins: usize,
}

/// The binding cycles in progress.
#[derive(Debug)]
pub(crate) struct BindingCycles {
    extenders: Arc<[Extender]>,
    cycles: BTreeMap<Uid, BindingCycle>,
    /// The pod that each effect belongs to.
    by_effect: BTreeMap<EffectId, Uid>,
    waits: PreBindWaits,
    gangs: Gangs,
}

/// Accessors.
impl BindingCycles {
    pub(crate) fn new(extenders: Arc<[Extender]>) -> Self {
        Self {
            extenders,
            cycles: BTreeMap::new(),
            by_effect: BTreeMap::new(),
            waits: PreBindWaits::default(),
            gangs: Gangs::default(),
        }
    }

    pub(crate) const fn gangs_mut(&mut self) -> &mut Gangs {
        &mut self.gangs
    }

    /// Returns the group of a member whose cycle can be cancelled.
    pub(crate) fn group_before_bind(&self, pod: &Uid) -> Option<&PodGroupKey> {
        self.cycles.get(pod).filter(|cycle| cycle.is_before_bind())?.group.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.cycles.len()
    }

    pub(crate) fn contains(&self, pod: &Uid) -> bool {
        self.cycles.contains_key(pod)
    }

    pub(crate) fn phases(&self) -> BindingPhases {
        let mut phases = BindingPhases::default();
        for cycle in self.cycles.values() {
            match &cycle.phase {
                Phase::WaitOnPermit | Phase::WaitOnGroup => phases.permit += 1,
                Phase::PreBind { running, .. } => {
                    phases.pre_bind += 1;
                    phases.pre_bind_plugins += running.len();
                }
                Phase::Bind { repeated: false, .. } => phases.bind += 1,
                Phase::Bind { repeated: true, .. }
                | Phase::ReadPod { .. }
                | Phase::Fence { .. } => phases.unknown += 1,
            }
        }
        phases
    }

    /// Whether the cycle of the pod can be cancelled, because no request to bind has been sent.
    pub(crate) fn is_before_bind(&self, pod: &Uid) -> bool {
        self.cycles.get(pod).is_some_and(BindingCycle::is_before_bind)
    }

    /// Whether some PreBind plugin waits for a change of an object.
    pub(crate) fn wait_for_changes(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Returns the pods whose PreBind waits for a change of this object.
    pub(crate) fn waiting_for(&self, object: &ObjectKey) -> Vec<Uid> {
        self.waits.waiting_for(object)
    }

    /// Returns the pods with a PreBind wait that has timed out.
    pub(crate) fn expired(&self, now: Time) -> Vec<Uid> {
        self.waits.expired(now)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.waits.next_deadline()
    }
}

/// Inputs.
impl BindingCycles {
    /// Starts a cycle. With `waits` the pod waits in Permit first.
    pub(crate) fn start(
        &mut self,
        mut cycle: BindingCycle,
        waits: bool,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Transition {
        let uid = cycle.pod.uid.clone();
        match cycle.pre_flight(world, cx) {
            Err(status) => failed(cycle, status, cx),
            Ok(writes) => {
                if writes || waits {
                    write_nomination(&mut cycle, world, cx);
                }
                self.cycles.insert(uid.clone(), cycle);
                if waits { Transition::Waiting } else { Transition::Permitted(uid) }
            }
        }
    }

    /// Runs PreBind of a pod that has passed Permit.
    pub(crate) fn permitted(
        &mut self,
        pod: &Uid,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Transition {
        let Some(mut cycle) = self.take(pod) else { return Transition::Waiting };
        cycle.permitted = cx.now;
        let next = self.run_pre_bind(&mut cycle, 0, world, cx);
        self.transition(cycle, next, cx)
    }

    /// Requests the bind of a member whose group is complete.
    pub(crate) fn bind_member(
        &mut self,
        pod: &Uid,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Transition {
        let Some(mut cycle) = self.take(pod) else { return Transition::Waiting };
        let next = self.bind(&mut cycle, 0, false, world, cx);
        self.transition(cycle, next, cx)
    }

    /// Handles the answer to an effect. Ignores an effect that does not belong to a binding cycle.
    pub(crate) fn answer(
        &mut self,
        effect: EffectId,
        answer: &Answer,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Transition {
        let Some(uid) = self.by_effect.remove(&effect) else { return Transition::Waiting };
        let Some(mut cycle) = self.take(&uid) else { return Transition::Waiting };
        let next = match &cycle.phase {
            Phase::Bind { effect: expected, since, .. } if *expected == effect => {
                let code = if answer.failure().is_some() { Code::Error } else { Code::Success };
                count_point(ExtensionPoint::Bind, &cycle, code, *since, cx);
                self.bind_answered(&mut cycle, answer, world, cx)
            }
            Phase::ReadPod { effect: expected, if_unbound } if *expected == effect => {
                let if_unbound = if_unbound.clone();
                self.pod_read(&mut cycle, if_unbound, answer, world, cx)
            }
            Phase::Fence { effect: expected, bind } if *expected == effect => {
                let bind = bind.clone();
                self.fence_answered(&mut cycle, bind, answer, world, cx)
            }
            Phase::PreBind { .. } => {
                let input = |waiting: &Waiting| {
                    (*waiting == Waiting::Answer(effect)).then_some(PreBindInput::Answer(answer))
                };
                self.resume_pre_bind(&mut cycle, input, world, cx)
            }
            _ => Next::Wait,
        };
        self.transition(cycle, next, cx)
    }

    /// Handles a change of `object`, for which PreBind plugins of the pod may wait.
    pub(crate) fn object_changed(
        &mut self,
        pod: &Uid,
        object: &ObjectKey,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Transition {
        let Some(mut cycle) = self.take(pod) else { return Transition::Waiting };
        let input = |waiting: &Waiting| match waiting {
            Waiting::Change(wait) => wait.is_for(object).then_some(PreBindInput::Changed),
            Waiting::Answer(_) => None,
        };
        let next = self.resume_pre_bind(&mut cycle, input, world, cx);
        self.transition(cycle, next, cx)
    }

    /// Ends a PreBind wait of the pod that has timed out.
    pub(crate) fn timed_out(
        &mut self,
        pod: &Uid,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Transition {
        let Some(mut cycle) = self.take(pod) else { return Transition::Waiting };
        let now = cx.now;
        let input = |waiting: &Waiting| match waiting {
            Waiting::Change(wait) if wait.until <= now => Some(PreBindInput::Deadline),
            _ => None,
        };
        let next = self.resume_pre_bind(&mut cycle, input, world, cx);
        self.transition(cycle, next, cx)
    }

    /// Handles that the watch shows the pod bound to `node`. This ends the wait for the outcome of
    /// a bind whose answer was lost.
    pub(crate) fn confirmed(&mut self, pod: &Uid, node: &str, cx: &mut Context<'_>) -> Transition {
        let unknown = |cycle: &BindingCycle| {
            matches!(cycle.phase, Phase::ReadPod { .. } | Phase::Fence { .. })
        };
        if !self.cycles.get(pod).is_some_and(unknown) {
            return Transition::Waiting;
        }
        let Some(cycle) = self.take(pod) else { return Transition::Waiting };
        let next = cycle.bound_to(node);
        self.transition(cycle, next, cx)
    }

    /// Ends a cycle that has not sent a request to bind.
    pub(crate) fn cancel(&mut self, pod: &Uid, status: Status) -> Transition {
        if !self.is_before_bind(pod) {
            return Transition::Waiting;
        }
        match self.take(pod) {
            Some(cycle) => Transition::Failed(Box::new(cycle), status),
            None => Transition::Waiting,
        }
    }
}

/// Steps.
impl BindingCycles {
    fn take(&mut self, pod: &Uid) -> Option<BindingCycle> {
        self.waits.remove(pod);
        self.cycles.remove(pod)
    }

    fn transition(&mut self, cycle: BindingCycle, next: Next, cx: &mut Context<'_>) -> Transition {
        match next {
            Next::Bound => Transition::Bound(Box::new(cycle)),
            Next::Outdated => Transition::Outdated(Box::new(cycle)),
            Next::Failed(status) => failed(cycle, status, cx),
            Next::Refused(status) => {
                count_error(&cycle, &status, cx);
                Transition::Refused(Box::new(cycle), status)
            }
            Next::Wait => {
                let uid = cycle.pod.uid.clone();
                let gathered = cycle.gathered().cloned();
                if let Some(wait) = cycle.wait_for_change() {
                    self.waits.insert(uid.clone(), wait);
                }
                self.cycles.insert(uid, cycle);
                gathered.map_or(Transition::Waiting, Transition::Gathered)
            }
        }
    }

    fn emit(&mut self, cycle: &BindingCycle, kind: EffectKind, cx: &mut Context<'_>) -> EffectId {
        let effect = cx.effects.emit(kind);
        self.by_effect.insert(effect, cycle.pod.uid.clone());
        effect
    }

    /// Runs the PreBind stages from `stage` on until one has to wait. Binds after the last stage.
    fn run_pre_bind(
        &mut self,
        cycle: &mut BindingCycle,
        stage: usize,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        for (place, plugins) in cycle.stages.clone().into_iter().enumerate().skip(stage) {
            let mut running = Vec::new();
            for plugin in plugins {
                match cycle.step_pre_bind(plugin, PreBindInput::Start, world, cx) {
                    Err(status) => return pre_bind_failed(cycle, status, cx),
                    Ok(waiting) => running.extend(waiting.map(|waiting| (plugin, waiting))),
                }
            }
            self.expect_answers(cycle, &running);
            if !running.is_empty() {
                cycle.phase = Phase::PreBind { stage: place, running };
                return Next::Wait;
            }
        }
        count_point(ExtensionPoint::PreBind, cycle, Code::Success, cycle.permitted, cx);
        if let Some(group) = &cycle.group {
            self.gangs.gather(group, &cycle.pod.uid);
            cycle.phase = Phase::WaitOnGroup;
            return Next::Wait;
        }
        self.bind(cycle, 0, false, world, cx)
    }

    /// Resumes the plugins for which `input` returns an input. A plugin that keeps waiting for a
    /// change keeps its first deadline; otherwise repeated changes could postpone it forever.
    fn resume_pre_bind<'a>(
        &mut self,
        cycle: &mut BindingCycle,
        input: impl Fn(&Waiting) -> Option<PreBindInput<'a>>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        let Phase::PreBind { stage, running } = &mut cycle.phase else { return Next::Wait };
        let (stage, running) = (*stage, std::mem::take(running));
        let mut left = Vec::new();
        for (plugin, waiting) in running {
            let Some(input) = input(&waiting) else {
                left.push((plugin, waiting));
                continue;
            };
            let changed = matches!(input, PreBindInput::Changed);
            match cycle.step_pre_bind(plugin, input, world, cx) {
                Err(status) => return pre_bind_failed(cycle, status, cx),
                Ok(next) => {
                    let next = next.map(|next| if changed { next.within(&waiting) } else { next });
                    left.extend(next.map(|next| (plugin, next)));
                }
            }
        }
        self.expect_answers(cycle, &left);
        if left.is_empty() {
            return self.run_pre_bind(cycle, stage + 1, world, cx);
        }
        cycle.phase = Phase::PreBind { stage, running: left };
        Next::Wait
    }

    fn expect_answers(&mut self, cycle: &BindingCycle, running: &[(usize, Waiting)]) {
        for (_, waiting) in running {
            if let Waiting::Answer(effect) = waiting {
                self.by_effect.insert(*effect, cycle.pod.uid.clone());
            }
        }
    }

    /// Binds by the first interested extender from index `extender` on, or by the Bind plugins.
    fn bind(
        &mut self,
        cycle: &mut BindingCycle,
        extender: usize,
        repeated: bool,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        let mut extenders = self.extenders.iter().enumerate().skip(extender);
        let binder = extenders
            .find(|(_, extender)| extender.bind && extender.is_interested(&cycle.pod))
            .map(|(place, _)| place);
        let decided = cycle.since;
        let mut fenced = false;
        let effect = match binder {
            Some(extender) => {
                let (pod, uid) = (cycle.pod.key.clone(), cycle.pod.uid.clone());
                let binding = Binding { pod, uid, node: cycle.node.clone() };
                EffectKind::ExtenderBind { extender, binding, decided }
            }
            None => match cycle.bind_by_plugin(world, cx) {
                Ok(Some(binding)) => {
                    let resource_version = cycle.version_to_bind(world);
                    fenced = resource_version != 0;
                    let generation = cycle.pod.generation.into();
                    EffectKind::Bind { binding, decided, generation, resource_version }
                }
                Ok(None) => return Next::Bound,
                Err(status) => return Next::Failed(status),
            },
        };
        cycle.unstoppable |= !fenced;
        let effect = self.emit(cycle, effect, cx);
        cycle.phase = Phase::Bind { effect, extender: binder, repeated, fenced, since: cx.now };
        Next::Wait
    }

    fn bind_answered(
        &mut self,
        cycle: &mut BindingCycle,
        answer: &Answer,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        let Phase::Bind { extender, repeated, fenced, since, .. } = cycle.phase else {
            return Next::Wait;
        };
        let is_ignorable = extender.is_some_and(|place| self.extenders[place].ignorable);
        let next = extender.map_or(self.extenders.len(), |place| place + usize::from(is_ignorable));
        match (answer, extender) {
            (Answer::Ok(_), _) => Next::Bound,
            (Answer::Gone(text), _) => Next::Failed(cycle.bind_error(text)),
            (Answer::Unknown(error), _) => {
                cx.probe.count(Count::of(&counters::BINDS_OF_UNKNOWN_OUTCOME, &[]));
                cycle.unknown_binds += 1;
                let (error, fenced) = (error.clone(), fenced && !repeated);
                let by_extender = extender.is_some();
                let bind = UnknownBind { error, extender: next, fenced, sent: since, by_extender };
                self.find_out(cycle, IfUnbound::Resolve(bind), world, cx)
            }
            // The decision still holds unless the specification has changed, which the read shows.
            (Answer::Outdated(error), None) if cycle.outdated_binds < MAX_OUTDATED_BINDS => {
                cycle.outdated_binds += 1;
                let if_unbound = match repeated {
                    true => IfUnbound::Resolve(UnknownBind {
                        error: error.clone(),
                        extender: next,
                        fenced: false,
                        sent: since,
                        by_extender: false,
                    }),
                    false => IfUnbound::Bind { extender: next },
                };
                self.find_out(cycle, if_unbound, world, cx)
            }
            _ if is_ignorable => self.bind(cycle, next, repeated, world, cx),
            // The failure of this request does not show the outcome of the earlier request.
            (failed, _) if repeated => {
                cycle.unknown_binds += 1;
                let error = failed.failure().unwrap_or_default().to_owned();
                let (fenced, by_extender) = (false, extender.is_some());
                let bind = UnknownBind { error, extender: next, fenced, sent: since, by_extender };
                self.find_out(cycle, IfUnbound::Resolve(bind), world, cx)
            }
            (failed, _) => {
                let status = cycle.bind_error(failed.failure().unwrap_or_default());
                match cycle.group {
                    Some(_) => Next::Refused(status),
                    None => Next::Failed(status),
                }
            }
        }
    }

    /// Determines whether the pod is bound, from the watch or by reading the pod.
    fn find_out(
        &mut self,
        cycle: &mut BindingCycle,
        if_unbound: IfUnbound,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        match world.confirmed_node(&cycle.pod.uid) {
            Some(node) => cycle.bound_to(node),
            None => self.read_pod(cycle, if_unbound, cx),
        }
    }

    /// Reads the pod. The pod stays assumed until the outcome of the bind is known.
    fn read_pod(
        &mut self,
        cycle: &mut BindingCycle,
        if_unbound: IfUnbound,
        cx: &mut Context<'_>,
    ) -> Next {
        let (pod, uid) = (cycle.pod.key.clone(), cycle.pod.uid.clone());
        let effect = self.emit(cycle, EffectKind::ReadPod { pod, uid }, cx);
        cycle.phase = Phase::ReadPod { effect, if_unbound };
        Next::Wait
    }

    /// Handles the pod as read after a bind of unknown outcome, or after a bind that was refused
    /// because the pod had changed.
    fn pod_read(
        &mut self,
        cycle: &mut BindingCycle,
        if_unbound: IfUnbound,
        answer: &Answer,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Next {
        let pod = match cycle.unbound_pod(answer) {
            Shown::Unbound(pod) => pod,
            Shown::Ends(next) => return next,
            Shown::Nothing => {
                return match (if_unbound, answer) {
                    (IfUnbound::Resolve(bind), Answer::Forbidden(_)) => {
                        self.fence_unread(cycle, bind, world, cx)
                    }
                    (IfUnbound::Bind { .. }, Answer::Forbidden(text)) => {
                        Next::Failed(cycle.bind_error(text))
                    }
                    (if_unbound, _) => self.read_pod(cycle, if_unbound, cx),
                };
            }
        };
        match if_unbound {
            IfUnbound::Bind { .. } if !cycle.is_of_spec(pod.generation) => Next::Outdated,
            IfUnbound::Bind { extender } => {
                cycle.read_version = pod.resource_version;
                self.bind(cycle, extender, false, world, cx)
            }
            IfUnbound::Resolve(bind) => self.resolve(cycle, bind, pod, world, cx),
        }
    }
}

/// Returns the transition of a cycle that has failed.
fn failed(cycle: BindingCycle, status: Status, cx: &mut Context<'_>) -> Transition {
    count_error(&cycle, &status, cx);
    Transition::Failed(Box::new(cycle), status)
}

fn count_error(cycle: &BindingCycle, status: &Status, cx: &mut Context<'_>) {
    if !status.is_rejection() {
        cx.probe.count(Count::BindingError { namespace: &cycle.pod.key.namespace });
    }
}

fn pre_bind_failed(cycle: &BindingCycle, status: Status, cx: &mut Context<'_>) -> Next {
    count_point(ExtensionPoint::PreBind, cycle, status.code(), cycle.permitted, cx);
    Next::Failed(status)
}

/// Counts an extension point that began at `since` and has ended.
fn count_point(
    point: ExtensionPoint,
    cycle: &BindingCycle,
    code: Code,
    since: Time,
    cx: &mut Context<'_>,
) {
    let (profile, took) = (&*cycle.profile.scheduler_name, cx.now.since(since));
    cx.probe.count(Count::Point { pod: &cycle.pod, point, profile, code, took });
}

/// Writes the chosen node into `status.nominatedNodeName`, for a pod that is not bound at once.
fn write_nomination(cycle: &mut BindingCycle, world: &World, cx: &mut Context<'_>) {
    let nominating = NominatingInfo::Override(cycle.node.clone());
    cycle.nominated = world.nominator().to_write(&cycle.pod, &nominating);
    let nominated_node_name = cycle.nominated.clone();
    cx.effects.patch_pod_status(&cycle.pod, StatusPatch { condition: None, nominated_node_name });
}
