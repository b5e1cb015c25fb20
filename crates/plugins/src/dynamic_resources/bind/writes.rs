//! The requests that change claims and the status of pods.

use std::sync::Arc;

use framework::device::{Allocation, ClaimConsumer, FINALIZER, ResourceClaim};
use framework::{Pod, Time, Uid, Write, WriteAction};
use serde_json::{Value, json};

use crate::dynamic_resources::extended::{RequestMapping, object_to_create};

/// Group and version of claims.
pub(crate) const API_VERSION: &str = "resource.k8s.io/v1";

fn write(claim: &ResourceClaim, subresource: Option<&str>, action: WriteAction) -> Write {
    Write {
        api_version: API_VERSION.into(),
        resource: "resourceclaims".into(),
        namespace: claim.namespace.clone(),
        name: claim.name.clone(),
        subresource: subresource.map(Into::into),
        flow: "".into(),
        action,
    }
}

/// Returns metadata that refuse the write of another claim of this name.
fn uid(claim: &ResourceClaim) -> Value {
    json!({ "uid": claim.uid.to_string() })
}

/// Returns metadata that refuse the write of another version of the claim.
fn version(claim: &ResourceClaim) -> Value {
    json!({ "uid": claim.uid.to_string(), "resourceVersion": &*claim.resource_version })
}

/// Returns a user of a claim as JSON.
pub(crate) fn consumer(user: &ClaimConsumer) -> Value {
    let mut json = json!({
        "resource": &*user.resource,
        "name": &*user.name,
        "uid": user.uid.to_string(),
    });
    if !user.api_group.is_empty() {
        json["apiGroup"] = Value::from(&*user.api_group);
    }
    json
}

/// Creates the claim for the extended resources of a pod under `name`.
pub(super) fn creation(claim: &ResourceClaim, name: &Arc<str>, pod: &Pod) -> Write {
    let object = object_to_create(claim, name, pod);
    Write { name: name.clone(), ..write(claim, None, WriteAction::Create(object)) }
}

/// Adds the finalizer of allocated claims to the finalizers of the claim.
pub(super) fn finalizer(claim: &ResourceClaim) -> Write {
    let mut metadata = uid(claim);
    metadata["finalizers"] = json!([FINALIZER]);
    let patch = json!({ "metadata": metadata });
    write(claim, None, WriteAction::StrategicMergePatch(patch))
}

/// Reserves the claim for a user, with the allocation if it has none. `timestamp` is the start of
/// the wait for binding conditions.
pub(super) fn reservation(
    claim: &ResourceClaim,
    allocation: Option<&Allocation>,
    user: &ClaimConsumer,
    timestamp: Option<Time>,
) -> Write {
    let mut users: Vec<Value> = claim.reserved_for.iter().map(consumer).collect();
    if !claim.is_reserved_for(&user.uid) {
        users.push(consumer(user));
    }
    let mut status = json!({ "reservedFor": users });
    if let Some(allocation) = allocation {
        status["allocation"] = allocation.to_json();
    }
    let known = allocation.or(claim.allocation.as_deref()).and_then(|own| own.timestamp.as_ref());
    if let Some(now) = timestamp.filter(|_| known.is_none()) {
        status["allocation"]["allocationTimestamp"] = json!(now.floor_to_second().to_string());
    }
    let patch = json!({ "metadata": version(claim), "status": status });
    write(claim, Some("status"), WriteAction::MergePatch(patch))
}

/// Names the claim for extended resources, and which container uses which request, in the status of
/// a pod.
pub(super) fn pod_status(pod: &Pod, claim: &str, mappings: &[RequestMapping]) -> Write {
    let mapping = |own: &RequestMapping| {
        json!({
            "containerName": &*own.container,
            "resourceName": &*own.resource,
            "requestName": &*own.request,
        })
    };
    let mappings: Vec<Value> = mappings.iter().map(mapping).collect();
    let patch = json!({
        "metadata": { "uid": pod.uid.to_string() },
        "status": {
            "extendedResourceClaimStatus": {
                "requestMappings": mappings,
                "resourceClaimName": claim,
            },
        },
    });
    Write {
        api_version: "v1".into(),
        resource: "pods".into(),
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        subresource: Some("status".into()),
        flow: "".into(),
        action: WriteAction::MergePatch(patch),
    }
}

/// Ends the reservation of the claim for the pod or PodGroup with this UID.
pub(crate) fn release(claim: &ResourceClaim, user: &Uid) -> Write {
    let user = json!({ "$patch": "delete", "uid": user.to_string() });
    let patch = json!({ "metadata": version(claim), "status": { "reservedFor": [user] } });
    write(claim, Some("status"), WriteAction::StrategicMergePatch(patch))
}

/// Deallocates the claim.
pub(crate) fn deallocation(claim: &ResourceClaim) -> Write {
    let patch = json!({
        "metadata": version(claim),
        "status": { "allocation": null, "reservedFor": null, "devices": null },
    });
    write(claim, Some("status"), WriteAction::MergePatch(patch))
}

/// Removes the finalizer of allocated claims from this version of the claim, which is not
/// allocated. Other requests that name the version are refused then.
pub(crate) fn fence(claim: &ResourceClaim) -> Write {
    let mut metadata = version(claim);
    metadata["$deleteFromPrimitiveList/finalizers"] = json!([FINALIZER]);
    write(claim, None, WriteAction::StrategicMergePatch(json!({ "metadata": metadata })))
}

/// Removes the finalizer of allocated claims, if the claim has it, and deletes the claim.
pub(crate) fn deletion(claim: &ResourceClaim) -> [Write; 2] {
    let mut metadata = uid(claim);
    metadata["$deleteFromPrimitiveList/finalizers"] = json!([FINALIZER]);
    let patch = json!({ "metadata": metadata });
    [
        write(claim, None, WriteAction::StrategicMergePatch(patch)),
        write(claim, None, WriteAction::Delete(claim.uid.clone())),
    ]
}
