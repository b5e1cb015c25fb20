//! Writes of original pods at the API server of the management cluster.

use framework::{PodKey, Time, Uid};
use jiff::Timestamp;
use serde_json::Value;
use supercluster::mirror::ShownEvent;
use supercluster::scheduler::{Placement, WriteAnswer, WriteId};
use tokio::runtime::Handle;

use super::super::replies::Written;
use super::super::requests;
use super::SchedulerEvent;
use crate::api_client::{ApiClient, JsonRequest};
use crate::clock::Clock;
use crate::runtime::within;
use crate::scheduling_loop::{EventSender, LoopEvent};
use crate::supervision::catch_panic;

/// The connection for original pods.
#[derive(Clone)]
pub(super) struct Originals {
    pub(super) client: ApiClient,
    pub(super) events: EventSender<SchedulerEvent>,
    pub(super) clock: Clock,
    pub(super) runtime: Handle,
}

impl Originals {
    /// Writes the placement, and that the pod is scheduled.
    pub(super) fn write_placement(
        &self,
        id: WriteId,
        not_after: Option<Time>,
        pod: &PodKey,
        uid: &Uid,
        placement: &Placement,
    ) {
        let wall = self.clock.wall_offset().wall_time(self.clock.now());
        self.send(id, not_after, requests::placement(pod, uid, placement, wall));
    }

    /// Sends a write, unless its time is over. The answer becomes an event of the loop.
    pub(super) fn send(&self, id: WriteId, not_after: Option<Time>, request: JsonRequest) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let sending = within(not_after, own.clock, own.client.request(request));
            let answer = match catch_panic(sending).await {
                Ok(reply) => requests::original_answer(reply),
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
        resource_version: u64,
        finalizers: &[String],
    ) -> Result<(), String> {
        self.wait_for(requests::release(pod, uid, resource_version, finalizers)).await
    }

    /// Writes the status.
    pub(super) async fn write_status(
        &self,
        pod: &PodKey,
        uid: &Uid,
        status: &Value,
    ) -> Result<(), String> {
        self.wait_for(requests::status(pod, uid, status)).await
    }

    /// Whether the pod does not exist. An error if the API server does not say so.
    pub(super) async fn is_gone(&self, pod: &PodKey, uid: &str) -> Result<bool, String> {
        match self.client.request(requests::read(pod)).await.into() {
            Written::Done(body) => {
                let found: Value =
                    serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                Ok(found["metadata"]["uid"] != uid)
            }
            Written::NotFound(_) => Ok(true),
            Written::Conflict(text) | Written::Refused(text) | Written::Unknown(text) => Err(text),
        }
    }

    /// Creates an event of a delegate on its original, unless it exists, or shows how often it has
    /// occurred.
    pub(super) async fn write_event(
        &self,
        pod: &PodKey,
        uid: &Uid,
        event: &ShownEvent,
    ) -> Result<(), String> {
        let request = requests::event(pod, uid, event, Timestamp::now());
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
        self.wait_for(requests::delete(pod, uid, None)).await
    }

    /// Sends a write. A pod that is gone needs none.
    async fn wait_for(&self, request: JsonRequest) -> Result<(), String> {
        match self.client.request(request).await.into() {
            Written::Done(_) | Written::NotFound(_) => Ok(()),
            Written::Conflict(text) | Written::Refused(text) | Written::Unknown(text) => Err(text),
        }
    }
}
