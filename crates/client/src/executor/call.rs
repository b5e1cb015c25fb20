//! The requests that carry effects out.

use std::sync::Arc;

use engine::Eviction;
use framework::{
    Binding, DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, PodKey, StatusPatch, Time, Uid, Write,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::extender;
use crate::request::{Method, Recipient, collection_path, push_segment};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// A request without its name and timeout.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) to: Recipient,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BindingBody<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BindingMeta<'a>,
    target: BindingTarget<'a>,
}

#[derive(Serialize)]
struct BindingMeta<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: String,
}

#[derive(Serialize)]
struct BindingTarget<'a> {
    kind: &'static str,
    name: &'a str,
}

/// Posts the Binding. Its UID keeps it from another pod of that name.
pub(super) fn bind(binding: &Binding) -> Call {
    let Binding { pod, uid, node } = binding;
    let body = BindingBody {
        api_version: "v1",
        kind: "Binding",
        metadata: BindingMeta { name: &pod.name, namespace: &pod.namespace, uid: uid.to_string() },
        target: BindingTarget { kind: "Node", name: node },
    };
    Call {
        to: Recipient::ApiServer,
        method: Method::Post,
        path: pod_path(pod, Some("binding")),
        content_type: JSON,
        body: to_json(&body),
    }
}

/// Reads the pod. Without a resource version the server answers from its store, never from a cache.
pub(super) fn read(pod: &PodKey) -> Call {
    let path = pod_path(pod, None);
    let to = Recipient::ApiServer;
    Call { to, method: Method::Get, path, content_type: JSON, body: Vec::new() }
}

/// Has an extender bind the pod.
pub(super) fn bind_by_extender(extender: usize, binding: &Binding) -> Call {
    Call {
        to: Recipient::Extender(extender),
        method: Method::Post,
        path: String::new(),
        content_type: JSON,
        body: extender::binding_args(binding),
    }
}

/// Patches the status of the pod with this UID.
pub(super) fn patch_status(
    pod: &PodKey,
    uid: &Uid,
    observed_generation: i64,
    patch: &StatusPatch,
    now: Time,
) -> Call {
    let mut status = json!({});
    if let Some(condition) = &patch.condition {
        let condition = Condition {
            condition_type: "PodScheduled",
            status: condition.status,
            reason: &condition.reason,
            message: &condition.message,
            observed_generation,
        };
        status["conditions"] = json!([condition.body(now)]);
    }
    if let Some(node) = &patch.nominated_node_name {
        status["nominatedNodeName"] = nomination(node);
    }
    strategic_patch(pod, uid, &status)
}

/// Says why the pod is about to be deleted.
pub(super) fn patch_disruption_target(eviction: &Eviction, message: &str, now: Time) -> Call {
    let condition = Condition {
        condition_type: DISRUPTION_TARGET,
        status: true,
        reason: PREEMPTION_BY_SCHEDULER,
        message,
        observed_generation: eviction.observed_generation,
    };
    let status = json!({ "conditions": [condition.body(now)] });
    strategic_patch(&eviction.pod, &eviction.uid, &status)
}

/// Deletes the pod with this UID, within the grace period it asks for.
pub(super) fn delete(eviction: &Eviction) -> Call {
    let body = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": { "uid": eviction.uid.to_string() },
    });
    Call {
        to: Recipient::ApiServer,
        method: Method::Delete,
        path: pod_path(&eviction.pod, None),
        content_type: JSON,
        body: to_json(&body),
    }
}

fn strategic_patch(pod: &PodKey, uid: &Uid, status: &Value) -> Call {
    Call {
        to: Recipient::ApiServer,
        method: Method::Patch,
        path: pod_path(pod, Some("status")),
        content_type: STRATEGIC_MERGE_PATCH,
        body: to_json(&json!({ "metadata": { "uid": uid.to_string() }, "status": status })),
    }
}

/// A condition to be patched into the status of a pod.
struct Condition<'a> {
    condition_type: &'a str,
    status: bool,
    reason: &'a str,
    message: &'a str,
    observed_generation: i64,
}

impl Condition<'_> {
    fn body(&self, now: Time) -> Value {
        json!({
            "type": self.condition_type,
            "status": if self.status { "True" } else { "False" },
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": self.observed_generation,
            "lastProbeTime": null,
            "lastTransitionTime": now.floor_to_second().to_string(),
        })
    }
}

/// Null takes the field away.
fn nomination(node: &Arc<str>) -> Value {
    if node.is_empty() { Value::Null } else { Value::from(&**node) }
}

/// Sends the patch a plugin wants written.
pub(super) fn write(write: &Write) -> Call {
    let mut path = collection_path(&write.api_version, &write.namespace, &write.resource);
    push_segment(&mut path, &write.name);
    if let Some(subresource) = &write.subresource {
        push_segment(&mut path, subresource);
    }
    let (to, body) = (Recipient::ApiServer, to_json(&write.patch));
    Call { to, method: Method::Patch, path, content_type: MERGE_PATCH, body }
}

fn pod_path(pod: &PodKey, subresource: Option<&str>) -> String {
    let mut path = collection_path("v1", &pod.namespace, "pods");
    push_segment(&mut path, &pod.name);
    if let Some(subresource) = subresource {
        push_segment(&mut path, subresource);
    }
    path
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("strings, numbers and maps with text keys have a JSON form")
}
