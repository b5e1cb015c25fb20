//! The requests of both roles to API servers, and what the answers mean.

use std::time::Duration;

use control::{Method, Reply, collection_path, pod_path};
use framework::{PodKey, Time, Uid};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use supercluster::agent;
use supercluster::delegate::DelegateMark;
use supercluster::message::{DelegateEvent, PodObject};
use supercluster::mirror::{FINALIZER, ShownEvent};
use supercluster::scheduler::{self, INTENT, Intent, PLACEMENT, Placement};

use super::replies::Written;
use super::watched;
use crate::api_client::{APPLICATION_JSON, JsonRequest, MERGE_PATCH, STRATEGIC_MERGE_PATCH};

/// Time to wait for the response.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Writes the intent and the finalizer, and removes the placement, if the pod has this version.
pub fn intent(
    pod: &PodKey,
    uid: &Uid,
    resource_version: u64,
    intent: &Intent,
    finalizers: &[String],
) -> JsonRequest {
    let mut metadata = json!({"uid": uid.to_string(),
        "resourceVersion": resource_version.to_string(),
        "annotations": {INTENT: json!(intent).to_string(), PLACEMENT: null}});
    if !finalizers.iter().any(|own| own == FINALIZER) {
        let finalizers = finalizers.iter().map(String::as_str).chain([FINALIZER]);
        metadata["finalizers"] = finalizers.collect();
    }
    merge_patch(path(pod), &json!({"metadata": metadata}))
}

/// Writes the placement, and the condition PodScheduled in the same request: the status of a pod is
/// written with its annotations. Conditions are merged by type. `wall` is the time.
pub fn placement(pod: &PodKey, uid: &Uid, placement: &Placement, wall: Time) -> JsonRequest {
    let condition = json!({"type": "PodScheduled", "status": "True", "reason": null,
        "message": null, "lastProbeTime": null,
        "lastTransitionTime": wall.floor_to_second().to_string()});
    let body = json!({"metadata": {"uid": uid.to_string(),
            "annotations": {PLACEMENT: json!(placement).to_string()}},
        "status": {"conditions": [condition]}});
    let request = merge_patch(format!("{}/status", path(pod)), &body);
    JsonRequest { content_type: STRATEGIC_MERGE_PATCH, ..request }
}

/// Removes the finalizer from a pod of this version.
pub fn release(
    pod: &PodKey,
    uid: &Uid,
    resource_version: u64,
    finalizers: &[String],
) -> JsonRequest {
    let others: Vec<&String> = finalizers.iter().filter(|own| *own != FINALIZER).collect();
    let metadata = json!({"uid": uid.to_string(),
        "resourceVersion": resource_version.to_string(), "finalizers": others});
    merge_patch(path(pod), &json!({"metadata": metadata}))
}

/// Writes the status of an original.
pub fn status(pod: &PodKey, uid: &Uid, status: &Value) -> JsonRequest {
    let body = json!({"metadata": {"uid": uid.to_string()}, "status": status});
    merge_patch(format!("{}/status", path(pod)), &body)
}

/// Creates an event of a delegate on its original, or shows how often it has occurred.
pub fn event(
    pod: &PodKey,
    uid: &Uid,
    ShownEvent { cluster, event, is_repeated }: &ShownEvent,
    now: Timestamp,
) -> JsonRequest {
    let path = collection_path("events.k8s.io/v1", &pod.namespace, "events");
    let uid = uid.to_string();
    match is_repeated {
        true => {
            let name = event_name(event, cluster, &uid);
            merge_patch(format!("{path}/{name}"), &repeated(event, now))
        }
        false => json_request(Method::Post, path, &shown(event, cluster, pod, &uid, now)),
    }
}

/// Reads a pod.
pub fn read(pod: &PodKey) -> JsonRequest {
    JsonRequest {
        method: Method::Get,
        path: path(pod),
        content_type: APPLICATION_JSON,
        body: Vec::new(),
        timeout: TIMEOUT,
    }
}

/// Creates the delegate of a pod for an agent with this scheduler name.
pub fn delegate(pod: &PodObject, mark: &DelegateMark, profile: &str) -> JsonRequest {
    let key = &pod.pod.key;
    let delegate = mark.delegate_of(key, &pod.object, profile);
    json_request(Method::Post, pod_path(&key.namespace, None), &delegate)
}

/// Deletes the pod with this UID, and in this version if there is one.
pub fn delete(pod: &PodKey, uid: &Uid, resource_version: Option<u64>) -> JsonRequest {
    let mut preconditions = json!({"uid": uid.to_string()});
    if let Some(version) = resource_version {
        preconditions["resourceVersion"] = version.to_string().into();
    }
    delete_with(pod, &delete_options(&preconditions))
}

/// Returns the options of a deletion with these preconditions.
pub(super) fn delete_options(preconditions: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions})
}

/// Deletes a pod with these options.
pub(super) fn delete_with(pod: &PodKey, options: &Value) -> JsonRequest {
    json_request(Method::Delete, path(pod), options)
}

/// Evicts a pod with these options of the deletion.
pub(super) fn evict(pod: &PodKey, options: &Value) -> JsonRequest {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"namespace": &*pod.namespace, "name": &*pod.name},
        "deleteOptions": options});
    json_request(Method::Post, format!("{}/eviction", path(pod)), &eviction)
}

/// Returns what the reply to a write of an original means.
pub fn original_answer(reply: Reply) -> scheduler::WriteAnswer {
    use scheduler::WriteAnswer;
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    match reply.into() {
        Written::Done(body) => {
            let object: Option<Object> = serde_json::from_slice(&body).ok();
            let version = object.and_then(|object| object.metadata.resource_version.parse().ok());
            version.map_or_else(
                || WriteAnswer::Failed("the answer has no resourceVersion".to_owned()),
                WriteAnswer::Done,
            )
        }
        Written::NotFound(_) => WriteAnswer::Gone,
        // Another pod has the name by now.
        Written::Conflict(text) if text.contains("UID") || text.contains("uid") => {
            WriteAnswer::Gone
        }
        Written::Conflict(_) => WriteAnswer::Conflict,
        Written::Refused(text) | Written::Unknown(text) => WriteAnswer::Failed(text),
    }
}

/// Returns what the reply to a creation or read of a delegate means, or that to its deletion.
pub fn delegate_answer(reply: Reply, is_delete: bool) -> agent::WriteAnswer {
    use agent::WriteAnswer;
    match reply.into() {
        Written::Done(_) if is_delete => WriteAnswer::Done,
        Written::Done(body) => match watched::answered(&body) {
            Ok((pod, mark)) => WriteAnswer::Pod(pod, mark),
            Err(error) => WriteAnswer::Unknown(format!("the answer is no pod: {error}")),
        },
        Written::NotFound(_) => WriteAnswer::NotFound,
        Written::Conflict(_) => WriteAnswer::Conflict,
        Written::Refused(text) => WriteAnswer::Refused(text),
        Written::Unknown(text) => WriteAnswer::Unknown(text),
    }
}

fn path(pod: &PodKey) -> String {
    pod_path(&pod.namespace, Some(&pod.name))
}

fn merge_patch(path: String, body: &Value) -> JsonRequest {
    JsonRequest { content_type: MERGE_PATCH, ..json_request(Method::Patch, path, body) }
}

fn json_request(method: Method, path: String, body: &Value) -> JsonRequest {
    let body = serde_json::to_vec(body).expect("a value is always written to memory");
    let content_type = APPLICATION_JSON;
    JsonRequest { method, path, content_type, body, timeout: TIMEOUT }
}

/// Returns the Event that shows the event of a delegate on its original. Its name is the same for
/// every scheduler, so that it is created once.
fn shown(event: &DelegateEvent, cluster: &str, pod: &PodKey, uid: &str, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let kind = if event.warning { "Warning" } else { "Normal" };
    json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": event_name(event, cluster, uid), "namespace": &*pod.namespace},
        "eventTime": now, "type": kind, "reason": &*event.reason, "action": "Mirror",
        "note": format!("{cluster}: {}", event.message),
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": &*pod.namespace,
            "name": &*pod.name, "uid": uid},
        "reportingController": "loadmaster.io/supercluster",
        "reportingInstance": format!("{cluster}/{}", event.component)})
}

/// Returns the name of the Event: of this event of the pod with this UID.
fn event_name(event: &DelegateEvent, cluster: &str, uid: &str) -> String {
    let text = format!("{uid}/{cluster}/{}", event.uid);
    // FNV-1a, with both halves from different starts.
    let hash = |start: u64| {
        text.bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    format!("delegate.{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
}

/// Returns the patch that shows how often the event has occurred.
fn repeated(event: &DelegateEvent, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    json!({"series": {"count": event.count, "lastObservedTime": now}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_the_cluster_and_has_one_name() {
        let event = DelegateEvent {
            uid: "e".into(),
            warning: true,
            reason: "BackOff".into(),
            message: "image".into(),
            component: "kubelet".into(),
            count: 1,
        };
        let key = PodKey::new("ns", "p");
        let shown = shown(&event, "eu", &key, "u", Timestamp::UNIX_EPOCH);
        assert_eq!((&shown["note"], &shown["type"]), (&json!("eu: image"), &json!("Warning")));
        assert_eq!(shown["regarding"]["uid"], "u");
        let repeated = DelegateEvent { count: 2, ..event.clone() };
        assert_eq!(shown["metadata"]["name"], event_name(&repeated, "eu", "u"));
        assert_ne!(event_name(&event, "us", "u"), event_name(&event, "eu", "u"));
    }
}
