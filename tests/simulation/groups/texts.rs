//! What users read about groups: every pod that waits for its group says why, and so does the
//! group.

use framework::PodGroupSource;
use serde_json::Value;

use super::super::rules::{Checked, may_be_placed, rule, waits_for_us};
use super::super::server::Server;
use super::{is_member, stored, stored_members};

/// The reasons of the condition of a pod that waits for or with its group.
const REASONS: [&str; 3] = ["Unschedulable", "SchedulerError", "SchedulingGated"];

/// Checks at rest that the conditions of pods that wait for or with their group say why.
///
/// # Errors
/// A pod or a PodGroup says nothing.
pub(crate) fn waiting_groups_say_why(server: &Server) -> Checked {
    let members = stored_members(server);
    let pods = server.live_pods().filter(|pod| is_member(pod) && waits_for_us(pod));
    for pod in pods.filter(|pod| may_be_placed(pod)) {
        let read = super::read_pod(pod);
        let Some(group) = read.pod_group() else { continue };
        let pods = members.get(&group).map(Vec::as_slice).unwrap_or_default();
        if pods.iter().any(|pod| pod.terminating) {
            continue;
        }
        let (reason, message) = reason_of(pod);
        rule(REASONS.contains(&reason) && !message.is_empty(), || {
            format!("{} waits, and says {reason:?}: {message:?}", read.key)
        })?;
        let known = stored(server);
        let known = known.get(&group).filter(|_| group.source == PodGroupSource::Kubernetes);
        let is_silent = known.is_some_and(|known| known.condition.is_none());
        rule(!is_silent, || format!("{} waits, and {group} has no condition", read.key))?;
    }
    Ok(())
}

/// Returns reason and message of the condition `PodScheduled`, if it is False.
fn reason_of(pod: &Value) -> (&str, &str) {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let condition = conditions
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
    let text = |field: &str| condition.and_then(|own| own[field].as_str()).unwrap_or_default();
    (text("reason"), text("message"))
}
