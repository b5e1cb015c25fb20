//! A world around the engine: scripted plugins, an API server as plain data, virtual time.

mod fake;
mod ports;
mod preempting;
mod world;

pub(crate) use fake::{Fake, Log, fake, fit, fit_as, gates, held};
pub(crate) use ports::{Accepted, Extenders, Recorder};
pub(crate) use preempting::preempting;
pub(crate) use world::{Setup, World, key, world};

use framework::{ActionType, ClusterEvent, EventResource, Status};

/// The plugin returns Success.
pub(crate) fn yes() -> Status {
    Status::success()
}

/// The plugin rejects the pod or node as Unschedulable.
pub(crate) fn no(reason: &'static str) -> Status {
    Status::unschedulable(reason)
}

/// The plugin rejects the pod or node as UnschedulableAndUnresolvable: no eviction would help.
pub(crate) fn never(reason: &'static str) -> Status {
    Status::unresolvable(reason)
}

/// A status with this code and a reason.
pub(crate) fn status(code: framework::Code, reason: &'static str) -> Status {
    Status::new(code, reason)
}

/// An event about nodes.
pub(crate) fn node_event(action: ActionType) -> ClusterEvent {
    ClusterEvent::new(EventResource::Node, action)
}

/// An event about pods.
pub(crate) fn pod_event(action: ActionType) -> ClusterEvent {
    ClusterEvent::new(EventResource::Pod, action)
}
