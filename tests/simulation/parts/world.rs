//! What the scheduler knows against a naive model: changes come, attempts end in every way, and
//! time passes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::{Count, Ports, Probe};
use engine::queue::QueueConfig;
use engine::world::{Changed, World};
use engine::{Change, Context, EffectId};
use fastrand::Rng;
use framework::{
    EventResource, NodeIx, NominatingInfo, Object, ObjectKey, ObjectUpdate, Pod, PodKey,
    QueuedEntity, QueuedPod, Time, Uid, WaitingPod,
};
use serde_json::{Value, json};
use testkit::{node, pod};

use super::super::rules::{Checked, rule};
use super::plugins::{REJECTORS, profiles};
use super::pods::Shape;
use super::queue_model::same;
use super::world_model::Model;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const NODES: [&str; 3] = ["n", "m", "bank"];
const PERMIT: [&str; 2] = ["P", "Q"];
/// Number of steps of a history.
const STEPS: u32 = 60;
/// The effects of requests have higher ids than those of the world itself.
const FIRST_EFFECT: u64 = 1_000;
/// Number of preemptions in vain after which a node is paused.
const IN_VAIN: u32 = 5;

/// A pod as the API server has it.
#[derive(Debug, Clone)]
struct Own {
    uid: u32,
    version: u64,
    shape: Shape,
    nominated: Option<&'static str>,
    node: Option<&'static str>,
    terminating: bool,
    terminal: bool,
    started: i64,
}

impl Own {
    fn build(&self, name: &str) -> Pod {
        let mut built = self.shape.of(name, self.uid);
        if let Some(nominated) = self.nominated {
            built = built.nominated(nominated);
        }
        if let Some(node) = self.node {
            built = built.on(node);
        }
        if self.started > 0 {
            built = built.started(self.started);
        }
        let mut pod = built.build();
        pod.resource_version = self.version;
        pod.terminating = self.terminating;
        pod.terminal = self.terminal;
        pod
    }
}

/// What the world reports.
#[derive(Debug, Default)]
struct Log {
    incoming: Vec<String>,
    handled: Vec<String>,
}

impl Probe for Log {
    fn count(&mut self, count: Count<'_>) {
        match count {
            Count::Incoming { queue, event } => self.incoming.push(format!("{queue} {event}")),
            Count::Event(event) => self.handled.push(event.to_string()),
            Count::PodEvent(label) => self.handled.push(label.to_owned()),
            _ => {}
        }
    }
}

/// Runs one call into the world.
fn with_context<T>(now: Time, log: &mut Log, call: impl FnOnce(&mut Context<'_>) -> T) -> T {
    call(&mut Context::alone(now, &mut Ports { extenders: &mut (), probe: log }))
}

fn describe(changed: Changed) -> String {
    match changed {
        Changed::Bound { pod, node } => format!("{pod} is bound to {node}"),
        Changed::PendingDeleted(pod) => format!("pending {pod} is gone"),
        Changed::AssumedDeleted(pod) => format!("assumed {pod} goes"),
        Changed::Deleted(pod) => format!("{} is gone", pod.uid),
    }
}

/// A world and its model, which take the same steps.
struct Pair<'r> {
    random: &'r mut Rng,
    trace: &'r mut Vec<String>,
    world: World,
    model: Model,
    log: Log,
    now: Time,
    uids: u32,
    versions: u64,
    /// The last effect of a history.
    effects: u64,
    pods: BTreeMap<&'static str, Own>,
    /// Earlier versions of pods, which a watch may show late.
    earlier: Vec<(&'static str, Own)>,
    /// The pods in flight or in a binding cycle, of the world and of the model.
    attempts: Vec<(QueuedPod, QueuedPod)>,
}

/// Lives through a history of the world.
pub(super) fn run(random: &mut Rng, trace: &mut Vec<String>) -> Checked {
    let config = QueueConfig::default();
    // A few kinds of steps make a history, so that they meet.
    let weights: [u32; 17] = std::array::from_fn(|_| [0, 1, 1, 3][random.usize(..4)]);
    let mut pair = Pair {
        random,
        trace,
        world: World::new(profiles().clone(), config),
        model: Model::new(profiles(), config),
        log: Log::default(),
        now: Time::from_nanos(1_000_400_000_000),
        uids: 0,
        versions: 0,
        effects: FIRST_EFFECT,
        pods: BTreeMap::new(),
        earlier: Vec::new(),
        attempts: Vec::new(),
    };
    for number in 0..STEPS {
        let revision = pair.world.log().revision();
        let before = pair.nodes();
        match number {
            0 => pair.set_node()?,
            1 | 2 => pair.change_pod()?,
            _ => pair.step(&weights)?,
        }
        pair.model.check(&mut pair.world, revision, &before, pair.now)?;
        let Log { incoming, handled } = std::mem::take(&mut pair.log);
        pair.model.queue.check_incoming(&incoming)?;
        pair.model.check_handled(handled)?;
    }
    Ok(())
}

impl Pair<'_> {
    fn step(&mut self, weights: &[u32; 17]) -> Checked {
        let mut number = self.random.u32(..weights.iter().sum::<u32>() + 12);
        let mut kind = 0;
        while let Some(rest) = weights.get(kind).and_then(|weight| number.checked_sub(*weight)) {
            number = rest;
            kind += 1;
        }
        match kind {
            0 => self.set_node(),
            1 => self.delete_node(),
            2 => self.delete_pod(),
            3 => self.show_earlier(),
            4 => self.set_object(),
            5 => self.evict(),
            6 => self.permit(),
            7 => self.wait(),
            8 => self.activate(),
            9 => self.retry(),
            10 => self.clear(),
            11 => self.contest(),
            12 => self.outdated(),
            13 => self.bind(),
            14 => self.assume(),
            15 => self.fail(),
            16 => self.answer(),
            _ if number < 4 => self.change_pod(),
            _ if number < 8 => self.pop(),
            _ if number < 10 => self.fail(),
            _ => self.assume(),
        }
    }

    /// Returns the ids of the nodes.
    fn nodes(&self) -> BTreeMap<Arc<str>, NodeIx> {
        let cluster = self.world.cluster();
        let names = NODES.iter().map(|name| Arc::from(*name));
        names
            .filter_map(|name: Arc<str>| Some((name.clone(), cluster.node_named(&name)?)))
            .collect()
    }

    fn note(&mut self, step: impl std::fmt::Debug) {
        self.trace.push(format!("{} {step:?}", self.now));
    }

    fn one_in(&mut self, chance: u32) -> bool {
        self.random.u32(..chance) == 0
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.usize(..NAMES.len())]
    }

    fn node_name(&mut self) -> &'static str {
        NODES[self.random.usize(..2)]
    }

    fn apply(&mut self, change: Change) -> Checked {
        let now = self.now;
        let expected = self.model.apply(&change, now);
        let changed: Vec<String> = with_context(now, &mut self.log, |cx| {
            let implied = self.world.implied_deletion(&change);
            let changes = implied.into_iter().chain([change]);
            changes.flat_map(|change| self.world.apply(change, cx)).map(describe).collect()
        });
        rule(changed == expected, || format!("{changed:?} instead of {expected:?}"))?;
        // The engine frees the room of such a pod at once, unless it waits in Permit.
        let gone =
            changed.iter().filter_map(|text| text.strip_prefix("assumed ")?.strip_suffix(" goes"));
        for uid in gone.map(Uid::from).collect::<Vec<_>>() {
            self.world.forget(&uid);
            self.model.forget(&uid);
        }
        Ok(())
    }

    fn set_node(&mut self) -> Checked {
        let name = NODES[self.random.usize(..NODES.len())];
        let mut built = node(name);
        if self.one_in(2) {
            built = built.zone(["x", "y"][self.random.usize(..2)]);
        }
        if self.one_in(4) {
            built = built.label("failure-domain.beta.kubernetes.io/region", "r");
        }
        if self.one_in(3) {
            built = built.taint("k", "v", "NoSchedule");
        }
        if self.one_in(3) {
            built = built.unschedulable();
        }
        if self.one_in(3) {
            built = built.allocatable("pods", "10");
        }
        if self.one_in(3) {
            built = built.allocatable("cpu", "4");
        }
        if self.one_in(4) {
            built = built.image("busybox", 1);
        }
        if self.one_in(4) {
            built = built.feature("Resize");
        }
        if self.one_in(4) {
            let ready =
                framework::api::NodeCondition { type_: "Ready".into(), status: "True".into() };
            built = built.with(|node| node.status.conditions.push(ready));
        }
        self.note(("node", name));
        self.apply(Change::Node(built.build()))
    }

    fn delete_node(&mut self) -> Checked {
        let name = NODES[self.random.usize(..NODES.len())];
        self.note(("node deleted", name));
        let is_known = self.world.node(name).is_some();
        self.apply(Change::NodeDeleted(name.into()))?;
        let paused = self.paused();
        rule(!is_known || !paused.iter().any(|paused| **paused == *name), || {
            format!("{name} is still paused")
        })
    }

    /// Returns the nodes that are paused for preemption.
    fn paused(&self) -> Vec<Arc<str>> {
        let preemptor = pod("preemptor").build();
        let fruitless = self.world.preemptions().fruitless();
        fruitless.paused_nodes(&preemptor, self.now).map(|(node, _)| node.clone()).collect()
    }

    /// Preemptions on a node are in vain.
    fn contest(&mut self) -> Checked {
        let node: Arc<str> = self.node_name().into();
        self.note(("in vain", &node));
        let (preemptor, now) = (pod("preemptor").build(), self.now);
        (0..IN_VAIN).for_each(|_| self.world.begin_preemption(&preemptor, &node, now));
        self.world.preemptor_left(&preemptor.uid, None, now);
        rule(self.paused().contains(&node), || format!("{node} is not paused"))
    }

    /// Creates, changes, replaces or binds a pod.
    fn change_pod(&mut self) -> Checked {
        let name = self.name();
        self.versions += 1;
        let known = self.pods.get(name).cloned().filter(|own| !own.terminal);
        let is_new = known.is_none() || self.one_in(12);
        let mut own = match known.filter(|_| !is_new) {
            Some(known) => known,
            None => {
                self.uids += 1;
                let shapes: Vec<Shape> = self.pods.values().map(|own| own.shape).collect();
                let alike = self.random.choice(shapes).filter(|_| self.random.bool());
                let shape = alike.unwrap_or_else(|| Shape::random(self.random));
                Own {
                    uid: self.uids,
                    version: 0,
                    shape,
                    nominated: None,
                    node: None,
                    terminating: false,
                    terminal: false,
                    started: 0,
                }
            }
        };
        own.version = self.versions;
        if is_new {
            own.nominated = self.one_in(5).then(|| self.node_name());
            own.node = self.one_in(8).then(|| self.node_name());
        } else {
            match self.random.u32(..12) {
                0..3 => own.shape.change(self.random),
                3..6 => own.nominated = self.one_in(2).then(|| self.node_name()),
                6 => own.terminating = true,
                7 if own.node.is_some() => own.terminal = true,
                8 if own.node.is_some() => own.started = self.random.i64(1..4),
                9 => own.node = own.node.or_else(|| Some(NODES[self.random.usize(..2)])),
                _ => {}
            }
        }
        self.show(name, own)
    }

    fn show(&mut self, name: &'static str, own: Own) -> Checked {
        self.note(("pod", name, &own));
        if let Some(before) = self.pods.insert(name, own.clone()) {
            self.earlier.push((name, before));
        }
        self.apply(Change::Pod(Box::new(own.build(name))))
    }

    /// The watch shows a pod that was bound, mostly where it was assumed.
    fn bind(&mut self) -> Checked {
        let name = self.name();
        let Some(mut own) = self.pods.get(name).cloned().filter(|own| own.node.is_none()) else {
            return Ok(());
        };
        let uid = Uid::from(&*own.uid.to_string());
        let world = &self.world;
        let assumed =
            world.placed(&uid).map(|placed| world.cluster().node_name(placed.node).to_string());
        let assumed = NODES.into_iter().find(|node| Some(*node) == assumed.as_deref());
        let elsewhere = self.one_in(4);
        own.node = assumed.filter(|_| !elsewhere).or_else(|| Some(NODES[self.random.usize(..2)]));
        self.versions += 1;
        own.version = self.versions;
        self.show(name, own)
    }

    /// The watch shows an earlier version, or the same once more.
    fn show_earlier(&mut self) -> Checked {
        let (name, own) =
            match self.random.choice(&self.earlier).cloned().filter(|_| self.random.bool()) {
                Some(earlier) => earlier,
                None => {
                    let name = self.name();
                    let Some(own) = self.pods.get(name).cloned() else { return Ok(()) };
                    (name, own)
                }
            };
        // Only versions of pods that have not been replaced, and that were not on another node.
        let Some(present) = self.pods.get(name) else { return Ok(()) };
        if present.uid != own.uid || own.node.is_some() && own.node != present.node || own.terminal
        {
            return Ok(());
        }
        self.note(("earlier", name, &own));
        self.apply(Change::Pod(Box::new(own.build(name))))
    }

    fn delete_pod(&mut self) -> Checked {
        let name = self.name();
        let Some(own) = self.pods.remove(name) else { return Ok(()) };
        self.note(("deleted", name));
        let uid = Uid::from(&*own.uid.to_string());
        self.apply(Change::PodDeleted { key: PodKey::new("default", name), uid })
    }

    /// Changes a budget, or another object.
    fn set_object(&mut self) -> Checked {
        let app = self.random.u32(..2).to_string();
        let is_budget = self.one_in(2);
        let (kind, content) = match is_budget {
            true => {
                let counted =
                    if self.one_in(3) { json!({ "a": "2026-01-01T00:00:00Z" }) } else { json!({}) };
                let status =
                    json!({ "disruptionsAllowed": self.random.u32(..2), "disruptedPods": counted });
                let selector = json!({ "matchLabels": { "app": app } });
                (
                    EventResource::PodDisruptionBudget,
                    json!({ "spec": { "selector": selector }, "status": status }),
                )
            }
            false => {
                (EventResource::ResourceClaim, json!({ "spec": { "size": self.random.u32(..2) } }))
            }
        };
        let object: Option<Value> = (!self.one_in(5)).then_some(content);
        self.note(("object", &kind, &app, &object));
        let key = ObjectKey::namespaced(kind, "default".into(), (*app).into());
        if !is_budget && self.one_in(3) {
            // A plugin reports a change.
            let (old, now) = (self.one_in(2).then(|| json!({})), self.now);
            let [old, new] = [old, object]
                .map(|json| Some(Object::decode(key.clone(), json?).expect("the claim decodes")));
            let update = ObjectUpdate { old, new };
            self.model.handle_update(update.clone(), now);
            with_context(now, &mut self.log, |cx| self.world.handle_update(update, cx));
            return Ok(());
        }
        self.apply(Change::decode(key, object).expect("the object decodes"))
    }

    fn evict(&mut self) -> Checked {
        let placed: Vec<Arc<Pod>> =
            self.world.cluster().pods().map(|placed| placed.pod.clone()).collect();
        let Some(victim) = self.random.choice(placed) else { return Ok(()) };
        let begins = !self.one_in(3);
        self.note(("evict", &victim.uid, begins));
        if begins {
            self.world.begin_eviction(&victim);
            self.model.begin_eviction(&victim);
        } else {
            self.world.cancel_eviction(&victim.uid);
            self.model.cancel_eviction(&victim.uid);
        }
        Ok(())
    }

    fn pop(&mut self) -> Checked {
        let now = self.now;
        let popped = with_context(now, &mut self.log, |cx| self.world.pop(cx));
        let popped = popped.map(|entity| match entity {
            QueuedEntity::Pod(queued) => queued,
            QueuedEntity::Group(_) => unreachable!("the model has no groups"),
        });
        self.trace.push(format!("pop {:?}", popped.as_ref().map(|popped| &popped.pod.uid)));
        let world = &self.world;
        let expected = self
            .model
            .on_queue(now, |queue, around| queue.pop(popped.as_ref(), world.queue(), around))?;
        let Some((popped, expected)) = popped.zip(expected) else { return Ok(()) };
        same(&popped.pod.key, &popped, &expected)?;
        self.attempts.push((popped, expected));
        Ok(())
    }

    fn some_attempt(&mut self) -> Option<(QueuedPod, QueuedPod)> {
        let number = self.random.usize(..self.attempts.len().max(1));
        (number < self.attempts.len()).then(|| self.attempts.remove(number))
    }

    fn nominating(&mut self) -> NominatingInfo {
        match self.random.u32(..4) {
            0 => NominatingInfo::Noop,
            1 => NominatingInfo::Override("".into()),
            _ => NominatingInfo::Override(self.node_name().into()),
        }
    }

    /// An attempt fails, perhaps in its binding cycle.
    fn fail(&mut self) -> Checked {
        let Some((real, model)) = self.some_attempt() else { return Ok(()) };
        let count = self.random.usize(..3);
        let rejectors: Vec<&str> =
            (0..count).map(|_| REJECTORS[self.random.usize(..REJECTORS.len())]).collect();
        let nominating = self.nominating();
        let of_template = !rejectors.is_empty() && self.one_in(2);
        self.note(("fail", &real.pod.uid, &rejectors, &nominating, of_template));
        let reject = |mut queued: QueuedPod| {
            queued.history.unschedulable_plugins =
                rejectors.iter().map(|name| (*name).into()).collect();
            queued.history.pending_plugins.clear();
            queued.history.template_rejected = of_template;
            queued
        };
        let (pod, now) = (real.pod.clone(), self.now);
        self.world.remove_waiting(&pod.uid);
        self.model.allow(&pod.uid, None);
        self.world.forget(&pod.uid);
        self.model.forget(&pod.uid);
        let expected = self.model.requeue_failed(reject(model), &nominating, now);
        let known = with_context(now, &mut self.log, |cx| {
            self.world.requeue_failed(reject(real), &nominating, cx)
        });
        rule(known == expected, || "another pod is the failed one".to_owned())?;
        if let NominatingInfo::Override(node) = nominating
            && self.one_in(2)
        {
            self.note(("its nomination is written", &node));
            let effect = self.request();
            self.model.request(&pod, &node, Some(effect));
            self.world.nomination_written(&pod, node, Some(effect));
        }
        if self.one_in(2) {
            self.model.move_others(&pod, now);
            with_context(now, &mut self.log, |cx| self.world.move_others(pod.clone(), cx));
        }
        self.ended(&pod);
        Ok(())
    }

    fn ended(&mut self, pod: &Pod) {
        let now = self.now;
        self.model.on_queue(now, |queue, around| queue.attempt_ended(pod, around));
        with_context(now, &mut self.log, |cx| self.world.attempt_ended(pod, cx));
    }

    /// An attempt has found a node. The pod may wait in Permit, or pass it.
    fn assume(&mut self) -> Checked {
        let Some((real, model)) = self.some_attempt() else { return Ok(()) };
        let (pod, node): (_, Arc<str>) = (real.pod.clone(), self.node_name().into());
        self.note(("assume", &pod.uid, &node));
        let was_free = self.model.assume(&pod, &node);
        let assumed = self.world.assume(&pod, &node);
        let shown = assumed.as_ref().map(|assumed| (&assumed.uid, assumed.node_name.clone())).ok();
        let expected = was_free.then_some((&pod.uid, Some(node)));
        rule(shown == expected, || format!("assumed as {shown:?} instead of {expected:?}"))?;
        if was_free && self.one_in(2) {
            let plugins: Vec<&str> = PERMIT.into_iter().filter(|_| self.random.bool()).collect();
            let pending = plugins.iter().map(|plugin| {
                ((*plugin).into(), self.now + Duration::from_secs(self.random.u64(1..4)))
            });
            let waiting = WaitingPod {
                pod: pod.clone(),
                node: NodeIx::new(0),
                since: self.now,
                pending: pending.collect(),
            };
            if !waiting.pending.is_empty() {
                self.note(("waits", &waiting.pending));
                self.model.wait_on_permit(&waiting);
                self.world.wait_on_permit(waiting);
            }
        } else if was_free {
            self.world.done(&pod.uid);
            self.model.queue.done(&pod.uid);
        }
        self.attempts.push((real, model));
        self.ended(&pod);
        Ok(())
    }

    fn outdated(&mut self) -> Checked {
        let Some((real, model)) = self.some_attempt() else { return Ok(()) };
        let (uid, now) = (real.pod.uid.clone(), self.now);
        self.note(("outdated", &uid));
        self.world.remove_waiting(&uid);
        self.model.allow(&uid, None);
        self.world.forget(&uid);
        self.model.forget(&uid);
        self.model.requeue_outdated(model, now);
        with_context(now, &mut self.log, |cx| self.world.requeue_outdated(real, cx));
        Ok(())
    }

    /// A plugin allows a pod in Permit, or the wait that times out first is asked for.
    fn permit(&mut self) -> Checked {
        let now = self.now;
        let expired = with_context(now, &mut self.log, |cx| self.world.first_expired_wait(cx));
        self.model.check_expired(expired.as_ref(), now)?;
        let uids: Vec<Uid> = self.world.waiting_pods().keys().cloned().collect();
        let Some(uid) = self.random.choice(uids) else { return Ok(()) };
        if self.one_in(4) {
            self.note(("waits no more", &uid));
            let removed = self.world.remove_waiting(&uid).is_some();
            rule(removed == self.model.allow(&uid, None), || format!("{uid} was not waiting"))
        } else {
            let plugin = PERMIT[self.random.usize(..2)];
            self.note(("allow", &uid, plugin));
            let is_allowed = self.world.allow(&uid, plugin).is_some();
            let expected = self.model.allow(&uid, Some(plugin));
            rule(is_allowed == expected, || format!("{uid} is allowed: {is_allowed}"))
        }
    }

    fn wait(&mut self) -> Checked {
        let due = [self.world.queue().next_deadline(), self.world.next_permit_deadline()];
        let due = due.into_iter().flatten().min().map(|due| due.since(self.now));
        let nanos = match (self.random.u32(..5), due) {
            (0 | 1, Some(due)) => due.as_nanos() as u64,
            (4, _) => self.random.u64(1..400) * 1_000_000_000,
            _ => self.random.u64(1..3_000) * 1_000_000,
        };
        self.now = self.now + Duration::from_nanos(nanos);
        let now = self.now;
        self.note("tick");
        self.model.on_queue(now, |queue, around| queue.tick(around));
        with_context(now, &mut self.log, |cx| self.world.flush_queue(cx));
        Ok(())
    }

    fn activate(&mut self) -> Checked {
        let (keys, now) = ([PodKey::new("default", self.name())], self.now);
        self.note(("activate", &keys));
        self.model.on_queue(now, |queue, around| queue.activate(&keys, around));
        with_context(now, &mut self.log, |cx| self.world.activate(&keys, cx));
        Ok(())
    }

    fn retry(&mut self) -> Checked {
        let name = self.name();
        let Some(own) = self.pods.get(name) else { return Ok(()) };
        let (key, now) = (PodKey::new("default", name), self.now);
        let number = own.uid.saturating_sub(self.random.u32(..5) / 4);
        let uid = Uid::from(&*number.to_string());
        self.note(("retry", &uid));
        self.model.retry_pending_after_error(&key, &uid, now);
        with_context(now, &mut self.log, |cx| self.world.retry_pending_after_error(&key, &uid, cx));
        Ok(())
    }

    fn clear(&mut self) -> Checked {
        let name = self.name();
        let Some(own) = self.pods.get(name) else { return Ok(()) };
        let pod = own.build(name);
        self.note(("clear nomination", &pod.uid));
        let effect = self.request();
        self.world.clear_nomination(&pod, Some(effect));
        self.model.end_nomination(&pod, Some(effect));
        Ok(())
    }

    /// Returns the effect of a new request to write a nomination.
    fn request(&mut self) -> EffectId {
        self.effects += 1;
        EffectId::from_u64(self.effects)
    }

    /// The API server answers a write of a nomination, with a version that the watch may have
    /// shown.
    fn answer(&mut self) -> Checked {
        let recent = self.effects.saturating_sub(3).max(FIRST_EFFECT)..=self.effects;
        let effect = EffectId::from_u64(self.random.u64(recent));
        self.versions += u64::from(self.one_in(2));
        let version = self.versions - self.random.u64(..3).min(self.versions);
        self.note(("nomination answered", effect, version));
        let now = self.now;
        self.model.answered(effect, version, now);
        with_context(now, &mut self.log, |cx| self.world.nomination_answered(effect, version, cx));
        Ok(())
    }
}
