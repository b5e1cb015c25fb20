//! `pods/binding`: binds a pod to a node.

use framework::Time;
use serde_json::{Value, json};

use super::{Call, created};
use crate::api::Response;
use crate::metadata::{fields_mut, metadata_mut, name, resource_version, uid};
use crate::object::{entries, is_terminating, put, remove, set_condition, text};
use crate::resources::PODS;
use crate::status::Status;
use crate::store::Store;

const SUBJECT: &str = "pods/binding";

pub(super) fn create(store: &mut Store, call: &Call<'_>) -> Result<Response, Status> {
    let binding = call.body()?;
    // The resource `bindings` names the pod in the body only.
    let pod = if call.name.is_empty() { name(&binding) } else { call.name };
    if !call.name.is_empty() {
        call.check_name(name(&binding), "Binding")?;
    }
    validate(&binding)?;
    let current = store.get(PODS, call.namespace, pod);
    let current = current.ok_or_else(|| Status::not_found(PODS, pod))?;
    check(current, &binding, call.namespace)?;
    if !call.is_dry_run() {
        let bind = |pod: &mut Value| {
            bind(pod, &binding, call.now);
            Ok(())
        };
        store.modify(PODS, call.namespace, pod, call.now, bind)?;
    }
    Ok(created())
}

/// Returns the API server answers these two with a plain 500.
fn validate(binding: &Value) -> Result<(), Status> {
    let fault = match (text(binding, "/target/kind"), text(binding, "/target/name")) {
        ("" | "Node", "") => "target.name: Required value".to_owned(),
        ("" | "Node", _) => return Ok(()),
        (kind, _) => {
            format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\"")
        }
    };
    Err(Status::internal(fault))
}

/// Checks the preconditions first, then the rules of binding. The node need not exist.
fn check(pod: &Value, binding: &Value, namespace: &str) -> Result<(), Status> {
    let name = name(pod);
    let (wanted, found) = (uid(binding), uid(pod));
    if !wanted.is_empty() && wanted != found {
        return Err(Status::uid_mismatch(PODS, namespace, name, wanted, found));
    }
    let (wanted, found) = (resource_version(binding), resource_version(pod));
    if !wanted.is_empty() && wanted != found {
        return Err(version_mismatch(namespace, name, wanted, found));
    }
    let refuse = |why: String| Err(Status::conflict_of(SUBJECT, name, &why));
    if is_terminating(pod) {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(pod, "/spec/nodeName");
    if !node.is_empty() {
        return refuse(format!("pod {name} is already assigned to node {node:?}"));
    }
    if entries(pod, "/spec/schedulingGates").next().is_some() {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn version_mismatch(namespace: &str, name: &str, wanted: &str, found: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in \
         precondition: {wanted}, ResourceVersion in object meta: {found}"
    );
    Status::conflict(PODS, name, &why)
}

/// Binds a pod: copies the annotations of the binding and clears the nomination (1.35 and later).
fn bind(pod: &mut Value, binding: &Value, now: Time) {
    put(pod, &["spec", "nodeName"], binding["target"]["name"].clone());
    if let Some(annotations) = binding["metadata"]["annotations"].as_object() {
        let own = metadata_mut(pod).entry("annotations").or_insert_with(|| json!({}));
        fields_mut(own).extend(annotations.clone());
    }
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null});
    set_condition(pod, scheduled, now);
    remove(pod, &["status"], "nominatedNodeName");
}
