//! Nothing is ever stuck: pods that are rejected hear of what may help them, and of nothing else.
//!
//! The scheduler and the store of the sandbox, with the watches and requests of the daemon, live
//! under a virtual clock. In each scenario a plugin rejects a pod; then something happens, and the
//! pod is tried again or left where it is. A pod that was left must still fit nowhere when it is
//! tried because it has waited for too long.
//!
//! - `world`: the scheduler and its API server.
//! - `objects` and `storage`: what is in it, and what people do with it.
//! - `scenario`: a pod that is rejected, and what may happen then.
//! - `coverage`: every event that a plugin has registered occurs.
//! - A module for each plugin; and for pods in flight, pending plugins, extenders, and nominations.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod coverage;
mod default_preemption;
mod default_spread;
mod extender;
mod in_flight;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod nominated;
mod objects;
mod pending;
mod pod_topology_spread;
mod scenario;
mod scheduling_gates;
mod storage;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;
mod world;
