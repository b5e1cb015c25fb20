//! StatefulSets: pods with stable names, each with claims of its own.

use framework::PodKey;
use serde_json::{Value, json};

use super::template::{count, hash, metadata_of, name, namespace, pod_of, put, text};
use super::{Controllers, key_of};

pub(crate) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
pub(crate) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
const REVISION: &str = "controller-revision-hash";

/// Adds the missing ordinals with their claims. Every pod is expected to become ready, so all
/// ordinals are added at once. A pod that is being deleted keeps its name.
pub(super) fn sync(controllers: &mut Controllers<'_>, set: &Value) {
    let replicas = count(set, "/spec/replicas").unwrap_or(1);
    let start = count(set, "/spec/ordinals/start").unwrap_or(0);
    let root = key_of("StatefulSet", set);
    let present = controllers.pods_of("StatefulSet", set);
    controllers.count(root.clone(), replicas, &present);
    let is_missing = |ordinal: &usize| {
        !controllers.taken.contains(&PodKey::new(namespace(set), &pod_name(set, *ordinal)))
    };
    let mut ordinals = (start..start.saturating_add(replicas)).filter(is_missing);
    let missing: Vec<usize> = ordinals.by_ref().take(controllers.room()).collect();
    let is_cut = ordinals.next().is_some();
    let pod = pod_of(set);
    for ordinal in missing {
        let Some(pod) = pod.clone() else {
            let message = "spec.template: is missing; no pods are made from it";
            return controllers.warn("StatefulSet", set, message);
        };
        controllers.made.objects.extend(templates(set).map(|own| claim(set, own, ordinal)));
        let pod = numbered(set, pod, ordinal);
        controllers.add_pod(&root, pod);
    }
    if is_cut {
        controllers.cut("StatefulSet", set);
    }
}

fn templates(set: &Value) -> impl Iterator<Item = &Value> {
    set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten()
}

fn pod_name(set: &Value, ordinal: usize) -> String {
    format!("{}-{ordinal}", name(set))
}

fn claim_name(set: &Value, template: &Value, ordinal: usize) -> String {
    format!("{}-{}", name(template), pod_name(set, ordinal))
}

/// Returns the claim of a pod. If the dump has a claim of this name, the pod uses that.
fn claim(set: &Value, template: &Value, ordinal: usize) -> Value {
    let mut metadata = Value::Object(metadata_of(template));
    for (key, value) in set["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten() {
        put(&mut metadata, &["labels", key], value.clone());
    }
    metadata["name"] = claim_name(set, template, ordinal).into();
    metadata["namespace"] = namespace(set).into();
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
        "spec": template["spec"]})
}

/// Returns the pod with the name, the labels and the claims of its ordinal.
fn numbered(set: &Value, mut pod: Value, ordinal: usize) -> Value {
    let pod_name = pod_name(set, ordinal);
    let revision = match text(set, "/status/updateRevision") {
        "" => format!("{}-{}", name(set), hash(&set["spec"]["template"])),
        revision => revision.to_owned(),
    };
    let labels =
        [(POD_NAME, pod_name.clone()), (POD_INDEX, ordinal.to_string()), (REVISION, revision)];
    for (key, value) in labels {
        put(&mut pod, &["metadata", "labels", key], value.into());
    }
    pod["metadata"]["name"] = pod_name.as_str().into();
    put(&mut pod, &["spec", "hostname"], pod_name.into());
    if let Some(service) = set["spec"].get("serviceName") {
        put(&mut pod, &["spec", "subdomain"], service.clone());
    }
    let own = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let own = own.filter(|volume| templates(set).all(|template| volume["name"] != *name(template)));
    let claimed = templates(set).map(|template| {
        json!({"name": name(template),
            "persistentVolumeClaim": {"claimName": claim_name(set, template, ordinal)}})
    });
    let volumes: Vec<Value> = own.cloned().chain(claimed).collect();
    if !volumes.is_empty() {
        put(&mut pod, &["spec", "volumes"], volumes.into());
    }
    pod
}
