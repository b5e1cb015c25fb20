//! A pod in the scheduling queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{PluginName, Pod, Time};

/// A pod in the scheduling queue, with its history (`QueuedPodInfo` in Kubernetes).
#[derive(Debug, Clone)]
pub struct QueuedPod {
    /// The pod as last seen.
    pub pod: Arc<Pod>,
    /// When it was added to the queue, or requeued after its last failed attempt.
    pub timestamp: Time,
    /// When it first entered the active queue; `None` until then.
    pub initial_attempt: Option<Time>,
    /// Number of attempts, including the current one.
    pub attempts: u32,
    /// Number of attempts that found it unschedulable. It sets the backoff.
    pub unschedulable_count: u32,
    /// Number of consecutive attempts that ended in an error. It sets the backoff after an error.
    pub consecutive_errors: u32,
    /// Plugins that rejected it in its last attempt, or that gate it.
    pub unschedulable_plugins: BTreeSet<PluginName>,
    /// Plugins that answered Pending in its last attempt.
    pub pending_plugins: BTreeSet<PluginName>,
    /// Whether its last attempt showed that no node can take any pod of its template.
    pub template_rejected: bool,
    /// The PreEnqueue plugin that gates it, if any.
    pub gating_plugin: Option<PluginName>,
    /// End of its backoff, computed once per failure.
    pub backoff_expiration: Option<Time>,
    /// Whether it was requeued because it was unschedulable for too long, not because of an event.
    pub flushed: bool,
}

impl QueuedPod {
    /// Creates the record of a pod added to the queue at `now`.
    pub fn new(pod: Arc<Pod>, now: Time) -> Self {
        Self {
            pod,
            timestamp: now,
            initial_attempt: None,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            unschedulable_plugins: BTreeSet::new(),
            pending_plugins: BTreeSet::new(),
            template_rejected: false,
            gating_plugin: None,
            backoff_expiration: None,
            flushed: false,
        }
    }

    /// Whether no plugin rejected it in its last attempt, because the attempt ended in an error.
    pub fn has_no_rejector(&self) -> bool {
        self.unschedulable_plugins.is_empty() && self.pending_plugins.is_empty()
    }
}
