//! The engine alone with preemption: few pods of three priorities on small nodes, evictions that fail, are late or come to
//! nothing, victims that wait in Permit, budgets, and others that take the room.
//!
//! The oracle of the whole world judges decisions and victims. The model of a preemption says which evictions may be
//! requested when: those of all victims but the last at once, that of the last one after the others, and none if one fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::queue::Place;
use engine::{Attempt, Change, EffectId, EffectKind, Engine, EngineConfig, Eviction, Outcome};
use fastrand::Rng;
use framework::preemption::{FruitlessPreemptions, Preemption};
use framework::testing::{bound_claim, csi_node, node, pod, volume};
use framework::{
    Answer, Binding, CycleState, EventResource, Handle, Node, NominatedPods, Permit, PermitVerdict,
    Plugin, Pod, PodKey, Time, Uid, api,
};
use recording::RecordedEngine;
use serde_json::{Value, json};

use super::super::oracle::{Budgets, Oracle, Related};
use super::super::preemptions::Foreseen;
use super::super::rules::{Checked, rule};

const NODES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 6] = ["p0", "p1", "p2", "p3", "p4", "p5"];
/// The longest pause of preemption.
const LONGEST_PAUSE: Duration = Duration::from_secs(40);
/// Time that a pod waits in Permit.
const PATIENCE: Duration = Duration::from_secs(30);

/// Claims, each of which is bound to a volume.
const CLAIMS: [&str; 3] = ["c0", "c1", "c2"];

const PLUGINS: [&str; 8] = [
    "PrioritySort",
    "NodeUnschedulable",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "DefaultPreemption",
    "DefaultBinder",
];

/// Lives through one history.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    for _ in 0..history.random.usize(10..60) {
        history.act(trace)?;
        history.check()?;
    }
    history.calm_down(trace)
}

/// Lets pods with the label `waits` wait in Permit, until all calms down.
struct Waits(Arc<AtomicBool>);

impl Permit for Waits {
    fn permit(&self, _: &mut CycleState, pod: &Pod, _: &str, _: &Handle<'_>) -> PermitVerdict {
        match pod.labels.get("waits") {
            Some(_) if !self.0.load(Ordering::Relaxed) => {
                PermitVerdict::Wait { timeout: PATIENCE, reason: "waits".to_owned() }
            }
            _ => PermitVerdict::Allow,
        }
    }
}

struct History<'r> {
    random: &'r mut Rng,
    engine: RecordedEngine,
    now: Time,
    related: Related,
    /// The pods of the API server.
    server: BTreeMap<&'static str, api::Pod>,
    /// The changes of pods that the watch has not shown, in order.
    unseen: VecDeque<(&'static str, Option<api::Pod>)>,
    /// The pods as the watch has shown them.
    shown: BTreeMap<Uid, api::Pod>,
    version: u64,
    /// The requests without an answer.
    open: Vec<(EffectId, EffectKind)>,
    /// Whether others take the room of every second victim.
    is_war: bool,
    is_calm: Arc<AtomicBool>,
    /// Whether pods have volumes.
    has_volumes: bool,
    preemptions: Vec<InProgress>,
    /// Victims whose eviction was requested and has not failed, until the watch shows their end.
    ending: BTreeSet<Uid>,
    /// Victims that the budget counts.
    charged: BTreeSet<Uid>,
    /// Names of pods that the status of the budget counts; `None` without a budget.
    budget: Option<BTreeSet<String>>,
    fruitless: FruitlessPreemptions,
    /// The pods that are to be tried again at the end of a pause.
    paused: BTreeMap<Uid, Time>,
    pods: BTreeSet<Uid>,
    /// The number of the last attempt of each pod, and of the last one before a pod came to each node.
    attempts: BTreeMap<Uid, u64>,
    arrivals: BTreeMap<Arc<str>, u64>,
    attempt: u64,
}

/// A preemption whose victims are being evicted.
#[derive(Debug)]
struct InProgress {
    preemptor: Arc<Pod>,
    /// The evictions without an answer.
    requested: BTreeMap<EffectId, Arc<Pod>>,
    last: Arc<Pod>,
    /// Whether the eviction of the last victim is still to be requested.
    last_waits: bool,
    gates: bool,
    has_evicted: bool,
    has_failed: bool,
}

/// What a call into the engine asks for.
#[derive(Default)]
struct Asked {
    evictions: Vec<(EffectId, Eviction)>,
    /// The victims of which an event says that they were preempted, and whether in memory only.
    preempted: Vec<(Uid, bool)>,
    /// The pods whose nomination is cleared.
    cleared: BTreeSet<Uid>,
}

impl<'r> History<'r> {
    fn new(random: &'r mut Rng) -> Self {
        let mut registry = plugins::registry();
        let is_calm = Arc::<AtomicBool>::default();
        let waits = Plugin::new("Waits", Waits(is_calm.clone())).permit().build();
        registry.register("Waits", move |_| Ok(waits.clone())).expect("the name is free");
        let defaults = PLUGINS.iter().chain(&["Waits"]).map(|name| PluginRef::new(name, 0));
        let profile = SchedulerProfile {
            scheduler_name: "default-scheduler".to_owned(),
            ..SchedulerProfile::default()
        };
        let defaults: Vec<_> = defaults.collect();
        let profiles = Profiles::build(&[profile], &defaults, &registry, false);
        let mut config = EngineConfig::new(profiles.expect("the profile is valid"));
        config.seed = random.u64(..);
        config.longest_preemption_pause = LONGEST_PAUSE;
        let mut fruitless = FruitlessPreemptions::default();
        fruitless.set_longest_pause(LONGEST_PAUSE);
        let (is_war, has_volumes) = (random.u8(..3) == 0, random.bool());
        let mut history = Self {
            random,
            engine: Engine::new(config).into(),
            now: Time::from_secs(1000),
            related: Related::default(),
            server: BTreeMap::new(),
            unseen: VecDeque::new(),
            shown: BTreeMap::new(),
            version: 0,
            open: Vec::new(),
            is_war,
            is_calm,
            has_volumes,
            preemptions: Vec::new(),
            ending: BTreeSet::new(),
            charged: BTreeSet::new(),
            budget: None,
            fruitless,
            paused: BTreeMap::new(),
            pods: BTreeSet::new(),
            attempts: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            attempt: 0,
        };
        let nodes = history.random.usize(1..3);
        for name in &NODES[..nodes] {
            let node = new_node(name);
            history.call(|engine, now, ports| engine.apply(Change::Node(node), now, ports));
        }
        if history.random.u8(..3) > 0 {
            history.set_budget();
        }
        if history.has_volumes {
            history.create_volumes();
        }
        history
    }

    /// Calls the engine, and takes in what it asks for.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut RecordedEngine, Time, &mut Ports<'_>) -> T,
    ) -> (T, Asked) {
        let ports = &mut Ports { extenders: &mut (), probe: &mut () };
        let result = call(&mut self.engine, self.now, ports);
        let mut asked = Asked::default();
        for effect in self.engine.take_effects() {
            match effect.kind {
                EffectKind::Evict(eviction) => {
                    asked.evictions.push((effect.id, eviction.clone()));
                    self.open.push((effect.id, EffectKind::Evict(eviction)));
                }
                EffectKind::Event(event) if event.reason == "Preempted" => {
                    asked.preempted.push((event.uid, event.note.ends_with("memory).")));
                }
                EffectKind::Event(_) => {}
                EffectKind::PatchPodStatus { uid, patch, pod, .. } => {
                    if patch.nominated_node_name.as_deref() == Some("") {
                        asked.cleared.insert(uid.clone());
                    }
                    let name = NAMES.into_iter().find(|name| **name == *pod.name);
                    let node = patch.nominated_node_name;
                    if let Some((name, node)) = name.zip(node) {
                        self.change(name, &uid, |pod| {
                            pod.status.nominated_node_name = node.to_string();
                        });
                    }
                }
                kind => self.open.push((effect.id, kind)),
            }
        }
        (result, asked)
    }

    /// Changes a pod of the API server.
    fn change(&mut self, name: &'static str, uid: &Uid, change: impl FnOnce(&mut api::Pod)) {
        let known = self.server.get(name).filter(|pod| Uid::from(&*pod.metadata.uid) == *uid);
        if let Some(mut pod) = known.cloned() {
            change(&mut pod);
            self.store(name, Some(pod));
        }
    }

    fn store(&mut self, name: &'static str, pod: Option<api::Pod>) {
        self.version += 1;
        let version = self.version.to_string();
        let pod = pod.map(|mut pod| {
            pod.metadata.resource_version = version;
            pod
        });
        match &pod {
            Some(pod) => drop(self.server.insert(name, pod.clone())),
            None => drop(self.server.remove(name)),
        }
        self.unseen.push_back((name, pod));
    }

    /// Creates a pod under a name; with a node it is one of another scheduler.
    fn create(&mut self, name: &'static str, node: Option<&str>) {
        self.version += 1;
        let uid = format!("uid-{name}-{}", self.version);
        let cpu = ["1", "1", "2", "3"][self.random.usize(..4)];
        let priority = self.random.i32(0..3) * 10;
        let version = i64::try_from(self.version).unwrap_or_default();
        let mut new = pod(name).uid(&uid).cpu(cpu).priority(priority).started(version);
        if self.random.bool() {
            new = new.label("app", "web");
        }
        if self.random.u8(..4) == 0 {
            new = new.label("waits", "yes");
        }
        if self.has_volumes {
            for claim in CLAIMS {
                new = if self.random.u8(..3) == 0 { new.claim(claim) } else { new };
            }
        }
        if let Some(node) = node {
            new = new.scheduler("other").on(node);
        }
        let mut object = new.api();
        if self.random.u8(..6) == 0 {
            object.status.conditions.push(disruption_target());
        }
        self.pods.insert(Uid::from(&*uid));
        self.store(name, Some(object));
    }

    fn is_pending(&self, pod: &Pod) -> bool {
        self.engine.pending_pod(&pod.key).is_some_and(|own| own.uid == pod.uid)
    }

    fn is_placed(&self, pod: &Uid) -> bool {
        self.engine.cache().placed(pod).is_some()
    }

    fn is_running(&self, pod: &Uid) -> bool {
        self.engine.cache().placed(pod).is_some_and(|placed| !placed.pod.terminating)
    }

    /// Whether the watch has not shown the bind of a pod.
    fn is_assumed(&self, pod: &Uid) -> bool {
        self.is_placed(pod)
            && self.shown.get(pod).is_none_or(|shown| shown.spec.node_name.is_empty())
    }

    fn place_of(&self, pod: &Pod) -> Option<Place> {
        self.is_pending(pod).then(|| self.engine.queue().get(&pod.key))?.map(|(place, _)| place)
    }

    fn act(&mut self, trace: &mut Vec<String>) -> Checked {
        let name = NAMES[self.random.usize(..NAMES.len())];
        match self.random.u32(..32) {
            0..4 if !self.server.contains_key(name) => {
                trace.push(format!("{name} is created"));
                self.create(name, None);
                Ok(())
            }
            4 if !self.server.contains_key(name) => {
                let node = NODES[self.random.usize(..NODES.len())];
                trace.push(format!("others put {name} on {node}"));
                self.create(name, Some(node));
                Ok(())
            }
            0..12 => self.attempt(trace),
            12..18 => self.watch(trace),
            18..26 => self.answer(trace),
            26 | 27 => self.end(name, trace),
            29 if self.random.bool() => {
                let name = NODES[0];
                trace.push(format!("{name} is replaced"));
                self.fruitless.forget_node(name);
                self.call(|engine, now, ports| {
                    engine.apply(Change::NodeDeleted(name.into()), now, ports);
                    engine.apply(Change::Node(new_node(name)), now, ports);
                });
                Ok(())
            }
            28 => {
                trace.push("the budget changes".to_owned());
                self.set_budget();
                Ok(())
            }
            _ => {
                let seconds = [0, 1, 3, 12, 45][self.random.usize(..5)];
                self.pass(Duration::from_secs(seconds), trace)
            }
        }
    }

    /// Tries the next pod.
    fn attempt(&mut self, trace: &mut Vec<String>) -> Checked {
        let foreseen = Foreseen::by(&mut self.engine, &self.related, &mut Vec::new(), self.now)?;
        let nominated: BTreeMap<Arc<str>, Vec<Arc<Pod>>> = {
            let nominator = self.engine.nominator();
            let nodes = nominator.nodes();
            nodes.map(|node| (Arc::from(node), nominator.nominated_to(node))).collect()
        };
        let evicting = self.ending.clone();
        let running: BTreeSet<Uid> =
            self.pods.iter().filter(|pod| self.is_running(pod)).cloned().collect();
        let (attempt, asked) = self.call(|engine, now, ports| engine.schedule_one(now, ports));
        let Some(attempt) = attempt else {
            return rule(asked.evictions.is_empty(), || "evictions without an attempt".to_owned());
        };
        let Attempt { pod, outcome } = &attempt;
        trace.push(format!("{} is tried: {outcome:?}", pod.key));
        self.paused.remove(&pod.uid);
        self.attempt += 1;
        self.attempts.insert(pod.uid.clone(), self.attempt);
        if let Outcome::Assumed(node) = outcome {
            self.arrivals.insert(node.clone(), self.attempt);
        }
        let preemption = foreseen.after(&attempt, &self.engine, false)?;
        if let Outcome::Unschedulable(text) = outcome {
            self.note_pause(pod, text);
            counts_add_up(text, self.engine.cache().cluster().node_count())?;
        }
        let Some(preemption) = preemption else {
            return self.nothing_is_evicted(&asked);
        };
        let mut victims = preemption.victims.clone();
        victims.retain(|own| running.contains(&own.uid) && !evicting.contains(&own.uid));
        let names: Vec<_> = victims.iter().map(|own| own.key.to_string()).collect();
        trace.push(format!("{} preempts {names:?} on {}", pod.key, preemption.node));
        if victims.is_empty() {
            return self.nothing_is_evicted(&asked);
        }
        let lower = nominated.get(&preemption.node).into_iter().flatten();
        for other in lower.filter(|other| other.priority() < pod.priority()) {
            rule(asked.cleared.contains(&other.uid), || {
                format!("{} keeps its nomination in its status", other.key)
            })?;
        }
        self.begin(&preemption, pod, victims, &asked)
    }

    fn nothing_is_evicted(&self, asked: &Asked) -> Checked {
        rule(asked.evictions.is_empty(), || format!("unexpected: {:?}", asked.evictions))
    }

    /// Notes when a pod is to be tried again because a pause ends.
    fn note_pause(&mut self, pod: &Pod, text: &str) {
        let own = self.fruitless.pause_of(&pod.uid, self.now).map(|pause| pause.until);
        let of_nodes = self.fruitless.paused_nodes(pod, self.now).map(|(_, pause)| pause.until);
        if text.contains("paused until") {
            self.paused.extend(own.map(|until| (pod.uid.clone(), until)));
        } else if text.contains("Preemption is paused") {
            self.paused.extend(of_nodes.max().map(|until| (pod.uid.clone(), until)));
        }
    }

    fn charge(&mut self, victim: &Pod) {
        if let Some(disrupted) = &self.budget
            && victim.labels.get("app").is_some()
            && !disrupted.contains(&*victim.key.name)
        {
            self.charged.insert(victim.uid.clone());
        }
    }

    /// Takes in the start of a preemption: all victims but the last are evicted, or the only one.
    fn begin(
        &mut self,
        preemption: &Preemption,
        preemptor: &Arc<Pod>,
        mut victims: Vec<Arc<Pod>>,
        asked: &Asked,
    ) -> Checked {
        victims.iter().for_each(|victim| self.charge(victim));
        self.fruitless.begin(preemptor, &preemption.node, self.now);
        let Some(last) = victims.pop() else { return Ok(()) };
        let mut own = InProgress {
            preemptor: preemptor.clone(),
            requested: BTreeMap::new(),
            last,
            last_waits: true,
            gates: true,
            has_evicted: false,
            has_failed: false,
        };
        let mut asked_for = asked.evictions.iter().peekable();
        for victim in victims {
            self.evict(&mut own, victim, &mut asked_for, asked)?;
        }
        self.advance(own, &mut asked_for, asked)?;
        rule(asked_for.peek().is_none(), || format!("too much is evicted: {:?}", asked.evictions))
    }

    /// Checks that a victim is evicted next, or that its binding is cancelled if it waits in Permit.
    fn evict<'a>(
        &mut self,
        own: &mut InProgress,
        victim: Arc<Pod>,
        asked_for: &mut std::iter::Peekable<impl Iterator<Item = &'a (EffectId, Eviction)>>,
        asked: &Asked,
    ) -> Checked {
        let is_asked = asked_for.peek().is_some_and(|(_, eviction)| eviction.uid == victim.uid);
        if !is_asked {
            let is_cancelled = asked.preempted.contains(&(victim.uid.clone(), true))
                && !self.is_placed(&victim.uid);
            rule(is_cancelled, || format!("{} is not evicted: {own:?}", victim.key))?;
            self.charged.remove(&victim.uid);
            own.has_evicted = true;
            own.gates &= own.last.uid != victim.uid;
            return Ok(());
        }
        let Some((id, eviction)) = asked_for.next() else { return Ok(()) };
        let Eviction { pod, preemptor, condition_message, observed_generation, .. } = eviction;
        let is_right = *pod == victim.key
            && *preemptor == own.preemptor.key
            && *observed_generation == i64::from(victim.generation)
            && condition_message.is_none() == victim.preempted;
        rule(is_right, || format!("{eviction:?} is to evict {victim:?}"))?;
        let is_new = self.ending.insert(victim.uid.clone());
        rule(is_new, || format!("{} is evicted twice", victim.key))?;
        own.requested.insert(*id, victim);
        Ok(())
    }

    /// Evicts the last victim if it is its turn, and ends the preemption if nothing is left to do.
    fn advance<'a>(
        &mut self,
        mut own: InProgress,
        asked_for: &mut std::iter::Peekable<impl Iterator<Item = &'a (EffectId, Eviction)>>,
        asked: &Asked,
    ) -> Checked {
        let is_turn = own.last_waits
            && own.requested.is_empty()
            && !own.has_failed
            && self.is_pending(&own.preemptor);
        // A binding that was cancelled in this call has freed the room already.
        let is_cancelled = asked.preempted.contains(&(own.last.uid.clone(), true));
        let may_be_evicted = self.is_running(&own.last.uid) || is_cancelled;
        if is_turn && may_be_evicted && !self.ending.contains(&own.last.uid) {
            own.last_waits = false;
            own.gates &= !self.is_assumed(&own.last.uid);
            let last = own.last.clone();
            self.evict(&mut own, last, asked_for, asked)?;
        } else if is_turn {
            // It has ended by itself, or another preemption evicts it.
            own.last_waits = false;
        }
        if !own.requested.is_empty() {
            self.preemptions.push(own);
            return Ok(());
        }
        let may_go_on = !own.has_failed && self.is_pending(&own.preemptor);
        if may_go_on && own.gates && self.is_running(&own.last.uid) {
            self.preemptions.push(own);
            return Ok(());
        }
        if own.last_waits {
            self.charged.remove(&own.last.uid);
        }
        self.finish(&own)
    }

    /// Checks that a preemptor is tried again if evictions have failed, or if its victims are gone.
    fn finish(&mut self, own: &InProgress) -> Checked {
        if own.has_failed && !own.has_evicted {
            self.fruitless.call_off(&own.preemptor.uid);
        }
        let is_gated = self
            .preemptions
            .iter()
            .any(|other| other.gates && other.preemptor.uid == own.preemptor.uid);
        let Some(place) = self.place_of(&own.preemptor).filter(|_| !is_gated) else {
            return Ok(());
        };
        let is_tried = !matches!(place, Place::Unschedulable | Place::Gated);
        rule(!own.has_failed || is_tried, || {
            format!("{} is {place:?} after an eviction has failed", own.preemptor.key)
        })?;
        let is_gone = !self.is_placed(&own.last.uid);
        rule(!is_gone || place != Place::Gated, || {
            format!("{} is {place:?}, and its victims are gone", own.preemptor.key)
        })
    }

    /// Lets the API server answer a request.
    fn answer(&mut self, trace: &mut Vec<String>) -> Checked {
        if self.open.is_empty() {
            return Ok(());
        }
        let (id, kind) = self.open.swap_remove(self.random.usize(..self.open.len()));
        match kind {
            EffectKind::Bind { binding, .. } => self.bind(id, &binding, trace),
            EffectKind::Evict(eviction) => {
                let fate = self.random.u8(..8);
                self.answer_eviction(id, &eviction, fate, trace)
            }
            EffectKind::ReadPod { .. } | EffectKind::Fence { .. } => {
                let answer = Answer::Gone("not found".to_owned());
                self.call(|engine, now, ports| engine.answer(id, &answer, now, ports));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn bind(&mut self, id: EffectId, binding: &Binding, trace: &mut Vec<String>) -> Checked {
        let name = NAMES.into_iter().find(|name| **name == *binding.pod.name);
        let known = self.server.get(&*binding.pod.name);
        let is_there = known.is_some_and(|pod| {
            Uid::from(&*pod.metadata.uid) == binding.uid
                && pod.metadata.deletion_timestamp.is_none()
                && pod.spec.node_name.is_empty()
        });
        let answer = match (name, is_there, self.random.u8(..5)) {
            (Some(name), true, 1..) => {
                self.change(name, &binding.uid, |pod| {
                    pod.spec.node_name = binding.node.to_string();
                    pod.status.nominated_node_name.clear();
                });
                Answer::ok()
            }
            (_, true, _) => Answer::Error("refused".to_owned()),
            _ => Answer::Gone("not found".to_owned()),
        };
        trace.push(format!("{} is bound to {}: {answer:?}", binding.pod, binding.node));
        let (_, asked) = self.call(|engine, now, ports| engine.answer(id, &answer, now, ports));
        if !matches!(answer, Answer::Ok(_)) {
            // The pod is on no node any more.
            self.charged.remove(&binding.uid);
        }
        self.nothing_is_evicted(&asked)
    }

    fn answer_eviction(
        &mut self,
        id: EffectId,
        eviction: &Eviction,
        fate: u8,
        trace: &mut Vec<String>,
    ) -> Checked {
        let name = NAMES.into_iter().find(|name| **name == *eviction.pod.name);
        let known = self.server.get(&*eviction.pod.name);
        let is_there = known.is_some_and(|pod| Uid::from(&*pod.metadata.uid) == eviction.uid);
        let answer = match (fate, is_there, name) {
            (_, false, _) => Answer::Gone("not found".to_owned()),
            (0, _, Some(name)) => {
                // The condition was written, and the deletion failed.
                self.change(name, &eviction.uid, |pod| {
                    pod.status.conditions.push(disruption_target());
                });
                Answer::Error("refused".to_owned())
            }
            (1, ..) => Answer::Forbidden("forbidden".to_owned()),
            (2, _, Some(name)) => {
                self.delete(name);
                Answer::Unknown("no answer".to_owned())
            }
            (3..=5, _, Some(name)) => {
                self.change(name, &eviction.uid, |pod| {
                    let now = "2026-01-01T00:00:00Z".to_owned();
                    pod.metadata.deletion_timestamp = Some(now);
                    if !pod.status.conditions.iter().any(|own| own.type_ == "DisruptionTarget") {
                        pod.status.conditions.push(disruption_target());
                    }
                });
                Answer::ok()
            }
            (_, _, Some(name)) => {
                self.delete(name);
                Answer::ok()
            }
            _ => Answer::Error("no such pod".to_owned()),
        };
        trace.push(format!("the eviction of {} is answered: {answer:?}", eviction.pod));
        let preemption = self.preemptions.iter().position(|own| own.requested.contains_key(&id));
        let nominated_to =
            |history: &Self, node: &str| history.engine.nominator().nominated_to(node);
        let placed = self.engine.cache().placed(&eviction.uid);
        let cluster = self.engine.cache().cluster();
        let home = placed.map(|placed| cluster.node_name(placed.node).clone());
        let (_, asked) = self.call(|engine, now, ports| engine.answer(id, &answer, now, ports));
        let Some(place) = preemption else {
            return self.nothing_is_evicted(&asked);
        };
        let mut own = self.preemptions.remove(place);
        let Some(victim) = own.requested.remove(&id) else { return Ok(()) };
        let is_reported = asked.preempted.contains(&(victim.uid.clone(), false));
        match &answer {
            Answer::Ok(_) => {
                own.has_evicted = true;
                rule(is_reported, || format!("no event says that {} is evicted", victim.key))?;
            }
            Answer::Gone(_) => {}
            _ => {
                own.has_failed = true;
                rule(!is_reported, || format!("an event says that {} is evicted", victim.key))?;
                self.ending.remove(&victim.uid);
                self.charged.remove(&victim.uid);
                self.last_ends(&victim.uid, Some(&mut own));
                for pod in home.iter().flat_map(|node| nominated_to(self, node)) {
                    let is_gated = self
                        .preemptions
                        .iter()
                        .any(|other| other.gates && other.preemptor.uid == pod.uid);
                    let place = self.place_of(&pod);
                    let waits = matches!(place, Some(Place::Unschedulable));
                    rule(is_gated || !waits || own.gates && own.preemptor.uid == pod.uid, || {
                        format!("{} counts on {}, which stays", pod.key, victim.key)
                    })?;
                }
            }
        }
        let mut asked_for = asked.evictions.iter().peekable();
        self.advance(own, &mut asked_for, &asked)?;
        rule(asked_for.peek().is_none(), || format!("too much is evicted: {:?}", asked.evictions))
    }

    /// Preemptors are not gated any more once their last victim, whose eviction was requested, ends.
    fn last_ends(&mut self, victim: &Uid, also: Option<&mut InProgress>) {
        for own in self.preemptions.iter_mut().chain(also) {
            if own.last.uid == *victim && !own.last_waits {
                own.gates = false;
            }
        }
        self.preemptions.retain(|own| own.gates || !own.requested.is_empty());
    }

    /// Takes a pod off the API server. In a war others take the room of every second one.
    fn delete(&mut self, name: &'static str) {
        let node = self.server.get(name).map(|pod| pod.spec.node_name.clone());
        self.store(name, None);
        let node = node.filter(|node| !node.is_empty() && self.is_war && self.random.bool());
        if let Some(node) = node {
            self.create(name, Some(&node));
        }
    }

    /// Lets a pod end: at once, or it terminates first.
    fn end(&mut self, name: &'static str, trace: &mut Vec<String>) -> Checked {
        let Some(pod) = self.server.get(name) else { return Ok(()) };
        let is_terminating = pod.metadata.deletion_timestamp.is_some();
        let uid = Uid::from(&*pod.metadata.uid);
        if is_terminating || self.random.bool() {
            trace.push(format!("{name} is gone"));
            self.delete(name);
        } else if !pod.spec.node_name.is_empty() {
            trace.push(format!("{name} terminates"));
            let now = "2026-01-01T00:00:00Z".to_owned();
            self.change(name, &uid, |pod| pod.metadata.deletion_timestamp = Some(now));
        }
        Ok(())
    }

    /// Lets the watch show the next change.
    fn watch(&mut self, trace: &mut Vec<String>) -> Checked {
        let Some((name, object)) = self.unseen.pop_front() else { return Ok(()) };
        let key = PodKey::new("default", name);
        let known = self.shown.values().find(|pod| *pod.metadata.name == *name);
        let known = known.map(|pod| Uid::from(&*pod.metadata.uid));
        let Some(object) = object else {
            trace.push(format!("the watch shows that {name} is gone"));
            let Some(uid) = known else { return Ok(()) };
            let was_placed = self.is_placed(&uid);
            self.ends(&uid);
            let gone = uid.clone();
            let (_, asked) = self.call(|engine, now, ports| {
                engine.apply(Change::PodDeleted { key, uid: gone }, now, ports);
            });
            self.shown.remove(&uid);
            self.charged.remove(&uid);
            if !was_placed {
                self.leaves(&uid, None);
            }
            return self.nothing_is_evicted(&asked);
        };
        let uid = Uid::from(&*object.metadata.uid);
        let new = Pod::from_api(&object);
        trace.push(format!(
            "the watch shows {name} on {:?}, terminating: {}",
            new.node_name, new.terminating
        ));
        let before = self.shown.insert(uid.clone(), object);
        let was_bound = before.is_some_and(|before| !before.spec.node_name.is_empty());
        if new.terminating && new.node_name.is_some() {
            self.ends(&uid);
        }
        let node = new.node_name.clone();
        let (_, asked) =
            self.call(|engine, now, ports| engine.apply(Change::Pod(new.into()), now, ports));
        if let Some(node) = node.filter(|_| !was_bound) {
            self.arrivals.insert(node.clone(), self.attempt);
            self.leaves(&uid, Some(&node));
        }
        self.nothing_is_evicted(&asked)
    }

    /// Takes in that the watch shows the end of a pod.
    fn ends(&mut self, pod: &Uid) {
        self.ending.remove(pod);
        self.last_ends(pod, None);
    }

    /// Takes in that a pod is bound or gone.
    fn leaves(&mut self, pod: &Uid, node: Option<&str>) {
        self.fruitless.end(pod, node, self.now);
        self.paused.remove(pod);
        let stays = |own: &InProgress| own.preemptor.uid != *pod || !own.requested.is_empty();
        self.preemptions.retain(stays);
    }

    /// Sets the budget of the pods with the label `app`, or removes it.
    fn set_budget(&mut self) {
        let is_gone = self.budget.is_some() && self.random.u8(..5) == 0;
        let disrupted: BTreeSet<String> = NAMES
            .iter()
            .filter(|_| self.random.u8(..6) == 0)
            .map(|name| (*name).to_owned())
            .collect();
        let of_status: BTreeMap<&String, &str> =
            disrupted.iter().map(|name| (name, "2026-01-01T00:00:00Z")).collect();
        let object = Arc::new(json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": self.random.i32(0..3), "disruptedPods": of_status},
        }));
        let object = (!is_gone).then_some(object);
        self.set_object(EventResource::PodDisruptionBudget, "web", object);
        self.budget = (!is_gone).then_some(disrupted);
        // The new status counts the victims that have ended.
        let charged = std::mem::take(&mut self.charged);
        let stays = |uid: &Uid| !is_gone && self.is_running(uid);
        self.charged = charged.into_iter().filter(stays).collect();
    }

    fn set_object(&mut self, kind: EventResource, name: &str, object: Option<Arc<Value>>) {
        let is_cluster_scoped =
            matches!(kind, EventResource::PersistentVolume | EventResource::CsiNode);
        let namespace: Arc<str> = if is_cluster_scoped { "" } else { "default" }.into();
        let name: Arc<str> = name.into();
        let key = (kind.clone(), namespace.clone(), name.clone());
        self.related.set(key, object.as_ref());
        self.call(|engine, now, ports| {
            engine.apply(Change::Object { kind, namespace, name, object }, now, ports);
        });
    }

    /// Creates claims with volumes, of which each node can attach one or two.
    fn create_volumes(&mut self) {
        for name in CLAIMS {
            let modes = ["ReadWriteOncePod", "ReadWriteMany", "ReadWriteMany"];
            let modes = json!([modes[self.random.usize(..modes.len())]]);
            let claim = bound_claim(name, name).set("/spec/accessModes", modes.clone());
            let reference = json!({"namespace": "default", "name": name});
            let spec = json!({"csi": {"driver": "d", "volumeHandle": name},
                "accessModes": modes, "claimRef": reference});
            let volume = volume(name, spec);
            let kind = EventResource::PersistentVolumeClaim;
            self.set_object(kind, name, Some(Arc::new(claim.json().clone())));
            let kind = EventResource::PersistentVolume;
            self.set_object(kind, name, Some(Arc::new(volume.json().clone())));
        }
        for name in NODES {
            let limits = csi_node(name, &[("d", Some(self.random.i32(1..3)))]);
            self.set_object(EventResource::CsiNode, name, Some(Arc::new(limits.json().clone())));
        }
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration, trace: &mut Vec<String>) -> Checked {
        let end = self.now + time;
        let mut due = None;
        for _ in 0..1000 {
            due = self.engine.next_deadline().filter(|due| *due <= end);
            self.now = due.unwrap_or(end).max(self.now);
            let (_, asked) = self.call(|engine, now, ports| engine.tick(now, ports));
            self.nothing_is_evicted(&asked)?;
            if due.is_none() {
                break;
            }
        }
        rule(due.is_none(), || format!("what is due at {due:?} is not done"))?;
        trace.push(format!("it is {}", self.now));
        for (uid, until) in &self.paused {
            let waiting =
                self.engine.queue().iter().find(|(place, queued)| {
                    *place == Place::Unschedulable && queued.pod.uid == *uid
                });
            rule(*until > self.now || waiting.is_none(), || {
                format!("{uid} is not tried although its pause has ended at {until}")
            })?;
        }
        self.paused.retain(|_, until| *until > self.now);
        Ok(())
    }

    /// Compares what the engine shows with the model.
    fn check(&mut self) -> Checked {
        // Budgets count pods on nodes only.
        let charged = std::mem::take(&mut self.charged);
        self.charged = charged.into_iter().filter(|uid| self.is_placed(uid)).collect();
        for pod in self.engine.pending() {
            let gates = |own: &InProgress| own.gates && own.preemptor.uid == pod.uid;
            let expected = self.preemptions.iter().any(gates);
            let found = self.engine.is_preempting(&pod.uid);
            rule(found == expected, || {
                format!("{} is preempting: {found}; {:?}", pod.key, self.preemptions)
            })?;
            self.compare_pauses(pod)?;
        }
        for uid in &self.pods {
            let is_open = self
                .preemptions
                .iter()
                .any(|own| own.requested.values().any(|victim| victim.uid == *uid));
            let expected = is_open || self.ending.contains(uid);
            let found = self.engine.is_evicting(uid);
            rule(found == expected, || format!("{uid} is being evicted: {found}"))?;
        }
        let cluster = self.engine.cache().cluster();
        let charged: BTreeSet<Uid> = cluster.evicting("default", "web").cloned().collect();
        rule(charged == self.charged, || {
            format!("the budget counts {charged:?}, not {:?}", self.charged)
        })
    }

    fn compare_pauses(&self, pod: &Pod) -> Checked {
        let handle = self.engine.handle(self.now);
        let fruitless = handle.preemptions.fruitless();
        let own = |all: &FruitlessPreemptions| all.pause_of(&pod.uid, self.now);
        let (found, expected) = (own(fruitless), own(&self.fruitless));
        rule(found == expected, || format!("{} pauses for {found:?}, not {expected:?}", pod.key))?;
        let of_nodes = |all: &FruitlessPreemptions| -> Vec<_> {
            let paused = all.paused_nodes(pod, self.now);
            paused.map(|(node, pause)| (node.clone(), pause)).collect()
        };
        let (found, expected) = (of_nodes(fruitless), of_nodes(&self.fruitless));
        rule(found == expected, || format!("{found:?} pause for {}, not {expected:?}", pod.key))
    }

    /// Lets every request succeed and the watch catch up: no pod waits that fits, or for which evictions make room.
    fn calm_down(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push("all calms down".to_owned());
        self.is_war = false;
        self.is_calm.store(true, Ordering::Relaxed);
        for _ in 0..200 {
            while !self.unseen.is_empty() {
                self.watch(trace)?;
                self.check()?;
            }
            let mut open = std::mem::take(&mut self.open);
            open.sort_by_key(|(id, _)| *id);
            for (id, kind) in open {
                match kind {
                    EffectKind::Bind { binding, .. } => self.bind(id, &binding, trace)?,
                    EffectKind::Evict(eviction) => {
                        self.answer_eviction(id, &eviction, 7, trace)?;
                    }
                    _ => {}
                }
                self.check()?;
            }
            let terminating: Vec<&'static str> = NAMES
                .into_iter()
                .filter(|name| {
                    let pod = self.server.get(name);
                    pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
                })
                .collect();
            terminating.into_iter().for_each(|name| self.delete(name));
            self.attempt(trace)?;
            self.check()?;
            if self.is_at_rest() {
                let due = self.engine.next_deadline().map(|due| due.since(self.now));
                let Some(due) = due.filter(|due| *due < LONGEST_PAUSE * 2) else { break };
                self.pass(due, trace)?;
            } else if self.open.is_empty() && self.unseen.is_empty() {
                self.pass(Duration::from_secs(1), trace)?;
            }
        }
        self.all_is_done()
    }

    fn is_at_rest(&self) -> bool {
        let counts = self.engine.queue().counts();
        self.open.is_empty()
            && self.unseen.is_empty()
            && counts.active + counts.backoff == 0
            && self.engine.binding_count() == 0
    }

    fn all_is_done(&self) -> Checked {
        if !self.is_at_rest() {
            return Ok(());
        }
        let oracle = Oracle::of_engine(&self.engine, &self.related);
        let budgets = Budgets::of_engine(&self.engine, &self.related);
        for pod in self.engine.pending() {
            let takers: Vec<_> = oracle.takers(pod).collect();
            rule(takers.is_empty(), || format!("{} waits, and {takers:?} would take it", pod.key))?;
            let is_paused = self.fruitless.pause_of(&pod.uid, self.now).is_some()
                || self.fruitless.paused_nodes(pod, self.now).next().is_some();
            let mut givers = oracle.candidates(pod, &budgets, self.now).unwrap_or_default();
            // No event says that a pod came which could be evicted, as in kube-scheduler.
            let last = self.attempts.get(&pod.uid);
            givers.retain(|giver| self.arrivals.get(&giver.node) < last);
            rule(is_paused || givers.is_empty(), || {
                format!("{} waits, and evictions would make room: {givers:?}", pod.key)
            })?;
        }
        Ok(())
    }
}

/// Checks that the numbers of nodes in the text of an attempt add up to all nodes. Without numbers the pod was rejected as a
/// whole.
fn counts_add_up(text: &str, nodes: usize) -> Checked {
    let mut parts = text.split(" nodes are available: ").skip(1);
    parts.try_for_each(|part| {
        let list = part.split(". ").next().unwrap_or(part);
        let counts =
            list.split(", ").filter_map(|own| own.split(' ').next()?.parse::<usize>().ok());
        let sum: usize = counts.sum();
        rule(sum == 0 || sum == nodes, || format!("{sum} of {nodes} nodes are explained: {text}"))
    })
}

fn new_node(name: &str) -> Node {
    node(name).allocatable("cpu", "3").build()
}

/// The condition of a victim.
fn disruption_target() -> api::PodCondition {
    api::PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: "PreemptionByScheduler".to_owned(),
        message: String::new(),
    }
}
