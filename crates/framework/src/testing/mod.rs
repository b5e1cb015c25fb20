//! The test kit: builders of pods, nodes, storage objects and clusters, and a harness that runs one
//! plugin.

mod commit;
mod dry_run;
mod handle;
mod harness;
mod node;
mod notify;
mod pod;
mod storage;

pub use commit::Commit;
pub use dry_run::FakeDryRun;
pub use handle::{HandleParts, handle};
pub use harness::{Harness, Run};
pub use node::{NodeBuilder, node};
pub use pod::{PodBuilder, pod};
pub use storage::{
    StorageObject, bound_claim, claim, csi_node, storage_class, volume, volume_attachment,
};

use std::sync::Arc;

use crate::{Cluster, Node, Pod};

/// Creates a cluster of these nodes, with each pod on the node that it names.
pub fn cluster(
    nodes: impl IntoIterator<Item = Node>,
    pods: impl IntoIterator<Item = Pod>,
) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.set_node(&node);
    }
    for pod in pods {
        let node = pod.node_name.clone().expect("a placed pod names its node");
        cluster.place_pod(Arc::new(pod), &node);
    }
    cluster
}
