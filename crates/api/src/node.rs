//! The compact form of a Node.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Extra, ExtraFields, Labels, NodeAllocatable, NodeFields, Problem, Resources, Taint, api,
};

/// Labels that name the pool of a node: labels of providers and autoscalers, or else its instance
/// type. The first that a node has counts.
pub const POOL_LABELS: [&str; 6] = [
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/pool",
    "node.kubernetes.io/instance-type",
];

/// An image on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeImage {
    /// Names by which the image is known.
    pub names: Box<[Arc<str>]>,
    /// Size in bytes.
    pub size: i64,
}

/// A node, with the fields that scheduling reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: Labels,
    /// Taints, in the order of the object.
    pub taints: Box<[Taint]>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// Resources for pods.
    pub allocatable: Resources,
    /// Maximum number of pods.
    pub allowed_pods: i64,
    /// Images present.
    pub images: Box<[NodeImage]>,
    /// Features the kubelet declares, in the order of the object.
    pub declared_features: Box<[Arc<str>]>,
    /// Digest of condition types and statuses, used to detect changes.
    pub conditions: u64,
    /// Digest of the annotations, used to detect changes.
    pub annotations: u64,
    /// Further fields that a plugin asked for.
    pub extra: Extra,
}

impl Node {
    /// Converts the API object. Fields that cannot be read are left out and reported as problems.
    pub fn from_api(node: &api::Node) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let allocatable = NodeAllocatable::of(&node.status, &mut problems);
        let conditions: BTreeMap<_, _> =
            node.status.conditions.iter().map(|c| (&c.type_, &c.status)).collect();
        let name: Arc<str> = node.metadata.name.as_str().into();
        let mut labels = Labels::from(&node.metadata.labels);
        // The label of the host name usually equals the name.
        let named = labels.texts_mut().filter(|text| **text == name);
        named.for_each(|text| text.clone_from(&name));
        let compact = Self {
            name,
            labels,
            taints: distinct(node.spec.taints.iter().map(Taint::from)),
            unschedulable: node.spec.unschedulable,
            allocatable: allocatable.resources,
            allowed_pods: allocatable.pods,
            images: node.status.images.iter().map(NodeImage::from).collect(),
            declared_features: texts(&node.status.declared_features),
            conditions: digest(&conditions),
            annotations: digest(&node.metadata.annotations),
            extra: Extra::default(),
        };
        (compact, problems)
    }

    /// Decodes and converts the API object, and keeps the further fields in `wanted`. Fields that
    /// cannot be read are left out and reported as problems.
    ///
    /// # Errors
    /// The JSON does not have the shape of a Node.
    pub fn from_json(
        node: &Value,
        wanted: &ExtraFields,
    ) -> Result<(Self, Vec<Problem>), serde_json::Error> {
        let (compact, problems) = Self::from_api(&api::Node::deserialize(node)?);
        Ok((Self { extra: Extra::of(node, &wanted.node), ..compact }, problems))
    }
}

impl From<&api::ContainerImage> for NodeImage {
    fn from(image: &api::ContainerImage) -> Self {
        Self { names: texts(&image.names), size: image.size_bytes }
    }
}

impl NodeFields for Node {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }
}

/// Removes duplicate taints. The API server rejects them, but a file may contain them.
fn distinct(taints: impl Iterator<Item = Taint>) -> Box<[Taint]> {
    let mut distinct: Vec<Taint> = Vec::new();
    for taint in taints {
        if !distinct.contains(&taint) {
            distinct.push(taint);
        }
    }
    distinct.into()
}

pub(crate) fn texts(list: &[String]) -> Box<[Arc<str>]> {
    list.iter().map(|text| text.as_str().into()).collect()
}

/// Returns a digest that is the same in every run, for detecting changes.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
