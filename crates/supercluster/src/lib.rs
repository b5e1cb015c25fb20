//! One scheduler over many clusters: sample, decide, commit.
//!
//! - [`message`]: what schedulers and agents send each other, versioned.
//! - [`agent`]: the role in a member cluster. It answers with samples of nodes (sampling pipeline)
//!   and commits decisions after a check for conflicts (binding pipeline).
//! - [`scheduler`]: the role above the clusters. It asks agents for samples, decides over all of
//!   them (decision pipeline) and tries its commit candidates in order.
//! - [`mirror`]: what is to be done when an original pod and its delegate differ.
//! - [`delegate`]: the pod that runs in the member cluster in place of the original one.
//! - [`registry`]: the plugins of the three pipelines by name.
//! - `simulation`: both roles with model API servers in virtual time (feature `simulation`).
//!
//! Both roles are state machines: inputs come with the time, outputs are values. They do no I/O,
//! read no clock and draw random numbers from a seed. The original pod and its delegates are the
//! only stored state; an agent or a scheduler that restarts reads everything from them.

pub mod agent;
pub mod delegate;
pub mod message;
pub mod mirror;
pub mod registry;
pub mod scheduler;
#[cfg(feature = "simulation")]
pub mod simulation;
