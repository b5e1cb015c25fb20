//! The fields that a dump leaves out of objects: fields that may hold credentials, and fields that
//! no tool reads.

use serde_json::{Map, Value};

/// Fields of metadata.
const OF_METADATA: [&str; 2] = ["managedFields", "selfLink"];
/// Lists of containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// Fields of a container: environment and arguments hold credentials, and so may the headers of
/// probes.
const OF_CONTAINER: [&str; 9] = [
    "env",
    "envFrom",
    "command",
    "args",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "volumeMounts",
];
/// Parameters for drivers of volumes.
const OF_DRIVERS: [&str; 3] = ["volumeAttributes", "parameters", "mountOptions"];
/// The annotation that repeats a whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The domains of annotations that are kept.
const DOMAINS: [&str; 4] = ["kubernetes.io", "k8s.io", "kueue.x-k8s.io", "loadmaster.io"];

/// Removes from an object, its templates included, what a dump leaves out.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => redact_fields(fields),
        _ => {}
    }
}

fn redact_fields(fields: &mut Map<String, Value>) {
    // Device drivers get their parameters as opaque configuration.
    fields.retain(|name, _| !OF_DRIVERS.contains(&name.as_str()) && name != "opaque");
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), &mut *value) {
            ("metadata", Value::Object(metadata)) => redact_metadata(metadata),
            (list, Value::Array(containers)) if CONTAINERS.contains(&list) => {
                containers.iter_mut().filter_map(Value::as_object_mut).for_each(|container| {
                    container.retain(|name, _| !OF_CONTAINER.contains(&name.as_str()));
                });
            }
            _ => {}
        }
        redact(value);
    }
}

fn redact_metadata(metadata: &mut Map<String, Value>) {
    metadata.retain(|name, _| !OF_METADATA.contains(&name.as_str()));
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| is_kept(name));
    }
}

/// Whether an annotation belongs to Kubernetes itself, or is of a domain that the scheduler reads.
fn is_kept(annotation: &str) -> bool {
    let Some((domain, _)) = annotation.split_once('/') else { return false };
    let is_of = |own: &&str| {
        domain.strip_suffix(*own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    annotation != LAST_APPLIED && DOMAINS.iter().any(is_of)
}
