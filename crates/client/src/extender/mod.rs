//! What is said to a scheduler extender and what it answers: the JSON of `extender/v1` of
//! k8s.io/kube-scheduler, without I/O.
//!
//! The fields have the names of the Go structs, `Pod` and `NodeNames`; the Kubernetes objects within are
//! written as everywhere.

mod answers;
mod questions;

pub use answers::{binding_result, filter_result, host_priorities, preemption_result};
pub use questions::{Candidates, Nodes, WholeVictims, args, binding_args, preemption_args};
