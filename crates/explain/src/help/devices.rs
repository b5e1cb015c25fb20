//! Help for pods whose ResourceClaims cannot be allocated.

use framework::{EventResource, Pod, PodClaimSource};
use serde_json::{Value, json};

use super::{Proposal, size};
use crate::lab::Lab;
use crate::now::Findings;

const PLUGIN: &str = "DynamicResources";
/// Number of slices to which a device is added for a trial.
const SLICES: usize = 4;

pub(super) fn proposals(lab: &Lab<'_>, findings: &Findings) -> Vec<Proposal> {
    let pod = &findings.pod;
    if pod.spec.resource_claims.is_empty() {
        return Vec::new();
    }
    let mut proposals = Vec::new();
    for claim in &pod.spec.resource_claims {
        let PodClaimSource::Claim(name) = &claim.source else { continue };
        match stored_claim(lab, pod, name) {
            None => proposals.extend(missing_claim(lab, pod, name)),
            Some(object) => proposals.extend(missing_classes(lab, &object)),
        }
    }
    let rejects = findings.evaluation.rejectors.iter().any(|name| **name == *PLUGIN);
    if rejects && proposals.is_empty() {
        proposals.extend(more_devices(lab));
    }
    proposals
}

fn stored_claim(lab: &Lab<'_>, pod: &Pod, name: &str) -> Option<Value> {
    let kind = EventResource::ResourceClaim;
    lab.cluster().stored_object(&kind, &pod.key.namespace, name).map(|object| Value::clone(&object))
}

/// A claim that the pod names and that does not exist, for one device of each class in turn.
fn missing_claim(lab: &Lab<'_>, pod: &Pod, name: &str) -> Vec<Proposal> {
    let namespace = &pod.key.namespace;
    let objects = lab.cluster().stored_objects_after(None);
    let classes = objects.filter(|object| object.kind == EventResource::DeviceClass);
    let proposal = |class: framework::StoredObject| {
        let class = &class.name.name;
        let object = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": &**namespace, "name": name, "uid": format!("claim-{name}")},
            "spec": {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": &**class, "allocationMode": "ExactCount", "count": 1}}]}},
        });
        let text = format!(
            "create the ResourceClaim {namespace}/{name}, for example for a device of class {class}"
        );
        let key = (EventResource::ResourceClaim, &**namespace, name);
        Proposal::object("deviceClaim", size::MISSING, text, key, object)
    };
    classes.take(SLICES).map(proposal).collect()
}

/// Classes that a claim names and that do not exist.
fn missing_classes(lab: &Lab<'_>, claim: &Value) -> Vec<Proposal> {
    let requests = claim["spec"]["devices"]["requests"].as_array();
    let mut proposals = Vec::new();
    for request in requests.into_iter().flatten() {
        let exactly = std::iter::once(&request["exactly"]);
        let any = request["firstAvailable"].as_array().into_iter().flatten();
        for wanted in exactly.chain(any) {
            let Some(class) = wanted["deviceClassName"].as_str() else { continue };
            if lab.cluster().device_class(class).is_some() {
                continue;
            }
            let object = json!({
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": class},
                "spec": {},
            });
            let text = format!("create the DeviceClass {class}, which the claim of the pod names");
            let key = (EventResource::DeviceClass, "", class);
            proposals.push(Proposal::object("deviceClass", size::MISSING, text, key, object));
        }
    }
    proposals
}

/// One more device like the first of a slice.
fn more_devices(lab: &Lab<'_>) -> Vec<Proposal> {
    let objects = lab.cluster().stored_objects_after(None);
    let slices = objects.filter(|object| object.kind == EventResource::ResourceSlice);
    let proposal = |slice: framework::StoredObject| {
        let mut object = Value::clone(&*slice.json()?);
        let node = object["spec"]["nodeName"].as_str().map(str::to_owned);
        let devices = object["spec"]["devices"].as_array_mut()?;
        let mut device = devices.first()?.clone();
        let like = device["name"].as_str()?.to_owned();
        device["name"] = json!(format!("{like}-more"));
        devices.push(device);
        let place = node.map(|node| format!(" on node {node}")).unwrap_or_default();
        let text = format!("one more device like {like}{place}, or the end of a pod that uses one");
        let name = slice.name.name.to_string();
        let key = (EventResource::ResourceSlice, "", name.as_str());
        Some(Proposal::object("device", size::NODE, text, key, object))
    };
    slices.filter_map(proposal).take(SLICES).collect()
}
