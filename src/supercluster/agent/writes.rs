//! Writes and reads of delegates at the API server of the member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control::{Method, Reply};
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
use super::super::requests;
use super::AgentEvent;
use super::copies;
use crate::api_client::{ApiClient, JsonRequest};
use crate::clock::Clock;
use crate::runtime::within;
use crate::scheduling_loop::{EventSender, LoopEvent};
use crate::supervision::catch_panic;

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
        self.send(id, requests::delegate(pod, mark, &self.profile), not_after);
    }

    pub(super) fn read(&self, id: WriteId, pod: &PodKey, not_after: Option<Time>) {
        self.send(id, requests::read(pod), not_after);
    }

    pub(super) fn delete(
        &self,
        id: WriteId,
        pod: &PodKey,
        uid: &Uid,
        resource_version: u64,
        not_after: Option<Time>,
    ) {
        self.send(id, requests::delete(pod, uid, Some(resource_version)), not_after);
    }

    /// Deletes a delegate whose lease has ended.
    pub(super) fn fence(&self, id: WriteId, pod: &PodKey, uid: &Uid, not_after: Option<Time>) {
        self.send(id, requests::delete(pod, uid, None), not_after);
    }

    /// Stores when leases were renewed. An agent that does not lead any more may store it: the
    /// times are true.
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

    /// Creates copies of objects that a pod names, owned by its delegate. It does not hold up the
    /// delegate: the kubelet waits for them.
    pub(super) fn copy(&self, delegate: &Uid, request: Arc<CommitRequest>) {
        let (own, delegate) = (self.clone(), delegate.to_string());
        self.runtime.spawn(async move {
            let copying = copies::create(&own.client, &own.copied, &request, &delegate);
            if let Err(panic) = catch_panic(copying).await {
                warn!(err = panic.to_string(), "Cannot copy the objects that a pod names");
            }
        });
    }

    /// Sends a request in a separate task and passes the answer to the loop.
    fn send(&self, id: WriteId, request: JsonRequest, not_after: Option<Time>) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let is_delete = request.method == Method::Delete;
            let sending = within(not_after, own.clock, own.client.request(request));
            // Without an answer the commit would wait for ever.
            let answer = match catch_panic(sending).await {
                Ok(reply) => requests::delegate_answer(reply, is_delete),
                Err(panic) => WriteAnswer::Unknown(panic.to_string()),
            };
            own.events.send(LoopEvent::Own(AgentEvent::Written(id, answer)));
        });
    }

    /// Deletes or evicts the delegate of a pod, whether it is bound or has ended. A pod of that
    /// name which is not its delegate is left alone.
    ///
    /// # Errors
    /// The API server refuses, or does not answer.
    pub(super) async fn delete_delegate(
        &self,
        deletion: &DeletionRequest,
    ) -> Result<DeletionOutcome, String> {
        let pod = PodKey::new(&deletion.namespace, &deletion.name);
        let found = match self.client.request(requests::read(&pod)).await.into() {
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
        let mut options = requests::delete_options(&json!({"uid": uid}));
        if let Some(seconds) = deletion.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        let delete = match deletion.evict && found["metadata"]["deletionTimestamp"].is_null() {
            true => requests::evict(&pod, &options),
            false => requests::delete_with(&pod, &options),
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
