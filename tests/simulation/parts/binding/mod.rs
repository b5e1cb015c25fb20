//! Binding cycles of the engine alone, with plugins that do anything, extenders and a server that
//! keeps pods in a map.
//!
//! Each request is carried out at once, late or never, and is answered, refused or answered in a
//! way that shows nothing, while pods, nodes and extenders change. The rules are about what the
//! engine does next: what it may send while an earlier bind may yet be carried out, why a cycle
//! ends, which plugins are called, and which pods are tried again.

mod plugin;
mod requests;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::cycle::Extender;
use engine::ports::Ports;
use engine::profile::{PluginRef, Profiles, SchedulerProfile};
use engine::{Attempt, Change, Effect, EffectId, EffectKind, Engine, EngineConfig, Input};
use fastrand::Rng;
use framework::{Answer, EventResource, ObjectKey, Time, Uid};
use testkit::node;

use self::plugin::{Extenders, Seen, look};
use self::requests::{Sent, patch_status};
use super::super::rules::{Checked, rule};
use super::scheduler::server::{Server, Stored, Watched};

/// Number of steps of a history.
const STEPS: usize = 70;
/// Time after which a request of ours is not carried out any more.
const LATEST: Duration = Duration::from_mins(9);
/// The same for a request of an extender.
const LATEST_OF_EXTENDER: Duration = Duration::from_secs(85);
/// Time in which everything that can be bound is bound at rest.
const REST: Duration = Duration::from_mins(11);
/// Number of names of pods.
const PODS: u8 = 3;

/// The known state of the binding cycle of a pod.
#[derive(Debug)]
struct Cycle {
    node: String,
    generation: i64,
    /// Number of binds without an answer.
    unknown: u32,
    /// Number of binds that were refused because the pod had changed.
    outdated: u32,
    /// The version in which an answer has shown the pod last.
    version: Option<u64>,
    /// Whether the server has refused the patch that stops an earlier bind.
    fence_refused: bool,
    /// Whether an extender was asked to bind the pod, which nothing stops.
    by_extender: bool,
}

/// A webhook that refuses writes until the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Webhook {
    None,
    /// The patches that stop binds.
    Fences,
    /// The conditions of failed attempts, so that those of such patches stay.
    Conditions,
}

/// What a call into the engine has led to.
#[derive(Default)]
struct Asked {
    effects: Vec<Effect>,
    /// The pods about which an event says that an attempt has failed, and that they are bound.
    failed: BTreeSet<Uid>,
    bound: BTreeSet<Uid>,
}

struct History {
    server: Server,
    engine: Engine,
    seen: Arc<Mutex<Seen>>,
    extenders: Vec<Extender>,
    dialogue: Extenders,
    /// The last pause of each extender, and when its last outage ended.
    pauses: Vec<(Duration, Time)>,
    /// The calls for which no cycle waits, without an outcome.
    probes: Vec<usize>,
    /// Number of CPUs of each node, and whether it is cordoned.
    nodes: Vec<(u32, bool)>,
    now: Time,
    webhook: Webhook,
    /// Seconds in which conditions have the same time.
    tick: u64,
    /// Number of events of the watch that were delivered.
    delivered: usize,
    sent: Vec<Sent>,
    cycles: BTreeMap<Uid, Cycle>,
    /// The writes beside PreBind, and how often each was tried.
    writes: BTreeMap<EffectId, u32>,
    /// The CPUs of all pods that have been.
    cpus: BTreeMap<Uid, u32>,
    /// The pods that a request of the engine has bound, and how often an event said so.
    bound_by_us: BTreeSet<Uid>,
    scheduled: BTreeMap<Uid, u32>,
    /// Pods that a nomination of another pod has kept from a node in their last attempt. No event
    /// follows its end.
    kept_out: BTreeSet<Uid>,
    next_uid: u32,
    is_calm: bool,
}

/// Lives through one history.
///
/// # Errors
/// A rule is violated.
pub(super) fn live(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let mut history = History::new(random);
    for number in 0..history.nodes.len() {
        history.change_node(number, trace)?;
    }
    for _ in 0..STEPS {
        history.step(random, trace)?;
        history.check()?;
    }
    history.rest(trace)
}

/// Returns an effect for the trace.
fn shown(kind: &EffectKind) -> String {
    match kind {
        EffectKind::Event(event) => {
            format!("event {} of {}: {}", event.reason, event.uid, event.note)
        }
        EffectKind::Bind { binding, resource_version, .. } => {
            format!("Bind {} to {} in version {resource_version}", binding.pod, binding.node)
        }
        EffectKind::ExtenderBind { extender, binding, .. } => {
            format!("Bind {} to {} by extender {extender}", binding.pod, binding.node)
        }
        EffectKind::ReadPod { pod, .. } => format!("ReadPod {pod}"),
        EffectKind::Fence { pod, resource_version, condition, .. } => {
            format!("Fence {pod} in version {resource_version}: {}", condition.message)
        }
        other => format!("{other:?}"),
    }
}

/// Returns an answer for the trace.
fn shown_answer(answer: &Answer) -> String {
    match answer {
        Answer::Ok(Some(pod)) => {
            format!("version {}, spec {}", pod["metadata"]["resourceVersion"], pod["spec"])
        }
        other => format!("{other:?}"),
    }
}

fn new_engine(extenders: &[Extender], seen: &Arc<Mutex<Seen>>, seed: u64) -> Engine {
    let mut registry = plugins::registry();
    let mut defaults: Vec<PluginRef> = Vec::new();
    for name in ["PrioritySort", "NodeUnschedulable", "NodeResourcesFit", "DefaultBinder"] {
        defaults.push(PluginRef::new(name, 0));
    }
    for plugin in plugin::plugins(seen) {
        let name = plugin.name.clone();
        defaults.push(PluginRef::new(&name, 0));
        registry.register(&name, move |_| Ok(plugin.clone())).expect("the names are unique");
    }
    let profile = SchedulerProfile {
        scheduler_name: "default-scheduler".to_owned(),
        ..SchedulerProfile::default()
    };
    let binds = extenders.iter().any(|extender| extender.bind);
    let profiles = Profiles::build(&[profile], &defaults, &registry, binds);
    let profiles = profiles.expect("the profile is in order");
    let extenders = extenders.to_vec();
    Engine::new(EngineConfig { seed, extenders, ..EngineConfig::new(profiles) })
}

impl History {
    fn new(random: &mut Rng) -> Self {
        let count = if random.bool() { 0 } else { random.usize(1..3) };
        let extender = |number: usize| Extender {
            name: format!("http://x{number}").into(),
            filter: random.bool(),
            prioritize: false,
            preempt: false,
            bind: random.u8(..3) > 0,
            weight: 0,
            ignorable: number == 1 || random.bool(),
            managed_resources: BTreeSet::new(),
        };
        let extenders: Vec<Extender> = (0..count).map(extender).collect();
        let seen = Arc::new(Mutex::new(Seen::new(random.u64(..))));
        let dialogue = Extenders { random: random.fork(), ..Extenders::default() };
        let nodes = (0..random.usize(1..3)).map(|_| (random.u32(1..4), false)).collect();
        let mut history = Self {
            server: Server::default(),
            engine: new_engine(&extenders, &seen, random.u64(..)),
            seen,
            pauses: vec![(Duration::ZERO, Time::ZERO); extenders.len()],
            extenders,
            dialogue,
            probes: Vec::new(),
            nodes,
            now: Time::from_secs(1_000_000),
            webhook: [Webhook::None, Webhook::Fences, Webhook::Conditions][random.usize(..3)],
            tick: [1, 1, 200][random.usize(..3)],
            delivered: 0,
            sent: Vec::new(),
            cycles: BTreeMap::new(),
            writes: BTreeMap::new(),
            cpus: BTreeMap::new(),
            bound_by_us: BTreeSet::new(),
            scheduled: BTreeMap::new(),
            kept_out: BTreeSet::new(),
            next_uid: 0,
            is_calm: false,
        };
        for number in 0..random.u8(1..=PODS) {
            history.create(&format!("p{number}"), random);
        }
        history
    }

    fn create(&mut self, name: &str, random: &mut Rng) {
        self.next_uid += 1;
        let (uid, cpu) = (format!("u{}", self.next_uid), random.u32(1..3));
        self.cpus.insert((&*uid).into(), cpu);
        self.server.store(Stored {
            name: name.to_owned(),
            uid,
            version: 0,
            generation: 1,
            cpu,
            does: "anything",
            node: None,
            is_gated: false,
            is_deleting: false,
            is_annotated: false,
            mark: 0,
            conditions: BTreeMap::new(),
            nominated: None,
        });
    }

    /// Calls the engine, and takes in what it asks for.
    fn call<T>(
        &mut self,
        trace: &mut Vec<String>,
        call: impl FnOnce(&mut Engine, Time, &mut Ports<'_>) -> T,
    ) -> Result<(T, Asked), String> {
        let ports = &mut Ports { extenders: &mut self.dialogue, probe: &mut () };
        let result = call(&mut self.engine, self.now, ports);
        let mut asked = Asked { effects: self.engine.take_effects(), ..Asked::default() };
        for Effect { id, kind } in asked.effects.clone() {
            trace.push(format!("{:?}: {id} {}", self.now, shown(&kind)));
            match &kind {
                EffectKind::Event(event) if event.reason == "Scheduled" => {
                    asked.bound.insert(event.uid.clone());
                    *self.scheduled.entry(event.uid.clone()).or_default() += 1;
                }
                // This event says that the outcome of a bind is unknown.
                EffectKind::Event(event) if event.action == "Binding" => {}
                EffectKind::Event(event) => drop(asked.failed.insert(event.uid.clone())),
                // Some patches of the status are refused.
                EffectKind::PatchPodStatus { patch, .. } => {
                    let is_refused = self.webhook == Webhook::Conditions && !self.is_calm;
                    if patch.condition.is_none() || !is_refused {
                        let time = self.time();
                        patch_status(&mut self.server, &kind, &time);
                    }
                }
                _ => {}
            }
            if let Some(sent) = Sent::new(id, kind, self.now) {
                self.may_be_sent(&sent)?;
                if let (EffectKind::ExtenderBind { .. }, Some(cycle)) =
                    (&sent.kind, self.cycles.get_mut(&sent.uid))
                {
                    cycle.by_extender = true;
                }
                self.sent.push(sent);
            }
        }
        Ok((result, asked))
    }

    fn step(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        match random.u8(..32) {
            0..6 => drop(self.schedule(trace)?),
            6..11 => self.deliver(trace)?,
            11..24 if !self.sent.is_empty() => {
                let number = random.usize(..self.sent.len());
                self.happens_to(number, random, trace)?;
            }
            24..27 => self.users_act(random, trace)?,
            27 if !self.probes.is_empty() => {
                let extender = self.probes.remove(0);
                let outcome = if random.bool() { Ok(()) } else { Err("timeout".to_owned()) };
                self.probed(extender, outcome, trace)?;
            }
            _ => {
                let next = self.engine.next_deadline().filter(|_| random.u8(..4) > 0);
                let wait = Duration::from_millis(
                    [50, 900, 2500, 31_000, 100_000, 200_000][random.usize(..6)],
                );
                let wait = next.map_or(wait, |next| next.since(self.now));
                self.wait(wait.min(Duration::from_secs(200)), trace)?;
            }
        }
        Ok(())
    }

    fn schedule(&mut self, trace: &mut Vec<String>) -> Result<Option<Attempt>, String> {
        let outages = self.outages();
        let (attempt, asked) = self
            .call(trace, |engine, now, ports| engine.step(Input::Schedule, now, ports).attempt())?;
        let Some(attempt) = attempt else { return Ok(None) };
        trace.push(format!("{:?}: {} is tried: {:?}", self.now, attempt.pod.key, attempt.outcome));
        self.is_attempt_right(&attempt, &asked, &outages)?;
        Ok(Some(attempt))
    }

    fn deliver(&mut self, trace: &mut Vec<String>) -> Checked {
        let Some(watched) = self.server.watch.get(self.delivered).cloned() else { return Ok(()) };
        self.delivered += 1;
        trace.push(format!("{:?}: the watch shows {watched:?}", self.now));
        let (change, key) = match watched {
            Watched::Is(pod) => (Change::Pod(Box::new(pod.to_pod())), pod.key()),
            Watched::Gone(key, uid) => {
                (Change::PodDeleted { key: key.clone(), uid: (&*uid).into() }, key)
            }
        };
        self.apply(change, &ObjectKey::pod(&key), trace)
    }

    fn apply(&mut self, change: Change, object: &ObjectKey, trace: &mut Vec<String>) -> Checked {
        let waiting: Vec<(Uid, usize)> = {
            let mut seen = look(&self.seen);
            seen.changed.clear();
            let waits = seen.waits.iter();
            let for_it =
                waits.filter(|(_, wait)| wait.objects.is_empty() || wait.objects.contains(object));
            for_it.map(|(key, _)| key.clone()).collect()
        };
        let is_binding = |engine: &Engine, uid: &Uid| engine.is_binding(uid);
        self.call(trace, |engine, now, ports| engine.step(Input::Change(change), now, ports))?;
        let seen = look(&self.seen);
        let missed = waiting
            .iter()
            .find(|key| !seen.changed.contains(key) && is_binding(&self.engine, &key.0));
        rule(missed.is_none(), || format!("{missed:?} waits for {object:?}, and is not called"))?;
        let called = seen.changed.iter().find(|key| !waiting.contains(key));
        rule(called.is_none(), || format!("{called:?} is called, and does not wait for {object:?}"))
    }

    /// Updates a node, or adds it.
    fn change_node(&mut self, number: usize, trace: &mut Vec<String>) -> Checked {
        let (cpus, is_cordoned) = self.nodes[number];
        let name = format!("n{number}");
        let mut new = node(&name).allocatable("cpu", &cpus.to_string());
        new = new.label("changed", &self.now.as_nanos().to_string());
        if is_cordoned {
            new = new.unschedulable();
        }
        trace.push(format!("{:?}: {name} changes, cordoned: {is_cordoned}", self.now));
        let key = ObjectKey::cluster_scoped(EventResource::Node, (&*name).into());
        self.apply(Change::Node(new.build()), &key, trace)
    }

    fn wait(&mut self, wait: Duration, trace: &mut Vec<String>) -> Checked {
        self.now = self.now + wait;
        trace.push(format!("{:?}: after {wait:?}", self.now));
        self.call(trace, |engine, now, ports| engine.step(Input::Tick, now, ports))?;
        let now = self.now;
        self.sent.retain(|sent| !sent.is_answered || now.since(sent.at) < LATEST);
        Ok(())
    }

    fn probed(
        &mut self,
        extender: usize,
        outcome: Result<(), String>,
        trace: &mut Vec<String>,
    ) -> Checked {
        trace.push(format!("{:?}: extender {extender} was tried: {outcome:?}", self.now));
        if outcome.is_ok() && self.dialogue.silent.remove(&extender) {
            self.pauses[extender].1 = self.now;
        }
        self.call(trace, |engine, now, ports| {
            engine.step(Input::ExtenderProbed { extender, outcome }, now, ports);
        })?;
        Ok(())
    }

    /// Users change, delete and replace pods, another scheduler binds them, and nodes change.
    fn users_act(&mut self, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        if random.u8(..4) == 0 {
            let number = random.usize(..self.nodes.len());
            self.nodes[number].1 = !self.nodes[number].1 && random.bool();
            return self.change_node(number, trace);
        }
        let name = format!("p{}", random.u8(..PODS));
        trace.push(format!("{:?}: a user acts on {name}", self.now));
        let Some(pod) = self.server.pods.get(&name).cloned() else {
            self.create(&name, random);
            return Ok(());
        };
        let is_pending = pod.node.is_none() && !pod.is_deleting;
        // Nothing stops a bind of an extender.
        let is_protected = self.extenders.iter().all(|extender| !extender.bind);
        match random.u8(..10) {
            0 | 1 => self.server.delete(&name),
            2 => {
                self.server.delete(&name);
                self.create(&name, random);
            }
            3 => self.server.store(Stored { is_deleting: true, ..pod }),
            4 if is_pending => {
                let generation = pod.generation + 1;
                self.server.store(Stored { generation, ..pod });
            }
            5 if is_pending && is_protected => {
                drop(self.server.bind(&name, "elsewhere".to_owned()))
            }
            _ => self.server.store(Stored { mark: pod.mark + 1, ..pod }),
        }
        Ok(())
    }

    /// Returns the time in conditions. A clock that is corrected back shows the same time for long.
    fn time(&self) -> String {
        let passed = self.now.since(Time::from_secs(0)).as_secs();
        (passed / self.tick * self.tick).to_string()
    }

    /// Whether the request may still be carried out.
    fn is_due(&self, sent: &Sent) -> bool {
        let latest = match sent.kind {
            EffectKind::ExtenderBind { .. } => LATEST_OF_EXTENDER,
            _ => LATEST,
        };
        sent.carried_out.is_none() && self.now.since(sent.at) < latest
    }

    /// Something happens to a request: it is carried out, answered, refused, or answered in a way
    /// that shows nothing.
    fn happens_to(&mut self, number: usize, random: &mut Rng, trace: &mut Vec<String>) -> Checked {
        let sent = &self.sent[number];
        let is_carried_out = sent.carried_out.is_some();
        // A bind without an answer is late for long.
        if sent.is_answered && random.u8(..6) > 0 {
            return Ok(());
        }
        // A read is answered at once: the answer is never older than the timeout of a request.
        let is_read = matches!(sent.kind, EffectKind::ReadPod { .. });
        let is_refused =
            self.webhook == Webhook::Fences && matches!(sent.kind, EffectKind::Fence { .. });
        if sent.is_answered || random.u8(..7) == 0 && !is_carried_out && !is_read && !is_refused {
            return self.carry_out(number, trace);
        }
        let text = |text: &str| text.to_owned();
        let answer = match (&sent.kind, random.u8(..12)) {
            _ if is_refused => Some(Answer::Error(text("webhook"))),
            (_, 0..5) => None,
            (EffectKind::ReadPod { .. }, 5) => Some(Answer::Forbidden(text("may not read"))),
            (EffectKind::ReadPod { .. }, _) => None,
            (_, 5) if !is_carried_out => Some(Answer::Error(text("webhook"))),
            (EffectKind::ExtenderBind { .. }, 6) if !is_carried_out => {
                Some(Answer::Error(text("status 500")))
            }
            (_, 6) if !is_carried_out => Some(Answer::Forbidden(text("not on Sundays"))),
            (_, 7) if !is_carried_out => Some(Answer::Throttled(text("later"))),
            _ => Some(Answer::Unknown(text("connection reset"))),
        };
        if answer.is_none() && !is_carried_out {
            self.carry_out(number, trace)?;
        }
        let is_lost = matches!(answer, Some(Answer::Unknown(_))) && self.sent[number].is_bind();
        let node = self.cycles.get(&self.sent[number].uid).and_then(Cycle::number);
        self.answer(number, answer, trace)?;
        // Often the node does not take the pod again.
        match node.filter(|_| is_lost && random.u8(..5) == 0) {
            Some(node) => {
                self.nodes[node].1 = true;
                self.change_node(node, trace)
            }
            None => Ok(()),
        }
    }

    /// Carries out a request, if that may still happen.
    fn carry_out(&mut self, number: usize, trace: &mut Vec<String>) -> Checked {
        let (sent, time) = (&self.sent[number], self.time());
        if !self.is_due(sent) {
            return Ok(());
        }
        let bound = sent.would_bind(&self.server);
        let answer = sent.serve(&mut self.server, &time);
        trace.push(format!(
            "{:?}: {} is carried out: {}",
            self.now,
            sent.id,
            shown_answer(&answer)
        ));
        let uid = sent.uid.clone();
        if let EffectKind::Bind { generation, .. } = sent.kind
            && bound.is_some()
        {
            let pod = self.server.by_uid(&uid.to_string()).ok_or("no pod")?;
            rule(pod.generation == generation, || {
                format!("{} has changed, and is bound", pod.name)
            })?;
        }
        self.sent[number].carried_out = Some(answer);
        if let Some(node) = bound {
            self.bound_by_us.insert(uid);
            self.has_room(&node)?;
        }
        Ok(())
    }

    /// The engine gets an answer: that of the server, unless another one is given.
    fn answer(
        &mut self,
        number: usize,
        answer: Option<Answer>,
        trace: &mut Vec<String>,
    ) -> Checked {
        let is_unknown = matches!(answer, Some(Answer::Unknown(_)));
        let sent = &mut self.sent[number];
        let Some(answer) = answer.or_else(|| sent.carried_out.clone()) else { return Ok(()) };
        if sent.is_answered {
            return Ok(());
        }
        sent.is_answered = true;
        let (id, kind, key, uid) = (sent.id, sent.kind.clone(), sent.pod.clone(), sent.uid.clone());
        if !is_unknown {
            // It is not under way any more.
            self.sent.remove(number);
        }
        let text = shown_answer(&answer);
        trace.push(format!("{:?}: {id} of {key} is answered: {text}", self.now));
        let was_binding = self.engine.is_binding(&uid);
        if let Some(cycle) = self.cycles.get_mut(&uid) {
            cycle.notes(&kind, &answer);
        }
        look(&self.seen).failed.clear();
        let (_, asked) = self.call(trace, |engine, now, ports| {
            engine.step(Input::Answer { effect: id, answer: answer.clone() }, now, ports)
        })?;
        if was_binding && !self.writes.contains_key(&id) {
            self.has_ended_for_a_reason(&kind, &answer, &key, &uid, &asked)?;
        }
        self.is_write_repeated(id, &answer, &key, &uid, &asked)
    }

    /// Nothing goes wrong any more.
    fn rest(&mut self, trace: &mut Vec<String>) -> Checked {
        trace.push(format!("{:?}: rest", self.now));
        self.is_calm = true;
        look(&self.seen).is_calm = true;
        self.dialogue.is_calm = true;
        self.sent.retain(|sent| !sent.is_answered);
        for pod in self.server.pods.values().cloned().collect::<Vec<_>>() {
            match pod.is_deleting {
                true => self.server.delete(&pod.name),
                // This wakes pods that a plugin has rejected.
                false => self.server.store(Stored { mark: pod.mark + 1, ..pod }),
            }
        }
        for number in 0..self.nodes.len() {
            self.nodes[number].1 = false;
            self.change_node(number, trace)?;
        }
        let end = self.now + REST;
        for _ in 0..2000 {
            let before = (trace.len(), self.delivered);
            let open: Vec<EffectId> = self.sent.iter().map(|sent| sent.id).collect();
            for id in &open {
                let number =
                    self.sent.iter().position(|sent| sent.id == *id).ok_or("no request")?;
                self.carry_out(number, trace)?;
                let is_lost = self.sent[number].carried_out.is_none();
                self.answer(number, is_lost.then(|| Answer::Error("lost".to_owned())), trace)?;
                self.check()?;
            }
            self.deliver(trace)?;
            if self.delivered == self.server.watch.len() {
                self.schedule(trace)?;
            }
            while let Some(extender) = self.probes.pop() {
                self.probed(extender, Ok(()), trace)?;
            }
            self.check()?;
            let next = match self.engine.next_deadline() {
                // Pods are read again and again, which has to take time.
                _ if !open.is_empty() => self.now + Duration::from_secs(20),
                _ if before != (trace.len(), self.delivered) => continue,
                Some(next) => next,
                None => end,
            };
            if next >= end {
                return self.is_right();
            }
            self.wait(next.since(self.now), trace)?;
            self.check()?;
        }
        Err("no rest".to_owned())
    }
}
