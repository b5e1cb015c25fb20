//! The API server of a member cluster.

use std::sync::Arc;

use framework::{Answer, Time};
use loadmaster::api_client::JsonRequest;
use loadmaster::supercluster::{requests, watched};
use loadmaster::wire::Whole;
use serde_json::Value;
use supercluster::agent::WriteAnswer;
use supercluster::delegate::DELEGATE;
use supercluster::simulation::{
    AGENT_PROFILE, MemberAnswer, MemberEvent, MemberOperation, MemberOutcome, MemberPod,
    MemberServer, Work,
};

use super::{ApiServer, Host, PodWatch, Shown, Watch};

const PODS: &str = "/api/v1/pods";
/// As the agent watches them.
const EVENTS: &str = "/api/v1/events?fieldSelector=involvedObject.kind%3DPod";

/// The API server of a member, and the clients of its agent, which read answers and watches on the
/// thread of the server.
pub(super) struct Member {
    server: ApiServer,
    pods: PodWatch,
    events: Watch,
}

impl Member {
    pub(super) fn new(seed: u64) -> Self {
        let whole = Whole { labelled: Some(DELEGATE), as_sent: true, ..Whole::NONE };
        let pods = PodWatch::new(PODS, whole);
        Self { server: ApiServer::new(seed), pods, events: Watch::new(EVENTS) }
    }

    fn send(&mut self, request: JsonRequest, is_delete: bool, now: Time) -> MemberAnswer {
        let reply = self.server.send(request, now);
        MemberAnswer::Agent(requests::delegate_answer(reply, is_delete))
    }

    fn carry_out(&mut self, operation: MemberOperation, now: Time) -> MemberAnswer {
        match operation {
            MemberOperation::Create { pod, mark } => {
                self.send(requests::delegate(&pod, &mark, AGENT_PROFILE), false, now)
            }
            MemberOperation::Read { pod } => self.send(requests::read(&pod), false, now),
            MemberOperation::Delete { pod, uid, resource_version } => {
                self.send(requests::delete(&pod, &uid, Some(resource_version)), true, now)
            }
            MemberOperation::End { pod, uid } => {
                self.send(requests::delete(&pod, &uid, None), true, now)
            }
            MemberOperation::Effect(effect) => {
                let answer = self.server.carry_out(effect, now);
                MemberAnswer::Engine(answer.unwrap_or_else(Answer::ok))
            }
            MemberOperation::Remove { pod, uid } => {
                let reply = self.server.remove(&pod, &uid, now);
                MemberAnswer::Agent(requests::delegate_answer(reply, true))
            }
            MemberOperation::CreateBound(pod) => {
                self.server.create(&pod, now);
                MemberAnswer::Agent(WriteAnswer::Done)
            }
            MemberOperation::KeepLeases { .. } => MemberAnswer::Agent(WriteAnswer::Done),
        }
    }

    /// Returns what the watches have shown since the last call.
    fn watched(&mut self, now: Time) -> Vec<MemberEvent> {
        let store = &mut self.server.store;
        let pods = self.pods.read(store, now);
        let pods = pods.decode().map(|shown| match shown {
            Shown::Changed(pod, object) => {
                let delegate = object.and_then(|object| watched::delegate(&object));
                let (mark, status) =
                    delegate.map_or((None, Value::Null), |(mark, status)| (Some(mark), status));
                let (pod, status) = (Arc::from(pod), Arc::new(status));
                MemberEvent::Changed(MemberPod { pod, mark, status })
            }
            Shown::Deleted(key, uid) => MemberEvent::Deleted(key, uid),
        });
        let events = self.events.read(store, now);
        let events = events.iter().filter_map(|line| watched::event(line));
        pods.chain(events.map(|(uid, event)| MemberEvent::Event(uid, event))).collect()
    }
}

impl MemberServer for Host<Member> {
    fn carry_out(&mut self, operation: MemberOperation, now: Time) -> Work<MemberOutcome> {
        self.begin(move |own| (own.carry_out(operation, now), own.watched(now)))
    }
}
