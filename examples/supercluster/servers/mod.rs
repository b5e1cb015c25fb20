//! API servers of the sandbox for the simulation. Each write is a request as the roles send it;
//! what has changed comes from a watch and is read as the roles read it. Between them is no
//! network: requests and answers are passed as bytes.

mod host;
mod management;
mod member;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{self, EventRecorder};
use control::reflector::{ObjectMeta, WatchEvent};
use control::{Method, Reply, Response};
use engine::{Change, Effect, EffectKind};
use framework::{Answer, EventResource, ExtraFields, Pod, PodKey, Time, Uid};
use loadmaster::api_client::{APPLICATION_JSON, JsonRequest};
use loadmaster::wire::{Decoder, Update, Whole};
use sandbox::api::{self, Request, WatchId};
use sandbox::resources::NAMESPACES;
use sandbox::store::Store;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use supercluster::simulation::{ManagementServer, MemberServer, Servers};

use self::host::Host;
pub(crate) use self::host::{Threads, cpu_time_of_thread};
use self::management::Management;
use self::member::Member;

/// Returns the servers of a management cluster and as many members. What they do does not depend on
/// the number of threads.
pub(crate) fn servers(members: usize, seed: u64, threads: &Threads) -> Servers {
    let member = |number: usize| {
        let member = Member::new(seed + 1 + number as u64);
        Box::new(Host::new(member, 1 + number, threads)) as Box<dyn MemberServer>
    };
    let management = Host::new(Management::new(seed), 0, threads);
    Servers {
        management: Box::new(management) as Box<dyn ManagementServer>,
        members: (0..members).map(member).collect(),
        are_beside: true,
    }
}

/// An API server with the clients of one role.
struct ApiServer {
    store: Store,
    recorder: EventRecorder,
    seed: u64,
}

/// What a watch of pods shows.
enum Shown {
    Changed(Box<Pod>, Option<Box<RawValue>>),
    Deleted(PodKey, Uid),
}

impl ApiServer {
    fn new(seed: u64) -> Self {
        let recorder = EventRecorder::new(event_recorder::Options::default(), seed);
        Self { store: Store::new(seed, Time::ZERO), recorder, seed }
    }

    /// Sends a request of a role.
    fn send(&mut self, request: JsonRequest, now: Time) -> Reply {
        let JsonRequest { method, path, content_type, body, .. } = request;
        self.serve(method, &path, content_type, body, now)
    }

    fn serve(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
        now: Time,
    ) -> Reply {
        let mut request = Request::new(method.as_str(), path, body);
        content_type.clone_into(&mut request.content_type);
        match self.store.serve(&request, now) {
            api::Answer::Whole(response) => {
                let (status, body) = (response.status, response.body.into());
                Reply::Answered(Response { status, retry_after: None, body })
            }
            api::Answer::Watch(watch) => {
                self.store.close(watch);
                Reply::Lost("it is a watch".to_owned())
            }
        }
    }

    /// Carries out an effect of an engine, and returns the answer if there is one.
    fn carry_out(&mut self, effect: Effect, now: Time) -> Option<Answer> {
        if let EffectKind::Event(event) = effect.kind {
            self.recorder.record(event, now);
            for request in self.recorder.take_requests() {
                let control::Request { id, method, path, content_type, body, .. } = request;
                let reply = self.serve(method, &path, content_type, body, now);
                self.recorder.handle_reply(id, reply, now);
            }
            return None;
        }
        // An effect may arrive late, after others: each is translated for itself.
        let mut dispatcher = ApiDispatcher::new(Limits::default(), self.seed);
        dispatcher.add(effect, now);
        for request in dispatcher.take_requests() {
            let control::Request { id, method, path, content_type, body, .. } = request;
            let reply = self.serve(method, &path, content_type, body, now);
            dispatcher.handle_reply(id, reply, now);
        }
        dispatcher.take_answers().pop().map(|(_, answer)| answer)
    }

    /// Creates a pod of a simulation, bound to its node if it has one.
    fn create(&mut self, pod: &Pod, now: Time) {
        let namespace = &*pod.key.namespace;
        if self.store.get(NAMESPACES, "", namespace).is_none() {
            let object = json!({"metadata": {"name": namespace}});
            let created = self.store.create(NAMESPACES, object, now);
            assert!(created.is_ok(), "the namespace {namespace} cannot be created: {created:?}");
        }
        let path = control::pod_path(&pod.key.namespace, None);
        let body = manifest(pod).to_string().into_bytes();
        let reply = self.serve(Method::Post, &path, APPLICATION_JSON, body, now);
        let is_created = matches!(&reply, Reply::Answered(response) if response.is_success());
        assert!(is_created, "the pod {} cannot be created: {reply:?}", pod.key);
    }

    /// Deletes a pod as a kubelet does when its containers have ended.
    fn remove(&mut self, pod: &PodKey, uid: &Uid, now: Time) -> Reply {
        let path = control::pod_path(&pod.namespace, Some(&pod.name));
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid.to_string()}});
        self.serve(Method::Delete, &path, APPLICATION_JSON, body.to_string().into_bytes(), now)
    }
}

/// A watch that begins anew where it ended.
struct Watch {
    path: &'static str,
    open: Option<WatchId>,
    /// The version that it has shown.
    version: u64,
}

impl Watch {
    const fn new(path: &'static str) -> Self {
        Self { path, open: None, version: 1 }
    }

    /// Returns the lines that have come up since the last call.
    fn read(&mut self, store: &mut Store, now: Time) -> Vec<Bytes> {
        let mut lines = Vec::new();
        loop {
            let id = *self.open.get_or_insert_with(|| {
                let separator = if self.path.contains('?') { '&' } else { '?' };
                let target =
                    format!("{}{separator}watch=true&resourceVersion={}", self.path, self.version);
                match store.serve(&Request::new("GET", &target, ""), now) {
                    api::Answer::Watch(id) => id,
                    api::Answer::Whole(response) => panic!("{target}: {response:?}"),
                }
            });
            let frames = store.frames(id, now);
            lines.extend(frames.lines);
            self.version = store.resource_version();
            if !frames.ended {
                return lines;
            }
            self.open = None;
        }
    }
}

/// A watch of pods with its decoder.
struct PodWatch {
    watch: Watch,
    decoder: Arc<Decoder>,
}

impl PodWatch {
    fn new(path: &'static str, whole: Whole) -> Self {
        let decoder = Decoder::new(EventResource::Pod, ExtraFields::default()).keeping(whole);
        Self { watch: Watch::new(path), decoder: Arc::new(decoder) }
    }

    /// Returns what has come up since the last call.
    fn read(&mut self, store: &mut Store, now: Time) -> PodLines {
        PodLines { lines: self.watch.read(store, now), decoder: self.decoder.clone() }
    }
}

/// Lines of a watch of pods, as the server has sent them.
struct PodLines {
    lines: Vec<Bytes>,
    decoder: Arc<Decoder>,
}

impl PodLines {
    fn decode(&self) -> impl Iterator<Item = Shown> {
        self.lines.iter().map(|line| match self.decoder.watch_event(line) {
            WatchEvent::Updated(_, Update { change: Change::Pod(pod), object }) => {
                Shown::Changed(pod, object)
            }
            WatchEvent::Deleted(ObjectMeta { key, uid, .. }) => {
                Shown::Deleted(PodKey::new(&key.namespace, &key.name), uid)
            }
            other => panic!("the watch of pods shows {other:?}"),
        })
    }
}

/// Returns a pod of a simulation as its user writes it.
fn manifest(pod: &Pod) -> Value {
    let placed = &pod.requests.placed;
    let labels: Map<String, Value> =
        pod.labels.iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let requests =
        json!({"cpu": format!("{}m", placed.milli_cpu), "memory": placed.memory.to_string()});
    let mut manifest = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": &*pod.key.name, "namespace": &*pod.key.namespace, "labels": labels},
        "spec": {"schedulerName": &*pod.spec.scheduler_name, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "pause", "resources": {"requests": requests}}]}});
    if let Some(node) = &pod.node_name {
        manifest["spec"]["nodeName"] = (**node).into();
    }
    manifest
}
