//! The cluster: API servers, their store, kubelets and controllers, and a record of our bindings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use framework::{Pod, Time, Uid, api};
use sandbox::api::{Answer, Frames, Request, Response, WatchId};
use sandbox::controllers::Controllers;
use sandbox::kubelet::{Kubelets, Settings};
use sandbox::resources::{NODES, PODS};
use sandbox::store::Store;
use serde::Deserialize;
use serde_json::Value;

use super::api_servers::ApiServers;
use super::coverage::Fault;
use super::driver::Driver;

/// The profile with the defaults.
pub(crate) const DEFAULT: &str = "loadmaster";
/// The profile with default spread constraints.
pub(crate) const SPREADING: &str = "spreading";
/// A taint that nodes sometimes have.
pub(crate) const BUSY: &str = "example.com/busy";

/// The cluster.
pub(crate) struct Server {
    /// The store.
    pub(crate) store: Store,
    /// The servers in front of it.
    pub(crate) api_servers: ApiServers,
    controllers: Controllers,
    kubelets: Kubelets,
    /// The driver of devices.
    pub(crate) driver: Driver,
    /// Time until which the controllers pause.
    idle_until: Option<Time>,
    /// The version that controllers and kubelets have seen.
    seen: u64,
    /// Faults of the server and its actors that are not counted yet.
    pub(crate) fired: Vec<Fault>,
    /// Pod and node of our bindings, by UID.
    pub(crate) bound_by_us: BTreeMap<String, String>,
}

/// A binding of ours that the server has carried out.
#[derive(Debug)]
pub(crate) struct Bound {
    /// UID of the pod.
    pub(crate) uid: String,
    /// The node.
    pub(crate) node: String,
}

impl Server {
    /// Creates a server with its namespaces only.
    pub(crate) fn new(seed: u64, api_servers: usize, now: Time) -> Self {
        Self {
            driver: Driver::new(Rng::with_seed(seed)),
            store: Store::new(seed, now),
            api_servers: ApiServers::new(api_servers),
            controllers: Controllers::new(),
            kubelets: Kubelets::with_settings(Settings {
                start_delay: Duration::from_millis(300),
                stop_delay: Duration::from_secs(20),
                ..Settings::default()
            }),
            idle_until: None,
            seen: 0,
            fired: Vec::new(),
            bound_by_us: BTreeMap::new(),
        }
    }

    /// Carries out a request of a user or another component; it must be well-formed, but may fail.
    pub(crate) fn request(&mut self, method: &str, target: &str, body: &Value, now: Time) -> u16 {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::new(method, target, body);
        if method == "PATCH" {
            "application/merge-patch+json".clone_into(&mut request.content_type);
        }
        self.serve(&request, now).status
    }

    /// Carries out a request of the scheduler, and records its binding.
    pub(crate) fn request_of_ours(
        &mut self,
        request: &control::Request,
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

    /// Opens a watch of an API server whose cache shows this version, or returns the error.
    pub(crate) fn watch(
        &mut self,
        target: &str,
        cached: u64,
        now: Time,
    ) -> Result<WatchId, Response> {
        match self.store.serve_with_cache(&Request::new("GET", target, ""), cached, now) {
            Answer::Watch(watch) => Ok(watch),
            Answer::Whole(response) => Err(response),
        }
    }

    /// Answers a list of an API server whose cache shows this version.
    pub(crate) fn list(&mut self, target: &str, cached: u64, now: Time) -> Response {
        match self.store.serve_with_cache(&Request::new("GET", target, ""), cached, now) {
            Answer::Whole(response) => response,
            Answer::Watch(_) => unreachable!("{target} is a watch"),
        }
    }

    /// Returns the present events of a watch of an API server whose cache shows this version.
    pub(crate) fn frames(&mut self, watch: WatchId, cached: u64, now: Time) -> Frames {
        self.store.frames_of_cache(watch, cached, now)
    }

    /// Expires the history, as far as all API servers have seen it.
    pub(crate) fn compact(&mut self) {
        let version = self.api_servers.oldest(self.store.resource_version());
        self.store.compact_to(version);
    }

    /// Pauses controllers and drivers: volumes are not bound, devices do not become ready, and
    /// dependents of deleted objects stay.
    pub(crate) fn stop_controllers(&mut self, until: Time) {
        self.idle_until = Some(until);
        self.fired.push(Fault::DriverIdle);
    }

    /// Runs kubelets and controllers.
    pub(crate) fn step(&mut self, now: Time) {
        let version = self.store.resource_version();
        if version == self.seen && self.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        self.seen = version;
        self.idle_until.take_if(|end| *end <= now);
        if self.idle_until.is_none() {
            self.controllers.step(&mut self.store, now);
            for (target, patch) in self.driver.reports(&self.store, &mut self.fired, now) {
                self.request("PATCH", &target, &patch, now);
            }
        }
        self.kubelets.step(&mut self.store, now);
    }

    /// Returns the next deadline of kubelets and controllers.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let working = [self.controllers.next_deadline(), self.driver.next_deadline()];
        let controllers = self.idle_until.or_else(|| working.into_iter().flatten().min());
        let deadlines = [controllers, self.kubelets.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Returns the pods that have not ended.
    pub(crate) fn live_pods(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.store
            .objects(PODS)
            .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
    }

    /// Returns the UIDs of the pods with a node.
    pub(crate) fn placed_pods(&self) -> impl Iterator<Item = Uid> {
        let placed = self.live_pods().filter(|pod| !pod["spec"]["nodeName"].is_null());
        placed.filter_map(|pod| pod["metadata"]["uid"].as_str()).map(Uid::from)
    }

    /// Returns the nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<Value>> {
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

/// Returns the target of a watch with an earlier version.
pub(crate) fn further_back(target: &str, back: u64) -> String {
    let Some((start, version)) = target.rsplit_once("&resourceVersion=") else {
        return target.to_owned();
    };
    let version: u64 = version.parse().expect("the version is the last parameter of a watch");
    format!("{start}&resourceVersion={}", version.saturating_sub(back).max(1))
}

impl Bound {
    /// Returns the binding in a request, if it is one.
    pub(crate) fn by(request: &control::Request) -> Option<Self> {
        if !request.path.ends_with("/binding") {
            return None;
        }
        let binding: Value = serde_json::from_slice(&request.body).ok()?;
        let uid = binding["metadata"]["uid"].as_str()?.to_owned();
        Some(Self { uid, node: binding["target"]["name"].as_str()?.to_owned() })
    }
}

/// Whether a pod names one of our profiles.
pub(crate) fn is_ours(pod: &Value) -> bool {
    let chosen = pod["spec"]["schedulerName"].as_str();
    chosen.is_some_and(|name| [DEFAULT, SPREADING].contains(&name))
}

/// Returns the requests of a pod: milli-CPU and bytes of memory.
pub(crate) fn requests(pod: &Value) -> (i64, i64) {
    let pod = api::Pod::deserialize(pod).map(|pod| Pod::from_api(&pod));
    let pod = pod.expect("the store holds pods only");
    (pod.requests.placed.milli_cpu, pod.requests.placed.memory)
}
