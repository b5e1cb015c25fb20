//! The ephemeral volume controller: creates the claims that pods declare inline, owned by their
//! pod.

use framework::Time;
use serde_json::{Value, json};

use super::owned_pods::metadata_of_template;
use crate::informer::{Informer, ObjectEvent};
use crate::metadata::{name, namespace};
use crate::object::{controller_reference, entries, is_terminating, text};
use crate::resources::{PERSISTENTVOLUMECLAIMS, PODS};
use crate::store::Store;

#[derive(Debug)]
pub(super) struct EphemeralVolumeController {
    pods: Informer,
}

impl EphemeralVolumeController {
    pub(super) fn new() -> Self {
        Self { pods: Informer::new(PODS) }
    }

    pub(super) fn step(&mut self, store: &mut Store, now: Time) {
        for event in self.pods.events(store) {
            if let ObjectEvent::Present(pod) = event
                && !is_terminating(&pod)
            {
                for claim in claims(&pod) {
                    // If the claim exists, it belongs to the pod, or the pod waits until the other
                    // claim is deleted.
                    store.create(PERSISTENTVOLUMECLAIMS, claim, now).ok();
                }
            }
        }
    }
}

fn claims(pod: &Value) -> Vec<Value> {
    let volumes = entries(pod, "/spec/volumes");
    let templates = volumes.filter_map(|volume| {
        Some((text(volume, "/name"), volume.pointer("/ephemeral/volumeClaimTemplate")?))
    });
    templates.map(|(volume, template)| claim(pod, volume, template)).collect()
}

fn claim(pod: &Value, volume: &str, template: &Value) -> Value {
    let mut metadata = metadata_of_template(template);
    metadata["name"] = format!("{}-{volume}", name(pod)).into();
    metadata["namespace"] = namespace(pod).into();
    metadata["ownerReferences"] = json!([controller_reference(pod)]);
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": metadata, "spec": template["spec"]})
}
