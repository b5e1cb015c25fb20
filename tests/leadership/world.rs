//! Replicas of the scheduler and their API server, without faults and under a virtual clock.

use std::time::Duration;

use control::leader_election::{LeaderElectionConfig, LeaderElector, Outcome};
use control::scheduler::{Fencing, LeaderElection, RequestSource};
use control::{Reply, Request};
use engine::EngineConfig;
use engine::ports::Ports;
use framework::{Level, POD_GROUP_LABEL, Time};
use loadmaster::config::{self, Gates};
use sandbox::api;
use sandbox::resources::{LEASES, NAMESPACES, NODES, PODS};
use sandbox::store::Store;
use serde_json::{Value, json};

use crate::replica::{BEGINNING, Replica, SEED, as_reply, as_served, serve};

/// Replicas and their API server, with one node.
pub(crate) struct World {
    pub(crate) now: Time,
    store: Store,
    pub(crate) replicas: Vec<Replica>,
}

impl World {
    /// Creates replicas with the names `a`, `b` and so on, which have synced.
    pub(crate) fn new(replicas: usize) -> Self {
        Self::with_fencing(replicas, Fencing::default())
    }

    /// Creates replicas that have synced, and fence these pods after a crash.
    pub(crate) fn with_fencing(replicas: usize, fencing: Fencing) -> Self {
        let mut world = Self::unsynced(replicas, false);
        for replica in &mut world.replicas {
            replica.scheduler.set_fencing(fencing);
        }
        for number in 0..replicas {
            world.learn(number);
            world.set_synced(number);
        }
        world
    }

    /// Creates one replica for each level, which have synced.
    pub(crate) fn of_levels(levels: &[Level]) -> Self {
        let mut world = Self::of(levels, false);
        for number in 0..levels.len() {
            world.learn(number);
            world.set_synced(number);
        }
        world
    }

    /// Creates replicas that have not synced.
    pub(crate) fn unsynced(replicas: usize, delay_cache_until_active: bool) -> Self {
        Self::of(&vec![Level::default(); replicas], delay_cache_until_active)
    }

    fn of(levels: &[Level], delay_cache_until_active: bool) -> Self {
        let now = BEGINNING;
        let mut store = Store::new(SEED, now);
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" },
            "status": { "allocatable": { "cpu": "8", "memory": "8Gi", "pods": "100" } },
        });
        store.create(NODES, node, now).unwrap();
        let names = ["a", "b", "c"].into_iter().zip(levels);
        let replicas = names
            .map(|(name, level)| {
                let profiles = config::defaults(&Gates::at(*level));
                let profiles = profiles.build_profiles(&plugins::registry()).unwrap();
                let replica = Replica::new(EngineConfig::new(profiles), &mut store, now);
                let election = election(name, *level, delay_cache_until_active);
                replica.with_leader_election(election)
            })
            .collect();
        Self { now, store, replicas }
    }

    /// Creates a replica that leads and has completed its takeover.
    pub(crate) fn leading() -> Self {
        let mut world = Self::new(1);
        world.create_pod("first");
        world.run(0);
        assert!(world.is_bound("first"));
        world
    }

    /// Tells a replica that its caches are filled.
    pub(crate) fn set_synced(&mut self, number: usize) {
        let (now, ports) = (self.now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.replicas[number].scheduler.set_synced(now, ports);
    }

    pub(crate) fn create_pod(&mut self, name: &str) {
        self.create_pod_in("default", name);
    }

    pub(crate) fn create_pod_in(&mut self, namespace: &str, name: &str) {
        self.create(namespace, name, &json!({}));
    }

    /// Creates a pod on the node whose resize moves CPU from one container to the other: it takes 8
    /// CPUs at level 1.36, and 5 from 1.37 on.
    pub(crate) fn create_resized(&mut self) {
        let container = |name: &str, cpu: &str| json!({ "name": name, "image": "app", "resources": { "requests": { "cpu": cpu } } });
        let status = |name: &str, cpu: &str| {
            let cpu = json!({ "cpu": cpu });
            json!({ "name": name, "allocatedResources": cpu, "resources": { "requests": cpu } })
        };
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "resized", "namespace": "default" },
            "spec": {
                "schedulerName": "default-scheduler", "nodeName": "n1",
                "containers": [container("a", "4"), container("b", "1")],
            },
        });
        self.add("default", pod);
        let statuses = [status("a", "1"), status("b", "4")];
        self.patch_status("resized", &json!({ "phase": "Running", "containerStatuses": statuses }));
        for number in 0..self.replicas.len() {
            self.learn(number);
        }
    }

    /// Creates a pod that asks for this many CPUs.
    pub(crate) fn create_pod_of(&mut self, name: &str, cpu: &str) {
        let requests = json!({ "requests": { "cpu": cpu } });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "default" },
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{ "name": "main", "image": "app", "resources": requests }],
            },
        });
        self.add("default", pod);
    }

    /// Creates a pod that belongs to a PodGroup.
    pub(crate) fn create_member(&mut self, name: &str) {
        self.create("default", name, &json!({ POD_GROUP_LABEL: "job" }));
    }

    fn create(&mut self, namespace: &str, name: &str, labels: &Value) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace, "labels": labels },
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{ "name": "main", "image": "app" }],
            },
        });
        self.add(namespace, pod);
    }

    fn add(&mut self, namespace: &str, pod: Value) {
        if self.store.get(NAMESPACES, "", namespace).is_none() {
            let object = json!({ "metadata": { "name": namespace } });
            self.store.create(NAMESPACES, object, self.now).unwrap();
        }
        self.store.create(PODS, pod, self.now).unwrap();
        for number in 0..self.replicas.len() {
            self.learn(number);
        }
    }

    /// Returns the Lease.
    pub(crate) fn lease(&self) -> &Value {
        self.store.get(LEASES, "kube-system", "loadmaster").expect("there is a Lease")
    }

    /// Starts a pod, as its kubelet does. No watch shows it yet.
    pub(crate) fn start(&mut self, pod: &str) {
        self.patch_status(pod, &json!({ "phase": "Running" }));
    }

    fn patch_status(&mut self, pod: &str, status: &Value) {
        let path = format!("/api/v1/namespaces/default/pods/{pod}/status");
        let patch = json!({ "status": status }).to_string();
        let mut request = api::Request::new("PATCH", &path, patch);
        "application/merge-patch+json".clone_into(&mut request.content_type);
        assert_eq!(serve(&mut self.store, &request, self.now).status, 200);
    }

    /// Returns whether the pod has a node.
    pub(crate) fn is_bound(&self, pod: &str) -> bool {
        self.is_bound_in("default", pod)
    }

    pub(crate) fn is_bound_in(&self, namespace: &str, pod: &str) -> bool {
        let pod = self.store.get(PODS, namespace, pod).expect("the pod exists");
        !pod["spec"]["nodeName"].is_null()
    }

    /// Runs a replica until it has nothing to do now. Its requests are answered at once.
    pub(crate) fn run(&mut self, number: usize) {
        loop {
            self.tick(number);
            self.learn(number);
            let attempt = self.schedule_one(number);
            let requests = self.take_requests(number);
            if !attempt && requests.is_empty() {
                return;
            }
            for (source, request) in requests {
                self.exchange(number, source, &request);
            }
        }
    }

    /// Lets time pass, in which all replicas run.
    pub(crate) fn pass(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        loop {
            (0..self.replicas.len()).for_each(|number| self.run(number));
            let deadlines = self.replicas.iter().filter_map(|it| it.scheduler.next_deadline());
            match deadlines.min().filter(|due| *due <= end) {
                Some(due) => self.now = self.now.max(due),
                None => break,
            }
        }
        self.now = end;
    }

    pub(crate) fn tick(&mut self, number: usize) {
        let (now, ports) = (self.now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.replicas[number].scheduler.tick(now, ports);
    }

    pub(crate) fn schedule_one(&mut self, number: usize) -> bool {
        let (now, ports) = (self.now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.replicas[number].scheduler.schedule_one(now, ports).is_some()
    }

    pub(crate) fn take_requests(&mut self, number: usize) -> Vec<(RequestSource, Request)> {
        self.replicas[number].scheduler.take_requests().collect()
    }

    /// Carries out a request of a process that is gone. Returns the status.
    pub(crate) fn send(&mut self, request: &Request) -> u16 {
        self.carry_out(request).status
    }

    fn carry_out(&mut self, request: &Request) -> api::Response {
        serve(&mut self.store, &as_served(request), self.now)
    }

    /// Carries out a request and passes on the reply. Returns the status.
    pub(crate) fn exchange(
        &mut self,
        number: usize,
        source: RequestSource,
        request: &Request,
    ) -> u16 {
        let response = self.carry_out(request);
        let status = response.status;
        self.reply(number, source, request, as_reply(response));
        status
    }

    pub(crate) fn reply(
        &mut self,
        number: usize,
        source: RequestSource,
        request: &Request,
        reply: Reply,
    ) {
        let (now, ports) = (self.now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.replicas[number].scheduler.handle_reply(source, request.id, reply, now, ports);
    }

    pub(crate) fn outcome(&self, number: usize) -> Option<Outcome> {
        self.replicas[number].scheduler.outcome()
    }

    /// Passes the events of its watches to a replica.
    pub(crate) fn learn(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        replica.learn(&mut self.store, self.now, ports);
        let scheduler = &mut replica.scheduler;
        // The watches are never late, so a new list shows nothing new.
        for group in scheduler.take_relists() {
            scheduler.handle_relisted(group);
        }
    }
}

fn election(name: &str, level: Level, delay_cache_until_active: bool) -> LeaderElection {
    let config = LeaderElectionConfig {
        identity: name.to_owned(),
        namespace: "kube-system".to_owned(),
        name: "loadmaster".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        level: Some(level.to_string()),
    };
    LeaderElection {
        elector: LeaderElector::new(config, SEED).unwrap(),
        reporting_controller: "default-scheduler".into(),
        delay_cache_until_active,
    }
}
