//! Which nodes can use a volume.

use std::sync::Arc;

use framework::storage::PersistentVolume;
use framework::storage::csi_translation::{MigratableVolume, Migration};
use framework::{Cluster, NodeBits, NodeFields, NodeSelector, NodeView};

use crate::node_sets::retain_any_term;

/// A view of a node with its labels only. Requirements on fields always match.
pub(super) struct LabelsOnly<'a>(pub(super) NodeView<'a>);

impl NodeFields for LabelsOnly<'_> {
    fn name(&self) -> &str {
        ""
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.0.label(key)
    }
}

/// Whether the node affinity of the volume, as stored, allows the node.
pub(super) fn allows(selector: Option<&NodeSelector>, node: &NodeView<'_>) -> bool {
    selector.is_none_or(|selector| selector.matches(&LabelsOnly(*node)).unwrap_or(false))
}

/// Retains the nodes that `selector` allows.
pub(super) fn retain_allowed(
    selector: Option<&NodeSelector>,
    cluster: &Cluster,
    nodes: &mut NodeBits,
) {
    if let Some(selector) = selector {
        let terms = selector.terms().iter().flatten().map(|term| &*term.expressions);
        retain_any_term(terms, cluster, nodes);
    }
}

/// Whether the volume can be used on the node. An in-tree volume is translated if its plugin
/// is migrated on the node.
///
/// # Errors
/// Returns an error if the volume cannot be translated.
pub(super) fn allows_translated(
    volume: &PersistentVolume,
    node: &NodeView<'_>,
) -> Result<bool, String> {
    let migratable = MigratableVolume::of(volume);
    match migratable.filter(|own| is_migrated(own.migration, node)) {
        Some(migratable) => Ok(allows(translated(&migratable)?.as_deref(), node)),
        None => Ok(allows(volume.node_selector.as_deref(), node)),
    }
}

/// Retains the nodes on which the volume can be used. An in-tree volume is translated for the nodes
/// on which its plugin is migrated.
///
/// # Errors
/// Returns an error if the volume cannot be translated for one of the nodes.
pub(super) fn retain_allowed_translated(
    volume: &PersistentVolume,
    cluster: &Cluster,
    nodes: &mut NodeBits,
) -> Result<(), String> {
    let mut migrated = NodeBits::default();
    let migratable = MigratableVolume::of(volume);
    let announced =
        migratable.as_ref().and_then(|own| cluster.migrated_nodes(own.migration.plugin_name));
    if let Some((migratable, announced)) = migratable.zip(announced) {
        migrated.copy_from(nodes);
        migrated.retain(|node| announced.get(node));
        if !migrated.is_empty() {
            nodes.subtract(&migrated);
            retain_allowed(translated(&migratable)?.as_deref(), cluster, &mut migrated);
        }
    }
    retain_allowed(volume.node_selector.as_deref(), cluster, nodes);
    nodes.union(&migrated);
    Ok(())
}

fn is_migrated(migration: &Migration, node: &NodeView<'_>) -> bool {
    let nodes = node.cluster().migrated_nodes(migration.plugin_name);
    nodes.is_some_and(|nodes| nodes.get(node.ix()))
}

fn translated(volume: &MigratableVolume<'_>) -> Result<Option<Arc<NodeSelector>>, String> {
    volume.node_selector().map_err(|error| format!("could not translate pv: {error}"))
}
