//! One run of the scheduler, from start to crash: the daemon without I/O.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::api_dispatcher::{ApiDispatcher, Limits};
use client::event_recorder::{self, EventRecorder};
use client::leader_election::{LeaderElectionConfig, LeaderElector};
use client::reflector::{CallId, ListWatch, Options, Output, Reflector};
use client::scheduler::{LeaderElection, Relist, RequestSource, Scheduler};
use client::{Reply, RequestId};
use engine::ports::Ports;
use engine::{Attempt, Change, Engine, EngineConfig};
use fastrand::Rng;
use framework::preemption::Preemption;
use framework::{NominatedPods, Pod, Time, Uid};
use loadmaster::config::{self, Gates};
use loadmaster::wire::{Decoder, Update, watched_kinds};
use sandbox::api::WatchId;
use serde_json::{Value, json};

use super::churn::nodes::ZONE;
use super::decisions;
use super::oracle::{Budgets, Related, gives_volumes};
use super::patience;
use super::preemptions::Foreseen;
use super::rules::{Checked, rule};
use super::server::{DEFAULT, SPREADING};
use super::view::View;
use super::wake_ups::{self, WakeUps};

/// Skew that the default constraints of the profile [`SPREADING`] allow.
pub(crate) const DEFAULT_MAX_SKEW: i32 = 1;

/// One run of the scheduler.
pub(crate) struct Replica {
    /// Number of the run.
    pub(crate) life: u32,
    /// The scheduler.
    pub(crate) scheduler: Scheduler,
    /// Its informers.
    pub(crate) informers: Vec<Informer>,
    /// UIDs of the pods that had a node at start, until the first decision.
    pub(crate) found: Vec<Uid>,
    /// The reported namespaces, Services and controllers.
    pub(crate) related: Related,
    /// Number of pods that changes requeued.
    pub(crate) wake_ups: WakeUps,
    unsynced: usize,
    /// Number of informers of other kinds than pods that have not listed again.
    unlisted: usize,
    /// Whether volumes were assumed.
    gave_volumes: bool,
    /// The nominated pods, with their nodes.
    nominations: BTreeSet<(Uid, String)>,
    /// The victims chosen in this run.
    victims: BTreeSet<Uid>,
    /// The last time at which a nomination ended.
    unnominated: Time,
}

/// An attempt to schedule a pod.
pub(crate) struct Decided {
    /// The attempt.
    pub(crate) attempt: Attempt,
    /// The evictions that it began.
    pub(crate) preemption: Option<Preemption>,
}

/// The informer of one kind.
pub(crate) struct Informer {
    /// The reflector of the kind.
    pub(crate) reflector: Reflector<Update>,
    /// Whether the kind is pods.
    is_of_pods: bool,
    /// The decoder of its objects.
    pub(crate) decoder: Decoder,
    /// The objects it has reported.
    pub(crate) view: View,
    /// The open stream, if there is one.
    pub(crate) stream: Option<Stream>,
}

/// An open watch stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The call that opened the stream.
    pub(crate) call: CallId,
    /// The server's end of the stream.
    pub(crate) watch: WatchId,
    /// Arrival time of the last part: parts do not overtake each other.
    pub(crate) last: Time,
    /// Whether the stream has stalled.
    pub(crate) stalled: bool,
}

impl Informer {
    fn group(&self) -> Relist {
        if self.is_of_pods { Relist::Pods } else { Relist::Others }
    }
}

impl Replica {
    /// Starts a scheduler. With `elects` it takes part in the election of the leader.
    pub(crate) fn start(life: u32, seed: u64, elects: bool, found: Vec<Uid>, now: Time) -> Self {
        let engine = new_engine(seed);
        let kinds = watched_kinds(engine.profiles());
        let mut rng = Rng::with_seed(seed);
        let api_dispatcher = ApiDispatcher::new(limits(&mut rng), seed);
        let max_in_flight = rng.usize(1..5);
        let recorder_options =
            event_recorder::Options { max_in_flight, ..event_recorder::Options::default() };
        let event_recorder = EventRecorder::new(recorder_options, seed);
        let mut informers = Vec::new();
        for (number, kind) in (0..).zip(&kinds) {
            let target = ListWatch {
                path: kind.path.to_string(),
                field_selector: kind.field_selector.map(str::to_owned),
            };
            let is_of_pods = &*kind.name == "pods";
            let options = Options { starts_with_latest: is_of_pods, ..options(&mut rng) };
            let mut reflector = Reflector::new(target, options, seed ^ number);
            reflector.start(now);
            let decoder = Decoder::new(kind.resource.clone(), Default::default());
            informers.push(Informer {
                reflector,
                is_of_pods,
                decoder,
                view: View::default(),
                stream: None,
            });
        }
        let mut scheduler = Scheduler::new(engine, api_dispatcher, event_recorder);
        if elects {
            scheduler = scheduler.with_leader_election(election(life, seed));
        }
        Self {
            life,
            scheduler,
            unsynced: informers.len(),
            unlisted: 0,
            informers,
            found,
            related: Related::default(),
            wake_ups: WakeUps::default(),
            gave_volumes: false,
            nominations: BTreeSet::new(),
            victims: BTreeSet::new(),
            unnominated: now,
        }
    }

    /// Returns the next deadline.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let reflectors =
            self.informers.iter().filter_map(|informer| informer.reflector.next_deadline());
        reflectors.chain(self.scheduler.next_deadline()).min()
    }

    /// Carries out what is due.
    ///
    /// # Errors
    /// A pod was not requeued in time.
    pub(crate) fn tick(&mut self, now: Time) -> Checked {
        for informer in &mut self.informers {
            informer.reflector.tick(now);
        }
        self.scheduler.tick(now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.nobody_oversleeps(now, || "time passes".to_owned())
    }

    /// Takes in the reply to a request.
    ///
    /// # Errors
    /// A pod was not requeued in time.
    pub(crate) fn reply(
        &mut self,
        source: RequestSource,
        id: RequestId,
        reply: Reply,
        now: Time,
    ) -> Checked {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        self.scheduler.handle_reply(source, id, reply, now, ports);
        self.nobody_oversleeps(now, || format!("a request of the {source:?} is replied to"))
    }

    /// Tries the next pod, if decisions are allowed now.
    ///
    /// # Errors
    /// The decision violates a rule.
    pub(crate) fn decide(&mut self, now: Time) -> Result<Option<Decided>, String> {
        let foreseen = Foreseen::by(self.scheduler.engine_mut(), &self.related, now)?;
        let highest = decisions::highest_priority(self.scheduler.engine());
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let Some(attempt) = self.scheduler.schedule_one(now, ports) else { return Ok(None) };
        decisions::after_decision(self.scheduler.engine(), &self.related, &attempt, highest)?;
        let preemption = foreseen.after(&attempt, self.scheduler.engine())?;
        if let Some(preemption) = &preemption {
            self.are_counted(&preemption.victims)?;
        }
        self.nobody_oversleeps(now, || format!("{} is tried", attempt.pod.key))?;
        Ok(Some(Decided { attempt, preemption }))
    }

    /// Checks that the budgets of victims count the new evictions. Earlier victims may be counted
    /// by the status already, and victims without a bind were rejected in memory.
    fn are_counted(&mut self, victims: &[Arc<Pod>]) -> Checked {
        let engine = self.scheduler.engine();
        let budgets = Budgets::of_engine(engine, &self.related);
        for victim in victims.iter().filter(|victim| !victim.terminating) {
            let is_new = self.victims.insert(victim.uid.clone());
            let is_counted =
                budgets.all_count(victim) || engine.cache().placed(&victim.uid).is_none();
            rule(!is_new || is_counted, || {
                format!("a budget ignores the eviction of {}", victim.key)
            })?;
        }
        Ok(())
    }

    /// Checks that every pod that the `latest` input should requeue is requeued.
    fn nobody_oversleeps(&mut self, now: Time, latest: impl FnOnce() -> String) -> Checked {
        let engine = self.scheduler.engine();
        let nominations = nominations(engine);
        if !self.nominations.is_subset(&nominations) {
            self.unnominated = now;
        }
        self.nominations = nominations;
        wake_ups::parked_pods_fit_nowhere(engine, &self.related, self.unnominated)
            .map_err(|asleep| format!("{asleep}: {}", latest()))
    }

    /// Checks that volumes that are no longer assumed are available to all pods.
    ///
    /// # Errors
    /// A volume is withheld.
    pub(crate) fn no_volumes_are_kept(&mut self, now: Time) -> Checked {
        let gives_volumes = gives_volumes(self.scheduler.engine());
        match std::mem::replace(&mut self.gave_volumes, gives_volumes) && !gives_volumes {
            true => self.counts_are_right(now),
            false => Ok(()),
        }
    }

    /// Checks that incremental counts equal counts from scratch.
    ///
    /// # Errors
    /// A decision depends on the difference.
    pub(crate) fn counts_are_right(&mut self, now: Time) -> Checked {
        let mut fresh = new_engine(0);
        let engine = self.scheduler.engine();
        let cluster = engine.cache().cluster();
        let nodes = cluster.nodes().iter().map(|node| Change::Node(cluster.to_node(node)));
        let pods = cluster.pods().map(|placed| Change::Pod(Box::new(Pod::clone(&placed.pod))));
        for change in self.related.changes().chain(nodes).chain(pods) {
            fresh.apply(change, now, &mut Ports { extenders: &mut (), probe: &mut () });
        }
        decisions::forms_agree(self.scheduler.engine_mut(), &mut fresh, &self.related, now)
    }

    /// Returns whether all informers have synced.
    pub(crate) const fn is_synced(&self) -> bool {
        self.unsynced == 0
    }

    /// Passes the changes that informers report to the scheduler. Calls to open and close go to
    /// `calls`.
    pub(crate) fn learn(&mut self, calls: &mut Vec<(usize, Output<Update>)>, now: Time) -> Checked {
        for number in 0..self.informers.len() {
            let outputs: Vec<_> = self.informers[number].reflector.take_outputs().collect();
            for output in outputs {
                let informer = &mut self.informers[number];
                match output {
                    Output::Updated(meta, Update { change, .. }) => {
                        informer.view.changed(&meta)?;
                        self.take_in(change, now)?;
                    }
                    Output::Deleted(meta) => {
                        informer.view.deleted(&meta)?;
                        let change = informer.decoder.deletion(meta);
                        self.take_in(change, now)?;
                    }
                    Output::Synced => self.unsynced -= 1,
                    Output::Relisted => self.relisted(number),
                    Output::Undecodable { message, .. } => {
                        panic!("an object was skipped: {message}")
                    }
                    call => calls.push((number, call)),
                }
            }
        }
        if self.is_synced() {
            let ports = &mut Ports { extenders: &mut (), probe: &mut () };
            self.scheduler.set_synced(now, ports);
        }
        Ok(())
    }

    /// Lists the kinds again that the scheduler asks for.
    pub(crate) fn relist(&mut self, now: Time) {
        for group in self.scheduler.take_relists() {
            if group == Relist::Others {
                self.unlisted = self.informers.len() - 1;
            }
            for informer in &mut self.informers {
                if informer.group() == group {
                    informer.reflector.relist(now);
                }
            }
        }
    }

    fn relisted(&mut self, informer: usize) {
        let group = self.informers[informer].group();
        if group == Relist::Others {
            self.unlisted -= 1;
        }
        if group == Relist::Pods || self.unlisted == 0 {
            self.scheduler.handle_relisted(group);
        }
    }

    /// Passes a change to the scheduler, and counts the pods that it requeues.
    fn take_in(&mut self, change: Change, now: Time) -> Checked {
        if let Change::Object { kind, namespace, name, object } = &change {
            let key = (kind.clone(), namespace.clone(), name.clone());
            self.related.set(key, object.as_ref());
        }
        let latest = described(&change);
        let parked = wake_ups::parked(self.scheduler.engine());
        self.scheduler.apply(change, now, &mut Ports { extenders: &mut (), probe: &mut () });
        self.wake_ups += WakeUps::among(&parked, self.scheduler.engine(), &self.related);
        self.nobody_oversleeps(now, || latest)
    }
}

/// Returns the nominated pods, with their nodes.
fn nominations(engine: &Engine) -> BTreeSet<(Uid, String)> {
    let nominator = engine.nominator();
    let nominated = nominator.nodes().flat_map(|node| {
        let pods = nominator.nominated_to(node);
        pods.into_iter().map(move |pod| (pod.uid.clone(), node.to_owned()))
    });
    nominated.collect()
}

/// Returns the object of a change.
fn described(change: &Change) -> String {
    match change {
        Change::Node(node) => format!("node {} is {node:?}", node.name),
        Change::NodeDeleted(name) => format!("node {name} is gone"),
        Change::Pod(pod) => {
            format!("pod {} has {:?} and is at {:?}", pod.key, pod.labels, pod.node_name)
        }
        Change::PodDeleted { key, .. } => format!("pod {key} is gone"),
        Change::Object { kind, namespace, name, object } => {
            format!("{kind:?} {namespace}/{name} is {object:?}")
        }
    }
}

/// Creates an engine with the default plugins and a plugin that waits. It has two profiles; one of
/// them has default spread constraints.
fn new_engine(seed: u64) -> Engine {
    let text = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile(DEFAULT, json!([patience_for_volumes(20)])), profile(SPREADING, json!([
            patience_for_volumes(8),
            {"name": "PodTopologySpread",
                "args": {"defaultingType": "List", "defaultConstraints": [{"topologyKey": ZONE,
                    "maxSkew": DEFAULT_MAX_SKEW, "whenUnsatisfiable": "DoNotSchedule"}]}},
        ]))],
    });
    let loaded = config::load(&text.to_string(), &Gates::default());
    let config = loaded.expect("the configuration is valid").config;
    let mut registry = plugins::registry();
    registry.register(patience::NAME, patience::plugin).expect("the name is free");
    let profiles = config.build_profiles(&registry).expect("every plugin is there");
    Engine::new(EngineConfig { seed, queue: config.queue(), ..EngineConfig::new(profiles) })
}

fn profile(name: &str, plugin_config: Value) -> Value {
    json!({"schedulerName": name, "pluginConfig": plugin_config,
        "plugins": {"multiPoint": {"enabled": [{"name": patience::NAME}]}}})
}

/// Seconds that pods wait for their volumes.
fn patience_for_volumes(seconds: u32) -> Value {
    json!({"name": "VolumeBinding", "args": {"bindTimeoutSeconds": seconds}})
}

/// The election with the defaults of kube-scheduler.
fn election(life: u32, seed: u64) -> LeaderElection {
    let config = LeaderElectionConfig {
        identity: format!("process-{life}"),
        namespace: "kube-system".to_owned(),
        name: DEFAULT.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    LeaderElection {
        elector: LeaderElector::new(config, seed).expect("the settings are safe"),
        reporting_controller: DEFAULT.into(),
        delay_cache_until_active: false,
    }
}

/// Limits that take effect, unlike the defaults.
fn limits(rng: &mut Rng) -> Limits {
    let qps = rng.bool().then_some(20.0);
    Limits { max_in_flight: rng.usize(1..20), qps, burst: 5, ..Limits::default() }
}

/// Streaming lists, or paged lists with small pages.
fn options(rng: &mut Rng) -> Options {
    Options { watch_list: rng.bool(), page_size: rng.u32(1..8), ..Options::default() }
}
