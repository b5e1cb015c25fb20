//! The API server of the management cluster.

use client::Reply;
use framework::{Pod, Time};
use jiff::Timestamp;
use loadmaster::api_client::{JsonRequest, MERGE_PATCH};
use loadmaster::supercluster::{requests, watched};
use loadmaster::wire::Whole;
use serde_json::json;
use supercluster::scheduler::WriteAnswer;
use supercluster::simulation::{
    ManagementEvent, ManagementOperation, ManagementServer, ManagementWrite,
};

use super::{ApiServer, PodWatch, Shown};

/// As the scheduler watches them.
const PODS: &str = "/api/v1/pods?fieldSelector=spec.schedulerName%3Dsupercluster";

/// The API server of the management cluster, and the clients of its schedulers.
pub(super) struct Management {
    server: ApiServer,
    pods: PodWatch,
}

impl Management {
    pub(super) fn new(seed: u64) -> Self {
        let whole = Whole { pending_pods: true, as_sent: true, ..Whole::NONE };
        let pods = PodWatch::new(PODS, whole);
        Self { server: ApiServer::new(seed), pods }
    }

    fn send(&mut self, write: &ManagementWrite, now: Time) -> Option<Reply> {
        let ManagementWrite { pod, uid, operation } = write;
        let request = match operation {
            ManagementOperation::Intent { resource_version, intent, finalizers } => {
                requests::intent(pod, (uid, *resource_version), intent, finalizers)
            }
            ManagementOperation::Placement(placement) => {
                requests::placement(pod, uid, placement, now)
            }
            ManagementOperation::Effect(effect) => {
                self.server.carry_out(effect.clone(), now);
                return None;
            }
            ManagementOperation::Status { status, .. } => requests::status(pod, uid, status),
            ManagementOperation::Event(event) => {
                let now = Timestamp::from_nanosecond(now.as_nanos().into()).unwrap_or_default();
                requests::event((pod, uid), event, now)
            }
            ManagementOperation::Delete => requests::delete(pod, uid, None),
            ManagementOperation::Release { resource_version, finalizers } => {
                requests::release(pod, uid, (*resource_version, finalizers))
            }
            ManagementOperation::Remove => {
                let body = json!({"metadata": {"uid": uid.to_string(), "finalizers": null}});
                let request =
                    JsonRequest { content_type: MERGE_PATCH, ..requests::status(pod, uid, &body) };
                let path = client::pod_path(&pod.namespace, Some(&pod.name));
                let body = body.to_string().into_bytes();
                self.server.send(JsonRequest { path, body, ..request }, now);
                return Some(self.server.remove(pod, uid, now));
            }
        };
        Some(self.server.send(request, now))
    }
}

impl ManagementServer for Management {
    fn create(&mut self, pod: Pod, now: Time) {
        self.server.create(&pod, now);
    }

    fn carry_out(&mut self, write: &ManagementWrite, now: Time) -> WriteAnswer {
        match self.send(write, now) {
            Some(reply) => requests::original_answer(reply),
            None => WriteAnswer::Done(self.server.store.resource_version()),
        }
    }

    fn watched(&mut self, now: Time) -> Vec<ManagementEvent> {
        let shown = self.pods.read(&mut self.server.store, now).into_iter();
        let events = shown.filter_map(|shown| match shown {
            Shown::Changed(pod, object) => {
                let original = watched::original(*pod, &object?)?;
                Some(ManagementEvent::Changed(Box::new(original)))
            }
            Shown::Deleted(key, uid) => Some(ManagementEvent::Deleted(key, uid)),
        });
        events.collect()
    }
}
