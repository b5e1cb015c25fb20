//! Writes and reads of delegates at the API server of the member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use client::{Method, Reply, pod_path};
use framework::{PodKey, Time, Uid};
use serde_json::{Value, json};
use supercluster::agent::{WriteAnswer, WriteId};
use supercluster::delegate::DelegateMark;
use supercluster::message::{CommitRequest, CopyKind, PodObject};
use tokio::runtime::Handle;
use tracing::warn;

use super::super::leases::KeptLeases;
use super::super::messages::{DeletionOutcome, DeletionRequest, EvictionRefusal};
use super::super::replies::Written;
use super::AgentEvent;
use super::copies;
use crate::api_client::{APPLICATION_JSON, ApiClient, JsonRequest};
use crate::clock::Clock;
use crate::runtime::within;
use crate::scheduling_loop::{EventSender, LoopEvent};
use crate::supervision::catch_panic;

/// Time to wait for the response to a write or read.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The connection for delegates.
#[derive(Clone)]
pub(super) struct Writes {
    pub(super) client: ApiClient,
    pub(super) events: EventSender<AgentEvent>,
    pub(super) clock: Clock,
    pub(super) runtime: Handle,
    /// `spec.schedulerName` of delegates.
    pub(super) profile: Arc<str>,
    /// The Lease with the renewals.
    pub(super) leases: KeptLeases,
    /// The kinds of objects that are copied from the management cluster.
    pub(super) copied: Arc<BTreeSet<CopyKind>>,
}

impl Writes {
    pub(super) fn create(
        &self,
        id: WriteId,
        pod: &PodObject,
        mark: &DelegateMark,
        not_after: Option<Time>,
    ) {
        let key = &pod.pod.key;
        let delegate = mark.delegate_of(key, &pod.object, &self.profile);
        let path = pod_path(&key.namespace, None);
        self.send(id, request(Method::Post, path, delegate.to_string()), not_after);
    }

    pub(super) fn read(&self, id: WriteId, pod: &PodKey, not_after: Option<Time>) {
        let path = pod_path(&pod.namespace, Some(&pod.name));
        self.send(id, request(Method::Get, path, String::new()), not_after);
    }

    pub(super) fn delete(
        &self,
        id: WriteId,
        pod: &PodKey,
        (uid, resource_version): (&Uid, u64),
        not_after: Option<Time>,
    ) {
        let preconditions =
            json!({"uid": uid.to_string(), "resourceVersion": resource_version.to_string()});
        let body =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        let path = pod_path(&pod.namespace, Some(&pod.name));
        self.send(id, request(Method::Delete, path, body.to_string()), not_after);
    }

    /// Deletes a delegate whose lease has ended.
    pub(super) fn fence(&self, id: WriteId, pod: &PodKey, uid: &Uid, not_after: Option<Time>) {
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": uid.to_string()}});
        let path = pod_path(&pod.namespace, Some(&pod.name));
        self.send(id, request(Method::Delete, path, body.to_string()), not_after);
    }

    /// Stores when leases were renewed. An agent that does not lead any more may store it: the times are true.
    pub(super) fn keep_leases(&self, id: WriteId, renewed: BTreeMap<Arc<str>, Time>) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let writing = own.leases.write(renewed, own.clock.wall_offset());
            let answer = match catch_panic(writing).await {
                Ok(Ok(())) => WriteAnswer::Done,
                Ok(Err(text)) => WriteAnswer::Unknown(text),
                Err(panic) => WriteAnswer::Unknown(panic.to_string()),
            };
            own.events.send(LoopEvent::Own(AgentEvent::Written(id, answer)));
        });
    }

    /// Creates copies of objects that a pod names, owned by its delegate. It does not hold up the delegate: the kubelet waits for them.
    pub(super) fn copy(&self, delegate: &Uid, request: Arc<CommitRequest>) {
        let (own, delegate) = (self.clone(), delegate.to_string());
        self.runtime.spawn(async move {
            let copying = copies::create(&own.client, &own.copied, &request, &delegate);
            if let Err(panic) = catch_panic(copying).await {
                warn!(err = panic.to_string(), "Cannot copy the objects that a pod names");
            }
        });
    }

    /// Sends a request in a task of its own and passes the answer to the loop.
    fn send(&self, id: WriteId, request: JsonRequest, not_after: Option<Time>) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let is_delete = request.method == Method::Delete;
            let sending = within(not_after, own.clock, own.client.request(request));
            // Without an answer the commit would wait for ever.
            let answer = match catch_panic(sending).await {
                Ok(reply) => answer_of(reply.into(), is_delete),
                Err(panic) => WriteAnswer::Unknown(panic.to_string()),
            };
            own.events.send(LoopEvent::Own(AgentEvent::Written(id, answer)));
        });
    }

    /// Deletes or evicts the delegate of a pod, whether it is bound or has ended. A pod of that name which is not its
    /// delegate is left alone.
    ///
    /// # Errors
    /// The API server refuses, or does not answer.
    pub(super) async fn delete_delegate(
        &self,
        deletion: &DeletionRequest,
    ) -> Result<DeletionOutcome, String> {
        let path = pod_path(&deletion.namespace, Some(&deletion.name));
        let read = request(Method::Get, path.clone(), String::new());
        let found = match self.client.request(read).await.into() {
            Written::Done(body) => {
                serde_json::from_slice::<Value>(&body).map_err(|error| error.to_string())?
            }
            // Nothing runs in a namespace that does not exist.
            Written::NotFound(_) => return Ok(DeletionOutcome::Gone),
            Written::Refused(text) if text.starts_with("namespaces ") => {
                return Ok(DeletionOutcome::Gone);
            }
            Written::Refused(text) | Written::Conflict(text) | Written::Unknown(text) => {
                return Err(text);
            }
        };
        let is_delegate = DelegateMark::of(&found).is_some_and(|mark| mark.key.pod == deletion.pod);
        let uid = &found["metadata"]["uid"];
        let is_other = deletion.delegate.as_ref().is_some_and(|own| *uid != **own);
        if !is_delegate || is_other {
            return Ok(DeletionOutcome::Gone);
        }
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": uid}});
        if let Some(seconds) = deletion.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        let delete = match deletion.evict && found["metadata"]["deletionTimestamp"].is_null() {
            true => {
                let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": {"namespace": &*deletion.namespace, "name": &*deletion.name},
                    "deleteOptions": options});
                request(Method::Post, format!("{path}/eviction"), eviction.to_string())
            }
            false => request(Method::Delete, path, options.to_string()),
        };
        let reply = self.client.request(delete).await;
        if let Reply::Answered(response) = &reply
            && deletion.evict
            && response.status == 429
        {
            let message = response.error_message();
            return Ok(DeletionOutcome::Refused(EvictionRefusal { message }));
        }
        match reply.into() {
            Written::Done(_) => Ok(DeletionOutcome::Deleting),
            // Another pod has the name by now.
            Written::NotFound(_) | Written::Conflict(_) => Ok(DeletionOutcome::Gone),
            Written::Refused(text) | Written::Unknown(text) => Err(text),
        }
    }
}

fn request(method: Method, path: String, body: String) -> JsonRequest {
    let (content_type, body) = (APPLICATION_JSON, body.into_bytes());
    JsonRequest { method, path, content_type, body, timeout: TIMEOUT }
}

fn answer_of(written: Written, is_delete: bool) -> WriteAnswer {
    match written {
        Written::Done(_) if is_delete => WriteAnswer::Done,
        Written::Done(body) => {
            let pod = serde_json::from_slice(&body).and_then(PodObject::from_json);
            match pod {
                Ok(pod) => WriteAnswer::Pod(pod.pod, DelegateMark::of(&pod.object)),
                Err(error) => WriteAnswer::Unknown(format!("the answer is no pod: {error}")),
            }
        }
        Written::NotFound(_) => WriteAnswer::NotFound,
        Written::Conflict(_) => WriteAnswer::Conflict,
        Written::Refused(text) => WriteAnswer::Refused(text),
        Written::Unknown(text) => WriteAnswer::Unknown(text),
    }
}
