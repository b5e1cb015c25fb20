//! The API server with its kubelets and controllers, and what it knows of our bindings.

use std::collections::BTreeMap;
use std::sync::Arc;

use framework::{Pod, Time, api};
use sandbox::api::{Answer, Frames, Request, Response, WatchId};
use sandbox::controllers::Controllers;
use sandbox::kubelet::Kubelets;
use sandbox::resources::{NODES, PODS};
use sandbox::store::Store;
use serde::Deserialize;
use serde_json::Value;

/// The name by which pods choose the scheduler under test.
pub const OURS: &str = "loadmaster";

/// The API server.
pub struct Server {
    /// Everything it stores.
    pub store: Store,
    controllers: Controllers,
    kubelets: Kubelets,
    /// Which pod our bindings gave which node, by UID.
    pub bound_by_us: BTreeMap<String, String>,
}

/// A binding of ours that the server has carried out.
#[derive(Debug)]
pub struct Bound {
    /// UID of the pod.
    pub uid: String,
    /// Its node.
    pub node: String,
}

impl Server {
    /// A server with nothing but its namespaces.
    pub fn new(seed: u64, now: Time) -> Self {
        Self {
            store: Store::new(seed, now),
            controllers: Controllers::new(),
            kubelets: Kubelets::default(),
            bound_by_us: BTreeMap::new(),
        }
    }

    /// Carries out a request of users or other components; it is expected to be well-formed, not
    /// to succeed.
    pub fn request(&mut self, method: &str, target: &str, body: &Value, now: Time) -> u16 {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::new(method, target, body);
        if method == "PATCH" {
            "application/merge-patch+json".clone_into(&mut request.content_type);
        }
        self.serve(&request, now).status
    }

    /// Carries out a request of the scheduler, and notes the binding it makes.
    pub fn request_of_ours(
        &mut self,
        request: &client::Request,
        now: Time,
    ) -> (Response, Option<Bound>) {
        let mut served = Request::new(request.method.as_str(), &request.path, request.body.clone());
        request.content_type.clone_into(&mut served.content_type);
        let response = self.serve(&served, now);
        let bound = (response.status == 201).then(|| Bound::by(request)).flatten();
        if let Some(Bound { uid, node }) = &bound {
            self.bound_by_us.insert(uid.clone(), node.clone());
        }
        (response, bound)
    }

    /// Opens a watch, or says why not.
    pub fn watch(&mut self, target: &str, now: Time) -> Result<WatchId, Response> {
        match self.store.serve(&Request::new("GET", target, ""), now) {
            Answer::Watch(watch) => Ok(watch),
            Answer::Whole(response) => Err(response),
        }
    }

    /// Answers a list.
    pub fn list(&mut self, target: &str, now: Time) -> Response {
        self.serve(&Request::new("GET", target, ""), now)
    }

    /// What a watch has to say by now.
    pub fn frames(&mut self, watch: WatchId, now: Time) -> Frames {
        self.store.frames(watch, now)
    }

    /// Lets kubelets and controllers do what is due.
    pub fn step(&mut self, now: Time) {
        self.controllers.step(&mut self.store, now);
        self.kubelets.step(&mut self.store, now);
    }

    /// When they have something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.controllers.next_deadline(), self.kubelets.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// The pods that have not ended.
    pub fn live_pods(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.store
            .objects(PODS)
            .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.store.objects(NODES)
    }

    fn serve(&mut self, request: &Request, now: Time) -> Response {
        match self.store.serve(request, now) {
            Answer::Whole(response) => response,
            Answer::Watch(watch) => {
                self.store.close(watch);
                unreachable!("{} {} is no watch", request.method, request.path)
            }
        }
    }
}

impl Bound {
    /// The binding that a request asks for, if it is one.
    pub fn by(request: &client::Request) -> Option<Self> {
        if !request.path.ends_with("/binding") {
            return None;
        }
        let binding: Value = serde_json::from_slice(&request.body).ok()?;
        let uid = binding["metadata"]["uid"].as_str()?.to_owned();
        Some(Self { uid, node: binding["target"]["name"].as_str()?.to_owned() })
    }
}

/// What a pod asks for: milli-CPU and bytes of memory.
pub fn requests(pod: &Value) -> (i64, i64) {
    let pod = api::Pod::deserialize(pod).map(|pod| Pod::from_api(&pod));
    let pod = pod.expect("the store holds pods only");
    (pod.requests.placed.milli_cpu, pod.requests.placed.memory)
}
