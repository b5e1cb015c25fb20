//! Scheduling of a copy of a cluster: the engine in virtual time.
//!
//! - [`cluster`]: schedules the pending pods of a cluster.
//! - [`what_if`]: what a change of a cluster does to its pods.
//! - [`workloads`]: the pods that controllers make from workloads.
//! - [`World`]: an engine, a clock, and the parts of an API server that the engine notices.
//! - [`report`]: what the two find, as text tables.
//! - [`explain`]: why a pod can or cannot run on each node.
//! - [`table`]: text tables for the terminal.
//!
//! The caller decodes objects and configurations. Nothing here does I/O or reads a clock; only
//! [`table`] asks whether standard output is a terminal.

mod budgets;
mod claim_templates;
mod claims;
pub mod cluster;
mod ephemeral;
pub mod explain;
mod extenders;
pub mod make_room;
mod manifest;
mod object;
mod quotas;
mod renewal;
pub mod report;
mod rollout;
mod settings;
pub mod table;
mod usage;
mod volumes;
pub mod what_if;
pub mod workloads;
mod world;

pub use extenders::{ExtenderSettings, Extenders};
pub use manifest::Manifest;
pub use object::{DumpedObject, DumpedPod, Object, Owner};
pub use quotas::QuotaUsage;
pub use rollout::RolloutStep;
pub use settings::{BuildError, Limit, PluginMonitor, Settings};
pub use usage::{NodeUsage, Usage};
pub use world::{Evicted, PodHistory, State, World};
