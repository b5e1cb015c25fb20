//! A scheduler with its informers and an API server, under a virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::api_dispatcher::{ApiDispatcher, Limits};
use control::event_recorder::{self, EventRecorder};
use control::leader_election::{LeaderElectionConfig, LeaderElector};
use control::reflector::{CallId, Input, ListWatch, Options, Output, Reflector};
use control::scheduler::{LeaderElection, Relist, RequestSource, Scheduler};
use control::{Reply, Request, Response};
use engine::ports::Ports;
use engine::profile::Profiles;
use engine::{Engine, EngineConfig};
use framework::Time;
use loadmaster::config::{self, Gates};
use loadmaster::http::Health;
use loadmaster::metrics::Metrics;
use loadmaster::observer::MetricsObserver;
use loadmaster::scheduling_loop::Observer;
use loadmaster::wire::{Decoder, Update, WatchedKind, status_error, watched_kinds};
use sandbox::api::{self, Answer, WatchId};
use sandbox::controllers::Controllers;
use sandbox::kubelet::{Kubelets, Settings};
use sandbox::resources::{NODES, PODS, Resource};
use sandbox::store::{DeleteOptions, Store};
use serde_json::Value;

use super::census::{Census, census};

/// The initial time, in seconds since 1970.
const BEGINNING: i64 = 1_790_000_000;
const SEED: u64 = 1;
/// The part of the name of pods whose first binds are carried out without an answer.
pub(crate) const LOST: &str = "lost";
/// The part of the name of pods whose first binds a webhook refuses.
pub(crate) const REFUSED: &str = "refused";

/// The answer of an API server whose admission webhook is down.
const REFUSAL: &[u8] = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,
    "reason":"InternalError","message":"Internal error occurred: failed calling webhook \"w\": refused"}"#;

/// A scheduler and its API server.
pub(crate) struct World {
    now: Time,
    store: Store,
    controllers: Controllers,
    kubelets: Kubelets,
    /// The version that controllers and kubelets have seen.
    seen: u64,
    scheduler: Scheduler,
    informers: Vec<Informer>,
    /// Number of replies by request and status.
    replies: BTreeMap<String, usize>,
    /// Pods whose bind has failed once.
    failed: BTreeSet<String>,
    /// The profiles, with the state of their plugins.
    profiles: Profiles,
    metrics: Arc<Metrics>,
    /// What the daemon feeds its metrics with.
    observer: MetricsObserver,
}

struct Informer {
    name: String,
    reflector: Reflector<Update>,
    decoder: Decoder,
    /// The open watch.
    watch: Option<(CallId, WatchId)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let now = Time::from_secs(BEGINNING);
        let profiles = config::defaults(&Gates::default());
        let profiles = profiles.build_profiles(&plugins::registry()).unwrap();
        let kinds = watched_kinds(&profiles);
        let informers = kinds.iter().map(|kind| Informer::new(kind, now)).collect();
        let config = EngineConfig { seed: SEED, ..EngineConfig::new(profiles.clone()) };
        let engine = Engine::new(config);
        let metrics = Arc::new(Metrics::new());
        let scheduler = Scheduler::new(
            engine,
            ApiDispatcher::new(Limits::default(), SEED),
            EventRecorder::new(event_recorder::Options::default(), SEED),
        );
        let settings = Settings {
            stop_delay: Duration::from_secs(1),
            lease_period: Duration::from_hours(1),
            status_period: Duration::from_hours(1),
            ..Settings::default()
        };
        let mut world = Self {
            now,
            store: Store::new(SEED, now),
            controllers: Controllers::new(),
            kubelets: Kubelets::with_settings(settings),
            seen: 0,
            scheduler: scheduler.with_leader_election(election()),
            informers,
            replies: BTreeMap::new(),
            failed: BTreeSet::new(),
            profiles,
            observer: MetricsObserver::new(metrics.clone(), Arc::new(Health::default())),
            metrics,
        };
        world.run();
        world
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now.since(Time::from_secs(BEGINNING))
    }

    pub(crate) fn binds(&self) -> usize {
        self.replies.get("bind 201").copied().unwrap_or_default()
    }

    pub(crate) const fn replies(&self) -> &BTreeMap<String, usize> {
        &self.replies
    }

    /// Creates an object.
    pub(crate) fn create(&mut self, resource: &'static Resource, object: Value) {
        self.store.create(resource, object, self.now).unwrap();
    }

    /// Deletes an object. Ignores an object that is gone.
    pub(crate) fn delete(&mut self, resource: &'static Resource, namespace: &str, name: &str) {
        let options = DeleteOptions::default();
        let _ = self.store.delete(resource, namespace, name, &options, self.now);
    }

    /// Lets time pass. All requests are answered at once.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.run();
            match self.next_deadline().filter(|due| *due <= end) {
                Some(due) => self.now = self.now.max(due),
                None => break,
            }
        }
        self.now = end;
    }

    fn next_deadline(&self) -> Option<Time> {
        let reflectors =
            self.informers.iter().filter_map(|informer| informer.reflector.next_deadline());
        let watches = self.informers.iter().filter_map(|informer| informer.watch);
        let watches = watches.filter_map(|(_, watch)| self.store.watch_deadline(watch));
        let others = [
            self.scheduler.next_deadline(),
            self.controllers.next_deadline(),
            self.kubelets.next_deadline(),
        ];
        reflectors.chain(watches).chain(others.into_iter().flatten()).min()
    }

    /// Runs until nothing is left to do now.
    fn run(&mut self) {
        loop {
            self.run_controllers();
            let ports = &mut Ports { extenders: &mut (), probe: &mut self.observer };
            self.scheduler.tick(self.now, ports);
            let mut is_active = self.learn();
            let ports = &mut Ports { extenders: &mut (), probe: &mut self.observer };
            is_active |= self.scheduler.schedule_one(self.now, ports).is_some();
            self.observer.observe(&self.scheduler, self.now, 0);
            self.scheduler.take_events().clear();
            self.scheduler.take_notices().clear();
            self.scheduler.take_failed_calls().for_each(drop);
            let requests: Vec<_> = self.scheduler.take_requests().collect();
            is_active |= !requests.is_empty();
            for (source, request) in requests {
                self.exchange(source, &request);
            }
            if !is_active {
                return;
            }
        }
    }

    fn run_controllers(&mut self) {
        let deadlines = [self.controllers.next_deadline(), self.kubelets.next_deadline()];
        let is_due = deadlines.into_iter().flatten().any(|due| due <= self.now);
        if is_due || self.store.resource_version() != self.seen {
            self.controllers.step(&mut self.store, self.now);
            self.kubelets.step(&mut self.store, self.now);
            self.seen = self.store.resource_version();
        }
    }

    /// Passes on what the informers learn. Returns whether there was something.
    fn learn(&mut self) -> bool {
        let mut is_active = false;
        let was_synced = self.has_synced();
        for relist in self.scheduler.take_relists() {
            let is_meant = |informer: &&mut Informer| informer.covered_by() == relist;
            let meant = self.informers.iter_mut().filter(is_meant);
            meant.for_each(|informer| informer.reflector.relist(self.now));
        }
        for informer in &mut self.informers {
            let ports = &mut Ports { extenders: &mut (), probe: &mut self.observer };
            is_active |= informer.step(&mut self.store, &mut self.scheduler, ports, self.now);
        }
        if !was_synced && self.has_synced() {
            let ports = &mut Ports { extenders: &mut (), probe: &mut self.observer };
            self.scheduler.set_synced(self.now, ports);
        }
        is_active
    }

    fn has_synced(&self) -> bool {
        self.informers.iter().all(|informer| informer.reflector.has_synced())
    }

    fn exchange(&mut self, source: RequestSource, request: &Request) {
        let mut served =
            api::Request::new(request.method.as_str(), &request.path, request.body.clone());
        request.content_type.clone_into(&mut served.content_type);
        let is_bind = request.path.ends_with("/binding");
        let refused = request.path.contains(REFUSED);
        let fails = is_bind
            && (refused || request.path.contains(LOST))
            && self.failed.insert(request.path.clone());
        let reply = if fails && refused {
            Reply::Answered(Response { status: 500, retry_after: None, body: REFUSAL.into() })
        } else if fails {
            self.serve(&served);
            Reply::Lost("connection reset".to_owned())
        } else {
            let api::Response { status, body, .. } = self.serve(&served);
            Reply::Answered(Response { status, retry_after: None, body: body.to_vec() })
        };
        let what = if is_bind { "bind" } else { request.method.as_str() };
        let outcome = match &reply {
            Reply::Answered(response) => response.status.to_string(),
            _ => "lost".to_owned(),
        };
        *self.replies.entry(format!("{what} {outcome}")).or_default() += 1;
        let ports = &mut Ports { extenders: &mut (), probe: &mut self.observer };
        self.scheduler.handle_reply(source, request.id, reply, self.now, ports);
    }

    fn serve(&mut self, request: &api::Request) -> api::Response {
        match self.store.serve(request, self.now) {
            Answer::Whole(response) => response,
            Answer::Watch(_) => unreachable!("{} is no watch", request.path),
        }
    }

    /// Checks that all pods and nodes are gone.
    pub(crate) fn assert_empty(&mut self) {
        self.failed.clear();
        for resource in [PODS, NODES] {
            let left: Vec<_> =
                self.store.objects(resource).map(|it| it["metadata"]["name"].clone()).collect();
            assert!(left.is_empty(), "{} are left: {left:?}", resource.kind);
        }
    }

    /// Counts what scheduler, plugins and informers hold, and the series of each metric.
    pub(crate) fn census(&self) -> Census {
        let mut sizes = census("scheduler", &self.scheduler);
        for plugin in self.profiles.iter().flat_map(|profile| profile.plugins.values()) {
            sizes.extend(census(&plugin.name, plugin));
        }
        let rendered = self.metrics.render();
        for line in rendered.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            *sizes.entry(format!("metrics.{name}")).or_default() += 1;
        }
        for informer in &self.informers {
            sizes.extend(census(&informer.name, &informer.reflector));
        }
        sizes
    }
}

impl Informer {
    fn new(kind: &WatchedKind, now: Time) -> Self {
        let target = ListWatch {
            path: kind.path.to_string(),
            field_selector: kind.field_selector.clone().map(Into::into),
        };
        let mut reflector = Reflector::new(target, Options::default(), SEED);
        reflector.start(now);
        let decoder = Decoder::new(kind.resource.clone(), Default::default());
        Self { name: kind.name.to_string(), reflector, decoder, watch: None }
    }

    fn covered_by(&self) -> Relist {
        match self.name.as_str() {
            "pods" => Relist::Pods,
            _ => Relist::Others,
        }
    }

    /// Passes on what the server sends. Returns whether there was something.
    fn step(
        &mut self,
        store: &mut Store,
        scheduler: &mut Scheduler,
        ports: &mut Ports<'_>,
        now: Time,
    ) -> bool {
        self.reflector.tick(now);
        self.read(store, now);
        let outputs: Vec<_> = self.reflector.take_outputs().collect();
        let is_active = !outputs.is_empty();
        for output in outputs {
            match output {
                Output::Open(call) => {
                    let request = api::Request::new("GET", &call.path, "");
                    let input = match store.serve(&request, now) {
                        Answer::Watch(watch) => {
                            self.watch = Some((call.id, watch));
                            Input::Opened(call.id)
                        }
                        Answer::Whole(api::Response { status: 200, body, .. }) => {
                            Input::Page(call.id, self.decoder.page(&body).unwrap())
                        }
                        Answer::Whole(api::Response { status, body, .. }) => {
                            Input::Error(call.id, status_error(status, None, &body))
                        }
                    };
                    self.reflector.step(input, now);
                }
                Output::Close(_) => {
                    if let Some((_, watch)) = self.watch.take() {
                        store.close(watch);
                    }
                }
                Output::Updated(_, update) => scheduler.apply(update.change, now, ports),
                Output::Deleted(meta) => scheduler.apply(self.decoder.deletion(meta), now, ports),
                Output::Relisted => scheduler.handle_relisted(self.covered_by()),
                Output::Synced => {}
                Output::Undecodable { message, .. } => panic!("{}: {message}", self.name),
            }
        }
        is_active
    }

    fn read(&mut self, store: &mut Store, now: Time) {
        let Some((call, watch)) = self.watch else { return };
        let frames = store.frames(watch, now);
        for line in &frames.lines {
            self.reflector.step(Input::Event(call, self.decoder.watch_event(line)), now);
        }
        if frames.ended {
            self.watch = None;
            self.reflector.step(Input::Closed(call), now);
        }
    }
}

/// An election whose leader renews its Lease rarely.
fn election() -> LeaderElection {
    let config = LeaderElectionConfig {
        identity: "process".to_owned(),
        namespace: "kube-system".to_owned(),
        name: "loadmaster".to_owned(),
        lease_duration: Duration::from_mins(3),
        renew_deadline: Duration::from_mins(2),
        retry_period: Duration::from_mins(1),
        level: None,
    };
    LeaderElection {
        elector: LeaderElector::new(config, SEED).unwrap(),
        reporting_controller: "default-scheduler".into(),
        delay_cache_until_active: false,
    }
}
