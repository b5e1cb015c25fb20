//! One binding cycle: its data, and the plugins that it runs.

use std::sync::Arc;

use framework::{
    Answer, Attempt, AttemptMut, BindStep, Binding, Code, CycleState, ExtensionPoint, PluginName,
    Pod, PodGroupKey, PreBindInput, PreBindPreFlight, PreBindStep, QueuedPod, Status, Time, api,
};
use serde::Deserialize;

use super::unknown_bind::UnknownBind;
use super::waits::Wait;
use crate::context::Context;
use crate::effect::{EffectId, EffectKind};
use crate::plugin_call::call_plugin;
use crate::ports::{Point, Span};
use crate::profile::Profile;
use crate::record::Choice;
use crate::world::World;

/// The decision of the scheduling cycle.
pub(crate) struct Decided {
    pub(crate) queued: QueuedPod,
    pub(crate) profile: Arc<Profile>,
    pub(crate) choice: Choice,
    /// The group with which the pod was decided.
    pub(crate) group: Option<PodGroupKey>,
}

/// The binding cycle of an assumed pod.
#[derive(Debug)]
pub(crate) struct BindingCycle {
    pub(crate) queued: QueuedPod,
    pub(crate) profile: Arc<Profile>,
    /// The pod as assumed, with its node.
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: Arc<str>,
    /// The choice of the node.
    pub(crate) choice: Choice,
    pub(crate) state: CycleState,
    /// The group with which the pod was decided.
    pub(crate) group: Option<PodGroupKey>,
    /// The nomination that PreBind or Permit asked to write.
    pub(crate) nominated: Option<Arc<str>>,
    /// The start of the attempt.
    pub(crate) since: Time,
    /// The end of Permit, which is the start of PreBind.
    pub(super) permitted: Time,
    pub(super) phase: Phase,
    /// PreBind plugins by index in the profile. The plugins of one stage run in parallel.
    pub(super) stages: Vec<Vec<usize>>,
    /// The Bind plugin that binds the pod; `None` if an extender binds it.
    pub(super) binder: Option<PluginName>,
    /// `metadata.resourceVersion` of the pod when it was last read; 0 before that.
    pub(super) read_version: u64,
    /// Number of binds that were refused because the pod had changed.
    pub(super) outdated_binds: u32,
    /// Number of binds whose outcome was unknown.
    pub(super) unknown_binds: u32,
    /// Whether an event has reported a bind of unknown outcome.
    pub(super) reported_unknown: bool,
    /// Whether a request to bind was sent that no write of the pod stops.
    pub(super) unstoppable: bool,
}

#[derive(Debug)]
pub(super) enum Phase {
    WaitOnPermit,
    /// The plugins of the running stage, and what each waits for.
    PreBind {
        stage: usize,
        running: Vec<(usize, Waiting)>,
    },
    /// PreBind is over, and too few members of the group have come so far.
    WaitOnGroup,
    Bind {
        effect: EffectId,
        extender: Option<usize>,
        /// Whether an earlier request to bind may still reach the server.
        repeated: bool,
        /// Whether the request names the resourceVersion of the pod, so that a later write of the
        /// pod stops it.
        fenced: bool,
        since: Time,
    },
    /// The outcome of the bind is unknown, and the pod is read to find out.
    ReadPod {
        effect: EffectId,
        if_unbound: IfUnbound,
    },
    /// The pod was read unbound, and a write of it stops the bind of unknown outcome.
    Fence {
        effect: EffectId,
        bind: UnknownBind,
    },
}

/// The next step for a pod that turns out not to be bound.
#[derive(Debug, Clone)]
pub(super) enum IfUnbound {
    /// Bind the pod, by the first interested extender from this index on or by the Bind plugins. No
    /// earlier request to bind can reach the server.
    Bind { extender: usize },
    /// Make sure that the last bind cannot be carried out any more, then bind the pod again or give
    /// up.
    Resolve(UnknownBind),
}

/// The input that a PreBind plugin waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waiting {
    Answer(EffectId),
    Change(Wait),
}

impl Waiting {
    /// Returns this wait with the deadline of the wait before it, if that one is earlier.
    pub(super) fn within(mut self, before: &Self) -> Self {
        if let (Self::Change(wait), Self::Change(before)) = (&mut self, before) {
            wait.until = wait.until.min(before.until);
        }
        self
    }
}

/// The state of the pod in an answer.
pub(super) enum Shown {
    /// The pod is not bound, and can be.
    Unbound(UnboundPod),
    /// The pod is bound, gone or going.
    Ends(Next),
    Nothing,
}

/// A pod without a node, as the API server showed it.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnboundPod {
    pub(super) generation: u32,
    pub(super) resource_version: u64,
}

/// The result of a step of a cycle.
pub(super) enum Next {
    Wait,
    Bound,
    Failed(Status),
    /// The request to bind a member of a group was refused.
    Refused(Status),
    /// The specification of the pod has changed since the decision.
    Outdated,
}

impl BindingCycle {
    pub(crate) fn new(decided: Decided, pod: Arc<Pod>, state: CycleState, now: Time) -> Self {
        Self {
            queued: decided.queued,
            profile: decided.profile,
            choice: decided.choice,
            group: decided.group,
            node: pod.node_name.clone().unwrap_or_default(),
            pod,
            state,
            nominated: None,
            since: now,
            permitted: now,
            phase: Phase::WaitOnPermit,
            stages: Vec::new(),
            binder: None,
            read_version: 0,
            outdated_binds: 0,
            unknown_binds: 0,
            reported_unknown: false,
            unstoppable: false,
        }
    }

    /// Returns the version of the pod that a bind names as its precondition: the newest one that is
    /// known to have the specification of the decision. Kubernetes counts specifications in
    /// `metadata.generation`, so new labels or a new status do not stop a bind.
    pub(super) fn version_to_bind(&self, world: &World) -> u64 {
        let known = world.pending().get(&self.pod.key);
        let known = known.filter(|pod| pod.uid == self.pod.uid && self.is_of_spec(pod.generation));
        let watched = known.map_or(0, |pod| pod.resource_version);
        self.pod.resource_version.max(watched).max(self.read_version)
    }

    /// Whether the decision rests on the specification with this `metadata.generation`.
    pub(super) fn is_of_spec(&self, generation: u32) -> bool {
        self.pod.generation == generation
    }

    /// Whether no request to bind has been sent.
    pub(super) const fn is_before_bind(&self) -> bool {
        matches!(self.phase, Phase::WaitOnPermit | Phase::PreBind { .. } | Phase::WaitOnGroup)
    }

    /// Returns the group whose other members the pod waits for.
    pub(super) fn gathered(&self) -> Option<&PodGroupKey> {
        self.group.as_ref().filter(|_| matches!(self.phase, Phase::WaitOnGroup))
    }

    /// Returns the combined wait of the running PreBind plugins for a change.
    pub(super) fn wait_for_change(&self) -> Option<Wait> {
        let Phase::PreBind { running, .. } = &self.phase else { return None };
        let waits = running.iter().filter_map(|(_, waiting)| match waiting {
            Waiting::Change(wait) => Some(wait.clone()),
            Waiting::Answer(_) => None,
        });
        waits.reduce(Wait::join)
    }

    /// Runs PreBindPreFlight of every PreBind plugin, and puts the plugins that have work to do
    /// into stages. Returns whether any plugin has work to do.
    pub(super) fn pre_flight(
        &mut self,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<bool, Status> {
        let profile = self.profile.clone();
        let span = Span::Point(Point::PreBindPreFlight, &profile.scheduler_name);
        cx.probe.start(span);
        let staged = self.stage_pre_bind(world, cx);
        let code = match &staged {
            Ok(true) => Code::Success,
            Ok(false) => Code::Skip,
            Err(status) => status.code(),
        };
        cx.probe.stop(span, code);
        staged
    }

    fn stage_pre_bind(&mut self, world: &World, cx: &mut Context<'_>) -> Result<bool, Status> {
        let handle = world.handle(cx.now);
        let mut joins_last = false;
        for (place, plugin) in self.profile.pre_bind.iter().enumerate() {
            let point = Point::PreBindPreFlight;
            let answer = call_plugin(point, &plugin.name, cx.probe, || {
                plugin.plugin.pre_flight(&Attempt::new(&self.state, &self.pod, &handle), &self.node)
            });
            match answer.unwrap_or_else(PreBindPreFlight::Fail) {
                PreBindPreFlight::Skip { allow_parallel } => joins_last &= allow_parallel,
                PreBindPreFlight::Run { allow_parallel } => {
                    match self.stages.last_mut() {
                        Some(stage) if joins_last && allow_parallel => stage.push(place),
                        _ => self.stages.push(vec![place]),
                    }
                    joins_last = allow_parallel;
                }
                PreBindPreFlight::Fail(status) => {
                    return Err(pre_flight_error(&plugin.name, &status));
                }
            }
        }
        Ok(!self.stages.is_empty())
    }

    /// Runs one step of one PreBind plugin. Returns `None` when the plugin is done.
    pub(super) fn step_pre_bind(
        &mut self,
        plugin: usize,
        input: PreBindInput<'_>,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<Option<Waiting>, Status> {
        let plugin = &self.profile.pre_bind[plugin];
        let handle = world.handle(cx.now);
        let step = call_plugin(ExtensionPoint::PreBind, &plugin.name, cx.probe, || {
            let attempt = AttemptMut::new(&mut self.state, &self.pod, &handle);
            plugin.plugin.pre_bind(attempt, &self.node, input)
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
                Ok(Some(Waiting::Answer(cx.effects.emit(EffectKind::Write(write)))))
            }
            PreBindStep::Wait { timeout, objects } => {
                let (until, objects) = (cx.now + timeout, objects.into_iter().collect());
                Ok(Some(Waiting::Change(Wait { until, objects })))
            }
        }
    }

    /// Runs the Bind plugins until one does not skip. Returns the binding to post, or `None` if the
    /// plugin has bound the pod itself.
    pub(super) fn bind_by_plugin(
        &mut self,
        world: &World,
        cx: &mut Context<'_>,
    ) -> Result<Option<Binding>, Status> {
        let handle = world.handle(cx.now);
        for plugin in &self.profile.bind {
            let step = call_plugin(ExtensionPoint::Bind, &plugin.name, cx.probe, || {
                plugin.plugin.bind(&Attempt::new(&self.state, &self.pod, &handle), &self.node)
            });
            match step.unwrap_or_else(BindStep::Done) {
                BindStep::Skip => {}
                BindStep::Bind(binding) => {
                    self.binder = Some(plugin.name.clone());
                    return Ok(Some(binding));
                }
                BindStep::Done(status) if status.is_success() => return Ok(None),
                BindStep::Done(status) if status.is_rejection() => {
                    return Err(status.by(&plugin.name));
                }
                BindStep::Done(status) => {
                    let name = &plugin.name;
                    let text = format!("running Bind plugin {name:?}: {}", status.message());
                    return Err(Status::error(text).by(name));
                }
            }
        }
        Err(Status::skip())
    }

    /// Returns what the pod in the answer to a read or a write of it shows.
    pub(super) fn unbound_pod(&self, answer: &Answer) -> Shown {
        let object = match answer {
            Answer::Ok(Some(object)) => object,
            Answer::Gone(text) => return Shown::Ends(Next::Failed(self.bind_error(text))),
            _ => return Shown::Nothing,
        };
        let Ok(api::Pod { metadata, spec, .. }) = api::Pod::deserialize(object) else {
            return Shown::Nothing;
        };
        let failed = |text: &str| Shown::Ends(Next::Failed(self.bind_error(text)));
        if metadata.uid != self.pod.uid.to_string() {
            return failed("the pod was replaced by another of its name");
        }
        if !spec.node_name.is_empty() {
            return Shown::Ends(self.bound_to(&spec.node_name));
        }
        if metadata.deletion_timestamp.is_some() {
            return failed("the pod is being deleted");
        }
        let resource_version = metadata.resource_version.parse().unwrap_or(0);
        let generation = Pod::generation_of(&metadata);
        Shown::Unbound(UnboundPod { generation, resource_version })
    }

    /// Returns the result for a pod that is bound to `node`.
    pub(super) fn bound_to(&self, node: &str) -> Next {
        match *node == *self.node {
            true => Next::Bound,
            false => Next::Failed(self.bind_error(&format!("the pod is bound to node {node}"))),
        }
    }

    pub(super) fn bind_error(&self, text: &str) -> Status {
        Status::error(match &self.binder {
            Some(plugin) => format!("running Bind plugin {plugin:?}: {text}"),
            None => text.to_owned(),
        })
    }
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
