//! No pod is stuck: events requeue a rejected pod exactly if they may help it.
//!
//! The scheduler and the store of the sandbox, with the watches and requests of the daemon, run
//! under a virtual clock. In each scenario a plugin rejects a pod; then an event occurs, and the
//! pod is tried again or left. A pod that was left must still be unschedulable when it is retried
//! after the maximum time without an event.
//!
//! - `world`: the scheduler and its API server.
//! - `objects` and `storage`: its objects, and actions on them.
//! - `scenario`: a pod that is rejected, and the events that follow.
//! - `coverage`: every registered event of a plugin occurs.
//! - A module for each plugin; and for pods in flight, pending plugins, extenders, and nominations.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod coverage;
mod default_preemption;
mod default_spread;
mod dynamic_resources;
mod extender;
mod in_flight;
mod in_vain;
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
mod pod_groups;
mod pod_topology_spread;
mod scenario;
mod scheduling_gates;
mod storage;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;
mod world;
