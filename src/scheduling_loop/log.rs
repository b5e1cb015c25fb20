//! Log lines of the scheduling loop.

use client::FailedCall;
use engine::{Attempt, Event, Outcome};
use tracing::{debug, trace, warn};

/// Logs the result of a scheduling attempt.
pub(super) fn log_attempt(attempt: &Attempt) {
    let pod = &attempt.pod.key;
    match &attempt.outcome {
        Outcome::Assumed(node) => trace!(%pod, node = &**node, "Assumed pod on node"),
        Outcome::Unschedulable(err) => {
            debug!(%pod, err, "Unable to schedule pod; no fit; waiting");
        }
        Outcome::Error(err) => warn!(%pod, err, "Error scheduling pod; retrying"),
        Outcome::Skipped => debug!(%pod, "Skip schedule deleting pod"),
    }
}

/// Logs an event about a pod.
pub(super) fn log_event(event: &Event) {
    let (pod, note) = (&event.regarding, event.note.as_str());
    match &*event.reason {
        "Scheduled" => debug!(%pod, note, "Successfully bound pod to node"),
        reason => trace!(%pod, note, "{reason}"),
    }
}

/// Logs a failed API call.
pub(super) fn log_failed_call(call: &FailedCall) {
    let FailedCall { action, object, error } = call;
    warn!(object, err = error, "{action} failed");
}
