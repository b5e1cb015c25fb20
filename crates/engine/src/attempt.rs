//! Attempts, as the caller of the engine sees them.

use std::sync::Arc;

use framework::{Code, Pod};

use crate::plugin_call::HasCode;

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is assumed on this node, and its binding cycle has begun.
    Assumed(Arc<str>),
    /// No node can take the pod; the message of its condition.
    Unschedulable(String),
    /// No node can take the pod, as its condition says already; the message. The attempt was made
    /// while the pod backs off, or for its template, and does not count.
    Repeated(String),
    /// A plugin, an extender or the engine failed; the message.
    Error(String),
    /// No attempt was made: the pod is being deleted, is assumed already, or was replaced.
    Skipped,
}

impl HasCode for Outcome {
    fn code(&self) -> Code {
        match self {
            Self::Assumed(_) | Self::Skipped => Code::Success,
            Self::Unschedulable(_) => Code::Unschedulable,
            Self::Repeated(_) => Code::Skip,
            Self::Error(_) => Code::Error,
        }
    }
}

/// An attempt to schedule a pod.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The outcome.
    pub outcome: Outcome,
}
