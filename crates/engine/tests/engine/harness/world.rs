//! The engine, the API server it talks to, and the time.

use framework::Attempt;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use engine::cycle::{Extender, Form};
use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::queue::Place;
use engine::{
    Change, Effect, EffectId, EffectKind, Engine, EngineConfig, EventType, Eviction, GroupSearch,
    Input, Outcome, TieBreak,
};
use framework::preemption::LONGEST_PAUSE;
use framework::*;
use testkit::{NodeBuilder, PodBuilder};

use super::{Extenders, Fake, Log, Recorder};

pub(crate) fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

/// A world with these plugins and three nodes, `a`, `b` and `c`.
pub(crate) fn world(plugins: impl IntoIterator<Item = Fake>) -> World {
    Setup::new(plugins).nodes(&["a", "b", "c"])
}

struct Sort;

impl QueueSort for Sort {
    fn less(&self, a: &QueuedEntity, b: &QueuedEntity, _: &Handle<'_>) -> bool {
        (b.priority(), a.history().timestamp) < (a.priority(), b.history().timestamp)
    }
}

struct DefaultBinder;

impl Bind for DefaultBinder {
    fn bind(&self, attempt: &Attempt<'_>, node: &str) -> BindStep {
        BindStep::Bind(Binding {
            pod: attempt.pod.key.clone(),
            uid: attempt.pod.uid.clone(),
            node: node.into(),
        })
    }
}

/// The settings of a world.
pub(crate) struct Setup {
    plugins: Vec<(Plugin, i32)>,
    log: Log,
    pub(crate) extenders: Vec<Extender>,
    pub(crate) percentage: i32,
    pub(crate) seed: u64,
    pub(crate) tie_break: TieBreak,
    pub(crate) form: Form,
    pub(crate) longest_pause: Duration,
    group_search: GroupSearch,
    gates: PluginGates,
    pub(crate) scheduler_name: &'static str,
}

impl Setup {
    /// One profile, `default-scheduler` unless it is renamed, with these plugins in this order, and
    /// with one that sorts and one that binds if none of them does. The best node is the first by
    /// name.
    pub(crate) fn new(plugins: impl IntoIterator<Item = Fake>) -> Self {
        let (log, mut sorts, mut binds, mut all) = (Log::default(), false, false, Vec::new());
        for fake in plugins {
            sorts |= fake.sorts();
            binds |= fake.binds();
            let weight = fake.weight_of_scores();
            all.push((fake.plugin(&log), weight));
        }
        if !sorts {
            all.push((Plugin::new("Sort", Sort).queue_sort().build(), 0));
        }
        if !binds {
            all.push((Plugin::new("DefaultBinder", DefaultBinder).bind().build(), 0));
        }
        Self {
            plugins: all,
            log,
            extenders: Vec::new(),
            percentage: 0,
            seed: 0,
            tie_break: TieBreak::FirstByName,
            form: Form::Set,
            longest_pause: LONGEST_PAUSE,
            group_search: GroupSearch::default(),
            gates: PluginGates::default(),
            scheduler_name: "default-scheduler",
        }
    }

    /// Follows this version of Kubernetes.
    pub(crate) fn level(self, level: Level) -> Self {
        Self { gates: PluginGates::at(level), ..self }
    }

    /// Decides about the pods of a PodGroup together.
    pub(crate) fn pod_groups(mut self) -> Self {
        self.gates.generic_workload = true;
        self.gates.workload_aware_preemption = true;
        self
    }

    /// Decides groups together, and none of them whole, as without the gate GangScheduling of 1.36.
    pub(crate) fn basic_pod_groups(mut self) -> Self {
        self.gates.only_basic_groups = true;
        self.pod_groups()
    }

    /// Searches for other orders of the members of a group with these limits.
    pub(crate) fn group_search(self, group_search: GroupSearch) -> Self {
        Self { group_search, ..self }
    }

    /// Schedules the pods of a PodGroup one by one.
    pub(crate) fn members_alone(mut self) -> Self {
        self.gates.group_members_alone = true;
        self
    }

    /// Adds a plugin that is no fake, behind all others.
    pub(crate) fn plugin(mut self, plugin: Plugin) -> Self {
        self.plugins.push((plugin, 0));
        self
    }

    /// The world without nodes.
    pub(crate) fn build(self) -> World {
        let mut registry = Registry::new().with_gates(self.gates);
        let mut defaults = Vec::new();
        for (plugin, weight) in self.plugins {
            defaults.push(PluginRef::new(&plugin.name, weight));
            let name = plugin.name.clone();
            registry.register(&name, move |_| Ok(plugin.clone())).expect("names are unique");
        }
        let profile = SchedulerProfile {
            scheduler_name: self.scheduler_name.to_owned(),
            ..SchedulerProfile::default()
        };
        let extended = !self.extenders.is_empty();
        let profiles = Profiles::build(&[profile], &defaults, &registry, extended)
            .expect("the profile is in order");
        let mut config = EngineConfig::new(profiles);
        config.extenders = self.extenders;
        config.percentage_of_nodes_to_score = self.percentage;
        config.seed = self.seed;
        config.tie_break = self.tie_break;
        config.form = self.form;
        config.longest_preemption_pause = self.longest_pause;
        config.group_search = self.group_search;
        World {
            engine: Engine::new(config),
            now: Time::from_secs(1000),
            extenders: Extenders::default(),
            probe: Recorder::default(),
            log: self.log,
            history: Vec::new(),
            open: VecDeque::new(),
            server: BTreeMap::new(),
            version: 0,
        }
    }

    /// The world with these nodes.
    pub(crate) fn nodes(self, names: &[&str]) -> World {
        let mut world = self.build();
        for name in names {
            world.node(testkit::node(name));
        }
        world
    }
}

/// The engine and everything around it.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Time,
    pub(crate) extenders: Extenders,
    pub(crate) probe: Recorder,
    pub(crate) log: Log,
    /// All effects.
    pub(crate) history: Vec<Effect>,
    /// Effects that are not carried out.
    pub(crate) open: VecDeque<Effect>,
    /// The pods the API server knows.
    pub(crate) server: BTreeMap<PodKey, api::Pod>,
    version: u64,
}

/// Inputs.
impl World {
    /// Calls into the engine and collects what it wants done.
    pub(crate) fn on<T>(&mut self, call: impl FnOnce(&mut Engine, Time, &mut Ports<'_>) -> T) -> T {
        let ports = &mut Ports { extenders: &mut self.extenders, probe: &mut self.probe };
        let answer = call(&mut self.engine, self.now, ports);
        let effects = self.engine.take_effects();
        self.history.extend(effects.iter().cloned());
        self.open.extend(effects);
        answer
    }

    pub(crate) fn apply(&mut self, change: Change) {
        self.on(|engine, now, ports| engine.step(Input::Change(change), now, ports));
    }

    /// A node appears or changes.
    pub(crate) fn node(&mut self, node: NodeBuilder) {
        self.apply(Change::Node(node.build()));
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        self.apply(Change::NodeDeleted(name.into()));
    }

    /// A pod is created, or replaced, and the engine sees it.
    pub(crate) fn pod(&mut self, pod: PodBuilder) {
        let key = self.store(pod.api());
        self.show(&key);
    }

    /// The API server stores a pod under a new version.
    pub(crate) fn store(&mut self, mut pod: api::Pod) -> PodKey {
        self.version += 1;
        pod.metadata.resource_version = self.version.to_string();
        let key = PodKey::new(&pod.metadata.namespace, &pod.metadata.name);
        self.server.insert(key.clone(), pod);
        key
    }

    /// The API server changes a pod; the engine does not see it yet.
    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut api::Pod)) {
        let mut pod = self.server[&self.key_of(name)].clone();
        change(&mut pod);
        self.store(pod);
    }

    /// The watch shows the pod as it is.
    pub(crate) fn see(&mut self, name: &str) {
        self.show(&self.key_of(name));
    }

    /// The key of a pod, whatever its namespace is.
    fn key_of(&self, name: &str) -> PodKey {
        let known = self.server.keys().find(|own| &*own.name == name);
        known.cloned().unwrap_or_else(|| key(name))
    }

    fn show(&mut self, pod: &PodKey) {
        let json = serde_json::to_value(&self.server[pod]).expect("a pod is JSON");
        let pod = Pod::from_json(&json, &self.engine.profiles().extra_fields());
        let pod = pod.expect("the JSON of a pod is a pod");
        self.apply(Change::Pod(Box::new(pod)));
    }

    /// The API server changes a pod and the watch shows it.
    pub(crate) fn update(&mut self, name: &str, change: impl FnOnce(&mut api::Pod)) {
        self.change(name, change);
        self.see(name);
    }

    /// The pod gets its deletion timestamp.
    pub(crate) fn terminate(&mut self, name: &str) {
        let now = Some("2025-06-01T12:00:00Z".to_owned());
        self.update(name, |pod| pod.metadata.deletion_timestamp = now);
    }

    /// The budget of the pods labelled `app: web` allows so many evictions.
    pub(crate) fn budget(&mut self, disruptions_allowed: i32) {
        self.version += 1;
        let version = self.version.to_string();
        let budget = serde_json::json!({
            "metadata": { "namespace": "default", "name": "web", "resourceVersion": version },
            "spec": { "selector": { "matchLabels": { "app": "web" } } },
            "status": { "disruptionsAllowed": disruptions_allowed },
        });
        let budget = testkit::object(EventResource::PodDisruptionBudget, budget);
        self.apply(Change::Object(Box::new(budget)));
    }

    /// The API server has come as far as this other world, whose engine caused that.
    pub(crate) fn catch_up_with(&mut self, other: &Self) {
        let uid = |pod: &api::Pod| pod.metadata.uid.clone();
        let stays = |key, pod| other.server.get(key).map(uid) == Some(uid(pod));
        let gone = self.server.iter().filter(|(key, pod)| !stays(key, pod));
        let gone: Vec<PodKey> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.delete(&key.name));
        for (key, pod) in &other.server {
            let version = |pod: &api::Pod| pod.metadata.resource_version.clone();
            if self.server.get(key).map(version) != Some(version(pod)) {
                self.server.insert(key.clone(), pod.clone());
                self.see(&key.name);
            }
        }
        self.version = other.version;
    }

    /// The pod is gone, and the watch shows it.
    pub(crate) fn delete(&mut self, name: &str) {
        let pod = self.server.remove(&key(name)).expect("the pod exists");
        let uid = Uid::from(pod.metadata.uid.as_str());
        self.apply(Change::PodDeleted { key: key(name), uid });
    }

    pub(crate) fn answer(&mut self, effect: EffectId, answer: &Answer) {
        self.on(|engine, now, ports| {
            engine.step(Input::Answer { effect, answer: answer.clone() }, now, ports)
        });
    }

    /// One attempt with the next pod.
    pub(crate) fn try_attempt(&mut self) -> Option<Outcome> {
        let attempt =
            self.on(|engine, now, ports| engine.step(Input::Schedule, now, ports).attempt())?;
        Some(attempt.outcome)
    }

    /// One attempt with the next pod, which must exist.
    #[track_caller]
    pub(crate) fn attempt(&mut self) -> Outcome {
        self.try_attempt().expect("a pod is ready")
    }

    /// A new pod and the attempt with it.
    #[track_caller]
    pub(crate) fn schedule(&mut self, pod: PodBuilder) -> Outcome {
        self.pod(pod);
        self.attempt()
    }

    /// Time passes, and nothing but what is due happens.
    pub(crate) fn pass(&mut self, seconds: u64) {
        self.pass_for(Duration::from_secs(seconds));
    }

    #[track_caller]
    pub(crate) fn pass_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.engine.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.tick();
        }
        self.now = end;
        self.tick();
    }

    /// What is due is done, so that the next deadline lies ahead.
    #[track_caller]
    pub(crate) fn tick(&mut self) {
        self.on(|engine, now, ports| engine.step(Input::Tick, now, ports));
        let due = self.engine.next_deadline();
        assert!(due.is_none_or(|due| due > self.now), "still due after a tick: {due:?}");
    }
}

/// Effects and the API server.
impl World {
    /// Tries every pod that is ready and carries out every effect, until all is quiet.
    #[track_caller]
    pub(crate) fn run(&mut self) {
        for _ in 0..100_000 {
            if self.try_attempt().is_some() {
                continue;
            }
            let Some(effect) = self.open.pop_front() else { return };
            self.carry_out(effect);
        }
        panic!("the engine does not come to rest");
    }

    /// Runs for a while: what becomes due is done, and everything that follows from it.
    #[track_caller]
    pub(crate) fn run_for(&mut self, seconds: u64) {
        self.run();
        for _ in 0..seconds {
            self.pass(1);
            self.run();
        }
    }

    pub(crate) fn carry_out(&mut self, effect: Effect) {
        match effect.kind {
            EffectKind::Bind { binding, .. } | EffectKind::ExtenderBind { binding, .. } => {
                let answer = self.bind_on_server(&binding);
                self.answer(effect.id, &answer);
                if answer == Answer::ok() {
                    self.see(&binding.pod.name);
                }
            }
            EffectKind::Write(_) => self.answer(effect.id, &Answer::ok()),
            EffectKind::Evict(eviction) => {
                let answer = self.evict_on_server(&eviction);
                self.answer(effect.id, &answer);
                if answer == Answer::ok() {
                    self.delete(&eviction.pod.name);
                }
            }
            EffectKind::ReadPod { pod, .. } => {
                let answer = self.read_on_server(&pod);
                self.answer(effect.id, &answer);
            }
            EffectKind::Fence { ref pod, .. } => {
                let (name, answer) = (pod.name.clone(), self.fence_on_server(&effect.kind));
                self.answer(effect.id, &answer);
                if matches!(answer, Answer::Ok(_)) {
                    self.see(&name);
                }
            }
            EffectKind::PatchPodStatus { pod, uid, patch, .. } => {
                if self.patch_on_server(&pod, &uid, &patch) {
                    self.see(&pod.name);
                }
            }
            EffectKind::TouchPod { .. }
            | EffectKind::Event(_)
            | EffectKind::PlanMoves(_)
            | EffectKind::RequestEviction { .. } => {}
        }
    }

    /// What the API server makes of a Binding.
    pub(crate) fn bind_on_server(&mut self, binding: &Binding) -> Answer {
        let Some(pod) = self.server.get(&binding.pod) else {
            return Answer::Gone(format!("pods {:?} not found", &*binding.pod.name));
        };
        if Uid::from(pod.metadata.uid.as_str()) != binding.uid {
            return Answer::Conflict("the UID in the precondition does not match".to_owned());
        }
        if pod.metadata.deletion_timestamp.is_some() || !pod.spec.node_name.is_empty() {
            return Answer::Conflict(format!("pod {} is already assigned", &*binding.pod.name));
        }
        self.change(&binding.pod.name, |pod| {
            pod.spec.node_name = binding.node.to_string();
            pod.status.nominated_node_name.clear();
        });
        Answer::ok()
    }

    /// What the API server makes of an eviction, but for the end of the pod.
    pub(crate) fn evict_on_server(&self, eviction: &Eviction) -> Answer {
        let known = self.server.get(&eviction.pod);
        match known.is_some_and(|pod| Uid::from(&*pod.metadata.uid) == eviction.uid) {
            true => Answer::ok(),
            false => Answer::Gone(format!("pods {:?} not found", &*eviction.pod.name)),
        }
    }

    pub(crate) fn read_on_server(&self, key: &PodKey) -> Answer {
        match self.server.get(key) {
            Some(pod) => Answer::Ok(serde_json::to_value(pod).ok()),
            None => Answer::Gone(format!("pods {:?} not found", &*key.name)),
        }
    }

    /// What the API server makes of the fence after a bind of unknown outcome.
    pub(crate) fn fence_on_server(&mut self, fence: &EffectKind) -> Answer {
        let EffectKind::Fence { pod, uid, resource_version, condition, .. } = fence else {
            panic!("{fence:?} is no fence");
        };
        if self.server.contains_key(pod) && self.version_of(&pod.name) != *resource_version {
            return Answer::Conflict("the object has been modified".to_owned());
        }
        let condition = Some(condition.clone());
        let patch = StatusPatch { condition, nominated_node_name: None };
        match self.patch_on_server(pod, uid, &patch) {
            true => self.read_on_server(pod),
            false => Answer::Gone(format!("pods {:?} not found", &*pod.name)),
        }
    }

    /// Returns whether there was such a pod.
    pub(crate) fn patch_on_server(&mut self, key: &PodKey, uid: &Uid, patch: &StatusPatch) -> bool {
        let known = self.server.get(key).is_some_and(|pod| Uid::from(&*pod.metadata.uid) == *uid);
        if !known {
            return false;
        }
        self.change(&key.name, |pod| {
            if let Some(node) = &patch.nominated_node_name {
                pod.status.nominated_node_name = node.to_string();
            }
            if let Some(condition) = &patch.condition {
                pod.status.conditions.retain(|condition| condition.type_ != "PodScheduled");
                pod.status.conditions.push(api::PodCondition {
                    type_: "PodScheduled".to_owned(),
                    status: if condition.status { "True" } else { "False" }.to_owned(),
                    reason: condition.reason.to_string(),
                    message: condition.message.to_string(),
                });
            }
        });
        true
    }

    /// The last effect that is not carried out yet and of this kind; it is taken off the list.
    #[track_caller]
    pub(crate) fn take_open(&mut self, is_meant: impl Fn(&EffectKind) -> bool) -> Effect {
        let place = self.open.iter().rposition(|effect| is_meant(&effect.kind));
        self.open.remove(place.expect("such an effect was asked for")).expect("the place exists")
    }

    /// The open Bind of a pod.
    #[track_caller]
    pub(crate) fn take_bind(&mut self, name: &str) -> (EffectId, Binding) {
        let is_meant = |kind: &EffectKind| matches!(kind, EffectKind::Bind { binding, .. } if *binding.pod.name == *name);
        let effect = self.take_open(is_meant);
        let EffectKind::Bind { binding, .. } = effect.kind else {
            unreachable!("only binds are meant")
        };
        (effect.id, binding)
    }

    /// The open Bind of a pod, and the resourceVersion that it names.
    #[track_caller]
    pub(crate) fn take_bind_at(&mut self, name: &str) -> (EffectId, u64) {
        let (id, _) = self.take_bind(name);
        let bind = self.history.iter().find(|effect| effect.id == id);
        let Some(EffectKind::Bind { resource_version, .. }) = bind.map(|bind| &bind.kind) else {
            unreachable!("the effect is a bind")
        };
        (id, *resource_version)
    }

    /// The resourceVersion of the pod on the server.
    pub(crate) fn version_of(&self, name: &str) -> u64 {
        self.server[&key(name)].metadata.resource_version.parse().expect("versions are numbers")
    }

    /// The open eviction of a pod.
    #[track_caller]
    pub(crate) fn take_eviction(&mut self, name: &str) -> (EffectId, Eviction) {
        let is_meant =
            |kind: &EffectKind| matches!(kind, EffectKind::Evict(e) if *e.pod.name == *name);
        let effect = self.take_open(is_meant);
        let EffectKind::Evict(eviction) = effect.kind else { unreachable!("only evictions") };
        (effect.id, eviction)
    }

    /// Names of the pods whose eviction is not carried out.
    pub(crate) fn open_evictions(&self) -> Vec<&str> {
        let open = self.open.iter().filter_map(|effect| match &effect.kind {
            EffectKind::Evict(eviction) => Some(&*eviction.pod.name),
            _ => None,
        });
        open.collect()
    }

    /// Names of the pods whose eviction was requested.
    pub(crate) fn evictions(&self) -> Vec<&str> {
        let asked = self.history.iter().filter_map(|effect| match &effect.kind {
            EffectKind::Evict(eviction) => Some(&*eviction.pod.name),
            _ => None,
        });
        asked.collect()
    }

    /// The open ReadPod.
    #[track_caller]
    pub(crate) fn take_read(&mut self) -> EffectId {
        self.take_open(|kind| matches!(kind, EffectKind::ReadPod { .. })).id
    }

    /// The open Fence.
    #[track_caller]
    pub(crate) fn take_fence(&mut self) -> Effect {
        self.take_open(|kind| matches!(kind, EffectKind::Fence { .. }))
    }

    /// The open Write.
    #[track_caller]
    pub(crate) fn take_write(&mut self) -> EffectId {
        self.take_open(|kind| matches!(kind, EffectKind::Write(_))).id
    }
}

/// Accessors.
impl World {
    /// Where the pod is.
    pub(crate) fn place(&self, name: &str) -> &'static str {
        let key = key(name);
        let uid = self.server.get(&key).map(|pod| Uid::from(pod.metadata.uid.as_str()));
        let uid = uid.as_ref();
        match self.engine.queue().get(&key) {
            Some((Place::Active, _)) => return "active",
            Some((Place::Backoff, _)) => return "backoff",
            Some((Place::ErrorBackoff, _)) => return "error backoff",
            Some((Place::Unschedulable, _)) => return "unschedulable",
            Some((Place::Gated, _)) => return "gated",
            None => {}
        }
        let world = self.engine.world();
        match uid {
            Some(uid) if world.is_assumed(uid) => "assumed",
            Some(uid) if world.placed(uid).is_some() => "placed",
            _ => "nowhere",
        }
    }

    /// The node the cache has the pod on.
    pub(crate) fn node_of(&self, name: &str) -> Option<String> {
        let world = self.engine.world();
        let pods = world.cluster().pods();
        let mut placed = pods.filter(|placed| *placed.pod.key.name == *name);
        placed.next().map(|placed| world.cluster().node_name(placed.node).to_string())
    }

    /// `Type Reason Action: note` of every event.
    pub(crate) fn events(&self) -> Vec<String> {
        let events = self.history.iter().filter_map(|effect| match &effect.kind {
            EffectKind::Event(event) => Some(event),
            _ => None,
        });
        events
            .map(|event| {
                let event_type = match event.event_type {
                    EventType::Normal => "Normal",
                    EventType::Warning => "Warning",
                };
                format!("{event_type} {} {}: {}", event.reason, event.action, event.note)
            })
            .collect()
    }

    /// The status patches for a pod.
    pub(crate) fn patches(&self, name: &str) -> Vec<StatusPatch> {
        let patches = self.history.iter().filter_map(|effect| match &effect.kind {
            EffectKind::PatchPodStatus { pod, patch, .. } if *pod.name == *name => Some(patch),
            _ => None,
        });
        patches.cloned().collect()
    }

    /// `Reason: message` of the last condition asked for.
    pub(crate) fn condition(&self, name: &str) -> Option<String> {
        let mut conditions = self.patches(name).into_iter().filter_map(|patch| patch.condition);
        let condition = conditions.next_back()?;
        assert!(!condition.status, "the scheduler never says that a pod is scheduled");
        Some(format!("{}: {}", condition.reason, condition.message))
    }

    /// Names of the plugins on record as rejectors of a queued pod.
    pub(crate) fn rejectors(&self, name: &str) -> Vec<String> {
        let (_, queued) = self.engine.queue().get(&key(name)).expect("the pod is queued");
        queued.history.unschedulable_plugins.iter().map(ToString::to_string).collect()
    }
}
