//! What the engine wants done in the world.

use std::fmt;
use std::sync::Arc;

use framework::{Binding, PodKey, StatusPatch, Uid, Write};

/// Names an effect in its answer. Ids grow by one and are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub(crate) u64);

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something to do, and the name under which the answer is expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Its name.
    pub id: EffectId,
    /// What to do.
    pub kind: EffectKind,
}

/// The things the engine asks for. Effects on one object are carried out in the order of their ids.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectKind {
    /// Post a Binding; answered with [`Engine::answer`](crate::Engine::answer).
    Bind(Binding),
    /// Have an extender bind the pod; answered likewise.
    ExtenderBind {
        /// Which of the configured extenders.
        extender: usize,
        /// The binding.
        binding: Binding,
    },
    /// A write a plugin asked for; answered likewise.
    Write(Write),
    /// Evict a pod to make room for another; answered likewise.
    Evict(Eviction),
    /// Read the pod, because the outcome of its binding is not known; answered likewise, with the pod
    /// as it is. A [`Change`](crate::Change) that shows it bound settles the matter too.
    ReadPod {
        /// Namespace and name.
        pod: PodKey,
        /// The UID that is meant.
        uid: Uid,
    },
    /// Patch the status of a pod; needs no answer.
    PatchPodStatus {
        /// Namespace and name.
        pod: PodKey,
        /// The UID that is meant.
        uid: Uid,
        /// `metadata.generation` the condition speaks of.
        observed_generation: i64,
        /// What changes.
        patch: StatusPatch,
    },
    /// Record an event; needs no answer.
    Event(Event),
}

/// The end of a pod that has to make room: the condition `DisruptionTarget` is patched into its
/// status, then it is deleted. A pod of its name with another UID is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// Namespace and name of the victim.
    pub pod: PodKey,
    /// UID of the victim.
    pub uid: Uid,
    /// The pod it makes room for.
    pub preemptor: PodKey,
    /// `metadata.generation` the condition speaks of.
    pub observed_generation: i64,
    /// What the condition says; `None` where the pod has it already.
    pub condition_message: Option<String>,
}

/// Whether an event is good or bad news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// As expected.
    Normal,
    /// Something is wrong.
    Warning,
}

/// An `events.k8s.io/v1` event about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Namespace and name of the pod.
    pub regarding: PodKey,
    /// UID of the pod.
    pub uid: Uid,
    /// Another pod that has to do with it.
    pub related: Option<ObjectRef>,
    /// Normal or Warning.
    pub event_type: EventType,
    /// Machine-readable reason, for example `Scheduled`.
    pub reason: &'static str,
    /// What was being done, for example `Binding`.
    pub action: &'static str,
    /// Text for people, at most 1024 bytes.
    pub note: String,
    /// Scheduler name of the profile.
    pub reporting_controller: Arc<str>,
}

/// Refers to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// Namespace and name.
    pub pod: PodKey,
    /// UID.
    pub uid: Uid,
}

/// Longest note the API server takes, in bytes.
const NOTE_MAX: usize = 1024;
const ELLIPSIS: &str = " ...";

/// `text` cut to what an event can carry, at a character, with ` ...` where something is missing.
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
    fn a_long_note_is_cut_at_a_character() {
        assert_eq!(note("short"), "short");
        let cut = note(&"é".repeat(600));
        assert!(cut.len() <= NOTE_MAX && cut.ends_with("é ..."), "{} bytes", cut.len());
    }
}
