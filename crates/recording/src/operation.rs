//! Operations: the inputs of the engine, and what came of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::ports::{CallError, Filtered, HostPriorities, MetaVictims};
use engine::{Attempt, Change, Effect, EffectKind, Input, Outcome};
use framework::{ObjectKey, PodKey, Time};

/// An input of the engine, or a result of the step before.
#[derive(Debug, Clone)]
pub enum Operation {
    /// An input of the engine. A tick is recorded if something was due.
    Input {
        /// The time of the step. Corrections of the wall clock and touches have the time of the
        /// operation before.
        now: Time,
        /// The input.
        input: Input,
    },
    /// An extender was called during the step before.
    Called(Called),
    /// The result of the last [`Input::Schedule`].
    Attempt {
        /// The pod.
        pod: PodKey,
        /// The outcome.
        outcome: Decided,
    },
    /// The effects of the steps before were taken.
    Effects(Taken),
    /// A part of a checkpoint: an object that the engine knew, as a change that adds it. It is no
    /// input.
    Known(Change),
    /// Everything that the engine knew was written since the last checkpoint, or has changed since.
    Checkpoint,
}

impl Operation {
    /// Returns the time of a step, if it was recorded.
    pub const fn time(&self) -> Option<Time> {
        match self {
            Self::Input { input: Input::WallOffset(_) | Input::Touch(_), .. }
            | Self::Called(_)
            | Self::Attempt { .. }
            | Self::Effects(_)
            | Self::Known(_)
            | Self::Checkpoint => None,
            Self::Input { now, .. } => Some(*now),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { input, .. } => write_input(input, f),
            Self::Called(called) => write!(f, "call of {called}"),
            Self::Attempt { pod, outcome } => write!(f, "attempt for pod {pod}: {outcome}"),
            Self::Effects(_) => f.write_str("effects"),
            Self::Known(_) | Self::Checkpoint => f.write_str("checkpoint"),
        }
    }
}

fn write_input(input: &Input, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match input {
        Input::WallOffset(_) => f.write_str("correction of the wall clock"),
        Input::Change(change) => write_change(change, f),
        Input::Answer { effect, .. } => write!(f, "answer to effect {effect}"),
        Input::ExtenderProbed { extender, .. } => write!(f, "probe of extender {extender}"),
        Input::Tick => f.write_str("timers"),
        Input::Touch(pod) => write!(f, "fence of pod {pod}"),
        Input::Schedule => f.write_str("attempt to schedule the next pod"),
        Input::Evaluate { pod, .. } => write!(f, "evaluation of pod {}", pod.key),
    }
}

fn write_change(change: &Change, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match change {
        Change::Node(node) => write!(f, "change of node {}", node.name),
        Change::NodeDeleted(name) => write!(f, "deletion of node {name}"),
        Change::Pod(pod) => write!(f, "change of pod {}", pod.key),
        Change::PodDeleted { key, .. } => write!(f, "deletion of pod {key}"),
        Change::Object(object) => write_object("change", object.key(), f),
        Change::ObjectDeleted(key) => write_object("deletion", key, f),
    }
}

fn write_object(what: &str, key: &ObjectKey, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ObjectKey { kind, namespace, name } = key;
    let slash = if namespace.is_empty() { "" } else { "/" };
    write!(f, "{what} of {} {namespace}{slash}{name}", kind.name())
}

/// The result of a call of an extender, and the time at which it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// A filter call.
    Filter(Result<Filtered, CallError>, Time),
    /// Prioritize calls.
    Prioritize(Vec<Result<HostPriorities, CallError>>, Time),
    /// A preempt call.
    Preempt(Result<BTreeMap<String, MetaVictims>, CallError>, Time),
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filter(..) => "an extender to filter",
            Self::Prioritize(..) => "extenders to prioritize",
            Self::Preempt(..) => "an extender to preempt",
        })
    }
}

/// The outcome of an attempt, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// The pod is assumed on this node.
    Assumed(Arc<str>),
    /// No node can take the pod.
    Unschedulable,
    /// No node can take the pod, as its condition said already; the attempt does not count.
    Repeated,
    /// A plugin, an extender or the engine failed.
    Error,
    /// No attempt was made.
    Skipped,
}

impl Decided {
    /// Returns the outcome of an attempt.
    pub fn of(attempt: &Attempt) -> Self {
        match &attempt.outcome {
            Outcome::Assumed(node) => Self::Assumed(node.clone()),
            Outcome::Unschedulable(_) => Self::Unschedulable,
            Outcome::Repeated(_) => Self::Repeated,
            Outcome::Error(_) => Self::Error,
            Outcome::Skipped => Self::Skipped,
        }
    }
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assumed(node) => write!(f, "node {node}"),
            Self::Unschedulable => f.write_str("unschedulable"),
            Self::Repeated => f.write_str("unschedulable as before"),
            Self::Error => f.write_str("error"),
            Self::Skipped => f.write_str("skipped"),
        }
    }
}

/// Effects that were taken from the engine at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The subject of each effect.
    pub effects: Vec<EffectSummary>,
    /// Digest of these effects and of all before, in all their details.
    pub digest: [u8; 3],
}

/// The subject of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectSummary {
    /// A Binding of the pod to the node.
    Bind(PodKey, Arc<str>),
    /// A bind of the pod to the node by an extender.
    ExtenderBind(PodKey, Arc<str>),
    /// An eviction of the pod for another pod.
    Evict(PodKey, PodKey),
    /// An event of this reason about the pod.
    Event(PodKey, Arc<str>),
    /// A patch of the status of the pod.
    Patch(PodKey),
    /// A write of a plugin: the resource, the namespace and the name.
    Write(Arc<str>, Arc<str>, Arc<str>),
    /// A read of the pod.
    Read(PodKey),
    /// A patch that stops binds of the pod that are under way.
    Fence(PodKey),
    /// A patch of a pending pod that stops binds of earlier schedulers.
    Touch(PodKey),
    /// A look for moves of pods that make room for the pod.
    PlanMoves(PodKey),
    /// An Eviction of a pod that is moved.
    RequestEviction(PodKey),
}

impl EffectSummary {
    /// Returns what the effect is about.
    pub fn of(effect: &Effect) -> Self {
        match &effect.kind {
            EffectKind::Bind { binding, .. } => {
                Self::Bind(binding.pod.clone(), binding.node.clone())
            }
            EffectKind::ExtenderBind { binding, .. } => {
                Self::ExtenderBind(binding.pod.clone(), binding.node.clone())
            }
            EffectKind::Write(write) => {
                Self::Write(write.resource.clone(), write.namespace.clone(), write.name.clone())
            }
            EffectKind::Evict(eviction) => {
                Self::Evict(eviction.pod.clone(), eviction.preemptor.clone())
            }
            EffectKind::ReadPod { pod, .. } => Self::Read(pod.clone()),
            EffectKind::Fence { pod, .. } => Self::Fence(pod.clone()),
            EffectKind::PatchPodStatus { pod, .. } => Self::Patch(pod.clone()),
            EffectKind::TouchPod { pod, .. } => Self::Touch(pod.clone()),
            EffectKind::PlanMoves(wanted) => Self::PlanMoves(wanted.pod.clone()),
            EffectKind::RequestEviction { pod, .. } => Self::RequestEviction(pod.clone()),
            EffectKind::Event(event) => {
                Self::Event(event.regarding.clone(), event.reason.as_ref().into())
            }
        }
    }
}

impl fmt::Display for EffectSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(pod, node) => write!(f, "bind {pod} to {node}"),
            Self::ExtenderBind(pod, node) => write!(f, "let an extender bind {pod} to {node}"),
            Self::Evict(pod, preemptor) => write!(f, "evict {pod} for {preemptor}"),
            Self::Event(pod, reason) => write!(f, "event {reason} about {pod}"),
            Self::Patch(pod) => write!(f, "patch the status of {pod}"),
            Self::Write(resource, namespace, name) => {
                let slash = if namespace.is_empty() { "" } else { "/" };
                write!(f, "write {resource} {namespace}{slash}{name}")
            }
            Self::Read(pod) => write!(f, "read {pod}"),
            Self::Fence(pod) | Self::Touch(pod) => write!(f, "fence {pod}"),
            Self::PlanMoves(pod) => write!(f, "look for moves for {pod}"),
            Self::RequestEviction(pod) => write!(f, "request the eviction of {pod}"),
        }
    }
}
