//! Writes a plugin asks for, and their answers.

use std::sync::Arc;

use crate::{PodKey, ScheduledCondition, Uid};

/// A Binding of a pod to a node, with the UID of the pod as precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// UID of the pod; the server refuses another pod of that name.
    pub uid: Uid,
    /// The node.
    pub node: Arc<str>,
}

/// A change to the status of a pod. What is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusPatch {
    /// The `PodScheduled` condition.
    pub condition: Option<ScheduledCondition>,
    /// `status.nominatedNodeName`; an empty name clears it.
    pub nominated_node_name: Option<Arc<str>>,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Expected behaviour.
    Normal,
    /// A problem.
    Warning,
}

/// An event about a pod, recorded on behalf of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// UID of the pod.
    pub uid: Uid,
    /// Normal or Warning.
    pub event_type: EventType,
    /// Machine-readable reason in CamelCase, for example `Scheduled`; at most 128 bytes.
    pub reason: Arc<str>,
    /// What was being done, for example `Binding`; at most 128 bytes.
    pub action: Arc<str>,
    /// Text for people; the engine cuts it to 1024 bytes.
    pub note: String,
}

/// A merge patch that a plugin wants written.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// API group and version, for example `v1` or `resource.k8s.io/v1`.
    pub api_version: Arc<str>,
    /// Plural resource name, for example `persistentvolumeclaims`.
    pub resource: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Object name.
    pub name: Arc<str>,
    /// Subresource, if any.
    pub subresource: Option<Arc<str>>,
    /// JSON merge patch; carries `metadata.uid` and `metadata.resourceVersion` as preconditions.
    pub patch: serde_json::Value,
}

/// How an effect ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// Done; the object as the server returned it, where it did.
    Ok(Option<serde_json::Value>),
    /// A precondition failed, or the object changed meanwhile.
    Conflict(String),
    /// The object does not exist.
    Gone(String),
    /// The server does not allow it.
    Forbidden(String),
    /// The server asks to come back later.
    Throttled(String),
    /// It failed for certain.
    Error(String),
    /// It may or may not have happened: the answer was lost.
    Unknown(String),
}

impl Answer {
    /// Success without an object.
    pub const fn ok() -> Self {
        Self::Ok(None)
    }

    /// The text of a failure, `None` for success.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Ok(_) => None,
            Self::Conflict(text)
            | Self::Gone(text)
            | Self::Forbidden(text)
            | Self::Throttled(text)
            | Self::Error(text)
            | Self::Unknown(text) => Some(text),
        }
    }
}
