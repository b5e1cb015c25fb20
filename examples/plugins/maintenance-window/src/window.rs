//! A maintenance window, decoded from its object.

use framework::{Cluster, NodeBits, NodeFields};
use serde::Deserialize;
use serde_json::Value;

/// A maintenance window. Unknown fields are ignored, because the object may have a newer schema.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Window {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    state: State,
    #[serde(default)]
    nodes: Vec<String>,
    node_label: Option<Label>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum State {
    Open,
    Closed,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Label {
    key: String,
    value: String,
}

impl Window {
    /// Decodes the object.
    ///
    /// # Errors
    /// Returns an error that says what is wrong with the object.
    pub(crate) fn read(object: &Value) -> Result<Self, String> {
        Self::deserialize(object).map_err(|error| error.to_string())
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether the window is open.
    pub(crate) fn is_open(&self) -> bool {
        self.spec.state == State::Open
    }

    /// Whether the window contains `node`.
    pub(crate) fn has(&self, node: &impl NodeFields) -> bool {
        let label = self.spec.node_label.as_ref();
        self.spec.nodes.iter().any(|name| name == node.name())
            || label.is_some_and(|label| node.label(&label.key) == Some(&label.value))
    }

    /// Removes the nodes of the window from `nodes`.
    pub(crate) fn remove_nodes(&self, cluster: &Cluster, nodes: &mut NodeBits) {
        for node in self.spec.nodes.iter().filter_map(|name| cluster.node_named(name)) {
            nodes.remove(node);
        }
        let label = self.spec.node_label.as_ref();
        if let Some(nodes_with) = label.and_then(|l| cluster.with_label(&l.key, &l.value)) {
            nodes_with.subtract_from(nodes);
        }
    }
}
