//! The scheduler, its API server and their trouble.

use std::collections::BTreeMap;
use std::time::Duration;

use control::scheduler::RequestSource;
use control::{Reply, RequestId, Response};
use engine::EngineConfig;
use engine::ports::Ports;
use framework::Time;
use loadmaster::config::{self, Gates};
use sandbox::api::Request;
use sandbox::controllers::Controllers;
use sandbox::store::Store;
use serde_json::{Value, json};

use crate::replica::{BEGINNING, Replica, SEED, as_reply, as_served, serve};

/// Number of nodes, each with room for a thousand pods.
const NODES: usize = 10;

/// Time that the scheduling loop needs for an attempt.
const ATTEMPT: Duration = Duration::from_micros(250);
/// Time that a healthy API server needs for a request.
const ANSWER: Duration = Duration::from_millis(2);
/// Time after which the API server gives up a webhook that hangs.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The namespace whose pods are in no trouble.
const HEALTHY: &str = "/api/v1/namespaces/good/pods/";

/// The objects to create for the pod with this number.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) healthy: fn(usize) -> Vec<Value>,
    pub(super) in_trouble: fn(usize) -> Vec<Value>,
}

/// An answer that is under way.
struct Pending {
    source: RequestSource,
    id: RequestId,
    request: Request,
}

pub(super) struct World {
    pub(super) now: Time,
    store: Store,
    controllers: Controllers,
    replica: Replica,
    /// Whether a webhook hangs on a request.
    hangs: fn(&Request) -> bool,
    pending: BTreeMap<(Time, u64), Pending>,
    sent: u64,
    /// When each healthy pod was created, by its name.
    created: BTreeMap<String, Time>,
    /// The time from its creation to its binding, of each healthy pod.
    took: Vec<Duration>,
}

impl World {
    /// Creates a cluster in which a webhook hangs on these requests. The provisioner of the class
    /// `dead` never answers.
    pub(super) fn new(hangs: fn(&Request) -> bool) -> Self {
        let now = BEGINNING;
        let profiles = config::defaults(&Gates::default());
        let profiles = profiles.build_profiles(&plugins::registry()).unwrap();
        let mut store = Store::new(SEED, now);
        let replica = Replica::new(EngineConfig::new(profiles), &mut store, now);
        let mut world = Self {
            now,
            store,
            controllers: Controllers::new(),
            replica,
            hangs,
            pending: BTreeMap::new(),
            sent: 0,
            created: BTreeMap::new(),
            took: Vec::new(),
        };
        world.create_all((0..NODES).map(node).collect());
        world.create_all(["good", "good-too", "bad"].map(namespace).into());
        world.create_all(["fast", "dead", "good", "bad"].map(class).into());
        world.learn();
        world.replica.scheduler.set_synced(now, &mut Ports { extenders: &mut (), probe: &mut () });
        world
    }

    /// Creates objects.
    pub(super) fn create_all(&mut self, objects: Vec<Value>) {
        for object in objects {
            let text =
                |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let kind = self.store.resource_of_kind(text("/apiVersion"), text("/kind")).unwrap();
            if (text("/kind"), text("/metadata/namespace")) == ("Pod", "good") {
                self.created.insert(text("/metadata/name").to_owned(), self.now);
            }
            self.store.create(kind, object, self.now).unwrap();
        }
    }

    /// Returns the time from creation to binding of each healthy pod that is bound.
    pub(super) fn healthy_took(&self) -> Vec<Duration> {
        self.took.clone()
    }

    /// Lets the scheduler and the API server run for a while.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.answer();
            self.controllers.step(&mut self.store, self.now);
            self.learn();
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            self.replica.scheduler.tick(self.now, ports);
            let attempt = self.replica.scheduler.schedule_one(self.now, ports);
            self.send();
            if attempt.is_some() {
                self.now = self.now + ATTEMPT;
                continue;
            }
            let deadlines = [
                self.pending.keys().next().map(|(due, _)| *due),
                self.replica.scheduler.next_deadline(),
                self.controllers.next_deadline(),
            ];
            let next = deadlines.into_iter().flatten().min().unwrap_or(end);
            self.now = next.max(self.now + ATTEMPT).min(end);
        }
    }

    fn learn(&mut self) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.replica.learn(&mut self.store, self.now, ports);
    }

    fn send(&mut self) {
        for (source, request) in self.replica.scheduler.take_requests() {
            let (id, request) = (request.id, as_served(&request));
            let delay = if (self.hangs)(&request) { WEBHOOK_TIMEOUT } else { ANSWER };
            self.sent += 1;
            let pending = Pending { source, id, request };
            self.pending.insert((self.now + delay, self.sent), pending);
        }
    }

    /// Carries out and answers the requests that are due.
    fn answer(&mut self) {
        while let Some(first) = self.pending.first_entry()
            && first.key().0 <= self.now
        {
            let Pending { source, id, request } = first.remove();
            let reply = if (self.hangs)(&request) {
                let (status, body) = (500, webhook_failed());
                Reply::Answered(Response { status, retry_after: None, body })
            } else {
                as_reply(serve(&mut self.store, &request, self.now))
            };
            if matches!(&reply, Reply::Answered(Response { status: 201, .. }))
                && let Some(pod) = request.path.strip_prefix(HEALTHY)
                && let Some(created) = self.created.remove(pod.trim_end_matches("/binding"))
            {
                self.took.push(self.now.since(created));
            }
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            self.replica.scheduler.handle_reply(source, id, reply, self.now, ports);
        }
    }
}

fn webhook_failed() -> Vec<u8> {
    let message = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: \
                   Post \"https://w.default.svc:443/x?timeout=10s\": context deadline exceeded";
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError",
        "message": message, "code": 500,
    });
    status.to_string().into()
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn node(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": format!("n-{number}") },
        "status": { "allocatable": { "cpu": "64", "memory": "64Gi", "pods": "1000" } },
    })
}

/// Returns a class whose volumes are bound with their first pod. Only those of `fast` are
/// provisioned in time.
fn class(name: &str) -> Value {
    let (provisioner, parameters) = match name {
        "fast" => ("fast.example.com", json!({})),
        "dead" => ("dead.example.com", json!({ "sandbox/provisioning-seconds": "1000000" })),
        _ => ("kubernetes.io/no-provisioner", json!({})),
    };
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
        "provisioner": provisioner, "parameters": parameters,
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}
