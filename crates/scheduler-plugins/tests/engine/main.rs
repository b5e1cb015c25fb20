//! The plugins in the engine, beside the in-tree plugins.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod kubelet;
mod load;
mod node_resource_topology;
mod reference;
mod world;
