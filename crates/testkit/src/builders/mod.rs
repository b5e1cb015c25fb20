//! Builders of pods, nodes, storage objects and clusters, and what a plugin is called with.

mod dry_run;
mod handle;
mod node;
mod object;
mod pod;
mod storage;

pub use dry_run::FakeDryRun;
pub use handle::{HandleParts, handle};
pub use node::{NodeBuilder, node};
pub use object::{SetJson, object};
pub use pod::{PodBuilder, pod};
pub use storage::{
    StorageObject, bound_claim, claim, csi_node, storage_class, volume, volume_attachment,
};

use std::sync::Arc;

use framework::{Cluster, Node, Pod};

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
