//! The roles of a scheduler over many clusters, around the state machines of the crate
//! `supercluster`.
//!
//! - [`agent`]: the role in a member cluster, with its HTTPS API.
//! - [`scheduler`]: the role above the clusters, with the clients of agents and the mirror of
//!   delegates.
//! - `file`: what their configuration files have in common.
//! - `leases`: the Leases of the members, and when they were renewed.
//! - [`requests`], [`watched`]: what the roles ask API servers for, and what they read of watched
//!   objects.
//! - `references`: the objects that a pod names.
//! - `messages`: what the two send each other beside samples, commits and seals.

pub mod agent;
mod cluster_id;
mod file;
mod leases;
mod messages;
mod references;
mod replies;
pub mod requests;
pub mod scheduler;
pub mod watched;

pub use self::file::{FileError, validate};
