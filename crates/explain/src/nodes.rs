//! The list of all nodes.

use std::collections::BTreeMap;

use framework::{Cluster, NodeIx, POOL_LABELS};

use crate::answer::{NodeRow, NodesAnswer};
use crate::now::NOW;
use crate::quantity;

const ZONE: &str = "topology.kubernetes.io/zone";

/// Lists what each node offers and how much of it is requested.
pub fn list_nodes(cluster: &Cluster) -> NodesAnswer {
    let mut nodes: Vec<NodeRow> = cluster.nodes().iter().map(|node| row(cluster, node)).collect();
    nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    NodesAnswer { as_of: NOW.to_owned(), nodes }
}

fn row(cluster: &Cluster, node: NodeIx) -> NodeRow {
    let (view, object) = (cluster.node(node), cluster.to_node(node));
    let label = |key: &str| object.labels.get(key).map(str::to_owned);
    NodeRow {
        name: object.name.to_string(),
        zone: label(ZONE),
        pool: POOL_LABELS.into_iter().find_map(label),
        unschedulable: view.is_unschedulable(),
        pods: (view.pod_count(), view.allowed_pods()),
        resources: amounts(cluster, node).into_iter().collect(),
    }
}

/// Returns requested and allocatable amounts of a node by resource. Ephemeral storage is left out where there is none.
fn amounts(cluster: &Cluster, node: NodeIx) -> Vec<(String, (i64, i64))> {
    let view = cluster.node(node);
    let (requested, allocatable) = (view.requested(), view.allocatable());
    let storage = (requested.ephemeral_storage, allocatable.ephemeral_storage);
    let mut rows = vec![
        ("cpu".to_owned(), (requested.milli_cpu, allocatable.milli_cpu)),
        ("memory".to_owned(), (requested.memory, allocatable.memory)),
    ];
    rows.extend((storage != (0, 0)).then(|| ("ephemeral-storage".to_owned(), storage)));
    let scalars = cluster.to_node(node).allocatable.scalars;
    rows.extend(
        scalars.iter().map(|(name, all)| (name.to_string(), (view.scalar(name).requested, *all))),
    );
    rows
}

/// Returns requested and allocatable amounts of a node as text.
pub(crate) fn amount_texts(cluster: &Cluster, node: NodeIx) -> BTreeMap<String, (String, String)> {
    let texts = amounts(cluster, node).into_iter().map(|(name, (requested, allocatable))| {
        let (requested, allocatable) =
            (quantity::text(&name, requested), quantity::text(&name, allocatable));
        (name, (requested, allocatable))
    });
    texts.collect()
}
