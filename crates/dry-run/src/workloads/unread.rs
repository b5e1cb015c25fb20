//! Objects that look like workloads, and whose pods are not made.

use framework::PodKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::foreign::group_and_kind;
use super::template::{name, namespace};

/// A workload that could not be expanded, or a pod that is refused, so that pods are missing in the
/// result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unread {
    /// The kind with its group, as kubectl accepts it.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// Kinds whose pods come from no template.
const WITHOUT_TEMPLATES: [(&str, &str); 12] = [
    ("argoproj.io", "CronWorkflow"),
    ("argoproj.io", "Workflow"),
    ("flink.apache.org", "FlinkDeployment"),
    ("kubevirt.io", "VirtualMachine"),
    ("kubevirt.io", "VirtualMachineInstance"),
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"),
    ("serving.kserve.io", "InferenceService"),
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"),
    ("sparkoperator.k8s.io", "SparkApplication"),
    ("tekton.dev", "PipelineRun"),
    ("tekton.dev", "TaskRun"),
    ("workload.codeflare.dev", "AppWrapper"),
];

/// The ends of kinds that describe pods and make none.
const DESCRIPTIONS: [&str; 5] = ["Policy", "Profile", "Revision", "Runtime", "Template"];

/// Fields in which kinds of operators have a number of pods.
const NUMBERS: [&str; 4] = ["count", "instances", "replicas", "size"];

/// Whether a controller makes pods from the object, as far as its content says.
pub(super) fn looks_like_workload(object: &Value) -> bool {
    let own = group_and_kind(object);
    if own == ("", "Pod") || DESCRIPTIONS.iter().any(|end| own.1.ends_with(end)) {
        return false;
    }
    let spec = &object["spec"];
    WITHOUT_TEMPLATES.contains(&own) || has_containers(spec) || is_of_operator(own.0, own.1, spec)
}

/// Whether an operator makes pods from the object: it has a number of them, and an image or
/// resources.
fn is_of_operator(group: &str, kind: &str, spec: &Value) -> bool {
    let is_foreign = group.contains('.') && !group.ends_with(".k8s.io");
    let is_number = |field: &str, value: &Value| {
        NUMBERS.contains(&field) && value.as_i64().is_some_and(|own| own > 0)
    };
    let is_content = |field: &str, value: &Value| match field {
        "image" => value.is_string(),
        "resources" => value["requests"].is_object() || value["limits"].is_object(),
        _ => false,
    };
    // Kinds of the Cluster API have numbers of nodes, and images of disks.
    is_foreign && !kind.starts_with("Machine") && has(spec, &is_number) && has(spec, &is_content)
}

/// Whether a field at any depth is one that is looked for.
pub(super) fn has(value: &Value, is_wanted: &impl Fn(&str, &Value) -> bool) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(field, value)| is_wanted(field, value) || has(value, is_wanted))
        }
        Value::Array(items) => items.iter().any(|item| has(item, is_wanted)),
        _ => false,
    }
}

/// Whether a value has a list of containers at any depth.
fn has_containers(value: &Value) -> bool {
    let is_container = |own: &Value| own["image"].is_string() || own["name"].is_string();
    has(value, &|field: &str, value: &Value| {
        field == "containers" && value.as_array().is_some_and(|own| own.iter().any(is_container))
    })
}

impl Unread {
    /// Returns the entry of a file that may hold workloads.
    pub fn file(name: &str, reason: &str) -> Self {
        let [kind, namespace] = ["File", ""].map(str::to_owned);
        Self { kind, namespace, name: name.to_owned(), reason: reason.to_owned() }
    }

    /// Returns the entry of a pod that an API server would refuse.
    pub fn pod(key: &PodKey, reason: &str) -> Self {
        let [kind, namespace, name] = ["Pod", &*key.namespace, &*key.name].map(str::to_owned);
        Self { kind, namespace, name, reason: reason.to_owned() }
    }

    pub(super) fn of(object: &Value, reason: &str) -> Self {
        let (group, kind) = group_and_kind(object);
        Self {
            kind: if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") },
            namespace: namespace(object).to_owned(),
            name: name(object).to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// Returns the warning about it.
    pub(super) fn warning(&self) -> String {
        let Self { kind, namespace, name, reason } = self;
        format!("{kind} {namespace}/{name}: {reason}; its pods are not made and not counted")
    }
}
