//! The list of all nodes.

use std::collections::{BTreeMap, BTreeSet};

use framework::{Cluster, Node, NodeIx, POOL_LABELS};

use crate::answer::{NodeRow, NodesAnswer};
use crate::now::NOW;
use crate::quantity;

const ZONE: &str = "topology.kubernetes.io/zone";

/// Lists what each node offers and how much of it is requested, with the value of one label.
pub fn list_nodes(cluster: &Cluster, key: Option<&str>) -> NodesAnswer {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut nodes = Vec::with_capacity(cluster.node_count());
    for node in cluster.nodes().iter() {
        let object = cluster.to_node(node);
        for (key, value) in object.labels.iter() {
            match values.get_mut(key) {
                Some(known) if known.contains(value) => {}
                Some(known) => _ = known.insert(value.to_owned()),
                None => _ = values.insert(key.to_owned(), BTreeSet::from([value.to_owned()])),
            }
        }
        nodes.push(row(cluster, node, &object, key));
    }
    nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let labels = values.into_iter().map(|(key, values)| (key, values.len())).collect();
    NodesAnswer { as_of: NOW.to_owned(), nodes, labels }
}

fn row(cluster: &Cluster, node: NodeIx, object: &Node, key: Option<&str>) -> NodeRow {
    let view = cluster.node(node);
    let label = |key: &str| object.labels.get(key).map(str::to_owned);
    NodeRow {
        name: object.name.to_string(),
        zone: label(ZONE),
        pool: POOL_LABELS.into_iter().find_map(label),
        label: key.and_then(label),
        unschedulable: view.is_unschedulable(),
        pods: (view.pod_count(), view.allowed_pods()),
        resources: amounts(cluster, node).into_iter().collect(),
    }
}

/// Returns requested and allocatable amounts of a node by resource. Ephemeral storage is left out
/// where there is none.
pub(crate) fn amounts(cluster: &Cluster, node: NodeIx) -> Vec<(String, (i64, i64))> {
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
