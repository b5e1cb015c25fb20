//! A maintenance window, as read from its object.

use framework::{Cluster, NodeBits, NodeFields};
use serde::Deserialize;
use serde_json::Value;

/// A maintenance window. Fields that this plugin does not know are passed over: the object is the
/// API server's, and may be newer.
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
    /// Reads the object.
    ///
    /// # Errors
    /// It is not of the expected shape; says what is wrong.
    pub(crate) fn read(object: &Value) -> Result<Self, String> {
        Self::deserialize(object).map_err(|error| error.to_string())
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether its nodes are being worked on.
    pub(crate) fn is_open(&self) -> bool {
        self.spec.state == State::Open
    }

    /// Whether it is about `node`.
    pub(crate) fn has(&self, node: &impl NodeFields) -> bool {
        let label = self.spec.node_label.as_ref();
        self.spec.nodes.iter().any(|name| name == node.name())
            || label.is_some_and(|label| node.label(&label.key) == Some(&label.value))
    }

    /// Takes its nodes out of `nodes`.
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
