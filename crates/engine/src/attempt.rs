//! One scheduling attempt: from the queue to an assumed pod, or back.

use std::sync::Arc;

use framework::{
    Code, CycleState, ExtensionPoint, NominatingInfo, PermitVerdict, Pod, PostFilterResult,
    QueuedPod, Status, Time, Verdicts, WaitingPod,
};

use crate::cycle::{
    Cycle, Depth, FitError, NO_NODES, NodeFilters, Panics, PreemptingExtenders, ProfileDryRun,
    Report, Sampling, ScheduleError,
};
use crate::effect::{EffectKind, Event, EventType, note};
use crate::engine::{Engine, cx};
use crate::failure::Failure;
use crate::guard::{HasCode, ask, guarded};
use crate::ports::{Ports, Span};
use crate::profile::Profile;

/// Longest time a pod may wait in Permit, whatever a plugin asks for.
const MAX_PERMIT_TIMEOUT: std::time::Duration = std::time::Duration::from_mins(15);

/// What plugins may look at and ask for, for one call.
macro_rules! handle {
    ($engine:expr, $now:expr) => {
        framework::Handle::new(
            $engine.cache.cluster(),
            &$engine.bindings.waiting,
            &$engine.pending,
            $engine.queue.nominator(),
            $now,
            &mut $engine.commands,
        )
    };
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is assumed on this node and on its way to be bound.
    Assumed(Arc<str>),
    /// No node can take it; the text of its condition.
    Unschedulable(String),
    /// Something failed.
    Error(String),
    /// Nothing was tried: the pod is being deleted, assumed already, or nobody's.
    Skipped,
}

impl HasCode for Outcome {
    fn code(&self) -> Code {
        match self {
            Self::Assumed(_) | Self::Skipped => Code::Success,
            Self::Unschedulable(_) => Code::Unschedulable,
            Self::Error(_) => Code::Error,
        }
    }
}

/// An attempt that was made.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The pod.
    pub pod: Arc<Pod>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Engine {
    /// Takes the next pod from the queue and tries to place it; `None` if no pod is ready.
    pub fn schedule_one(&mut self, now: Time, ports: &mut Ports<'_>) -> Option<Attempt> {
        let queued = self.queue.pop(&mut cx!(self, now, ports.probe))?;
        let pod = queued.pod.clone();
        let outcome = match self.profile_to_try(&pod) {
            Some(profile) => self.attempt(queued, &profile, now, ports),
            None => {
                self.queue.done(&pod.uid);
                Outcome::Skipped
            }
        };
        self.carry_out_commands(now, ports);
        Some(Attempt { pod, outcome })
    }

    /// The profile of the pod, unless there is no point in trying to place it.
    fn profile_to_try(&mut self, pod: &Pod) -> Option<Arc<Profile>> {
        let profile = self.config.profiles.get(&pod.spec.scheduler_name)?.clone();
        if pod.terminating {
            self.emit(EffectKind::Event(Event {
                regarding: pod.key.clone(),
                uid: pod.uid.clone(),
                related: None,
                event_type: EventType::Warning,
                reason: "FailedScheduling",
                action: "Scheduling",
                note: note(&format!("skip schedule deleting pod: {}", pod.key)),
                reporting_controller: profile.scheduler_name.clone(),
            }));
            return None;
        }
        // A pod that vanished and came back may still have a Bind under way, whose end decides.
        let on_its_way = self.cache.is_assumed(&pod.uid) || self.bindings.contains(&pod.uid);
        (!on_its_way).then_some(profile)
    }

    fn attempt(
        &mut self,
        queued: QueuedPod,
        profile: &Arc<Profile>,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Outcome {
        ports.probe.start(Span::Attempt(&profile.scheduler_name));
        let outcome = self.find_and_commit(queued, profile, now, ports);
        ports.probe.stop(Span::Attempt(&profile.scheduler_name), outcome.code());
        outcome
    }

    fn find_and_commit(
        &mut self,
        queued: QueuedPod,
        profile: &Arc<Profile>,
        mut now: Time,
        ports: &mut Ports<'_>,
    ) -> Outcome {
        let mut state = CycleState::new();
        ports.probe.start(Span::Algorithm);
        let found = self.find_node(&queued.pod, profile, &mut state, &mut now, ports);
        let code = found.as_ref().map_or_else(ScheduleError::code, |_| Code::Success);
        ports.probe.stop(Span::Algorithm, code);
        match found {
            Ok(node) => {
                state.end_search();
                self.commit(queued, profile, node, state, now, ports)
            }
            Err(error) => {
                let failure =
                    self.diagnose(error, &queued.pod, profile, &mut state, &mut now, ports);
                self.fail(queued, profile, failure, now, ports)
            }
        }
    }

    fn find_node(
        &mut self,
        pod: &Arc<Pod>,
        profile: &Arc<Profile>,
        state: &mut CycleState,
        now: &mut Time,
        ports: &mut Ports<'_>,
    ) -> Result<Arc<str>, ScheduleError> {
        self.stand_queries(pod, profile, ports);
        let sampling = self.sampling(profile);
        if sampling != Sampling::All {
            self.cache.refresh_order();
        }
        Cycle {
            profile,
            cache: &self.cache,
            nominator: self.queue.nominator(),
            extenders: &self.config.extenders,
            sampling,
            next_start: &mut self.next_start,
            form: self.config.form,
            depth: Depth::Decide,
            pod,
            now,
            state,
            ports,
            scratch: &mut self.scratch,
            report: Report::default(),
        }
        .run()?;
        let node = self.select_host();
        Ok(self.cache.cluster().node_name(node).clone())
    }

    /// Has the pods counted that plugins are going to ask about. A plugin that panics over it gets its
    /// counts when it asks, and panics again where that is told of.
    fn stand_queries(&mut self, pod: &Pod, profile: &Profile, ports: &mut Ports<'_>) {
        for plugin in &profile.standing_queries {
            let cluster = self.cache.cluster();
            let queries =
                guarded(&plugin.name, ports.probe, || plugin.plugin.queries(pod, cluster));
            queries.iter().flatten().for_each(|query| self.cache.stand(query));
        }
    }

    pub(crate) fn sampling(&self, profile: &Profile) -> Sampling {
        Sampling::of(
            profile.percentage_of_nodes_to_score,
            self.config.percentage_of_nodes_to_score,
            self.config.adaptive_sampling,
        )
    }

    /// Turns a failed search into what becomes of the pod, after PostFilter had its turn.
    fn diagnose(
        &mut self,
        error: ScheduleError,
        pod: &Pod,
        profile: &Profile,
        state: &mut CycleState,
        now: &mut Time,
        ports: &mut Ports<'_>,
    ) -> Failure {
        match error {
            ScheduleError::NoNodes => Failure::of(Status::unresolvable(NO_NODES)),
            ScheduleError::Error(status) => Failure::of(status),
            ScheduleError::Fit(mut fit) => {
                let nominating = self.post_filter(&mut fit, pod, profile, state, now, ports);
                Failure::of_fit(*fit, nominating)
            }
        }
    }

    /// Runs the PostFilter plugins; what they say goes into the message of the pod.
    fn post_filter(
        &mut self,
        fit: &mut FitError,
        pod: &Pod,
        profile: &Profile,
        state: &mut CycleState,
        now: &mut Time,
        ports: &mut Ports<'_>,
    ) -> NominatingInfo {
        if profile.post_filter.is_empty() {
            return Failure::clear();
        }
        ports.probe.start(Span::Point(ExtensionPoint::PostFilter, &profile.scheduler_name));
        let verdicts = &fit.diagnosis.verdicts;
        let result = self.run_post_filter(verdicts, pod, profile, state, now, ports);
        ports.probe.stop(
            Span::Point(ExtensionPoint::PostFilter, &profile.scheduler_name),
            result.status.code(),
        );
        fit.diagnosis.post_filter_message = result.status.message();
        result.nominating
    }

    /// The first plugin that succeeds, fails or finds the pod beyond help decides; otherwise the
    /// reasons of all are collected, and the last nomination stands.
    pub(crate) fn run_post_filter(
        &mut self,
        verdicts: &Verdicts,
        pod: &Pod,
        profile: &Profile,
        state: &mut CycleState,
        now: &mut Time,
        ports: &mut Ports<'_>,
    ) -> PostFilterResult {
        let mut collected = PostFilterResult::default();
        let mut reasons = Vec::new();
        for plugin in &profile.post_filter {
            let mut handle = handle!(self, *now);
            let nominator = self.queue.nominator();
            let mut dry_run = ProfileDryRun {
                filters: NodeFilters::new(profile, &self.cache, nominator, pod, state),
                rng: &mut self.rng,
                tie_break: self.config.tie_break,
                extenders: PreemptingExtenders {
                    all: &self.config.extenders,
                    outside: &mut *ports.outside,
                    now,
                },
                panics: Panics::default(),
            };
            let result = ask(ExtensionPoint::PostFilter, &plugin.name, ports.probe, || {
                plugin.plugin.post_filter(state, pod, verdicts, &mut dry_run, &mut handle)
            });
            dry_run.panics.tell(ports.probe);
            let result = match result {
                Ok(result) => result,
                Err(status) => PostFilterResult { status, ..PostFilterResult::default() },
            };
            match result.status.code() {
                Code::Success | Code::UnschedulableAndUnresolvable => return result,
                Code::Unschedulable | Code::Pending => {
                    reasons.extend_from_slice(result.status.reasons());
                    if result.nominating != NominatingInfo::Noop {
                        collected.nominating = result.nominating;
                    }
                }
                _ => return PostFilterResult { status: result.status, ..Default::default() },
            }
        }
        collected.status = Status::with_reasons(Code::Unschedulable, reasons);
        collected
    }

    /// Assumes the pod on the node, reserves, asks Permit, and starts the binding cycle.
    fn commit(
        &mut self,
        queued: QueuedPod,
        profile: &Arc<Profile>,
        node: Arc<str>,
        mut state: CycleState,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Outcome {
        let assumed = match self.cache.assume(&queued.pod, &node) {
            Ok(assumed) => assumed,
            Err(error) => {
                let failure = Failure::of(Status::error(error.to_string()));
                return self.fail(queued, profile, failure, now, ports);
            }
        };
        self.queue.nominator_mut().delete(&assumed.uid);
        match self.reserve_and_permit(profile, &mut state, &assumed, &node, now, ports) {
            Ok(waiting) => {
                if let Some(waiting) = waiting {
                    self.bindings.waiting.insert(assumed.uid.clone(), waiting);
                }
                self.start_binding(queued, profile, assumed, node.clone(), state, now, ports);
                Outcome::Assumed(node)
            }
            Err(status) => {
                self.unreserve(profile, &mut state, &assumed, &node, now, ports);
                self.cache.remove(&assumed.uid);
                let failure = match status.is_rejection() {
                    true => Failure::of_fit(FitError::of_chosen_node(status), Failure::clear()),
                    false => Failure::of(status),
                };
                self.fail(queued, profile, failure, now, ports)
            }
        }
    }

    /// Runs Reserve and Permit; `Some` if the pod has to wait.
    fn reserve_and_permit(
        &mut self,
        profile: &Profile,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<Option<WaitingPod>, Status> {
        let span = |point| Span::Point(point, &profile.scheduler_name);
        ports.probe.start(span(ExtensionPoint::Reserve));
        let reserved = self.reserve(profile, state, pod, node, ports);
        ports.probe.stop(span(ExtensionPoint::Reserve), reserved.code());
        reserved?;
        ports.probe.start(span(ExtensionPoint::Permit));
        let permitted = self.permit(profile, state, pod, node, now, ports);
        let code = match &permitted {
            Ok(None) => Code::Success,
            Ok(Some(_)) => Code::Wait,
            Err(status) => status.code(),
        };
        ports.probe.stop(span(ExtensionPoint::Permit), code);
        permitted
    }

    fn reserve(
        &mut self,
        profile: &Profile,
        state: &mut CycleState,
        pod: &Pod,
        node: &str,
        ports: &mut Ports<'_>,
    ) -> Result<(), Status> {
        let cluster = self.cache.cluster();
        for plugin in &profile.reserve {
            let status = ask(ExtensionPoint::Reserve, &plugin.name, ports.probe, || {
                plugin.plugin.reserve(state, pod, node, cluster)
            })
            .unwrap_or_else(|status| status);
            if status.is_rejection() {
                return Err(status.by(&plugin.name));
            }
            if !status.is_success() {
                let name = &plugin.name;
                let text = format!("running Reserve plugin {name:?}: {}", status.message());
                return Err(Status::error(text).by(name));
            }
        }
        Ok(())
    }

    /// Undoes Reserve in reverse order, also for plugins that were not reached.
    pub(crate) fn unreserve(
        &mut self,
        profile: &Profile,
        state: &mut CycleState,
        pod: &Pod,
        node: &str,
        now: Time,
        ports: &mut Ports<'_>,
    ) {
        for plugin in profile.reserve.iter().rev() {
            let mut handle = handle!(self, now);
            // A panic is counted; there is nothing left to undo.
            let _ = guarded(&plugin.name, ports.probe, || {
                plugin.plugin.unreserve(state, pod, node, &mut handle);
            });
        }
    }

    /// Asks every Permit plugin; `Some` if the pod has to wait.
    fn permit(
        &mut self,
        profile: &Profile,
        state: &mut CycleState,
        pod: &Arc<Pod>,
        node: &str,
        now: Time,
        ports: &mut Ports<'_>,
    ) -> Result<Option<WaitingPod>, Status> {
        let mut pending = std::collections::BTreeMap::new();
        for plugin in &profile.permit {
            let mut handle = handle!(self, now);
            let verdict = ask(ExtensionPoint::Permit, &plugin.name, ports.probe, || {
                plugin.plugin.permit(state, pod, node, &mut handle)
            })
            .unwrap_or_else(PermitVerdict::Reject);
            match verdict {
                PermitVerdict::Allow => {}
                PermitVerdict::Wait { timeout, .. } => {
                    pending.insert(plugin.name.clone(), now + timeout.min(MAX_PERMIT_TIMEOUT));
                }
                PermitVerdict::Reject(status) if status.is_rejection() => {
                    return Err(status.by(&plugin.name));
                }
                PermitVerdict::Reject(status) => {
                    let name = &plugin.name;
                    let text = format!("running Permit plugin {name:?}: {}", status.message());
                    return Err(Status::error(text).by(name));
                }
            }
        }
        let node = self.cache.placed(&pod.uid).map(|placed| placed.node);
        Ok(node.filter(|_| !pending.is_empty()).map(|node| WaitingPod {
            pod: pod.clone(),
            node,
            since: now,
            pending,
        }))
    }
}
