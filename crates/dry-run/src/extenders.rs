//! Extenders that a dry run calls, and the objects that are sent to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use engine::Change;
use engine::cycle::Extender;
use engine::ports::ExtenderClient;
use framework::{Node, Pod, PodKey, Resources, api};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::workloads::template::put;

/// The client of the extenders of one run.
pub trait Extenders: ExtenderClient + Send {
    /// Keeps the object of a node. Calls send the last one.
    fn keep_node(&mut self, name: Arc<str>, object: Box<RawValue>);

    /// Keeps the object of a pod. Calls send the last one.
    fn keep_pod(&mut self, pod: PodKey, object: Box<RawValue>);

    /// Returns a warning for each extender that failed.
    fn warnings(&self) -> Vec<String>;
}

/// The extenders that runs call.
#[derive(Clone)]
pub struct ExtenderSettings {
    /// The extenders, the ignorable ones last.
    pub extenders: Vec<Extender>,
    /// Creates the client of a run.
    pub connect: Arc<dyn Fn() -> Box<dyn Extenders> + Send + Sync>,
}

impl fmt::Debug for ExtenderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtenderSettings").field(&self.extenders).finish()
    }
}

/// Nodes and pods as they were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadObjects {
    pub(crate) nodes: BTreeMap<Arc<str>, Arc<RawValue>>,
    pub(crate) pods: BTreeMap<PodKey, Arc<RawValue>>,
}

/// The client of a run, and the objects that it sends.
pub(crate) struct CalledExtenders {
    pub(crate) client: Box<dyn Extenders>,
    read: ReadObjects,
}

impl CalledExtenders {
    pub(crate) fn new(settings: &ExtenderSettings, read: ReadObjects) -> Self {
        Self { client: (settings.connect)(), read }
    }

    /// Keeps the object that a change brings.
    pub(crate) fn note(&mut self, change: &Change) {
        match change {
            Change::Node(node) => {
                if let Ok(object) = to_raw_value(&self.node(node)) {
                    self.client.keep_node(node.name.clone(), object);
                }
            }
            Change::Pod(pod) => {
                if let Ok(object) = to_raw_value(&self.pod(pod)) {
                    self.client.keep_pod(pod.key.clone(), object);
                }
            }
            _ => {}
        }
    }

    /// Returns the object of a node: as it was read, with what has changed since then.
    fn node(&self, node: &Node) -> Value {
        let mut object = parsed(self.read.nodes.get(&node.name));
        let (was, _) = Node::from_api(&api::Node::deserialize(&object).unwrap_or_default());
        put(&mut object, &["metadata", "name"], json!(*node.name));
        if was.labels != node.labels {
            let labels: BTreeMap<_, _> = node.labels.iter().collect();
            put(&mut object, &["metadata", "labels"], json!(labels));
        }
        if was.taints != node.taints {
            let taints = node.taints.iter().map(
                |taint| json!({"key": *taint.key, "value": *taint.value, "effect": taint.effect.as_str()}),
            );
            put(&mut object, &["spec", "taints"], taints.collect());
        }
        if was.unschedulable != node.unschedulable {
            put(&mut object, &["spec", "unschedulable"], json!(node.unschedulable));
        }
        if was.allocatable != node.allocatable || was.allowed_pods != node.allowed_pods {
            let allocatable = quantities(&node.allocatable, node.allowed_pods);
            put(&mut object, &["status", "allocatable"], allocatable);
        }
        object
    }

    /// Returns the object of a pod: as it was read, with its identity and its node.
    fn pod(&self, pod: &Pod) -> Value {
        let mut object = parsed(self.read.pods.get(&pod.key));
        put(&mut object, &["metadata", "name"], json!(*pod.key.name));
        put(&mut object, &["metadata", "namespace"], json!(*pod.key.namespace));
        put(&mut object, &["metadata", "uid"], json!(pod.uid.to_string()));
        put(&mut object, &["spec", "priority"], json!(pod.priority()));
        match &pod.node_name {
            Some(node) => put(&mut object, &["spec", "nodeName"], json!(**node)),
            None => {
                if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("nodeName");
                }
            }
        }
        object
    }
}

/// Returns an object as kube-scheduler holds it in memory: without kind and `managedFields`.
fn parsed(raw: Option<&Arc<RawValue>>) -> Value {
    let object = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let Some(Value::Object(mut fields)) = object else { return json!({}) };
    fields.remove("kind");
    fields.remove("apiVersion");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Value::Object(fields)
}

fn quantities(resources: &Resources, pods: i64) -> Value {
    let mut quantities = json!({
        "cpu": format!("{}m", resources.milli_cpu),
        "memory": resources.memory.to_string(),
        "ephemeral-storage": resources.ephemeral_storage.to_string(),
        "pods": pods.to_string(),
    });
    for (name, amount) in &resources.scalars {
        quantities[&**name] = amount.to_string().into();
    }
    quantities
}
