//! The messages of scheduler extenders: the JSON of `extender/v1` of k8s.io/kube-scheduler.
//!
//! Field names are the names of the Go structs (`Pod`, `NodeNames`). The Kubernetes objects within
//! the messages have their usual JSON form.

mod args;
mod results;

pub use args::{Candidates, Nodes, WholeVictims, args, binding_args, preemption_args};
pub use results::{binding_result, filter_result, host_priorities, preemption_result};
