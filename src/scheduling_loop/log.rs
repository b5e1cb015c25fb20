//! Log lines of the scheduling loop.

use std::time::Duration;

use control::leader_election::{LeaderElector, Notice};
use control::scheduler::TakeoverNotice;
use engine::record::Choice;
use engine::{Attempt, Event, EventSubject, EventType, Outcome};
use framework::{Pod, PodKey, Time};
use tracing::{debug, error, info, trace};

use super::failure_log::FailureLog;

/// Time after which a problem with the Lease that lasts is logged again.
const PROBLEM_INTERVAL: Duration = Duration::from_mins(1);

/// Logs the result of a scheduling attempt.
pub(crate) fn log_attempt(attempt: &Attempt, failures: &mut FailureLog, now: Time) {
    let pod = &attempt.pod.key;
    match &attempt.outcome {
        Outcome::Assumed(node) => trace!(%pod, node = &**node, "Assumed pod on node"),
        Outcome::Unschedulable(err) => {
            debug!(%pod, err, "Unable to schedule pod; no fit; waiting");
        }
        Outcome::Repeated(err) => trace!(%pod, err, "Unable to schedule pod; no fit, as before"),
        Outcome::Error(err) => failures.log_attempt(pod, err, now),
        Outcome::Skipped => debug!(%pod, "Skip schedule deleting pod"),
    }
}

/// Logs that a pod was bound, with the keys of kube-scheduler in its order.
pub(crate) fn log_bound(pod: &Pod, choice: &Choice) {
    let (pod, node) = (&pod.key, &*choice.node);
    let (evaluated, feasible) = (choice.evaluated, choice.feasible);
    debug!(
        %pod,
        node,
        evaluatedNodes = evaluated,
        feasibleNodes = feasible,
        "Successfully bound pod to node"
    );
}

/// Logs that a pod is not scheduled because it belongs to a PodGroup.
pub(crate) fn log_gated(pod: &PodKey, group: &str) {
    debug!(%pod, podGroup = group, "Unable to schedule pod; gated as a member of a PodGroup; waiting");
}

/// Logs an event about a pod, or the outcome of the attempt of a group that an event is about, with
/// the texts of kube-scheduler.
pub(crate) fn log_event(event: &Event) {
    if let EventSubject::PodGroup(_) = event.subject {
        let (group, note) = (&event.regarding, event.note.as_str());
        return match event.event_type {
            EventType::Normal => debug!(podGroup = %group, "Successfully scheduled a pod group"),
            EventType::Warning => {
                debug!(podGroup = %group, err = note, "Unable to schedule a pod group");
            }
        };
    }
    let (pod, note) = (&event.regarding, event.note.as_str());
    trace!(%pod, note, "{}", event.reason);
}

/// Logs a step of a takeover.
pub(super) fn log_takeover(notice: &TakeoverNotice) {
    match *notice {
        TakeoverNotice::Began { pending, may_have_crashed } => {
            info!(pending, afterCrash = may_have_crashed, "Taking over");
        }
        TakeoverNotice::Fences { pending, first, later } => {
            info!(pending, first, later, "Fencing pods that the last scheduler may be binding");
        }
        TakeoverNotice::Completed { took, fenced, unanswered } => {
            info!(?took, fenced, unanswered, "Took over, scheduling begins");
        }
        TakeoverNotice::LaterCompleted { took, fenced } => {
            info!(?took, fenced, "Fenced pods beside the decisions");
        }
    }
}

/// The log of an election, with the texts and levels of client-go.
pub(crate) struct ElectionLog {
    /// Namespace and name of the Lease.
    lock: String,
    /// The last problem in the log, and when it was logged.
    problem: Option<Logged>,
}

impl ElectionLog {
    pub(crate) fn new(elector: Option<&LeaderElector>) -> Self {
        let config = elector.map(LeaderElector::config);
        let lock = config.map(|config| format!("{}/{}", config.namespace, config.name));
        Self { lock: lock.unwrap_or_default(), problem: None }
    }

    pub(crate) fn log(&mut self, notice: &Notice, now: Time) {
        let Self { lock, problem } = self;
        let lock = &**lock;
        match notice {
            Notice::Attempting => info!(lock, "Attempting to acquire leader lease..."),
            Notice::ObservedLeader(identity) => info!(lock, identity, "New leader elected"),
            Notice::Held(holder) => {
                trace!(lock, holder, "Lease is held by and has not yet expired");
            }
            Notice::FellBack(err) => debug!(
                lock,
                err, "Failed to update lease optimistically, falling back to slow path"
            ),
            Notice::CannotRead(err) if is_news(problem, err, now) => {
                error!(lock, err, "Error retrieving lease lock");
            }
            Notice::CannotUpdate(err) if is_news(problem, err, now) => {
                error!(lock, err, "Failed to update lease");
            }
            Notice::CannotRead(_) | Notice::CannotUpdate(_) => {}
            Notice::StartedLeading => info!(lock, "Successfully acquired lease"),
            Notice::StoppedLeading(err) => error!(lock, err, "Failed to renew lease"),
            Notice::Released => debug!(lock, "Released the lease"),
            Notice::CannotRelease(err) => error!(lock, err, "Failed to release lease"),
        }
    }
}

/// A problem, and when it was logged.
#[derive(Debug)]
struct Logged {
    problem: String,
    at: Time,
}

/// Returns whether a problem differs from the last one in the log, or that one was logged some time
/// ago.
fn is_news(last: &mut Option<Logged>, problem: &str, now: Time) -> bool {
    let is_old = |at: Time| now.since(at) >= PROBLEM_INTERVAL;
    let is_news = last.as_ref().is_none_or(|own| own.problem != problem || is_old(own.at));
    if is_news {
        *last = Some(Logged { problem: problem.to_owned(), at: now });
    }
    is_news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_that_lasts_is_news_once_a_minute() {
        let mut last = None;
        let rows = [
            ("a", 0, true),
            ("a", 59, false),
            ("a", 60, true),
            ("b", 61, true),
            ("a", 62, true),
            ("a", 121, false),
        ];
        for (problem, second, expected) in rows {
            let now = Time::from_secs(second);
            assert_eq!(is_news(&mut last, problem, now), expected, "{problem} {second}");
        }
    }
}
