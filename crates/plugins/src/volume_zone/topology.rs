//! Zones and regions of volumes.

use std::collections::BTreeSet;
use std::sync::Arc;

use framework::{Cluster, NodeBits, NodeView, Posting};

/// A zone or region label of volumes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TopologyLabel {
    pub(super) key: &'static str,
    /// The GA label that nodes may have instead of a beta label.
    ga_key: Option<&'static str>,
}

pub(super) static LABELS: [TopologyLabel; 4] = [
    TopologyLabel {
        key: "failure-domain.beta.kubernetes.io/zone",
        ga_key: Some("topology.kubernetes.io/zone"),
    },
    TopologyLabel {
        key: "failure-domain.beta.kubernetes.io/region",
        ga_key: Some("topology.kubernetes.io/region"),
    },
    TopologyLabel { key: "topology.kubernetes.io/zone", ga_key: None },
    TopologyLabel { key: "topology.kubernetes.io/region", ga_key: None },
];

/// The zones, or the regions, of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeTopology {
    label: &'static TopologyLabel,
    values: BTreeSet<Arc<str>>,
}

/// Reads the zones and regions from the labels of a volume.
pub(super) fn of_labels<'a>(
    value: impl Fn(&str) -> Option<&'a str>,
) -> impl Iterator<Item = VolumeTopology> {
    LABELS.iter().filter_map(move |label| {
        Some(VolumeTopology { label, values: values_of(value(label.key)?)? })
    })
}

/// Returns the values of a label that may hold several; `None` if one is empty, which invalidates
/// the label.
fn values_of(label: &str) -> Option<BTreeSet<Arc<str>>> {
    let values = label.split("__").map(str::trim);
    values.map(|value| (!value.is_empty()).then(|| value.into())).collect()
}

impl VolumeTopology {
    /// Whether the node is in a zone or region of the volume.
    pub(super) fn contains(&self, node: &NodeView<'_>) -> bool {
        let TopologyLabel { key, ga_key } = self.label;
        let value = node.label(key).or_else(|| node.label((*ga_key)?));
        value.is_some_and(|value| self.values.contains(value))
    }

    /// Returns the nodes in the zones or regions of the volume.
    fn nodes(&self, cluster: &Cluster) -> NodeBits {
        let TopologyLabel { key, ga_key } = self.label;
        let mut nodes = NodeBits::with_len(cluster.table_len());
        if let Some(ga_key) = ga_key {
            self.postings(ga_key, cluster).for_each(|posting| posting.union_into(&mut nodes));
            let labelled = cluster.with_label_key(key);
            labelled.into_iter().for_each(|posting| posting.subtract_from(&mut nodes));
        }
        self.postings(key, cluster).for_each(|posting| posting.union_into(&mut nodes));
        nodes
    }

    fn postings<'a>(
        &'a self,
        key: &'a str,
        cluster: &'a Cluster,
    ) -> impl Iterator<Item = &'a Posting> {
        self.values.iter().filter_map(move |value| cluster.with_label(key, value))
    }
}

/// Retains the nodes that are in the zones and regions of all volumes, and the nodes without any
/// of these labels.
pub(super) fn retain_inside(
    topologies: &[VolumeTopology],
    cluster: &Cluster,
    nodes: &mut NodeBits,
) {
    let mut outside = NodeBits::with_len(cluster.table_len());
    let labelled = LABELS.iter().filter_map(|label| cluster.with_label_key(label.key));
    labelled.for_each(|posting| posting.union_into(&mut outside));
    let mut inside = outside.clone();
    topologies.iter().for_each(|topology| inside.intersect(&topology.nodes(cluster)));
    outside.subtract(&inside);
    nodes.subtract(&outside);
}
