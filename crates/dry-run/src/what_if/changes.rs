//! The documents that describe a change beside manifests.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A document of `apiVersion: whatif.loadmaster.io/v1`, `kind: Changes`. Unknown fields are errors.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Changes {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(rename = "metadata")]
    _metadata: IgnoredAny,
    /// Workloads with another number of replicas.
    pub scale: Vec<Scale>,
    /// Nodes to cordon and to clear of pods, as `kubectl drain --ignore-daemonsets --force`.
    pub drain: Vec<String>,
    /// Nodes to cordon.
    pub cordon: Vec<String>,
    /// Nodes to uncordon.
    pub uncordon: Vec<String>,
    /// Nodes to remove.
    pub remove_nodes: Vec<String>,
    /// Nodes to add.
    pub add_nodes: Vec<AddNodes>,
    /// Nodes to upgrade, one after the other: each is drained and comes back empty.
    pub upgrade: Vec<UpgradeNodes>,
    /// Taints to set.
    pub taint: Vec<TaintNodes>,
    /// Taints to remove.
    pub untaint: Vec<TaintNodes>,
    /// Labels of nodes to set or to remove.
    pub label: Vec<LabelNodes>,
    /// Priorities of pods.
    pub priority: Vec<SetPriority>,
    /// Other amounts of ElasticQuotas.
    pub quotas: Vec<ChangeQuota>,
}

/// A workload with another number of replicas.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// Deployment, ReplicaSet, StatefulSet or ReplicationController.
    pub kind: String,
    /// The namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The number of replicas.
    pub replicas: i64,
}

/// Copies of a node, or a pool of nodes that differ from it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddNodes {
    /// The node to copy, as it is before the change.
    pub like: String,
    /// The number of copies.
    pub count: u32,
    /// The first part of their names, before a hyphen and a number; `LIKE-new` if absent.
    pub name: Option<String>,
    /// Further labels; null removes one.
    #[serde(default)]
    pub labels: BTreeMap<String, Option<String>>,
    /// Taints in place of the taints of the copied node.
    pub taints: Option<Vec<String>>,
    /// Amounts in place of the amounts of the copied node, such as `cpu: "8"`.
    #[serde(default)]
    pub allocatable: BTreeMap<String, String>,
}

/// Nodes to upgrade.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpgradeNodes {
    /// The names of the nodes, in the order of the upgrade.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// The labels of further nodes, which follow in the order of the input.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
}

/// A taint of some nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaintNodes {
    /// The names of the nodes.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// The labels of further nodes.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// The taint, as `key=value:Effect` or `key:Effect`; to remove also `key`.
    pub taint: String,
}

/// Labels of some nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelNodes {
    /// The names of the nodes.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// The labels of further nodes.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// The labels; null removes one.
    pub labels: BTreeMap<String, Option<String>>,
}

/// The priority of a pod, or of all pods of a controller.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetPriority {
    /// Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or ReplicationController.
    pub kind: String,
    /// The namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The priority.
    pub value: i32,
}

/// Other amounts of an ElasticQuota. An amount is a quantity, or a change of the one before such as
/// `+10%`; null removes one.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeQuota {
    /// The namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The change of all amounts of `min` and `max`.
    pub by: Option<String>,
    /// Guaranteed amounts.
    #[serde(default)]
    pub min: BTreeMap<String, Option<String>>,
    /// Largest amounts.
    #[serde(default)]
    pub max: BTreeMap<String, Option<String>>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

impl Changes {
    /// Whether the document changes nothing.
    pub fn is_empty(&self) -> bool {
        let lists = [&self.drain, &self.cordon, &self.uncordon, &self.remove_nodes];
        let lengths = [self.scale.len(), self.add_nodes.len(), self.taint.len()];
        let further = [
            self.untaint.len(),
            self.label.len(),
            self.priority.len(),
            self.upgrade.len(),
            self.quotas.len(),
        ];
        lists.into_iter().all(Vec::is_empty) && lengths.into_iter().chain(further).all(|n| n == 0)
    }
}

/// The place of an entry in the documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At {
    pub(super) document: usize,
    pub(super) list: &'static str,
    pub(super) index: usize,
}

impl At {
    /// Creates an objection to a field of the entry; an empty field stands for the entry.
    pub(super) fn object(&self, field: &str, message: impl Into<String>) -> Objection {
        let dot = if field.is_empty() { "" } else { "." };
        let field = format!("{self}{dot}{field}");
        Objection { document: self.document, field, message: message.into() }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.index)
    }
}

/// Returns all entries of a list of the documents with their places.
pub(super) fn entries<'a, T: 'a>(
    documents: &'a [Changes],
    list: &'static str,
    of: fn(&Changes) -> &[T],
) -> impl Iterator<Item = (At, &'a T)> {
    documents.iter().enumerate().flat_map(move |(document, changes)| {
        let entries = of(changes).iter().enumerate();
        entries.map(move |(index, entry)| (At { document, list, index }, entry))
    })
}

/// A change that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The index of the document.
    pub document: usize,
    /// The field, as `drain[0]`.
    pub field: String,
    /// The reason.
    pub message: String,
}
