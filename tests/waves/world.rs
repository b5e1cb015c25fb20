//! The scheduler and its cluster, without faults and under a virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Ports;
use engine::{EngineConfig, Outcome};
use framework::{Pod, Time, Uid};
use loadmaster::config::{self, Gates};
use sandbox::api::Request;
use sandbox::controllers::Controllers;
use sandbox::kubelet::{Kubelets, Settings};
use sandbox::resources::{PODDISRUPTIONBUDGETS, PODS};
use sandbox::store::Store;
use serde_json::{Value, json};

use super::cluster::{self, Object};
use super::preemptions::{Budgets, Preemption, assert_takes_no_kept_room};
use crate::replica::{BEGINNING, Replica, SEED, as_reply, as_served, serve};

/// Time without activity after which the world is at rest: longer than the backoff of a pod.
const QUIET: Duration = Duration::from_mins(1);
/// Maximum number of such periods.
const PATIENCE: usize = 30;
/// Maximum number of rounds at one point of time.
const MOST_AT_ONCE: usize = 1000;

/// The scheduler and its cluster.
pub(crate) struct World {
    now: Time,
    pub(super) store: Store,
    controllers: Controllers,
    kubelets: Kubelets,
    pub(super) replica: Replica,
    /// Pods that the scheduler deleted since the last decision.
    deleted: Vec<Uid>,
    /// Victims of decisions since the last update of their budgets' status.
    uncounted: Vec<Arc<Pod>>,
    /// Victims of all decisions.
    pub(super) preemptions: Vec<Preemption>,
    /// Pods with a `Preempted` event.
    pub(super) told: BTreeSet<Uid>,
    /// Pods that the scheduler bound.
    pub(super) bound: BTreeSet<Uid>,
}

impl World {
    /// Creates a full cluster of this number of nodes with running pods, and a scheduler with these
    /// fields in its configuration.
    pub(crate) fn new(nodes: usize, fields: &str) -> Self {
        let now = BEGINNING;
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration";
        let config = config::load(&format!("{head}\n{fields}\n"), &Gates::default()).unwrap();
        let profiles = config.config.build_profiles(&plugins::registry()).unwrap();
        let mut store = Store::new(SEED, now);
        let replica = Replica::new(EngineConfig::new(profiles), &mut store, now);
        let mut world = Self {
            now,
            store,
            controllers: Controllers::new(),
            kubelets: Kubelets::with_settings(kubelets()),
            replica,
            deleted: Vec::new(),
            uncounted: Vec::new(),
            preemptions: Vec::new(),
            told: BTreeSet::new(),
            bound: BTreeSet::new(),
        };
        world.fill(nodes);
        world.exchange();
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        world.replica.scheduler.set_synced(now, ports);
        world.until_quiet();
        world
    }

    /// Creates the nodes and their pods, bound by another client.
    fn fill(&mut self, nodes: usize) {
        self.create(cluster::full(nodes));
        while self.upkeep() {}
        let pods: Vec<Arc<Value>> = self.store.objects(PODS).cloned().collect();
        let mut placed = BTreeMap::<&str, usize>::new();
        for pod in &pods {
            let app = text(pod, "/metadata/labels/app");
            let before = placed.entry(app).or_default();
            self.bind(text(pod, "/metadata/name"), &cluster::node_of(app, *before));
            *before += 1;
        }
    }

    fn bind(&mut self, pod: &str, node: &str) {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
        let body = json!({"metadata": {"name": pod}, "target": target});
        let path = format!("/api/v1/namespaces/default/pods/{pod}/binding");
        let request = Request::new("POST", &path, body.to_string());
        assert_eq!(serve(&mut self.store, &request, self.now).status, 201);
    }

    /// Creates objects.
    pub(crate) fn create(&mut self, objects: Vec<Object>) {
        for (resource, object) in objects {
            self.store.create(resource, object, self.now).unwrap();
        }
    }

    /// Advances time until nothing moves.
    pub(crate) fn until_quiet(&mut self) {
        for _ in 0..PATIENCE {
            let before = (self.preemptions.len(), self.bound.len());
            self.pass(QUIET);
            if before == (self.preemptions.len(), self.bound.len()) && self.is_idle() {
                return;
            }
        }
        panic!(
            "the scheduler does not come to rest: {:?}",
            self.replica.scheduler.engine().queue().counts()
        );
    }

    fn is_idle(&mut self) -> bool {
        let counts = self.replica.scheduler.engine().queue().counts();
        counts.active + counts.backoff + counts.in_flight == 0
            && self.replica.scheduler.api_dispatcher().unfinished() == 0
            && self.store.objects(PODS).all(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(due) = self.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.replica
                .scheduler
                .tick(self.now, &mut Ports { extenders: &mut (), probe: &mut () });
            self.settle();
        }
        self.now = end;
    }

    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.replica.scheduler.next_deadline(),
            self.controllers.next_deadline(),
            self.kubelets.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Runs every component at this point of time. Controllers and kubelets run only after the
    /// scheduler has tried all pods: until then the scheduler depends on its own records.
    fn settle(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            while self.decide() {}
            if !self.upkeep() {
                return;
            }
            self.uncounted.clear();
            self.exchange();
        }
        panic!("time stands still");
    }

    /// Runs controllers and kubelets; returns whether they did anything.
    fn upkeep(&mut self) -> bool {
        let version = self.store.resource_version();
        self.controllers.step(&mut self.store, self.now);
        self.kubelets.step(&mut self.store, self.now);
        self.store.resource_version() != version
    }

    /// Lets the scheduler try the next pod; returns whether there was one.
    fn decide(&mut self) -> bool {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let attempt = self.replica.scheduler.schedule_one(self.now, ports);
        let budgets = Budgets::of(self.store.objects(PODDISRUPTIONBUDGETS), &self.uncounted);
        self.exchange();
        let Some(attempt) = attempt else { return false };
        let engine = self.replica.scheduler.engine();
        match &attempt.outcome {
            Outcome::Assumed(node) => assert_takes_no_kept_room(engine, &attempt.pod, node),
            Outcome::Unschedulable(_) | Outcome::Repeated(_) => {}
            Outcome::Error(_) | Outcome::Skipped => panic!("{attempt:?}"),
        }
        let deleted = std::mem::take(&mut self.deleted);
        if !deleted.is_empty() {
            let preemption = Preemption::new(engine, attempt.pod, &deleted, &budgets);
            preemption.assert_right();
            self.uncounted.extend(preemption.victims.iter().cloned());
            self.preemptions.push(preemption);
        }
        true
    }

    /// Passes on requests of the scheduler and events of its watches until there are no more.
    fn exchange(&mut self) {
        while self.send() | self.learn() {}
        for event in self.replica.scheduler.take_events() {
            if event.reason == "Preempted" {
                assert!(self.told.insert(event.uid), "{} was preempted twice", event.regarding);
            }
        }
    }

    fn learn(&mut self) -> bool {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.replica.learn(&mut self.store, self.now, ports)
    }

    fn send(&mut self) -> bool {
        let requests: Vec<_> = self.replica.scheduler.take_requests().collect();
        for (source, request) in &requests {
            let served = as_served(request);
            self.note(&served);
            let response = serve(&mut self.store, &served, self.now);
            assert!(response.status < 300, "{} {}: {response:?}", served.method, served.path);
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            let (reply, now) = (as_reply(response), self.now);
            self.replica.scheduler.handle_reply(*source, request.id, reply, now, ports);
        }
        !requests.is_empty()
    }

    /// Records evictions and bindings of the scheduler.
    fn note(&mut self, request: &Request) {
        let body = || serde_json::from_slice::<Value>(&request.body).unwrap();
        if request.method == "DELETE" {
            self.deleted.push(text(&body(), "/preconditions/uid").into());
        } else if request.path.ends_with("/binding") {
            self.bound.insert(text(&body(), "/metadata/uid").into());
        }
    }
}

/// Pods take time to start and to end. Heartbeats of nodes are off.
fn kubelets() -> Settings {
    let never = Duration::from_hours(100_000);
    Settings {
        start_delay: Duration::from_secs(2),
        stop_delay: Duration::from_secs(20),
        lease_period: never,
        status_period: never,
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
