//! The CPU usage that is predicted for a pod.

use framework::{ContainerKind, ContainerResources, Pod};

use crate::args::Settings;

/// Returns the usage to expect of a pod, in thousandths of a CPU: the sum over the containers that
/// keep running.
pub(super) fn predicted(pod: &Pod, settings: &Settings) -> i64 {
    let running = pod.containers().iter().filter(|container| container.kind != ContainerKind::Init);
    running.fold(0, |sum, container| sum.saturating_add(of_container(container, settings)))
}

/// A container uses its limit if it has one, more than its request if it has none.
fn of_container(container: &ContainerResources, settings: &Settings) -> i64 {
    match (container.limits.milli_cpu, container.requests.milli_cpu) {
        (0, 0) => settings.default_milli_cpu,
        (0, request) => request.saturating_mul(settings.multiplier) / 1000,
        (limit, _) => limit,
    }
}
