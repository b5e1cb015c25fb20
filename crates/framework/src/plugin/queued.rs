//! A pod on its way through the scheduling queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{PluginName, Pod, Time};

/// The record the queue keeps of a pod (`QueuedPodInfo` in Kubernetes).
#[derive(Debug, Clone)]
pub struct QueuedPod {
    /// The pod as last seen.
    pub pod: Arc<Pod>,
    /// When it entered the queue, or came back after its last failed attempt.
    pub timestamp: Time,
    /// When it first entered the active queue.
    pub initial_attempt: Option<Time>,
    /// Attempts so far, the running one included.
    pub attempts: u32,
    /// How often it was found unschedulable; drives the backoff.
    pub unschedulable_count: u32,
    /// Errors in a row; drives the backoff in place of the other count.
    pub consecutive_errors: u32,
    /// Plugins that rejected it in its last attempt, or gate it.
    pub unschedulable_plugins: BTreeSet<PluginName>,
    /// Those of them that answered Pending.
    pub pending_plugins: BTreeSet<PluginName>,
    /// The plugin that gates it, if any.
    pub gating_plugin: Option<PluginName>,
    /// When its backoff ends; computed once per failure.
    pub backoff_expiration: Option<Time>,
    /// Whether it is tried because it waited for too long, not because of an event.
    pub flushed: bool,
}

impl QueuedPod {
    /// The record of a pod that enters the queue at `now`.
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
            gating_plugin: None,
            backoff_expiration: None,
            flushed: false,
        }
    }

    /// Whether no plugin is on record as the reason of the last failure: it was an error.
    pub fn has_no_rejector(&self) -> bool {
        self.unschedulable_plugins.is_empty() && self.pending_plugins.is_empty()
    }
}
