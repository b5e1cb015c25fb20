//! A server that keeps pods in a map, and carries out one request at a time.

use std::collections::BTreeMap;

use control::{Destination, Method, Reply, Request, Response};
use framework::{PodKey, api};
use serde_json::{Value, json};
use testkit::{PodBuilder, pod};

/// Namespace of all pods.
pub(crate) const NAMESPACE: &str = "d";
/// The label that says what the plugin of the part does with a pod.
pub(crate) const LABEL: &str = "does";
/// The annotation that the plugin writes.
pub(crate) const ANNOTATION: &str = "kept";

/// A pod of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) generation: i64,
    pub(crate) cpu: u32,
    pub(crate) does: &'static str,
    pub(crate) node: Option<String>,
    pub(crate) is_gated: bool,
    pub(crate) is_deleting: bool,
    pub(crate) is_annotated: bool,
    /// A label that no plugin reads.
    pub(crate) mark: u32,
    /// The conditions by type, and the nomination.
    pub(crate) conditions: BTreeMap<String, Value>,
    pub(crate) nominated: Option<String>,
}

impl Stored {
    /// Returns the object as the API shows it.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = json!({
            "metadata": { "name": self.name, "namespace": NAMESPACE, "uid": self.uid,
                "resourceVersion": self.version.to_string(), "generation": self.generation },
            "spec": {},
            "status": { "conditions": self.conditions.values().collect::<Vec<_>>() },
        });
        if self.is_deleting {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        if let Some(node) = &self.node {
            object["spec"]["nodeName"] = node.as_str().into();
        }
        if let Some(node) = &self.nominated {
            object["status"]["nominatedNodeName"] = node.as_str().into();
        }
        object
    }

    /// Returns the pod as a watch reports it.
    pub(crate) fn to_pod(&self) -> framework::Pod {
        let mut pod: PodBuilder = pod(&self.name).namespace(NAMESPACE).uid(&self.uid);
        pod = pod.cpu(&self.cpu.to_string()).label(LABEL, self.does);
        pod = pod.label("mark", &self.mark.to_string());
        if self.is_annotated {
            pod = pod.label(ANNOTATION, "yes");
        }
        if let Some(node) = &self.node {
            pod = pod.on(node);
        }
        if let Some(node) = &self.nominated {
            pod = pod.nominated(node);
        }
        if self.is_gated {
            pod = pod.gate("example.com/gate");
        }
        let (version, generation, is_deleting) = (self.version, self.generation, self.is_deleting);
        let conditions: Vec<api::PodCondition> = self
            .conditions
            .values()
            .filter_map(|condition| serde_json::from_value(condition.clone()).ok())
            .collect();
        pod.with(|api| {
            api.metadata.resource_version = version.to_string();
            api.metadata.generation = generation;
            if is_deleting {
                api.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
            }
            api.status.conditions = conditions;
        })
        .build()
    }

    pub(crate) fn key(&self) -> PodKey {
        PodKey::new(NAMESPACE, &self.name)
    }
}

/// What the watch of pods reports.
#[derive(Debug, Clone)]
pub(crate) enum Watched {
    Is(Stored),
    Gone(PodKey, String),
}

/// A bind that the server has carried out.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) generation: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Server {
    version: u64,
    pub(crate) pods: BTreeMap<String, Stored>,
    /// Everything that has happened to pods, for the watch.
    pub(crate) watch: Vec<Watched>,
    /// The bodies of events by name.
    pub(crate) events: BTreeMap<String, Value>,
    /// What no request may do.
    pub(crate) violations: Vec<String>,
}

fn status(code: u16, reason: &str, message: &str) -> Response {
    let body = json!({ "kind": "Status", "reason": reason, "message": message, "code": code });
    Response { status: code, retry_after: None, body: body.to_string().into() }
}

fn object(status: u16, object: &Value) -> Response {
    Response { status, retry_after: None, body: object.to_string().into() }
}

impl Server {
    /// Stores a pod in a new version.
    pub(crate) fn store(&mut self, mut pod: Stored) {
        self.version += 1;
        pod.version = self.version;
        self.watch.push(Watched::Is(pod.clone()));
        self.pods.insert(pod.name.clone(), pod);
    }

    pub(crate) fn delete(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            self.version += 1;
            self.watch.push(Watched::Gone(pod.key(), pod.uid));
        }
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Stored> {
        self.pods.values().find(|pod| pod.uid == uid)
    }

    /// CPUs that pods use on a node.
    pub(crate) fn used(&self, node: &str) -> u32 {
        let here = self.pods.values().filter(|pod| pod.node.as_deref() == Some(node));
        here.map(|pod| pod.cpu).sum()
    }

    /// Returns the pod that the request would bind now, and its node.
    pub(crate) fn would_bind(&self, request: &Request) -> Option<(&Stored, String)> {
        let body: Value = serde_json::from_slice(&request.body).ok()?;
        let (uid, version, node) = match request.destination {
            Destination::Extender(_) => (body["PodUID"].as_str()?, None, body["Node"].as_str()?),
            Destination::ApiServer if request.path.ends_with("/binding") => (
                body["metadata"]["uid"].as_str()?,
                body["metadata"]["resourceVersion"].as_str(),
                body["target"]["name"].as_str()?,
            ),
            Destination::ApiServer => return None,
        };
        let pod = self.by_uid(uid)?;
        let is_of_version = version.is_none_or(|version| *version == pod.version.to_string());
        let may_be_bound = pod.node.is_none() && !pod.is_deleting && !pod.is_gated && is_of_version;
        may_be_bound.then(|| (pod, node.to_owned()))
    }

    /// Carries out a request.
    pub(crate) fn serve(&mut self, request: &Request) -> (Response, Option<Bound>) {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if let Destination::Extender(_) = request.destination {
            let bound = self.would_bind(request).map(|(pod, node)| (pod.name.clone(), node));
            let bound = bound.map(|(name, node)| self.bind(&name, node));
            let error = if bound.is_some() { "" } else { "the extender could not bind the pod" };
            return (object(200, &json!({ "Error": error })), bound);
        }
        let mut segments = request.path.split('/').skip(1);
        let collection =
            segments.clone().nth(if request.path.starts_with("/apis") { 5 } else { 4 });
        if collection == Some("events") {
            return (self.serve_event(request, &body), None);
        }
        let name = segments.nth(5).unwrap_or_default().to_owned();
        let part = segments.next();
        let Some(pod) = self.pods.get(&name) else {
            return (status(404, "NotFound", &format!("pods {name:?} not found")), None);
        };
        if request.method == Method::Get {
            return (object(200, &pod.to_json()), None);
        }
        let (uid, version) = (&body["metadata"]["uid"], &body["metadata"]["resourceVersion"]);
        let conflict = format!("Operation cannot be fulfilled on pods {name:?}");
        if uid.as_str().is_some_and(|uid| uid != pod.uid) {
            let text = format!(
                "{conflict}: Precondition failed: UID in precondition: x, UID in object meta: y"
            );
            return (status(409, "Conflict", &text), None);
        }
        let is_outdated =
            version.as_str().is_some_and(|version| version != pod.version.to_string());
        match (part, is_outdated) {
            (Some("binding"), true) => {
                let text = format!(
                    "{conflict}: StorageError: invalid object, Code: 4, Key: /registry/pods/d/{name}, \
                     ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in \
                     precondition: {version}, ResourceVersion in object meta: {}",
                    pod.version
                );
                (status(409, "Conflict", &text), None)
            }
            (Some("binding"), false) => self.serve_binding(&name, &body),
            (_, true) => (
                status(409, "Conflict", &format!("{conflict}: the object has been modified")),
                None,
            ),
            (Some(_), false) => (self.serve_status(&name, &body["status"]), None),
            (None, false) => {
                let pod = Stored { is_annotated: true, ..pod.clone() };
                (self.replace(&name, pod), None)
            }
        }
    }

    fn serve_binding(&mut self, name: &str, body: &Value) -> (Response, Option<Bound>) {
        let Some(pod) = self.pods.get(name) else { return (status(404, "NotFound", "gone"), None) };
        let reason = match pod {
            Stored { is_deleting: true, .. } => {
                "is being deleted, cannot be assigned to a host".to_owned()
            }
            Stored { is_gated: true, .. } => "has non-empty .spec.schedulingGates".to_owned(),
            Stored { node: Some(node), .. } => format!("is already assigned to node {node:?}"),
            _ => {
                let node = body["target"]["name"].as_str().unwrap_or_default().to_owned();
                let bound = self.bind(name, node);
                return (
                    object(201, &json!({ "kind": "Status", "status": "Success" })),
                    Some(bound),
                );
            }
        };
        let text =
            format!("Operation cannot be fulfilled on pods/binding {name:?}: pod {name} {reason}");
        (status(409, "Conflict", &text), None)
    }

    /// Binds a pod to a node.
    pub(crate) fn bind(&mut self, name: &str, node: String) -> Bound {
        let mut pod = self.pods[name].clone();
        pod.node = Some(node.clone());
        pod.nominated = None;
        pod.conditions
            .insert("PodScheduled".to_owned(), json!({ "type": "PodScheduled", "status": "True" }));
        let bound = Bound { uid: pod.uid.clone(), node, generation: pod.generation };
        self.store(pod);
        bound
    }

    fn serve_status(&mut self, name: &str, status: &Value) -> Response {
        let mut pod = self.pods[name].clone();
        for condition in status["conditions"].as_array().into_iter().flatten() {
            let kind = condition["type"].as_str().unwrap_or_default();
            if kind == "PodScheduled" && pod.node.is_some() {
                self.violations
                    .push(format!("{name} is bound, and its condition is patched: {condition}"));
            }
            let own = pod.conditions.entry(kind.to_owned()).or_insert_with(|| json!({}));
            for (field, value) in condition.as_object().into_iter().flatten() {
                own[field] = value.clone();
            }
        }
        match &status["nominatedNodeName"] {
            Value::String(node) => pod.nominated = Some(node.clone()),
            Value::Null if status.get("nominatedNodeName").is_some() => pod.nominated = None,
            _ => {}
        }
        self.replace(name, pod)
    }

    /// Stores a pod, unless nothing has changed.
    fn replace(&mut self, name: &str, pod: Stored) -> Response {
        if self.pods[name] != pod {
            self.store(pod);
        }
        object(200, &self.pods[name].to_json())
    }

    fn serve_event(&mut self, request: &Request, body: &Value) -> Response {
        let name = request.path.split('/').nth(7).unwrap_or_default();
        if request.method == Method::Post {
            let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            self.events.insert(name, body.clone());
            return object(201, body);
        }
        match self.events.get_mut(name) {
            Some(event) => {
                event["series"] = body["series"].clone();
                object(200, event)
            }
            None => status(404, "NotFound", "no such event"),
        }
    }
}

/// Replies that are refusals of any write, or of any read, which no webhook sees.
pub(crate) fn refusal(number: usize, method: Method) -> Reply {
    let refusals = [
        status(403, "Forbidden", "pods \"p\" is forbidden"),
        status(429, "TooManyRequests", "later"),
        status(503, "ServiceUnavailable", "apiserver is shutting down"),
        status(500, "InternalError", "Internal error occurred: failed calling webhook \"w\": EOF"),
        status(403, "Forbidden", "admission webhook \"w\" denied the request: not on Sundays"),
        status(404, "NotFound", "admission webhook \"w\" denied the request: no such team"),
    ];
    let possible = if method == Method::Get { 3 } else { refusals.len() };
    Reply::Answered(refusals[number % possible].clone())
}

/// Replies that do not show whether a request was carried out.
pub(crate) fn unclear(number: usize, is_bind: bool) -> Reply {
    let replies = [
        status(500, "", "etcdserver: request timed out"),
        status(504, "Timeout", "Timeout: request did not complete within requested timeout"),
        status(500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
        status(
            409,
            "Conflict",
            "Operation cannot be fulfilled on pods/binding \"p\": etcdserver: request timed out",
        ),
    ];
    match number % 6 {
        number if number < replies.len() && (is_bind || number < 3) => {
            Reply::Answered(replies[number].clone())
        }
        _ => Reply::Lost("connection reset".to_owned()),
    }
}
