//! The claims of generic ephemeral volumes. In a cluster, the ephemeral volume controller creates
//! them.

use framework::{EventResource, PodVolumeSource};
use serde_json::{Value, json};

use crate::{DumpedPod, Object};

/// Returns the claims of the ephemeral volumes of a pod. The pod owns them.
pub(super) fn claims_of(pod: &DumpedPod) -> Vec<Object> {
    if pod.pod.spec.volumes.iter().all(|volume| volume.source != PodVolumeSource::Ephemeral) {
        return Vec::new();
    }
    let object = pod.object();
    let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| {
        let template = volume["ephemeral"].get("volumeClaimTemplate")?;
        Some(claim(pod, volume["name"].as_str()?, template))
    });
    claims.collect()
}

fn claim(object: &DumpedPod, volume: &str, template: &Value) -> Object {
    let pod = &object.pod;
    let namespace = pod.key.namespace.clone();
    let name = format!("{}-{volume}", pod.key.name);
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": &*pod.key.name,
        "uid": pod.uid.to_string(), "controller": true});
    let mut metadata = template.get("metadata").filter(|own| own.is_object()).cloned();
    let metadata = metadata.get_or_insert_with(|| json!({}));
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(&*namespace);
    metadata["uid"] = json!(format!("{namespace}/{name}"));
    metadata["ownerReferences"] = json!([owner]);
    let object = json!({"metadata": metadata, "spec": template["spec"]});
    let kind = EventResource::PersistentVolumeClaim;
    Object { kind, namespace, name: name.into(), object: object.into() }
}
