//! Answers about pods that wait: the first suggestion is about the cause, and after it the pod has
//! a node.

mod causes;
mod follower;
mod one_cluster;
mod pod_groups;
mod support;
