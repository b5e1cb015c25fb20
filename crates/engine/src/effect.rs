//! Effects: the requests that the engine asks its caller to make.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use framework::{
    Answer, Binding, EventType, PodKey, ScheduledCondition, StatusPatch, Time, Uid, Write,
};
use serde::{Deserialize, Serialize};

/// Identifies an effect in its answer. Ids grow by one and are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct EffectId(pub(crate) u64);

impl EffectId {
    /// Returns the id of this number, for a recording of answers.
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of the id.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request, and the id under which its answer is expected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The id.
    pub id: EffectId,
    /// The request.
    pub kind: EffectKind,
}

/// Kinds of requests. Effects on one object are carried out in the order of their ids.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum EffectKind {
    /// Post a Binding; answered with [`Input::Answer`](crate::Input::Answer).
    Bind {
        /// The binding.
        binding: Binding,
        /// The start of the attempt. The decision is based on the state at that time.
        decided: Time,
        /// `metadata.generation` of the pod that was decided on.
        generation: i64,
        /// `metadata.resourceVersion` of the pod, a precondition; 0 if it is not known.
        resource_version: u64,
    },
    /// Let an extender bind the pod; answered likewise.
    ExtenderBind {
        /// Index of the extender.
        extender: usize,
        /// The binding.
        binding: Binding,
        /// The start of the attempt.
        decided: Time,
    },
    /// A write that a plugin asked for; answered likewise.
    Write(Write),
    /// Evict a pod to make room for another; answered likewise.
    Evict(Eviction),
    /// Read the pod, because the outcome of its bind is unknown; answered likewise, with the pod. A
    /// [`Change`](crate::Change) that shows the pod bound answers the question too.
    ReadPod {
        /// Namespace and name.
        pod: PodKey,
        /// UID of the pod.
        uid: Uid,
    },
    /// Patch a condition of the pod that the last read showed unbound at this resourceVersion. If
    /// that succeeds, no Binding that names an older version can be carried out any more. Answered
    /// likewise, with the pod.
    Fence {
        /// Namespace and name.
        pod: PodKey,
        /// UID of the pod.
        uid: Uid,
        /// `metadata.generation` that the condition was observed on.
        observed_generation: i64,
        /// `metadata.resourceVersion` of the pod as read, a precondition.
        resource_version: u64,
        /// Says why the pod is not bound yet.
        condition: ScheduledCondition,
    },
    /// Patch the status of a pod; needs no answer. An answer to a patch of the nomination may show
    /// the pod in the version that the patch has made, so that the engine knows which nominations
    /// belong to others.
    PatchPodStatus {
        /// Namespace and name.
        pod: PodKey,
        /// UID of the pod.
        uid: Uid,
        /// `metadata.generation` that the condition was observed on.
        observed_generation: i64,
        /// `metadata.resourceVersion` of the pod as the engine knows it; 0 if it is not known.
        resource_version: u64,
        /// The patch.
        patch: StatusPatch,
    },
    /// Change the resourceVersion of a pending pod, and nothing that matters to anyone, so that an
    /// earlier Binding that is still under way is refused. Answered with the metadata of the pod
    /// after the patch, or with metadata and node of the pod as it was bound.
    TouchPod {
        /// Namespace and name of the pod.
        pod: PodKey,
        /// UID of the pod.
        uid: Uid,
        /// `metadata.generation` that the condition was observed on.
        observed_generation: i64,
        /// `metadata.resourceVersion` of the pod as the engine knows it; 0 if it is not known.
        resource_version: u64,
        /// Whether the pod has the condition `PodScheduled`.
        has_condition: bool,
    },
    /// Record an event; needs no answer.
    Event(Event),
    /// Look for moves of pods after which a pod fits, beside the engine; answered with
    /// [`Input::Answer`](crate::Input::Answer): [`PlannedMoves`] as JSON, or a failure.
    PlanMoves(MovesWanted),
    /// Post an Eviction, so that budgets have the last word; answered likewise. It is not repeated.
    RequestEviction {
        /// Namespace and name.
        pod: PodKey,
        /// UID of the pod, a precondition.
        uid: Uid,
    },
}

/// The pod for which room is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MovesWanted {
    /// Namespace and name.
    pub pod: PodKey,
    /// UID of the pod.
    pub uid: Uid,
    /// Maximum number of moves.
    pub most: usize,
}

/// Moves after which a pod fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedMoves {
    /// The node of the pod after the moves.
    pub node: Arc<str>,
    /// The moves, in the order in which they are to be made; none if the pod fits without one.
    pub moves: Vec<PlannedMove>,
}

/// A move of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedMove {
    /// Namespace of the pod that ends.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// The node that it leaves.
    pub from: Arc<str>,
    /// The node of its successor.
    pub to: Arc<str>,
}

impl PlannedMoves {
    /// Returns the answer to [`EffectKind::PlanMoves`].
    pub fn answer(&self) -> Answer {
        match serde_json::to_value(self) {
            Ok(json) => Answer::Ok(Some(json)),
            Err(error) => Answer::Error(error.to_string()),
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// No moves were found, or the answer is not a plan.
    pub(crate) fn of(answer: &Answer) -> Result<Self, String> {
        match answer {
            Answer::Ok(Some(json)) => Self::deserialize(json).map_err(|error| error.to_string()),
            other => Err(other.failure().unwrap_or("the answer has no plan").to_owned()),
        }
    }
}

/// An eviction: the condition `DisruptionTarget` is patched into the status of the victim, then the
/// victim is deleted. A pod of the same name with another UID is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Eviction {
    /// Namespace and name of the victim.
    pub pod: PodKey,
    /// UID of the victim.
    pub uid: Uid,
    /// The preemptor.
    pub preemptor: PodKey,
    /// `metadata.generation` that the condition was observed on.
    pub observed_generation: i64,
    /// Message of the condition; `None` if the victim has the condition already.
    pub condition_message: Option<String>,
}

/// The kind of object that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum EventSubject {
    /// A pod.
    Pod,
    /// A PodGroup of this API version.
    PodGroup(&'static str),
    /// The Lease of a leader election.
    Lease,
}

impl EventSubject {
    /// Returns API version and kind.
    pub const fn version_and_kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod => ("v1", "Pod"),
            Self::PodGroup(version) => (version, "PodGroup"),
            Self::Lease => ("coordination.k8s.io/v1", "Lease"),
        }
    }
}

/// An `events.k8s.io/v1` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// What kind of object the event is about.
    pub subject: EventSubject,
    /// Namespace and name of the object.
    pub regarding: PodKey,
    /// UID of the object.
    pub uid: Uid,
    /// A second pod that the event is about.
    pub related: Option<ObjectRef>,
    /// Normal or Warning.
    pub event_type: EventType,
    /// Machine-readable reason, for example `Scheduled`.
    pub reason: Cow<'static, str>,
    /// The action, for example `Binding`.
    pub action: Cow<'static, str>,
    /// Human-readable text, at most 1024 bytes.
    pub note: String,
    /// Scheduler name of the profile.
    pub reporting_controller: Arc<str>,
}

/// Refers to a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectRef {
    /// Namespace and name.
    pub pod: PodKey,
    /// UID.
    pub uid: Uid,
}

/// Longest note that the API server accepts, in bytes.
const NOTE_MAX: usize = 1024;
const ELLIPSIS: &str = " ...";

/// Returns `text` cut to the longest note, at a character, with ` ...` where text is missing.
pub(crate) fn note(text: &str) -> String {
    if text.len() <= NOTE_MAX {
        return text.to_owned();
    }
    let mut end = NOTE_MAX - ELLIPSIS.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_note_is_cut_at_a_character() {
        assert_eq!(note("short"), "short");
        let cut = note(&"é".repeat(600));
        assert!(cut.len() <= NOTE_MAX && cut.ends_with("é ..."), "{} bytes", cut.len());
    }
}
