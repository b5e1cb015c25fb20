//! The scheduling framework of Loadmaster: everything a plugin author sees.
//!
//! A plugin is a type that implements one trait per extension point of the Kubernetes scheduling
//! framework ([`PreFilter`], [`Filter`], [`Score`], …) and is put together with [`Plugin::new`].
//! The engine runs plugins in the order of the pod's profile; names, order, status codes and merge
//! rules are the rules of kube-scheduler 1.36.
//!
//! - [`Handle`]: the views of the scheduler that every call receives, and its commands.
//! - [`Cluster`]: the read-only view of nodes and placed pods, from the crate `cluster`. Nodes are
//!   rows of a table with dense ids ([`NodeIx`]), hot numbers are columns, labels, taints, ports
//!   and images index sets of nodes.
//! - [`api`]: lean Kubernetes JSON types; [`Pod`] and [`Node`]: the compact forms made from them,
//!   from the crate `api`. This crate re-exports both crates, so a plugin depends on it alone.
//! - [`Filter`] and [`Score`] have a one-node form, which every plugin writes, and a set form,
//!   which by default loops over the one-node form.
//! - [`Status`], [`CycleState`], [`ClusterEvent`] and [`QueueingHint`] have the meaning that they
//!   have in Kubernetes.
//! - [`Timer`], [`PodDeleted`] and [`Feed`] have no counterpart there: timers, notifications of
//!   deleted pods, and facts from outside the API server.
//!
//! Nothing here reads a clock, does I/O or draws random numbers.

mod plugin;
pub mod preemption;
/// The builders of the test kit, for the tests of this crate, which cannot depend on a crate that
/// depends on it.
#[cfg(test)]
#[path = "../../testkit/src/builders/mod.rs"]
pub mod testing;

#[cfg(test)]
extern crate self as framework;

pub use ::api::*;
pub use ::cluster::*;
pub use plugin::*;
