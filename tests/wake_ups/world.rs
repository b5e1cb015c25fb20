//! The scheduler and its API server, without faults and under a virtual clock.

use std::collections::BTreeSet;
use std::time::Duration;

use client::api_dispatcher::{ApiDispatcher, Limits};
use client::event_recorder::{self, EventRecorder};
use client::scheduler::Scheduler;
use client::{Method, Reply, Response};
use engine::ports::{Ports, Probe, Span};
use engine::queue::Place;
use engine::{Engine, EngineConfig};
use framework::{ClusterEvent, PluginName, PodKey, Registry, Time};
use loadmaster::config::{self, Configuration, Gates};
use loadmaster::wire::{Decoder, watched_kinds};
use sandbox::api::{self, Request, WatchId};
use sandbox::resources::PODS;
use sandbox::store::Store;

use super::extender::Choosy;
use super::objects::Step;
use super::{in_flight, pending};
use crate::api_server::{change, serve, watch};

/// When every world begins, in seconds since 1970.
const BEGINNING: i64 = 1_790_000_000;
/// More than this at one point of time goes round in circles.
const MOST_AT_ONCE: usize = 1000;
/// Of the first attempt and of those that follow.
const SEED: u64 = 1;

/// The in-tree plugins, and those of these tests.
pub(crate) fn registry() -> Registry {
    let mut registry = plugins::registry();
    registry.register(in_flight::NAME, in_flight::plugin).unwrap();
    registry.register(pending::NAME, pending::plugin).unwrap();
    registry
}

/// A configuration with these fields beside the defaults.
pub(crate) fn configuration(fields: &str) -> Configuration {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    config::load(&format!("{head}{fields}\n"), &Gates::default()).unwrap().config
}

/// The scheduler and its API server.
pub(crate) struct World {
    store: Store,
    watches: Vec<(WatchId, Decoder)>,
    scheduler: Scheduler,
    deletions: Deletions,
    now: Time,
    /// The pods that were tried, an entry an attempt.
    tried: Vec<PodKey>,
    heard: Heard,
}

/// What the API server does when the scheduler deletes something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Deletions {
    /// What it is told.
    #[default]
    Served,
    /// Nothing, and it does not answer.
    Unanswered,
    /// Nothing, and it says that it is forbidden.
    Forbidden,
}

/// The events that were put to pods since somebody last asked.
#[derive(Debug, Default)]
struct Heard(Vec<ClusterEvent>);

impl Probe for Heard {
    fn start(&mut self, span: Span<'_>) {
        if let Span::Event(event) | Span::Hint(_, event) = span {
            self.0.push(event.clone());
        }
    }
}

impl World {
    /// A scheduler with these fields in its configuration that has heard of what was `given`, and
    /// tried what it could.
    pub(crate) fn new<'a>(fields: &str, given: impl IntoIterator<Item = &'a Step>) -> Self {
        Self::with_deletions(Deletions::Served, fields, given)
    }

    /// The same, where deletions are another matter.
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
        let mut world = Self { store, watches, scheduler, deletions, now, tried, heard };
        given.into_iter().for_each(|step| world.carry_out(step));
        world.learn();
        world.scheduler.set_synced();
        world.settle();
        world
    }

    /// From now on deletions are served.
    pub(crate) fn serve_deletions(&mut self) {
        self.deletions = Deletions::Served;
    }

    /// Something happens, and the scheduler hears of it; it has tried no pod yet.
    pub(crate) fn happens(&mut self, step: &Step) {
        self.heard.0.clear();
        self.carry_out(step);
        self.learn();
    }

    /// The events by which the scheduler took in what happened last.
    pub(crate) fn heard(&self) -> &[ClusterEvent] {
        &self.heard.0
    }

    /// Tries pods and sends requests until there is nothing left to do at this point of time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let attempt = self.on_scheduler(Scheduler::schedule_one);
            self.tried.extend(attempt.iter().map(|attempt| attempt.pod.key.clone()));
            if !self.send() && !self.learn() && attempt.is_none() {
                return;
            }
        }
        panic!("the scheduler does not come to rest");
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.scheduler.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.on_scheduler(Scheduler::tick);
            self.settle();
        }
        self.now = end;
    }

    /// How often the pod was tried.
    pub(crate) fn attempts(&self, pod: &str) -> usize {
        self.tried.iter().filter(|tried| **tried == key(pod)).count()
    }

    /// Whether the scheduler has found a node for the pod, which may still wait for its volumes.
    pub(crate) fn has_node(&self, pod: &str) -> bool {
        let mut placed = self.scheduler.engine().cache().cluster().pods();
        placed.any(|placed| placed.pod.key == key(pod))
    }

    /// Whether the API server has given the pod a node.
    pub(crate) fn is_bound(&self, pod: &str) -> bool {
        let pod = self.store.get(PODS, "default", pod).unwrap();
        !pod["spec"]["nodeName"].is_null()
    }

    /// Whether the API server knows the pod to be on its way out, or not at all any more.
    pub(crate) fn is_leaving(&self, pod: &str) -> bool {
        let pod = self.store.get(PODS, "default", pod);
        pod.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    }

    /// The node the pod is nominated to, as the API server has it.
    pub(crate) fn nomination(&self, pod: &str) -> Option<&str> {
        let pod = self.store.get(PODS, "default", pod).unwrap();
        pod["status"]["nominatedNodeName"].as_str()
    }

    /// Where in the queue the pod is, if it is there.
    pub(crate) fn place(&self, pod: &str) -> Option<Place> {
        self.scheduler.engine().queue().get(&key(pod)).map(|(place, _)| place)
    }

    /// The plugins that keep the pod waiting.
    pub(crate) fn rejectors(&self, pod: &str) -> BTreeSet<PluginName> {
        let queued = self.scheduler.engine().queue().get(&key(pod));
        queued.map_or_else(BTreeSet::new, |(_, queued)| queued.unschedulable_plugins.clone())
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

    /// Takes in what the watches have to say, and whether that was anything.
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

    /// Has requests of the scheduler carried out, and whether there were any.
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
