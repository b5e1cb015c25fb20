//! The scheduler and its API server, without faults and under a virtual clock.

use std::collections::BTreeSet;
use std::time::Duration;

use control::scheduler::Scheduler;
use control::{Method, Reply, Response};
use engine::EngineConfig;
use engine::ports::{Count, Ports, Probe, Span};
use engine::queue::Place;
use framework::{PluginName, PodKey, Registry, Time};
use loadmaster::config::{self, Configuration, Gates};
use sandbox::resources::PODS;
use sandbox::store::Store;

use super::extender::Choosy;
use super::objects::Step;
use super::{in_flight, pending};
use crate::replica::{BEGINNING, Replica, SEED, as_reply, as_served, serve};

/// Maximum number of steps at one point of time; more means an endless loop.
const MOST_AT_ONCE: usize = 10_000;

/// Returns the in-tree plugins, and those of these tests.
pub(crate) fn registry() -> Registry {
    let mut registry = plugins::registry();
    registry.register(in_flight::NAME, in_flight::plugin).unwrap();
    registry.register(pending::NAME, pending::plugin).unwrap();
    registry
}

/// Returns a configuration with these fields; all others have their defaults.
pub(crate) fn configuration(fields: &str) -> Configuration {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    // The hints of these gates are tested with the plugins.
    let gates = Gates::parse(["DRADeviceTaintRules=false,VolumeLimitScaling=false"]).unwrap();
    config::load(&format!("{head}{fields}\n"), &gates).unwrap().config
}

/// The scheduler and its API server.
pub(crate) struct World {
    store: Store,
    replica: Replica,
    deletions: Deletions,
    now: Time,
    /// The pods that were tried, one entry per attempt.
    tried: Vec<PodKey>,
    heard: Heard,
    /// Whether the requests of all pods that are ready are made before the first one is sent.
    in_batches: bool,
}

/// The reaction of the API server to deletions by the scheduler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Deletions {
    /// Carries them out.
    #[default]
    Served,
    /// Does not carry them out, and does not answer.
    Unanswered,
    /// Refuses them with 403.
    Forbidden,
}

/// Events that were handled or evaluated for pending pods since the last query.
#[derive(Debug, Default)]
struct Heard(Vec<String>);

impl Probe for Heard {
    fn start(&mut self, span: Span<'_>) {
        if let Span::Hint(_, event) = span {
            self.0.push(event.to_string());
        }
    }

    fn count(&mut self, count: Count<'_>) {
        match count {
            Count::Event(event) => self.0.push(event.to_string()),
            // The label of 1.37.
            Count::PodEvent(label) => {
                self.0.push(label.replace("UnscheduledPod", "UnschedulablePod"));
            }
            _ => {}
        }
    }
}

impl World {
    /// Creates a scheduler with these fields in its configuration that has seen the `given` objects
    /// and tried all pods.
    pub(crate) fn new<'a>(fields: &str, given: impl IntoIterator<Item = &'a Step>) -> Self {
        Self::with_deletions(Deletions::Served, fields, given)
    }

    /// Creates a world with this reaction to deletions.
    pub(crate) fn with_deletions<'a>(
        deletions: Deletions,
        fields: &str,
        given: impl IntoIterator<Item = &'a Step>,
    ) -> Self {
        let now = BEGINNING;
        let config = configuration(fields);
        let profiles = config.build_profiles(&registry()).unwrap();
        let mut store = Store::new(SEED, now);
        let config = EngineConfig {
            queue: config.queue(),
            extenders: config.engine_extenders(),
            ..EngineConfig::new(profiles)
        };
        let replica = Replica::new(config, &mut store, now);
        let heard = Heard::default();
        let tried = Vec::new();
        let in_batches = false;
        let mut world = Self { store, replica, deletions, now, tried, heard, in_batches };
        given.into_iter().for_each(|step| world.carry_out(step));
        world.learn();
        world.on_scheduler(Scheduler::set_synced);
        world.settle();
        world
    }

    /// Lets deletions succeed from now on.
    pub(crate) fn serve_deletions(&mut self) {
        self.deletions = Deletions::Served;
    }

    /// From now on tries all pods that are ready before it sends a request.
    pub(crate) fn decide_in_batches(&mut self) {
        self.in_batches = true;
    }

    /// Carries out an action and reports it to the scheduler, which tries no pod yet.
    pub(crate) fn happens(&mut self, step: &Step) {
        self.heard.0.clear();
        self.carry_out(step);
        self.learn();
    }

    /// Returns the labels of the events of the last reported action.
    pub(crate) fn heard(&self) -> &[String] {
        &self.heard.0
    }

    /// Tries pods and sends requests until nothing is left to do at this point of time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let attempt = self.on_scheduler(Scheduler::schedule_one);
            self.tried.extend(attempt.iter().map(|attempt| attempt.pod.key.clone()));
            if self.in_batches && attempt.is_some() {
                continue;
            }
            if !self.send() && !self.learn() && attempt.is_none() {
                return;
            }
        }
        panic!("the scheduler does not come to rest");
    }

    /// Advances time.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.replica.scheduler.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.on_scheduler(Scheduler::tick);
            self.settle();
        }
        self.now = end;
    }

    /// Returns the number of attempts of all pods.
    pub(crate) fn all_attempts(&self) -> usize {
        self.tried.len()
    }

    /// Returns the number of attempts of the pod.
    pub(crate) fn attempts(&self, pod: &str) -> usize {
        self.tried.iter().filter(|tried| **tried == key(pod)).count()
    }

    /// Whether the scheduler has chosen a node for the pod, which may still wait for its volumes.
    pub(crate) fn has_node(&self, pod: &str) -> bool {
        let mut placed = self.replica.scheduler.engine().cluster().pods();
        placed.any(|placed| placed.pod.key == key(pod))
    }

    /// Whether the pod has a node in the API server.
    pub(crate) fn is_bound(&self, pod: &str) -> bool {
        let pod = self.store.get(PODS, "default", pod).unwrap();
        !pod["spec"]["nodeName"].is_null()
    }

    /// Whether the pod is terminating or gone in the API server.
    pub(crate) fn is_leaving(&self, pod: &str) -> bool {
        let pod = self.store.get(PODS, "default", pod);
        pod.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    }

    /// Returns the nominated node of the pod in the API server.
    pub(crate) fn nomination(&self, pod: &str) -> Option<&str> {
        let pod = self.store.get(PODS, "default", pod).unwrap();
        pod["status"]["nominatedNodeName"].as_str()
    }

    /// Returns the place of the pod in the queue, if it is queued.
    pub(crate) fn place(&self, pod: &str) -> Option<Place> {
        self.replica.scheduler.engine().queue().get(&key(pod)).map(|(place, _)| place)
    }

    /// Returns the plugins that rejected the pod.
    pub(crate) fn rejectors(&self, pod: &str) -> BTreeSet<PluginName> {
        let queued = self.replica.scheduler.engine().queue().get(&key(pod));
        queued
            .map_or_else(BTreeSet::new, |(_, queued)| queued.history.unschedulable_plugins.clone())
    }

    fn on_scheduler<T>(
        &mut self,
        call: impl FnOnce(&mut Scheduler, Time, &mut Ports<'_>) -> T,
    ) -> T {
        let ports = &mut Ports { extenders: &mut Choosy, probe: &mut self.heard };
        call(&mut self.replica.scheduler, self.now, ports)
    }

    fn carry_out(&mut self, step: &Step) {
        for request in step.requests() {
            let response = serve(&mut self.store, &request, self.now);
            let text = String::from_utf8_lossy(&response.body);
            assert!(response.status < 300, "{} {}: {text}", request.method, request.path);
        }
    }

    /// Handles the events of the watches; returns whether there were any.
    fn learn(&mut self) -> bool {
        let ports = &mut Ports { extenders: &mut Choosy, probe: &mut self.heard };
        self.replica.learn(&mut self.store, self.now, ports)
    }

    /// Carries out the requests of the scheduler; returns whether there were any.
    fn send(&mut self) -> bool {
        let requests: Vec<_> = self.replica.scheduler.take_requests().collect();
        for (source, request) in &requests {
            let reply = match self.deletions {
                Deletions::Unanswered if request.method == Method::Delete => continue,
                Deletions::Forbidden if request.method == Method::Delete => {
                    let (status, body) = (403, Vec::new());
                    Reply::Answered(Response { status, retry_after: None, body })
                }
                _ => as_reply(serve(&mut self.store, &as_served(request), self.now)),
            };
            self.on_scheduler(|scheduler, now, ports| {
                scheduler.handle_reply(*source, request.id, reply, now, ports);
            });
        }
        !requests.is_empty()
    }
}

fn key(pod: &str) -> PodKey {
    PodKey::new("default", pod)
}
