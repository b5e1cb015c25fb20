//! Leader election on a Lease, like the package `leaderelection` of client-go.
//!
//! Of several replicas, the one that holds the Lease acts. The holder renews the Lease; the others
//! observe it. The age of a Lease is the time for which a replica has seen no change of it, by its
//! own monotonic clock. The times in the Lease are for people: clocks of hosts may differ.
//!
//! Every write carries the resource version of the Lease that it replaces, so of two writes that
//! know the same version only one is carried out.
//!
//! Two rules go beyond client-go:
//!
//! - The leader's authority has an end: [`LeaderElectionConfig::renew_deadline`] after it *sent*
//!   its last successful renewal. No other replica can have taken over by then, because it observes
//!   that renewal later and waits for the longer [`LeaderElectionConfig::lease_duration`].
//! - A waiting replica tries again as soon as the Lease expires or is seen to be free, if the next
//!   regular attempt is later.

mod config;
mod elector;
mod lease;
mod lease_lock;
mod notice;
#[cfg(test)]
mod tests;

pub use config::{ConfigError, LeaderElectionConfig};
pub use elector::{LeaderElector, Outcome, Predecessor};
pub use lease::LEVEL_ANNOTATION;
pub use notice::Notice;
