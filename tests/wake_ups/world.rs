//! The scheduler and its API server, without faults and under a virtual clock.

use std::collections::BTreeSet;
use std::time::Duration;

use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{self, EventRecorder};
use control::scheduler::Scheduler;
use control::{Method, Reply, Response};
use engine::ports::{Count, Ports, Probe, Span};
use engine::queue::Place;
use engine::{Engine, EngineConfig};
use framework::{PluginName, PodKey, Registry, Time};
use loadmaster::config::{self, Configuration, Gates};
use loadmaster::wire::{Decoder, watched_kinds};
use sandbox::api::{self, Request, WatchId};
use sandbox::resources::PODS;
use sandbox::store::Store;

use super::extender::Choosy;
use super::objects::Step;
use super::{in_flight, pending};
use crate::api_server::{change, serve, watch};

/// The initial time, in seconds since 1970.
const BEGINNING: i64 = 1_790_000_000;
/// Maximum number of steps at one point of time; more means an endless loop.
const MOST_AT_ONCE: usize = 10_000;
/// Seed of the store and of the scheduler.
const SEED: u64 = 1;

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
    watches: Vec<(WatchId, Decoder)>,
    scheduler: Scheduler,
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
        let now = Time::from_secs(BEGINNING);
        let config = configuration(fields);
        let profiles = config.build_profiles(&registry()).unwrap();
        let mut store = Store::new(SEED, now);
        let kinds = watched_kinds(&profiles);
        let watches = kinds.iter().map(|kind| watch(&mut store, kind, now)).collect();
        let engine = Engine::new(EngineConfig {
            seed: SEED,
            queue: config.queue(),
            extenders: config.engine_extenders(),
            ..EngineConfig::new(profiles)
        });
        let event_recorder = EventRecorder::new(event_recorder::Options::default(), SEED);
        let api_dispatcher = ApiDispatcher::new(Limits::default(), SEED);
        let scheduler = Scheduler::new(engine, api_dispatcher, event_recorder);
        let heard = Heard::default();
        let tried = Vec::new();
        let in_batches = false;
        let mut world =
            Self { store, watches, scheduler, deletions, now, tried, heard, in_batches };
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
        while let Some(due) = self.scheduler.next_deadline().filter(|due| *due <= end) {
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
        let mut placed = self.scheduler.engine().cluster().pods();
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
        self.scheduler.engine().queue().get(&key(pod)).map(|(place, _)| place)
    }

    /// Returns the plugins that rejected the pod.
    pub(crate) fn rejectors(&self, pod: &str) -> BTreeSet<PluginName> {
        let queued = self.scheduler.engine().queue().get(&key(pod));
        queued
            .map_or_else(BTreeSet::new, |(_, queued)| queued.history.unschedulable_plugins.clone())
    }

    fn on_scheduler<T>(
        &mut self,
        call: impl FnOnce(&mut Scheduler, Time, &mut Ports<'_>) -> T,
    ) -> T {
        let ports = &mut Ports { extenders: &mut Choosy, probe: &mut self.heard };
        call(&mut self.scheduler, self.now, ports)
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
        let mut changes = Vec::new();
        for (watch, decoder) in &self.watches {
            let frames = self.store.frames(*watch, self.now);
            assert!(!frames.ended, "no world lives as long as a watch");
            changes.extend(frames.lines.iter().map(|line| change(decoder, line)));
        }
        let is_anything = !changes.is_empty();
        for change in changes {
            self.on_scheduler(|scheduler, now, ports| scheduler.apply(change, now, ports));
        }
        is_anything
    }

    /// Carries out the requests of the scheduler; returns whether there were any.
    fn send(&mut self) -> bool {
        let requests: Vec<_> = self.scheduler.take_requests().collect();
        for (source, request) in &requests {
            let mut served =
                Request::new(request.method.as_str(), &request.path, request.body.clone());
            request.content_type.clone_into(&mut served.content_type);
            let (status, body) = match self.deletions {
                Deletions::Unanswered if request.method == Method::Delete => continue,
                Deletions::Forbidden if request.method == Method::Delete => (403, Vec::new()),
                _ => {
                    let api::Response { status, body, .. } =
                        serve(&mut self.store, &served, self.now);
                    (status, body.to_vec())
                }
            };
            let reply = Reply::Answered(Response { status, retry_after: None, body });
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
