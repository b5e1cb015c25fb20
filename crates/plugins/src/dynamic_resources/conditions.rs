//! Binding conditions: what drivers report about allocated devices before the pod may be bound.

use std::time::Duration;

use framework::device::{AllocatedDevice, AllocatedDeviceStatus, ResourceClaim};
use framework::{Command, EventType, Handle, Pod, PodEvent, Time};

/// Whether the devices of a claim are ready for the pod to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Binding {
    /// Every condition is true.
    Ready,
    /// Some condition is not true yet.
    Pending {
        /// When the claim times out; `None` if its allocation has no time.
        expires: Option<Time>,
    },
    /// A condition says that the binding failed.
    Failed(String),
    /// The conditions did not become true in time.
    TimedOut(String),
}

/// Returns whether the devices of a claim are ready at `now`.
pub(super) fn binding_of(claim: &ResourceClaim, now: Time, timeout: Duration) -> Binding {
    let Some(allocation) = &claim.allocation else { return Binding::Ready };
    let conditional =
        || allocation.results.iter().filter(|result| !result.binding_conditions.is_empty());
    let mut ready = true;
    for result in conditional() {
        match status_of(claim, result) {
            None => ready = false,
            Some(status) => {
                if let Some(text) = failure(claim, result, status) {
                    return Binding::Failed(text);
                }
                ready &= result.binding_conditions.iter().all(|kind| is_true(status, kind));
            }
        }
    }
    let expires = allocation.allocated_at().map(|since| since + timeout);
    match expires {
        _ if ready => Binding::Ready,
        Some(expires) if expires < now => {
            Binding::TimedOut(format!("device binding timeout: claim={}", claim.name))
        }
        expires => Binding::Pending { expires: expires.map(|at| at + Duration::from_nanos(1)) },
    }
}

fn status_of<'a>(
    claim: &'a ResourceClaim,
    result: &AllocatedDevice,
) -> Option<&'a AllocatedDeviceStatus> {
    claim.devices.iter().find(|status| status.id == result.id)
}

fn is_true(status: &AllocatedDeviceStatus, kind: &str) -> bool {
    status.conditions.iter().any(|condition| *condition.kind == *kind && condition.is_true)
}

/// Returns the text of the first failure condition that is true.
fn failure(
    claim: &ResourceClaim,
    result: &AllocatedDevice,
    status: &AllocatedDeviceStatus,
) -> Option<String> {
    let failed = result.binding_failure_conditions.iter().find_map(|kind| {
        let mut conditions = status.conditions.iter();
        conditions.find(|condition| condition.kind == *kind && condition.is_true)
    })?;
    Some(format!(
        "device binding failed: claim={}, reason={}, message={:?}",
        claim.name, failed.reason, &*failed.message
    ))
}

/// Records that a pod waits for its devices.
pub(super) fn report_wait(pod: &Pod, node: &str, handle: &Handle<'_>) {
    handle.command(Command::Event(PodEvent {
        pod: pod.key.clone(),
        uid: pod.uid.clone(),
        event_type: EventType::Normal,
        reason: "BindingConditionsPending".into(),
        action: "Scheduling".into(),
        note: format!("waiting for binding conditions for device on node {node}"),
    }));
}
