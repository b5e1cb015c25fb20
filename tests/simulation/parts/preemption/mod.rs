//! The engine alone with preemption: few pods of three priorities on small nodes, evictions that
//! fail, are late or come to nothing, victims that wait in Permit, budgets, and others that take
//! the room.
//!
//! The oracle of the whole world judges decisions and victims. The model of a preemption says which
//! evictions may be requested when: those of all victims but the last at once, that of the last one
//! after the others, and none if one fails.

mod checks;
mod evictions;
mod others;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::queue::Place;
use engine::{
    Attempt, Change, EffectId, EffectKind, Engine, EngineConfig, Eviction, Input, Outcome,
};
use fastrand::Rng;
use framework::preemption::FruitlessPreemptions;
use framework::{
    Answer, Binding, Node, NominatedPods, Permit, PermitVerdict, Plugin, Pod, PodKey, Time, Uid,
    api,
};
use testkit::{PodBuilder, node};

use self::checks::{counts_add_up, preemption_is_explained};
use super::super::oracle::Related;
use super::super::preemptions::Foreseen;
use super::super::rules::{Checked, rule};

const NODES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 8] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];
/// The longest pause of preemption.
const LONGEST_PAUSE: Duration = Duration::from_secs(40);
/// Time for which a pod waits for an event.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
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

/// Something that happens.
#[derive(Debug, Clone, Copy)]
enum Action {
    Create,
    CreateElsewhere,
    Attempt,
    Watch,
    Answer,
    End,
    ReplaceNode,
    SetBudget,
    Pass,
    /// Preempts again and again in vain: all evictions fail, or others take the room.
    Fight,
}

/// All actions, and how often they are chosen in most histories.
const ACTIONS: [(Action, u32); 10] = [
    (Action::Create, 4),
    (Action::CreateElsewhere, 1),
    (Action::Attempt, 8),
    (Action::Watch, 6),
    (Action::Answer, 8),
    (Action::End, 2),
    (Action::ReplaceNode, 1),
    (Action::SetBudget, 1),
    (Action::Pass, 3),
    (Action::Fight, 0),
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
    fn permit(&self, attempt: framework::AttemptMut<'_>, _: &str) -> PermitVerdict {
        match attempt.pod.labels.get("waits") {
            Some(_) if !self.0.load(Ordering::Relaxed) => {
                PermitVerdict::Wait { timeout: PATIENCE, reason: "waits".to_owned() }
            }
            _ => PermitVerdict::Allow,
        }
    }
}

struct History<'r> {
    random: &'r mut Rng,
    /// How often each action is chosen.
    weights: [u32; ACTIONS.len()],
    /// The chance of 8 that an eviction fails.
    failures: u8,
    /// The last pod that was created, without its name.
    template: Option<PodBuilder>,
    engine: Engine,
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
    /// The chance, of 4, that others take the room of a victim.
    war: u8,
    /// Whether the server refuses nominations.
    refuses_nominations: bool,
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
    /// The pauses that events have announced, also those of pods that were tried since.
    pauses: BTreeMap<Uid, Time>,
    pods: BTreeSet<Uid>,
    /// The number of the last attempt of each pod, and of the last one before a pod came to each
    /// node.
    attempts: BTreeMap<Uid, u64>,
    arrivals: BTreeMap<Arc<str>, u64>,
    /// The nominations of pending pods, and the number after the last one of each node that was
    /// given up.
    nominated: BTreeMap<Uid, Arc<str>>,
    given_up: BTreeMap<Arc<str>, u64>,
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
        let (war, has_volumes) = ([0, 0, 2][random.usize(..3)], random.bool());
        let refuses_nominations = random.u8(..6) == 0;
        let mut weights = ACTIONS.map(|(_, weight)| weight * [1, 1, 2, 4][random.usize(..4)]);
        if random.u8(..3) == 0 {
            weights[Action::Fight as usize] = 4;
        }
        let failures = [1, 3, 3, 6][random.usize(..4)];
        let mut history = Self {
            random,
            weights,
            failures,
            template: None,
            engine: Engine::new(config),
            now: Time::from_secs(1000),
            related: Related::default(),
            server: BTreeMap::new(),
            unseen: VecDeque::new(),
            shown: BTreeMap::new(),
            version: 0,
            open: Vec::new(),
            war,
            refuses_nominations,
            is_calm,
            has_volumes,
            preemptions: Vec::new(),
            ending: BTreeSet::new(),
            charged: BTreeSet::new(),
            budget: None,
            fruitless,
            paused: BTreeMap::new(),
            pauses: BTreeMap::new(),
            pods: BTreeSet::new(),
            attempts: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            nominated: BTreeMap::new(),
            given_up: BTreeMap::new(),
            attempt: 0,
        };
        let nodes = history.random.usize(1..3);
        for name in &NODES[..nodes] {
            let node = new_node(name);
            history.call(|engine, now, ports| {
                engine.step(Input::Change(Change::Node(node)), now, ports)
            });
        }
        if history.random.u8(..3) > 0 {
            history.set_budget();
        }
        if history.has_volumes {
            history.create_volumes();
        }
        if history.random.bool() {
            history.fill();
        }
        history
    }

    /// Calls the engine, and takes in what it asks for.
    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, Time, &mut Ports<'_>) -> T) -> (T, Asked) {
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
                EffectKind::Event(event) if event.reason == "PreemptionPaused" => {
                    let until = event.note.rsplit(' ').next().unwrap_or_default();
                    let until = Time::parse_rfc3339(until);
                    self.pauses.extend(until.map(|until| (event.uid, until)));
                }
                EffectKind::Event(_) => {}
                EffectKind::PatchPodStatus { uid, patch, pod, .. } => {
                    if patch.nominated_node_name.as_deref() == Some("") {
                        asked.cleared.insert(uid.clone());
                    }
                    let name = NAMES.into_iter().find(|name| **name == *pod.name);
                    let node = patch.nominated_node_name;
                    let node = node.filter(|_| !self.refuses_nominations);
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

    fn is_pending(&self, pod: &Pod) -> bool {
        self.engine.pending_pod(&pod.key).is_some_and(|own| own.uid == pod.uid)
    }

    fn is_placed(&self, pod: &Uid) -> bool {
        self.engine.world().placed(pod).is_some()
    }

    fn is_running(&self, pod: &Uid) -> bool {
        self.engine.world().placed(pod).is_some_and(|placed| !placed.pod.terminating)
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
        let is_free = !self.server.contains_key(name);
        match self.choose() {
            Action::Create if is_free => {
                trace.push(format!("{name} is created"));
                self.create(name, None);
                Ok(())
            }
            Action::CreateElsewhere if is_free => {
                let node = NODES[self.random.usize(..NODES.len())];
                trace.push(format!("others put {name} on {node}"));
                self.create(name, Some(node));
                Ok(())
            }
            Action::Create | Action::CreateElsewhere | Action::Attempt => self.attempt(trace),
            Action::Watch => self.watch(trace),
            Action::Answer => self.answer(trace),
            Action::End => {
                let last =
                    self.random.choice(&self.preemptions).map(|own| own.last.key.name.clone());
                let last = NAMES.into_iter().find(|own| last.as_deref() == Some(*own));
                let name = last.filter(|_| self.random.bool()).unwrap_or(name);
                self.end(name, trace)
            }
            Action::Fight => self.fight(trace),
            Action::ReplaceNode if self.random.bool() => {
                let name = NODES[0];
                trace.push(format!("{name} is replaced"));
                self.fruitless.forget_node(name);
                self.call(|engine, now, ports| {
                    engine.step(Input::Change(Change::NodeDeleted(name.into())), now, ports);
                    engine.step(Input::Change(Change::Node(new_node(name))), now, ports);
                });
                Ok(())
            }
            Action::SetBudget => {
                trace.push("the budget changes".to_owned());
                self.set_budget();
                Ok(())
            }
            Action::ReplaceNode | Action::Pass => {
                let seconds = [0, 1, 3, 12, 45][self.random.usize(..5)];
                self.pass(Duration::from_secs(seconds), trace)
            }
        }
    }

    /// Lets preemptors preempt in vain, several times.
    fn fight(&mut self, trace: &mut Vec<String>) -> Checked {
        let before = (self.failures, self.war);
        (self.failures, self.war) = if self.random.u8(..4) == 0 { (8, 0) } else { (0, 4) };
        trace.push(format!("a fight begins, evictions fail: {}", self.war == 0));
        for _ in 0..self.random.usize(3..12) {
            let free = NAMES.into_iter().find(|name| !self.server.contains_key(name));
            if let Some(name) = free.filter(|_| self.random.u8(..4) == 0) {
                self.create(name, None);
            }
            for _ in 0..3 {
                self.attempt(trace)?;
                self.check()?;
            }
            while !self.open.is_empty() {
                self.answer(trace)?;
                self.check()?;
            }
            self.end_terminating();
            while !self.unseen.is_empty() {
                self.watch(trace)?;
                self.check()?;
            }
            let seconds = [1, 1, 4, 12][self.random.usize(..4)];
            self.pass(Duration::from_secs(seconds), trace)?;
        }
        (self.failures, self.war) = before;
        Ok(())
    }

    fn choose(&mut self) -> Action {
        let mut number = self.random.u32(..self.weights.iter().sum::<u32>());
        for ((action, _), weight) in ACTIONS.into_iter().zip(self.weights) {
            match number.checked_sub(weight) {
                Some(rest) => number = rest,
                None => return action,
            }
        }
        Action::Pass
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
        let (attempt, asked) =
            self.call(|engine, now, ports| engine.step(Input::Schedule, now, ports).attempt());
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
        if let Outcome::Unschedulable(text) | Outcome::Repeated(text) = outcome {
            self.note_pause(pod, text);
            let nodes = self.engine.cluster().node_count();
            counts_add_up(text, nodes)?;
            preemption_is_explained(text, nodes)?;
        }
        let Some(preemption) = preemption else {
            return self.nothing_is_evicted(&asked);
        };
        self.nomination_is_written(pod)?;
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

    /// A pod that evicts others has its nomination in its status. The server carries out each patch
    /// at once.
    fn nomination_is_written(&self, pod: &Pod) -> Checked {
        let Some(node) = self.engine.nominator().node_of(&pod.uid) else { return Ok(()) };
        let known = self.server.get(&*pod.key.name);
        let known = known.filter(|known| Uid::from(&*known.metadata.uid) == pod.uid);
        let written = known.map(|known| &*known.status.nominated_node_name);
        let is_written = written.is_none_or(|written| *written == **node);
        rule(is_written || self.refuses_nominations, || {
            format!("{} is nominated to {node}, and its status names {written:?}", pod.key)
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
                let fate = self.some_fate();
                self.answer_eviction(id, &eviction, fate, trace)
            }
            EffectKind::ReadPod { .. } | EffectKind::Fence { .. } => {
                let answer = Answer::Gone("not found".to_owned());
                self.call(|engine, now, ports| {
                    engine.step(Input::Answer { effect: id, answer: answer.clone() }, now, ports)
                });
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
        let (_, asked) = self.call(|engine, now, ports| {
            engine.step(Input::Answer { effect: id, answer: answer.clone() }, now, ports)
        });
        if !matches!(answer, Answer::Ok(_)) {
            // The pod is on no node any more.
            self.charged.remove(&binding.uid);
        }
        self.nothing_is_evicted(&asked)
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration, trace: &mut Vec<String>) -> Checked {
        let end = self.now + time;
        let mut due = None;
        for _ in 0..1000 {
            due = self.engine.next_deadline().filter(|due| *due <= end);
            self.now = due.unwrap_or(end).max(self.now);
            let (waiting, binding) = (self.waiting(), self.engine.binding_count());
            let (_, asked) = self.call(|engine, now, ports| engine.step(Input::Tick, now, ports));
            self.nothing_is_evicted(&asked)?;
            if self.engine.binding_count() == binding {
                self.are_moved_for_a_reason(&waiting)?;
            }
            self.pauses.retain(|_, until| *until > self.now);
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

    /// Returns the pods that wait for an event, and since when.
    fn waiting(&self) -> Vec<(PodKey, Uid, Time)> {
        let queue = self.engine.queue().iter();
        let waiting = queue.filter(|(place, _)| *place == Place::Unschedulable);
        waiting
            .map(|(_, own)| (own.pod.key.clone(), own.pod.uid.clone(), own.history.timestamp))
            .collect()
    }

    /// Without an event, pods that wait for one are moved only after five minutes, or when their
    /// pause has ended.
    fn are_moved_for_a_reason(&self, waiting: &[(PodKey, Uid, Time)]) -> Checked {
        for (key, uid, since) in waiting {
            let place = self.engine.queue().get(key).map(|(place, _)| place);
            let is_over = self.pauses.get(uid).is_some_and(|until| *until <= self.now);
            let is_due = is_over || self.now.since(*since) >= LONGEST_WAIT;
            rule(place == Some(Place::Unschedulable) || is_due, || {
                format!("{uid} waits since {since}, and is {place:?} at {}", self.now)
            })?;
        }
        Ok(())
    }

    /// Lets every request succeed and the watch catch up: no pod waits that fits, or for which
    /// evictions make room.
    fn calm_down(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push("all calms down".to_owned());
        self.war = 0;
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
            self.end_terminating();
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
}

fn new_node(name: &str) -> Node {
    node(name).allocatable("cpu", "3").build()
}
