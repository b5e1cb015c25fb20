//! Writes to the API server that a plugin requests, and their answers.

use std::sync::Arc;

use serde::Serialize;

use crate::{PodKey, ScheduledCondition, Uid};

/// A Binding of a pod to a node. The UID of the pod is its precondition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Binding {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// UID of the pod. The API server rejects the Binding if another pod has the name.
    pub uid: Uid,
    /// Name of the node.
    pub node: Arc<str>,
}

/// A change to the status of a pod. Fields that are `None` stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StatusPatch {
    /// The `PodScheduled` condition.
    pub condition: Option<ScheduledCondition>,
    /// `status.nominatedNodeName`; an empty name clears it.
    pub nominated_node_name: Option<Arc<str>>,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum EventType {
    /// Expected behaviour.
    Normal,
    /// A problem.
    Warning,
}

/// An event about a pod, recorded on behalf of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodEvent {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    /// UID of the pod.
    pub uid: Uid,
    /// Normal or Warning.
    pub event_type: EventType,
    /// Machine-readable reason in CamelCase, for example `Scheduled`; at most 128 bytes.
    pub reason: Arc<str>,
    /// The action in progress, for example `Binding`; at most 128 bytes.
    pub action: Arc<str>,
    /// Text for people; the engine cuts it to 1024 bytes.
    pub note: String,
}

/// A write of an object, requested by a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Write {
    /// Group and version, for example `v1` or `resource.k8s.io/v1`.
    pub api_version: Arc<str>,
    /// Plural resource name, for example `persistentvolumeclaims`.
    pub resource: Arc<str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Object name.
    pub name: Arc<str>,
    /// Subresource, if any.
    pub subresource: Option<Arc<str>>,
    /// The name of a driver or a class on which the answer may depend, beside kind and namespace;
    /// or empty. Writes of one flow that get no answer hold up no writes of another.
    pub flow: Arc<str>,
    /// The action on the object.
    pub action: WriteAction,
}

impl Write {
    /// Returns the patch or the object that the request carries; null for a deletion.
    pub const fn body(&self) -> &serde_json::Value {
        match &self.action {
            WriteAction::MergePatch(body)
            | WriteAction::StrategicMergePatch(body)
            | WriteAction::Create(body) => body,
            WriteAction::Delete(_) => &serde_json::Value::Null,
        }
    }
}

/// The action of a [`Write`] on its object. After a lost answer a write may be repeated, so each
/// action is safe to be carried out twice, or a precondition refuses the second time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum WriteAction {
    /// Applies this JSON merge patch. `metadata.uid` and `metadata.resourceVersion` in it are
    /// preconditions.
    MergePatch(serde_json::Value),
    /// Applies this strategic merge patch, which changes single entries of lists. `metadata.uid` in
    /// it is a precondition.
    StrategicMergePatch(serde_json::Value),
    /// Creates this object. Its `metadata.name` is the name of the write, so that a repetition
    /// creates no second object.
    Create(serde_json::Value),
    /// Deletes the object if it has this UID.
    Delete(Uid),
}

/// The outcome of a write.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// The write was carried out. Carries the object if the server returned it.
    Ok(Option<serde_json::Value>),
    /// A precondition failed (status 409).
    Conflict(String),
    /// The pod of a Binding has changed since the version that the request named (status 409).
    Outdated(String),
    /// The object does not exist (status 404).
    Gone(String),
    /// The server does not allow the write (status 401 or 403).
    Forbidden(String),
    /// The server asks for a later retry (status 429).
    Throttled(String),
    /// The write failed and was not carried out.
    Error(String),
    /// The answer was lost: the write may have been carried out or not.
    Unknown(String),
}

impl Answer {
    /// Returns a success without an object.
    pub const fn ok() -> Self {
        Self::Ok(None)
    }

    /// Returns the text of a failure, `None` for success.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Ok(_) => None,
            Self::Conflict(text)
            | Self::Outdated(text)
            | Self::Gone(text)
            | Self::Forbidden(text)
            | Self::Throttled(text)
            | Self::Error(text)
            | Self::Unknown(text) => Some(text),
        }
    }
}
