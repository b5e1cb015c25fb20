//! The requests of API calls.

use std::sync::Arc;

use engine::Eviction;
use framework::{
    Binding, DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, PodKey, Time, Uid, Write, WriteAction,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::pod_status_patch::PodStatusPatch;
use super::pod_touch::PodTouch;
use crate::extender;
use crate::request::{Destination, Method, collection_path, push_segment};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// A request without id and timeout.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestParts {
    pub(super) destination: Destination,
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
#[serde(rename_all = "camelCase")]
struct BindingMeta<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

#[derive(Serialize)]
struct BindingTarget<'a> {
    kind: &'static str,
    name: &'a str,
}

/// Returns the request that creates the Binding. The UID and the resourceVersion are preconditions:
/// neither another pod of the same name is bound, nor a pod that has changed. The version is not
/// sent if it is 0, which stands for unknown.
pub(super) fn bind(binding: &Binding, resource_version: u64) -> RequestParts {
    let Binding { pod, uid, node } = binding;
    let metadata = BindingMeta {
        name: &pod.name,
        namespace: &pod.namespace,
        uid: uid.to_string(),
        resource_version: (resource_version != 0).then(|| resource_version.to_string()),
    };
    let body = BindingBody {
        api_version: "v1",
        kind: "Binding",
        metadata,
        target: BindingTarget { kind: "Node", name: node },
    };
    RequestParts {
        destination: Destination::ApiServer,
        method: Method::Post,
        path: pod_path(pod, Some("binding")),
        content_type: JSON,
        body: to_json(&body),
    }
}

/// Returns the request that reads the pod. Without a resource version the API server reads from its
/// store, not from a cache.
pub(super) fn read(pod: &PodKey) -> RequestParts {
    let path = pod_path(pod, None);
    let destination = Destination::ApiServer;
    RequestParts { destination, method: Method::Get, path, content_type: JSON, body: Vec::new() }
}

/// Returns the request that asks an extender to bind the pod.
pub(super) fn bind_by_extender(extender: usize, binding: &Binding) -> RequestParts {
    RequestParts {
        destination: Destination::Extender(extender),
        method: Method::Post,
        path: String::new(),
        content_type: JSON,
        body: extender::binding_args(binding),
    }
}

/// Returns the request that patches the status of a pod.
pub(super) fn patch_status(update: &PodStatusPatch, now: Time) -> RequestParts {
    let PodStatusPatch { pod, uid, observed_generation, resource_version, patch, .. } = update;
    let mut status = json!({});
    if let Some(condition) = &patch.condition {
        let condition = Condition {
            condition_type: "PodScheduled",
            status: condition.status,
            reason: &condition.reason,
            message: &condition.message,
            observed_generation: *observed_generation,
        };
        status["conditions"] = json!([condition.body(now)]);
    }
    if let Some(node) = &patch.nominated_node_name {
        status["nominatedNodeName"] = nomination(node);
    }
    let mut metadata = json!({ "uid": uid.to_string() });
    if *resource_version != 0 {
        metadata["resourceVersion"] = resource_version.to_string().into();
    }
    strategic_patch(pod, &metadata, &status)
}

/// The reason of the condition of a pod that was fenced before its first attempt.
pub(crate) const STARTED: &str = "SchedulerStarted";

/// Returns the request that changes the resourceVersion of a pending pod. An existing condition
/// only gets a new `lastProbeTime`. A missing one is added: not with the reason `Unschedulable`,
/// because autoscalers add nodes for such pods.
pub(super) fn touch(touch: &PodTouch, now: Time) -> RequestParts {
    let probed = now.floor_to_second().as_nanos() - i64::from(touch.unchanged) * 1_000_000_000;
    let mut condition = match touch.has_condition {
        true => json!({ "type": "PodScheduled" }),
        false => Condition {
            condition_type: "PodScheduled",
            status: false,
            reason: STARTED,
            message: "the scheduler has started and has not tried to schedule the pod yet",
            observed_generation: touch.observed_generation,
        }
        .body(now),
    };
    condition["lastProbeTime"] = Time::from_nanos(probed).to_string().into();
    let mut metadata = json!({ "uid": touch.uid.to_string() });
    if touch.resource_version != 0 {
        metadata["resourceVersion"] = touch.resource_version.to_string().into();
    }
    strategic_patch(&touch.pod, &metadata, &json!({ "conditions": [condition] }))
}

/// Returns the request that sets the condition `DisruptionTarget` of a pod that is about to be
/// evicted.
pub(super) fn patch_disruption_target(
    eviction: &Eviction,
    message: &str,
    now: Time,
) -> RequestParts {
    let condition = Condition {
        condition_type: DISRUPTION_TARGET,
        status: true,
        reason: PREEMPTION_BY_SCHEDULER,
        message,
        observed_generation: eviction.observed_generation,
    };
    let status = json!({ "conditions": [condition.body(now)] });
    strategic_patch(&eviction.pod, &json!({ "uid": eviction.uid.to_string() }), &status)
}

/// Returns the request that deletes the pod with this UID, with the grace period of the pod.
pub(super) fn delete(eviction: &Eviction) -> RequestParts {
    RequestParts {
        destination: Destination::ApiServer,
        method: Method::Delete,
        path: pod_path(&eviction.pod, None),
        content_type: JSON,
        body: to_json(&delete_options(&eviction.uid)),
    }
}

/// Returns the request that evicts the pod with this UID if its budgets allow it.
pub(super) fn evict(pod: &PodKey, uid: &Uid) -> RequestParts {
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
        "deleteOptions": delete_options(uid),
    });
    RequestParts {
        destination: Destination::ApiServer,
        method: Method::Post,
        path: pod_path(pod, Some("eviction")),
        content_type: JSON,
        body: to_json(&body),
    }
}

/// Patches the status of a pod. `metadata` holds the preconditions.
fn strategic_patch(pod: &PodKey, metadata: &Value, status: &Value) -> RequestParts {
    RequestParts {
        destination: Destination::ApiServer,
        method: Method::Patch,
        path: pod_path(pod, Some("status")),
        content_type: STRATEGIC_MERGE_PATCH,
        body: to_json(&json!({ "metadata": metadata, "status": status })),
    }
}

/// A condition of a pod.
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

/// Returns the value of `nominatedNodeName`; null removes the field.
fn nomination(node: &Arc<str>) -> Value {
    if node.is_empty() { Value::Null } else { Value::from(&**node) }
}

/// Returns the request of a write that a plugin asked for.
pub(super) fn write(write: &Write) -> RequestParts {
    let mut path = collection_path(&write.api_version, &write.namespace, &write.resource);
    if !matches!(write.action, WriteAction::Create(_)) {
        push_segment(&mut path, &write.name);
    }
    if let Some(subresource) = &write.subresource {
        push_segment(&mut path, subresource);
    }
    let (method, content_type, body) = match &write.action {
        WriteAction::MergePatch(patch) => (Method::Patch, MERGE_PATCH, to_json(patch)),
        WriteAction::StrategicMergePatch(patch) => {
            (Method::Patch, STRATEGIC_MERGE_PATCH, to_json(patch))
        }
        WriteAction::Create(object) => (Method::Post, JSON, to_json(object)),
        WriteAction::Delete(uid) => (Method::Delete, JSON, to_json(&delete_options(uid))),
    };
    RequestParts { destination: Destination::ApiServer, method, path, content_type, body }
}

/// Returns the options of a deletion with the UID as a precondition.
fn delete_options(uid: &Uid) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": { "uid": uid.to_string() },
    })
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
