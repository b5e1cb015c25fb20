//! Writes of original pods at the API server of the management cluster.

use std::time::Duration;

use client::{Method, collection_path, pod_path};
use framework::{PodKey, Time, Uid};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use supercluster::mirror::{FINALIZER, ShownEvent};
use supercluster::scheduler::{INTENT, Intent, PLACEMENT, Placement, WriteAnswer, WriteId};
use tokio::runtime::Handle;

use super::super::replies::Written;
use super::SchedulerEvent;
use super::events;
use crate::api_client::{
    APPLICATION_JSON, ApiClient, JsonRequest, MERGE_PATCH, STRATEGIC_MERGE_PATCH,
};
use crate::clock::Clock;
use crate::runtime::within;
use crate::scheduling_loop::{EventSender, LoopEvent};
use crate::supervision::catch_panic;

/// Time to wait for the response to a write.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The connection for original pods.
#[derive(Clone)]
pub(super) struct Originals {
    pub(super) client: ApiClient,
    pub(super) events: EventSender<SchedulerEvent>,
    pub(super) clock: Clock,
    pub(super) runtime: Handle,
}

impl Originals {
    /// Writes the intent and the finalizer, and removes the placement, if the pod has this version.
    pub(super) fn write_intent(
        &self,
        (id, not_after): (WriteId, Option<Time>),
        pod: &PodKey,
        (uid, resource_version): (&Uid, u64),
        intent: &Intent,
        finalizers: &[String],
    ) {
        let mut metadata = json!({"uid": uid.to_string(),
            "resourceVersion": resource_version.to_string(),
            "annotations": {INTENT: json!(intent).to_string(), PLACEMENT: null}});
        if !finalizers.iter().any(|own| own == FINALIZER) {
            let finalizers = finalizers.iter().map(String::as_str).chain([FINALIZER]);
            metadata["finalizers"] = finalizers.collect();
        }
        let path = pod_path(&pod.namespace, Some(&pod.name));
        self.send((id, not_after), patch(path, &json!({"metadata": metadata})));
    }

    /// Writes the placement, and the condition PodScheduled in the same request: the status of a pod is written with its
    /// annotations. Conditions are merged by type.
    pub(super) fn write_placement(
        &self,
        (id, not_after): (WriteId, Option<Time>),
        pod: &PodKey,
        uid: &Uid,
        placement: &Placement,
    ) {
        let wall = self.clock.wall_offset().wall_time(self.clock.now());
        let now = wall.floor_to_second().to_string();
        let condition = json!({"type": "PodScheduled", "status": "True", "reason": null,
            "message": null, "lastProbeTime": null, "lastTransitionTime": now});
        let body = json!({"metadata": {"uid": uid.to_string(),
                "annotations": {PLACEMENT: json!(placement).to_string()}},
            "status": {"conditions": [condition]}});
        let path = format!("{}/status", pod_path(&pod.namespace, Some(&pod.name)));
        let request = JsonRequest { content_type: STRATEGIC_MERGE_PATCH, ..patch(path, &body) };
        self.send((id, not_after), request);
    }

    fn send(&self, (id, not_after): (WriteId, Option<Time>), request: JsonRequest) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let sending = within(not_after, own.clock, own.client.request(request));
            let answer = match catch_panic(sending).await {
                Ok(reply) => answer_of(reply.into()),
                Err(panic) => WriteAnswer::Failed(panic.to_string()),
            };
            own.events.send(LoopEvent::Own(SchedulerEvent::Written(id, answer)));
        });
    }

    /// Removes the finalizer from a pod of this version.
    pub(super) async fn remove_finalizer(
        &self,
        pod: &PodKey,
        uid: &Uid,
        (resource_version, finalizers): (u64, &[String]),
    ) -> Result<(), String> {
        let others: Vec<&String> = finalizers.iter().filter(|own| *own != FINALIZER).collect();
        let metadata = json!({"uid": uid.to_string(),
            "resourceVersion": resource_version.to_string(), "finalizers": others});
        let path = pod_path(&pod.namespace, Some(&pod.name));
        self.wait_for(patch(path, &json!({"metadata": metadata}))).await
    }

    /// Writes the status.
    pub(super) async fn write_status(
        &self,
        pod: &PodKey,
        uid: &Uid,
        status: &Value,
    ) -> Result<(), String> {
        let path = format!("{}/status", pod_path(&pod.namespace, Some(&pod.name)));
        let body = json!({"metadata": {"uid": uid.to_string()}, "status": status});
        self.wait_for(patch(path, &body)).await
    }

    /// Whether the pod does not exist. An error if the API server does not say so.
    pub(super) async fn is_gone(&self, pod: &PodKey, uid: &str) -> Result<bool, String> {
        let request = JsonRequest {
            method: Method::Get,
            path: pod_path(&pod.namespace, Some(&pod.name)),
            content_type: APPLICATION_JSON,
            body: Vec::new(),
            timeout: TIMEOUT,
        };
        match self.client.request(request).await.into() {
            Written::Done(body) => {
                let found: Value =
                    serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                Ok(found["metadata"]["uid"] != uid)
            }
            Written::NotFound(_) => Ok(true),
            Written::Conflict(text) | Written::Refused(text) | Written::Unknown(text) => Err(text),
        }
    }

    /// Creates an event of a delegate on its original, unless it exists, or shows how often it has occurred.
    pub(super) async fn write_event(
        &self,
        (pod, uid): (&PodKey, &Uid),
        ShownEvent { cluster, event, is_repeated }: &ShownEvent,
    ) -> Result<(), String> {
        let path = collection_path("events.k8s.io/v1", &pod.namespace, "events");
        let (uid, now) = (uid.to_string(), Timestamp::now());
        let request = match is_repeated {
            true => {
                let name = events::name(event, cluster, &uid);
                patch(format!("{path}/{name}"), &events::repeated(event, now))
            }
            false => JsonRequest {
                method: Method::Post,
                path,
                content_type: APPLICATION_JSON,
                body: events::shown(event, cluster, (pod, &uid), now).to_string().into_bytes(),
                timeout: TIMEOUT,
            },
        };
        match self.client.request(request).await.into() {
            // A namespace that is being deleted takes no events.
            Written::Done(_)
            | Written::Conflict(_)
            | Written::NotFound(_)
            | Written::Refused(_) => Ok(()),
            Written::Unknown(text) => Err(text),
        }
    }

    /// Deletes the pod, because its delegate is gone.
    pub(super) async fn delete(&self, pod: &PodKey, uid: &Uid) -> Result<(), String> {
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": uid.to_string()}});
        let request = JsonRequest {
            method: Method::Delete,
            path: pod_path(&pod.namespace, Some(&pod.name)),
            content_type: APPLICATION_JSON,
            body: body.to_string().into_bytes(),
            timeout: TIMEOUT,
        };
        self.wait_for(request).await
    }

    /// Sends a write. A pod that is gone needs none.
    async fn wait_for(&self, request: JsonRequest) -> Result<(), String> {
        match self.client.request(request).await.into() {
            Written::Done(_) | Written::NotFound(_) => Ok(()),
            Written::Conflict(text) | Written::Refused(text) | Written::Unknown(text) => Err(text),
        }
    }
}

fn patch(path: String, body: &Value) -> JsonRequest {
    JsonRequest {
        method: Method::Patch,
        path,
        content_type: MERGE_PATCH,
        body: body.to_string().into_bytes(),
        timeout: TIMEOUT,
    }
}

fn answer_of(written: Written) -> WriteAnswer {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    match written {
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
