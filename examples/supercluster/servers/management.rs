//! The API server of the management cluster.

use control::Reply;
use framework::{Pod, Time};
use jiff::Timestamp;
use loadmaster::api_client::{JsonRequest, MERGE_PATCH};
use loadmaster::supercluster::{requests, watched};
use loadmaster::wire::Whole;
use serde_json::json;
use supercluster::scheduler::WriteAnswer;
use supercluster::simulation::{
    ManagementEvent, ManagementOperation, ManagementOutcome, ManagementServer, ManagementWrite,
    Work,
};

use super::{ApiServer, Host, PodLines, PodWatch, Shown};

/// As the scheduler watches them.
const PODS: &str = "/api/v1/pods?fieldSelector=spec.schedulerName%3Dsupercluster";

/// The API server of the management cluster, and the clients of its schedulers, which read answers
/// and the watch on the thread of the roles: with two threads, either has about half of the work.
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

    /// Sends a write. Nothing waits for the reply to an effect.
    fn send(&mut self, write: ManagementWrite, now: Time) -> Option<Reply> {
        let ManagementWrite { pod, uid, operation } = write;
        let (pod, uid) = (&pod, &uid);
        let request = match operation {
            ManagementOperation::Intent { resource_version, intent, finalizers } => {
                requests::intent(pod, uid, resource_version, &intent, &finalizers)
            }
            ManagementOperation::Placement(placement) => {
                requests::placement(pod, uid, &placement, now)
            }
            ManagementOperation::Effect(effect) => {
                self.server.carry_out(effect, now);
                return None;
            }
            ManagementOperation::Status { status, .. } => requests::status(pod, uid, &status),
            ManagementOperation::Event(event) => {
                let now = Timestamp::from_nanosecond(now.as_nanos().into()).unwrap_or_default();
                requests::event(pod, uid, &event, now)
            }
            ManagementOperation::Delete => requests::delete(pod, uid, None),
            ManagementOperation::Release { resource_version, finalizers } => {
                requests::release(pod, uid, resource_version, &finalizers)
            }
            ManagementOperation::Remove => {
                let body = json!({"metadata": {"uid": uid.to_string(), "finalizers": null}});
                let request =
                    JsonRequest { content_type: MERGE_PATCH, ..requests::status(pod, uid, &body) };
                let path = control::pod_path(&pod.namespace, Some(&pod.name));
                let body = body.to_string().into_bytes();
                self.server.send(JsonRequest { path, body, ..request }, now);
                return Some(self.server.remove(pod, uid, now));
            }
        };
        Some(self.server.send(request, now))
    }

    /// Returns what the watch of pods has shown since the last call.
    fn watched(&mut self, now: Time) -> PodLines {
        self.pods.read(&mut self.server.store, now)
    }
}

fn read(lines: &PodLines) -> Vec<ManagementEvent> {
    let events = lines.decode().filter_map(|shown| match shown {
        Shown::Changed(pod, object) => {
            let original = watched::original(*pod, &object?)?;
            Some(ManagementEvent::Changed(Box::new(original)))
        }
        Shown::Deleted(key, uid) => Some(ManagementEvent::Deleted(key, uid)),
    });
    events.collect()
}

impl ManagementServer for Host<Management> {
    fn create(&mut self, pod: Pod, now: Time) -> Vec<ManagementEvent> {
        let created = self.begin(move |own| {
            own.server.create(&pod, now);
            own.watched(now)
        });
        read(&created.wait())
    }

    fn carry_out(&mut self, write: ManagementWrite, now: Time) -> Work<ManagementOutcome> {
        let sent = self.begin(move |own| {
            let reply = own.send(write, now).ok_or_else(|| own.server.store.resource_version());
            (reply, own.watched(now))
        });
        Work::new(move || {
            let (reply, lines) = sent.wait();
            let answer = reply.map_or_else(WriteAnswer::Done, requests::original_answer);
            (answer, read(&lines))
        })
    }
}
