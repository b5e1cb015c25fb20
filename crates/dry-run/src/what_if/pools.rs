//! Nodes that a change adds.

use std::sync::Arc;

use framework::{Labels, Node, NodeAllocatable, Taint, api, label_key_faults};
use serde_json::json;

use super::changes::AddNodes;
use super::nodes::Pattern;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// The prefix of taints that describe the condition of a node.
const CONDITION: &str = "node.kubernetes.io/";

/// The fields of the nodes of a pool that replace fields of the copied node.
#[derive(Debug, Default)]
pub(super) struct Shape<'a> {
    labels: Vec<(&'a str, Option<&'a str>)>,
    taints: Option<Vec<Taint>>,
    allocatable: NodeAllocatable,
    /// The names of the resources that the change gives.
    given: Vec<&'a str>,
}

impl<'a> Shape<'a> {
    /// Reads the shape of the nodes of an entry.
    ///
    /// # Errors
    /// A field and the reason why it cannot be used.
    pub(super) fn of(add: &'a AddNodes) -> Result<Self, (String, String)> {
        let mut shape = Self::default();
        for (key, value) in &add.labels {
            let faults = label_key_faults(key);
            if !faults.is_empty() {
                return Err((format!("labels[{key}]"), faults.join("; ")));
            }
            shape.labels.push((key, value.as_deref()));
        }
        if let Some(taints) = &add.taints {
            let taint = |text: &String| Pattern::parse(text).and_then(Pattern::taint);
            let taints = taints.iter().map(taint).collect::<Result<_, _>>();
            shape.taints = Some(taints.map_err(|message| ("taints".to_owned(), message))?);
        }
        let field = |message: String| ("allocatable".to_owned(), message);
        let status: api::NodeStatus =
            serde_json::from_value(json!({"allocatable": add.allocatable}))
                .map_err(|error| field(error.to_string()))?;
        let mut problems = Vec::new();
        shape.allocatable = NodeAllocatable::of(&status, &mut problems);
        if let Some(problem) = problems.first() {
            return Err(field(problem.to_string()));
        }
        shape.given = add.allocatable.keys().map(String::as_str).collect();
        Ok(shape)
    }

    /// Returns a ready node of this shape that is otherwise like `node`.
    pub(super) fn node(&self, node: &Node, name: &Arc<str>) -> Node {
        let mut copy = node.clone();
        copy.name = name.clone();
        copy.unschedulable = false;
        let taints = node.taints.iter().filter(|taint| !taint.key.starts_with(CONDITION)).cloned();
        copy.taints = match &self.taints {
            Some(taints) => taints.iter().cloned().collect(),
            None => taints.collect(),
        };
        let is_kept = |key: &str| self.labels.iter().all(|(own, _)| *own != key);
        let labels = node.labels.iter().filter(|(key, _)| is_kept(key));
        let labels = labels.map(|(key, own)| (key, if key == HOSTNAME { name } else { own }));
        let own = self.labels.iter().filter_map(|(key, value)| Some((*key, (*value)?)));
        let labels: Labels = labels.chain(own).collect();
        copy.labels = labels;
        self.size(&mut copy);
        copy
    }

    fn size(&self, node: &mut Node) {
        let own = &self.allocatable.resources;
        for name in &self.given {
            match *name {
                "cpu" => node.allocatable.milli_cpu = own.milli_cpu,
                "memory" => node.allocatable.memory = own.memory,
                "ephemeral-storage" => node.allocatable.ephemeral_storage = own.ephemeral_storage,
                "pods" => node.allowed_pods = self.allocatable.pods,
                _ => {}
            }
        }
        let is_kept = |name: &str| !self.given.contains(&name);
        let others = node.allocatable.scalars.iter().filter(|(name, _)| is_kept(name));
        let mut scalars: Vec<(Arc<str>, i64)> = others.chain(&own.scalars).cloned().collect();
        scalars.sort_unstable();
        node.allocatable.scalars = scalars.into();
    }
}
