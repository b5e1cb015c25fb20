//! The daemon as it runs in production, against an API server.
//!
//! Every test starts the built binary as a process, with a token of a service account that has
//! exactly the ClusterRole of `deploy/loadmaster.yaml`. [`cluster`] chooses the API server; the
//! tests do not depend on it, except those that are skipped with a message.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod authentication;
mod cluster;
mod control_plane;
mod credentials;
mod custom_resources;
mod daemon;
mod devices;
mod endpoints;
mod explain;
mod extenders;
mod faults;
mod groups;
mod leader_election;
mod levels;
mod load;
mod moves;
mod nodes;
mod outages;
mod preemption;
mod process;
mod proxy;
mod radius;
mod readiness;
mod recording;
mod rules;
mod scheduling;
mod supercluster;
mod supervision;
mod topology;
mod tracing;
mod undecodable;
mod volumes;
mod wait;
